//! Paths and URLs as they may be shown: without secrets. Pure.

use std::borrow::Cow;

/// A path or URL as it may be shown: without user, password, query and fragment, which may hold secrets. Local paths are
/// shown as they are. Errors do this with the shard they name.
///
/// ```
/// use shardstream::store::redact;
/// assert_eq!(redact("https://me:pw@host/a.tar?X-Amz-Signature=abc"), "https://host/a.tar?...");
/// assert_eq!(redact("shard?v=1.tar"), "shard?v=1.tar");
/// ```
#[must_use]
pub fn redact(path: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = split_scheme(path) else { return path.into() };
    let is = |names: &[&str]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name));
    if !is(&["http", "https"]) {
        return path.into();
    }
    let (address, hidden) = rest.find(['?', '#']).map_or((rest, ""), |at| (&rest[..at], "?..."));
    let (host, tail) = address.find('/').map_or((address, ""), |at| address.split_at(at));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}{tail}{hidden}").into()
}

/// `("s3", "bucket/key")` of `s3://bucket/key`; `None` for what is a path.
pub(crate) fn split_scheme(path: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = path.split_once("://")?;
    let mut letters = scheme.bytes();
    let starts = letters.next().is_some_and(|b| b.is_ascii_alphabetic());
    (starts && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))
        .then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn secrets_are_not_shown() {
        for (url, shown) in [
            ("http://u:p@h:1/a@b?sig=1", "http://h:1/a@b?..."),
            ("http://u:p@h", "http://h"),
            ("https://h/a#token", "https://h/a?..."),
            ("https://h?a=/@b", "https://h?..."),
            ("https://h/a?...", "https://h/a?..."),
            ("s3://b/k?x", "s3://b/k?x"),
            ("dir/a?b", "dir/a?b"),
        ] {
            assert_eq!(redact(url), shown);
            let text = Error::tar("broken").in_shard(url).to_string();
            assert!(text.contains(shown) && (shown == url || !text.contains(url)), "{text}");
        }
    }
}
