//! Progress on stderr: a bar on a terminal, a line now and then in a log, nothing when told to be quiet.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::units;
use crate::error::{Error, Result};
use crate::pack::{PackControl, Phase};

/// How often a log gets a line.
const EVERY: Duration = Duration::from_secs(10);

/// Runs work to its end while showing how far it is. Ctrl-C asks it to stop.
pub(crate) fn watch<T>(
    mut progress: Progress,
    work: impl AsyncFnOnce(Arc<PackControl>) -> Result<T>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::task("can't start the runtime").with_source(e))?;
    let control = Arc::<PackControl>::default();
    let result = runtime.block_on(async {
        let mut work = std::pin::pin!(work(Arc::clone(&control)));
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = tokio::signal::ctrl_c() => control.stop(),
                _ = tick.tick() => {
                    let (word, thing) = match control.phase() {
                        Phase::Listing => ("list", "files"),
                        Phase::Measuring => ("measure", "samples"),
                        Phase::Writing => ("pack", "samples"),
                        Phase::Finishing => ("finish", ""),
                        Phase::Checking => ("read", "shards"),
                    };
                    progress.update(word, thing, control.done(), control.total(), control.bytes());
                }
            }
        }
    });
    progress.finish();
    result
}

/// Shows how far something is.
pub(crate) struct Progress {
    shown: Shown,
    begun: Instant,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines { next: Instant, interval: Option<u64>, said: u64 },
}

impl Progress {
    /// Shows progress unless `quiet`. In a log there is a line every ten seconds, or every `interval` items.
    pub(crate) fn new(quiet: bool, interval: Option<u64>) -> Self {
        let begun = Instant::now();
        let shown = if quiet {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(ProgressBar::new(0))
        } else {
            Shown::Lines { next: begun + EVERY, interval, said: 0 }
        };
        Self { shown, begun }
    }

    /// Brings it up to date. `word` says what is being done, `total` of 0 that nobody knows how much there is.
    pub(crate) fn update(
        &mut self,
        word: &'static str,
        thing: &str,
        done: u64,
        total: u64,
        bytes: u64,
    ) {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        let rate = units::bytes((bytes as f64 / seconds) as u64);
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                if bar.prefix() != word {
                    bar.set_prefix(word);
                    bar.reset_eta();
                    let template = if total == 0 {
                        "{prefix} {spinner} {pos}"
                    } else {
                        "{prefix} [{bar:30}] {pos}/{len} {msg} {eta} left"
                    };
                    // The templates are right; if not, the default style does.
                    bar.set_style(
                        ProgressStyle::with_template(template)
                            .unwrap_or_else(|_| ProgressStyle::default_bar())
                            .progress_chars("=> "),
                    );
                }
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(if bytes > 0 { format!("{rate}/s") } else { String::new() });
            }
            Shown::Lines { next, interval, said } => {
                // A new phase begins at 0 again.
                let moved = done.abs_diff(*said);
                if Instant::now() < *next && interval.is_none_or(|n| moved < n) {
                    return;
                }
                *next = Instant::now() + EVERY;
                *said = done;
                if total > 0 {
                    let rate = if bytes > 0 { format!(", {rate}/s") } else { String::new() };
                    let _ = writeln!(
                        std::io::stderr(),
                        "{word}: {} of {} {thing}{rate}",
                        units::count(done),
                        units::count(total)
                    );
                }
            }
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Shown::Bar(bar) = self.shown {
            bar.finish_and_clear();
        }
    }
}
