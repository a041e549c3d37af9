//! Why the limit is what it is.

use std::{borrow::Cow, time::Duration};

use super::text;
use crate::{
    Engine, Timestamp,
    limit::{Phase, Reference},
};

/// Why the limit is what it is: the law, what it measures against what, its bounds, and the last move of the limit.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LimitState"))]
#[non_exhaustive]
pub struct LimitSnapshot {
    /// All of this as a sentence.
    pub sentence: String,
    /// Name of the law, such as `aimd` or `fixed`; the name of its type for a law that tells no name.
    pub law: String,
    /// What the limit does: `fixed`, `paused` (all requests ended late and without an answer, and none starts for a while), `resuming` (after that, one more request runs with each answer in time), `probing`, `too_little_load` (the law can't tell what another limit would do),
    /// `at_maximum`, `at_minimum`, `growing` or `backing_off` (moved in the last ten seconds), or `steady`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = Self::STATES)))]
    pub state: Cow<'static, str>,
    /// The least limit that the law may set, if the law tells.
    pub min: Option<usize>,
    /// The greatest limit that the law may set, if the law tells.
    pub max: Option<usize>,
    /// The bound that the limit stands at: `maximum` or `minimum`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["maximum", "minimum", null])))]
    pub at_bound: Option<Cow<'static, str>>,
    /// What round-trip times are compared with: `nothing`, `threshold`, `minimum`, `average` or `half_load`, if the law tells.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Reference>"))]
    pub reference: Option<Cow<'static, str>>,
    /// Time with which round-trip times are compared, in seconds, if the law tells.
    pub reference_seconds: Option<f64>,
    /// Round-trip time by which the law judged last, in seconds.
    pub rtt_seconds: Option<f64>,
    /// Result of the comparison: the law's gradient, its `g`.
    pub ratio: Option<f64>,
    /// Least time from one start of a request that may wait to the next, in seconds; `None` where starts are not spread.
    pub pacing_seconds: Option<f64>,
    /// The last time that the law moved the limit; `None` if it did not since the settings were taken.
    pub last_move: Option<LimitMove>,
}

/// A move of the limit by its law.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LimitMove {
    /// Time of the move, in seconds since the handle was made.
    pub at_seconds: f64,
    /// Time since the move, in seconds.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub ago_seconds: f64,
    /// Limit before the move.
    pub from: usize,
    /// Limit after the move.
    pub to: usize,
    /// Round-trip time by which the law judged, in seconds, if the law can say.
    pub rtt_seconds: Option<f64>,
    /// Time with which that was compared, in seconds.
    pub reference_seconds: Option<f64>,
    /// Result of the comparison.
    pub ratio: Option<f64>,
}

/// A limit that moved so long ago is not growing or backing off any more.
const LATELY: Duration = Duration::from_secs(10);

impl LimitSnapshot {
    /// All words that `state` may be.
    pub const STATES: [&'static str; 10] = [
        "fixed",
        "paused",
        "resuming",
        "probing",
        "too_little_load",
        "at_maximum",
        "at_minimum",
        "growing",
        "backing_off",
        "steady",
    ];
}

impl Engine {
    /// Returns why the limit is what it is.
    pub(crate) fn limit_snapshot(&self) -> LimitSnapshot {
        let limit = self.capacity.limit();
        let (kind, law, inputs, last_move) = self.controller.state();
        let (min, max) = law.bounds().unzip();
        let lately = last_move.filter(|it| self.now.since(it.at) < LATELY);
        let is_fixed = law.reference() == Reference::Nothing;
        let at_bound = match () {
            () if is_fixed => None,
            () if max.is_some_and(|max| limit >= max) => Some("maximum"),
            () if min.is_some_and(|min| limit <= min) => Some("minimum"),
            () => None,
        };
        let state = match (law.present_phase(), at_bound, lately) {
            _ if is_fixed => "fixed",
            _ if self.capacity.slots().is_paused => "paused",
            (Phase::Resuming, ..) => "resuming",
            (Phase::Probing, ..) => "probing",
            (Phase::Idle, ..) => "too_little_load",
            (_, Some("maximum"), _) => "at_maximum",
            (_, Some(_), _) => "at_minimum",
            (_, _, Some(it)) if it.to > it.from => "growing",
            (_, _, Some(_)) => "backing_off",
            _ => "steady",
        };
        let mut found = LimitSnapshot {
            sentence: String::new(),
            law: law.law().map_or_else(|| short_name(kind).to_owned(), str::to_owned),
            state: state.into(),
            min,
            max,
            at_bound: at_bound.map(Cow::Borrowed),
            reference: law.reference().as_str().map(Cow::Borrowed),
            reference_seconds: inputs.reference_seconds(),
            rtt_seconds: inputs.rtt_seconds(),
            ratio: inputs.ratio_if_known(),
            pacing_seconds: Some(self.capacity.slots().pacing.as_secs_f64()).filter(|&gap| gap > 0.0),
            last_move: last_move.map(|it| LimitMove {
                at_seconds: it.at.since(Timestamp::ZERO).as_secs_f64(),
                ago_seconds: self.now.since(it.at).as_secs_f64(),
                from: it.from,
                to: it.to,
                rtt_seconds: it.basis.rtt_seconds(),
                reference_seconds: it.basis.reference_seconds(),
                ratio: it.basis.ratio_if_known(),
            }),
        };
        found.sentence = sentence(limit, &found);
        found
    }
}

