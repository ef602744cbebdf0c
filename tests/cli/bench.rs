//! `shardstream bench`: every part is measured, on data of any size.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardstream")).arg("bench").args(arguments).output().unwrap()
}

/// A tar of five pictures with captions, under this name.
fn picture_tar(folder: &tempfile::TempDir) -> String {
    let picture = std::fs::read("tests/data/decode/photo-a.png").unwrap();
    let names: Vec<_> = (0..5).flat_map(|i| [format!("{i}.png"), format!("{i}.txt")]).collect();
    let files: Vec<(&str, &[u8])> = names
        .iter()
        .map(|name| (name.as_str(), if name.ends_with("png") { &picture[..] } else { b"words" }))
        .collect();
    let path = folder.path().join("0.tar");
    std::fs::write(&path, shardstream::testing::tar(&files)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_part_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let tar = picture_tar(&folder);
    let recipe = folder.path().join("recipe.json");
    std::fs::write(&recipe, r#"[{"center_crop": {"width": 16, "height": 16}}]"#).unwrap();
    let short = ["--seconds", "0.05", "--batch", "2", "--shuffle", "3", "--workers", "1"];
    let with = [&[tar.as_str(), "--json", "--recipe", recipe.to_str().unwrap()], &short[..]];
    let output = bench(&with.concat());
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = report["parts"].as_array().unwrap();
    let names: Vec<_> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "walk", "join", "shuffle(3)", "decode", "recipe"]);
    assert!(parts.iter().all(|part| part["samples_per_second"].as_f64().unwrap() > 1.0));
    assert!(report["waits_for"].is_string());

    let output = bench(&[&[tar.as_str(), "--no-decode"], &short[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("1 lane on ") && text.contains("\nshuffle(3)"), "{text}");
    assert!(!text.contains("decode") && text.contains("waits for: "), "{text}");
}

#[test]
fn what_can_not_be_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let tar = picture_tar(&folder);
    let message = |arguments: &[&str]| {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(message(&["/no/such.tar", "--seconds=0.01"]).contains("/no/such.tar"));
    assert!(message(&[&tar, "--seconds=-1"]).contains("--seconds -1"));
    assert!(message(&[&tar, "--recipe", "/no/recipe"]).contains("/no/recipe"));
    let bytes = std::fs::read(&tar).unwrap();
    std::fs::write(&tar, &bytes[..700]).unwrap();
    assert!(message(&[&tar, "--seconds", "0.01"]).contains("cut off"));
}
