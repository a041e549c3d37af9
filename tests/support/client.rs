//! HTTP clients with one connection each, to be closed or killed at will.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Method, Request, Response, Uri, header::HOST};
use http_body_util::{BodyExt, Empty, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

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
    tasks: Tasks,
}

#[derive(Debug)]
enum Sender {
    H1(http1::SendRequest<Outgoing>),
    H2(http2::SendRequest<Outgoing>),
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, version: Version) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), version).await
    }

    async fn over(stream: TcpStream, version: Version) -> Self {
        stream.set_nodelay(true).unwrap();
        let address = stream.peer_addr().unwrap();
        let stream = TokioIo::new(stream);
        let tasks = Tasks::default();
        let sender = match version {
            Version::H1 => {
                let (sender, connection) = http1::handshake(stream).await.unwrap();
                tasks.execute(connection.with_upgrades());
                Sender::H1(sender)
            }
            Version::H2 => {
                let (sender, connection) = http2::handshake(tasks.clone(), stream).await.unwrap();
                tasks.execute(connection);
                Sender::H2(sender)
            }
        };
        Self { address, sender, tasks }
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

    /// Waits until the connection takes a request; fails where the server has closed it.
    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        match &mut self.sender {
            Sender::H1(sender) => sender.ready().await,
            Sender::H2(sender) => sender.ready().await,
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        self.send(get(path)).await
    }

    /// Sends a request, and reads the answer to its end.
    pub(crate) async fn answer(&mut self, request: Request<Outgoing>) -> Response<Bytes> {
        let (head, body) = self.send(request).await.unwrap().into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    }

    /// A connection that ends with a reset when it is killed, where others are closed.
    pub(crate) async fn connect_to_reset(address: SocketAddr, version: Version) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_zero_linger().unwrap();
        Self::over(stream, version).await
    }

    /// Another handle to the same HTTP/2 connection.
    pub(crate) fn share(&self) -> Self {
        let Sender::H2(sender) = &self.sender else { panic!("HTTP/1 connections can't be shared") };
        Self { address: self.address, sender: Sender::H2(sender.clone()), tasks: self.tasks.clone() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::H1(sender) => sender.is_closed(),
            Sender::H2(sender) => sender.is_closed(),
        }
    }

    /// Closes the socket without a word.
    pub(crate) fn kill(&self) {
        self.tasks.0.lock().unwrap().abort_all();
    }
}

/// The tasks of a connection: it is closed when all of them are gone.
#[derive(Clone, Debug, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F> Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        // A connection that breaks is what many tests are about.
        self.0.lock().unwrap().spawn(async { drop(task.await) });
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
    Client::connect(address, version).await.answer(get(&path)).await.status().as_u16()
}