/// Returns the name of a type without its path and its parameters.
fn short_name(path: &str) -> &str {
    let plain = path.split('<').next().unwrap_or(path);
    plain.rsplit("::").next().unwrap_or(plain)
}

fn sentence(limit: usize, it: &LimitSnapshot) -> String {
    let state = match (&*it.state, it.at_bound.as_deref()) {
        ("fixed", _) => return format!("limit {limit}: fixed by the settings, no law moves it"),
        ("paused", _) => "no request starts for a while, since none that it allows is answered".to_owned(),
        ("resuming", _) => "after a pause, one more request runs with each answer in time".to_owned(),
        ("probing", _) => "lowered for a moment to measure with less load".to_owned(),
        ("too_little_load", Some(bound)) => {
            format!("at its {bound}, and too little load to tell whether that is right")
        }
        ("too_little_load", None) => "too little load to tell whether another one would be better".to_owned(),
        (_, Some(bound)) => format!("at its {bound}"),
        ("backing_off", None) => "backing off".to_owned(),
        (state, None) => state.to_owned(),
    };
    let bounds = match (it.min, it.max) {
        (Some(min), Some(max)) => format!(" (of {min} to {max})"),
        _ => String::new(),
    };
    let moved = it.last_move.map_or_else(
        || "; not moved since the settings were taken".to_owned(),
        |last| {
            let ground = compared(last.rtt_seconds, last.reference_seconds, it.reference.as_deref());
            let ground = if ground.is_empty() { ground } else { format!(" for {ground}") };
            format!("; last moved {} → {} {} ago{ground}", last.from, last.to, text::seconds(last.ago_seconds))
        },
    );
    let measured = compared(it.rtt_seconds, it.reference_seconds, it.reference.as_deref());
    let measured =
        if measured.is_empty() { "has measured nothing so far".to_owned() } else { format!("measures {measured}") };
    let paced = it.pacing_seconds.map_or_else(String::new, |gap| {
        format!("; starts are {} apart, since most of an answer is delay", text::seconds(gap))
    });
    format!("limit {limit}{bounds}: {state}; {} {measured}{moved}{paced}", it.law)
}

/// What is compared with what, in words.
pub(super) fn compared(rtt: Option<f64>, reference: Option<f64>, kind: Option<&str>) -> String {
    let Some(rtt) = rtt else { return String::new() };
    let rtt = format!("RTT {}", text::seconds(rtt));
    let Some(reference) = reference.map(text::seconds) else { return rtt };
    match kind {
        Some("threshold") => format!("{rtt} against a threshold of {reference}"),
        Some("minimum") => format!("{rtt} against a minimum of {reference}"),
        Some("average") => format!("{rtt} against an average of {reference}"),
        Some("half_load") => format!("{rtt} against {reference} at half of the load"),
        _ => format!("{rtt} against {reference}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_explained_in_a_sentence() {
        let last = LimitMove {
            at_seconds: 60.0,
            ago_seconds: 240.0,
            from: 79,
            to: 80,
            rtt_seconds: Some(0.186),
            reference_seconds: Some(0.5),
            ratio: None,
        };
        let at_maximum = LimitSnapshot {
            law: "aimd".to_owned(),
            state: "at_maximum".into(),
            min: Some(1),
            max: Some(80),
            at_bound: Some("maximum".into()),
            reference: Some("threshold".into()),
            reference_seconds: Some(0.5),
            rtt_seconds: Some(0.21),
            last_move: Some(last),
            ..LimitSnapshot::default()
        };
        assert_eq!(
            sentence(80, &at_maximum),
            "limit 80 (of 1 to 80): at its maximum; aimd measures RTT 210 ms against a threshold of 500 ms; last moved 79 → 80 \
             4 min ago for RTT 186 ms against a threshold of 500 ms"
        );
        let unknown = LimitSnapshot { law: "Nightly".to_owned(), state: "steady".into(), ..LimitSnapshot::default() };
        assert_eq!(
            sentence(7, &unknown),
            "limit 7: steady; Nightly has measured nothing so far; not moved since the settings were taken"
        );
        assert_eq!(short_name("tower_admission::engine::limit::Windowed<a::B>"), "Windowed");
    }
}
