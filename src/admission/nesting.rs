//! Requests that meet this crate twice: the same handle on a router and on its routes, or one handle within another.
//!
//! A mark in the extensions of a request would cost each request an allocation. So the thread knows instead which handles
//! it is inside of, as long as it calls or polls a service behind them. That knowledge does not go along to another task: a
//! request that is spawned, or that goes through a `Buffer`, meets the second layer as if there had been no first one.
//!
//! A slot is for one piece of work at a time. So it covers one pass: while a request is on its way behind a second layer, further
//! requests that its handler sends through the same handle take slots of their own, as requests in other tasks do.

use std::{
    cell::{Cell, RefCell},
    num::NonZeroUsize,
};

use http::Extensions;

/// A handle, by its address, which is even.
pub(super) type HandleId = usize;

/// Stands in the lowest bit of a handle's address while the slot covers a pass.
const COVERS: usize = 1;

thread_local! {
    /// The innermost handle that this thread is inside of; 0 for none.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
    /// The others.
    static OUTER: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The time that a thread spends behind a handle, until this is dropped.
#[must_use]
pub(super) struct Inside {
    before: usize,
}

impl Inside {
    /// Goes behind a handle, with a slot that covers a pass already or not.
    #[inline]
    pub(super) fn of(handle: HandleId, covers: bool) -> Self {
        let before = INNERMOST.replace(handle | usize::from(covers));
        if before != 0 {
            push(before);
        }
        Self { before }
    }

    /// Returns whether the slot covers a pass now.
    #[inline]
    #[expect(clippy::unused_self, reason = "it is asked of the place where the thread is")]
    pub(super) fn covers(&self) -> bool {
        INNERMOST.get() & COVERS != 0
    }
}

/// A pass of a request behind a slot that it has already, until this is dropped.
#[derive(Debug)]
pub(super) struct Pass(NonZeroUsize);

impl Pass {
    /// Passes a handle that this thread is inside of, if the slot covers no other pass.
    #[inline]
    pub(super) fn behind(handle: HandleId) -> Option<Self> {
        if INNERMOST.get() == 0 { None } else { Self::find(handle) }
    }

    #[cold]
    fn find(handle: HandleId) -> Option<Self> {
        NonZeroUsize::new(handle).filter(|_| change(handle, handle | COVERS)).map(Self)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // In another task, the slot covers the pass for as long as the request is there.
        change(self.0.get() | COVERS, self.0.get());
    }
}

/// Changes what is known of the innermost slot of a handle; returns whether it was so.
fn change(from: usize, to: usize) -> bool {
    if INNERMOST.get() | COVERS == from | COVERS {
        let is_so = INNERMOST.get() == from;
        if is_so {
            INNERMOST.set(to);
        }
        return is_so;
    }
    let outer = OUTER.try_with(|outer| {
        let mut outer = outer.borrow_mut();
        let found = outer.iter_mut().rev().find(|it| **it | COVERS == from | COVERS)?;
        let is_so = *found == from;
        if is_so {
            *found = to;
        }
        Some(is_so)
    });
    outer.ok().flatten() == Some(true)
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let before = if self.before == 0 { 0 } else { pop().unwrap_or(self.before) };
        INNERMOST.set(before);
    }
}

#[cold]
fn push(handle: usize) {
    // The list is gone while a thread ends: nothing is nested any deeper then.
    let _ = OUTER.try_with(|outer| outer.borrow_mut().push(handle));
}

#[cold]
fn pop() -> Option<usize> {
    OUTER.try_with(|outer| outer.borrow_mut().pop()).ok().flatten()
}

/// Marks a response as a rejection of this crate.
#[derive(Clone, Copy, Debug)]
struct OwnRejection;

/// Marks a rejection, if there is a handle around this one that may read it.
#[expect(clippy::inline_always, reason = "measured: one test, unless layers are nested")]
#[inline(always)]
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

    fn passes(handle: HandleId) -> bool {
        Pass::behind(handle).is_some()
    }

    #[test]
    fn a_thread_knows_what_it_is_inside_of_until_it_leaves() {
        assert!(![2, 4, 6].into_iter().any(passes));
        let outer = Inside::of(2, false);
        {
            let _inner = Inside::of(4, false);
            let _innermost = Inside::of(6, false);
            assert!([2, 4, 6].into_iter().all(passes) && !passes(8));
            let elsewhere = std::thread::spawn(|| passes(2)).join();
            assert!(!elsewhere.unwrap(), "another thread is inside of nothing");
        }
        assert_eq!([2, 4, 6].map(passes), [true, false, false]);
        drop(outer);
        assert!(![2, 4, 6].into_iter().any(passes));
    }

    #[test]
    fn a_slot_covers_one_pass_at_a_time() {
        let outer = Inside::of(2, false);
        let _inner = Inside::of(4, false);
        let (first, other) = (Pass::behind(2).unwrap(), Pass::behind(4).unwrap());
        assert!(Pass::behind(2).is_none() && Pass::behind(4).is_none());
        drop((first, other));
        let again = Pass::behind(2);
        drop(_inner);
        assert!(again.is_some() && outer.covers());
        drop(outer);
        let polled_again = Inside::of(2, true);
        assert!(Pass::behind(2).is_none());
        drop(again);
        assert!(!polled_again.covers() && passes(2));
    }

    #[test]
    fn a_panic_leaves_as_well() {
        let panicked = std::panic::catch_unwind(|| {
            let _inside = Inside::of(8, false);
            panic!("inside");
        });
        assert!(panicked.is_err() && !passes(8));
    }

    #[test]
    fn only_rejections_inside_of_a_handle_are_marked() {
        let mut extensions = Extensions::new();
        mark_rejection(&mut extensions);
        assert!(!is_own_rejection(&extensions) && extensions.is_empty());
        let _inside = Inside::of(2, false);
        mark_rejection(&mut extensions);
        assert!(is_own_rejection(&extensions));
    }
}
