//! Any text as a manifest or a shard pattern: an error, or what is written is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardstream::shard::Braces;
use shardstream::shard::wdinfo::Wdinfo;

fuzz_target!(|input: &[u8]| {
    if let Ok(wdinfo) = Wdinfo::parse(input, "wdinfo.json") {
        assert_eq!(Wdinfo::parse(wdinfo.to_text().as_bytes(), "wdinfo.json").unwrap(), wdinfo);
        let _total = wdinfo.total();
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(braces) = Braces::parse(text) {
        assert!(braces.len() > 0);
        let _ends = (braces.get(0), braces.get(braces.len() - 1));
    }
});
