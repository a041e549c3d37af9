//! A plan for the engine, out of settings.

use std::{collections::HashSet, num::NonZeroU32, sync::Arc, time::Duration};

use super::warnings::{small_shares, warnings};
#[cfg(feature = "files")]
use crate::StoreConfig;
use crate::{Settings, Share, settings::layer::AdmissionConfig};
use tower_admission_engine::{
    BuildError, MOST_ENTRIES, Problem,
    limit::Limit,
    plan::{Bound, PartitionPlan, Places, Plan},
    shares::WHOLE,
    short,
};

/// The name of the partition of requests that belong to no other.
pub(crate) const DEFAULT_PARTITION: &str = "default";

/// Less memory holds no segment of a capture. A capture that is started over HTTP needs as much.
const LEAST_CAPTURE: usize = 1_024;

/// Fewest places for waiters beside a law that learns the limit, unless the limit stays below.
const PLACES: usize = 1_000;

impl Settings {
    /// A plan for the engine, and what is allowed and likely to be a mistake.
    pub fn into_plan(mut self) -> Result<(Plan, Vec<String>), BuildError> {
        let law = self.limit.take().unwrap_or_default().into_law();
        let values = &self.values;
        let waits = values.waits();
        let mut problems: Vec<Problem> = law.problems().into_iter().map(|problem| problem.under("limit")).collect();
        let shadow = self.shadow.map(Limit::into_law);
        let of_shadow = shadow.iter().flat_map(|law| law.problems());
        problems.extend(of_shadow.map(|problem| problem.under("shadow_law")));
        let partitions = partitions(&self.shares, values, &mut problems);
        if self.shares.len() >= usize::from(u16::MAX) {
            problems.push(Problem::new(
                "partitions",
                format!("found {}, allowed are fewer than {}", self.shares.len(), u16::MAX),
            ));
        }
        let labels = values.labels.to_plan(&mut problems);
        let lasts = |time: Option<Duration>| time.is_none_or(|time| !time.is_zero());
        let found = values.capture_max_bytes;
        let too_small = || format!("found {found}, allowed are {LEAST_CAPTURE} bytes or more");
        let most = format_args!("at most {MOST_ENTRIES}");
        let of_values = [
            Problem::unless(lasts(values.permit_time_to_live), "permit_time_to_live", 0, "any longer time"),
            Problem::unless(lasts(values.patience), "patience", 0, "any longer time"),
            (found < LEAST_CAPTURE).then(|| Problem::new("capture_max_bytes", too_small())),
            Problem::unless(values.journal <= MOST_ENTRIES, "journal", values.journal, most),
        ];
        problems.extend(of_values.into_iter().flatten());
        #[cfg(feature = "files")]
        problems.extend(self.sharing.store.iter().flat_map(StoreConfig::problems));
        #[cfg(feature = "files")]
        if !self.sharing.is_shared && self.sharing.store.as_ref().is_some_and(|store| *store != StoreConfig::default())
        {
            self.notes.push("[store] has no effect without url, unless code sets a store (feature shared)".into());
        }
        let rules =
            self.rules.into_plan(self.sharing.is_shared.then_some(self.sharing.on_store_failure), &mut problems);
        BuildError::check(problems)?;

        let at_least = law.max_limit().min(PLACES);
        let extra = values.max_waiting.map_or(Places::Limit { at_least }, Places::Exactly);
        let (line, gate, queue) = if waits.queue == 0 {
            let places = if waits.wait_timeout.is_zero() { Places::Exactly(0) } else { extra };
            let line = Bound { places, wait: Some(waits.wait_timeout) };
            (line, Bound { places: Places::Exactly(0), wait: None }, None)
        } else {
            let line = Bound { places: Places::Exactly(waits.queue), wait: waits.max_wait };
            let places = if waits.admission_timeout.is_zero() { Places::Exactly(0) } else { extra };
            (line, Bound { places, wait: Some(waits.admission_timeout) }, Some(waits.queue))
        };
        let plan = Plan {
            law,
            partitions,
            line,
            gate,
            queue,
            discipline: waits.discipline,
            default_deadline: values.patience,
            aging: values.aging.map(NonZeroU32::get),
            labels,
            rules,
            time_to_live: values.permit_time_to_live,
            journal: values.journal,
            time_one_in: values.time_one_in,
            shadow,
        };
        let shares = small_shares(&self.shares);
        let warnings = warnings(&plan, values, self.largest_limit);
        let warnings = self.notes.into_iter().chain(shares).chain(warnings).collect();
        Ok((plan, warnings))
    }
}

