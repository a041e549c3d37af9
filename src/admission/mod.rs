//! [`AdmissionLayer`]: an [`Admission`](crate::Admission) applied to a tower service.
//!
//! ```text
//! layer ──▶ service ─ classify ─▶ arrive ─▶ future ─ wait, call, learn ─▶ body ─ hold, free
//!                                    └──── respond (429, 503, gRPC status)
//! ```

mod assess;
mod body;
mod classify;
mod context;
mod detach;
mod future;
mod generic;
mod head;
mod layer;
mod nesting;
mod policy;
mod protocol;
mod respond;
mod service;

pub use assess::{Assess, ByStatus, ResponseHead};
pub use body::{AdmissionBody, BodyData};
#[cfg(feature = "axum")]
pub use classify::by_matched_path;
#[cfg(feature = "introspect")]
pub(crate) use classify::percent_decoded;
pub use classify::{
    Classify, KeyExtractor, by_baggage, by_extension, by_forwarded_ip, by_grpc_method, by_grpc_service, by_header,
    by_peer_ip, classify_fn, demote_retries, label_by_extension, partition_by_extension, paths,
};
pub use context::Grant;
pub use detach::{Detached, DetachedFuture, DetachedLayer};
pub use future::ResponseFuture;
pub use generic::{AdmissionError, AssessResult, ClassifyRequest, GenericFuture, GenericProtocol, classify_request_fn};
pub use head::RequestHead;
pub use layer::AdmissionLayer;
pub use policy::{Abandoned, Deadline, Policy, ReleaseAt, SampleAt};
pub use protocol::HttpProtocol;
pub use respond::{AnswerBody, Rejections};
pub use service::AdmissionService;
