//! What a store promises, held against Redis.

use std::time::Duration;

use tower_admission::store::{AllotmentRequest, MemoryStore, Token, contract};

use super::support::{acquire, cap, claims, number, server::Server, shared};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn redis_keeps_what_a_store_promises() {
    let server = Server::start().await;
    contract::check(async || {
        server.ask(&["FLUSHALL"]).await.unwrap();
        shared(server.store())
    })
    .await
    .unwrap();
}

/// How our own stores grow an allotment, which a store is free to do in another way.
#[tokio::test]
async fn allotments_grow_by_half_of_what_is_free() {
    let server = Server::start().await;
    for store in [shared(MemoryStore::new()), shared(server.store())] {
        let ten = claims([cap("ten", 10)]);
        let key = ten.as_slice()[0].key().clone();
        let mut block = AllotmentRequest::new(Token::random().unwrap(), key, number(10), LONG);
        let _lease = acquire(&*store, &ten, LONG).await.unwrap();
        block.want = 10;
        for expected in [4, 6, 7, 8, 9, 9] {
            let units = store.reserve(&block).await.unwrap().units;
            assert_eq!(units, expected, "half of what is free");
            (block.sequence, block.had) = (block.sequence + 1, units);
        }
    }
}
