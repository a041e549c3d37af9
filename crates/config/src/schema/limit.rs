//! The limit: a number, or a law that learns it, with the parameters of each.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    laws::{AimdConfig, FixedConfig, Gradient2Config, GradientConfig, TwoPointConfig, VegasConfig},
    setting::{At, Problems, Setting, any_of},
    times::A_TIME,
};
use crate::load::value::Value;
use tower_admission_engine::limit::{Fixed, Limit};

/// The laws: the word of each, its parameters, and the parameter that the limit can get to.
macro_rules! laws {
    ($($(#[$doc:meta])+ $kind:literal: $law:ident($parameters:ident), $largest:ident;)+) => {
        /// How many requests may run at once: a number, or a law and its parameters.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum LimitConfig {
            $($(#[$doc])+ $law($parameters),)+
        }

        const KINDS: &[&str] = &[$($kind),+];

        impl LimitConfig {
            /// The code.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$law(_) => $kind,)+ }
            }

            /// The highest limit that it can get to.
            pub(crate) const fn largest(&self) -> usize {
                match self { $(Self::$law(law) => law.$largest,)+ }
            }

            /// The names of all parameters of all laws, for the environment.
            pub(crate) fn parameters() -> impl Iterator<Item = &'static str> {
                ["kind"].into_iter().chain([$($parameters::FIELDS),+].into_iter().flatten().copied())
            }

            /// Reads the law of a kind from its parameters.
            fn read_law(kind: &str, at: &At<'_>) -> Option<Self> {
                $(if kind == $kind {
                    return $parameters::read(at).map(Self::$law);
                })+
                None
            }

            /// Writes the parameters.
            fn write_law(&self) -> Value {
                match self { $(Self::$law(law) => law.write(),)+ }
            }

            fn schemas() -> impl Iterator<Item = Json> {
                [$(law_schema($kind, $parameters::schema())),+].into_iter()
            }
        }
    };
}

laws! {
    /// `kind = "aimd"`: additive increase, multiplicative decrease.
    "aimd": Aimd(AimdConfig), max;
    /// `kind = "fixed"`, or a bare number: always the same.
    "fixed": Fixed(FixedConfig), limit;
    /// `kind = "gradient"`: compares with the best round-trip time that it measures now and then.
    "gradient": Gradient(GradientConfig), max;
    /// `kind = "gradient2"`: compares with the long-term average.
    "gradient2": Gradient2(Gradient2Config), max;
    /// `kind = "two_point"`: compares two loads, and has no required parameters.
    "two_point": TwoPoint(TwoPointConfig), max;
    /// `kind = "vegas"`: estimates the queue inside the service.
    "vegas": Vegas(VegasConfig), max;
}

impl Default for LimitConfig {
    fn default() -> Self {
        Self::TwoPoint(TwoPointConfig::default())
    }
}

impl From<usize> for LimitConfig {
    fn from(limit: usize) -> Self {
        Self::Fixed(FixedConfig { limit })
    }
}

impl LimitConfig {
    pub(crate) fn to_limit(&self) -> Limit {
        match self {
            Self::Aimd(law) => law.to_limit(),
            Self::Fixed(law) => Fixed::new(law.limit).into(),
            Self::Gradient(law) => law.to_law().into(),
            Self::Gradient2(law) if law.per_sample => Limit::per_sample(law.to_law()),
            Self::Gradient2(law) => law.to_law().into(),
            Self::TwoPoint(law) => law.to_law().into(),
            Self::Vegas(law) if law.per_sample => Limit::per_sample(law.to_law()),
            Self::Vegas(law) => law.to_law().into(),
        }
    }
}

impl Setting for LimitConfig {
    fn read(at: &At<'_>) -> Option<Self> {
        if at.table().is_none() {
            let number = matches!(at.node.value, Value::Integer(_)) || at.loose_text().is_some();
            return if number {
                at.count(1).map(Into::into)
            } else {
                at.wrong("a number, a law such as \"two_point\", or a table with its kind")
            };
        }
        // The kind is not among the parameters of any law, so these are read from a table without it.
        let rest = at.node.without(&["kind"]);
        let rest = at.over(&rest);
        let kind = match at.get("kind") {
            Some(kind) => KINDS[kind.word_of(KINDS, &KINDS.join(", "))?],
            // A table without a kind is that of the default, as with everything that isn't said.
            None => "two_point",
        };
        let mut law = Self::read_law(kind, &rest)?;
        match &mut law {
            Self::Aimd(law) => {
                rest.require_threshold(&mut law.threshold);
                if law.per_sample && law.has_own_window() {
                    rest.problem("found per_sample beside a window, allowed is one of them");
                }
            }
            Self::Vegas(law) if law.alpha.is_some() != law.beta.is_some() => {
                rest.problem("found one of alpha and beta, allowed are both or none");
            }
            _ => {}
        }
        Some(law)
    }

    fn write(&self) -> Value {
        if let Self::Fixed(law) = self {
            return law.limit.write();
        }
        self.write_law().with([("kind", Value::text(self.kind()))])
    }

    fn schema() -> Json {
        let hyphenated = KINDS.iter().map(|kind| kind.replace('_', "-")).filter(|kind| kind.contains('-'));
        let names: Vec<String> = KINDS.iter().map(|&kind| kind.to_owned()).chain(hyphenated).collect();
        let plain = [json!({ "type": "integer", "minimum": 1 }), json!({ "enum": names })];
        any_of(plain.into_iter().chain(Self::schemas()).collect::<Vec<_>>())
    }
}

/// The schema of a law, with its kind.
fn law_schema(kind: &str, mut schema: Json) -> Json {
    let written = kind.replace('_', "-");
    schema["properties"]["kind"] = json!({ "enum": if written == kind { vec![kind] } else { vec![kind, &written] } });
    if kind != "two_point" {
        schema["required"] = json!(["kind"]);
    }
    schema
}

impl At<'_> {
    /// AIMD can't guess what is too long; where `patience` is set, the sources have put in a threshold before.
    fn require_threshold(&self, threshold: &mut Duration) {
        let written = self.required("threshold", A_TIME);
        // A threshold that can't be read is reported already, so the check must not find its default of 0 besides.
        let reported = Problems::default();
        if written.and_then(|at| Duration::read(&At { problems: &reported, ..at })).is_none() {
            *threshold = Duration::from_secs(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_admission_engine::limit::{Aimd, Gradient, Gradient2, TwoPoint, Vegas};

    fn shown(limit: &Limit) -> String {
        format!("{limit:?}")
    }

    #[test]
    fn the_defaults_written_here_are_those_of_the_laws() {
        let second = Duration::from_secs(1);
        let aimd = LimitConfig::Aimd(AimdConfig { threshold: second, ..AimdConfig::default() });
        for (config, law) in [
            (aimd, Aimd::new(second).into()),
            (LimitConfig::Fixed(FixedConfig::default()), Fixed::new(100).into()),
            (LimitConfig::Gradient(GradientConfig::default()), Gradient::new().into()),
            (LimitConfig::Gradient2(Gradient2Config::default()), Gradient2::new().into()),
            (LimitConfig::TwoPoint(TwoPointConfig::default()), TwoPoint::new().into()),
            (LimitConfig::Vegas(VegasConfig::default()), Vegas::new().into()),
        ] {
            assert_eq!(shown(&config.to_limit()), shown(&law), "{}", config.kind());
        }
    }
}
