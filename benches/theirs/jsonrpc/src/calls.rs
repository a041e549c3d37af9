//! The calls: those of jsonrpsee's own benches, by its own clients.

use std::{net::SocketAddr, sync::Arc};

use futures_util::{TryFutureExt, future::BoxFuture};
use jsonrpsee::core::{
    client::{ClientT, Error},
    params::{ArrayParams, BatchRequestBuilder},
};
use jsonrpsee::types::error::SERVER_IS_BUSY_CODE;
use jsonrpsee_http_client::{HttpClient, transport};
use jsonrpsee_ws_client::{WsClient, WsClientBuilder};
use load::Outcome;

use crate::server::DEADLINE;

/// How many calls a batch has.
const BATCH: u64 = 3;

/// Units of work of a call on average: one in ten is a batch.
pub(crate) const MEAN: f64 = 1.2;

/// How many WebSockets carry the calls.
const SOCKETS: u64 = 32;

/// What all callers of a run share.
pub(crate) enum Client {
    Http(HttpClient),
    Sockets(Vec<WsClient>),
}

impl Client {
    pub(crate) async fn http(address: SocketAddr) -> Self {
        let client = HttpClient::builder().request_timeout(DEADLINE * 2).build(format!("http://{address}"));
        Self::Http(client.expect("an address is a URL"))
    }

    pub(crate) async fn sockets(address: SocketAddr) -> Self {
        let mut sockets = Vec::new();
        for _ in 0..SOCKETS {
            let builder = WsClientBuilder::new().request_timeout(DEADLINE * 2).max_concurrent_requests(100_000);
            sockets.push(builder.build(format!("ws://{address}")).await.expect("the server takes an upgrade"));
        }
        Self::Sockets(sockets)
    }
}

/// One call: in ten there are one batch and one with a long answer.
pub(crate) fn call(client: Arc<Client>, number: u64) -> BoxFuture<'static, Outcome> {
    // The next ten go by the next socket, so that each carries all kinds of calls.
    let socket = usize::try_from(number / 10 % SOCKETS).unwrap_or_default();
    Box::pin(async move {
        match &*client {
            Client::Http(client) => send(client, number).await,
            Client::Sockets(clients) => send(&clients[socket], number).await,
        }
    })
}

async fn send<C: ClientT + Sync>(client: &C, number: u64) -> Outcome {
    // Boxed, since the compiler can't tell that the futures of these clients can be sent.
    let ended: BoxFuture<'_, Result<u64, Error>> = match number % 10 {
        0 => Box::pin(send_batch(client)),
        5 => Box::pin(client.request::<String, _>("memory_intense", ArrayParams::new()).map_ok(|_| 1)),
        _ => Box::pin(client.request::<String, _>("slow_call", ArrayParams::new()).map_ok(|_| 1)),
    };
    let ended = ended.await;
    match ended {
        Ok(work) => Outcome::InTime(work),
        Err(Error::Call(error)) if error.code() == SERVER_IS_BUSY_CODE => Outcome::Refused,
        Err(Error::Transport(error)) => match error.downcast_ref() {
            Some(transport::Error::Rejected { status_code: 429 | 503 }) => Outcome::Refused,
            _ => Outcome::Failed,
        },
        Err(Error::RequestTimeout) => Outcome::Late,
        Err(_) => Outcome::Failed,
    }
}

/// A batch counts if all of its calls were answered.
async fn send_batch<C: ClientT + Sync>(client: &C) -> Result<u64, Error> {
    let mut batch = BatchRequestBuilder::new();
    for _ in 0..BATCH {
        batch.insert("slow_call", ArrayParams::new()).expect("no parameters");
    }
    let answers: BoxFuture<'_, _> = Box::pin(client.batch_request::<String>(batch));
    for answer in answers.await? {
        answer.map_err(|error| Error::Call(error.into_owned()))?;
    }
    Ok(BATCH)
}
