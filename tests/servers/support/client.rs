//! HTTP clients with one connection each, to be closed or killed at will.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http::{Method, Request, Response, Uri, header::HOST};
use http_body_util::{BodyExt, Empty, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpStream, task::AbortHandle};

pub(crate) type Outgoing = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Version {
    H1,
    H2,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    sender: Sender,
    connection: AbortHandle,
}

#[derive(Debug)]
enum Sender {
    H1(http1::SendRequest<Outgoing>),
    H2(http2::SendRequest<Outgoing>),
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, version: Version) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = TokioIo::new(stream);
        let (sender, connection) = match version {
            Version::H1 => {
                let (sender, connection) = http1::handshake(stream).await.unwrap();
                (Sender::H1(sender), tokio::spawn(async { drop(connection.with_upgrades().await) }).abort_handle())
            }
            Version::H2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
                (Sender::H2(sender), tokio::spawn(async { drop(connection.await) }).abort_handle())
            }
        };
        Self { address, sender, connection }
    }

    /// Sends a request whose URI is a path; all that the version wants besides is filled in.
    pub(crate) async fn send(&mut self, mut request: Request<Outgoing>) -> hyper::Result<Response<Incoming>> {
        let address = self.address.to_string();
        match &mut self.sender {
            Sender::H1(sender) => {
                request.headers_mut().insert(HOST, address.parse().unwrap());
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::H2(sender) => {
                if request.method() != Method::CONNECT {
                    *request.uri_mut() = absolute(&address, request.uri());
                }
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        self.send(get(path)).await
    }

    /// Another handle to the same HTTP/2 connection.
    pub(crate) fn share(&self) -> Self {
        let Sender::H2(sender) = &self.sender else { panic!("HTTP/1 connections can't be shared") };
        Self { address: self.address, sender: Sender::H2(sender.clone()), connection: self.connection.clone() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::H1(sender) => sender.is_closed(),
            Sender::H2(sender) => sender.is_closed(),
        }
    }

    /// Closes the socket without a word.
    pub(crate) fn kill(&self) {
        self.connection.abort();
    }
}

fn absolute(address: &str, uri: &Uri) -> Uri {
    format!("http://{address}{uri}").parse().unwrap()
}

pub(crate) fn empty() -> Outgoing {
    UnsyncBoxBody::new(Empty::new())
}

pub(crate) fn get(path: &str) -> Request<Outgoing> {
    Request::builder().uri(path).body(empty()).unwrap()
}

/// Opens a connection, gets `path`, reads the answer to its end, and closes the connection. Answers the status.
pub(crate) async fn get_once(address: SocketAddr, version: Version, path: String) -> u16 {
    let response = Client::connect(address, version).await.get(&path).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().collect().await.unwrap();
    status
}
