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

/// A handle of which a request holds a slot, and whether the slot covers a pass; 0 for no slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(usize);

impl Mark {
    /// The mark of a request without a slot.
    pub(super) const NONE: Self = Self(0);

    /// The mark of a request with a slot of this handle, which covers no pass yet.
    #[inline]
    pub(super) const fn of(handle: HandleId) -> Self {
        Self(handle)
    }

    /// Goes behind the handle, if there is a slot.
    #[inline]
    pub(super) fn enter(self) -> Option<Inside> {
        if self.0 == 0 {
            return None;
        }
        let before = INNERMOST.replace(self.0);
        if before != 0 {
            push(before);
        }
        Some(Inside { before })
    }

    /// Leaves the handle, and notes whether the slot covers a pass now.
    #[expect(clippy::needless_pass_by_value, reason = "its drop is what leaves")]
    #[inline]
    pub(super) fn leave(&mut self, inside: Option<Inside>) {
        if inside.is_some() {
            self.0 = INNERMOST.get();
        }
    }
}

/// The time that a thread spends behind a handle, until this is dropped.
#[must_use]
pub(super) struct Inside {
    before: usize,
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
        let outer = Mark::of(2).enter();
        {
            let _inner = Mark::of(4).enter();
            let _innermost = Mark::of(6).enter();
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
        let mut mark = Mark::of(2);
        let outer = mark.enter();
        let inner = Mark::of(4).enter();
        let (first, other) = (Pass::behind(2).unwrap(), Pass::behind(4).unwrap());
        assert!(Pass::behind(2).is_none() && Pass::behind(4).is_none());
        drop((first, other));
        let again = Pass::behind(2);
        drop(inner);
        assert!(again.is_some());
        mark.leave(outer);
        assert!(!passes(2), "left");
        let polled_again = mark.enter();
        assert!(Pass::behind(2).is_none(), "the pass is still covered");
        drop(again);
        assert!(passes(2));
        mark.leave(polled_again);
        let _inside = mark.enter();
        assert!(passes(2), "a pass that is over is covered no longer");
    }

    #[test]
    fn a_panic_leaves_as_well() {
        let panicked = std::panic::catch_unwind(|| {
            let _inside = Mark::of(8).enter();
            panic!("inside");
        });
        assert!(panicked.is_err() && !passes(8));
    }

    #[test]
    fn only_rejections_inside_of_a_handle_are_marked() {
        let mut extensions = Extensions::new();
        mark_rejection(&mut extensions);
        assert!(!is_own_rejection(&extensions) && extensions.is_empty());
        let _inside = Mark::of(2).enter();
        mark_rejection(&mut extensions);
        assert!(is_own_rejection(&extensions));
    }
}
