//! One multiplexed connection to a server or a cluster: made when needed, dropped when broken.

use std::{fmt, time::Duration};

use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, PushInfo, PushKind, RedisError, ServerErrorKind, Value};
use tokio::sync::broadcast;

use crate::store::{Notice, StoreError};

/// Where the connections lead. Never shown: addresses may hold passwords.
#[derive(Clone)]
pub(super) enum Target {
    Server(Box<Client>),
    #[cfg(feature = "redis-cluster")]
    Cluster(Box<redis::cluster::ClusterClient>),
}

/// A connection. Clones share it.
#[derive(Clone)]
pub(super) enum Link {
    Server(redis::aio::MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl Target {
    pub(super) const fn is_cluster(&self) -> bool {
        match self {
            Self::Server(_) => false,
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(_) => true,
        }
    }

    /// A new connection that listens to `channel`. The caller sets the time limit.
    pub(super) async fn connect(
        &self,
        channel: &str,
        timeout: Duration,
        notices: broadcast::Sender<Notice>,
    ) -> Result<Link, RedisError> {
        match self {
            Self::Server(client) => {
                let listener = move |push: PushInfo| {
                    if let Some(notice) = read(&push) {
                        // Nobody listens: then nobody needs to know.
                        let _ = notices.send(notice);
                    }
                    Ok::<_, redis::aio::SendError>(())
                };
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(timeout))
                    // Ours covers the whole call, and what is in the way of it.
                    .set_response_timeout(None)
                    .set_push_sender(listener);
                let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                connection.subscribe(channel).await?;
                Ok(Link::Server(connection))
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client) => client.get_async_connection().await.map(Link::Cluster),
        }
    }
}

impl Link {
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        use redis::aio::ConnectionLike;
        match self {
            Self::Server(connection) => connection.req_packed_command(command).await,
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        }
        .and_then(Value::extract_error)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cluster() { "Cluster" } else { "Server" })
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

/// `freed KEY` or `wanted KEY`.
fn read(push: &PushInfo) -> Option<Notice> {
    if push.kind != PushKind::Message {
        return None;
    }
    let Some(Value::BulkString(text)) = push.data.get(1) else { return None };
    match std::str::from_utf8(text).ok()?.split_once(' ')? {
        ("freed", key) => Some(Notice::Freed(key.into())),
        ("wanted", key) => Some(Notice::Wanted(key.into())),
        _ => None,
    }
}

/// Whether the server doesn't know the script: nothing was done, so it may be sent again.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// What an error of the library means to us, without the text of the server: that may repeat what was sent.
pub(super) fn meaning(error: &RedisError) -> StoreError {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly) => StoreError::ReadOnly,
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::TryAgain,
        )
        | ErrorKind::Io
        | ErrorKind::ClusterConnectionNotFound => StoreError::Unavailable,
        // A script that fails at its first write says so in its own words.
        ErrorKind::Server(ServerErrorKind::ResponseError) if error.to_string().contains("READONLY") => {
            StoreError::ReadOnly
        }
        ErrorKind::AuthenticationFailed => StoreError::Refused("AUTH".to_owned()),
        _ => StoreError::Refused(error.code().unwrap_or("unknown").to_owned()),
    }
}
