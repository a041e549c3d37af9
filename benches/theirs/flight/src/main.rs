//! A server of Arrow Flight under overload: long streams among short calls, without and with tower-admission.
//!
//! ```text
//! cargo run --release -p flight
//! cargo run --release -p flight -- --quick
//! ```

mod calls;
mod glue;
mod server;

use std::error::Error;

use load::{Plan, Role};

use crate::{
    calls::{MEAN, call, connect},
    server::{CAPACITY, DEADLINE},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (quick, only) = match Role::of_this_process() {
        Role::Serve(kind) => return server::serve(&kind).await,
        Role::Table { quick, only } => (quick, only),
    };
    let plan = Plan { work: MEAN, ..Plan::new(CAPACITY, DEADLINE, quick) };
    load::compare(&plan, &only, &["bare", "tower", "patience", "bodies", "best"], connect, call).await;
    Ok(())
}
