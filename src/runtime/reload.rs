//! Other settings for a handle that is at work.

use super::{Admission, AdmissionBuilder, turn::lock};
use crate::problem::{BuildError, Problem};

/// Partitions are numbered, those included that a reload took out.
const MOST_PARTITIONS: usize = u16::MAX as usize;

impl Admission {
    /// Takes other settings from now on, all of them or, if any is wrong, none. The name and the clock stay what they are.
    ///
    /// Requests in flight keep their slots and those who wait keep their places. Partitions, labels and classes are known
    /// by name: one that is gone drains, and comes back as it was if it is named again. What was used of rates stays used. A
    /// bound that shrank is honoured from the next decision on. A control law of the same kind goes on from the limit that
    /// the last one has learned, within its new range.
    ///
    /// ```
    /// use tower_admission::{Admission, limit::Fixed, percent};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let admission = Admission::builder().limit(Fixed::new(10)).build()?;
    /// admission.reload(Admission::builder().limit(Fixed::new(20)).partition("batch", percent(10)))?;
    /// assert_eq!(admission.snapshot().limit, 20);
    ///
    /// let error = admission.reload(Admission::builder().limit(Fixed::new(0))).unwrap_err();
    /// assert_eq!(admission.snapshot().limit, 20, "{error}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Names every setting that can't be used. Nothing was changed then.
    pub fn reload(&self, settings: AdmissionBuilder) -> Result<(), BuildError> {
        let (plan, warnings) = settings.settings.into_plan()?;
        let shared = &self.shared;
        // Two reloads at once must not mix up the numbers of their partitions.
        let mut known = lock(&shared.warnings);
        let too_many = shared.turn(|state, _| state.engine.partitions_with(&plan)) > MOST_PARTITIONS;
        if too_many {
            let message = format!("found more than {MOST_PARTITIONS} over all reloads, those that are gone included");
            BuildError::check(vec![Problem::new("partitions", message)])?;
        }
        let added = shared.turn(|state, time| state.engine.reload(time.now(), plan));
        shared.add_partitions(added);
        *known = warnings;
        drop(known);
        shared.tell_now();
        Ok(())
    }
}
