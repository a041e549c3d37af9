//! What a store promises, held against the one in memory.

use admission_testkit::{Mood, Moody, shared};
use tower_admission::store::{MemoryStore, contract};

#[tokio::test]
async fn the_store_in_memory_keeps_what_a_store_promises() {
    contract::check(async || shared(MemoryStore::new())).await.unwrap();
}

#[tokio::test]
async fn control_a_broken_promise_is_found() {
    for (mood, promise) in [
        (Mood::Careless, "a lock is held by one, and freed by its holder alone"),
        (Mood::RenewsOnce, "what is renewed stays"),
    ] {
        let store = async || {
            let store = Moody::new();
            store.is(mood);
            shared(store)
        };
        assert_eq!(contract::check(store).await.unwrap_err().promise, promise);
    }
}
