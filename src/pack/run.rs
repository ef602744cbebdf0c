//! Does the packing: threads that take shard after shard of the plan.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Mutex, PoisonError};

use super::classes;
use super::dimensions;
use super::existing::{self, Found};
use super::journal::{self, DoneShard, Journal, Making};
use super::manifest;
use super::options::{Existing, PackOptions, Part};
use super::parallel;
use super::plan::{self, Plan, PlannedShard};
use super::progress::{PackControl, Phase};
use super::report::{Finding, PackReport, Reason};
use super::root::Root;
use super::scan::{self, Entry, Samples, member_name};
use super::twins::{NewMember, TwinWriter};
use super::video;
use crate::error::{Error, Result};

/// The whole of it, on the thread of the caller and those it starts.
pub(crate) fn run(options: &PackOptions, control: &PackControl) -> Result<PackReport> {
    options.check()?;
    let output = &Root::open(&options.output, options.stores.as_ref())?;
    let found = existing::look(output)?;
    if options.existing == Existing::Refuse && !options.dry_run {
        existing::refuse(output, &found, options.part)?;
    }
    control.enter(Phase::Listing, 0);
    let mut samples = scan::scan(options)?;
    let buckets = buckets(&mut samples, options, control)?;
    let plan = plan::plan(&samples, &buckets, options)?;
    if plan.shards.is_empty() {
        let n = samples.findings.len();
        let first = samples.findings.first();
        let why = first.map(|f| format!("; the first of {n} findings: {}: {}", f.key, f.detail));
        return Err(Error::pack(format!("no sample can be packed{}", why.unwrap_or_default())));
    }
    let making = Making {
        version: 1,
        fingerprint: plan.fingerprint(&samples),
        modalities: samples.modalities.clone(),
        shards: plan.shards.len(),
        root: match &options.root {
            Some(root) => root.trim_end_matches('/').to_owned(),
            None => output.absolute()?,
        },
        not_wanted: samples.not_wanted,
        other_folders: std::mem::take(&mut samples.other_folders),
        allow_singletons: options.allow_singletons,
        findings: std::mem::take(&mut samples.findings),
    };
    if options.dry_run {
        return Ok(planned(&plan, &samples, making));
    }
    let part = options.part.unwrap_or(Part { index: 0, parts: 1 });
    let name = journal::name(part);
    let mut done = Vec::new();
    match options.existing {
        Existing::Refuse => {}
        Existing::Clean | Existing::Overwrite if part.parts > 1 => {
            return Err(Error::config(
                "one part can't replace a data set while others are at work: remove the old one first",
            ));
        }
        Existing::Clean => existing::remove(output, &found)?,
        Existing::Overwrite => existing::unlist(output, &found)?,
        Existing::Resume => {
            existing::same_parts(output, part)?;
            if part.parts == 1 {
                existing::remove_leftovers(output, &found)?;
            }
            match journal::read(output, &name, found.has_record(&name))? {
                Some((before, shards)) => {
                    done = resumable(&before, shards, &making, output, &found)?
                }
                // Nothing to go on with: what is there must not be mixed in.
                None => existing::refuse(output, &found, options.part)?,
            }
        }
    }
    let resumed = done.len() as u64;
    let journal = Mutex::new(Journal::begin(output, &name, &making, &done)?);
    let finished: HashSet<usize> = done.iter().map(|shard| shard.number).collect();
    let mine: Vec<usize> = (0..plan.shards.len())
        .filter(|number| *number as u64 % u64::from(part.parts) == u64::from(part.index))
        .filter(|number| !finished.contains(number))
        .collect();
    let total = mine.iter().map(|&number| plan.shards[number].samples.len() as u64).sum();
    control.enter(Phase::Writing, total);
    let written = parallel::each(options.num_workers, mine.len(), |at| {
        let shard =
            write_shard(mine[at], &plan, &samples, output, options.allow_singletons, control)?;
        // A thread that panicked while it held the lock takes the run down anyway.
        journal.lock().unwrap_or_else(PoisonError::into_inner).add(&shard)?;
        Ok(shard)
    })?;
    control.enter(Phase::Finishing, 0);
    done.extend(written);
    done.sort_by_key(|shard| shard.number);
    // In order, whichever thread was first: the same record for the same data.
    journal::write(output, &name, &making, &done)?;
    if options.existing == Existing::Overwrite {
        existing::remove_stale(output, &found, &making, &done)?;
    }
    if part.parts == 1 {
        finish(output, &making, &done)?;
    }
    let mut report = summary(&making, &done);
    report.resumed_shards = resumed;
    Ok(report)
}

