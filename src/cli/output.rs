//! What goes to stdout.

use std::io::{self, Write};

use crate::error::{Error, Result};

/// Prints text and a newline. A reader that has gone away (`| head`) is no error.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::store("can't write to stdout").with_source(error))
        }
        _ => Ok(()),
    }
}

/// Prints a value as indented JSON.
pub(crate) fn say_json(value: &impl serde::Serialize) -> Result<()> {
    say(&serde_json::to_string_pretty(value)
        .map_err(|e| Error::store("can't be written as JSON").with_source(e))?)
}
