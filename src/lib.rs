//! x
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adaptive;
mod admission;
mod clock;
mod config;
mod engine;
#[cfg(feature = "introspect")]
mod introspect;
mod outcome;
mod problem;
mod rejection;
mod runtime;
mod ticket;
mod time;

#[cfg(feature = "axum")]
pub use crate::admission::by_matched_path;
#[cfg(feature = "introspect")]
pub use crate::introspect::Introspection;
pub use crate::{
    adaptive::AdaptiveConcurrencyLayer,
    admission::{
        AdmissionBody, AdmissionError, AdmissionLayer, AdmissionService, Assess, AssessResult, By, ByStatus, Classify,
        ClassifyRequest, Deadline, DefaultPartition, Generic, GenericFuture, Hold, Http, Learn, OkIsSuccess, Payload,
        Policy, Rejections, RequestHead, ResponseFuture, ResponseHead, by_extension, by_forwarded_ip, by_grpc_method,
        by_grpc_service, by_header, by_peer_ip, paths,
    },
    clock::Clock,
    config::{Share, percent},
    engine::{
        PartitionSnapshot, Quantiles, Snapshot,
        plan::{Mode, PartitionMode},
    },
    outcome::Outcome,
    problem::{BuildError, Problem},
    rejection::{Reason, Rejection},
    runtime::{Admission, AdmissionBuilder, Admit, Permit},
    ticket::Ticket,
    time::Timestamp,
};

/// Control laws: how the limit is learned, or that it isn't.
pub mod limit {
    pub use crate::engine::limit::{Aggregate, Aimd, Fixed, Law, Limit, Sample, Windowed};
}
