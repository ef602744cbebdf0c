//! Sets up the clients of buckets: credentials and settings from the environment, from an AWS profile, and as given.

use object_store::{ClientConfigKey, RetryConfig};

use super::location::Provider;
use super::object::{Bucket, Noting};
use crate::error::{Error, Result};

/// The client of a bucket (`s3://bucket`). Settings are those of `object_store`, by their names (`aws_region`, `endpoint`,
/// `google_service_account` ...); they come after the environment's. What a provider does not know is refused.
pub(super) fn connect(
    provider: Provider,
    name: &str,
    settings: &[(String, String)],
) -> Result<Bucket> {
    let bucket = name.split_once("://").map_or(name, |(_, bucket)| bucket);
    let store = match provider {
        #[cfg(feature = "s3")]
        Provider::S3 => s3(name, bucket, settings),
        #[cfg(feature = "gcs")]
        Provider::Gcs => gcs(name, bucket, settings),
        #[cfg(feature = "azure")]
        Provider::Azure => azure(name, bucket, settings),
        #[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
        missing => {
            let _ = bucket;
            return Err(
                Error::config(format!("built without the feature for {missing:?}")).in_shard(name)
            );
        }
    };
    store.map_err(|error| error.in_shard(name))
}

/// All retries and time limits are ours: one attempt, and no limit on a whole body.
fn one_attempt() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

const TIME_LIMIT: (ClientConfigKey, &str) = (ClientConfigKey::Timeout, "100 days");

/// Applies the settings. Other keys than this provider's are refused, unless they are a sister's: one list may serve all three. An
/// endpoint that is named with `http://` is meant so.
macro_rules! apply {
    ($builder:ident, $settings:expr, $key:ty, $client:path, $endpoint:expr, $foreign:expr) => {{
        for (name, value) in $settings {
            match name.to_ascii_lowercase().parse::<$key>() {
                Ok(key) => $builder = $builder.with_config(key, value),
                Err(_)
                    if $foreign
                        .iter()
                        .any(|prefix| name.to_ascii_lowercase().starts_with(prefix)) => {}
                Err(_) => return Err(Error::config(format!("unknown setting {name}"))),
            }
        }
        if $builder.get_config_value(&$endpoint).is_some_and(|url| url.starts_with("http://")) {
            $builder = $builder.with_config($client(ClientConfigKey::AllowHttp), "true");
        }
        let (key, limit) = TIME_LIMIT;
        $builder
            .with_config($client(key), limit)
            .with_retry(one_attempt())
            .with_http_connector(Noting)
    }};
}

fn refused(error: object_store::Error) -> Error {
    Error::config("the client of this bucket can't be set up").with_source(error)
}

#[cfg(feature = "s3")]
fn s3(name: &str, bucket: &str, settings: &[(String, String)]) -> Result<Bucket> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};

    let mut builder = AmazonS3Builder::from_env();
    for (key, value) in super::profile::from_files(|name| std::env::var(name).ok())? {
        if builder.get_config_value(&key).is_none() {
            builder = builder.with_config(key, value);
        }
    }
    let builder = apply!(builder, settings, Key, Key::Client, Key::Endpoint, ["google_", "azure_"]);
    Ok(Bucket::new(name, builder.with_bucket_name(bucket).build().map_err(refused)?))
}

#[cfg(feature = "gcs")]
fn gcs(name: &str, bucket: &str, settings: &[(String, String)]) -> Result<Bucket> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};

    let mut builder = GoogleCloudStorageBuilder::from_env();
    let builder = apply!(builder, settings, Key, Key::Client, Key::BaseUrl, ["aws_", "azure_"]);
    Ok(Bucket::new(name, builder.with_bucket_name(bucket).build().map_err(refused)?))
}

#[cfg(feature = "azure")]
fn azure(name: &str, bucket: &str, settings: &[(String, String)]) -> Result<Bucket> {
    use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};

    let mut builder = MicrosoftAzureBuilder::from_env();
    let builder = apply!(builder, settings, Key, Key::Client, Key::Endpoint, ["aws_", "google_"]);
    // `abfs://container@account.dfs.core.windows.net` names the account too.
    let builder = if bucket.contains('@') {
        builder.with_url(name)
    } else {
        builder.with_container_name(bucket)
    };
    Ok(Bucket::new(name, builder.build().map_err(refused)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[cfg(feature = "s3")]
    #[test]
    fn settings_are_known_or_refused() {
        let with = |name: &str| {
            let fake = [("aws_access_key_id", "x"), ("aws_secret_access_key", "y"), (name, "z")];
            let settings: Vec<_> = fake
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            connect(Provider::S3, "s3://bucket", &settings)
        };
        assert!(with("AWS_REGION").is_ok());
        assert!(with("google_service_account").is_ok(), "another provider's");
        let text = with("aws_regoin").unwrap_err().to_string();
        assert!(
            text.contains("aws_regoin") && text.contains("s3://bucket") && !text.contains('z'),
            "{text}"
        );
    }
}
