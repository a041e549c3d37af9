//! Keys of a cluster whose slot moves from one node to another.
//!
//! The old node serves the keys that are still there, and names the new node for the keys that are not. Keys of one
//! call that are on both nodes can't be served until they have met, which is soon: a cap is one key.

use std::{collections::HashMap, sync::Arc};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, ServerErrorKind, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::sync::Mutex;

use super::script::Call;

/// Connections to nodes that take slots over: the client of the cluster knows nodes only by the slots that they have.
#[derive(Clone)]
pub(super) struct Newcomers(Arc<Inner>);

struct Inner {
    /// Settings to connect to a node, whose address replaces the address in them.
    like: ConnectionInfo,
    nodes: Mutex<HashMap<(String, u16), MultiplexedConnection>>,
}

impl Newcomers {
    pub(super) fn new(like: ConnectionInfo) -> Self {
        Self(Arc::new(Inner { like, nodes: Mutex::default() }))
    }

    async fn connection(&self, node: &(String, u16)) -> Result<MultiplexedConnection, RedisError> {
        let mut nodes = self.0.nodes.lock().await;
        if let Some(connection) = nodes.get(node) {
            return Ok(connection.clone());
        }
        let (host, port) = node.clone();
        let address = match self.0.like.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let client = Client::open(self.0.like.clone().set_addr(address))?;
        let connection = client.get_multiplexed_async_connection().await?;
        nodes.insert(node.clone(), connection.clone());
        Ok(connection)
    }

    /// Runs a script on a node that takes its keys over, after the word `ASKING`.
    pub(super) async fn ask(&self, node: (String, u16), call: &Call) -> Result<Value, RedisError> {
        let mut connection = self.connection(&node).await?;
        // Both in one go: a command between them would take the word for itself.
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(call.in_full_for_one_key(""));
        match connection.req_packed_commands(&both, 0, 2).await {
            Ok(mut answers) => answers.pop().unwrap_or(Value::Nil).extract_error(),
            Err(error) => {
                self.0.nodes.lock().await.remove(&node);
                Err(error)
            }
        }
    }
}

/// Returns the node that takes over what an error is about, if it says so.
pub(super) fn taken_over_by(error: &RedisError) -> Option<(String, u16)> {
    let (address, _) = error.redirect_node().filter(|_| error.kind() == ErrorKind::Server(ServerErrorKind::Ask))?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}
