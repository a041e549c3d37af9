//! Against traces of the original: what Netflix's concurrency-limits answered to the same samples and operations.
//!
//! The traces are not part of this repository. `GOLDEN_DIR` names a directory of them; without it, the few rows at the
//! end are checked, which were worked out from the formulas.

use std::{collections::HashMap, fs, path::Path, time::Duration};

use crate::{
    Ask, Engine, PartitionId, Slot,
    limit::{Aimd, Fixed, Gradient2, Limit, LimitAlgorithm, NetflixWindow, QueueSize, Sample, Vegas},
    plan::{Bound, PartitionMode, PartitionPlan, Plan},
};
use crate::{Outcome, Timestamp};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn netflix_aimd() -> Aimd {
    Aimd::new(Duration::from_secs(5)).initial(20).min(20).max(200)
}

/// What a trace is compared with: the law, and its inner estimate where it has one.
enum Subject {
    Aimd(Aimd),
    Vegas(Vegas),
    Gradient2(Gradient2),
    WindowedAimd(NetflixWindow<Aimd>),
    WindowedVegas(NetflixWindow<Vegas>),
    WindowedGradient2(NetflixWindow<Gradient2>),
}

impl Subject {
    fn named(name: &str) -> Option<Self> {
        let vegas = || Vegas::new().pinned_jitter(0.75);
        Some(match name {
            "aimd_default" => Self::Aimd(netflix_aimd()),
            "aimd_custom" => Self::Aimd(Aimd::new(ms(30)).initial(10).max(1_000).backoff(0.5)),
            "vegas_default" => Self::Vegas(vegas()),
            "vegas_custom" => Self::Vegas(vegas().queue(3, 6).smoothing(0.5).initial(10).max(20).probe_multiplier(8)),
            "gradient2_default" => Self::Gradient2(Gradient2::new()),
            "gradient2_custom" => Self::Gradient2(
                Gradient2::new()
                    .initial(10)
                    .min(1)
                    .max(1_000)
                    .smoothing(0.5)
                    .queue(QueueSize::SquareRoot)
                    .long_window(100)
                    .tolerance(1.0),
            ),
            "windowed_avg_aimd" => {
                Self::WindowedAimd(NetflixWindow::new(Aimd::new(ms(50)).initial(20).min(20).max(200)))
            }
            "windowed_avg_vegas" => Self::WindowedVegas(NetflixWindow::new(vegas())),
            "windowed_avg_gradient2" => Self::WindowedGradient2(NetflixWindow::new(Gradient2::new())),
            "windowed_p90_gradient2" => Self::WindowedGradient2(
                NetflixWindow::new(Gradient2::new().initial(20).min(1).max(500))
                    .time(ms(100), Duration::from_secs(2))
                    .samples(20)
                    .percentile(90.0, 100),
            ),
            _ => return None,
        })
    }

    fn law(&mut self) -> &mut dyn LimitAlgorithm {
        match self {
            Self::Aimd(law) => law,
            Self::Vegas(law) => law,
            Self::Gradient2(law) => law,
            Self::WindowedAimd(law) => law,
            Self::WindowedVegas(law) => law,
            Self::WindowedGradient2(law) => law,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "compared within 1e-9")]
    fn inner(&self) -> Option<(f64, f64)> {
        let vegas = |law: &Vegas| (law.inner().0, law.inner().1 as f64);
        match self {
            Self::Aimd(_) | Self::WindowedAimd(_) => None,
            Self::Vegas(law) => Some(vegas(law)),
            Self::WindowedVegas(law) => Some(vegas(law.law())),
            Self::Gradient2(law) => Some(law.inner()),
            Self::WindowedGradient2(law) => Some(law.law().inner()),
        }
    }
}

/// Returns the rows of a trace, without its header.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let data = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    data.filter(|line| !line.is_empty()).map(|line| line.split(',').collect())
}

