//! The tables of the README as one picture: what each server answers in time, over its load.
//!
//! ```sh
//! cargo run --release -p plots > ../../.github/pictures/servers.svg
//! ```
//!
//! It measures nothing: the figures of the tables are the only source.

mod draw;
mod table;

use std::process::ExitCode;

const README: &str = include_str!("../../README.md");

fn main() -> ExitCode {
    match draw::picture(README) {
        Ok(picture) => {
            println!("{picture}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_shows_what_the_tables_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../.github/pictures/servers.svg");
        let shown = std::fs::read_to_string(path).expect("the picture is there");
        let drawn = draw::picture(README).expect("all columns and rows are found");
        assert!(
            drawn == shown.trim_end(),
            "draw it again: cargo run --release -p plots > ../../.github/pictures/servers.svg"
        );
    }

    #[test]
    fn each_table_is_looked_at() {
        for column in ["| of capacity |", "| of the control |"] {
            assert!(draw::picture(&README.replace(column, "| else |")).is_err(), "without {column}");
        }
        for section in ["jsonrpc", "flight", "search", "s3", "pool", "culprit"] {
            let without = README.replace(&format!("\n## {section}\n"), "\n## else\n");
            assert!(draw::picture(&without).is_err(), "without {section}");
        }
    }
}
