//! The profiles of the AWS command line: `~/.aws/credentials` and `~/.aws/config`. Keys, region and endpoint are taken from them, as far
//! as the environment has none.

use std::collections::BTreeMap;

use object_store::aws::AmazonS3ConfigKey as Key;

use crate::error::{Error, Result};

/// The settings of the profile that the environment names (`AWS_PROFILE`, or `default`).
///
/// # Errors
/// If a profile is named and neither file has it.
pub(super) fn from_files(env: impl Fn(&str) -> Option<String>) -> Result<Vec<(Key, String)>> {
    let home = env("HOME").unwrap_or_default();
    let read = |variable: &str, name: &str| {
        let path = env(variable).unwrap_or_else(|| format!("{home}/.aws/{name}"));
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let named = env("AWS_PROFILE").filter(|name| !name.is_empty());
    // Keys in the environment go together with nothing from a file: half of each would be neither.
    let has_keys = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_SKIP_SIGNATURE",
    ];
    let skip_keys = named.is_none() && has_keys.iter().any(|name| env(name).is_some());
    let files =
        [read("AWS_SHARED_CREDENTIALS_FILE", "credentials"), read("AWS_CONFIG_FILE", "config")];
    settings(&files, named.as_deref(), skip_keys)
}

fn settings(files: &[String], named: Option<&str>, skip_keys: bool) -> Result<Vec<(Key, String)>> {
    let profile = named.unwrap_or("default");
    let sections: Vec<_> = files.iter().filter_map(|text| section(text, profile)).collect();
    if let (Some(name), true) = (named, sections.is_empty()) {
        return Err(Error::config(format!(
            "AWS_PROFILE is {name}, but no file has such a profile"
        )));
    }
    let keys = [
        ("aws_access_key_id", Key::AccessKeyId),
        ("aws_secret_access_key", Key::SecretAccessKey),
        ("aws_session_token", Key::Token),
    ];
    let rest = [("region", Key::Region), ("endpoint_url", Key::Endpoint)];
    let find = |name: &str| sections.iter().find_map(|section| section.get(name).cloned());
    let wanted = keys.into_iter().filter(|_| !skip_keys).chain(rest);
    Ok(wanted.filter_map(|(name, key)| Some((key, find(name)?))).collect())
}

/// The values of `[name]` or `[profile name]`.
fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let (mut found, mut inside) = (None, false);
    for line in text.lines() {
        let line = line.trim();
        if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let title = title.trim();
            inside = title.strip_prefix("profile ").map_or(title, str::trim) == name;
            if inside {
                found.get_or_insert_with(BTreeMap::new);
            }
        } else if let (true, Some(section), Some((key, value))) =
            (inside && !line.starts_with(['#', ';']), &mut found, line.split_once('='))
        {
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let credentials = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=B=\n;x = y\n[team]\naws_access_key_id=C\n";
        let config =
            "[profile team]\nregion = eu-1\nendpoint_url = http://h:1/p\n[default]\nregion=us-1";
        let files = [credentials.to_owned(), config.to_owned()];
        let of = |named, skip| {
            let found = settings(&files, named, skip).unwrap();
            found
                .into_iter()
                .map(|(key, value)| format!("{}={value}", key.as_ref()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(None, false),
            ["aws_access_key_id=A", "aws_secret_access_key=B=", "aws_region=us-1"]
        );
        assert_eq!(of(None, true), ["aws_region=us-1"]);
        assert_eq!(
            of(Some("team"), false),
            ["aws_access_key_id=C", "aws_region=eu-1", "aws_endpoint=http://h:1/p"]
        );
        assert!(settings(&files, Some("none"), false).unwrap_err().to_string().contains("none"));
        assert!(settings(&[String::new(), String::new()], None, false).unwrap().is_empty());
    }
}
