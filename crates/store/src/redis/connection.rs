//! One multiplexed connection to a server or a cluster: made when needed, dropped when broken.

use std::{fmt, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, InfoDict, PushInfo, PushKind, RedisError, ServerErrorKind, Value,
    aio::ConnectionLike,
};
use tokio::sync::broadcast;

#[cfg(feature = "redis-cluster")]
use super::{
    moving::{Newcomers, taken_over_by},
    script::Call,
};
use crate::{Notice, StoreError};

/// Addresses of the connections. Never shown: addresses may hold passwords.
#[derive(Clone)]
pub(super) enum Target {
    Server(Box<Client>),
    #[cfg(feature = "redis-cluster")]
    Cluster(Box<redis::cluster::ClusterClient>, Newcomers),
}

/// A connection. Clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    link: Link,
    /// What scripts are told of the run of the server: its name, or nothing where it is not known. A cluster has many
    /// servers, so scripts ask the server that they run on.
    pub(super) run: Arc<str>,
    /// Whether the server may throw keys away, as far as that is known.
    pub(super) evicts: bool,
}

#[derive(Clone)]
enum Link {
    Server(redis::aio::MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster_async::ClusterConnection, Newcomers),
}

impl Target {
    pub(super) const fn is_cluster(&self) -> bool {
        match self {
            Self::Server(_) => false,
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(..) => true,
        }
    }

    /// Returns a new connection that listens to `channel`, and asks for the run of the server if that `matters`. The
    /// caller sets the time limit. When the connection to a server ends, `over` is called.
    pub(super) async fn connect(
        &self,
        channel: &str,
        matters: bool,
        timeout: Duration,
        notices: broadcast::Sender<Notice>,
        over: impl Fn() + Send + Sync + 'static,
    ) -> Result<Connection, RedisError> {
        let is_server = !self.is_cluster();
        let listener = move |push: PushInfo| {
            if is_server && push.kind == PushKind::Disconnection {
                over();
            } else if let Some(notice) = read(&push) {
                // Without a listener, no notice is needed.
                let _ = notices.send(notice);
            }
            Ok::<_, redis::aio::SendError>(())
        };
        match self {
            Self::Server(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(timeout))
                    // The client's limit covers the whole call, and what is in the way of it.
                    .set_response_timeout(None)
                    .set_push_sender(listener);
                let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                connection.subscribe(channel).await?;
                let run = if matters { told(&mut connection, "server", "run_id").await? } else { String::new() };
                // The same text will stand in a key's value.
                let run: &str = if run.bytes().all(|byte| byte.is_ascii_hexdigit()) { &run } else { "" };
                let policy = told(&mut connection, "memory", "maxmemory_policy").await?;
                let evicts = policy.starts_with("volatile-") || policy.starts_with("allkeys-");
                Ok(Connection { link: Link::Server(connection), run: run.into(), evicts })
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client, newcomers) => {
                let config = redis::cluster::ClusterConfig::new().set_push_sender(listener);
                let mut connection = client.get_async_connection_with_config(config).await?;
                // On any node: the nodes tell each other.
                connection.subscribe(channel).await?;
                let link = Link::Cluster(connection, newcomers.clone());
                Ok(Connection { link, run: Arc::default(), evicts: false })
            }
        }
    }
}

impl Connection {
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        match &mut self.link {
            Link::Server(connection) => connection.req_packed_command(command).await,
            #[cfg(feature = "redis-cluster")]
            Link::Cluster(connection, _) => connection.req_packed_command(command).await,
        }
        .and_then(Value::extract_error)
    }

    /// Goes on after an answer that says that keys are on their way; any other answer is passed on.
    #[cfg(feature = "redis-cluster")]
    pub(super) async fn follow(
        &mut self,
        call: &Call,
        mut answer: Result<Value, RedisError>,
    ) -> Result<Value, RedisError> {
        let Link::Cluster(_, newcomers) = &self.link else { return answer };
        let newcomers = newcomers.clone();
        for pause in [1, 5, 10] {
            let Err(error) = &answer else { break };
            if let Some(node) = taken_over_by(error) {
                answer = newcomers.ask(node, call).await;
            } else if error.kind() == ErrorKind::Server(ServerErrorKind::TryAgain) {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                answer = self.send(&call.in_full(&self.run)).await;
            } else {
                break;
            }
        }
        answer
    }
}

/// Returns what a section of `INFO` says of `name`, such as `run_id`, the name of the present run of a server: random, and
/// another one after each start. Empty where it is not told, since there is no permission to ask, or the server is no Redis.
async fn told(
    connection: &mut redis::aio::MultiplexedConnection,
    section: &str,
    name: &str,
) -> Result<String, RedisError> {
    match redis::cmd("INFO").arg(section).query_async::<InfoDict>(connection).await {
        Ok(info) => Ok(info.get(name).unwrap_or_default()),
        Err(error) if error.is_io_error() => Err(error),
        Err(_) => Ok(String::new()),
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cluster() { "Cluster" } else { "Server" })
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

/// Returns the store's error for an error of the library, without the text of the server: that may repeat what was
/// sent.
pub(super) fn meaning(error: &RedisError) -> StoreError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => answer(&code(error)),
        // The library asked by itself here, so there may be no code of the server.
        ErrorKind::AuthenticationFailed => answer(error.code().unwrap_or("WRONGPASS")),
        // What can't be read is no answer, and nothing that comes behind it can be trusted.
        _ => StoreError::Unavailable,
    }
}

/// Returns what a server means by the code of an error. An unknown code may be that of a proxy before it.
fn answer(code: &str) -> StoreError {
    match code {
        "READONLY" => StoreError::ReadOnly,
        // These errors are about a key, or about the client.
        "WRONGTYPE" => StoreError::Refused(code.to_owned()),
        code => StoreError::Unable(code.to_owned()),
    }
}

/// Returns the code of a server's error. Older servers hide it in the text where a script ran into it.
fn code(error: &RedisError) -> String {
    const WITHIN: [&str; 7] = ["MISCONF", "NOREPLICAS", "OOM", "READONLY", "WRONGTYPE", "MASTERDOWN", "NOPERM"];
    let code = error.code().unwrap_or("unknown");
    if code != "ERR" {
        return code.to_owned();
    }
    let text = error.detail().unwrap_or_default();
    // Scripts of version 7 and later say this without the code.
    if text.starts_with("The user executing the script can't") || text.starts_with("ACL failure in script") {
        return "NOPERM".to_owned();
    }
    let within = WITHIN.iter().find(|code| text.contains(&format!(" -{code} ")));
    within.map_or(code, |code| *code).to_owned()
}
