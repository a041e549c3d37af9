//! The token of a lease or a lock.

use std::fmt;

use super::StoreError;

/// 128 random bits: without them, a caller can neither renew nor release what was granted for them.
///
/// The client chooses the token before it asks, so it can give back what was granted in an answer that never arrived.
/// `Debug` shows nothing of it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Token([u8; 16]);

impl Token {
    /// Returns a token that can't be guessed.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoRandomness`] if the operating system has no random bytes, and without the feature `shared`.
    pub fn random() -> Result<Self, StoreError> {
        #[cfg(feature = "shared")]
        {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|_| StoreError::NoRandomness)?;
            Ok(Self(bytes))
        }
        #[cfg(not(feature = "shared"))]
        Err(StoreError::NoRandomness)
    }

    /// Returns the token with these bits, which can be guessed: for tests that are repeated.
    pub(crate) const fn of(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    /// Returns the bits, which prove what was granted: for the store that writes them down, and for nothing else.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Returns the token as it is written in the store: 32 hexadecimal digits.
    #[cfg(any(feature = "redis", feature = "rows"))]
    pub(crate) fn hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(feature = "rows")]
impl serde::Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

#[cfg(feature = "rows")]
impl<'de> serde::Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self::of).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_not_shown() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
