//! Which settings requests have met.

/// Which settings requests have met.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// A bit for each class of rules.
    classes: [u64; 4],
    /// Requests that had come when the settings were taken.
    before: u64,
}

impl Met {
    /// Notes that a request has this class.
    pub(super) const fn note(&mut self, class: u8) {
        self.classes[(class >> 6) as usize] |= 1 << (class & 63);
    }

    /// Begins anew, after so many requests.
    pub(super) const fn begin(&mut self, requests: u64) {
        self.before = requests;
    }

    /// Returns how many requests had come when the settings were taken.
    pub(super) const fn before(&self) -> u64 {
        self.before
    }

    pub(super) const fn has(&self, class: u8) -> bool {
        self.classes[(class >> 6) as usize] & 1 << (class & 63) != 0
    }
}
