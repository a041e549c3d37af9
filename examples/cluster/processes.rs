//! The processes that are started, and ended again, at the latest when dropped.

use std::{net::TcpListener, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

use crate::BoxError;

/// A Redis that keeps nothing on disk.
pub(crate) struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("redis-server can't be started ({error}): apt-get install redis-server"))?;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Some(status) = child.try_wait()? {
                return Err(format!("redis-server ended: {status}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Self { child, port })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) async fn end(mut self) -> std::io::Result<()> {
        self.child.kill().await
    }
}

/// This program once more, as a server.
pub(crate) struct Instance {
    child: Child,
    port: u16,
}

impl Instance {
    pub(crate) async fn start(redis: u16, witness: u16, shared: bool) -> Result<Self, BoxError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["instance", &redis.to_string(), &witness.to_string(), if shared { "shared" } else { "alone" }])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("an instance has no output")?;
        let line = BufReader::new(output).lines().next_line().await?.ok_or("an instance ended at once")?;
        Ok(Self { child, port: line.parse()? })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) async fn end(mut self) -> std::io::Result<()> {
        self.child.kill().await
    }
}
