//! Arbitrary values, for harnesses that run as property tests and, where Kani is installed, as proofs.
//!
//! A harness is a function of a source of values. `cargo test` draws these, with a liking for the extremes, and shrinks
//! what fails; `cargo kani` takes all values at once. So that a harness can fail, it takes the code that it is about as
//! an argument where that is possible, and a control runs it on code with a mistake: [`finds`].

#![allow(dead_code, reason = "each crate uses a part")]

/// A source of values.
pub(crate) trait Any {
    /// Any number.
    fn any_u64(&mut self) -> u64;

    /// A number from `least` to `most`.
    fn up_to(&mut self, least: u64, most: u64) -> u64;

    /// How many steps a harness takes: a few in a proof.
    fn steps(&mut self, in_tests: u64, in_proofs: u64) -> u64;

    fn any_bool(&mut self) -> bool {
        self.up_to(0, 1) == 1
    }

    fn any_usize(&mut self) -> usize {
        usize::try_from(self.any_u64()).unwrap_or(usize::MAX)
    }

    fn time(&mut self) -> crate::Timestamp {
        crate::Timestamp::from_nanos(self.any_u64())
    }

    fn duration(&mut self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.any_u64())
    }
}

/// All values at once.
#[cfg(kani)]
pub(crate) struct All;

#[cfg(kani)]
impl Any for All {
    fn any_u64(&mut self) -> u64 {
        kani::any()
    }

    fn up_to(&mut self, least: u64, most: u64) -> u64 {
        let value = kani::any();
        kani::assume(least <= value && value <= most);
        value
    }

    fn steps(&mut self, _: u64, in_proofs: u64) -> u64 {
        in_proofs
    }
}

/// Values that were drawn; zeros after the last of them.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Drawn {
    values: std::vec::IntoIter<u64>,
}

#[cfg(test)]
impl Any for Drawn {
    fn any_u64(&mut self) -> u64 {
        self.values.next().unwrap_or(0)
    }

    fn up_to(&mut self, least: u64, most: u64) -> u64 {
        let value = self.any_u64();
        match (most - least).checked_add(1) {
            Some(range) => least + value % range,
            None => value,
        }
    }

    fn steps(&mut self, in_tests: u64, _: u64) -> u64 {
        in_tests
    }
}

/// Cases of each harness.
#[cfg(test)]
pub(crate) const CASES: u32 = 2_000;

#[cfg(test)]
fn run(harness: impl Fn(&mut Drawn)) -> Result<(), String> {
    use proptest::{prelude::*, test_runner::TestRunner};

    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        0u64..100,
        0u64..200_000_000_000,
        any::<u64>(),
    ];
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let ran = TestRunner::new(config).run(&prop::collection::vec(number, 0..200), |values| {
        let mut drawn = Drawn { values: values.into_iter() };
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| harness(&mut drawn)));
        held.map_err(|_| TestCaseError::fail("it panicked"))
    });
    ran.map_err(|error| error.to_string())
}

/// Runs a harness as a property test.
#[cfg(test)]
pub(crate) fn holds(harness: impl Fn(&mut Drawn)) {
    if let Err(error) = run(harness) {
        panic!("{error}");
    }
}

/// The control of a harness: on code with a mistake, it fails.
#[cfg(test)]
pub(crate) fn finds(harness: impl Fn(&mut Drawn)) {
    assert!(run(harness).is_err(), "{CASES} cases don't find the mistake");
}

/// Makes a test of a harness, or a proof with so many turns of its loops.
macro_rules! harness {
    ($(#[$attribute:meta])* $name:ident, unwind $unwind:literal: $body:expr) => {
        #[cfg(all(test, not(kani)))]
        #[test]
        $(#[$attribute])*
        fn $name() {
            crate::arbitrary_tests::holds($body);
        }

        #[cfg(kani)]
        #[kani::proof]
        #[kani::unwind($unwind)]
        $(#[$attribute])*
        fn $name() {
            $body(&mut crate::arbitrary_tests::All);
        }
    };
}
pub(crate) use harness;
