//! A server with an introspection, and the command as a process.

use std::{process::Stdio, time::Duration};

pub(crate) use admission_testkit::bounded;
use axum::Router;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    process::Command,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tower_admission::{
    Admission, Cap, ClassLimits, Clock, Outcome, Permit, Rate, Rules, Ticket, WhenFull, WorkerReport, limit::Fixed,
};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_admission");

/// A server for operators, and who is in the building.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) admission: Admission,
    pub(crate) url: String,
    permits: Vec<Permit>,
    waiters: JoinSet<()>,
    server: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A clock that stands still: no test is to run over the edge of a minute, and what is told twice is told the same.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(600)
    }
}

impl Site {
    pub(crate) async fn start(admission: Admission) -> Self {
        let url = serve(Router::new().fallback_service(admission.introspection()));
        let (url, server) = url.await;
        Self { admission, url, permits: Vec::new(), waiters: JoinSet::new(), server }
    }

    /// A label at its cap with five that wait, one that used up its rate, and a quiet one.
    pub(crate) async fn busy() -> Self {
        let tight = ClassLimits::new()
            .max_in_flight(Cap::from(8).when_full(WhenFull::Queue))
            .max_per_minute(120)
            .budget("downstream-openai", Rate::from(600));
        let rules = Rules::new()
            .class("workflow_tasks", ClassLimits::new())
            .class("query_tasks", ClassLimits::new().fail_fast())
            .override_key("production:payments", "workflow_tasks", tight)
            .override_key("production:*", "workflow_tasks", ClassLimits::new().max_in_flight_per_namespace(300))
            .override_key("production:mail", "workflow_tasks", ClassLimits::new().max_per_minute(3));
        // A driver that is late for its first look would see the trouble and begin a capture of it.
        let builder = Admission::builder().name("shop").limit(Fixed::new(100)).queue(400).capture_last(Duration::ZERO);
        let mut site = Self::start(builder.rules(rules).clock(Still).build().unwrap()).await;
        for worker in ["a", "b", "c"] {
            let report = WorkerReport::new("payments", worker).namespace("production").max_concurrent(8);
            assert!(site.admission.report_worker(&report.class("workflow_tasks")));
        }
        for (label, count) in [("payments", 8), ("mail", 3), ("search", 1)] {
            site.hold(count, &of(label).class("workflow_tasks"));
        }
        site.hold(1, &of("payments").class("query_tasks"));
        for _ in 0..5 {
            let admit = site.admission.admit(of("payments").class("workflow_tasks"));
            site.waiters.spawn(async { drop(admit.await) });
        }
        while site.admission.snapshot().waiting < 5 {
            tokio::task::yield_now().await;
        }
        site
    }

    /// Requests that stay for as long as the site does.
    pub(crate) fn hold(&mut self, count: usize, ticket: &Ticket<'_>) {
        let permits = (0..count).map(|_| self.admission.try_admit(ticket.clone()).unwrap());
        self.permits.extend(permits);
    }

    /// Ends the requests that were held.
    pub(crate) fn let_go(&mut self) {
        self.permits.drain(..).for_each(|permit| permit.finish(Outcome::Success));
    }

    /// Has the callers of so many of the requests that were held leave.
    pub(crate) fn abandon(&mut self, count: usize) {
        self.permits.drain(..count).for_each(|permit| permit.finish(Outcome::Cancelled));
    }

    /// What the server answers.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let response = client.get(format!("{}{path}", self.url).parse().unwrap()).await.unwrap();
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    /// Runs the command against this server.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        run_with(&[("ADMISSION_URL", &self.url)], arguments).await
    }
}

fn of(label: &str) -> Ticket<'_> {
    Ticket::new().namespace("production").label(label)
}

/// A server on loopback.
pub(crate) async fn serve(router: Router) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (url, tokio::spawn(async { axum::serve(listener, router).await.unwrap() }))
}

/// What became of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// What it printed, if it ended with this code.
    pub(crate) fn with(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:#?}");
        if code > 1 {
            assert_eq!(self.out, "", "nothing but the answer is on standard output");
        }
        self.out + &self.err
    }

    pub(crate) fn json(self) -> Value {
        assert_eq!(self.code, 0, "{self:#?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

/// The command, with nothing in its environment that is about it.
pub(crate) fn command(program: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    for variable in ["ADMISSION_TOKEN", "ADMISSION_URL", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

pub(crate) async fn run(arguments: &[&str]) -> Ended {
    run_with(&[], arguments).await
}

pub(crate) async fn run_with(variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let output = bounded("the command", command(BINARY, variables).args(arguments).output()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Serves the introspection of a handle where another server was before, as soon as the address is free.
pub(crate) async fn serve_again(address: &str, admission: &Admission) -> JoinHandle<()> {
    let listener = bounded("the address", async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    });
    let (listener, introspection) = (listener.await, admission.introspection());
    tokio::spawn(async move {
        axum::serve(listener, Router::new().fallback_service(introspection)).await.unwrap();
    })
}
