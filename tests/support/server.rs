//! Servers on loopback that are shut down again.

use std::{error::Error, future::Future, net::SocketAddr};

use axum::{Router, serve::ListenerExt};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};
use tonic::transport::server::TcpIncoming;
use tower::Service;

use super::bounded;

type Failure = Box<dyn Error + Send + Sync>;

/// A server that runs until [`stop`](Self::stop).
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves with `serve` until the receiver says that the server is to stop.
    pub(crate) async fn start<F>(serve: impl FnOnce(TcpListener, oneshot::Receiver<()>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        Self { address, stop, task: tokio::spawn(serve(listener, stopped)) }
    }

    /// `axum::serve(listener, app)`.
    pub(crate) async fn axum(app: Router) -> Self {
        Self::start(|listener, stopped| async move {
            // Small answers in two packets would wait for an acknowledgement each.
            let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
            axum::serve(listener, app).with_graceful_shutdown(stopped.map(drop)).await.unwrap();
        })
        .await
    }

    /// Plain hyper, whichever version the client speaks.
    pub(crate) async fn hyper<S, B>(service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<Failure>,
        S::Future: Send,
        B: Body<Data = Bytes, Error: Into<Failure>> + Send + 'static,
    {
        Self::hyper_by(auto::Builder::new(TokioExecutor::new()), service).await
    }

    /// The same with settings of its own.
    pub(crate) async fn hyper_by<S, B>(server: auto::Builder<TokioExecutor>, service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<Failure>,
        S::Future: Send,
        B: Body<Data = Bytes, Error: Into<Failure>> + Send + 'static,
    {
        Self::start(|listener, mut stopped| async move {
            let mut connections = JoinSet::new();
            loop {
                let stream = tokio::select! {
                    _ = &mut stopped => break,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                stream.set_nodelay(true).unwrap();
                let service = TowerToHyperService::new(service.clone());
                let server = server.clone();
                connections.spawn(async move {
                    // Ends with an error wherever the client leaves or a handler fails, as many do here.
                    let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
                while connections.try_join_next().is_some() {}
            }
            connections.shutdown().await;
        })
        .await
    }

    /// tonic, with whatever layers and services `routes` brings.
    pub(crate) async fn tonic<L, B>(routes: tonic::transport::server::Router<L>) -> Self
    where
        L: tower::Layer<tonic::service::Routes> + Send + 'static,
        L::Service: Service<Request<tonic::body::Body>, Response = Response<B>> + Clone + Send + 'static,
        <L::Service as Service<Request<tonic::body::Body>>>::Future: Send,
        <L::Service as Service<Request<tonic::body::Body>>>::Error: Into<Failure> + Send,
        B: Body<Data = Bytes, Error: Into<Failure>> + Send + 'static,
    {
        Self::start(|listener, stopped| async move {
            routes
                .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stopped.map(drop))
                .await
                .unwrap();
        })
        .await
    }

    /// Stops to accept and waits for what is left. Clients must be gone.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        bounded("the server", self.task).await.unwrap();
    }
}
