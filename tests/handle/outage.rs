//! What the journal says of the store: at once where a request meets it, within a second otherwise.

use std::borrow::Cow;

use admission_testkit::{Mood, Moody, ticket};
use tokio::time::{Instant, sleep};
use tower_admission::{
    Admission, Reason,
    journal::{ChangeEntry, JournalEvent},
};

use super::ms;

/// What became of the store, as the journal tells it, and when that was noted.
fn told(admission: &Admission) -> Vec<(&'static str, &'static str, Option<f64>, f64)> {
    // A handle itself tells no words but its own.
    let word = |it: Cow<'static, str>| match it {
        Cow::Borrowed(word) => word,
        Cow::Owned(word) => panic!("{word} was read somewhere"),
    };
    let changes = admission.journal().into_iter().filter_map(|entry| match entry.event {
        JournalEvent::Change(ChangeEntry::Store { from, to, down_seconds, .. }) => {
            Some((word(from), word(to), down_seconds, entry.at_seconds))
        }
        _ => None,
    });
    changes.collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_meets_an_outage_tells_of_it_and_the_driver_of_its_end() {
    let store = Moody::new();
    let admission = store.handle().build().unwrap();
    drop(admission.admit(ticket()).await.unwrap());
    sleep(ms(10_000)).await;
    assert_eq!(told(&admission), [], "a store that answers is nothing new");

    store.is(Mood::Down(Instant::now()));
    sleep(ms(300)).await;
    let rejection = admission.admit(ticket()).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::StoreUnavailable);
    let [(from, to, None, noted)] = told(&admission)[..] else { panic!("{:?}", told(&admission)) };
    assert_eq!((from, to), ("up", "down"));
    assert!((10.0..10.32).contains(&noted), "it is not the driver that notes it: {noted}");
    for _ in 0..5 {
        admission.admit(ticket()).await.unwrap_err();
    }
    sleep(ms(7_200)).await;
    assert_eq!(told(&admission).len(), 1, "an outage is told once");

    // Nobody asks and nobody looks.
    store.is(Mood::Up);
    sleep(ms(1_010)).await;
    let [_, (from, to, Some(down), noted)] = told(&admission)[..] else { panic!("{:?}", told(&admission)) };
    assert_eq!((from, to), ("down", "up"));
    assert!((7.5..8.51).contains(&down), "from its beginning, not from when it was noted: {down}");
    assert!((17.5..18.52).contains(&noted), "{noted}");
}

#[tokio::test(start_paused = true)]
async fn the_driver_notes_an_outage_that_no_request_meets() {
    let store = Moody::new();
    let admission = store.handle().build().unwrap();
    drop(admission.admit(ticket()).await.unwrap());
    store.is(Mood::Down(Instant::now()));
    sleep(ms(1_010)).await;
    assert_eq!(told(&admission).len(), 1);
    store.is(Mood::Up);
    drop(admission.admit(ticket()).await.unwrap());
    assert_eq!(told(&admission).len(), 2, "a request is let in again, and that is noted at once");
}

#[tokio::test(start_paused = true)]
async fn failures_among_answers_do_not_fill_the_journal() {
    let store = Moody::new();
    let admission = store.handle().build().unwrap();
    drop(admission.admit(ticket()).await.unwrap());
    sleep(ms(500)).await;
    for _ in 0..100 {
        store.is(Mood::Failing);
        admission.admit(ticket()).await.unwrap_err();
        store.is(Mood::Up);
        drop(admission.admit(ticket()).await.unwrap());
    }
    assert_eq!(told(&admission), []);
    store.is(Mood::Failing);
    sleep(ms(3_000)).await;
    store.is(Mood::Up);
    sleep(ms(3_000)).await;
    let told: Vec<_> = told(&admission).into_iter().map(|(from, to, down, _)| (from, to, down)).collect();
    assert_eq!(told, [("up", "failing", None), ("failing", "up", None)], "what lasts is told");
}

#[tokio::test(start_paused = true)]
async fn whoever_looks_at_the_handle_sees_it_noted() {
    let store = Moody::new();
    let admission = store.handle().build().unwrap();
    store.is(Mood::Down(Instant::now()));
    assert_eq!(admission.snapshot().store.unwrap().state, "down");
    assert_eq!(told(&admission).len(), 1);
    store.is(Mood::Up);
    admission.publish_metrics();
    assert_eq!(told(&admission).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handle_without_a_journal_goes_through_the_same() {
    let store = Moody::new();
    let admission = store.handle().journal(0).build().unwrap();
    store.is(Mood::Down(Instant::now()));
    admission.admit(ticket()).await.unwrap_err();
    assert_eq!(admission.journal(), []);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_and_quiet_says_when_grants_begin() {
    let store = Moody::new();
    let admission = store.handle().build().unwrap();
    store.is(Mood::Down(Instant::now()));
    admission.admit(ticket()).await.unwrap_err();
    sleep(ms(3_000)).await;
    assert_eq!(admission.snapshot().health.state, "store_gone");
    store.is(Mood::Quiet(Instant::now() + ms(10_000)));
    sleep(ms(3_000)).await;
    admission.admit(ticket()).await.unwrap_err();
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.health.state, "store_quiet");
    let headline = &snapshot.health.headline;
    assert!(headline.starts_with("store quiet: it is back; grants begin in 7 s, shared rules refuse"), "{headline}");
    let known = snapshot.store.unwrap();
    assert_eq!((&*known.state, known.grants_after_seconds), ("quiet", 7.0));
    sleep(ms(7_000)).await;
    store.is(Mood::Up);
    drop(admission.admit(ticket()).await.unwrap());
    let now = admission.snapshot().health.state;
    assert!(!now.starts_with("store"), "over at once: {now}");
    let told: Vec<_> = told(&admission).into_iter().map(|(from, to, ..)| (from, to)).collect();
    assert_eq!(told, [("up", "down"), ("down", "quiet"), ("quiet", "up")]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_may_throw_caps_away_is_warned_about() {
    let store = Moody::new();
    let admission = store.handle().build().unwrap();
    drop(admission.admit(ticket()).await.unwrap());
    assert_eq!(admission.warnings(), [""; 0]);
    store.is(Mood::Evicting);
    sleep(ms(2_000)).await;
    drop(admission.admit(ticket()).await.unwrap());
    assert_eq!(admission.snapshot().store.unwrap().state, "evicting");
    let [warning] = &admission.warnings()[..] else { panic!("{:?}", admission.warnings()) };
    assert!(warning.contains("maxmemory-policy"), "{warning}");
    let told: Vec<_> = told(&admission).into_iter().map(|(from, to, ..)| (from, to)).collect();
    assert_eq!(told, [("up", "evicting")]);
}
