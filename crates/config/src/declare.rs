//! How settings are declared: each once, with its name, type, default, description and setter.

/// A struct of settings: what it says is the whole truth about their names and defaults in code, in files, in the
/// environment and in the schema. The first paragraph about a setting is its description in the schema.
///
/// A default may be followed by the argument of a setter and what is set: `= 0 => |places: usize| places`. A struct `with
/// setters` has these as its methods; [`setters`] gives them to another type.
macro_rules! settings {
    ( $(#[$about:meta])* pub struct $name:ident with setters { $($fields:tt)+ } ) => {
        settings! { $(#[$about])* pub struct $name { $($fields)+ } }
        $crate::setters! { |it| it => impl $name { $($fields)+ } }
    };
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])?
                pub $field:ident: $type:ty = $default:expr $( => |$argument:ident: $argument_type:ty| $value:expr )?,
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[doc = $doc])+ $(#[cfg($cfg)])? pub $field: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $(#[cfg($cfg)])? $field: $default, )+ }
            }
        }

        #[cfg(feature = "files")]
        impl $name {
            #[allow(dead_code, reason = "not all are asked for their fields")]
            pub(crate) const FIELDS: &'static [&'static str] = &[$( stringify!($field) ),+];
        }

        #[cfg(feature = "files")]
        impl $crate::schema::setting::Setting for $name {
            fn read(at: &$crate::schema::setting::At<'_>) -> Option<Self> {
                at.fields(Self::FIELDS)?;
                let mut read = Self::default();
                $(
                    if let Some(value) = at.field(stringify!($field)) {
                        read.$field = value;
                    }
                )+
                Some(read)
            }

            fn write(&self) -> $crate::load::value::Value {
                use $crate::schema::setting::Setting;
                $crate::load::value::Value::table([$( (stringify!($field), Setting::write(&self.$field)) ),+])
            }

            fn schema() -> serde_json::Value {
                use $crate::schema::setting::{Setting, first_paragraph, object_schema};
                object_schema([$(
                    (stringify!($field), first_paragraph(&[$( $doc ),+]), <$type as Setting>::schema())
                ),+])
            }
        }
    };
}

/// The setters of declared settings, as methods of the type that has these settings at some place in it.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (
        |$this:ident| $place:expr => impl $name:ident {
            $(
                $(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])?
                pub $field:ident: $type:ty = $default:expr $( => |$argument:ident: $argument_type:ty| $value:expr )?,
            )+
        }
    ) => {
        impl $name {
            $( $crate::setters! { @$this $place; $(#[doc = $doc])+ $field $( |$argument: $argument_type| $value )? } )+
        }
    };
    (@$this:ident $place:expr; $(#[doc = $doc:literal])+ $field:ident) => {};
    (
        @$this:ident $place:expr;
        $(#[doc = $doc:literal])+ $field:ident |$argument:ident: $argument_type:ty| $value:expr
    ) => {
        $(#[doc = $doc])+
        pub fn $field(mut self, $argument: $argument_type) -> Self {
            let $this = &mut self;
            $place.$field = $value;
            self
        }
    };
}

pub(crate) use settings;
