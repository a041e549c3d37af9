//! Overload protection: decides, inside a server, which requests run now, which wait for their turn and which are
//! rejected with the time to come back.
//!
//! A service that accepts every request falls over under load: one noisy caller takes every slot, latency grows until
//! all answers come too late, and the clients of the served requests have left long ago. With this crate you add
//! `.layer(…)`, and the service holds.
//!
//! - [`AdaptiveConcurrencyLayer`] learns from the round-trip time how many requests can run at once, divides them among
//!   callers by percentage, and sheds all further requests.
//! - [`AdmissionLayer`] does everything that an [`Admission`] can: a fixed or a learned limit, partitions, two-phase
//!   admission (a gate with a short timeout, then a place in a patient line), turns by label (the fairness key, such as
//!   a tenant), and caps, rates and budgets for classes of work.
//!
//! Both work under axum, tonic and plain hyper, for HTTP and gRPC, and [for any other tower
//! service](AdmissionLayer::generic).
//!
//! # Quick start
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use axum::{Router, routing::get};
//! use tower_admission::{Admission, AdmissionLayer, classify::by_header, percent};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let admission = Admission::builder()
//!     .patience(Duration::from_secs(1))            // how long callers wait: limit, queue and bounds follow
//!     .partition("checkout", percent(60))          // guaranteed to these callers
//!     .build()?;
//!
//! let app: Router = Router::new()
//!     .route("/search", get(async || "found"))
//!     .layer(AdmissionLayer::new(&admission).classify(by_header("x-tenant")));
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # axum::serve(listener, app).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Without any setting it is one line: `AdmissionLayer::new(&Admission::builder().build()?)` [learns how many requests
//! can run](docs::tuning#nothing-set), from 20 on; further requests wait for at most half a second.
//!
//! # Without HTTP
//!
//! Where no server brings the requests, such as in a worker that takes jobs from a queue, [`admit`](Admission::admit) gives a [`Permit`]
//! for each, before its task is spawned. It moves into the task and says how the work went: [`finish`](Permit::finish). From a permit
//! that is dropped the limit learns next to nothing. `examples/worker.rs` is such a program.
//!
//! # One request
//!
//! ```text
//!            classify      arrive                 wait                 call     learn            free
//! request ──▶ Ticket ──▶ slot free? ──yes──────────────────────────▶ service ──▶ head ──▶ body ──▶ end
//!                            │no                                        ▲
//!                            ├──▶ gate (admission timeout) ──▶ line ────┘
//!                            └──▶ rejected: 429, 503, RESOURCE_EXHAUSTED, with the time to come back
//! ```
//!
//! - **A slot is held to the end of the response body**, and given back on every way a request can end: last frame,
//!   error, trailers, drop, panic, killed connection.
//! - **A law learns for how long slots are held**, since that is what a limit counts: up to the end of the body, or up to the
//!   deadline of the caller where the body goes on. Where no deadline is known, the round-trip time ends at the response head. A
//!   request that was cancelled late is evidence of a slow server, a request that was cancelled early is evidence of nothing.
//! - **All state is in the handle.** axum applies a layer again for each route *and each connection*; a limiter that
//!   creates its state there limits nothing. Here `layer()` clones an `Arc`.
//! - **No slot is reserved before a request arrives.** Idle connections hold no slot.
//! - **Rejections are responses**, so the `Error` type is unchanged and no `HandleErrorLayer` is needed.
//!
//! # Pages
//!
//! - To begin with: [where the layer belongs](docs::placement) · [choosing a limit](docs::tuning) ·
//!   [several tenants](docs::tenants) · [coming from other limits](docs::migrating) · [servers of others](docs::servers)
//! - To run it: [the runbook](docs::runbook) · [Kubernetes](docs::kubernetes) · [metrics](docs::metrics) ·
//!   [introspection](docs::introspection) · [the command `admission`](docs::cli)
//! - To look up: [guarantees, and what is not guaranteed](docs::guarantees) · [limits shared by instances](docs::shared_limits) ·
//!   [architecture](docs::architecture)
#![cfg_attr(feature = "config", doc = "  · [configuration](docs::configuration)")]
//!
//! # Features
//!
//! Features only add.
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `introspect` | `Admission::introspection`: `GET /admission` as JSON and as a live page; `Serialize` for [`Snapshot`](snapshot::Snapshot) | yes |
//! | `capture` | `capture::{Capture, RollingCapture}`: what a handle was told and decided, recorded to be [replayed](docs::introspection#capture-and-replay) | no |
//! | `shared` | `AdmissionBuilder::shared` and `store`: limits [shared by all instances](docs::shared_limits), in any store | no |
//! | `redis` | `shared`, and `store::RedisStore`: a store in Redis or Valkey | no |
//! | `redis-cluster` | the same on a Redis Cluster | no |
//! | `rows` | `shared`, and `store::RowStore`: a store in a database of your own | no |
//! | `contract` | `shared`, and `store::contract`: what a store promises, as checks for a store of your own | no |
//! | `redis-tls` | `rediss://` addresses | no |
//! | `tracing` | decisions as fields of the current span, changes as events; see [metrics](docs::metrics) | no |
//! | `config` | `configuration::AdmissionConfig`: settings as data, from files and environment variables | no |
//! | `processor-clock` | `AdmissionBuilder::processor_clock`: a clock that is cheaper to read | no |
//! | `schema` | for the description of the answers; a development feature: its `JsonSchema` may change in any version | no |
//! | `axum` | `classify::by_matched_path`, and `ConnectInfo` for [`by_peer_ip`](classify::by_peer_ip) | no |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adaptive;
mod admission;
#[cfg(any(test, kani))]
#[path = "../crates/engine/src/arbitrary_tests.rs"]
mod arbitrary_tests;
pub mod capacity;
mod clock;
pub mod docs;
#[cfg(feature = "introspect")]
mod introspect;
#[cfg(test)]
#[path = "../crates/engine/src/kept_tests.rs"]
mod kept_tests;
mod keys;
mod rejection;
mod runtime;
mod ticket;

