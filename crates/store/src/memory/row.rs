//! What is counted at one key, as text: for stores that keep rows.

use serde::{Deserialize, Serialize};

use super::{
    State,
    counters::{Cap, RateState},
    locks::Lock,
};
use crate::{Key, StoreError};

/// What there is at a key. A row with anything else is refused: what it counts is not known.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
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
    pub(crate) fn read(keys: &[Key], rows: &[String]) -> Result<Self, StoreError> {
        let mut state = Self::default();
        for (key, row) in keys.iter().zip(rows).filter(|(_, row)| !row.is_empty()) {
            let row: Row = serde_json::from_str(row).map_err(|_| StoreError::Refused("UNREADABLE".to_owned()))?;
            state.caps.extend(row.cap.map(|cap| (key.clone(), cap)));
            state.rates.extend(row.rate.map(|rate| (key.clone(), rate)));
            state.locks.extend(row.lock.map(|lock| (key.clone(), lock)));
        }
        Ok(state)
    }

    /// Writes the rows, all of them or none. A row of which nothing counts any more is empty.
    pub(crate) fn write(mut self, keys: &[Key], rows: &mut [String], now: u64) -> Result<(), StoreError> {
        self.forget_counters(now);
        self.forget_locks(now);
        let mut text = |key| {
            let cap = self.caps.remove(key);
            let (rate, lock) = (self.rates.remove(key), self.locks.remove(key));
            if cap.is_none() && rate.is_none() && lock.is_none() {
                return Ok(String::new());
            }
            serde_json::to_string(&Row { cap, rate, lock }).map_err(|_| StoreError::Refused("UNWRITABLE".to_owned()))
        };
        let written = keys.iter().map(&mut text).collect::<Result<Vec<_>, _>>()?;
        rows.iter_mut().zip(written).for_each(|(row, text)| *row = text);
        Ok(())
    }
}
