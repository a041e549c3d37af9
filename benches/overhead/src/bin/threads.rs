//! Requests per second with one thread and with several, which contend for the same limit.
//!
//! In each round every contestant is measured with one thread and then with `--threads N` of them (2 unless given), all at
//! work for the same time. Ratios are taken within a round; medians are taken last.

use std::{
    env,
    process::ExitCode,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use http::Response;
use http_body::Body;
use overhead::{
    contestants::HANDLER,
    drive::{GROUP_HEADER, GROUPS, Incoming, requests},
};
use tower::{Layer, Service, limit::GlobalConcurrencyLimitLayer};
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionLayer,
    classify::by_header,
    limit::{Aimd, Fixed},
    percent,
};

const LIMIT: usize = 100;
const THRESHOLD: Duration = Duration::from_secs(5);
/// A thread looks at the clock after so many requests.
const BATCH: u64 = 1_000;
const ROUND: Duration = Duration::from_millis(100);

/// Sends requests from so many threads for the time of a round; answers how many there were per second.
type Measure = Box<dyn Fn(usize) -> f64>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (threads, rounds) = match words[..] {
        [] => (2, 40),
        ["--threads", threads] => (threads.parse().expect("a number"), 40),
        ["--threads", threads, "--rounds", rounds] => {
            (threads.parse().expect("a number"), rounds.parse().expect("a number"))
        }
        _ => {
            eprintln!("usage: threads [--threads N [--rounds N]]");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _guard = runtime.enter();
    let contestants = contestants();
    let mut figures = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        for offset in 0..contestants.len() {
            let index = (offset + round) % contestants.len();
            let (_, measure) = &contestants[index];
            figures[index].push([measure(1), measure(threads)]);
        }
    }
    println!(
        "| contestant | 1 thread, 1,000/s | {threads} threads, 1,000/s | scaling | x tower with {threads} | x tower-acc with \
         {threads} |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    let [tower, acc] = ["tower GlobalConcurrencyLimit", "tower-acc Aimd"].map(|peer| {
        let index = contestants.iter().position(|(name, _)| *name == peer).expect("both take part");
        figures[index].clone()
    });
    for ((name, _), rounds) in contestants.iter().zip(&figures) {
        let of = |figure: fn(&[f64; 2]) -> f64| median(rounds.iter().map(figure).collect());
        let next_to = |peer: &[[f64; 2]]| median(rounds.iter().zip(peer).map(|(it, peer)| it[1] / peer[1]).collect());
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} |",
            of(|it| it[0]) / 1e3,
            of(|it| it[1]) / 1e3,
            of(|it| it[1] / it[0]),
            next_to(&tower),
            next_to(&acc),
        );
    }
    ExitCode::SUCCESS
}

fn contestants() -> Vec<(&'static str, Measure)> {
    let admission = Admission::builder().limit(Fixed::new(LIMIT)).shed().build().expect("valid settings");
    let law = Aimd::new(THRESHOLD).initial(LIMIT).max(LIMIT);
    let adaptive = AdaptiveConcurrencyLayer::with(law, |admission| {
        GROUPS.into_iter().fold(admission, |admission, group| admission.partition(group, percent(25)))
    });
    let adaptive = adaptive.expect("valid settings").map(|layer| layer.classify(by_header(GROUP_HEADER)));
    let acc = tower_acc::Aimd::builder().initial_limit(LIMIT).min_limit(1).max_limit(LIMIT).timeout(THRESHOLD);
    let acc = tower_acc::ConcurrencyLimitLayer::new(acc.build());
    let one_more = Admission::builder().limit(Fixed::new(1)).shed().build().expect("valid settings");
    let taken = one_more.try_admit(tower_admission::Ticket::new()).expect("there is a slot");
    // For as long as the process lasts, so that everybody else is rejected.
    std::mem::forget(taken);
    vec![
        ("bare", measure(HANDLER)),
        ("tower GlobalConcurrencyLimit", measure(GlobalConcurrencyLimitLayer::new(LIMIT).layer(HANDLER))),
        ("tower-acc Aimd", measure(acc.layer(HANDLER))),
        ("AdmissionLayer", measure(AdmissionLayer::new(&admission).layer(HANDLER))),
        ("AdaptiveConcurrencyLayer, 4 partitions", measure(adaptive.layer(HANDLER))),
        ("AdmissionLayer, rejection", measure(AdmissionLayer::new(&one_more).layer(HANDLER))),
    ]
}

#[expect(clippy::disallowed_methods, reason = "this measures by the clock")]
#[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
fn measure<S, B>(service: S) -> Measure
where
    S: Service<Incoming, Response = Response<B>> + Clone + Send + Sync + 'static,
    B: Body,
{
    Box::new(move |threads| {
        let start = Barrier::new(threads);
        let per_second: f64 = thread::scope(|scope| {
            let work = || {
                let service = service.clone();
                // What a thread does for the first time is not measured.
                requests(&service, BATCH);
                start.wait();
                let (begin, mut count) = (Instant::now(), 0);
                while begin.elapsed() < ROUND {
                    requests(&service, BATCH);
                    count += BATCH;
                }
                count as f64 / begin.elapsed().as_secs_f64()
            };
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running.into_iter().map(|thread| thread.join().expect("a thread of this bench ends well")).sum()
        });
        per_second
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
