//! The server: short requests that need a connection each, a report that takes all connections, and a long one that takes none.

use std::time::Duration;

use axum::{Router, extract::State, http::StatusCode, routing::get};
use bb8_redis::{
    RedisConnectionManager,
    bb8::Pool,
    redis::{Script, aio::MultiplexedConnection},
};
use load::{Meter, serve};
use pool::{glue::tower, work};
use tokio::{net::TcpListener, time::sleep};
use tower_admission::{Admission, AdmissionBuilder, AdmissionLayer, classify::by_matched_path, limit::Fixed, percent};

use crate::{CONNECTIONS, DEADLINE, EXPORT, LONGEST, TOWER, glue};

#[derive(Clone, Debug)]
struct App {
    pool: Pool<RedisConnectionManager>,
    work: Script,
    times: u32,
    hold: Duration,
    meter: Meter,
}

impl App {
    async fn count(&self, connection: &mut MultiplexedConnection) -> Result<u64, StatusCode> {
        self.work.arg(self.times).invoke_async(connection).await.map_err(|_| StatusCode::BAD_GATEWAY)
    }
}

/// What nearly all requests are: how many members two rankings have in common.
async fn common(State(app): State<App>) -> Result<String, StatusCode> {
    let _running = app.meter.enter();
    let mut connection = app.pool.get().await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)?;
    Ok(app.count(&mut connection).await?.to_string())
}

/// The culprit: ten figures at once, each over a connection that it keeps until a slow service has told it the rest.
async fn report(State(app): State<App>) -> Result<String, StatusCode> {
    let _running = app.meter.enter();
    let (mut held, mut sum) = (Vec::new(), 0);
    for _ in 0..CONNECTIONS {
        let mut connection = app.pool.get().await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)?;
        sum += app.count(&mut connection).await?;
        held.push(connection);
    }
    sleep(app.hold).await;
    Ok(sum.to_string())
}

/// Takes long, and harms no other request: it waits for a service that only it needs.
async fn export(State(app): State<App>) -> &'static str {
    let _running = app.meter.enter();
    sleep(EXPORT).await;
    "exported"
}

/// The first set-up of the README.
fn patience() -> AdmissionBuilder {
    Admission::builder().patience(DEADLINE)
}

/// The same with a limit that is not learned: that of tower.
fn set() -> AdmissionBuilder {
    patience().limit(Fixed::new(TOWER))
}

fn limited(routes: Router, variant: &str) -> Router {
    let admission = |settings: AdmissionBuilder| settings.build().expect("valid settings");
    match variant {
        "bare" => routes,
        "tower" => tower(routes, TOWER),
        "patience" => routes.layer(AdmissionLayer::new(&admission(patience()))),
        "hard cap" => {
            let capped = admission(patience().partition("report", percent(10).hard_cap()));
            routes.layer(AdmissionLayer::new(&capped).classify(by_matched_path().map([("/report", "report")])))
        }
        "time to live" => routes.layer(AdmissionLayer::new(&admission(patience().permit_time_to_live(LONGEST)))),
        "timeout" => glue::timeout(routes, &admission(patience()), LONGEST),
        "oldest" => glue::oldest(routes, &admission(patience()), LONGEST),
        "limit set" => routes.layer(AdmissionLayer::new(&admission(set()))),
        "limit set, timeout" => glue::timeout(routes, &admission(set()), LONGEST),
        "limit set, oldest" => glue::oldest(routes, &admission(set()), LONGEST),
        _ => panic!("there is no variant {variant}"),
    }
}

/// `words` are the variant, the port of Redis, how many times a request counts members, and for how many milliseconds a report
/// keeps its connections.
pub(crate) async fn be_server(words: &str) {
    let [variant, port, times, hold] = words.split(':').collect::<Vec<_>>()[..] else { panic!("four, not {words}") };
    let manager = RedisConnectionManager::new(format!("redis://127.0.0.1:{port}")).expect("an address");
    let pool = Pool::builder().max_size(CONNECTIONS).min_idle(CONNECTIONS).build(manager).await.expect("Redis runs");
    let hold = Duration::from_millis(hold.parse().expect("a number"));
    let meter = Meter::default();
    let app = App { pool, work: work(), times: times.parse().expect("a number"), hold, meter: meter.clone() };
    let routes =
        Router::new().route("/common", get(common)).route("/report", get(report)).route("/export", get(export));
    let routes = limited(routes.with_state(app), variant);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    serve(address, &meter).await;
}
