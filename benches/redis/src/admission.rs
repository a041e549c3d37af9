//! What a request pays for a rule: counted here, counted by the store and met from a local share, or asked for.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tower_admission::{Admission, Cap, ClassLimits, Outcome, Rules, Ticket, limit::Fixed, store::Leases};

use crate::{
    server::Server,
    table::{head, row},
};

const TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

/// Which rule a request meets.
#[derive(Clone, Copy)]
enum Rule {
    None,
    Local,
    Share,
    Asked,
}

pub async fn run(server: &Server) {
    println!(
        "\n## A request\n\none task, admit and finish, {ROUNDS} rounds of {} s each, the median round\n",
        TIME.as_secs()
    );
    head(&["the request's label has", "per request", "of a local cap"]);
    let rules = [Rule::None, Rule::Local, Rule::Share, Rule::Asked];
    let handles = rules.map(|rule| admission(server, rule));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = [0.0; 4];
        for (index, handle) in handles.iter().enumerate() {
            round[index] = nanos(handle).await;
        }
        rounds.push(round);
    }
    let names = ["no rule", "a cap, local", "a cap, shared, local shares", "a cap, shared, asked each time"];
    for (index, name) in names.into_iter().enumerate() {
        let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
            let mut all: Vec<_> = rounds.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[ROUNDS / 2]
        };
        let (time, ratio) = (median(&|round| round[index]), median(&|round| round[index] / round[1]));
        row(&[name.to_owned(), format!("{time:.0} ns"), format!("{ratio:.1}")]);
    }
}

fn admission(server: &Server, rule: Rule) -> Admission {
    let cap = match rule {
        Rule::None => ClassLimits::new(),
        Rule::Local => ClassLimits::new().max_in_flight(Cap::from(1_000).local()),
        Rule::Share | Rule::Asked => ClassLimits::new().max_in_flight(1_000),
    };
    let leases = Leases::builder().local_shares(matches!(rule, Rule::Share)).build(Arc::new(server.store()));
    Admission::builder()
        .limit(Fixed::new(2_000))
        .rules(Rules::new().default_limits(cap))
        .shared(leases, Server::keys())
        .build()
        .expect("valid settings")
}

/// The time of one request.
async fn nanos(admission: &Admission) -> f64 {
    let began = Instant::now();
    let mut count = 0.0;
    while began.elapsed() < TIME {
        for _ in 0..100 {
            let permit = admission.admit(Ticket::new().label("orders")).await.expect("there is room");
            permit.finish(Outcome::Success);
            count += 1.0;
        }
        tokio::task::yield_now().await;
    }
    began.elapsed().as_secs_f64() * 1e9 / count
}
