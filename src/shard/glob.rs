//! `part_*/[0-9]?.tar`: patterns over names that exist.

/// A pattern: `*` any characters but `/`, `**/` any folders or none, `**` anything, `?` one character but `/`, `[a-z]` one of these,
/// `[!a-z]` one of the others.
#[derive(Debug)]
pub(super) struct Glob(Vec<Token>);

#[derive(Debug)]
enum Token {
    Char(char),
    One,
    OneOf { ranges: Vec<(char, char)>, inside: bool },
    Star,
    Anything,
    Folders,
}

/// Whether a text has characters that make it a pattern.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?']) || text.find('[').is_some_and(|open| text[open..].contains(']'))
}

/// The folder in which all names of a pattern lie, without its slash.
pub(super) fn folder(text: &str) -> &str {
    let special = text.find(['*', '?', '[']).unwrap_or(text.len());
    text[..special].rfind('/').map_or("", |slash| &text[..slash.max(1)])
}

impl Glob {
    pub(super) fn parse(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (token, len) = match first {
                '*' if rest.starts_with("**/") => (Token::Folders, 3),
                '*' if rest.starts_with("**") => (Token::Anything, 2),
                '*' => (Token::Star, 1),
                '?' => (Token::One, 1),
                '[' => set(rest).unwrap_or((Token::Char('['), 1)),
                other => (Token::Char(other), other.len_utf8()),
            };
            tokens.push(token);
            rest = &rest[len..];
        }
        Self(tokens)
    }

    /// Whether a name fits. Takes at most (length of the pattern) * (length of the name) steps.
    pub(super) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        // After which characters of the name the tokens so far may end.
        let mut ends = vec![false; name.len() + 1];
        ends[0] = true;
        for token in &self.0 {
            ends = token.step(&ends, &name);
        }
        ends[name.len()]
    }
}

impl Token {
    fn step(&self, ends: &[bool], name: &[char]) -> Vec<bool> {
        let mut next = vec![false; ends.len()];
        // Whether a token that takes many characters is on its way.
        let mut open = false;
        for (i, end) in next.iter_mut().enumerate() {
            let last = i.checked_sub(1).map(|i| name[i]);
            *end = match self {
                Self::Star => {
                    open = ends[i] || (open && last != Some('/'));
                    open
                }
                Self::Anything => {
                    open |= ends[i];
                    open
                }
                Self::Folders => {
                    let end = ends[i] || (open && last == Some('/'));
                    open |= ends[i];
                    end
                }
                one => last.is_some_and(|c| ends[i - 1] && one.takes(c)),
            };
        }
        next
    }

    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::One => c != '/',
            Self::OneOf { ranges, inside } => {
                c != '/' && ranges.iter().any(|(low, high)| (low..=high).contains(&&c)) == *inside
            }
            Self::Star | Self::Anything | Self::Folders => false,
        }
    }
}

/// The set at the head of a text, and its length; `None` if its bracket is not closed.
fn set(text: &str) -> Option<(Token, usize)> {
    let body = text.strip_prefix('[')?;
    let (body, inside) = match body.strip_prefix(['!', '^']) {
        Some(rest) => (rest, false),
        None => (body, true),
    };
    // A bracket in first place stands for itself.
    let close = body.char_indices().skip(1).find(|(_, c)| *c == ']')?.0;
    let chars: Vec<char> = body[..close].chars().collect();
    let (mut ranges, mut i) = (Vec::new(), 0);
    while i < chars.len() {
        if i + 2 < chars.len() && chars[i + 1] == '-' {
            ranges.push((chars[i], chars[i + 2]));
            i += 3;
        } else {
            ranges.push((chars[i], chars[i]));
            i += 1;
        }
    }
    Some((Token::OneOf { ranges, inside }, text.len() - body.len() + close + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit() {
        for (pattern, fits, fails) in [
            (
                "a/*.tar",
                &["a/0.tar", "a/.tar"][..],
                &["a/b/0.tar", "b/a/0.tar", "a/0.tar.gz", "a/0tar"][..],
            ),
            (
                "a/**/*.tar",
                &["a/0.tar", "a/b/0.tar", "a/b/c/0.tar"],
                &["b/0.tar", "a/0.txt", "ab/0.tar"],
            ),
            ("a/**", &["a/", "a/b/c"], &["a", "b/a/c"]),
            ("?-[0-9a]é.tar", &["x-7é.tar", "é-aé.tar"], &["/-7é.tar", "x-bé.tar", "x-77é.tar"]),
            ("[!0-9]", &["x"], &["7", "/", ""]),
            ("[]x]", &["]", "x"], &["[", ""]),
            ("a[b", &["a[b"], &["ab"]),
            (
                "*a*a*a*a*a*a*a*a*b",
                &["aaaaaaaaxb"],
                &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
            ),
        ] {
            let glob = Glob::parse(pattern);
            for name in fits {
                assert!(glob.matches(name), "{pattern} {name}");
            }
            for name in fails {
                assert!(!glob.matches(name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn folders() {
        assert_eq!(
            (folder("a/b*/c/*"), folder("*.tar"), folder("/*.tar"), folder("/a/?")),
            ("a", "", "/", "/a")
        );
        assert!(is_glob("[a]") && is_glob("?") && !is_glob("a[b") && !is_glob("{a,b}"));
    }
}
