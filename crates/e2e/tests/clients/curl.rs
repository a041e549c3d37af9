//! `curl --retry`: it waits for as long as `Retry-After` says.

use std::process::Command;

use super::http::{Refusing, seconds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_after_the_time_that_it_was_told() {
    // A start each 1.5 s, which is told as 2 s. By itself it waits for 1 s, and for 2 s then.
    for (without, waits) in [(&[][..], &[2.0][..]), (&["retry-after"], &[1.0, 2.0])] {
        let server = Refusing::start(40, without).await;
        let address = server.address;
        let output = tokio::task::spawn_blocking(move || {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--max-time", "9", "--retry", "3", "--write-out", "%{http_code}\n"]);
            // The first takes the start that is free.
            curl.args(["first", "second"].map(|path| format!("http://{address}/{path}"))).output()
        });
        let output = output.await.unwrap().unwrap_or_else(|error| panic!("curl is needed for this test: {error}"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.ends_with("served200\n"), "{text}");
        let came = server.came();
        assert_eq!(came.len(), 2 + waits.len(), "{came:?}");
        for (gap, wait) in came[1..].windows(2).zip(waits) {
            let waited = gap[1] - gap[0];
            assert!(waited >= seconds(*wait) && waited < seconds(wait + 0.9), "{without:?}: {waited:?}");
        }
        assert_eq!(server.admission.snapshot().rejected(), waits.len() as u64);
    }
}
