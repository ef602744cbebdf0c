//! Archives cut off at every byte and changed at every byte: an error or the right members, nothing in between.

use bytes::Bytes;
use shardstream::tar::{Member, Parser, Step};

use super::archive::*;

fn victim() -> Vec<u8> {
    tar(&[
        &file(b"id_0.jpg", &[b'a'; 700]),
        &pax(b'x', &[("path", b"id_0.json"), ("size", b"5")]),
        &ustar(b"id_0.json", 0, b'0'),
        &body(b"{\"a\"}"),
        &long_name(&[b'n'; 150]),
        &file(&[b'n'; 99], b"long"),
        &file(b"id_1.jpg", &[b'b'; 512]),
    ])
}

/// Whether it is one of the members of the undamaged archive, whole.
fn known(members: &[Member], member: &Member) -> bool {
    members.iter().any(|whole| whole.name == member.name && whole.data == member.data)
}

#[test]
fn a_cut_never_gives_half_a_member() {
    let archive = victim();
    let whole = read(&archive).members;
    for length in 0..archive.len() {
        let walk = read(&archive[..length]);
        let expected: Vec<_> = whole
            .iter()
            .filter(|member| member.data_offset as usize + member.data.len() <= length)
            .collect();
        assert_eq!(walk.members.iter().collect::<Vec<_>>(), expected, "cut at {length}");
        // Ends without a word only where nothing can be known: between members, in padding, in the end mark.
        let last_header = whole.iter().find(|member| {
            (member.header_offset as usize) < length
                && member.data_offset as usize + member.data.len() > length
        });
        let ended = match walk.end {
            Some(Ok(clean)) => {
                clean == (length >= archive.len() - 512) && last_header.is_none() && length > 0
            }
            Some(Err(ref error)) => {
                last_header.is_some() || length == 0 || error.to_string().contains("header")
            }
            None => false,
        };
        assert!(ended, "cut at {length}: {}", walk.story());
    }
}

#[test]
fn a_changed_byte_never_gives_another_member() {
    let archive = victim();
    let whole = read(&archive).members;
    let size_at = archive.windows(9).position(|window| window == b"9 size=5\n").unwrap();
    let in_body = |at: usize| {
        whole.iter().any(|member| {
            (member.data_offset..member.data_offset + member.data.len() as u64)
                .contains(&(at as u64))
        })
    };
    for at in 0..archive.len() {
        for change in [0x01, 0x80, 0xff, archive[at]] {
            if change == 0 {
                continue;
            }
            let mut damaged = archive.clone();
            damaged[at] ^= change;
            let walk = read(&damaged);
            if in_body(at) {
                // Tar has no checksum for contents.
                assert_eq!(walk.members.len(), whole.len(), "byte {at}");
                continue;
            }
            let block = &archive[at / 512 * 512..][..512];
            let is_header = block[257..262] == *b"ustar";
            for member in &walk.members {
                // What extended headers hold has no checksum either.
                assert!(known(&whole, member) || !is_header, "byte {at} ^ {change:#x}: {member:?}");
                let is_size = (size_at..size_at + 9).contains(&at);
                assert!(
                    is_size || whole.iter().any(|other| other.data == member.data),
                    "byte {at} ^ {change:#x}: half a member"
                );
            }
            // The checksum field itself may be written in more than one way.
            if is_header && !matches!(at % 512, 148..156) {
                let error = walk.error();
                assert!(
                    error.contains(&format!("at byte {}", at / 512 * 512)),
                    "byte {at}: {error}"
                );
            }
        }
    }
}

#[test]
fn resync_never_gives_another_member_and_loses_little() {
    let archive = victim();
    let whole = read(&archive).members;
    for at in (0..archive.len()).filter(|at| {
        archive[at / 512 * 512..][257..262] == *b"ustar" && !matches!(at % 512, 148..156)
    }) {
        let mut damaged = archive.clone();
        damaged[at] ^= 1;
        let mut parser = Parser::new();
        parser.push(Bytes::from(damaged));
        parser.finish();
        let (mut members, mut errors) = (Vec::new(), 0);
        loop {
            match parser.next() {
                Ok(Step::Member(member)) => members.push(member),
                Ok(Step::End { clean }) => {
                    assert!(clean || at > 4096, "byte {at}");
                    break;
                }
                Ok(_) => {}
                Err(_) => {
                    errors += 1;
                    parser.resync();
                }
            }
        }
        // A second one if the broken header held the size of what follows.
        assert!((1..=2).contains(&errors), "byte {at}");
        assert!(members.iter().all(|member| known(&whole, member)), "byte {at}");
        assert!(
            members.len() + 2 >= whole.len(),
            "byte {at}: {} of {}",
            members.len(),
            whole.len()
        );
    }
}

#[test]
fn a_header_that_states_far_too_much_costs_no_member_behind_it() {
    let names: Vec<String> = (0..12).map(|i| format!("{i}.bin")).collect();
    let body = vec![7; 1 << 20];
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &body[..])).collect();
    let mut archive = shardstream::testing::tar(&files).to_vec();
    // The first one says that it has 100 MB, with a right sum: beyond the end of the archive.
    let sum = |archive: &[u8]| -> u32 { archive[..512].iter().map(|&b| u32::from(b)).sum() };
    let before = sum(&archive);
    archive[124..135].copy_from_slice(b"00575360400");
    let stated = u32::from_str_radix(std::str::from_utf8(&archive[148..154]).unwrap(), 8).unwrap();
    let stated = stated + sum(&archive) - before;
    archive[148..154].copy_from_slice(format!("{stated:06o}").as_bytes());
    let mut parser = Parser::new();
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let mut chunks = archive.chunks(300_000);
    loop {
        match parser.next() {
            Ok(Step::NeedMore) => match chunks.next() {
                Some(chunk) => parser.push(Bytes::copy_from_slice(chunk)),
                None => parser.finish(),
            },
            Ok(Step::Member(member)) => {
                assert!(member.data == body);
                found.push(String::from_utf8(member.name.to_vec()).unwrap());
            }
            Ok(Step::End { .. }) => break,
            Ok(_) => {}
            Err(error) => {
                errors.push(error.to_string());
                parser.resync();
            }
        }
    }
    // The one behind a broken place is left out, since an extended header may be lost.
    assert_eq!(found, names[2..]);
    assert!(errors.len() == 1 && errors[0].contains("of the 100000000 bytes"), "{errors:?}");
}
