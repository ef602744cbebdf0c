//! A list of samples: a JSON object a line, or a parquet file, with paths and captions.
//!
//! A field named as a modality holds the path of a file, relative to the list, or (in JSON) an object that is packed as it is. Texts in `prompt`,
//! `prompt_medium` and `prompt_short` make up the caption. `key` names the sample; without it, its file does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use serde_json::{Map, Value};

use super::content::Content;
use super::folders::{dataset_name, extensions, key, stem_and_extension, wanted};
use super::options::PackOptions;
use super::report::{Finding, Reason};
use super::scan::{Raw, Samples, failed};
use crate::error::{Error, Result};
use crate::shard::parquet_guard::{file_has_footer, guarded, has_pages};

/// The fields that make up a caption.
const PROMPTS: [&str; 3] = ["prompt", "prompt_medium", "prompt_short"];

/// Lists the files that a list names.
pub(crate) fn list(
    path: &Path,
    options: &PackOptions,
    found: &mut Vec<Raw>,
    samples: &mut Samples,
) -> Result<()> {
    let prefix = dataset_name(path, options)?;
    let base = path.parent().unwrap_or(Path::new("."));
    let mut row = |at: usize, row: Map<String, Value>| {
        let before = found.len();
        if let Err((reason, detail)) = take(row, base, &prefix, options, found, samples) {
            found.truncate(before);
            let line = format!("{}:{}", path.display(), at + 1);
            samples.findings.push(Finding::new(reason, line, detail));
        }
    };
    if path.extension().is_some_and(|e| e == "parquet") {
        return parquet(path, row);
    }
    let file = File::open(path).map_err(|e| failed(path, e))?;
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| failed(path, e))?;
        if line.trim().is_empty() {
            continue;
        }
        let fields = serde_json::from_str(&line).map_err(|e| {
            Error::pack(format!("line {} is no JSON object", at + 1))
                .with_source(e)
                .in_shard(path.to_string_lossy())
        })?;
        row(at, fields);
    }
    Ok(())
}

/// One sample of the list.
fn take(
    row: Map<String, Value>,
    base: &Path,
    prefix: &str,
    options: &PackOptions,
    found: &mut Vec<Raw>,
    samples: &mut Samples,
) -> Result<(), (Reason, String)> {
    let mut stem: Option<Vec<u8>> = None;
    let mut caption = Map::new();
    let mut pieces: Vec<(String, Vec<u8>, Content)> = Vec::new();
    for (name, value) in row {
        match value {
            Value::Null => {}
            Value::String(text) if name == "key" => stem = Some(text.into_bytes()),
            Value::Number(number) if name == "key" => stem = Some(number.to_string().into_bytes()),
            Value::String(text) if PROMPTS.contains(&name.as_str()) => {
                caption.insert(name, Value::String(text));
            }
            Value::String(text) if wanted(&name, options) => {
                let path = base.join(&text);
                let size = match fs::metadata(&path) {
                    Ok(found) if found.is_file() => found.len(),
                    Ok(_) => return Err((Reason::Unreadable, format!("{text} is no file"))),
                    Err(error) => return Err((Reason::Unreadable, format!("{text}: {error}"))),
                };
                let file = path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
                let Some((file, extension)) = stem_and_extension(&file) else {
                    return Err((Reason::Extension, format!("{text} has no extension")));
                };
                let lower = String::from_utf8_lossy(extension).to_ascii_lowercase();
                if extensions(&name, options).is_some_and(|known| !known.contains(&lower.as_str()))
                {
                    return Err((
                        Reason::Extension,
                        format!("{text}: {lower} is no extension of {name}"),
                    ));
                }
                pieces.push((name, [file, b".", extension].concat(), Content::File { path, size }));
            }
            object @ Value::Object(_) if wanted(&name, options) => {
                let bytes = serde_json::to_vec(&object).unwrap_or_default();
                pieces.push((name, b".json".to_vec(), Content::Bytes(bytes.into())));
            }
            _ if samples.other_folders.contains(&name) => {}
            _ => samples.other_folders.push(name),
        }
    }
    if !caption.is_empty() && wanted("caption", options) {
        if pieces.iter().any(|(name, _, _)| name == "caption") {
            return Err((Reason::Ambiguous, "has a caption and prompts".to_owned()));
        }
        let bytes = serde_json::to_vec(&caption).unwrap_or_default();
        pieces.push(("caption".to_owned(), b".json".to_vec(), Content::Bytes(bytes.into())));
    }
    // Without a key, the picture or the video names the sample, or whatever file there is.
    let named_by =
        |name: &str| pieces.iter().find(|(m, file, _)| m == name && !file.starts_with(b"."));
    let file = named_by("image").or_else(|| named_by("video"));
    let file = file.or_else(|| pieces.iter().find(|(_, file, _)| !file.starts_with(b".")));
    let stem = stem.or_else(|| Some(stem_and_extension(&file?.1)?.0.to_vec()));
    let Some(stem) = stem else {
        return Err((Reason::Name, "has neither a key nor a file".to_owned()));
    };
    for (modality, file, content) in pieces {
        let dot = file.iter().rposition(|&b| b == b'.').unwrap_or_default();
        found.push(Raw {
            key: key(prefix, &stem),
            modality: Arc::from(modality),
            extension: file[dot + 1..].into(),
            content,
        });
    }
    Ok(())
}

