//! Any bytes as an index: an error or keys that are found again.
#![no_main]

use std::sync::Once;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use shardstream::shard::{KeyIndex, SampleIndex};

/// The parquet crate panics on some broken files, and the reader under test catches that. What it doesn't catch still ends the run.
static QUIET: Once = Once::new();

fuzz_target!(|input: &[u8]| {
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let file = Bytes::copy_from_slice(input);
    if let Ok(index) = KeyIndex::read(file.clone(), "index") {
        for (place, key) in index.keys().enumerate() {
            assert_eq!(index.place(key.as_bytes()), Some(place));
        }
    }
    if let Ok(index) = SampleIndex::decode(file, "index") {
        assert!((0..index.keys().len()).all(|sample| index.places(sample).is_some()));
    }
});
