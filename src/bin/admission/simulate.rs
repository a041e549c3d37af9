//! The simulator, which is an example of this crate, as it stands.

#[path = "../../../examples/simulate/cli.rs"]
mod cli;
#[path = "../../../examples/simulate/draw.rs"]
mod draw;
#[path = "../../../examples/simulate/multiples.rs"]
mod multiples;
#[path = "../../../examples/simulate/output.rs"]
mod output;
#[path = "../../../examples/simulate/replay.rs"]
mod replay;
#[path = "../../../examples/simulate/sim/mod.rs"]
mod sim;
#[path = "../../../examples/simulate/svg.rs"]
mod svg;
#[path = "../../../examples/simulate/table.rs"]
mod table;

use crate::failure::{End, Failure};

pub(crate) fn run(arguments: &[String]) -> Result<End, Failure> {
    let holds = cli::Options::read(arguments).and_then(|options| output::run(&options)).map_err(Failure::Usage)?;
    Ok(End::wrong_if(!holds))
}
