//! What the scripts answer, read with suspicion.

use std::time::Duration;

use redis::Value;

use crate::{StoreError, StoreTime};

/// `{now, word or number, ...}`.
#[derive(Debug)]
pub(super) struct Reply {
    items: Vec<Value>,
}

impl Reply {
    pub(super) fn read(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(items) if !items.is_empty() => Ok(Self { items }),
            _ => Err(unexpected()),
        }
    }

    pub(super) fn at(&self) -> Result<StoreTime, StoreError> {
        self.micros(0)
    }

    /// Returns the word at index 1; an error if it says that the server came back empty.
    pub(super) fn word(&self) -> Result<&[u8], StoreError> {
        let word = match self.items.get(1) {
            Some(Value::BulkString(word)) => word.as_slice(),
            Some(Value::SimpleString(word)) => word.as_bytes(),
            _ => return Err(unexpected()),
        };
        if word == b"restarted" {
            return Err(StoreError::Restarted { retry_after: self.micros(2)? });
        }
        Ok(word)
    }

    pub(super) fn number<T: TryFrom<i64>>(&self, index: usize) -> Result<T, StoreError> {
        match self.items.get(index) {
            Some(Value::Int(number)) => T::try_from(*number).map_err(|_| unexpected()),
            _ => Err(unexpected()),
        }
    }

    pub(super) fn micros(&self, index: usize) -> Result<Duration, StoreError> {
        self.number(index).map(Duration::from_micros)
    }

    /// Returns all numbers from `index` on.
    pub(super) fn numbers(&self, index: usize) -> Result<Vec<usize>, StoreError> {
        (index..self.items.len()).map(|index| self.number(index)).collect()
    }
}

/// Returns the error for an answer that none of the scripts gives. It belongs to another question, or comes from something that is
/// no server, so the question may have been served all the same.
pub(super) fn unexpected() -> StoreError {
    StoreError::Unavailable
}
