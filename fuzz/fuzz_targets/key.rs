//! Any name: what the key rule and PiD's renaming promise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardstream::sample::key::{is_data, pid_rename, pid_stem, split};
use shardstream::tar::display;

fuzz_target!(|name: &[u8]| {
    if let Some((key, field)) = split(name) {
        assert_eq!([key, b".", field].concat(), name);
        let base = key.rsplit(|&b| b == b'/').next().unwrap_or_default();
        assert!(!base.is_empty() && !base.contains(&b'.'));
        assert!(!field.contains(&b'/'));
    }
    if is_data(name) {
        assert!(split(name).is_some());
    }
    if let (Some(renamed), Some(stem)) = (pid_rename(name, "a/b"), pid_stem(name)) {
        assert_eq!(renamed.len(), name.len() + 4);
        assert_eq!(&renamed[stem.len()..stem.len() + 4], b".a_b");
        assert!(!renamed[..stem.len()].contains(&b'.'));
    }
    assert!(display(name).len() <= 4 * 256 + 3);
});
