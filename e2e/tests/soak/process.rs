//! The server as the harness sees it: a process that takes orders, and what the system says of it.

use std::{fs, net::SocketAddr, process::Stdio};

use ::redis::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{bounded, figures::AtRest, redis::Server as Redis, server};

/// A server that this test started; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    pub(crate) web: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

impl Process {
    pub(crate) async fn start(redis: &str, mistake: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server::server", "--nocapture"])
            .env(server::ROLE, format!("{redis} {mistake}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let nowhere = SocketAddr::from(([0; 4], 0));
        let mut this = Self { child, orders, said, web: nowhere, grpc: nowhere };
        let addresses = this.says().await;
        let (web, grpc) = addresses.split_once(' ').unwrap();
        (this.web, this.grpc) = (web.parse().unwrap(), grpc.parse().unwrap());
        this
    }

    /// The next thing that the server says.
    async fn says(&mut self) -> String {
        let said = async {
            while let Some(line) = self.said.next_line().await.unwrap() {
                if let Some((_, said)) = line.split_once(server::SAYS) {
                    return said.to_owned();
                }
            }
            panic!("the server ended");
        };
        bounded("an answer of the server", said).await
    }

    /// Gives an order, and waits until it is carried out.
    pub(crate) async fn order(&mut self, order: &str) -> String {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
        self.says().await
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id().unwrap())
    }

    /// Bytes of memory that belong to no file.
    pub(crate) fn memory(&self) -> f64 {
        let status = fs::read_to_string(self.proc("status")).unwrap();
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        1_024.0 * kibibytes.trim().trim_end_matches(" kB").parse::<f64>().unwrap()
    }

    pub(crate) async fn at_rest(&mut self, redis: &Redis) -> AtRest {
        let told = self.order("tell").await;
        let told: Vec<u64> = told.split(' ').map(|number| number.parse().unwrap()).collect();
        let [slots, waiters, handlers, unended, tasks, labels, admitted, granted] = told[..] else {
            panic!("{told:?}")
        };
        let descriptors = fs::read_dir(self.proc("fd")).unwrap().count() as u64;
        // Rates that were charged keep their keys until the minute is over, as they should; leases have no reason to.
        let keys = match redis.ask(&["KEYS", "soak:*:cap:*"]).await.unwrap() {
            Value::Array(keys) => keys.len() as u64,
            other => panic!("{other:?}"),
        };
        let memory = self.memory();
        AtRest { slots, waiters, handlers, unended, tasks, descriptors, keys, labels, admitted, granted, memory }
    }

    /// Waits until it ended by itself.
    pub(crate) async fn ends_well(mut self) {
        drop(self.orders);
        let status = bounded("the process", self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
    }
}
