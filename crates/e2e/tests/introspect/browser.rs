//! A real browser without a window, driven through the DevTools protocol over one WebSocket.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::npm;

const PATIENCE: Duration = Duration::from_secs(20);

/// Chromium with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    process: Child,
    profile: PathBuf,
    outgoing: mpsc::UnboundedSender<Message>,
    shared: Arc<Incoming>,
    session: String,
    reader: JoinHandle<()>,
    last: AtomicU64,
}

/// What the browser said.
#[derive(Debug, Default)]
struct Incoming {
    answers: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    complaints: Mutex<Vec<String>>,
    requests: Mutex<Vec<String>>,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        static PROFILES: AtomicU64 = AtomicU64::new(0);
        let number = PROFILES.fetch_add(1, Ordering::Relaxed);
        let profile = npm::target().join(format!("profile-{}-{number}", std::process::id()));
        let mut process = Command::new("chromium")
            .args([
                "--headless=new",
                "--remote-debugging-port=0",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update", "--mute-audio"])
            .args(["--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("Chromium is needed for this test; .ci/test installs it: {error}"));
        let address = devtools(&mut process);
        let (socket, _) = timeout(PATIENCE, connect_async(address)).await.unwrap().unwrap();
        let (mut sink, mut stream) = socket.split();
        let (outgoing, mut queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Incoming::default());
        let incoming = Arc::clone(&shared);
        let reader = tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(message) = queue.recv() => sink.send(message).await.unwrap(),
                    Some(Ok(message)) = stream.next() => incoming.note(&message),
                    else => break,
                }
            }
        });
        let mut this =
            Self { process, profile, outgoing, shared, session: String::new(), reader, last: AtomicU64::new(0) };
        let target = this.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        this.session = this.call("Target.attachToTarget", attach).await["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            this.call(&format!("{domain}.enable"), json!({})).await;
        }
        this
    }

    /// A call of the protocol, which must succeed.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.shared.answers.lock().unwrap().insert(id, sender);
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.outgoing.send(Message::text(message.to_string())).unwrap();
        let answer = timeout(PATIENCE, answer).await;
        let mut answer = answer.unwrap_or_else(|_| panic!("no answer to {method}")).unwrap();
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    pub(crate) async fn open(&self, url: &str) {
        self.call("Page.navigate", json!({"url": url})).await;
        self.until("document.readyState === 'complete'").await;
    }

    /// The value of an expression in the page, waited for if it is a promise.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params).await;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer:#}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true in the page.
    pub(crate) async fn until(&self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression).await != true {
            assert!(Instant::now() < deadline, "it did not come to pass that {expression}: {:?}", self.complaints());
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A key, pressed and released.
    pub(crate) async fn press(&self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Space" => (32, " "),
            other => panic!("{other} is not among the keys that are known here"),
        };
        let name = if key == "Space" { " " } else { key };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({"type": kind, "key": name, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", params).await;
        }
    }

    /// A click on the place that an expression gives as two numbers.
    pub(crate) async fn click(&self, place: &str) {
        let place = self.value(place).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params).await;
        }
    }

    pub(crate) async fn write(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// The size of the window.
    pub(crate) async fn size(&self, width: u32, height: u32, is_phone: bool) {
        let scale = if is_phone { 2 } else { 1 };
        let params = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", params).await;
    }

    pub(crate) async fn scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// A picture of the page, under `target` or where `PICTURES`, `ADMISSION_PICTURES` or `DRILL` says.
    pub(crate) async fn picture(&self, name: &str) {
        self.write_picture(name, true).await;
    }

    /// A picture of the first screen, in the same place.
    pub(crate) async fn first_screen(&self, name: &str) {
        self.write_picture(name, false).await;
    }

    async fn write_picture(&self, name: &str, is_whole: bool) {
        let answer = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": is_whole})).await;
        let png = BASE64_STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        let folder = ["PICTURES", "ADMISSION_PICTURES", "DRILL"]
            .into_iter()
            .find_map(std::env::var_os)
            .map_or_else(npm::target, PathBuf::from);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }

    /// What the console, the network or a script complained about.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.shared.complaints.lock().unwrap().clone()
    }

    /// Every URL that was asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.reader.abort();
        // It may be gone already, and then there is nothing to clean up.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Its children write for a moment longer.
        for _ in 0..20 {
            if fs::remove_dir_all(&self.profile).is_ok() || !self.profile.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Incoming {
    fn note(&self, message: &Message) {
        let Ok(text) = message.to_text() else { return };
        let Ok(message) = serde_json::from_str::<Value>(text) else { return };
        if let Some(id) = message["id"].as_u64() {
            // Nobody may be waiting any more.
            let _ = self.answers.lock().unwrap().remove(&id).map(|answer| answer.send(message));
            return;
        }
        let params = &message["params"];
        let complaint = match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => true,
            "Runtime.consoleAPICalled" => matches!(params["type"].as_str(), Some("error" | "warning" | "assert")),
            "Log.entryAdded" => matches!(params["entry"]["level"].as_str(), Some("error" | "warning")),
            "Network.requestWillBeSent" => {
                self.requests.lock().unwrap().push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
                false
            }
            _ => false,
        };
        if complaint {
            self.complaints.lock().unwrap().push(params.to_string());
        }
    }
}

/// The address at which a browser that was just started listens, which it writes to its standard error.
fn devtools(process: &mut Child) -> String {
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut said = Vec::new();
    let found = lines.by_ref().find_map(|line| {
        let address = line.strip_prefix("DevTools listening on ").map(str::to_owned);
        said.push(line);
        address
    });
    // Whatever it says later is read as well, or it would wait for that.
    std::thread::spawn(move || lines.for_each(drop));
    found.unwrap_or_else(|| panic!("Chromium did not start: {said:#?}"))
}
