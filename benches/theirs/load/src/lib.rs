//! What all of these comparisons share: a load that does not wait for answers, a server in a process of its own, and
//! the table.
//!
//! A program of this workspace is both. Started by hand it is the callers: for each load and each variant it starts
//! itself once more as the server, calls it, and prints a row.
//!
//! Work is counted in units that a program chooses, the same in its server and its calls: one for each call where all
//! calls are alike.

mod child;
mod drive;
mod slots;
mod table;

use std::{env, net::SocketAddr, sync::Arc};

pub use child::{Counters, Meter, Running, Server, serve, serve_then};
pub use drive::{Outcome, Plan, Tally, closed, drive, most_closed};
pub use slots::Slots;
pub use table::{Row, header, row};

/// Asks for a warm-up in which an overload is known as one: requests have waited for ten seconds by then.
const SETTLED: &str = "--settled";

/// Asks for other loads than those of the tables.
const LOADS: &str = "--loads";

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Be the server of this kind, until standard input ends.
    Serve(String),
    /// Call servers and print the table, briefly where `quick`, and only of variants whose names contain a part in `only`.
    Table {
        /// 2 s for each run.
        quick: bool,
        /// Parts of the names of the variants to run, with commas between them.
        only: String,
    },
}

impl Role {
    /// Reads `--serve KIND`, `--quick`, `--only PARTS`, `--loads NUMBERS` and `--settled`. Anything else is a mistake, which ends the
    /// program.
    #[must_use]
    pub fn of_this_process() -> Self {
        let words: Vec<String> = env::args().skip(1).collect();
        let (mut quick, mut only, mut rest) = (false, String::new(), words.iter().map(String::as_str));
        while let Some(word) = rest.next() {
            match (word, rest.clone().next()) {
                ("--serve", Some(kind)) => return Self::Serve(kind.to_owned()),
                ("--quick", _) => quick = true,
                (SETTLED, _) => {}
                ("--only", Some(_)) => only = rest.next().unwrap_or_default().to_owned(),
                (LOADS, Some(_)) => _ = rest.next(),
                _ => panic!("options: --quick, --settled, --only PARTS,OF,VARIANTS, --loads 0.5,10"),
            }
        }
        Self::Table { quick, only }
    }
}

/// The runs of a table: under each load, each of the kinds whose name contains a part of `only`.
///
/// # Panics
///
/// Panics where a load is no number.
pub fn runs<'a>(kinds: &'a [&'static str], only: &'a str) -> impl Iterator<Item = (f64, &'static str)> {
    let loads = env::args().skip_while(|word| word != LOADS).nth(1).unwrap_or_else(|| "0.5,1,3,10".to_owned());
    let loads: Vec<f64> = loads.split(',').map(|load| load.parse().expect("loads are numbers")).collect();
    let asked = kinds.iter().filter(|kind| only.split(',').any(|part| kind.contains(part)));
    loads.into_iter().flat_map(move |load| asked.clone().map(move |kind| (load, *kind)))
}

/// Starts a server of each kind under each load, and prints a row for each as it ends.
///
/// `connect` opens what the callers of one run share, by the kind and the address of its server. `call` is one call, with the number of its arrival.
pub async fn compare<C, K, KF, F, FF>(plan: &Plan, only: &str, kinds: &[&'static str], connect: K, call: F)
where
    C: Send + Sync + 'static,
    K: Fn(&'static str, SocketAddr) -> KF,
    KF: Future<Output = C>,
    F: Fn(Arc<C>, u64) -> FF,
    FF: Future<Output = Outcome> + Send + 'static,
{
    println!("{}", header());
    for (load, variant) in runs(kinds, only) {
        let server = Server::start(variant).await;
        let client = Arc::new(connect(variant, server.address).await);
        let tally = drive(plan, load, |number| call(Arc::clone(&client), number)).await;
        drop(client);
        let counters = server.stop().await;
        println!("{}", row(&Row { load, variant, plan, tally: &tally, counters }));
    }
}
