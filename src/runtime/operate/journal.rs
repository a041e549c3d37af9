//! The last decisions and changes.

use crate::engine::{JournalEntry, Wanted};
use crate::runtime::Admission;

/// Entries that are read in one turn: no request waits for a slot for longer than that takes.
const AT_ONCE: usize = 256;

impl Admission {
    /// Returns the last decisions and changes, the oldest first: [512](crate::AdmissionBuilder::journal) decisions about requests, and
    /// as many changes of the handle. Decisions about each partition, and each obstacle in it, have a fair part of the memory, so
    /// that a flood of rejections does not push out what happened to others.
    ///
    /// Of requests the journal holds names of labels and runs, and nothing else that a caller sent.
    ///
    /// ```
    /// use tower_admission::{Admission, Reason, Ticket, journal::{DecisionKind, JournalEvent}, limit::Fixed};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let admission = Admission::builder().limit(Fixed::new(1)).shed().build()?;
    /// let permit = admission.try_admit(Ticket::new().label("reports"))?;
    /// assert!(admission.try_admit(Ticket::new().label("nightly")).is_err());
    ///
    /// let journal = admission.journal();
    /// let JournalEvent::Decision(last) = &journal[1].event else { panic!("it is about a request") };
    /// assert_eq!((last.label.as_str(), last.decision, last.reason), ("nightly", DecisionKind::Rejected, Some(Reason::Limit)));
    /// assert_eq!((last.rule.as_deref(), last.used, last.bound), (Some("limit"), Some(1), Some(1)));
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.journal_since(0)
    }

    /// Like `journal`, but only the entries after this number: a reader that asks again gives the last number that it
    /// has seen.
    pub fn journal_since(&self, sequence: u64) -> Vec<JournalEntry> {
        self.journal_page(sequence, usize::MAX, Wanted::All, |_| true).0
    }

    /// Returns at most `count` entries, and the number of the newest entry when the first of them was read: entries
    /// that are written meanwhile are for the next page. Entries that are not to be kept are passed over, outside of the lock.
    pub(crate) fn journal_page(
        &self,
        sequence: u64,
        count: usize,
        wanted: Wanted,
        mut keeps: impl FnMut(&JournalEntry) -> bool,
    ) -> (Vec<JournalEntry>, u64) {
        let (mut entries, mut last, mut until) = (Vec::new(), sequence, None);
        loop {
            let (more, newest) = self.shared.with_engine(|state, _| {
                (state.engine.journal_since(last, AT_ONCE, wanted), state.engine.journal_newest())
            });
            let until = *until.get_or_insert(newest);
            let is_all = more.len() < AT_ONCE;
            last = more.last().map_or(last, |entry| entry.sequence);
            let kept = more.into_iter().take_while(|entry| entry.sequence <= until).filter(|entry| keeps(entry));
            entries.extend(kept.take(count - entries.len()));
            if is_all || last >= until || entries.len() >= count {
                return (entries, until);
            }
        }
    }
}
