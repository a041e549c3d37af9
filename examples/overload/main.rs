//! What an overload does to a server, without admission control and with it.
//!
//! ```text
//! cargo run --release --example overload
//! cargo run --release --example overload -- --json overload.json --svg overload.svg
//! cargo run --release --example overload -- --trace AzureLLMInferenceTrace_code.csv
//! cargo run --release --example overload -- --serve
//! ```
//!
//! An HTTP server (axum) and a gRPC server (tonic) get the same load twice: calm, three times too much by one noisy
//! tenant of four, calm, a backend that takes 400 ms rather than 100 ms, calm. Then a table compares the two runs.

mod backend;
mod grpc;
mod load;
mod options;
mod picture;
mod progress;
mod report;
mod schedule;
mod serve;
mod servers;
mod tally;
mod trace;

use std::{net::SocketAddr, path::Path, process::ExitCode, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use crate::{
    backend::Backend,
    load::{Live, Pool},
    options::Options,
    progress::Progress,
    report::Comparison,
    schedule::Scenario,
    servers::{BoxError, Protection, Servers},
    tally::Tally,
};

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("error: {problem}\n\nSee --help.");
            return ExitCode::from(2);
        }
    };
    let done = if options.help {
        print!("{}", options::HELP);
        Ok(())
    } else if options.serve {
        serve::serve().await
    } else {
        compare(&options).await
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn compare(options: &Options) -> Result<(), BoxError> {
    let scenario = match &options.trace {
        Some(path) => trace::load(path, options.speed.unwrap_or(150.0))?,
        None => Scenario::phases(options.seed.unwrap_or(1)),
    };
    for path in [&options.json, &options.svg].into_iter().flatten() {
        // Rather now than after a minute of work.
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| cannot_write(path, &error))?;
    }
    let each = scenario.length() + scenario.deadline;
    // The phases are made for the laws that were tuned by hand. Nobody made the trace for any law.
    let by_patience = options.trace.as_ref().map(|_| Protection::by_patience(&scenario)).transpose()?;
    let progress = Progress::new(each * if by_patience.is_some() { 3 } else { 2 });
    let protection = Protection::new(&scenario)?;
    let [without_http, without_grpc] = run(&scenario, None, &progress, Duration::ZERO).await?;
    let [with_http, with_grpc] = run(&scenario, Some(("protected", &protection)), &progress, each).await?;
    let [patient_http, patient_grpc] = match &by_patience {
        Some(protection) => run(&scenario, Some(("patience alone", protection)), &progress, each * 2).await?.map(Some),
        None => [None, None],
    };
    progress.finish();

    let comparisons = [
        Comparison {
            name: "HTTP",
            layer: "AdaptiveConcurrencyLayer, sheds at once",
            without: without_http,
            with: with_http,
            by_patience: patient_http,
        },
        Comparison {
            name: "gRPC",
            layer: "AdmissionLayer with a queue",
            without: without_grpc,
            with: with_grpc,
            by_patience: patient_grpc,
        },
    ];
    print!("{}", report::table(&scenario, &comparisons));
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report::json(&scenario, &comparisons))?;
        std::fs::write(path, text + "\n").map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(path) = &options.svg {
        let text = picture::svg(&scenario, &comparisons[1]);
        std::fs::write(path, text).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> BoxError {
    format!("{}: can't be written: {error}", path.display()).into()
}

/// Sends the load to servers of its own, HTTP and gRPC at the same time.
async fn run(
    scenario: &Scenario,
    protection: Option<(&str, &Protection)>,
    progress: &Progress,
    before: Duration,
) -> Result<[Tally; 2], BoxError> {
    let (name, protection) = protection.map_or(("unprotected", None), |(name, protection)| (name, Some(protection)));
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let servers = Servers::start(scenario, protection, [any_port; 2]).await?;
    let (http, grpc) = tokio::try_join!(Pool::http(servers.http), Pool::grpc(servers.grpc))?;

    let start = Instant::now() + Duration::from_millis(50);
    let live = Arc::new(Live::default());
    let drive = |pool, arrivals: &[_]| {
        let load =
            load::drive(pool, arrivals.to_vec(), scenario.phases.len(), start, scenario.deadline, Arc::clone(&live));
        tokio::spawn(load)
    };
    let http = drive(http, &scenario.http);
    let grpc = drive(grpc, &scenario.grpc);
    let ((), (), http, grpc) = tokio::join!(
        progress.watch(name, scenario, start, before, &live),
        change_speed(scenario, start, &servers.backends),
        http,
        grpc
    );
    servers.stop().await;
    Ok([http?, grpc?])
}

/// Makes the backends as slow as each phase says.
async fn change_speed(scenario: &Scenario, start: Instant, backends: &[Backend]) {
    let mut begin = start;
    for phase in &scenario.phases {
        sleep_until(begin).await;
        backends.iter().for_each(|backend| backend.slow_down(phase.slowness));
        begin += phase.length;
    }
}
