//! Requests that meet this crate twice: the same handle on a router and on its routes, or one handle within another.
//!
//! A mark in the extensions of a request would cost each request an allocation. So the thread knows instead which handles
//! it is inside of, as long as it calls or polls a service behind them. That knowledge does not go along to another task: a
//! request that is spawned, or that goes through a `Buffer`, meets the second layer as if there had been no first one.

use std::cell::{Cell, RefCell};

use http::Extensions;

/// A handle, by its address.
pub(super) type HandleId = usize;

thread_local! {
    /// The innermost handle that this thread is inside of; 0 for none.
    static INNERMOST: Cell<HandleId> = const { Cell::new(0) };
    /// The others.
    static OUTER: RefCell<Vec<HandleId>> = const { RefCell::new(Vec::new()) };
}

/// The time that a thread spends behind a handle, until this is dropped.
#[must_use]
pub(super) struct Inside {
    before: HandleId,
}

impl Inside {
    /// Goes behind a handle.
    #[inline]
    pub(super) fn of(handle: HandleId) -> Self {
        let before = INNERMOST.replace(handle);
        if before != 0 {
            push(before);
        }
        Self { before }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.set(self.before);
        if self.before != 0 {
            pop();
        }
    }
}

#[cold]
fn push(handle: HandleId) {
    // The list is gone while a thread ends: nothing is nested any deeper then.
    let _ = OUTER.try_with(|outer| outer.borrow_mut().push(handle));
}

#[cold]
fn pop() {
    let _ = OUTER.try_with(|outer| outer.borrow_mut().pop());
}

/// Whether a request that arrives now has passed this handle before.
#[inline]
pub(super) fn has_passed(handle: HandleId) -> bool {
    let innermost = INNERMOST.get();
    innermost != 0 && (innermost == handle || is_outer(handle))
}

#[cold]
fn is_outer(handle: HandleId) -> bool {
    OUTER.try_with(|outer| outer.borrow().contains(&handle)).unwrap_or(false)
}

/// Marks a response as a rejection of this crate.
#[derive(Clone, Copy, Debug)]
struct OwnRejection;

/// Marks a rejection, if there is a handle around this one that may read it.
#[inline]
pub(super) fn mark_rejection(extensions: &mut Extensions) {
    if INNERMOST.get() != 0 {
        extensions.insert(OwnRejection);
    }
}

pub(super) fn is_own_rejection(extensions: &Extensions) -> bool {
    extensions.get::<OwnRejection>().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_what_it_is_inside_of_until_it_leaves() {
        assert!(![1, 2, 3].into_iter().any(has_passed));
        let outer = Inside::of(1);
        {
            let _inner = Inside::of(2);
            let _innermost = Inside::of(3);
            assert!([1, 2, 3].into_iter().all(has_passed) && !has_passed(4));
            let elsewhere = std::thread::spawn(|| has_passed(1)).join();
            assert!(!elsewhere.unwrap(), "another thread is inside of nothing");
        }
        assert_eq!([1, 2, 3].map(has_passed), [true, false, false]);
        drop(outer);
        assert!(![1, 2, 3].into_iter().any(has_passed));
    }

    #[test]
    fn a_panic_leaves_as_well() {
        let panicked = std::panic::catch_unwind(|| {
            let _inside = Inside::of(7);
            panic!("inside");
        });
        assert!(panicked.is_err() && !has_passed(7));
    }

    #[test]
    fn only_rejections_inside_of_a_handle_are_marked() {
        let mut extensions = Extensions::new();
        mark_rejection(&mut extensions);
        assert!(!is_own_rejection(&extensions) && extensions.is_empty());
        let _inside = Inside::of(1);
        mark_rejection(&mut extensions);
        assert!(is_own_rejection(&extensions));
    }
}
