//! A server in a process of its own, which may be frozen or killed.

use std::{env, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};
use tower_admission::{Admission, Labels, limit::Fixed};

use crate::support::Site;

/// What tells this test binary to be a server.
const ROLE: &str = "TOWER_ADMISSION_PAGE_SERVER";
const SAYS: &str = "server listens on ";

/// Not a test: the server, where the environment says so. It ends with its input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(name) = env::var(ROLE) else { return };
    let admission = Admission::builder().name(name).limit(Fixed::new(20)).labels(Labels::new()).build().unwrap();
    let site = Site::start(&admission).await;
    println!("{SAYS}{} {}", site.admin, site.app);
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(_)) = input.next_line().await {}
}

/// A server that this test started; killed when dropped, frozen or not.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// Where it answers operators, and callers.
    pub(crate) url: String,
    pub(crate) app: String,
}

impl Server {
    pub(crate) async fn start(name: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "process::server", "--nocapture"])
            .env(ROLE, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (url, app) = loop {
            let line = lines.next_line().await.unwrap().expect("it ended before it said where it listens");
            if let Some((url, app)) = line.split_once(SAYS).and_then(|(_, said)| said.trim().split_once(' ')) {
                break (url.to_owned(), app.to_owned());
            }
        };
        Self { child, url, app }
    }

    pub(crate) async fn signal(&self, signal: &str) {
        let process = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().await.unwrap().success());
    }
}
