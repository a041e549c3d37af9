//! A Redis server of one's own.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use redis::aio::MultiplexedConnection;
use tower_admission::store::{AfterRestart, Keys, RedisStore};

/// Killed when dropped.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let server = Self { child, port };
        while server.try_connect().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        use redis::IntoConnectionInfo;
        let info = format!("redis://127.0.0.1:{}/", self.port).into_connection_info()?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        redis::Client::open(info.set_tcp_settings(tcp))?.get_multiplexed_async_connection_with_config(&config).await
    }

    pub async fn connect(&self) -> MultiplexedConnection {
        self.try_connect().await.expect("a connection")
    }

    pub fn keys() -> Keys {
        Keys::new("bench").expect("a prefix")
    }

    /// A store with a connection of its own. Its time limit is long: this is about cost, not about failing.
    pub fn store(&self) -> RedisStore {
        RedisStore::builder(&format!("redis://127.0.0.1:{}/", self.port), Self::keys())
            .timeout(Duration::from_secs(5))
            .after_restart(AfterRestart::Grant)
            .build()
            .expect("an address")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
