//! The tests are in `tests`: what they share with other packages is in `admission-testkit`.
