//! The list of labels that could be forgotten, the one that is idle for longest first: threaded through their entries.

use super::{LabelId, Labels};

impl Labels {
    /// Puts a label at the end of those that could be forgotten.
    pub(super) fn rest(&mut self, id: LabelId) {
        if id <= self.last_fixed {
            return;
        }
        let last = std::mem::replace(&mut self.idle_last, id.0);
        match last {
            LabelId::NONE => self.idle_first = id.0,
            _ => self.entries[last as usize].next = id.0,
        }
        let label = &mut self.entries[id.0 as usize];
        (label.previous, label.next) = (last, LabelId::NONE);
    }

    /// Takes a label out of those that could be forgotten.
    pub(super) fn wake(&mut self, id: LabelId) {
        if id <= self.last_fixed {
            return;
        }
        let label = &mut self.entries[id.0 as usize];
        let (previous, next) = (label.previous, label.next);
        (label.previous, label.next) = (LabelId::NONE, LabelId::NONE);
        match previous {
            LabelId::NONE => self.idle_first = next,
            _ => self.entries[previous as usize].next = next,
        }
        match next {
            LabelId::NONE => self.idle_last = previous,
            _ => self.entries[next as usize].previous = previous,
        }
    }
}
