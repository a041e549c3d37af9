//! The command line: what it says, what it runs, and what it prints.

/// Prints as `print!` does, where a reader that has seen enough and left is no failure.
macro_rules! say {
    ($($what:tt)*) => { $crate::command::write(format_args!($($what)*)) };
}

/// The same with the end of a line.
macro_rules! sayln {
    () => { say!("\n") };
    ($($what:tt)*) => {{
        say!($($what)*);
        say!("\n");
    }};
}

mod ablation;
mod draw;
mod multiples;
mod options;
mod output;
mod replay;
mod side_by_side;
mod svg;
mod table;
mod world;

use std::{
    fmt,
    io::{self, ErrorKind, Write},
    sync::OnceLock,
};

/// Does what the arguments say and prints what came of it. Answers whether all expectations held.
///
/// # Errors
///
/// What is wrong with the arguments or with a file that they name, in words.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    let result = if arguments.iter().any(|argument| argument == "--world") {
        world::run(arguments)
    } else {
        options::Options::read(arguments).and_then(|options| output::run(&options))
    };
    match UNWRITTEN.get() {
        Some(error) => Err(format!("can't write: {error}")),
        None => result,
    }
}

/// Why the output could not be written.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

fn write(text: fmt::Arguments<'_>) {
    match io::stdout().lock().write_fmt(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(UNWRITTEN.set(error)),
        _ => {}
    }
}