fn parquet(path: &Path, mut row: impl FnMut(usize, Map<String, Value>)) -> Result<()> {
    let shard = path.to_string_lossy();
    let broken = || Error::pack("not a whole parquet file").in_shard(&*shard);
    let mut file = File::open(path).map_err(|e| failed(path, e))?;
    if !file_has_footer(&mut file).map_err(|e| failed(path, e))? {
        return Err(broken());
    }
    // Texts and numbers as parquet stores them: what wrote the file may call them dictionaries, views or large strings.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let open = || {
        let pages = file.try_clone()?;
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?;
        let whole = has_pages(&pages, builder.metadata(), &ProjectionMask::all())?;
        whole.then(|| builder.build()).transpose()
    };
    let opened = guarded(open).ok_or_else(broken)?;
    let opened = opened.map_err(|e: ParquetError| broken().with_source(e))?;
    let mut batches = opened.ok_or_else(broken)?;
    let mut at = 0;
    while let Some(batch) = guarded(|| batches.next()).ok_or_else(broken)? {
        let batch = batch.map_err(|e| broken().with_source(e))?;
        for place in 0..batch.num_rows() {
            row(at, fields(&batch, place));
            at += 1;
        }
    }
    Ok(())
}

/// The texts and whole numbers of one row; what else there is has no use here.
fn fields(batch: &RecordBatch, row: usize) -> Map<String, Value> {
    let mut fields = Map::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if column.is_null(row) {
            continue;
        }
        let value = match column.data_type() {
            DataType::Utf8 => Value::from(column.as_string::<i32>().value(row)),
            DataType::Int64 => {
                Value::from(column.as_primitive::<arrow_array::types::Int64Type>().value(row))
            }
            // Named among what was not packed.
            _ => Value::Bool(true),
        };
        fields.insert(field.name().clone(), value);
    }
    fields
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use parquet::arrow::ArrowWriter;
    use tempfile::tempdir;

    use super::*;

    /// Cut or changed at any byte: an error that names the list, or rows; never a panic, nor counting without end.
    #[test]
    fn broken_parquet() {
        let image: ArrayRef = Arc::new(StringArray::from(vec!["a.jpg", "b.jpg"]));
        let score: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let batch = RecordBatch::try_from_iter([("image", image), ("score", score)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let whole = writer.into_inner().unwrap();
        let folder = tempdir().unwrap();
        let path = folder.path().join("list.parquet");
        let options = PackOptions::new(folder.path(), folder.path().join("out"));
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let (mut found, mut samples) = (Vec::new(), Samples::default());
            let listed = list(&path, &options, &mut found, &mut samples);
            listed.map(|()| samples.findings.len()).map_err(|error| error.to_string())
        };
        let refused = |error: &str| {
            error.starts_with("pack: ") && error.contains("list.parquet: not a whole parquet file")
        };
        // The pictures are not there.
        assert_eq!(read(&whole).unwrap(), 2);
        for length in 0..whole.len() {
            assert!(refused(&read(&whole[..length]).unwrap_err()), "{length}");
        }
        let mut broken = 0;
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x80;
            if let Err(error) = read(&changed) {
                assert!(refused(&error), "byte {at}: {error}");
                broken += 1;
            }
        }
        assert!(broken > whole.len() / 3, "{broken}");
    }
}
