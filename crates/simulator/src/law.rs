//! The one place that knows the control laws: a new one is one arm of [`limit`].

use std::time::Duration;

use tower_admission::limit::{Aimd, Fixed, Gradient, Gradient2, Limit, TwoPoint, Vegas, Windowed};

use super::node::{Node, with};

/// All kinds, for `--table` and messages.
pub const KINDS: [&str; 8] = ["aimd", "fixed", "gradient", "gradient2", "none", "two-point", "vegas", "windowed-aimd"];

/// The law that a `[policy.law]` table describes; `None` for `kind = "none"`, which lets everything in.
pub fn limit(node: Node<'_>) -> Option<Limit> {
    let law = match node.text("kind").unwrap_or("fixed") {
        "aimd" => Some(Limit::per_sample(aimd(&node))),
        "fixed" => Some(Fixed::new(node.count("limit", 1..).unwrap_or(100)).into()),
        "gradient" => Some(with(Gradient::new(), node.count("max", 1..), Gradient::max).into()),
        "gradient2" => Some(gradient2(&node).into()),
        "none" => None,
        "two-point" => Some(two_point(&node).into()),
        "vegas" => Some(vegas(&node).into()),
        "windowed-aimd" => Some(windowed(&node, Windowed::new(aimd(&node))).into()),
        other => {
            node.problem("kind", format!("found {other:?}, known are {}", KINDS.join(", ")));
            return None;
        }
    };
    node.finish();
    law
}

fn aimd(node: &Node<'_>) -> Aimd {
    let law = Aimd::new(node.duration("threshold").unwrap_or(Duration::from_millis(500)));
    let law = with(law, node.count("initial", 1..), Aimd::initial);
    let law = with(law, node.count("min", 1..), Aimd::min);
    let law = with(law, node.count("max", 1..), Aimd::max);
    with(law, node.number("backoff", 0.0..=1.0), Aimd::backoff)
}

fn gradient2(node: &Node<'_>) -> Gradient2 {
    let law = with(Gradient2::new(), node.count("initial", 1..), Gradient2::initial);
    let law = with(law, node.count("min", 1..), Gradient2::min);
    with(law, node.count("max", 1..), Gradient2::max)
}

fn two_point(node: &Node<'_>) -> TwoPoint {
    let law = with(TwoPoint::new(), node.count("initial", 1..), TwoPoint::initial);
    let law = with(law, node.count("min", 1..), TwoPoint::min);
    let law = with(law, node.count("max", 1..), TwoPoint::max);
    node.text("without").unwrap_or_default().split_terminator('+').fold(law, |law, rule| {
        law.clone().without(rule).unwrap_or_else(|| {
            let known: Vec<_> = TwoPoint::rules().collect();
            node.problem("without", format!("found {rule}, known are {}", known.join(", ")));
            law
        })
    })
}

fn vegas(node: &Node<'_>) -> Vegas {
    let law = with(Vegas::new(), node.count("initial", 1..), Vegas::initial);
    with(law, node.count("max", 1..), Vegas::max)
}

fn windowed<L: tower_admission::limit::LimitAlgorithm>(node: &Node<'_>, law: Windowed<L>) -> Windowed<L> {
    let law = with(law, node.number("percentile", 0.0..=100.0), Windowed::percentile);
    let law = with(law, node.duration("min_time"), Windowed::min_time);
    let samples = node.count("min_samples", 1..=1_000_000).and_then(|it| u32::try_from(it).ok());
    let law = with(law, samples, Windowed::min_samples);
    let law = with(law, node.duration("max_time"), Windowed::max_time);
    with(law, node.number("overload_percent", 0.0..=100.0), Windowed::overload_percent)
}
