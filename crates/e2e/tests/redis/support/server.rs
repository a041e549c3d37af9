//! A Redis server of one's own.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use redis::Value;
use tower_admission::store::{AfterRestart, Claim, RedisBuilder, RedisStore};

use super::{PATIENCE, bounded, keys, ms};

/// A server on a free port of the loopback device, which keeps nothing on disk. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
    args: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with_args(&[]).await
    }

    pub(crate) async fn with_args(args: &[&str]) -> Self {
        Self::with(args, Vec::new()).await
    }

    pub(crate) async fn with(args: &[&str], environment: Vec<(&'static str, PathBuf)>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-{}-{number}", std::process::id()));
        let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
        // Another process may take the port between its choice and its use, or that of the bus of a cluster.
        for _ in 0..5 {
            let port = free_port();
            // A server that did not come up has taken its folder with it.
            fs::create_dir_all(&folder).unwrap();
            let child = spawn(port, &folder, &args, &environment);
            let (folder, args, environment) = (folder.clone(), args.clone(), environment.clone());
            let mut server = Self { child, port, folder, args, environment };
            if server.is_up().await {
                return server;
            }
        }
        panic!("redis-server does not come up");
    }

    /// Whether it answers before it ends.
    async fn is_up(&mut self) -> bool {
        bounded("redis-server starts", async {
            loop {
                if self.child.try_wait().unwrap().is_some() {
                    return false;
                }
                if self.ask(&["PING"]).await.is_ok() {
                    return true;
                }
                tokio::time::sleep(ms(5)).await;
            }
        })
        .await
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Where it would keep its data.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// A store in it that grants from the first moment on.
    pub(crate) fn store(&self) -> RedisStore {
        self.builder().after_restart(AfterRestart::Grant).build().unwrap()
    }

    /// With a time limit that a busy machine keeps, for tests that are not about it.
    pub(crate) fn builder(&self) -> RedisBuilder {
        RedisStore::builder(&self.url(), keys()).timeout(Duration::from_secs(5))
    }

    /// Sends one command over a connection of its own.
    pub(crate) async fn ask(&self, words: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url())?;
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await
    }

    /// The same, for an answer that has to come.
    pub(crate) async fn read<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        redis::from_redis_value(self.ask(words).await.unwrap()).unwrap()
    }

    /// The seconds of its clock.
    pub(crate) async fn seconds(&self) -> u64 {
        let time: Vec<String> = self.read(&["TIME"]).await;
        time[0].parse().unwrap()
    }

    /// How many hold some of a cap.
    pub(crate) async fn holders(&self, cap: &Claim) -> u64 {
        self.read(&["ZCOUNT", cap.key().as_str(), "0", "+inf"]).await
    }

    /// How many commands it was sent so far.
    pub(crate) async fn commands(&self, name: &str) -> u64 {
        let text: String = self.read(&["INFO", "commandstats"]).await;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }

    /// As if the quiet time after its start were long over.
    pub(crate) async fn end_quiet(&self, prefix: &str) {
        let mark = "return redis.call('SET', KEYS[1], '1 ' .. redis.call('INFO', 'server'):match('run_id:(%x+)'))";
        self.ask(&["EVAL", mark, "1", &format!("{prefix}:mark")]).await.unwrap();
    }

    pub(crate) fn stop(&self) {
        signal(&self.child, "-STOP");
    }

    pub(crate) fn go_on(&self) {
        signal(&self.child, "-CONT");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it and starts it again on the same port, without its data.
    pub(crate) async fn restart_empty(&mut self) {
        let _ = fs::remove_file(self.folder.join("dump.rdb"));
        self.restart().await;
    }

    /// Kills it and starts it again on the same port, with what it last wrote down when told to `SAVE`.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        for _ in 0..100 {
            self.child = spawn(self.port, &self.folder, &self.args, &self.environment);
            if self.is_up().await {
                return;
            }
        }
        panic!("redis-server does not come up again");
    }
}

fn spawn(port: u16, folder: &PathBuf, args: &[String], environment: &[(&'static str, PathBuf)]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(folder)
        .args(args)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("these tests need redis-server: run .ci/test, or apt-get install -y redis-server")
}

/// Sends a signal to a process that this test started.
pub(crate) fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success(), "{signal}");
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped process can be killed as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
