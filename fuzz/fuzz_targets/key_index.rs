//! Any bytes as an index: an error or keys that are found again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use shardstream::shard::{KeyIndex, SampleIndex};

fuzz_target!(|input: &[u8]| {
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
