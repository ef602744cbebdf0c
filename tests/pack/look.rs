//! `info`, `preview`, completions and manual pages.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::TryStreamExt;
use serde_json::Value as Json;
use shardstream::augment::{Augment, Pipeline};
use shardstream::pack::{ShardLimit, pack};
use shardstream::prelude::*;
use shardstream::sample::Image;
use shardstream::shard::DataSet;
use tempfile::tempdir;

use crate::support::{flat, shardstream, stderr, write_photos, write_samples};

async fn photos(folder: &Path) -> String {
    let (input, output) = (folder.join("in"), folder.join("out"));
    write_photos(&input);
    let mut options = flat(&input, &output).limit(ShardLimit::samples(5));
    options.shuffle = false;
    options.root = None;
    pack(options).await.unwrap();
    output.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn info_counts_what_is_there() {
    let folder = tempdir().unwrap();
    let output = photos(folder.path()).await;
    let told = shardstream(&[
        "info",
        &output,
        "--all-shards",
        "--json",
        "--batch",
        "2",
        "--world-size",
        "2",
        "--shuffle",
        "10",
    ]);
    assert!(told.status.success(), "{}", stderr(&told));
    let facts: Json = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(
        (&facts["samples"], &facts["shards"], &facts["samples_looked_into"]),
        (&17.into(), &4.into(), &17.into())
    );
    let tars = crate::support::tree(Path::new(&output))
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "tar"));
    assert_eq!(facts["bytes"], tars.map(|(_, bytes)| bytes.len()).sum::<usize>());
    let images = crate::support::tree(&folder.path().join("in/image"));
    let image = &facts["fields"]["image.jpg"];
    assert_eq!(image["samples"], 17);
    assert_eq!(image["bytes"], images.values().map(Vec::len).sum::<usize>());
    assert_eq!(image["largest"], images.values().map(Vec::len).max().unwrap());
    assert_eq!(image["pictures"]["smallest"], serde_json::json!([800, 333]));
    let ratios = serde_json::json!({"16:9": 8, "1:1": 1, "21:9": 1, "3:2": 6, "3:4": 1});
    assert_eq!(facts["aspect_ratios"], ratios);
    assert_eq!(facts["run"]["steps"], 4);
    let told = shardstream(&["info", &output]);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(
        text.starts_with("17 samples of caption + image in 4 shards (1.1 MiB), 1 folder\n"),
        "{text}"
    );
    assert!(text.contains("  16:9  ████████████████████████████████████████ 8\n"), "{text}");
}

#[tokio::test]
async fn info_names_what_is_broken() {
    let folder = tempdir().unwrap();
    let output = photos(folder.path()).await;
    fs::write(Path::new(&output).join("image/part_000000/000001.tar"), b"<html>").unwrap();
    let told = shardstream(&["info", &output]);
    assert_eq!(told.status.code(), Some(1));
    assert!(stderr(&told).contains("000001.tar"), "{}", stderr(&told));
}

