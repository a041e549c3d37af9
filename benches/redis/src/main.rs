//! Prints the tables of the page about shared limits.

mod cost;
mod runbook;
mod server;
mod table;

use server::Server;

#[tokio::main]
async fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let server = Server::start().await;
    if what != "runbook" {
        cost::run(&server).await;
    }
    if what != "cost" {
        runbook::run(&server).await;
    }
}
