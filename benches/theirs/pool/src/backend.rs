//! A Redis of our own, for one run.

use std::{net::TcpListener, process::Stdio, time::Duration};

use bb8_redis::redis::{Client, Pipeline, RedisError, Script, aio::MultiplexedConnection, cmd};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

/// Members of each of the two sets that a request compares.
const MEMBERS: u32 = 1_000;
/// A request, as Redis sees it: counts common members so many times, and notes that the work was done.
const WORK: &str = "local common
                    for _ = 1, tonumber(ARGV[1]) do
                        common = redis.call('ZINTERCARD', 2, 'red', 'green')
                    end
                    redis.call('INCR', 'done')
                    return common";

/// A process of Redis, which ends with this.
#[derive(Debug)]
pub struct Redis {
    process: Child,
    /// Where it listens, on this machine.
    pub port: u16,
    connection: MultiplexedConnection,
}

impl Redis {
    /// Starts it, and fills it with what requests compare.
    pub async fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let process = command.stdout(Stdio::null()).kill_on_drop(true).spawn().expect("redis-server is installed");
        let mut connection = connect(port).await;
        fill(&mut connection).await.expect("Redis takes the sets");
        Self { process, port, connection }
    }

    /// How many requests it has worked at to the end, for callers that waited and for others.
    pub async fn done(&mut self) -> u64 {
        let done: Option<u64> = cmd("GET").arg("done").query_async(&mut self.connection).await.expect("Redis counts");
        done.unwrap_or_default()
    }

    /// How many times a request counts members, so that it takes Redis as long as this. Measured with a Redis of its own.
    pub async fn times(takes: Duration) -> u32 {
        const TRIES: u32 = 50;
        const TIMES: u32 = 20;
        let (mut redis, mut shortest) = (Self::start().await, Duration::MAX);
        for _ in 0..TRIES {
            let begin = Instant::now();
            let common: u64 = work().arg(TIMES).invoke_async(&mut redis.connection).await.expect("Redis counts");
            assert!(common > 0, "the sets have members in common");
            shortest = shortest.min(begin.elapsed());
        }
        redis.stop().await;
        let times = takes.as_micros() * u128::from(TIMES) / shortest.as_micros().max(1);
        u32::try_from(times).unwrap_or(u32::MAX).max(1)
    }

    /// Ends it.
    pub async fn stop(mut self) {
        self.process.kill().await.expect("it ends");
    }
}

/// The script of a request.
#[must_use]
pub fn work() -> Script {
    Script::new(WORK)
}

/// Connects as soon as it listens.
async fn connect(port: u16) -> MultiplexedConnection {
    let client = Client::open(("127.0.0.1", port)).expect("an address");
    let begin = Instant::now();
    loop {
        match client.get_multiplexed_async_connection().await {
            Ok(connection) => return connection,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(10), "Redis does not listen: {error}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

async fn fill(connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
    let mut pipeline = Pipeline::new();
    for (name, step) in [("red", 2), ("green", 3)] {
        let add = pipeline.cmd("ZADD").arg(name);
        for member in 0..MEMBERS {
            add.arg(member).arg(format!("member-{}", member * step));
        }
        add.ignore();
    }
    pipeline.query_async(connection).await
}
