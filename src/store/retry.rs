//! What to do after a failed attempt. Pure: time and randomness are passed in.

use std::time::Duration;

use super::transport::{Failure, FailureKind};

/// How often the machine's metadata service is asked for credentials before that is an error.
const CREDENTIALS_ATTEMPTS: u32 = 5;

/// How patiently a remote object is read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RetryOptions {
    /// How long to go on trying without a single new byte.
    pub deadline: Duration,
    /// How many attempts in a row may fail without a single new byte.
    pub attempts: u32,
    /// Waiting time after the first failure; doubles with each further one.
    pub first_delay: Duration,
    /// The waiting time grows no longer than this.
    pub longest_delay: Duration,
    /// A connection that is silent for this long is given up and opened again. Sooner, once it is known how fast the store
    /// usually answers.
    pub stall_timeout: Duration,
    /// A connection that stays below so many bytes a second for 5 seconds is opened again. Off by default: a floor that does not
    /// fit the link makes every stream reconnect for ever. What is far below the usual speed is opened again anyway.
    pub min_speed: Option<u64>,
    /// Where the jitter of the waiting times starts; `None` takes a seed that is different in every process. It has no influence
    /// on the data.
    pub seed: Option<u64>,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(180),
            attempts: 20,
            first_delay: Duration::from_millis(100),
            longest_delay: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(10),
            min_speed: None,
            seed: None,
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Ask again after this time.
    Retry(Duration),
    /// The failure is final.
    GiveUp(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Asking again can't help.
    Final,
    /// The attempts or the time are used up.
    Spent,
}

/// Failures in a row since the last new byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spell {
    /// How many, this one included.
    pub(super) failures: u32,
    /// For how long.
    pub(super) lasted: Duration,
}

/// Decides by the failure, the spell it belongs to, and a random number in `[0, 1)`.
pub(super) fn decide(
    failure: &Failure,
    spell: Spell,
    roll: f64,
    options: &RetryOptions,
) -> Decision {
    if !is_transient(failure.kind) {
        return Decision::GiveUp(Why::Final);
    }
    let wait = delay(failure.kind, spell.failures, roll, options);
    let attempts = match failure.kind {
        // A service that has none is not going to have some soon, and who forgot to set them up wants to know.
        FailureKind::Credentials => options.attempts.min(CREDENTIALS_ATTEMPTS),
        _ => options.attempts,
    };
    if spell.failures >= attempts || spell.lasted.saturating_add(wait) > options.deadline {
        return Decision::GiveUp(Why::Spent);
    }
    Decision::Retry(wait)
}

/// Whether another attempt may fare better.
pub(super) const fn is_transient(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Status { code, .. } => {
            matches!(code, 408 | 421 | 425 | 429 | 500 | 502..=504 | 506..=599)
        }
        FailureKind::Credentials
        | FailureKind::Broken
        | FailureKind::Stalled
        | FailureKind::Slow
        | FailureKind::Mismatch => true,
        FailureKind::PastEnd { .. } | FailureKind::Changed | FailureKind::Final => false,
    }
}

/// Doubling, between half and the whole of the step. A server's own wish is the least, with a little on top so that not all
/// clients come back at once.
fn delay(kind: FailureKind, failures: u32, roll: f64, options: &RetryOptions) -> Duration {
    let step = options
        .first_delay
        .saturating_mul(1 << failures.saturating_sub(1).min(20))
        .min(options.longest_delay);
    let jittered = step.mul_f64(0.5 + roll / 2.0);
    match kind {
        FailureKind::Status { retry_after: Some(asked), .. } => {
            jittered.max(asked.saturating_add(options.first_delay.mul_f64(roll)))
        }
        // Waiting does not help a slow connection, another connection may.
        FailureKind::Stalled | FailureKind::Slow if failures <= 1 => Duration::ZERO,
        _ => jittered,
    }
}

/// Reads the `Retry-After` header: seconds, or a date, which is compared with the `Date` of the same answer, or with `now` (seconds since
/// 1970) where there is none. A date that has passed is no time to wait.
#[cfg(any(feature = "http", test))]
pub(super) fn retry_after(header: &str, date: Option<&str>, now: u64) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = date.and_then(http_date).unwrap_or(now);
    http_date(header).map(|at| Duration::from_secs(at.saturating_sub(now)))
}