#[tokio::test]
async fn preview_shows_what_a_rank_sees() {
    let folder = tempdir().unwrap();
    let output = photos(folder.path()).await;
    let page = folder.path().join("page.html");
    let sheet = folder.path().join("sheet.png");
    let shown = |from: &str, n: &str| {
        let (page, sheet) = (page.to_str().unwrap(), sheet.to_str().unwrap());
        let args = [
            "preview",
            &output,
            "-o",
            page,
            "-o",
            sheet,
            "--from",
            from,
            "-n",
            n,
            "--world-size",
            "2",
            "--workers",
            "2",
            "--batch",
            "2",
            "--json",
        ];
        let done = shardstream(&args);
        assert!(done.status.success(), "{}", stderr(&done));
        let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(json["files"], serde_json::json!([page, sheet]));
        let said: Vec<_> = json["samples"].as_array().unwrap().iter().collect();
        let text = fs::read_to_string(page).unwrap();
        let keys = text
            .split("<small>ds__")
            .skip(1)
            .map(|rest| rest.split('<').next().unwrap().to_owned());
        let keys: Vec<_> = keys.collect();
        let said: Vec<_> = said.iter().map(|cell| cell["key"].as_str().unwrap()).collect();
        assert_eq!(said, keys.iter().map(|key| format!("ds__{key}")).collect::<Vec<_>>());
        (keys, text)
    };
    // Shards of 5: rank 1, worker 0 has the second. Its second batch begins with its third sample.
    let (keys, text) = shown("1/0/0/1", "2");
    let mut all: Vec<String> = fs::read_dir(folder.path().join("in/image"))
        .unwrap()
        .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    all.sort();
    assert_eq!(keys, all[7..9]);
    assert!(text.contains("epoch 0 lane 1 sample 2"), "{text:.300}");
    assert!(text.contains("data:image/jpeg;base64,/9j/"));
    let png = image::open(&sheet).unwrap().to_rgb8();
    // Two cells of 256 pixels with gaps of 12.
    assert_eq!(png.dimensions(), (12 + 2 * 268, 12 + 256 + 8 * 18 + 6 + 12));
    // The picture is drawn in the middle of its cell, text below it.
    let below = (12..280).flat_map(|x| (274..330).map(move |y| (x, y)));
    assert!(below.clone().filter(|&(x, y)| png.get_pixel(x, y)[0] < 90).count() > 200, "no text");
    let colours: std::collections::HashSet<_> =
        (0..256).map(|x| png.get_pixel(12 + x, 12 + 128).0).collect();
    assert!(colours.len() > 60, "no picture: {}", colours.len());
}

#[test]
fn preview_names_the_folder_of_each_shard() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_photos(&input);
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    let args = [
        "pack",
        "--input-dir",
        input,
        "--output-dir",
        output,
        "--shard-size",
        "3",
        "--allow-singletons",
        "-q",
    ];
    assert!(shardstream(&args).status.success());
    let page = folder.path().join("page.html");
    for shuffle in [&[][..], &["--shuffle", "4", "--seed", "3"]] {
        let args = [&["preview", output, "-o", page.to_str().unwrap()][..], shuffle].concat();
        assert!(shardstream(&args).status.success());
        let text = fs::read_to_string(&page).unwrap();
        let saturn = text.split("<small>in__saturnian-profile</small><small>").nth(1).unwrap();
        assert!(saturn.starts_with("aspect_ratio_21_9/part_000000/000000.tar<"), "{saturn:.80}");
    }
}

