//! Requests that meet this crate twice: the same handle on a router and on its routes, or one handle within another.
//!
//! A mark on a request or on a response costs allocations, so marks are only set where they may be read: on
//! requests once a handle was put into place more than once (axum does so for each route), on rejections once there
//! is more than one place in this process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Extensions;

use crate::runtime::Admission;

/// How often layers were made, cloned or applied, over all handles.
static PLACES: AtomicUsize = AtomicUsize::new(0);

/// Notes that a layer of the handle with these `places` was made, cloned or applied.
///
/// One layer that is applied once makes two places. A request can't meet a handle twice without a third: the second
/// layer, its clone, or the second application, each of which comes before the request.
pub(super) fn count(places: &AtomicUsize) {
    places.fetch_add(1, Ordering::Relaxed);
    PLACES.fetch_add(1, Ordering::Relaxed);
}

/// The handles that a request has passed, the last one first.
#[derive(Clone, Debug)]
struct Passed {
    handle: usize,
    before: Option<Arc<Self>>,
}

/// Marks a request as having passed `handle`. Answers false if it had before.
pub(super) fn pass(admission: &Admission, extensions: &mut Extensions) -> bool {
    if admission.shared.places.load(Ordering::Relaxed) <= 2 {
        return true;
    }
    let handle = Arc::as_ptr(&admission.shared).addr();
    let passed = extensions.get::<Passed>();
    let mut next = passed;
    while let Some(one) = next {
        if one.handle == handle {
            return false;
        }
        next = one.before.as_deref();
    }
    let before = passed.cloned().map(Arc::new);
    extensions.insert(Passed { handle, before });
    true
}

/// Marks a response as a rejection of this crate.
#[derive(Clone, Copy, Debug)]
struct OwnRejection;

pub(super) fn mark_rejection(extensions: &mut Extensions) {
    if PLACES.load(Ordering::Relaxed) > 2 {
        extensions.insert(OwnRejection);
    }
}

pub(super) fn is_own_rejection(extensions: &Extensions) -> bool {
    extensions.get::<OwnRejection>().is_some()
}
