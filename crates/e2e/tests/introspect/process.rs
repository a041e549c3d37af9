//! A server in a process of its own, which may be frozen or killed.

use admission_testkit::process::{Process, say};
use tokio::io::{AsyncBufReadExt, BufReader};
use tower_admission::{Admission, Labels, limit::Fixed};

use super::support::Site;

/// What tells this test binary to be a server.
const ROLE: &str = "TOWER_ADMISSION_PAGE_SERVER";

/// Not a test: the server, where the environment says so. It ends with its input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(name) = std::env::var(ROLE) else { return };
    let admission = Admission::builder().name(name).limit(Fixed::new(20)).labels(Labels::new()).build().unwrap();
    let site = Site::start(&admission).await;
    say(&format!("listens on {} {}", site.admin, site.app));
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(_)) = input.next_line().await {}
}

/// A server that this test started.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// Where it answers operators, and callers.
    pub(crate) url: String,
    pub(crate) app: String,
}

impl Server {
    pub(crate) async fn start(name: &str) -> Self {
        let mut process = Process::start("introspect::process::server", ROLE, name);
        let said = process.says("listens on").await;
        let (url, app) = said.split_once(' ').unwrap();
        let (url, app) = (url.to_owned(), app.to_owned());
        Self { process, url, app }
    }
}