#[cfg(feature = "shared")]
#[doc(inline)]
pub use tower_admission_store as store;
#[doc(inline)]
pub use tower_admission_store::Clock;

use tower_admission_config as config;
use tower_admission_engine as engine;
#[cfg(not(feature = "shared"))]
use tower_admission_store as store;

#[doc(inline)]
pub use crate::{
    adaptive::AdaptiveConcurrencyLayer,
    admission::{AdmissionLayer, AdmissionService},
    config::{Cap, ClassLimits, Labels, Rate, Rules, Share, percent},
    engine::{
        BuildError, Criticality, Outcome, Problem, Reason, Timestamp, UnknownWord,
        plan::{Discipline, Mode, PartitionMode},
        rules::{RateMode, WhenFull},
    },
    rejection::Rejection,
    runtime::{Admission, AdmissionBuilder, DrainMode, Permit, WorkerReport},
    ticket::Ticket,
};

/// The inputs of a handle, recorded so that they can be replayed.
#[cfg(feature = "capture")]
pub mod capture {
    pub use crate::runtime::{Capture, CaptureError, CaptureStatus, CapturedLines, Recording, RollingCapture};
}

/// Which partition, label and class a request belongs to: classifiers for HTTP and gRPC.
pub mod classify {
    #[cfg(feature = "axum")]
    pub use crate::admission::by_matched_path;
    pub use crate::admission::{
        Classify, KeyExtractor, RequestHead, by_baggage, by_extension, by_forwarded_ip, by_grpc_method,
        by_grpc_service, by_header, by_peer_ip, classify_fn, demote_retries, label_by_extension,
        partition_by_extension, paths,
    };
    pub use crate::keys::{LabelKey, PartitionKey};
}

