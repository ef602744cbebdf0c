//! Durations and sizes as people write them: `8s`, `500ms`, `16MiB`. Pure.

use std::time::Duration;

use crate::error::{Error, Result};

/// Reads a duration: a number and `ms`, `s`, `m` or `h`. A bare number is seconds.
///
/// ```
/// use shardstream::store::parse_duration;
/// use std::time::Duration;
/// assert_eq!(parse_duration("1.5s")?, Duration::from_millis(1500));
/// # Ok::<(), shardstream::Error>(())
/// ```
///
/// # Errors
/// If it is not such a text.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let wrong = || {
        Error::config(format!("{text:?} is not a duration: write for example 500ms, 8s, 2m or 1h"))
    };
    let (number, unit) = split_number(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Reads a size in bytes: a number and `B`, `KB`, `MB`, `GB`, `TB` (thousands) or `KiB`, `MiB`, `GiB`, `TiB` (1024s), in
/// any case. A bare number is bytes.
///
/// ```
/// use shardstream::store::parse_size;
/// assert_eq!(parse_size("1.5KiB")?, 1536);
/// # Ok::<(), shardstream::Error>(())
/// ```
///
/// # Errors
/// If it is not such a text.
pub fn parse_size(text: &str) -> Result<u64> {
    let wrong = || {
        Error::config(format!("{text:?} is not a size: write for example 512MiB, 100GB or 1TiB"))
    };
    let (number, unit) = split_number(text).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let power = |base: f64, letters: &str| {
        "kmgt".find(letters).map(|at| base.powi(i32::try_from(at).unwrap_or(0) + 1))
    };
    let scale = match unit.as_str() {
        "" | "b" => Some(1.0),
        unit => match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
            (Some(letter), _) if letter.len() == 1 => power(1024.0, letter),
            (None, Some(letter)) if letter.len() == 1 => power(1000.0, letter),
            (None, None) if unit.len() == 1 => power(1024.0, unit),
            _ => None,
        },
    };
    let bytes = number * scale.ok_or_else(wrong)?;
    if bytes < u64::MAX as f64 { Ok(bytes.round() as u64) } else { Err(wrong()) }
}

/// `(1.5, "s")` of `1.5 s`. No signs, no exponents.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("8s", 8000),
            ("500ms", 500),
            (" 2 m ", 120_000),
            ("1h", 3_600_000),
            ("3", 3000),
            ("0s", 0),
            (".5s", 500),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "s", "-1s", "1 d", "1e3s", "1s2", "..", "inf", "99999999999999999999999h"]
        {
            assert!(parse_duration(text).unwrap_err().is_config(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("7b", 7),
            ("16MiB", 16 << 20),
            ("100 GB", 100_000_000_000),
            ("1tib", 1 << 40),
            ("2K", 2048),
            ("1.5kb", 1500),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "x", "1 XB", "1ib", "1KiBB", "-1", "1KMB", "99999999999TiB"] {
            assert!(parse_size(text).unwrap_err().is_config(), "{text}");
        }
    }
}
