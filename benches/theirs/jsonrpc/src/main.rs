//! A JSON-RPC server of jsonrpsee under overload, over HTTP and WebSocket, without and with tower-admission.
//!
//! ```text
//! cargo run --release -p jsonrpc
//! cargo run --release -p jsonrpc -- --quick --only ws
//! ```

mod by_hand;
mod calls;
mod glue;
mod server;

use std::{error::Error, net::SocketAddr};

use load::{Plan, Role};

use crate::{
    calls::{Client, MEAN, call},
    server::{CAPACITY, DEADLINE},
};

const HTTP: [&str; 4] = ["http bare", "http own", "http patience", "http best"];
const SOCKETS: [&str; 4] = ["ws bare", "ws semaphore", "ws patience", "ws best"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (quick, only) = match Role::of_this_process() {
        Role::Serve(kind) => return server::serve(&kind).await,
        Role::Table { quick, only } => (quick, only),
    };
    let plan = Plan { work: MEAN, ..Plan::new(CAPACITY, DEADLINE, quick) };
    load::compare(&plan, &only, &[&HTTP[..], &SOCKETS].concat(), connect, call).await;
    Ok(())
}

async fn connect(kind: &'static str, address: SocketAddr) -> Client {
    if kind.starts_with("http") { Client::http(address).await } else { Client::sockets(address).await }
}
