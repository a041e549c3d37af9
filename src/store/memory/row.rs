//! What is counted at one key, as text: for stores that keep rows.

use serde::{Deserialize, Serialize};

use super::{
    State,
    counters::{Cap, RateState},
    locks::Lock,
};
use crate::store::{Key, StoreError};

/// What there is at a key. A row that another version wrote has fields that are left out, or one too many.
#[derive(Default, Deserialize, Serialize)]
struct Row {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cap: Option<Cap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<RateState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lock: Option<Lock>,
}

impl State {
    /// Returns what these rows say, each of the key at the same place.
    pub(in crate::store) fn read(keys: &[Key], rows: &[String]) -> Result<Self, StoreError> {
        let mut state = Self::default();
        for (key, row) in keys.iter().zip(rows).filter(|(_, row)| !row.is_empty()) {
            let row: Row = serde_json::from_str(row).map_err(|_| StoreError::Refused("UNREADABLE".to_owned()))?;
            state.counters.caps.extend(row.cap.map(|cap| (key.clone(), cap)));
            state.counters.rates.extend(row.rate.map(|rate| (key.clone(), rate)));
            state.locks.0.extend(row.lock.map(|lock| (key.clone(), lock)));
        }
        Ok(state)
    }

    /// Writes the rows. One of which nothing counts any more is empty.
    pub(in crate::store) fn write(mut self, keys: &[Key], rows: &mut [String], now: u64) {
        self.counters.forget_what_is_over(now);
        self.locks.forget_what_is_over(now);
        for (key, row) in keys.iter().zip(rows) {
            let cap = self.counters.caps.remove(key);
            let (rate, lock) = (self.counters.rates.remove(key), self.locks.0.remove(key));
            row.clear();
            if cap.is_some() || rate.is_some() || lock.is_some() {
                // Numbers and tokens can always be written.
                *row = serde_json::to_string(&Row { cap, rate, lock }).unwrap_or_default();
            }
        }
    }
}