/// Compares a trace of a law. Returns how many rows agreed, or the first that did not.
fn check_law(name: &str, text: &str) -> Result<usize, String> {
    let mut subject = Subject::named(name).ok_or_else(|| format!("{name}: no such law"))?;
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let mut count = 0;
    for row in rows(text) {
        let number = |index: usize| row[index].parse::<u64>().unwrap();
        let outcome = if row[4] == "0" { Outcome::Success } else { Outcome::Overload };
        let (start, rtt) = (Timestamp::from_nanos(number(1)), Duration::from_nanos(number(2)));
        let in_flight = usize::try_from(number(3)).unwrap();
        subject.law().on_sample(&Sample::new(start, rtt, in_flight, outcome));
        let limit = subject.law().limit();
        if limit.to_string() != row[5] {
            return Err(format!("{name}, step {}: limit {limit} instead of {}", row[0], row[5]));
        }
        if let Some((estimate, base)) = subject.inner() {
            let expected: (f64, f64) = (row[6].parse().unwrap(), row[7].parse().unwrap());
            if !close(estimate, expected.0) || !close(base, expected.1) {
                return Err(format!("{name}, step {}: {:?} instead of {expected:?}", row[0], (estimate, base)));
            }
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the partitions named in the header of a limiter trace: `# partitions: {a=0.34, b=0.33}`.
fn partitions(text: &str) -> Vec<(String, u32)> {
    let header = text.lines().find_map(|line| line.strip_prefix("# partitions: ")).unwrap();
    let Some(list) = header.strip_prefix('{').and_then(|list| list.strip_suffix('}')) else { return Vec::new() };
    let one = |entry: &str| {
        let (name, part) = entry.split_once('=').unwrap();
        let part: f64 = part.parse().unwrap();
        (name.to_owned(), (part * 1e6).round() as u32)
    };
    list.split(", ").map(one).collect()
}

/// Compares a trace of a limiter.
fn check_limiter(name: &str, text: &str) -> Result<usize, String> {
    let law: Limit = match name {
        "e04_partitioned_aimd_timeouts" => Limit::per_sample(Aimd::new(ms(60)).initial(10).min(2).max(60)),
        _ => {
            let first: usize = rows(text).next().unwrap()[6].parse().unwrap();
            Fixed::new(first).into()
        }
    };
    let known = partitions(text);
    let mut partitions = vec![PartitionPlan::burst("unknown", 0)];
    let overcommits = |name, part| PartitionPlan::of(name, part, PartitionMode::Overcommit);
    partitions.extend(known.iter().map(|(name, part)| overcommits(name, *part)));
    let closed = Bound::of(0, None);
    let mut engine = Engine::new(Plan::plain(law.into_law(), partitions, closed, closed));
    let mut slots: HashMap<String, Slot> = HashMap::new();
    let mut count = 0;
    for row in rows(text) {
        let now = Timestamp::from_nanos(row[1].parse().unwrap());
        let partition = known.iter().position(|(name, _)| name == row[3]).map_or(0, |index| index + 1);
        let partition = PartitionId::from_index(partition).unwrap();
        let mut answer = "";
        let mut touched = partition;
        match row[2] {
            "acquire" => match engine.arrive_without_waiting(now, &Ask::of(partition)) {
                Ok(slot) => {
                    slots.insert(row[4].to_owned(), slot);
                    answer = "accept";
                }
                Err(_) => answer = "reject",
            },
            "setlimit" => {
                engine.capacity.resize(row[3].parse().unwrap());
                engine.dispatch(now);
            }
            op => {
                let mut slot = slots.remove(row[4]).unwrap();
                touched = slot.partition;
                let outcome = match op {
                    "success" => Outcome::Success,
                    "drop" => Outcome::Overload,
                    "ignore" => Outcome::Ignore,
                    other => return Err(format!("{name}, step {}: unknown operation {other}", row[0])),
                };
                // A limit set by hand stays: only the law of the trace with one may move it.
                if name.starts_with('e') {
                    engine.observe(now, &mut slot, outcome);
                }
                engine.finish(now, &mut slot);
            }
        }
        let snapshot = engine.snapshot();
        let it = &snapshot.partitions[touched.index()];
        let mut found = vec![answer.to_owned(), snapshot.limit.to_string(), snapshot.in_flight.to_string()];
        let mut expected = row[5..8].to_vec();
        if row.len() > 9 && !row[9].is_empty() && touched != PartitionId::DEFAULT {
            found.extend([it.share.to_string(), it.in_flight.to_string()]);
            expected.extend(&row[8..10]);
        }
        if found != expected {
            return Err(format!("{name}, step {}: {found:?} instead of {expected:?}", row[0]));
        }
        count += 1;
    }
    Ok(count)
}

fn check(file: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(file).unwrap();
    let stem = file.file_stem().unwrap().to_string_lossy();
    match stem.split_once("__") {
        Some((law, _)) => check_law(law, &text),
        None => check_limiter(&stem, &text),
    }
}

#[test]
fn every_row_of_the_traces_is_reproduced() {
    let Some(directory) = std::env::var_os("GOLDEN_DIR") else { return };
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    assert!(!files.is_empty(), "GOLDEN_DIR holds no traces");
    let results: Vec<_> = files.iter().map(|file| check(file)).collect();
    let rows: usize = results.iter().flatten().sum();
    println!("{rows} rows of {} traces agree", files.len());
    let failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

const HEADER: &str = "step,start_ns,rtt_ns,inflight,dropped,limit_after,est_after,base_rtt_after\n";

#[test]
fn rows_worked_out_by_hand_are_reproduced_and_a_wrong_one_is_found() {
    // Vegas: the first sample is the baseline. 1 - 10/10 = 0: no queue, so beta = 6 * lg(20) = 6 more. At double the
    // time, ceil(26 * 0.5) = 13 > 6: one less.
    let vegas = format!(
        "{HEADER}0,0,10000000,20,0,20,20.0,1.0E7\n1,0,10000000,20,0,26,26.0,1.0E7\n2,0,20000000,26,0,25,25.0,1.0E7\n"
    );
    assert_eq!(check_law("vegas_default", &vegas), Ok(3));
    // Gradient2: gradient 1, so 0.8 * 20 + 0.2 * (20 + 4). Then four times slower: the mean of two is 25 ms,
    // 1.5 * 25 / 40 = 0.9375, and 0.8 * 20.8 + 0.2 * (20.8 * 0.9375 + 4) = 21.34.
    let gradient2 = format!("{HEADER}0,0,10000000,20,0,20,20.8,1.0E7\n1,0,40000000,20,0,21,21.34,2.5E7\n");
    assert_eq!(check_law("gradient2_default", &gradient2), Ok(2));
    let wrong = vegas.replace(",26,26.0,", ",27,27.0,");
    assert!(check_law("vegas_default", &wrong).unwrap_err().contains("step 1"), "a wrong row is found");
    // Overcommit: batch fills the limit, live gets its share all the same: ceil(0.7 * 3) = 3.
    let mut limiter = String::from(
        "# partitions: {batch=0.3, live=0.7}\nstep,now_ns,op,arg,token,result,limit,inflight,part_limit,part_inflight\n",
    );
    for (step, (partition, result, in_flight, share, own)) in [
        ("batch", "accept", 1, 1, 1),
        ("batch", "accept", 2, 1, 2),
        ("batch", "accept", 3, 1, 3),
        ("batch", "reject", 3, 1, 3),
        ("live", "accept", 4, 3, 1),
        ("live", "accept", 5, 3, 2),
        ("live", "accept", 6, 3, 3),
        ("live", "reject", 6, 3, 3),
    ]
    .into_iter()
    .enumerate()
    {
        limiter += &format!("{step},0,acquire,{partition},{step},{result},3,{in_flight},{share},{own}\n");
    }
    assert_eq!(check_limiter("p", &limiter), Ok(8));
}
