//! The direction of dependencies: a module uses only what stands to its left.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From left to right; those of one layer don't know each other.
const LAYERS: &[&[&str]] = &[
    &["position"],
    &["random", "redact"],
    &["error"],
    &["recipe", "shelf", "progress", "topology", "memory", "recycled"],
    &["sample", "tar", "store"],
    &["decode", "broadcast"],
    &["augment", "shard"],
    &["stages"],
    &["checkpoint"],
    &["certificate"],
    &["loader"],
    &["pack", "testing", "adapters"],
    &["cli"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The top-level modules that a source text names as `crate::module`, comments left out.
fn used(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        // `use crate::{a::b, c}`: the first name of each part at depth one.
        let paths: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => parts(list),
            None => vec![rest],
        };
        for path in paths {
            let name: String = path
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            found.insert(name);
        }
    }
    found
}

/// The parts of a brace list, up to its closing brace.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&list[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The source files of each top-level module.
fn modules() -> BTreeMap<String, Vec<PathBuf>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = BTreeMap::<String, Vec<PathBuf>>::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let first = path.strip_prefix(&src).unwrap().iter().next().unwrap();
            let module = Path::new(first).file_stem().unwrap().to_str().unwrap().to_owned();
            if path.extension().is_some_and(|e| e == "rs") && module != "lib" && module != "bin" {
                modules.entry(module).or_default().push(path);
            }
        }
    }
    modules
}

#[test]
fn a_module_uses_only_what_stands_to_its_left() {
    let mut wrong = Vec::new();
    for (module, files) in modules() {
        let own = layer(&module).unwrap_or_else(|| panic!("module {module} has no layer"));
        for file in files {
            for name in used(&fs::read_to_string(&file).unwrap()) {
                // Names that the root re-exports (`crate::Error`) begin with a capital; a macro of the crate is no module either.
                let Some(theirs) = layer(&name) else {
                    assert!(
                        name.starts_with(char::is_uppercase),
                        "{} uses crate::{name}, which has no layer",
                        file.display()
                    );
                    continue;
                };
                if theirs >= own && name != module {
                    wrong.push(format!("{} uses {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_read_rightly() {
    let text = "use crate::{error::{Error, Result}, tar};\nlet x = crate::sample::key(); // crate::cli\n/// [`crate::loader`]";
    let names: Vec<_> = used(text).into_iter().collect();
    assert_eq!(names, ["error", "sample", "tar"]);
}
