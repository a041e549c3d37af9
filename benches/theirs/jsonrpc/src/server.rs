//! A server of jsonrpsee whose methods share eight slots, in all variants.

use std::{error::Error, sync::Arc, time::Duration};

use jsonrpsee::{
    RpcModule,
    server::{Methods, Server, ServerConfig, middleware::rpc::RpcServiceBuilder},
};
use load::{Meter, Slots};
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower_admission::{Admission, AdmissionLayer, BuildError, limit::Fixed};

use crate::{by_hand::ByHand, glue::Admitted};

/// How many calls the shared resource does at once.
const SLOTS: usize = 8;

/// How long a call needs its slot.
pub(crate) const WORK: Duration = Duration::from_millis(20);

/// Units of work in a second: a call is one, and a batch three.
pub(crate) const CAPACITY: f64 = 400.0;

/// How long callers wait.
pub(crate) const DEADLINE: Duration = WORK.saturating_mul(10);

/// How many calls may be inside before they slow each other down.
const INSIDE: u64 = 16;

/// A fixed number of requests at once: the best of 12, 16 and 24 over HTTP, in
/// short runs under the load of the table.
const OWN: u32 = 16;

/// What the methods share.
#[derive(Clone)]
struct Node {
    slots: Slots,
    meter: Meter,
}

impl Node {
    async fn work(&self) {
        let _running = self.meter.enter();
        self.slots.work().await;
    }
}

fn methods(meter: &Meter) -> Result<Methods, Box<dyn Error>> {
    let slots = Slots::new(SLOTS, WORK, INSIDE, meter);
    let mut module = RpcModule::new(Node { slots, meter: meter.clone() });
    module.register_async_method("slow_call", async |_, node, _| {
        node.work().await;
        "lo"
    })?;
    module.register_async_method("memory_intense", async |_, node, _| {
        node.work().await;
        "A".repeat(256 * 1024)
    })?;
    Ok(module.into())
}

/// The set-up of the README: callers wait so long, and all else follows.
fn patience() -> Result<Admission, BuildError> {
    Admission::builder().patience(DEADLINE).build()
}

/// The best of four set-ups that were tried, under the load of the table: half as many calls again as the resource does, so that none of its slots is ever
/// without work, and a wait that leaves a batch its time.
fn best() -> Result<Admission, BuildError> {
    Admission::builder().patience(DEADLINE).limit(Fixed::new(12)).max_wait(2 * WORK).build()
}

/// Serves a variant until the parent process has enough.
pub(crate) async fn serve(kind: &str) -> Result<(), Box<dyn Error>> {
    let meter = Meter::default();
    let methods = methods(&meter)?;
    let own = if kind == "http own" { OWN } else { 100_000 };
    let builder = Server::builder().set_config(ServerConfig::builder().max_connections(own).build());
    let admission = if kind.ends_with("best") { best()? } else { patience()? };
    let any = "127.0.0.1:0";
    let (address, handle) = match kind {
        "http bare" | "http own" | "ws bare" => {
            let server = builder.build(any).await?;
            (server.local_addr()?, server.start(methods))
        }
        "http patience" | "http best" => {
            let http = ServiceBuilder::new().layer(AdmissionLayer::new(&admission));
            let server = builder.set_http_middleware(http).build(any).await?;
            (server.local_addr()?, server.start(methods))
        }
        "ws patience" | "ws best" => {
            let calls =
                RpcServiceBuilder::new().layer_fn(move |inner| Admitted { inner, admission: admission.clone() });
            let server = builder.set_rpc_middleware(calls).build(any).await?;
            (server.local_addr()?, server.start(methods))
        }
        "ws semaphore" => {
            let free = Arc::new(Semaphore::new(OWN as usize));
            let calls = RpcServiceBuilder::new().layer_fn(move |inner| ByHand { inner, free: Arc::clone(&free) });
            let server = builder.set_rpc_middleware(calls).build(any).await?;
            (server.local_addr()?, server.start(methods))
        }
        _ => return Err(format!("there is no variant {kind:?}").into()),
    };
    load::serve(address, &meter).await;
    handle.stop()?;
    Ok(())
}
