//! Words of settings, read as values.

use std::{error::Error, fmt};

/// A word that is the code of no value. Its text says what was found and what is allowed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownWord {
    found: String,
    allowed: Vec<&'static str>,
}

impl UnknownWord {
    /// Finds the value whose code is this word.
    pub(crate) fn find<T: Copy, const N: usize>(
        all: [T; N],
        code: fn(T) -> &'static str,
        word: &str,
    ) -> Result<T, Self> {
        let unknown = || Self { found: word.to_owned(), allowed: all.map(code).into() };
        all.into_iter().find(|it| is_code(code(*it), word)).ok_or_else(unknown)
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:?}, allowed are {}", self.found, self.allowed.join(", "))
    }
}

impl Error for UnknownWord {}

/// Whether a word is this code; case, and `-` or `_`, make no difference.
pub(super) fn is_code(code: &str, word: &str) -> bool {
    let plain = |c: u8| if c == b'-' { b'_' } else { c.to_ascii_lowercase() };
    code.len() == word.len() && code.bytes().zip(word.bytes()).all(|(a, b)| a == plain(b))
}

/// The values of an enumeration in their order, under these docs, and the code of each; the last may be a code alone.
#[doc(hidden)]
#[macro_export]
macro_rules! codes {
    (
        $(#[$doc:meta])+
        $number:literal: $($value:ident = $code:literal,)+ $(; $other:ident = $other_code:literal)?
    ) => {
        $(#[$doc])+
        pub const ALL: [Self; $number] = [$(Self::$value),+];

        /// Returns the code.
        pub const fn as_str(self) -> &'static str {
            match self {
                $(Self::$value => $code,)+
                $(Self::$other => $other_code,)?
            }
        }
    };
}
/// Reads values by their codes.
macro_rules! from_str {
    ($($type:ty),+) => {
        $(
            impl std::str::FromStr for $type {
                type Err = $crate::words::UnknownWord;

                /// The value with this code; case, and `-` or `_`, make no difference.
                fn from_str(word: &str) -> Result<Self, $crate::words::UnknownWord> {
                    $crate::words::UnknownWord::find(Self::ALL, Self::as_str, word)
                }
            }
        )+
    };
}
pub(crate) use from_str;

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use crate::plan::{Discipline, Mode, PartitionMode, rules::WhenFull};
    use crate::words::{Criticality, Reason};

    #[test]
    fn every_code_is_read_and_no_other_word() {
        fn check<T: FromStr<Err = UnknownWord> + Copy + PartialEq + fmt::Debug>(
            all: &[T],
            code: fn(T) -> &'static str,
        ) {
            for it in all {
                let code = code(*it);
                assert_eq!(code.parse(), Ok(*it));
                assert_eq!(code.replace('_', "-").to_uppercase().parse(), Ok(*it));
                assert!(format!(" {code}").parse::<T>().is_err());
            }
        }
        check(&Criticality::ALL, Criticality::as_str);
        check(&Discipline::ALL, Discipline::as_str);
        check(&Mode::ALL, Mode::as_str);
        check(&PartitionMode::ALL, PartitionMode::as_str);
        check(&Reason::ALL, Reason::as_str);
        check(&WhenFull::ALL, WhenFull::as_str);
        let error = "enforced".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, r#"found "enforced", allowed are enforce, observe, off"#);
    }
}
