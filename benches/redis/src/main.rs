//! Prints the tables of the page about shared limits.

mod admission;
mod cost;
mod runbook;
mod server;
mod table;

use server::Server;

#[tokio::main]
async fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let server = Server::start().await;
    if matches!(&*what, "" | "cost") {
        cost::run(&server).await;
    }
    if matches!(&*what, "" | "request") {
        admission::run(&server).await;
    }
    if matches!(&*what, "" | "runbook") {
        runbook::run(&server).await;
    }
}
