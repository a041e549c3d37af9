//! New settings for a handle that is at work.

use std::{mem, sync::atomic::Ordering};

use crate::runtime::{Admission, AdmissionBuilder, core::lock};
use crate::{BuildError, Problem, engine::nanos};

#[cfg(feature = "config")]
use crate::config::StoreConfig;

/// Partitions are numbered, those included that a reload took out.
const MOST_PARTITIONS: usize = u16::MAX as usize;

impl Admission {
    /// Takes new settings from now on, all of them or, if any is wrong, none. The name, the clock, the store that
    /// counts [shared rules](AdmissionBuilder::shared) and the lock [whose waits are
    /// published](AdmissionBuilder::lock_metrics) stay what they are.
    ///
    /// Requests in flight keep their slots and waiters keep their places. Partitions, labels and classes are known by
    /// name: a partition that is gone drains, and comes back as it was if it is named again. What was used of rates
    /// stays used. A bound that shrank is honoured from the next decision on. A control law of the same kind goes on
    /// from the limit that the last law has learned, within its new range. Of settings from a configuration the mode holds as well; of
    /// settings in code it does not, which is what [`set_mode`](Self::set_mode) is for.
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
    /// Names every setting that can't be used. Nothing was changed then, and [`warnings`](Self::warnings) says so until the next
    /// reload that succeeds.
    pub fn reload(&self, settings: AdmissionBuilder) -> Result<(), BuildError> {
        let outcome = self.take(settings);
        if let Err(error) = &outcome {
            self.note_failed_reload(Some(&error.to_string()));
        }
        outcome
    }

    /// Warns of a reload that failed, until the next one that did not; `None` takes that back.
    pub(super) fn note_failed_reload(&self, error: Option<&str>) {
        const FAILED: &str = "the last reload failed, and the settings before it apply: ";
        let mut known = lock(&self.shared.warnings);
        known.retain(|warning| !warning.starts_with(FAILED));
        known
            .extend(error.map(|error| FAILED.to_owned() + &error.lines().map(str::trim).collect::<Vec<_>>().join(" ")));
    }

    fn take(&self, settings: AdmissionBuilder) -> Result<(), BuildError> {
        let is_shared = self.shared.limiter.is_some();
        #[cfg(feature = "config")]
        BuildError::check(self.changes_of_store(settings.settings.sharing.store.as_ref()))?;
        #[cfg(feature = "config")]
        let (mode, mut origin) = (settings.origin.as_ref().map(|_| settings.settings.values.mode), settings.origin);
        #[cfg(feature = "capture")]
        let settings_text = settings.settings.describe();
        #[cfg(not(feature = "capture"))]
        let settings_text = crate::runtime::core::SettingsText;
        let mut settings = settings.settings;
        #[cfg(feature = "capture")]
        let capture = settings.capture();
        settings.sharing.is_shared = is_shared;
        let drain_after = nanos(settings.values.drain_after);
        let (plan, mut warnings) = settings.into_plan()?;
        let shared = &self.shared;
        // All in one turn, so that two reloads at once mix nothing up: no lock is held when it wakes wakers, which may ask the handle.
        let taken = shared.with_engine(|state, time| {
            (state.engine.partitions_with(&plan) <= MOST_PARTITIONS).then(|| {
                #[cfg(feature = "config")]
                mode.into_iter().for_each(|mode| state.set_mode(time.now(), mode));
                #[cfg(feature = "capture")]
                lock(&shared.policy).clone_from(&settings_text);
                shared.reload(state, time.now(), plan, settings_text);
                shared.drain_after.store(drain_after, Ordering::Relaxed);
                mem::swap(&mut *lock(&shared.warnings), &mut warnings);
                #[cfg(feature = "config")]
                mem::swap(&mut *lock(&shared.origin), &mut origin);
            })
        });
        if taken.is_none() {
            let message = format!("found more than {MOST_PARTITIONS} over all reloads, those that are gone included");
            BuildError::check(vec![Problem::new("partitions", message)])?;
        }
        shared.tell_now();
        #[cfg(feature = "capture")]
        shared.capture_as_configured(capture);
        Ok(())
    }

    /// Returns the changes of the store, which can't be changed while the handle is at work.
    #[cfg(feature = "config")]
    fn changes_of_store(&self, new: Option<&StoreConfig>) -> Vec<Problem> {
        let known = self.shared.limiter.as_ref().and_then(|limiter| limiter.settings.as_ref());
        match (known, new) {
            (Some(known), Some(new)) => known.changes(new),
            (None, Some(StoreConfig { url: Some(_), .. })) => {
                let message = "found one, which a reload can't give to a handle that was built without";
                vec![Problem::new("store.url", message)]
            }
            _ => Vec::new(),
        }
    }
}
