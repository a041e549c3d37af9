//! `std`, with the explorer's locks and atomics.

pub use ::std::*;

pub mod sync {
    #[cfg(not(feature = "shuttle"))]
    pub use ::loom::sync::{Mutex, MutexGuard, RwLock};
    #[cfg(feature = "shuttle")]
    pub use ::shuttle::sync::{Mutex, MutexGuard, RwLock};
    pub use ::std::sync::{Arc, LazyLock, OnceLock, PoisonError, Weak, mpsc};

    pub mod atomic {
        #[cfg(not(feature = "shuttle"))]
        pub use ::loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
        #[cfg(feature = "shuttle")]
        pub use ::shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    }
}

pub mod thread {
    use ::std::{io, num::NonZero};

    pub use ::std::thread::*;

    /// The same on all machines: under shuttle, enough of them for several lanes.
    pub fn available_parallelism() -> io::Result<NonZero<usize>> {
        Ok(if cfg!(feature = "shuttle") { const { NonZero::new(8).unwrap() } } else { NonZero::<usize>::MIN })
    }
}
