//! What a path or URL means. Pure.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::redact::{redact, split_scheme};

/// Where a path or URL points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location<'a> {
    /// A file, by its path.
    File(Cow<'a, str>),
    /// An object in the memory of this process.
    Memory(&'a str),
    /// An http or https URL, byte for byte.
    Http(&'a str),
    /// An object in a bucket.
    Bucket {
        /// Whose bucket.
        provider: Provider,
        /// Scheme and bucket: `s3://bucket`.
        bucket: &'a str,
        /// The object's key, byte for byte: no decoding.
        key: &'a str,
    },
}

/// Who keeps a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Amazon S3 and all that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl<'a> Location<'a> {
    /// Only `scheme://` makes a URL; everything else is a local path, whatever characters it holds. `file://` URLs are
    /// percent-decoded, `http(s)` URLs are kept as they are, keys in buckets are taken as they stand.
    ///
    /// ```
    /// use shardstream::store::Location;
    /// assert_eq!(Location::parse("a:b#1?.tar")?, Location::File("a:b#1?.tar".into()));
    /// assert_eq!(Location::parse("file:///data/a%20b.tar")?, Location::File("/data/a b.tar".into()));
    /// # Ok::<(), shardstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the scheme is not known, or a URL has no host, bucket or valid percent-encoding where it needs one.
    pub fn parse(path: &'a str) -> Result<Self> {
        let Some((scheme, rest)) = split_scheme(path) else { return Ok(Self::File(path.into())) };
        let wrong = |why: &'static str| Err(Error::config(why).in_shard(redact(path)));
        match scheme.to_ascii_lowercase().as_str() {
            "file" => match rest.strip_prefix("localhost").unwrap_or(rest) {
                local if local.starts_with('/') => match percent_decode(local) {
                    Some(decoded) => Ok(Self::File(decoded.into())),
                    None => {
                        wrong("the percent-encoding of this file URL is broken, or not of UTF-8")
                    }
                },
                _ => wrong("a file URL needs an absolute path: file:///data/000000.tar"),
            },
            "memory" => Ok(Self::Memory(rest)),
            "http" | "https" if rest.is_empty() || rest.starts_with(['/', '?', '#']) => {
                wrong("this URL has no host")
            }
            "http" | "https" => Ok(Self::Http(path)),
            "s3" | "s3a" => bucket(Provider::S3, path, rest),
            "gs" | "gcs" => bucket(Provider::Gcs, path, rest),
            "az" | "azure" | "adl" | "abfs" | "abfss" => bucket(Provider::Azure, path, rest),
            _ => wrong("unknown scheme: known are file, memory, http, https, s3, gs, az and abfs"),
        }
    }

    /// Whether reading goes over a network.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Bucket { .. })
    }
}

fn bucket<'a>(provider: Provider, path: &'a str, rest: &'a str) -> Result<Location<'a>> {
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(Error::config("this URL names no bucket").in_shard(redact(path)));
    }
    let scheme = path.len() - rest.len();
    Ok(Location::Bucket { provider, bucket: &path[..scheme + name.len()], key })
}

/// `None` if a `%` is not followed by two hexadecimal digits, or the result is not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?].map(|digit| char::from(digit).to_digit(16));
            let [Some(high), Some(low)] = digits else { return None };
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scheme_makes_a_url() {
        for path in [
            "a b.tar",
            "100%.tar",
            "a%20b.tar",
            "a#1",
            "a?v=1",
            "é/猫.tar",
            "a:b.tar",
            "{x}.tar",
            "c:/x",
            "1s://x",
            "a b://c",
            "://x",
            "",
        ] {
            assert_eq!(Location::parse(path).unwrap(), Location::File(path.into()), "{path}");
        }
    }

    #[test]
    fn file_urls_are_decoded() {
        for (url, path) in [
            ("file:///a%20b/%E7%8C%AB.tar", "/a b/猫.tar"),
            ("file://localhost/x%25.tar", "/x%.tar"),
            ("FILE:///a?b#c", "/a?b#c"),
        ] {
            assert_eq!(Location::parse(url).unwrap(), Location::File(path.into()), "{url}");
        }
        for url in [
            "file://host/a",
            "file://a",
            "file:///%",
            "file:///%4",
            "file:///%zz",
            "file:///%+1",
            "file:///%ff",
        ] {
            assert!(Location::parse(url).unwrap_err().is_config(), "{url}");
        }
    }

    #[test]
    fn buckets_and_keys() {
        let of = |url| match Location::parse(url).unwrap() {
            Location::Bucket { provider, bucket, key } => (provider, bucket, key),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("s3://b/a%20b?x#y.tar"), (Provider::S3, "s3://b", "a%20b?x#y.tar"));
        assert_eq!(of("gs://b"), (Provider::Gcs, "gs://b", ""));
        assert_eq!(
            of("abfss://c@acc.dfs.core.windows.net/k"),
            (Provider::Azure, "abfss://c@acc.dfs.core.windows.net", "k")
        );
        for url in ["s3://", "s3:///key", "ftp://host/x", "http://", "https:///x"] {
            assert!(Location::parse(url).unwrap_err().is_config(), "{url}");
        }
        assert_eq!(
            Location::parse("HTTPS://h/a?b=%2F").unwrap(),
            Location::Http("HTTPS://h/a?b=%2F")
        );
        assert_eq!(Location::parse("memory://a/b").unwrap(), Location::Memory("a/b"));
    }
}
