//! The command line: what it says, what it runs, and what it prints.

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

/// Does what the arguments say and prints what came of it. Answers whether all expectations held.
///
/// # Errors
///
/// What is wrong with the arguments or with a file that they name, in words.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    if arguments.iter().any(|argument| argument == "--world") {
        return world::run(arguments);
    }
    options::Options::read(arguments).and_then(|options| output::run(&options))
}
