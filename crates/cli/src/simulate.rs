//! The simulator, as it stands.

use crate::failure::{End, Failure};

pub(crate) fn run(arguments: &[String]) -> Result<End, Failure> {
    let holds = admission_simulator::command::run(arguments).map_err(Failure::Usage)?;
    Ok(End::wrong_if(!holds))
}
