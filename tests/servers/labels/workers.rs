use std::time::Duration;

use tower_admission::{Admission, Labels, WorkerReport, limit::Fixed};

use super::{request, send, serve};
use crate::support::{Probe, at_rest, bounded, eventually};

fn enforced(enforce: bool) -> Admission {
    let labels = Labels::new().enforce_workers(enforce);
    Admission::builder().limit(Fixed::new(10)).queue(100).labels(labels).build().unwrap()
}

fn report(worker: &str, slots: usize) -> WorkerReport {
    WorkerReport::new("jobs", worker).max_concurrent(slots).valid_for(Duration::from_secs(3_600))
}

/// How many of the label run and wait.
async fn becomes(admission: &Admission, what: &str, in_flight: usize, waiting: usize) {
    eventually(what, || {
        admission.label("", "jobs").is_some_and(|label| (label.in_flight, label.waiting) == (in_flight, waiting))
    })
    .await;
}

/// How many workers are active, and how many slots they have.
fn workers(admission: &Admission) -> (Option<usize>, Option<usize>) {
    let label = admission.label("", "jobs").unwrap();
    (label.active_workers, label.worker_slots)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_of_a_label_follows_what_its_workers_report() {
    let (admission, probe) = (enforced(true), Probe::closed());
    let (server, _) = serve(&admission, &probe).await;
    assert!(admission.report_worker(&report("first", 1)));
    let jobs: Vec<_> = (0..6).map(|_| send(&server, request("/held", &[("x-tenant", "jobs")]))).collect();
    becomes(&admission, "one runs", 1, 5).await;
    // Those who wait are served as the capacity grows, and others don't wait for it.
    assert!(admission.report_worker(&report("second", 2)));
    becomes(&admission, "three run", 3, 3).await;
    assert_eq!(bounded("another label", send(&server, request("/", &[("x-tenant", "other")]))).await.unwrap().0, 200);
    assert!(admission.report_worker(&report("first", 2)));
    becomes(&admission, "four run", 4, 2).await;
    eventually("four handlers run", || probe.running() == 4).await;
    assert_eq!(workers(&admission), (Some(2), Some(4)));
    // A worker that stops takes its slots along, and nobody who runs is stopped.
    admission.remove_worker(&report("second", 2));
    assert_eq!(workers(&admission), (Some(1), Some(2)));
    becomes(&admission, "four still run", 4, 2).await;
    probe.release();
    for job in jobs {
        assert_eq!(bounded("the jobs", job).await.unwrap().0, 200);
    }
    assert_eq!(probe.peak(), 4);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slots_of_a_worker_that_falls_silent_are_gone_until_it_reports_again() {
    let (admission, probe) = (enforced(true), Probe::open());
    let (server, _) = serve(&admission, &probe).await;
    assert!(admission.report_worker(&report("silent", 5).valid_for(Duration::from_millis(100))));
    // Its word ends without anybody who asks.
    eventually("it is silent", || workers(&admission) == (Some(0), Some(0))).await;
    let job = send(&server, request("/", &[("x-tenant", "jobs")]));
    becomes(&admission, "the job waits", 0, 1).await;
    // That somebody is there who has no room is another state.
    assert!(admission.report_worker(&report("full", 0)));
    assert_eq!(workers(&admission), (Some(1), Some(0)));
    becomes(&admission, "the job still waits", 0, 1).await;
    assert!(admission.report_worker(&report("silent", 1)));
    assert_eq!(bounded("the job", job).await.unwrap().0, 200);
    assert_eq!(workers(&admission), (Some(2), Some(1)));
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// The control: unless it is enforced, what workers say is only shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_workers_report_binds_nobody_unless_enforced() {
    let (admission, probe) = (enforced(false), Probe::open());
    let (server, _) = serve(&admission, &probe).await;
    assert!(admission.report_worker(&report("full", 0)));
    assert_eq!(bounded("a job", send(&server, request("/", &[("x-tenant", "jobs")]))).await.unwrap().0, 200);
    assert_eq!(workers(&admission), (Some(1), Some(0)));
    at_rest(&admission, &probe).await;
    server.stop().await;
}
