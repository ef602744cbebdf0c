//! The command line `shardstream`: one file a subcommand.

mod output;
mod pack;
mod plan;
mod progress;
mod units;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Result;

/// Streams, packs, checks and shows data sets of tar shards.
#[derive(Debug, Parser)]
#[command(name = "shardstream", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pack(Box<pack::Pack>),
    Plan(Box<plan::PlanArgs>),
    Verify(verify::Verify),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    run(Cli::parse()).unwrap_or_else(|error| {
        complain(&error);
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Pack(pack) => pack.run(),
        Command::Verify(verify) => verify.run(),
        Command::Plan(args) => plan::run(&args),
    }
}

/// One line on stderr.
pub(crate) fn complain(error: &dyn std::fmt::Display) {
    use std::io::Write;

    // If stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "shardstream: {error}");
}
