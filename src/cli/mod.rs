//! The command line `shardstream`: one file a subcommand.

mod bench;
mod cat;
mod certify;
mod data;
mod index;
mod info;
mod output;
mod pack;
#[cfg(feature = "mpi")]
mod pack_mpi;
mod plan;
mod preview;
mod progress;
mod sample_json;
mod shell;
mod units;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::error::{Error, Result};
use crate::shard::LegacyStart;

/// Streams, packs, checks and shows data sets of tar shards.
#[derive(Debug, Parser)]
#[command(name = "shardstream", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::BenchArgs>),
    Cat(Box<cat::Args>),
    Certify(certify::Args),
    Index(index::Index),
    Pack(Box<pack::Pack>),
    Plan(Box<plan::PlanArgs>),
    Verify(verify::Verify),
    Info(Box<info::Info>),
    Preview(Box<preview::Preview>),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    warn_on_stderr();
    run(cli).unwrap_or_else(|error| {
        complain(&error);
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Bench(args) => block_on(bench::run(*args)),
        Command::Cat(args) => block_on(cat::run(*args)),
        Command::Certify(args) => block_on(certify::run(args)),
        Command::Index(index) => block_on(index.run()),
        Command::Pack(pack) => pack.run(),
        Command::Verify(verify) => verify.run(),
        Command::Info(info) => block_on(info::run(*info)),
        Command::Preview(preview) => block_on(preview::run(*preview)),
        Command::Completions(completions) => completions.run::<Cli>(),
        Command::Man(man) => man.run::<Cli>(),
        Command::Plan(args) => plan::run(&args),
    }
}

/// What PiD's variables say of an earlier run; that there are none is an error for who asked for it.
fn legacy_start() -> Result<LegacyStart> {
    LegacyStart::from_env()?.ok_or_else(|| {
        Error::config("--legacy-start: neither WDS_EPOCH_NUM nor WDS_START_INDEX is set")
    })
}

/// Runs a command on a runtime of its own.
pub(crate) fn block_on(command: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::config("can't start the runtime").with_source(error))?;
    let result = runtime.block_on(command);
    // A thread that still reads must not hold the end up.
    runtime.shutdown_background();
    result
}

/// One line on stderr.
pub(crate) fn complain(line: &dyn std::fmt::Display) {
    use std::io::Write;

    // If stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "shardstream: {line}");
}

/// Warnings of the library go to stderr, a line each; `RUST_LOG`-like filters are for the library's users.
fn warn_on_stderr() {
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr);
    // Somebody else's subscriber is as good.
    let _ = tracing::subscriber::set_global_default(subscriber.event_format(Line).finish());
}

/// `shardstream: warning: …`
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        let level =
            if *event.metadata().level() == tracing::Level::ERROR { "error" } else { "warning" };
        write!(writer, "shardstream: {level}: ")?;
        ctx.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
