//! Servers with a runtime for each core: a core that is blocked keeps no wait on another one from ending.

use std::{
    net::SocketAddr,
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use axum::{Router, routing::get};
use tokio::{runtime::Builder, sync::oneshot, time::timeout};
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use crate::support::{Server, Version, eventually, get_once, is_idle};

/// A core: a thread that serves on a runtime of its own until it is stopped.
struct Core {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Core {
    fn start(app: Router) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let server = Server::axum(app).await;
                tell.send(server.address).unwrap();
                let _ = stopped.await;
                server.stop().await;
            });
        });
        Self { address: told.recv().unwrap(), stop, thread }
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_that_is_blocked_keeps_no_wait_on_another_core_from_ending() {
    let builder = Admission::builder().limit(Fixed::new(1)).queue(100).max_wait(Duration::from_millis(20));
    let admission = builder.build().unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(Mutex::new(blocked));
    let block = get(async move || {
        // A handler that blocks its core. Bounded, should the test fail.
        let _ = blocked.lock().unwrap().recv_timeout(Duration::from_secs(20));
        "done"
    });
    let app = Router::new().route("/block", block).route("/", get(async || "served"));
    let app = app.layer(AdmissionLayer::new(&admission));
    let cores = [0; 3].map(|_| Core::start(app.clone()));

    // The first core serves first, so its driver leads.
    assert_eq!(get_once(cores[0].address, Version::H1, "/".to_owned()).await, 200);
    let holds = tokio::spawn(get_once(cores[0].address, Version::H1, "/block".to_owned()));
    eventually("the first core is blocked", || admission.snapshot().in_flight == 1).await;
    for core in cores[1..].iter().chain(&cores[1..]) {
        let wait = tokio::spawn(get_once(core.address, Version::H1, "/".to_owned()));
        let Ok(status) = timeout(Duration::from_secs(5), wait).await else {
            panic!("a wait of 20 ms has not ended after 5 s")
        };
        assert_eq!(status.unwrap(), 503);
    }
    // Many at once, over both.
    let waits: Vec<_> = (0..40)
        .map(|number| tokio::spawn(get_once(cores[1 + number % 2].address, Version::H1, "/".to_owned())))
        .collect();
    for wait in waits {
        assert_eq!(timeout(Duration::from_secs(5), wait).await.expect("it ends").unwrap(), 503);
    }
    release.send(()).unwrap();
    assert_eq!(holds.await.unwrap(), 200);
    // The first core is back at work, and its waits end as well.
    assert_eq!(get_once(cores[0].address, Version::H1, "/".to_owned()).await, 200);
    eventually("all is given back", || is_idle(&admission.snapshot())).await;
    tokio::task::spawn_blocking(|| cores.into_iter().for_each(Core::stop)).await.unwrap();
}