/// Writes the manifests of a data set whose shards are all there, and the report if there is something to report.
pub(crate) fn finish(output: &Root, making: &Making, done: &[DoneShard]) -> Result<()> {
    let mut folders: BTreeMap<&str, Vec<(String, u32, Vec<_>)>> = BTreeMap::new();
    for shard in done.iter().filter(|shard| shard.samples > 0) {
        folders.entry(&shard.bucket).or_default().push((
            shard.path.clone(),
            shard.samples,
            shard.twins.clone(),
        ));
    }
    if folders.is_empty() {
        return Err(Error::pack("no sample could be packed").in_shard(output.shown("")));
    }
    existing::report(output, &summary(making, done).findings)?;
    for (bucket, shards) in folders {
        let root = if bucket.is_empty() {
            making.root.clone()
        } else {
            format!("{}/{bucket}", making.root)
        };
        let folder = output.child(bucket);
        manifest::write(
            &folder,
            &manifest::wdinfo(&folder, Some(&root), &making.modalities, &shards)?,
        )?;
    }
    Ok(())
}

/// What the records say, summed up.
pub(crate) fn summary(making: &Making, done: &[DoneShard]) -> PackReport {
    let mut report = PackReport {
        modalities: making.modalities.clone(),
        not_wanted: making.not_wanted,
        other_folders: making.other_folders.clone(),
        findings: making.findings.clone(),
        ..PackReport::default()
    };
    for shard in done {
        report.findings.extend(shard.findings.iter().cloned());
        report.samples += u64::from(shard.samples);
        report.shards += u64::from(shard.samples > 0);
        report.bytes += shard.twins.iter().map(|twin| twin.bytes).sum::<u64>();
        *report.buckets.entry(shard.bucket.clone()).or_default() += u64::from(shard.samples);
    }
    report.findings.sort();
    report
}

/// What a run would do.
fn planned(plan: &Plan, samples: &Samples, making: Making) -> PackReport {
    let mut report = summary(&making, &[]);
    report.shards = plan.shards.len() as u64;
    for shard in &plan.shards {
        report.samples += shard.samples.len() as u64;
        *report.buckets.entry(shard.bucket.clone()).or_default() += shard.samples.len() as u64;
        report.findings.extend(singleton(
            shard,
            shard.samples.len() as u32,
            making.allow_singletons,
        ));
    }
    report.bytes = samples
        .entries
        .iter()
        .flat_map(|entry| &entry.pieces)
        .map(|piece| piece.content.size())
        .sum();
    report
}

/// The shards that need not be made again: recorded, for this very plan, and still there in the recorded sizes.
fn resumable(
    before: &Making,
    mut done: Vec<DoneShard>,
    making: &Making,
    output: &Root,
    found: &Found,
) -> Result<Vec<DoneShard>> {
    if before != making {
        let what = if before.fingerprint == making.fingerprint {
            "options differ"
        } else {
            "the input or the options differ"
        };
        return Err(Error::config(format!(
            "can't resume: {what} from those of the run that began {} (--overwrite or --clean begin anew)",
            output.shown("")
        )));
    }
    done.retain(|shard| {
        let there = |modality: &String, bytes: u64| {
            found.shards.get(&shard.twin(modality)).is_some_and(|size| *size == bytes)
        };
        shard.twins.is_empty() && shard.samples == 0
            || shard.twins.len() == making.modalities.len()
                && making.modalities.iter().zip(&shard.twins).all(|(m, twin)| there(m, twin.bytes))
    });
    Ok(done)
}

