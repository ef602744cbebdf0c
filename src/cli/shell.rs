//! `shardstream completions` and `shardstream man`: for packagers and shells.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::error::{Error, Result};

/// Prints the completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardstream completions bash > /etc/bash_completion.d/shardstream
  shardstream completions zsh > ~/.zfunc/_shardstream")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    /// Does it.
    pub(crate) fn run<C: CommandFactory>(&self) -> Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut C::command(), "shardstream", &mut script);
        super::output::say(String::from_utf8_lossy(&script).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the manual pages into a folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shardstream man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Where to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    /// Does it.
    pub(crate) fn run<C: CommandFactory>(&self) -> Result<ExitCode> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(C::command(), &self.folder))
            .map_err(|e| {
                Error::store("can't write").with_source(e).in_shard(self.folder.to_string_lossy())
            })?;
        Ok(ExitCode::SUCCESS)
    }
}
