//! A server of jsonrpsee whose methods share eight slots, in all variants.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use jsonrpsee::{
    RpcModule,
    server::{Methods, Server, ServerConfig, middleware::rpc::RpcServiceBuilder},
};
use load::Meter;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
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

/// So many calls inside cost nothing extra. Each one above makes the work of all slower by a hundredth.
const INSIDE: u64 = 16;

/// The best fixed numbers of requests at once that were found by hand.
const OWN: u32 = 16;

/// What the methods share.
#[derive(Clone)]
struct Node {
    slots: Arc<Semaphore>,
    /// When each slot that is free now ended its last work.
    ended: Arc<Mutex<Vec<Instant>>>,
    meter: Meter,
}

impl Node {
    fn new(meter: Meter) -> Self {
        let ended = Arc::new(Mutex::new(vec![Instant::now(); SLOTS]));
        Self { slots: Arc::new(Semaphore::new(SLOTS)), ended, meter }
    }

    /// The work of a call, which goes on where its caller leaves after it was begun, as that of a database does.
    async fn work(&self) {
        let _running = self.meter.enter();
        let came = Instant::now();
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("it is not closed");
        let node = self.clone();
        let work = tokio::spawn(async move {
            let above = node.meter.running().saturating_sub(INSIDE);
            let work = WORK + WORK * u32::try_from(above).unwrap_or(u32::MAX) / 100;
            // Timers fire late. A call that waited begins when the last one on its slot should have ended, so that the
            // capacity is what it is said to be.
            let last = node.ended.lock().expect("no thread panics").pop().expect("one for each slot");
            let end = came.max(last) + work;
            sleep_until(end).await;
            node.meter.worked(1);
            node.ended.lock().expect("no thread panics").push(end);
            drop(slot);
        });
        work.await.expect("it does not panic");
    }
}

fn methods(meter: &Meter) -> Result<Methods, Box<dyn Error>> {
    let mut module = RpcModule::new(Node::new(meter.clone()));
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

/// The best set-up that was found: as many calls at once as the resource does.
fn best() -> Result<Admission, BuildError> {
    let get = |name: &str, or: usize| std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(or);
    let wait = Duration::from_millis(get("WAIT", 60) as u64);
    Admission::builder().patience(DEADLINE).limit(Fixed::new(get("LIMIT", 16))).max_wait(wait).build()
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