fn write_shard(
    number: usize,
    plan: &Plan,
    samples: &Samples,
    output: &Root,
    allow_singletons: bool,
    control: &PackControl,
) -> Result<DoneShard> {
    let planned = &plan.shards[number];
    let folder = output.child(&planned.bucket);
    let mut wanted: Vec<usize> = plan.order[planned.samples.clone()].to_vec();
    let (mut findings, mut spoilers) = (Vec::new(), Vec::new());
    let writer = loop {
        let mut writer = TwinWriter::create(&folder, &planned.path, &samples.modalities)?;
        let mut failed = None;
        for &at in &wanted {
            control.go_on()?;
            let entry = &samples.entries[at];
            match append(&mut writer, entry) {
                Ok(()) => {}
                Err(error) if error.concerns_one_sample() => {
                    findings.push(Finding::new(
                        Reason::Unreadable,
                        entry.key.to_string(),
                        error.to_string(),
                    ));
                    failed = Some(at);
                }
                Err(error) => return Err(error),
            }
            control.add(1, entry.pieces.iter().map(|piece| piece.content.size()).sum());
            if writer.is_spoiled() {
                break;
            }
        }
        match failed.filter(|_| writer.is_spoiled()) {
            // A part of it has left already: once more, without it. Those that failed before it fail again.
            Some(at) => {
                wanted.retain(|wanted| *wanted != at);
                spoilers.extend(findings.pop());
                findings.clear();
            }
            None => break writer,
        }
    };
    let packed = writer.samples();
    findings.append(&mut spoilers);
    findings.extend(singleton(planned, packed, allow_singletons));
    let twins = if packed == 0 { Vec::new() } else { writer.finish()? };
    Ok(DoneShard {
        number,
        bucket: planned.bucket.clone(),
        path: planned.path.clone(),
        samples: packed,
        twins,
        findings,
    })
}

/// Adds a sample to a shard.
fn append(writer: &mut TwinWriter, entry: &Entry) -> Result<()> {
    let names: Vec<Vec<u8>> =
        entry.pieces.iter().map(|piece| member_name(&entry.key, piece)).collect();
    let members: Vec<NewMember<'_>> = entry
        .pieces
        .iter()
        .zip(&names)
        .map(|(piece, name)| NewMember { twin: piece.modality, name, content: &piece.content })
        .collect();
    writer.append(&entry.key, &members)
}

fn singleton(shard: &PlannedShard, samples: u32, allowed: bool) -> Option<Finding> {
    let name = if shard.bucket.is_empty() {
        shard.path.clone()
    } else {
        format!("{}/{}", shard.bucket, shard.path)
    };
    (samples == 1 && !allowed)
        .then(|| Finding::new(Reason::Singleton, name, "the shard has a single sample"))
}

/// The folder of each sample. Samples whose width and height can't be found are left out and reported.
fn buckets(
    samples: &mut Samples,
    options: &PackOptions,
    control: &PackControl,
) -> Result<Vec<String>> {
    if !options.classify_aspect_ratio {
        return Ok(vec![String::new(); samples.entries.len()]);
    }
    let find = |name: &str| samples.modalities.iter().position(|modality| modality == name);
    let (video, image) = (find("video"), find("image"));
    let Some(modality) = video.or(image) else {
        return Err(Error::config(
            "classes of aspect ratio need pictures or videos: there is neither image nor video (--no-classify-aspect-ratio packs into one folder)",
        ));
    };
    control.enter(Phase::Measuring, samples.entries.len() as u64);
    let found = parallel::each(options.metadata_workers, samples.entries.len(), |at| {
        control.go_on()?;
        let bucket = bucket(&samples.entries[at], modality, video.is_some(), options);
        control.add(1, 0);
        Ok(bucket)
    })?;
    let mut buckets = Vec::with_capacity(found.len());
    let mut results = found.into_iter();
    let findings = &mut samples.findings;
    samples.entries.retain(|entry| match results.next() {
        Some(Ok(bucket)) => {
            buckets.push(bucket);
            true
        }
        Some(Err(error)) => {
            findings.push(Finding::new(
                Reason::Unreadable,
                entry.key.to_string(),
                format!("no width and height: {error}"),
            ));
            false
        }
        None => false,
    });
    Ok(buckets)
}

fn bucket(
    entry: &Entry,
    modality: usize,
    video: bool,
    options: &PackOptions,
) -> io::Result<String> {
    let Some(piece) = entry.pieces.iter().find(|piece| piece.modality == modality) else {
        return Err(io::Error::other("no such file"));
    };
    if !video {
        let (w, h) = classes::aspect_ratio(dimensions::of_picture(&piece.content, options.exif)?);
        return Ok(format!("aspect_ratio_{w}_{h}"));
    }
    let video = video::facts(&piece.content, options.exif)?;
    let (w, h) = classes::aspect_ratio(video.dimensions);
    Ok(format!("aspect_ratio_{w}_{h}/{}", options.duration_bins.folder(video.seconds)))
}
