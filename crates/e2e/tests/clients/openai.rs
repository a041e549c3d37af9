//! The client library of OpenAI for Python: it waits for as long as `retry-after-ms` says, and else `Retry-After`.

use super::{
    http::{Refusing, seconds},
    python::run,
};

const PACKAGES: [&str; 1] = ["openai==3.57.0"];

/// A call that takes the start that is free, and at once one that is refused first. Prints the answers, and for how long the
/// library says that it waits.
const CALL: &str = r#"
import json, logging, re, sys, openai
waits = []
class Notes(logging.Handler):
    def emit(self, record):
        found = re.search("Retrying request.* in ([0-9.]+) seconds", record.getMessage())
        if found: waits.append(float(found.group(1)))
logger = logging.getLogger("openai")
logger.setLevel(logging.INFO)
logger.addHandler(Notes())
client = openai.OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key="none", max_retries=3, timeout=9)
ask = lambda: client.chat.completions.create(model="small", messages=[dict(role="user", content="hello")])
answers = [ask().choices[0].message.content for _ in range(2)]
print(json.dumps(dict(answers=answers, waits=waits)))
"#;

/// Asks a server whose answers come without these headers. The first wait is between the two bounds, in seconds.
async fn waits(without: &'static [&'static str], least: f64, most: f64) {
    let server = Refusing::start(40, without).await;
    let told = run(&PACKAGES, CALL, [server.address.to_string()]).await;
    assert_eq!(told["answers"], serde_json::json!(["served", "served"]));
    let waits: Vec<f64> = told["waits"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    assert!((least..=most).contains(&waits[0]), "{without:?}: {told}");
    let came = server.came();
    assert_eq!(came.len(), 2 + waits.len());
    assert!(came[2] - came[1] >= seconds(waits[0]), "{told}");
    let was_told = without.len() < 2;
    assert_eq!(waits.len() == 1, was_told, "told when to come, it is served then: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_as_long_as_it_is_told() {
    // A start each 1.5 s. Between the two calls some of that passes. By itself the library waits for 0.5 s at most.
    tokio::join!(
        waits(&[], 0.6, 1.6),
        waits(&["retry-after-ms"], 1.0, 2.0),
        waits(&["retry-after-ms", "retry-after"], 0.3, 0.5),
    );
}
