//! Stores against real servers of their protocols: S3 in this process; moto, azurite and fake-gcs-server where `servers.sh` has started them.
#![allow(clippy::unwrap_used)]

mod azure;
#[path = "../store/conformance.rs"]
mod conformance;
mod gcs;
mod harmed;
mod moto;
mod s3;
#[allow(dead_code)]
#[path = "../store/server.rs"]
mod scripted;

use std::net::SocketAddr;

use shardstream::store::{StoreOptions, Stores};

/// A store with these settings and small parts.
fn stores(settings: &[(&str, &str)], part: u64) -> Stores {
    let mut options = StoreOptions::default();
    options.remote.part = part;
    options.remote.retry.first_delay = std::time::Duration::from_millis(1);
    options.remote.retry.longest_delay = std::time::Duration::from_millis(5);
    options.remote.retry.stall_timeout = std::time::Duration::from_millis(500);
    options.settings =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Stores::new(options).unwrap()
}

/// The address of a server that was started outside. Without it the test is left out, and says so; where servers were promised it fails.
fn server(variable: &str) -> Option<SocketAddr> {
    let address = std::env::var(variable).ok();
    if address.is_none() {
        assert!(
            std::env::var("SHARDSTREAM_SERVERS").is_err(),
            "SHARDSTREAM_SERVERS is set, but {variable} is not"
        );
        eprintln!("LEFT OUT: {variable} is not set, see tests/servers/servers.sh");
    }
    address.map(|address| address.parse().unwrap())
}
