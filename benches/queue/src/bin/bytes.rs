//! Bytes that one who waits keeps allocated, with 100,000 of them.
//!
//! A program of its own: counting allocations costs time that the other figures don't want.

use std::{
    alloc::System,
    convert::Infallible,
    future::{Future, pending},
    pin::Pin,
    task::{Context, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use queue::{
    contestants::{Line, Ours, Tokio},
    tasks::{Tasks, runtime},
    waiters::Waiters,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower::{Layer, Service, service_fn};
use tower_admission::{AdmissionLayer, classify::by_header};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WAITERS: usize = 100_000;
const LABELS: [(&str, usize); 4] =
    [("no label", 0), ("1 label", 1), ("1,000 labels", 1_000), ("100,000 labels", WAITERS)];

fn main() {
    println!("| who waits | future | behind it | in all |");
    println!("|---|---:|---:|---:|");
    for (name, labels) in LABELS {
        futures(name, &Ours::new(WAITERS, labels));
    }
    futures("tokio", &Tokio::default());
    for (name, labels) in LABELS {
        tasks(name, &Ours::new(WAITERS, labels));
    }
    tasks("tokio", &Tokio::default());
    services();
}

/// Bytes that are allocated and were not at the beginning of the region, per waiter.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn kept(region: &Region<'_, System>) -> f64 {
    let change = region.change();
    (change.bytes_allocated as f64 - change.bytes_deallocated as f64) / WAITERS as f64
}

fn row(name: &str, future: usize, behind: f64) {
    println!("| {name} | {future} | {behind:.0} | {:.0} |", behind + future as f64);
}

/// Futures side by side in a vector that has just the room for them.
fn futures<L: Line>(name: &str, line: &L) {
    let runtime = runtime();
    let _guard = runtime.enter();
    let mut waiters = Waiters::new(line, WAITERS);
    let region = Region::new(ALLOCATOR);
    (0..WAITERS).for_each(|_| waiters.join());
    row(name, size_of::<L::Wait>(), kept(&region));
}

/// Tasks that wait: the future is in the task, and so is what tokio keeps for it.
fn tasks<L: Line>(name: &str, line: &L) {
    runtime().block_on(async {
        let mut tasks = Tasks::new(line, WAITERS).await;
        let region = Region::new(ALLOCATOR);
        tasks.join(WAITERS).await;
        println!("| tasks, {name} | | | {:.0} |", kept(&region));
        tasks.leave().await;
    });
}

/// Requests that wait in front of a handler, beyond the same requests inside of it.
fn services() {
    let runtime = runtime();
    let _guard = runtime.enter();
    let line = Ours::new(WAITERS, 0);
    let layer = AdmissionLayer::new(&line.admission).classify(by_header("x-tenant").as_label());
    let _held = line.admission.try_admit(line.ticket(0)).expect("the slot is free");
    let handler = service_fn(|request: Request<Full<Bytes>>| async move {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let (bare_size, bare, waits) = requests(handler);
    drop(waits);
    let (size, all, waits) = requests(layer.layer(handler));
    assert_eq!(line.admission.snapshot().waiting, WAITERS);
    drop(waits);
    #[expect(clippy::cast_precision_loss, reason = "some hundred bytes")]
    let (future, net) = (size as f64 - bare_size as f64, all - bare);
    println!(
        "| requests before a service, 1,000 labels: more than inside of it | {future:.0} | {:.0} | {net:.0} |",
        net - future
    );
}

/// The size of a future, all that one keeps, and the futures.
fn requests<S>(mut service: S) -> (usize, f64, Vec<Pin<Box<S::Future>>>)
where
    S: Service<Request<Full<Bytes>>>,
{
    let mut waits: Vec<Pin<Box<S::Future>>> = Vec::with_capacity(WAITERS);
    let region = Region::new(ALLOCATOR);
    for number in 0..WAITERS {
        let request = Request::builder().uri("/").header("x-tenant", format!("tenant-{}", number % 1_000));
        let request = request.body(Full::new(Bytes::from_static(b"hello"))).expect("a request");
        let mut wait = Box::pin(service.call(request));
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        waits.push(wait);
    }
    (size_of::<S::Future>(), kept(&region), waits)
}
