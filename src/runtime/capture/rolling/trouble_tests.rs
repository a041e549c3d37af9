//! Captures that are made unasked: when they begin, and when they end.

use std::time::Duration;

use tokio::time::sleep;

use super::RollingCapture;
use crate::{Admission, Outcome, Ticket, limit::Fixed, runtime::CaptureStatus};

const SECOND: Duration = Duration::from_secs(1);

fn handle(last: Option<Duration>) -> Admission {
    let builder = Admission::builder().limit(Fixed::new(2)).shed();
    last.into_iter().fold(builder, |builder, last| builder.capture_last(last)).build().unwrap()
}

/// Four requests at a time, ten times a second: two of them are refused.
async fn flood(admission: &Admission, seconds: u64) {
    for _ in 0..seconds * 10 {
        let permits = [0; 4].map(|_| admission.try_admit(Ticket::new().label("noisy")));
        permits.into_iter().flatten().for_each(|permit| permit.finish(Outcome::Success));
        sleep(SECOND / 10).await;
    }
}

async fn calm(admission: &Admission, seconds: u64) {
    for _ in 0..seconds * 10 {
        admission.try_admit(Ticket::new().label("calm")).unwrap().finish(Outcome::Success);
        sleep(SECOND / 10).await;
    }
}

fn state(admission: &Admission) -> CaptureStatus {
    admission.rolling_capture().expect("a capture")
}

fn is_running(admission: &Admission) -> bool {
    admission.rolling_capture().is_some_and(|it| it.running)
}

fn text(admission: &Admission) -> String {
    let lines = admission.captured(Duration::MAX).into_iter().flatten().flatten();
    String::from_utf8(lines.collect()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_minute_of_trouble_is_recorded_and_a_calm_handle_is_not() {
    let admission = handle(None);
    calm(&admission, 30).await;
    assert!(admission.rolling_capture().is_none(), "a handle that is fine records nothing");
    flood(&admission, 3).await;
    assert!(is_running(&admission));
    flood(&admission, 70).await;
    assert!(!is_running(&admission), "a minute is enough");
    let (least, most) = (55.0, 61.0);
    // A thread takes the rows, in a time of its own.
    for _ in 0..5_000 {
        if state(&admission).span_seconds >= least {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((least..most).contains(&state(&admission).span_seconds), "{:?}", state(&admission));
    assert!(text(&admission).contains("noisy"));
    // It is what there is to look at, until ten minutes have passed and the handle was fine in between.
    calm(&admission, 60).await;
    flood(&admission, 20).await;
    assert!(!is_running(&admission), "trouble after a minute is not news");
    assert!(!text(&admission).contains("calm"));
    calm(&admission, 600).await;
    flood(&admission, 5).await;
    assert!(is_running(&admission), "trouble after ten minutes is");
    calm(&admission, 30).await;
    assert!(!is_running(&admission), "it ends with the trouble");
}

#[tokio::test(start_paused = true)]
async fn trouble_that_gets_worse_is_recorded_anew() {
    let admission = handle(None);
    let held = [0; 2].map(|_| admission.try_admit(Ticket::new()).unwrap());
    sleep(SECOND * 80).await;
    assert!(!state(&admission).running, "busy for a minute");
    drop(held);
    flood(&admission, 3).await;
    assert!(is_running(&admission), "overloaded is worse than busy");
}

#[tokio::test(start_paused = true)]
async fn captures_that_are_asked_for_come_first() {
    let admission = handle(None);
    flood(&admission, 3).await;
    let last = Duration::from_secs(7);
    RollingCapture::new().last(last).start(&admission).unwrap();
    assert_eq!(Duration::from_secs_f64(state(&admission).last_seconds), last);
    flood(&admission, 90).await;
    assert!(is_running(&admission), "it was not stopped");
    assert!(admission.stop_rolling_capture());
    calm(&admission, 700).await;
    flood(&admission, 20).await;
    assert!(!is_running(&admission), "what was recorded can be fetched until another is asked for");

    let none = handle(Some(Duration::ZERO));
    flood(&none, 20).await;
    assert!(none.rolling_capture().is_none());
    let always = handle(Some(last));
    calm(&always, 90).await;
    assert!(is_running(&always));
    let reload = |last| Admission::builder().limit(Fixed::new(2)).shed().capture_last(last);
    always.reload(reload(Duration::ZERO)).unwrap();
    assert!(!is_running(&always));
    flood(&always, 20).await;
    assert!(!is_running(&always));
    always.reload(Admission::builder().limit(Fixed::new(2)).shed()).unwrap();
    flood(&always, 3).await;
    assert!(is_running(&always), "settings that say nothing of captures");
}

#[tokio::test(start_paused = true)]
async fn of_a_flood_the_first_rows_are_enough() {
    let admission = handle(None);
    let _held = [0; 2].map(|_| admission.try_admit(Ticket::new()).unwrap());
    sleep(SECOND * 15).await;
    assert!(is_running(&admission));
    for _ in 0..20 {
        // Slower than rows are taken, so that none is missed.
        (0..10_000).for_each(|_| assert!(admission.try_admit(Ticket::new().label("flood")).is_err()));
        while is_running(&admission) && state(&admission).rows < 10_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        sleep(SECOND).await;
    }
    assert!(!is_running(&admission), "{:?}", state(&admission));
    assert!(state(&admission).rows + state(&admission).missed <= 150_000, "{:?}", state(&admission));
}
