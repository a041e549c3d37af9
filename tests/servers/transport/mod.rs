//! What clients do to connections: resets, readers and writers that are slow, halves that are closed, tunnels.

mod half_closed;
mod messages;
mod refused;
mod resets;
mod silent_streams;
mod slow_readers;
mod upgrades;

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Client, Version, bounded};

/// Sends a request on a connection of its own and reads the answer: what was sent to the server before has been read by then.
async fn is_served(address: std::net::SocketAddr, path: &str) -> bool {
    let mut client = Client::connect(address, Version::H1).await;
    let answer = bounded("the other client", client.get(path)).await.unwrap();
    answer.status() == 200 && answer.into_body().collect().await.is_ok()
}

/// Reads until the server has sent `end`.
async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(bounded(end, socket.read_u8()).await.unwrap());
    }
    String::from_utf8(bytes).unwrap().to_ascii_lowercase()
}

/// Reads a request body to its end; answers how many bytes it had, as a body.
async fn read_all(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let mut body = request.into_body();
    let mut bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        bytes += frame.data_ref().map_or(0, bytes::Bytes::len);
    }
    Ok(Response::new(bytes.to_string()))
}
