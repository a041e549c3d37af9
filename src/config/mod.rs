//! Settings as users write them, and what is wrong with them.

mod share;

use std::{collections::HashSet, sync::Arc, time::Duration};

pub use share::{Share, percent};

use crate::{
    engine::{
        limit::{Fixed, Limit},
        plan::{Bound, PartitionMode, PartitionPlan, Places, Plan},
        shares::WHOLE,
    },
    problem::{BuildError, Problem},
};

/// The name of the partition of those who belong to no other.
pub(crate) const DEFAULT_PARTITION: &str = "default";

/// Settings of a handle, before they were looked at.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) limit: Limit,
    pub(crate) queue: usize,
    pub(crate) admission_timeout: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) max_waiting: Option<usize>,
    pub(crate) partitions: Vec<(String, Share)>,
    pub(crate) default_mode: PartitionMode,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: Fixed::default().into(),
            queue: 0,
            admission_timeout: Duration::from_secs(5),
            max_wait: None,
            wait_timeout: None,
            max_waiting: None,
            partitions: Vec::new(),
            default_mode: PartitionMode::Burst,
        }
    }
}

impl Settings {
    /// A plan for the engine, and what is allowed and likely to be a mistake.
    pub(crate) fn into_plan(self) -> Result<(Plan, Vec<String>), BuildError> {
        let law = self.limit.into_law();
        let mut problems: Vec<Problem> = law.problems().into_iter().map(|problem| problem.under("limit")).collect();
        let mut warnings = Vec::new();
        let partitions = partitions(&self.partitions, self.default_mode, &mut problems);
        if self.partitions.len() >= usize::from(u16::MAX) {
            problems.push(Problem::new(
                "partitions",
                format!("found {}, allowed are fewer than {}", self.partitions.len(), u16::MAX),
            ));
        }
        BuildError::check(problems)?;

        let extra = self.max_waiting.map_or(Places::Limit, Places::Exactly);
        let (line, gate, queue) = if self.queue == 0 {
            let wait = self.wait_timeout.unwrap_or(LEGACY_WAIT);
            let places = if wait.is_zero() { Places::Exactly(0) } else { extra };
            if self.max_wait.is_some() {
                warnings.push("max_wait has no effect without a queue: wait_timeout bounds the wait".into());
            }
            (Bound { places, wait: Some(wait) }, Bound { places: Places::Exactly(0), wait: None }, None)
        } else {
            if self.wait_timeout.is_some() {
                warnings.push("wait_timeout has no effect with a queue: admission_timeout and max_wait do".into());
            }
            let line = Bound { places: Places::Exactly(self.queue), wait: self.max_wait };
            let places = if self.admission_timeout.is_zero() { Places::Exactly(0) } else { extra };
            (line, Bound { places, wait: Some(self.admission_timeout) }, Some(self.queue))
        };
        Ok((Plan { law, partitions, line, gate, queue }, warnings))
    }
}

/// How long a request waits for a slot where there is no queue, unless told otherwise.
const LEGACY_WAIT: Duration = Duration::from_secs(30);

fn partitions(
    settings: &[(String, Share)],
    default_mode: PartitionMode,
    problems: &mut Vec<Problem>,
) -> Vec<PartitionPlan> {
    let mut names = HashSet::from([DEFAULT_PARTITION]);
    let mut rest = WHOLE;
    let mut total = 0.0;
    let mut plans = Vec::with_capacity(settings.len() + 1);
    for (name, share) in settings {
        let path = || format!("partitions.{name}");
        if name.trim().is_empty() || name.len() > 256 {
            problems.push(Problem::new(path(), format!("found {name:?} as a name, allowed are 1 to 256 bytes")));
        } else if name == DEFAULT_PARTITION {
            problems.push(Problem::new(path(), "this name is taken: it is the partition of all unknown callers"));
        } else if !names.insert(name) {
            problems.push(Problem::new(path(), "found twice, each name is allowed once"));
        }
        match share.part() {
            Some(part) => {
                rest = rest.saturating_sub(part);
                total += share.as_percent();
                plans.push(PartitionPlan { name: Arc::from(name.as_str()), part, mode: share.mode() });
            }
            None => problems.push(Problem::new(
                path(),
                format!(
                    "found {} %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                    share.as_percent()
                ),
            )),
        }
    }
    if total > 100.0 + ROUNDING {
        problems.push(Problem::new("partitions", format!("found {total} % in all, allowed is at most 100")));
    }
    plans.insert(0, PartitionPlan { name: Arc::from(DEFAULT_PARTITION), part: rest, mode: default_mode });
    if total >= 100.0 - ROUNDING {
        make_whole(&mut plans);
    }
    plans
}

