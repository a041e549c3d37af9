//! reqwest with the retries of `reqwest-retry`: it comes back, and does not read when to.

use std::time::Duration;

use reqwest_middleware::ClientBuilder;
use reqwest_retry::{Jitter, RetryTransientMiddleware, policies::ExponentialBackoff};

use super::http::{Refusing, seconds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_at_its_own_pace_whatever_it_is_told() {
    // A start each 10 s, and retries each 0.2 s. Where the pace is the server's, the first of them is served.
    for (per_minute, pace, expected, least) in [(6, 0.2, 429, 0.2), (40, 1.6, 200, 1.6)] {
        let server = Refusing::start(per_minute, &[]).await;
        let policy = ExponentialBackoff::builder()
            .retry_bounds(seconds(pace), seconds(pace))
            .jitter(Jitter::None)
            .build_with_max_retries(3);
        let client =
            ClientBuilder::new(reqwest::Client::new()).with(RetryTransientMiddleware::new_with_policy(policy)).build();
        let get = async || client.get(format!("http://{}/any", server.address)).send().await.unwrap();
        assert_eq!(get().await.status(), 200, "it takes the start that is free");
        let answer = get().await;
        assert_eq!(answer.status(), expected);
        let came = server.came();
        if expected == 429 {
            let told: u64 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!(told > 5, "{told}: far more than it waited");
            assert_eq!(came.len(), 5, "three retries in vain");
            assert!(came[4] - came[1] < Duration::from_secs(5));
        } else {
            assert_eq!(came.len(), 3);
        }
        assert!(came[2] - came[1] >= seconds(least));
    }
}
