//! What the log says of the store that counts shared rules.

use std::time::Duration;

use admission_testkit::{Mood, Moody, ticket};
use tokio::time::{Instant, sleep};
use tracing::Level;
use tracing_subscriber::prelude::*;

use super::Kept;

#[tokio::test(start_paused = true)]
async fn an_outage_is_a_warning_and_its_end_is_told() {
    let kept = Kept::default();
    let _listens = tracing_subscriber::registry().with(kept.clone()).set_default();
    let store = Moody::new();
    let admission = store.handle().name("api").build().unwrap();
    drop(admission.admit(ticket()).await.unwrap());
    store.is(Mood::Failing);
    sleep(Duration::from_millis(1_100)).await;
    store.is(Mood::Down(Instant::now()));
    for _ in 0..3 {
        admission.admit(ticket()).await.unwrap_err();
    }
    let (level, event) = kept.event("the store of shared rules is down");
    assert_eq!((level, &*event["from"], &*event["to"], &*event["limiter"]), (Level::WARN, "failing", "down", "api"));
    sleep(Duration::from_secs(4)).await;
    store.is(Mood::Up);
    drop(admission.admit(ticket()).await.unwrap());
    let (level, event) = kept.event("the store of shared rules is back");
    assert_eq!((level, &*event["to"], &*event["down_seconds"]), (Level::INFO, "up", "4.0"));
    assert_eq!(kept.event("the store of shared rules fails").0, Level::DEBUG);
    let events = kept.events.lock().unwrap();
    let told = events.iter().filter(|(_, fields)| fields["message"].starts_with("the store"));
    assert_eq!(told.count(), 3, "each once: {events:#?}");
}