/// Settings as data: with the feature `config`, `AdmissionConfig`, its parts, and the origin of each value.
pub mod configuration {
    #[cfg(feature = "config")]
    pub use crate::config::{
        AdmissionConfig, AimdConfig, ConfigError, ConfigProblem, Effective, FixedConfig, Gradient2Config,
        GradientConfig, LabelOverride, LimitConfig, Loaded, OnStoreFailureConfig, Origin, Sources, StoreConfig,
        StoreUrl, TwoPointConfig, VegasConfig, parse_time, write_time,
    };
    pub use crate::config::{Derived, LabelConfig};
    #[cfg(feature = "config")]
    pub use crate::runtime::Watch;
}

/// The layer around services that are not HTTP, made by [`AdmissionLayer::generic`].
pub mod generic {
    pub use crate::admission::{
        AdmissionError, AssessResult, ClassifyRequest, GenericFuture, GenericProtocol, classify_request_fn,
    };
}

/// The service that answers `GET /admission`, made by [`Admission::introspection`]; and its answers, as types for
/// clients.
///
/// ```
/// use tower_admission::introspection::JournalPage;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body = r#"{"capacity": 512, "newest": 0, "entries": []}"#;          // of GET /admission/journal
/// let page: JournalPage = serde_json::from_str(body)?;
/// assert_eq!((page.capacity, page.entries.len()), (512, 0));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "introspect")]
pub mod introspection {
    pub use crate::introspect::wire::{
        HistoryFrame, HistoryPage, HistoryRejection, HistoryRow, Identity, JournalPage, Label, LabelPage, Overview,
        Partition, PartitionSection, Partitions, Readiness, Section, WaiterPage,
    };
    pub use crate::introspect::{Introspection, IntrospectionFuture};
    pub use crate::runtime::CaptureStatus;
}

/// The last decisions and changes with their reasons, as [`Admission::journal`] returns them.
pub mod journal {
    #[doc(inline)]
    pub use crate::engine::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent};
}

/// Control laws, which learn the limit, and the fixed limit.
pub mod limit {
    #[doc(inline)]
    pub use crate::engine::limit::{
        Aimd, Fixed, Gradient, Gradient2, Limit, LimitAlgorithm, LimitInputs, LimitState, Phase, QueueSize, Reference,
        Sample, TwoPoint, Vegas, Windowed,
    };
}

/// The events of a [`Permit`]: futures that end when a slot is granted, has expired, or has lost its lease.
pub mod permit {
    pub use crate::runtime::{Admit, KeptSlot, LeaseLost, PermitExpiry, SlotKeeper};
}

/// Services whose work is driven to its end, also when its request is given up: made by [`AdmissionLayer::detach`].
pub mod detached {
    pub use crate::admission::{Detached, DetachedFuture, DetachedLayer};
}

/// Settings per request: when the slot is given back, what is learned, and the deadline of the caller.
pub mod policy {
    pub use crate::admission::{Abandoned, Deadline, Policy, ReleaseAt, SampleAt};
}

/// Responses over HTTP and gRPC: to rejected requests, and what the response of a service means for the limit. Beside them, how
/// a request was admitted.
pub mod response {
    pub use crate::admission::{
        AdmissionBody, AnswerBody, Assess, BodyData, ByStatus, Grant, HttpProtocol, Rejections, ResponseFuture,
        ResponseHead,
    };
}

/// The state of a handle at one moment, as [`Admission::snapshot`] and its siblings return it.
pub mod snapshot {
    #[doc(inline)]
    pub use crate::engine::{
        BlockedBy, Foremost, Health, HealthSnapshot, LabelSnapshot, LabelStatus, LimitMove, LimitSnapshot,
        PartitionSnapshot, Quantiles, RecentSnapshot, RejectedSnapshot, RuleSnapshot, ShadowSnapshot, Snapshot,
        StoreSnapshot, WaiterSnapshot,
    };
}
