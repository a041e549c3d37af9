//! That the list tells changes, on a crate of a few lines.

use super::{changes, list::list};

const ROOT: &str = "
    mod engine;
    pub use crate::engine::{Law, Mode, Reading as Sample, start};
    pub mod limit { pub use crate::engine::inner::*; }
    #[cfg(test)] pub mod only_in_tests;
    pub use tower_admission_store as store;
";
const STORE: &str = "
    mod inner {
        pub struct Cell;
        impl Cell { pub fn get(&self) {} #[doc(hidden)] pub fn raw(&self) {} }
        pub struct Raw;
    }
    #[doc(hidden)]
    pub use self::inner::Raw;
    pub use crate::inner::Cell;
";
const ENGINE: &str = "
    pub(crate) mod inner;
    pub use self::inner::Fixed;
    use std::fmt;

    /// A way to run.
    #[derive(Clone, Copy)]
    #[non_exhaustive]
    pub enum Mode { Off, On { /** When. */ since: u64, } }

    pub struct Reading { pub at: u64, secret: u8 }
    impl Reading {
        pub fn new(at: u64) -> Self { Self { at, secret: 0 } }
        pub(crate) fn secret(&self) -> u8 { self.secret }
        fn private() {}
    }
    impl fmt::Debug for Reading { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { Ok(()) } }
    impl Hidden for Reading {}
    trait Hidden {}
    pub trait Law: Send { /** Of it. */ type Out: Clone; fn limit(&self) -> usize; fn name(&self) -> &str { \"law\" } }
    impl<F: Fn() -> usize + Send> Law for F { type Out = u8; fn limit(&self) -> usize { self() } }
    pub fn start(of: Mode) -> Reading { Reading::new(0) }
    pub fn not_exported() {}
";
const INNER: &str = "
    settings! { pub struct Fixed { pub limit: usize = 100, } }
    with_fields! { settings! { pub struct Range } }
    impl Fixed { pub const MOST: usize = 9; setters! { \"limit\"; /** How many. */ limited } }
    macro_rules! with_fields {
        ($macro:ident! { $($head:tt)+ }) => { $macro! { $($head)+ { pub least: usize = 1, } } };
    }
    macro_rules! setters {
        ($what:literal; $(#[$about:meta])* limited) => {
            $(#[$about])*
            pub fn limited(self) -> Self { self }
            #[doc = concat!(\"Doubles the \", $what)]
            pub fn doubled(self, by: u8) -> Self { self }
            pub(crate) fn hidden(self) {}
        };
    }
    macro_rules! settings {
        ($(#[$about:meta])* pub struct $name:ident { $( pub $field:ident: $type:ty = $default:expr, )+ }) => {
            #[derive(Clone)] pub struct $name { $( pub $field: $type, )+ }
            impl Default for $name { fn default() -> Self { Self { $( $field: $default, )+ } } }
        };
    }
";
const EXPECTED: &str = "\
trait Law: Send
    type Out: Clone
    fn limit(&self) -> usize
    fn name(&self) -> &str { provided }
    impl<F: Fn() -> usize + Send> Law for F
    impl<F: Fn() -> usize + Send> Law for F: type Out = u8

enum Mode #[non_exhaustive]
    variant Off
    variant On { since: u64 }
    impl Clone
    impl Copy

struct Sample
    field at: u64
    field _: private
    fn new(at: u64) -> Self
    impl Debug

mod limit

struct limit::Fixed
    field limit: usize
    const MOST: usize
    fn doubled(self, by: u8) -> Self
    fn limited(self) -> Self
    impl Clone
    impl Default

struct limit::Range
    field least: usize
    impl Clone
    impl Default

fn start(of: Mode) -> Reading

mod store

struct store::Cell
    fn get(&self)
";

/// What is listed of the crate with one piece of it replaced.
fn with(piece: &str, by: &str) -> String {
    assert!([ROOT, ENGINE, INNER].iter().any(|text| text.contains(piece)), "{piece} is nowhere");
    list(&|file| match file {
        "lib.rs" => Some(ROOT.replace(piece, by)),
        "engine.rs" => Some(ENGINE.replace(piece, by)),
        "engine/inner/mod.rs" => Some(INNER.replace(piece, by)),
        "tower_admission_store/lib.rs" => Some(STORE.to_owned()),
        _ => None,
    })
}

#[test]
fn what_is_exported_is_listed_and_nothing_else() {
    let listed = with("9", "9");
    assert_eq!(listed, EXPECTED, "now it is:\n{listed}");
    assert_eq!(changes(EXPECTED, &listed), [""; 0]);
}

#[test]
fn each_change_is_told() {
    let cases = [
        ("fn private() {}", "pub fn private() {}", vec!["+ struct Sample: fn private()"]),
        ("Off, On", "On", vec!["- enum Mode #[non_exhaustive]: variant Off"]),
        (
            "since: u64",
            "since: u32",
            vec![
                "- enum Mode #[non_exhaustive]: variant On { since: u64 }",
                "+ enum Mode #[non_exhaustive]: variant On { since: u32 }",
            ],
        ),
        (
            "pub fn new(at: u64)",
            "pub fn new(at: u64, by: u8)",
            vec!["- struct Sample: fn new(at: u64) -> Self", "+ struct Sample: fn new(at: u64, by: u8) -> Self"],
        ),
        (
            "(of: Mode) -> Reading",
            "(of: Mode) -> impl Clone",
            vec!["- fn start(of: Mode) -> Reading", "+ fn start(of: Mode) -> impl Clone"],
        ),
        (
            "secret: u8 }\n",
            "pub secret: u8 }\n",
            vec!["- struct Sample: field _: private", "+ struct Sample: field secret: u8"],
        ),
        (
            "{ \"law\" }",
            ";",
            vec!["- trait Law: Send: fn name(&self) -> &str { provided }", "+ trait Law: Send: fn name(&self) -> &str"],
        ),
        ("#[derive(Clone, Copy)]", "#[derive(Clone)]", vec!["- enum Mode #[non_exhaustive]: impl Copy"]),
        (
            "impl fmt::Debug for Reading",
            "#[cfg(test)] impl fmt::Debug for Reading",
            vec!["- struct Sample: impl Debug"],
        ),
        (
            "pub limit: usize = 100,",
            "pub limit: usize = 100, pub most: u8 = 1,",
            vec!["+ struct limit::Fixed: field most: u8"],
        ),
        (
            "impl Default for $name",
            "impl PartialEq for $name",
            vec![
                "- struct limit::Fixed: impl Default",
                "- struct limit::Range: impl Default",
                "+ struct limit::Fixed: impl PartialEq",
                "+ struct limit::Range: impl PartialEq",
            ],
        ),
        (
            "doubled(self, by: u8)",
            "doubled(self, by: u16)",
            vec![
                "- struct limit::Fixed: fn doubled(self, by: u8) -> Self",
                "+ struct limit::Fixed: fn doubled(self, by: u16) -> Self",
            ],
        ),
        ("Law, Mode,", "Law, Mode, not_exported,", vec!["+ fn not_exported()"]),
    ];
    for (piece, by, expected) in cases {
        assert_eq!(changes(EXPECTED, &with(piece, by)), expected, "{piece} becomes {by}");
    }
}

#[test]
fn code_that_moves_to_another_file_changes_nothing() {
    let moved = list(&|file| match file {
        "lib.rs" => Some(ROOT.to_owned()),
        "engine/mod.rs" => {
            Some(ENGINE.replace("pub(crate) mod inner;", "pub(crate) mod inner { pub use super::deep::*; } mod deep;"))
        }
        "engine/deep.rs" => Some(INNER.to_owned()),
        "tower_admission_store/lib.rs" => Some(STORE.to_owned()),
        _ => None,
    });
    assert_eq!(changes(EXPECTED, &moved), [""; 0]);
}

#[test]
fn a_type_under_two_names_is_listed_once() {
    let listed = with("Reading as Sample", "Fixed, Reading as Sample");
    assert!(listed.contains("struct Fixed\n") && listed.contains("use limit::Fixed = Fixed\n"), "{listed}");
}

#[test]
#[should_panic(expected = "writes something public that this test can't read")]
fn a_macro_that_cannot_be_read_is_an_error() {
    with("impl Fixed {", "strange! { pub fn a() {} } impl Fixed {");
}
