//! Runs overload scenarios against the engine of this crate in virtual time.
//!
//! ```text
//! cargo run --release --example simulate -- tests/scenarios/overload-shared.toml
//! ```

mod cli;
mod draw;
mod multiples;
mod output;
mod replay;
mod sim;
mod svg;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match cli::Options::read(&arguments).and_then(|options| output::run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
