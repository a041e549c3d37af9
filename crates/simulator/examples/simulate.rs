//! Runs overload scenarios against the engine of `tower-admission` in virtual time.
//!
//! ```text
//! cargo run --release --example simulate -- crates/simulator/scenarios/overload-shared.toml
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match admission_simulator::command::run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
