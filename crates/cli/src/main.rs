//! `admission`: what a server under admission control does and why, and what to set.
//!
//! `status`, `partitions`, `list`, `describe`, `watch`, `journal`, `history` and `capture` ask the introspection of a running server; `what-if` may; `plan`, `check` and `simulate` need none.

mod args;
mod capture;
mod check;
mod client;
mod describe;
mod failure;
mod history;
mod journal;
mod key;
mod list;
mod nearest;
mod partitions;
mod plan;
mod simulate;
mod status;
mod table;
mod text;
mod watch;
mod what_if;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::{
    args::{Arguments, Command},
    failure::{End, Failure},
};

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(end) => end.into(),
        Err(failure) => {
            eprintln!("admission: {failure}");
            failure.into()
        }
    }
}

fn run(command: &Command) -> Result<End, Failure> {
    match command {
        Command::Status(args) => status::run(args),
        Command::Partitions(args) => partitions::run(args),
        Command::List(args) => list::run(args),
        Command::Describe(args) => describe::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Journal(args) => journal::run(args),
        Command::History(args) => history::run(args),
        Command::Capture(args) => capture::run(args),
        Command::WhatIf(args) => what_if::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Check(args) => check::run(args),
        Command::Simulate(args) => simulate::run(&args.arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "admission", &mut script);
            text::print(&String::from_utf8_lossy(&script))
        }
    }
}
