//! The server as the harness sees it: a process that takes orders, and what the system says of it.

use std::{fs, net::SocketAddr};

use ::redis::Value;
use admission_testkit::process::Process;

use super::{figures::AtRest, redis::Server as Redis, server};

/// A server that this test started.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    pub(crate) web: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

impl Server {
    pub(crate) async fn start(redis: &str, mistake: &str) -> Self {
        let mut process = Process::start("soak::server::server", server::ROLE, &format!("{redis} {mistake}"));
        let addresses = process.says("").await;
        let (web, grpc) = addresses.split_once(' ').unwrap();
        let (web, grpc) = (web.parse().unwrap(), grpc.parse().unwrap());
        Self { process, web, grpc }
    }

    /// Gives an order, and waits until it is carried out.
    pub(crate) async fn order(&mut self, order: &str) -> String {
        self.process.order(order).await
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.process.id())
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

    pub(crate) async fn ends_well(self) {
        self.process.ends_well().await;
    }
}