/// Percentages such as 100/3 can't add up to exactly 100.
const ROUNDING: f64 = 0.000_1;

/// Gives the default partition nothing and lets the largest other one bear what rounding added or took.
fn make_whole(plans: &mut [PartitionPlan]) {
    let Some((default, others)) = plans.split_first_mut() else { return };
    let sum: u32 = others.iter().map(|plan| plan.part).fold(0, u32::saturating_add);
    if let Some(largest) = others.iter_mut().max_by_key(|plan| plan.part) {
        default.part = 0;
        largest.part = largest.part.saturating_add(WHOLE).saturating_sub(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::limit::Aimd;

    fn problems(settings: Settings) -> Vec<String> {
        settings.into_plan().unwrap_err().problems().iter().map(ToString::to_string).collect()
    }

    fn with(partitions: &[(&str, Share)]) -> Settings {
        let partitions = partitions.iter().map(|&(name, share)| (name.to_owned(), share)).collect();
        Settings { partitions, ..Settings::default() }
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let mut settings = with(&[
            ("a", percent(60)),
            ("a", percent(50)),
            ("b", percent(0)),
            ("c", percent(-5)),
            ("d", percent(f64::NAN)),
            ("", percent(1)),
            ("default", percent(1)),
        ]);
        settings.limit = Aimd::new(Duration::ZERO).into();
        assert_eq!(
            problems(settings),
            [
                "limit.aimd.threshold: found 0, allowed is any longer time",
                "partitions.a: found twice, each name is allowed once",
                "partitions.b: found 0 %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                "partitions.c: found -5 %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                "partitions.d: found NaN %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                "partitions.: found \"\" as a name, allowed are 1 to 256 bytes",
                "partitions.default: this name is taken: it is the partition of all unknown callers",
                "partitions: found 112 % in all, allowed is at most 100",
            ]
        );
    }

    #[test]
    fn exactly_all_may_be_allocated_and_thirds_add_up() {
        let (plan, _) = with(&[("a", percent(60)), ("b", percent(40))]).into_plan().unwrap();
        assert_eq!(plan.partitions[0].part, 0, "unknown callers get idle capacity only");
        let thirds = percent(100.0 / 3.0);
        let (plan, _) = with(&[("a", thirds), ("b", thirds), ("c", thirds)]).into_plan().unwrap();
        assert_eq!(plan.partitions.iter().map(|it| it.part).sum::<u32>(), WHOLE);
        assert_eq!(plan.partitions[0].part, 0, "a millionth left over by rounding is no share");
        assert_eq!(problems(with(&[("a", percent(60)), ("b", percent(40.001))])).len(), 1);
    }

    #[test]
    fn a_limit_of_zero_is_an_error() {
        let settings = Settings { limit: Fixed::new(0).into(), ..Settings::default() };
        assert_eq!(problems(settings), ["limit.fixed: found 0, allowed is 1 or more; Mode::Off lifts a limit"]);
    }

    #[test]
    fn settings_without_effect_are_warned_about() {
        let both = Settings { queue: 10, wait_timeout: Some(Duration::from_secs(1)), ..Settings::default() };
        assert_eq!(both.into_plan().unwrap().1.len(), 1);
        let neither = Settings { max_wait: Some(Duration::from_secs(1)), ..Settings::default() };
        assert_eq!(neither.into_plan().unwrap().1.len(), 1);
        assert!(Settings::default().into_plan().unwrap().1.is_empty());
    }
}
