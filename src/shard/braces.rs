//! `part_{000..999}/{a,b}.tar`: brace patterns, kept as patterns. The i-th name is computed, so that a million shards cost nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A brace pattern: how many names it stands for, and each of them. The last brace varies fastest, as in a shell.
///
/// `{a,b}` lists, `{08..11}` counts (up or down; as wide as its wider end if one of them starts with 0), `{0..9..3}` counts in
/// steps, `{a..e}` goes through letters; lists nest. A brace that holds neither a comma nor a range is plain text, and so is the whole
/// pattern if its braces don't match.
///
/// ```
/// use shardstream::shard::Braces;
/// let pattern = Braces::parse("{train,val}-{08..11}.tar")?;
/// assert_eq!(pattern.len(), 8);
/// assert_eq!(pattern.get(4), "val-08.tar");
/// # Ok::<(), shardstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Braces {
    text: String,
    parts: Vec<Part>,
    len: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Choice(Vec<Vec<Self>>),
    Numbers { first: i64, step: i64, count: u64, width: usize },
    Letters { first: u8, step: i64, count: u64 },
}

impl Braces {
    /// Understands a pattern.
    ///
    /// # Errors
    /// If a range has a step of 0 or of the wrong kind, or the pattern stands for more names than can be counted.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |why: &str| Error::config(format!("shard pattern {text}: {why}"));
        let parts = if balanced(text) {
            sequence(text).map_err(|why| fail(&why))?
        } else {
            vec![Part::Text(text.to_owned())]
        };
        let len = count(&parts).ok_or_else(|| fail("stands for more names than can be counted"))?;
        Ok(Self { text: text.to_owned(), parts, len })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How many names the pattern stands for: at least one.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Never: a pattern stands for at least one name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the pattern stands for itself alone.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The name at a place.
    ///
    /// # Panics
    /// If `place` is not below [`Braces::len`].
    #[must_use]
    pub fn get(&self, place: u64) -> String {
        assert!(place < self.len, "name {place} of a pattern of {}", self.len);
        let mut name = String::with_capacity(self.text.len());
        write_sequence(&self.parts, place, &mut name);
        name
    }

    /// All names, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = String> + '_ {
        (0..usize::try_from(self.len).unwrap_or(usize::MAX)).map(|place| self.get(place as u64))
    }
}

impl From<Braces> for String {
    fn from(pattern: Braces) -> Self {
        pattern.text
    }
}

impl TryFrom<String> for Braces {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl fmt::Display for Braces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn balanced(text: &str) -> bool {
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return false,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

/// The parts of a text whose braces match.
fn sequence(mut text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(open) = text.find('{') {
        push_text(&mut parts, &text[..open]);
        let inside = &text[open + 1..];
        let (items, close) = items(inside);
        match items.as_slice() {
            [only] => match range(only)? {
                Some(range) => parts.push(range),
                // Neither list nor range: the braces are text, what is between them may be a pattern.
                None => {
                    push_text(&mut parts, "{");
                    for part in sequence(only)? {
                        match part {
                            Part::Text(text) => push_text(&mut parts, &text),
                            other => parts.push(other),
                        }
                    }
                    push_text(&mut parts, "}");
                }
            },
            several => parts.push(Part::Choice(
                several.iter().map(|item| sequence(item)).collect::<Result<_, _>>()?,
            )),
        }
        text = &inside[close + 1..];
    }
    push_text(&mut parts, text);
    Ok(parts)
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Splits what follows an opening brace at the commas of its own level; also where its closing brace stands.
fn items(inside: &str) -> (Vec<&str>, usize) {
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (i, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                items.push(&inside[start..i]);
                return (items, i);
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                items.push(&inside[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    // Braces match, so this is not reached; the rest is then one item.
    items.push(&inside[start..]);
    (items, inside.len().saturating_sub(1))
}

/// `first..last` or `first..last..step`, of numbers or of letters.
fn range(text: &str) -> Result<Option<Part>, String> {
    let ends: Vec<&str> = text.split("..").collect();
    let (first, last, step) = match ends.as_slice() {
        [first, last] => (*first, *last, None),
        [first, last, step] => (*first, *last, Some(*step)),
        _ => return Ok(None),
    };
    let by = |distance: u64, down: bool| -> Result<(i64, u64), String> {
        let step = match step {
            None => 1,
            Some(step) => match step
                .parse::<i64>()
                .ok()
                .map(i64::unsigned_abs)
                .filter(|&s| s > 0 && s <= i64::MAX as u64)
            {
                Some(step) => step,
                None => {
                    return Err(format!(
                        "{{{text}}} has step {step}, expected a whole number other than 0"
                    ));
                }
            },
        };
        let count = (distance / step).checked_add(1).ok_or("counts too far")?;
        // At most i64::MAX, as checked.
        Ok((if down { -(step as i64) } else { step as i64 }, count))
    };
    if let (Some(from), Some(to)) = (whole(first), whole(last)) {
        let (step, count) = by(from.abs_diff(to), to < from)?;
        let padded = |end: &str| {
            end.trim_start_matches('-').len() > 1 && end.trim_start_matches('-').starts_with('0')
        };
        let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
        return Ok(Some(Part::Numbers { first: from, step, count, width }));
    }
    if let ([from], [to]) = (first.as_bytes(), last.as_bytes())
        && from.is_ascii_alphabetic()
        && to.is_ascii_alphabetic()
    {
        let (step, count) = by(u64::from(from.abs_diff(*to)), to < from)?;
        return Ok(Some(Part::Letters { first: *from, step, count }));
    }
    Ok(None)
}

/// A whole number written in digits, with `-` in front at most.
fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn count(parts: &[Part]) -> Option<u64> {
    parts.iter().try_fold(1u64, |product, part| product.checked_mul(count_part(part)?))
}

fn count_part(part: &Part) -> Option<u64> {
    match part {
        Part::Text(_) => Some(1),
        Part::Choice(items) => {
            items.iter().try_fold(0u64, |sum, item| sum.checked_add(count(item)?))
        }
        Part::Numbers { count, .. } | Part::Letters { count, .. } => Some(*count),
    }
}

/// Writes the name at a place, a number whose digits are the choices at each part, the last part's the lowest.
fn write_sequence(parts: &[Part], place: u64, name: &mut String) {
    let mut below: u64 = parts.iter().filter_map(count_part).product();
    let mut rest = place;
    for part in parts {
        below /= count_part(part).unwrap_or(1);
        write_part(part, rest / below, name);
        rest %= below;
    }
}

fn write_part(part: &Part, mut choice: u64, name: &mut String) {
    use fmt::Write;

    match part {
        Part::Text(text) => name.push_str(text),
        Part::Choice(items) => {
            for item in items {
                let len = count(item).unwrap_or(0);
                if choice < len {
                    return write_sequence(item, choice, name);
                }
                choice -= len;
            }
        }
        Part::Numbers { first, step, width, .. } => {
            let number = i128::from(*first) + i128::from(*step) * i128::from(choice);
            // Writing to a String doesn't fail.
            let _ = write!(name, "{number:0width$}");
        }
        Part::Letters { first, step, .. } => {
            let letter = i64::from(*first) + step * i64::try_from(choice).unwrap_or(0);
            name.push(u8::try_from(letter).map_or('?', char::from));
        }
    }
}