/// Seconds since 1970 by this machine's clock.
#[cfg(feature = "http")]
pub(super) fn unix_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Seconds from 1970 to a date as servers have to write it: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[cfg(any(feature = "http", test))]
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> =
        text.trim().strip_suffix(" GMT")?.split_once(", ")?.1.split(' ').collect();
    let [day, month, year, time] = words[..] else { return None };
    let clock: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let [hour, minute, second] = clock[..] else { return None };
    if !(1..=31).contains(&day)
        || !(1970..=9999).contains(&year)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Years begin in March here, so that the day that some have is their last one.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // From 1 March of year 0 to 1 January 1970 there are 719,468 days; 153 days in five months from March on.
    let days = (year * 365 + leap_days + (153 * month + 2) / 5 + day - 1).checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, seconds: Option<u64>) -> Failure {
        Failure::new(
            FailureKind::Status { code, retry_after: seconds.map(Duration::from_secs) },
            "",
        )
    }

    fn options() -> RetryOptions {
        RetryOptions {
            deadline: Duration::from_secs(8),
            attempts: 5,
            longest_delay: Duration::from_secs(1),
            ..RetryOptions::default()
        }
    }

    #[test]
    fn which_failures_are_final() {
        let at = Spell { failures: 1, lasted: Duration::ZERO };
        for code in [400, 401, 403, 404, 405, 410, 411, 412, 416, 451, 501, 505, 301] {
            assert_eq!(
                decide(&status(code, Some(1)), at, 0.5, &options()),
                Decision::GiveUp(Why::Final),
                "{code}"
            );
        }
        for code in [408, 425, 429, 500, 502, 503, 504, 509, 520, 599] {
            assert!(
                matches!(decide(&status(code, None), at, 0.5, &options()), Decision::Retry(_)),
                "{code}"
            );
        }
        for (kind, transient) in [
            (FailureKind::Broken, true),
            (FailureKind::Credentials, true),
            (FailureKind::Stalled, true),
            (FailureKind::Slow, true),
            (FailureKind::Mismatch, true),
            (FailureKind::PastEnd { size: None }, false),
            (FailureKind::Changed, false),
            (FailureKind::Final, false),
        ] {
            let decided = decide(&Failure::new(kind, ""), at, 0.5, &options());
            assert_eq!(matches!(decided, Decision::Retry(_)), transient, "{kind:?}");
        }
    }

    #[test]
    fn the_waiting_time() {
        let (broken, stalled) = (FailureKind::Broken, FailureKind::Stalled);
        let asks = |seconds| FailureKind::Status {
            code: 503,
            retry_after: Some(Duration::from_secs(seconds)),
        };
        for (kind, failures, roll, ms) in [
            (broken, 1, 0.0, 50),
            (broken, 1, 1.0, 100),
            (broken, 2, 0.0, 100),
            (broken, 3, 1.0, 400),
            (broken, 4, 1.0, 800),
            (broken, 5, 1.0, 1000),
            (broken, 60, 1.0, 1000),
            (broken, u32::MAX, 0.0, 500),
            (asks(2), 1, 0.0, 2000),
            (asks(2), 1, 1.0, 2100),
            (asks(0), 3, 1.0, 400),
            (stalled, 1, 1.0, 0),
            (stalled, 2, 1.0, 200),
            (FailureKind::Slow, 1, 1.0, 0),
        ] {
            assert_eq!(
                delay(kind, failures, roll, &options()),
                Duration::from_millis(ms),
                "{kind:?} {failures} {roll}"
            );
        }
    }

    #[test]
    fn one_budget() {
        let spell = |failures, ms| Spell { failures, lasted: Duration::from_millis(ms) };
        let spent = Decision::GiveUp(Why::Spent);
        for (failure, spell, want) in [
            (status(500, None), spell(4, 1000), Decision::Retry(Duration::from_millis(600))),
            (status(500, None), spell(5, 1000), spent),
            (status(500, None), spell(1, 7_925), Decision::Retry(Duration::from_millis(75))),
            (status(500, None), spell(1, 7_926), spent),
            // What the server asks for is longer than we may wait: say so now.
            (status(429, Some(9)), spell(1, 0), spent),
            (status(429, Some(u64::MAX)), spell(1, 0), spent),
        ] {
            assert_eq!(decide(&failure, spell, 0.5, &options()), want, "{failure:?} {spell:?}");
        }
        let patient = RetryOptions { attempts: 20, ..options() };
        let none = Failure::new(FailureKind::Credentials, "");
        assert!(matches!(decide(&none, spell(4, 0), 0.5, &patient), Decision::Retry(_)));
        assert_eq!(decide(&none, spell(5, 0), 0.5, &patient), spent);
    }

    #[test]
    fn the_header() {
        let (date, now) = (Some("Wed, 21 Oct 2026 07:27:30 GMT"), 1_792_567_680 - 40);
        let after = |header, date| retry_after(header, date, now).map(|wait| wait.as_secs());
        assert_eq!(after(" 3 ", date), Some(3));
        // By the server's own clock, or by ours.
        assert_eq!(after("Wed, 21 Oct 2026 07:28:00 GMT", date), Some(30));
        assert_eq!(after("Wed, 21 Oct 2026 07:28:00 GMT", None), Some(40));
        assert_eq!(after("Wed, 21 Oct 2026 07:28:00 GMT", Some("now")), Some(40));
        assert_eq!(after("Wed, 21 Oct 2026 07:00:00 GMT", date), Some(0));
        for header in ["", "soon", "-1", "1.5", "Wed, 21 Okt 2026 07:28:00 GMT", "21 Oct 2026"] {
            assert_eq!(after(header, date), None, "{header}");
        }
    }

    #[test]
    fn dates() {
        // Computed by GNU date.
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Mon, 30 Nov 2026 12:00:00 GMT", 1_796_040_000),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ] {
            assert_eq!(http_date(text), Some(seconds), "{text}");
        }
        for text in [
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 18446744073709551615 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
        ] {
            assert_eq!(http_date(text), None, "{text}");
        }
    }
}
