//! The command in a terminal, which `script` of util-linux makes.

use std::process::Stdio;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout},
};
use tower_admission::{Admission, Ticket, limit::Fixed};

use crate::support::{BINARY, Site, bounded, command};

/// A terminal of 40 lines in which commands of a shell run.
#[derive(Debug)]
struct Terminal {
    process: Child,
    keys: ChildStdin,
    out: ChildStdout,
    /// Everything that came out so far.
    shown: String,
}

impl Terminal {
    fn run(commands: &str, variables: &[(&str, &str)]) -> Self {
        let mut script = command("script", variables);
        script.args(["-qec", &format!("stty rows 40 cols 120; {commands}"), "/dev/null"]);
        let mut process = script.env("TERM", "xterm-256color").stdin(Stdio::piped()).spawn().unwrap();
        let (keys, out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, keys, out, shown: String::new() }
    }

    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        let count = self.out.read(&mut bytes).await.unwrap();
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    async fn until(&mut self, text: &str) {
        let shown = async {
            while !self.shown.contains(text) {
                assert!(self.read().await, "it ended without {text:?}: {:?}", self.shown);
            }
        };
        bounded(text, shown).await;
    }

    async fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).await.unwrap();
        self.keys.flush().await.unwrap();
    }

    /// Everything that came out, once it ended with this code.
    async fn ends_with(mut self, code: i32) -> String {
        let ended = async {
            while self.read().await {}
            self.process.wait().await.unwrap()
        };
        let status = bounded("the terminal", ended).await;
        assert_eq!(status.code(), Some(code), "{:?}", self.shown);
        self.shown
    }
}

/// Whether `stty -a`, at the end of what was shown, says that lines are read and echoed as usual.
fn is_as_usual(shown: &str) -> bool {
    let (_, settings) = shown.rsplit_once("settings:").unwrap();
    let has = |word: &str| settings.split_whitespace().any(|it| it.trim_end_matches(';') == word);
    has("icanon") && has("echo") && has("isig")
}

async fn watched(keys: &[u8], variables: &[(&str, &str)]) -> String {
    let site = Site::busy().await;
    let watch = format!("{BINARY} watch --interval 100ms; echo code $?; echo settings:; stty -a");
    let mut terminal = Terminal::run(&watch, &[&[("ADMISSION_URL", site.url.as_str())], variables].concat());
    for text in [
        "shop",
        "Now: nothing, if the waits are short",
        "in flight  13",
        "waiting    5 of 400",
        "production:payments",
        "max_in_flight 8/8: waits",
    ] {
        terminal.until(text).await;
    }
    terminal.press(keys).await;
    terminal.ends_with(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_screen_is_shown_and_the_terminal_is_given_back() {
    for keys in [&b"q"[..], b"\x03"] {
        let shown = watched(keys, &[]).await;
        assert!(shown.contains("code 0"), "{shown:?}");
        for (enter, leave) in [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h"), ("\x1b[?7l", "\x1b[?7h")] {
            let entered = shown.find(enter).unwrap();
            assert!(shown.rfind(leave).unwrap() > entered, "{leave:?}");
        }
        assert!(is_as_usual(&shown), "{shown:?}");
        assert!(shown.contains("\x1b[33m"), "what is throttled is yellow");
    }
    let raw = Terminal::run("stty raw -echo; echo settings:; stty -a", &[]).ends_with(0).await;
    assert!(!is_as_usual(&raw), "one that was not given back is told from one that was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_gives_the_terminal_back_as_well() {
    let site = Site::busy().await;
    let watch = format!("exec {BINARY} watch --url {}", site.url);
    let commands = format!("sh -c 'echo process $$ ; {watch}'; echo code $?; echo settings:; stty -a");
    let mut terminal = Terminal::run(&commands, &[]);
    terminal.until("q quits").await;
    let mut words = terminal.shown.split_whitespace().skip_while(|word| *word != "process").skip(1);
    let process = words.next().unwrap().to_owned();
    assert!(command("kill", &[]).args(["-TERM", &process]).status().await.unwrap().success());
    let shown = terminal.ends_with(0).await;
    assert!(shown.contains("code 0") && shown.contains("\x1b[?1049l") && is_as_usual(&shown), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_color_is_honoured() {
    let is_coloured =
        |shown: &str| ["\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"].iter().any(|it| shown.contains(it));
    assert!(!is_coloured(&watched(b"q", &[("NO_COLOR", "1")]).await));
    assert!(is_coloured(&watched(b"q", &[("NO_COLOR", "")]).await), "an empty one is none");
    let site = Site::busy().await;
    let list = format!("{BINARY} list --url {}", site.url);
    assert!(is_coloured(&Terminal::run(&list, &[]).ends_with(0).await));
    assert!(!is_coloured(&Terminal::run(&list, &[("NO_COLOR", "1")]).ends_with(0).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_is_shown_as_it_happens() {
    let admission = Admission::builder().limit(Fixed::new(2)).wait_timeout(std::time::Duration::ZERO).build().unwrap();
    let mut site = Site::start(admission).await;
    site.hold(2, &Ticket::new());
    let mut terminal = Terminal::run(&format!("{BINARY} watch --interval 100ms --url {}", site.url), &[]);
    terminal.until("q quits").await;
    terminal.until("rejected   0.0/s").await;
    for _ in 0..50 {
        site.admission.try_admit(Ticket::new()).unwrap_err();
    }
    // The colour comes in between.
    terminal.until("mlimit ").await;
    site.admission.drain(tower_admission::DrainMode::RejectWaiting);
    terminal.until("draining").await;
    drop(site);
    terminal.until("no server listens there").await;
    terminal.press(b"q").await;
    terminal.ends_with(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_place_is_told_without_a_screen() {
    let shown = Terminal::run(&format!("{BINARY} watch --url http://127.0.0.1:1"), &[]).ends_with(3).await;
    assert!(shown.contains("no server listens there") && !shown.contains("\x1b[?1049h"), "{shown:?}");
}
