//! Deliberate mistakes: small changes of the shipped files, and what has to be exchanged besides paths.

/// A mistake, in the copy that all models run.
pub struct Mistake {
    pub name: &'static str,
    pub file: &'static str,
    /// What stands in the shipped file, once, and what stands there instead.
    pub right: &'static str,
    pub wrong: &'static str,
}

pub const MISTAKES: &[Mistake] = &[];

/// File, what stands there after the exchange of paths, and what is put there.
///
/// Statics are exchanged: the locks of an explorer live as long as one execution. Numbers that tell handles apart, and
/// that decide nothing, stay with the atomics of `std`.
pub const EXCHANGES: &[(&str, &str, &str)] = &[
    (
        "runtime/home.rs",
        "static VACANT: Mutex<Vec<&'static Home>> = Mutex::new(Vec::new());",
        "crate::explore::lazy_static! { static ref VACANT: Mutex<Vec<&'static Home>> = Mutex::new(Vec::new()); }",
    ),
    (
        "runtime/core/turn.rs",
        "static HANDLES: AtomicU64 = AtomicU64::new(0);",
        "static HANDLES: ::std::sync::atomic::AtomicU64 = ::std::sync::atomic::AtomicU64::new(0);",
    ),
    (
        "runtime/operate/builder.rs",
        "static HANDLES: AtomicU32 = AtomicU32::new(1);",
        "static HANDLES: ::std::sync::atomic::AtomicU32 = ::std::sync::atomic::AtomicU32::new(1);",
    ),
    (
        "runtime/operate/drain.rs",
        "static MADE: AtomicU64 = AtomicU64::new(0);",
        "static MADE: ::std::sync::atomic::AtomicU64 = ::std::sync::atomic::AtomicU64::new(0);",
    ),
    (
        "runtime/core/quiet/shards.rs",
        "static THREADS: AtomicUsize = AtomicUsize::new(0);",
        "crate::explore::lazy_static! { static ref THREADS: AtomicUsize = AtomicUsize::new(0); }",
    ),
    (
        "runtime/core/quiet/shards.rs",
        "thread_local! {\n    /// The number of this thread, plus 1; 0 as long as it has none.\n    static NUMBER: Cell<usize> = const { Cell::new(0) };",
        "crate::explore::thread_local! { static NUMBER: Cell<usize> = Cell::new(0); }\nthread_local! {",
    ),
];
