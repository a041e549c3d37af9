//! The capture of the last minutes over HTTP. Off unless enabled.

use std::time::Duration;

use http::{Method, StatusCode};

use super::{
    query::CaptureQuery,
    reply::{Problem, Reply},
};
use crate::runtime::{Admission, CaptureError, RollingCapture};

/// Fetches the capture, starts it or stops it.
pub(super) fn answer(admission: &Admission, method: &Method, query: Option<&str>) -> Result<Reply, Problem> {
    let query = CaptureQuery::parse(query)?;
    match *method {
        Method::GET => {
            let lines = admission.captured(query.last.map_or(Duration::MAX, Duration::from_secs));
            lines.map(Reply::lines).ok_or_else(nothing)
        }
        Method::POST => {
            let mut capture = RollingCapture::new();
            if let Some(last) = query.last {
                capture = capture.last(Duration::from_secs(last));
            }
            if let Some(bytes) = query.max_bytes {
                capture = capture.max_bytes(bytes);
            }
            match capture.start(admission) {
                Ok(()) => Ok(Reply::no_content()),
                Err(error @ CaptureError::Running) => Err(Problem::new(StatusCode::CONFLICT, error)),
                Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)),
            }
        }
        Method::DELETE if admission.stop_rolling_capture() => Ok(Reply::no_content()),
        Method::DELETE => Err(nothing()),
        _ => Err(Problem::method("GET, POST, DELETE")),
    }
}

fn nothing() -> Problem {
    Problem::not_found(
        "no rolling capture runs or ran: POST to this path starts it, and so does capture_last in the settings",
    )
}
