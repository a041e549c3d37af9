//! Lists through the entries of a vector: joining one and leaving it from the middle take the same time however long it is.

use std::mem::replace;

/// No entry: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// The neighbours of an entry in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl Links {
    /// Those of an entry that stands in no list.
    pub(crate) const NONE: Self = Self { previous: NONE, next: NONE };
}

/// The first and the last entry of a list, and how many it has. Entries lend their [`Links`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    pub(crate) const fn len(self) -> usize {
        self.len
    }

    /// Adds an entry that stands in no list before the entry `next`, or at the end where that is none.
    pub(crate) fn insert(&mut self, entries: &mut [impl AsMut<Links>], entry: u32, next: u32) {
        let previous = match next {
            NONE => replace(&mut self.tail, entry),
            _ => replace(&mut entries[next as usize].as_mut().previous, entry),
        };
        match previous {
            NONE => self.head = entry,
            _ => entries[previous as usize].as_mut().next = entry,
        }
        *entries[entry as usize].as_mut() = Links { previous, next };
        self.len += 1;
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, entries: &mut [impl AsMut<Links>], entry: u32) {
        let Links { previous, next } = replace(entries[entry as usize].as_mut(), Links::NONE);
        match previous {
            NONE => self.head = next,
            _ => entries[previous as usize].as_mut().next = next,
        }
        match next {
            NONE => self.tail = previous,
            _ => entries[next as usize].as_mut().previous = previous,
        }
        self.len -= 1;
    }
}
