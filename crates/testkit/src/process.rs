//! A server in a process of its own: a test binary starts itself again, and tells itself by a variable what to be.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::bounded;

/// What a server says begins with this, for the harness of tests says something too.
const SAYS: &str = "server says ";

/// A server that a test started. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts the test `test` of this binary, with the variable `role` set to `told`.
    #[must_use]
    pub fn start(test: &str, role: &str, told: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(role, told)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, orders, said }
    }

    /// Waits until the server says something that begins with `what`, and answers the rest of it.
    pub async fn says(&mut self, what: &str) -> String {
        let said = async {
            while let Some(line) = self.said.next_line().await.unwrap() {
                let rest = line.split_once(SAYS).and_then(|(_, said)| said.strip_prefix(what));
                if let Some(rest) = rest {
                    return rest.trim().to_owned();
                }
            }
            panic!("it ended before it said {what:?}");
        };
        bounded("what the server says", said).await
    }

    /// Gives an order.
    pub async fn send(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }

    /// Gives an order, and waits for the next thing that the server says.
    pub async fn order(&mut self, order: &str) -> String {
        self.send(order).await;
        self.says("").await
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Sends it a signal, such as `-TERM`.
    pub async fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.id().to_string()]).status().await;
        assert!(status.unwrap().success());
    }

    /// Waits until it ended by itself. It hears that there are no more orders.
    pub async fn ends_well(self) {
        let Self { mut child, orders, said } = self;
        // A thread of the server that waits for orders can't be told to end.
        drop(orders);
        let status = bounded("the process", child.wait()).await.unwrap();
        drop(said);
        assert!(status.success(), "{status}");
    }

    /// Kills it, frozen or not, and waits for its end.
    pub async fn kill(&mut self) {
        bounded("the process", self.child.kill()).await.unwrap();
    }
}

/// Says something to the test that started this process.
pub fn say(what: &str) {
    println!("{SAYS}{what}");
}
