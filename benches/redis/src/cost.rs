//! What it costs to ask: acquire and release, next to the smallest script there is.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use tokio::time::Instant;
use tower_admission::store::{Acquired, Claim, Claims, Leases, Request, Store, Token};

use crate::{
    server::Server,
    table::{head, millis, quantile, row},
};

const TASKS: usize = 64;
const TIME: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;

pub async fn run(server: &Server) {
    println!("\n## Cost\n\n{TASKS} tasks, {ROUNDS} rounds of {} s each, the median round\n", TIME.as_secs());
    head(&["what", "per second", "of the plain script", "p50", "p99"]);
    let claim = Claim::cap(Server::keys().cap("acme", "label", "x"), NonZeroU32::new(1_000).expect("not zero"));
    let claims = Claims::new(vec![claim]).expect("one claim");
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    for _ in 0..ROUNDS {
        // One after the other in each round, so that what the machine does meanwhile hits all of them.
        rounds.push(vec![
            plain(server).await,
            pairs(server, &claims).await,
            leases(server, &claims, false).await,
            leases(server, &claims, true).await,
        ]);
    }
    let names = [
        "plain `EVALSHA` of `return 1`",
        "`Store::acquire` + `Store::release`, awaited",
        "`Leases::admit` + drop",
        "`Leases::admit` + drop, local shares",
    ];
    let median = |of: &dyn Fn(&Vec<Figures>) -> f64| {
        let mut all: Vec<_> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2]
    };
    for (index, name) in names.into_iter().enumerate() {
        let rate = median(&|round| round[index].rate);
        let ratio = median(&|round| round[index].rate / round[0].rate);
        let (p50, p99) = (median(&|round| round[index].p50), median(&|round| round[index].p99));
        let time = |seconds| millis(Duration::from_secs_f64(seconds));
        row(&[name.to_owned(), format!("{rate:.0}"), format!("{ratio:.2}"), time(p50), time(p99)]);
    }
}

struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// Runs `once` in [`TASKS`] tasks for [`TIME`].
async fn drive<F: Future<Output = ()> + Send>(once: impl Fn() -> F + Send + Sync + Clone + 'static) -> Figures {
    let began = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let once = once.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < TIME {
                    let start = Instant::now();
                    once().await;
                    times.push(start.elapsed());
                    // What never waits must let others run.
                    tokio::task::consume_budget().await;
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("no task fails"));
    }
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    let mut seconds = |percent| quantile(&mut times, percent).as_secs_f64();
    Figures { rate, p50: seconds(50), p99: seconds(99) }
}

async fn plain(server: &Server) -> Figures {
    let mut connection = server.connect().await;
    let sha: String =
        redis::cmd("SCRIPT").arg("LOAD").arg("return 1").query_async(&mut connection).await.expect("a script");
    drive(move || {
        let (mut connection, sha) = (connection.clone(), sha.clone());
        async move {
            let one: i64 =
                redis::cmd("EVALSHA").arg(&sha).arg(0).query_async(&mut connection).await.expect("an answer");
            assert_eq!(one, 1);
        }
    })
    .await
}

async fn pairs(server: &Server, claims: &Claims) -> Figures {
    let (store, claims) = (server.store(), claims.clone());
    drive(move || {
        let (store, claims) = (store.clone(), claims.clone());
        async move {
            let request = Request::new(Token::random().expect("random bytes"), claims, Duration::from_secs(10));
            match store.acquire(&request).await {
                Ok(Acquired::Granted(lease)) => assert_eq!(store.release(&[lease]).await.expect("an answer").held, 1),
                other => panic!("{other:?}"),
            }
        }
    })
    .await
}

async fn leases(server: &Server, claims: &Claims, local_shares: bool) -> Figures {
    let leases = Leases::builder().local_shares(local_shares).build(Arc::new(server.store()));
    let claims = claims.clone();
    drive(move || {
        let (leases, claims) = (leases.clone(), claims.clone());
        async move { drop(leases.wait(&claims).await.expect("there is room")) }
    })
    .await
}