#[test]
fn preview_shows_broken_pictures_as_such() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    write_samples(&input, 3);
    fs::write(input.join("caption/00001.json"), r#"{"prompt": "<b>é 日本</b>"}"#).unwrap();
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    assert!(
        shardstream(&[
            "pack",
            "--input-dir",
            input,
            "--output-dir",
            output,
            "--no-classify-aspect-ratio"
        ])
        .status
        .success()
    );
    let (page, sheet) = (folder.path().join("p.html"), folder.path().join("s.png"));
    let done = shardstream(&[
        "preview",
        output,
        "-o",
        page.to_str().unwrap(),
        "-o",
        sheet.to_str().unwrap(),
    ]);
    assert!(done.status.success(), "{}", stderr(&done));
    let text = fs::read_to_string(page).unwrap();
    assert_eq!(text.matches("no picture").count(), 3);
    assert!(text.contains("&lt;b&gt;é 日本&lt;/b&gt;"));
    assert!(image::open(sheet).is_ok());
    let none = shardstream(&["preview", output, "-o", "x.png", "--from", "0/0/0/99"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("no sample there"), "{}", stderr(&none));
    for wrong in [
        &["-o", "x.gif"][..],
        &["-o", "x.png", "--from", "1"],
        &["-o", "x.png", "--from", "0/5/0/0"],
    ] {
        assert!(!shardstream(&[&["preview", output][..], wrong].concat()).status.success());
    }
}

#[test]
fn completions_and_manual_pages() {
    let script = shardstream(&["completions", "bash"]);
    assert!(String::from_utf8_lossy(&script.stdout).contains("--max-shard-size-mb"));
    let folder = tempdir().unwrap();
    assert!(shardstream(&["man", folder.path().to_str().unwrap()]).status.success());
    let page = fs::read_to_string(folder.path().join("shardstream-pack.1")).unwrap();
    assert!(page.contains("shard\\-size"), "{page:.500}");
    // Every command explains itself with an example.
    for command in ["pack", "verify", "info", "preview", "cat", "plan", "index", "certify"] {
        let help = shardstream(&[command, "--help"]);
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(
            text.contains("Examples:") && text.contains(&format!("shardstream {command} ")),
            "{command}: {text}"
        );
    }
}

/// Random parts; what follows normalises.
const RECIPE: &str = r#"["strip_extensions", {"random_resized_crop": {"width": 64, "height": 48}}, {"random_flip": {"probability": 0.5}},
    {"colour_jitter": {"brightness": 0.4, "hue": 0.1}}"#;

#[tokio::test]
async fn preview_shows_samples_as_a_recipe_makes_them_for_that_rank() {
    let folder = tempdir().unwrap();
    let output = photos(folder.path()).await;
    let (file, page) = (folder.path().join("augment.json"), folder.path().join("page.html"));
    let normalize = r#", {"normalize": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}]"#;
    fs::write(&file, format!("{RECIPE}{normalize}")).unwrap();
    let line = format!(
        "preview {output} -o {} --recipe {} --from 1/0/3/1 --world-size 2 --shuffle 4 --batch 2 --seed 9 -n 2",
        page.display(),
        file.display()
    );
    let done = shardstream(&line.split(' ').collect::<Vec<_>>());
    assert!(done.status.success(), "{}", stderr(&done));
    let text = fs::read_to_string(&page).unwrap();
    let pictures = text.split("data:image/png;base64,").skip(1).map(|rest| {
        let bytes = BASE64_STANDARD.decode(rest.split('"').next().unwrap()).unwrap();
        Decoder::default().decode_field("png", bytes.into()).unwrap().as_image().unwrap().clone()
    });
    let shown: Vec<Image> = pictures.collect();

    // What a trainer with the same recipe gets as its second batch.
    let pipeline = Arc::new(Pipeline::from_json(&format!("{RECIPE}]")).unwrap());
    let manifest = DataSet::at_all([&output]).load(&Local).await.unwrap();
    let recipe = move |lane: &Lane| {
        let shards = lane.shard_list().shuffle_shards().split_by_rank().split_by_worker();
        let samples = shards.open_twins(Local).expand().group_by_keys().shuffle(4);
        let pipeline = Arc::clone(&pipeline);
        let augment = move |mut fields: Fields<_>, rng: &mut Rng| {
            pipeline.apply(&mut fields, rng)?;
            Ok(fields)
        };
        samples.decode(Decoder::default()).augment(augment).batch(2)
    };
    let rank = Rank::new(1, 2).unwrap();
    let builder = Loader::builder(&manifest, recipe).rank(rank).workers(1).seed(9).first_epoch(3);
    let mut loader = builder.allow_uneven().start().unwrap();
    loader.try_next().await.unwrap();
    let batch = loader.try_next().await.unwrap().unwrap();
    let Some(Column::Tensor(images)) = batch.data.get("image") else { panic!() };
    assert_eq!(Image::collate(shown).unwrap(), *images);
    for head in &batch.heads {
        assert!(text.contains(&format!("<small>{}</small>", head.key)));
    }
    assert!(text.contains("<small>image 64x48</small>"));
}

#[tokio::test]
async fn preview_says_what_a_recipe_leaves_out() {
    let folder = tempdir().unwrap();
    let output = photos(folder.path()).await;
    let sheet = folder.path().join("sheet.png");
    let sheet = sheet.to_str().unwrap();
    let preview = |recipe| shardstream(&["preview", &output, "-o", sheet, "--recipe", recipe]);
    // The photographs have 800 pixels at most.
    let done = preview("image_caption_augmentor:4096");
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("the recipe left out 17 samples"), "{}", stderr(&done));
    let done = preview("image_caption_augmentor:1000");
    let why = "part 0 of the recipe: resolution 1000 is none of 1024";
    assert!(!done.status.success() && stderr(&done).contains(why), "{}", stderr(&done));
    let done = preview("no-such.json");
    let why = "no-such.json: can't read the recipe";
    assert!(!done.status.success() && stderr(&done).contains(why), "{}", stderr(&done));
}
