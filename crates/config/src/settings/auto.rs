//! A value that is set, or that follows from other settings.

/// A setting that follows from others, mostly from the [patience](https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.patience) of the callers unless it is set; `"auto"` in
/// files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a setting is set or not")]
pub enum Derived<T> {
    /// It follows from the patience or, without that, is the default.
    #[default]
    Auto,
    /// It is set.
    Set(T),
}

impl<T> Derived<T> {
    /// Returns the value, if it is set.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Auto => None,
            Self::Set(value) => Some(value),
        }
    }

    /// Whether it is set.
    pub const fn is_set(&self) -> bool {
        matches!(self, Self::Set(_))
    }
}

impl<T> From<T> for Derived<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}