fn partitions(shares: &[(String, Share)], values: &AdmissionConfig, problems: &mut Vec<Problem>) -> Vec<PartitionPlan> {
    let mut names = HashSet::from([DEFAULT_PARTITION]);
    let mut rest = WHOLE;
    let mut total = 0.0;
    let mut plans = Vec::with_capacity(shares.len() + 1);
    for (name, share) in shares {
        let path = || format!("partitions.{name}");
        if name.trim().is_empty() || name.len() > 256 {
            problems.push(Problem::new(path(), format!("found {name:?} as a name, allowed are 1 to 256 bytes")));
        } else if name == DEFAULT_PARTITION {
            problems.push(Problem::new(path(), "this name is reserved for the partition of all unknown callers"));
        } else if !names.insert(name) {
            problems.push(Problem::new(path(), "found twice, each name is allowed once"));
        }
        match share.part() {
            Some(part) => {
                rest = rest.saturating_sub(part);
                total += share.percent;
                let (mode, observes) = (share.mode, share.observes);
                let withheld = share.withheld().unwrap_or_else(|| {
                    let found = share.lends;
                    let message = format!("found {found} %, allowed is from 0 to 100");
                    problems.push(Problem::new(path() + ".lend", message));
                    0
                });
                plans.push(PartitionPlan { name: Arc::from(name.as_str()), part, mode, observes, withheld });
            }
            None => {
                let allowed = "more than 0 and at most 100 (and not below 0.0001)";
                let message = format!("found {} %, allowed is {allowed}", short(share.percent));
                problems.push(Problem::new(path(), message));
            }
        }
    }
    if total > 100.0 + ROUNDING {
        problems.push(Problem::new("partitions", format!("found {} % in all, allowed is at most 100", short(total))));
    }
    let default = Arc::from(DEFAULT_PARTITION);
    let (mode, observes) = (values.default_partition_mode, values.default_partition_observe);
    plans.insert(0, PartitionPlan { name: default, part: rest, mode, observes, withheld: 0 });
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
    use std::time::Duration;

    use super::*;
    use crate::{Cap, ClassLimits, Rate, Rules, percent};
    use tower_admission_engine::limit::{Aimd, Fixed};

    fn problems(settings: Settings) -> Vec<String> {
        settings.into_plan().unwrap_err().problems().iter().map(ToString::to_string).collect()
    }

    fn with(partitions: &[(&str, Share)]) -> Settings {
        let shares = partitions.iter().map(|&(name, share)| (name.to_owned(), share)).collect();
        Settings { shares, ..Settings::default() }
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
        settings.limit = Some(Aimd::new(Duration::ZERO).into());
        assert_eq!(
            problems(settings),
            [
                "limit.aimd.threshold: found 0, allowed is any longer time",
                "partitions.a: found twice, each name is allowed once",
                "partitions.b: found 0 %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                "partitions.c: found -5 %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                "partitions.d: found NaN %, allowed is more than 0 and at most 100 (and not below 0.0001)",
                "partitions.: found \"\" as a name, allowed are 1 to 256 bytes",
                "partitions.default: this name is reserved for the partition of all unknown callers",
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
        let settings = Settings { limit: Some(Fixed::new(0).into()), ..Settings::default() };
        assert_eq!(problems(settings), ["limit.fixed: found 0, allowed is 1 or more; Mode::Off lifts a limit"]);
    }

    #[test]
    fn a_cap_of_zero_is_an_error_and_none_at_all_is_not() {
        let with = |cap: Cap| {
            let limits =
                ClassLimits::new().max_in_flight(cap).max_in_flight_per_namespace(cap).max_pending(cap.local());
            let rules = Rules::new().class("mail", limits.clone()).override_key("ns:a", "mail", limits);
            Settings { rules, ..Settings::default() }
        };
        let names = ["max_in_flight", "max_in_flight_per_namespace", "max_pending"];
        let expected = ["classes.mail", "overrides.ns:a.mail"].into_iter().flat_map(|path| {
            names.map(|name| format!("{path}.{name}: found 0, allowed is 1 or more; Cap::unlimited() lifts a cap"))
        });
        assert_eq!(problems(with(Cap::from(0))), expected.collect::<Vec<_>>());
        with(Cap::unlimited()).into_plan().unwrap();
        with(Cap::from(1)).into_plan().unwrap();
    }

    #[test]
    fn a_rate_of_zero_is_an_error() {
        let limits = ClassLimits::new().max_per_minute(0).budget("mail", Rate::from(0).smooth());
        let settings = Settings { rules: Rules::new().class("mail", limits), ..Settings::default() };
        let expected = ["max_per_minute", "budget"].map(|name| {
            format!("classes.mail.{name}: found 0, allowed is 1 or more; a rate that lets nothing start is a mistake")
        });
        assert_eq!(problems(settings), expected);
    }
}
