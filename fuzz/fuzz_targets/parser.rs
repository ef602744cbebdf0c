//! Any bytes, cut in any way: no panic, no endless loop, the same members as in one piece, and none made of bytes that weren't there.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use shardstream::tar::{Parser, Step};

/// All that the parser says, as text. With `resync` it goes on behind errors.
fn story(archive: &[u8], chunk: usize, resync: bool) -> Vec<String> {
    let mut chunks = archive.chunks(chunk.max(1)).map(Bytes::copy_from_slice);
    let mut parser = Parser::new().max_member(1 << 20);
    let mut said = Vec::new();
    // Every step uses up at least a block, or ends.
    for _ in 0..4 * archive.len() + 16 {
        match parser.next() {
            Ok(Step::NeedMore) => match chunks.next() {
                Some(chunk) => parser.push(chunk),
                None => parser.finish(),
            },
            Ok(Step::End { clean }) => {
                said.push(format!("end {clean}"));
                return said;
            }
            Ok(Step::Member(member)) => {
                let (start, length) = (member.data_offset as usize, member.data.len());
                assert_eq!(member.data[..], archive[start..start + length]);
                assert!(
                    member.header_offset < member.data_offset && member.end() >= member.data_offset
                );
                said.push(format!("{member:?}"));
            }
            Ok(Step::Warning(warning)) => said.push(format!("{warning:?}")),
            Err(error) => {
                assert!(error.offset().is_some_and(|offset| offset <= archive.len() as u64));
                said.push(error.to_string());
                if resync {
                    parser.resync();
                }
            }
        }
    }
    panic!("no end");
}

fuzz_target!(|input: &[u8]| {
    let Some((&[chunk, flags], archive)) = input.split_first_chunk() else { return };
    let resync = flags & 1 != 0;
    let whole = story(archive, usize::MAX, resync);
    assert_eq!(story(archive, usize::from(chunk) + usize::from(flags >> 1) * 256, resync), whole);
});
