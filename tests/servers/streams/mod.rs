//! gRPC calls of all four kinds, and what browsers speak instead of gRPC.

mod kinds;
mod web;

use std::{
    collections::HashMap,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex},
};

use admission_testkit::grpc::{Codec, Methods};
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use tokio::sync::oneshot;
use tonic::{Status, Streaming, body::Body, server::Grpc};
use tower::service_fn;

use crate::support::probe::{Probe, Running};

type Answers = Pin<Box<dyn stream::Stream<Item = Result<String, Status>> + Send>>;

/// A service with a method of each kind. A call is counted as running until its last message is out.
///
/// - `Unary` answers its message, `hang` never.
/// - `Upload` answers how many messages it got, once the client has no more.
/// - `Download` answers three messages; to `hang` one, and then none; to `full` one, and then that it is full.
/// - `Chat` answers each message as it comes.
#[derive(Clone, Debug)]
struct Kinds {
    probe: Probe,
    meetings: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
}

impl Kinds {
    fn new(probe: &Probe) -> Self {
        Self { probe: probe.clone(), meetings: Arc::default() }
    }

    /// Says when the call of that name has reached its handler.
    fn meet(&self, name: &str) -> oneshot::Receiver<()> {
        let (reached, meeting) = oneshot::channel();
        self.meetings.lock().unwrap().insert(name.to_owned(), reached);
        meeting
    }

    fn enter<T>(&self, request: &tonic::Request<T>) -> Running {
        let running = self.probe.enter();
        let name = request.metadata().get("x-name").map(|name| name.to_str().unwrap());
        if let Some(reached) = name.and_then(|name| self.meetings.lock().unwrap().remove(name)) {
            // The test may have ended already.
            let _ = reached.send(());
        }
        running
    }

    async fn unary(&self, request: tonic::Request<String>) -> Result<tonic::Response<String>, Status> {
        let _running = self.enter(&request);
        if request.get_ref() == "hang" {
            pending::<()>().await;
        }
        Ok(tonic::Response::new(request.into_inner()))
    }

    async fn upload(&self, request: tonic::Request<Streaming<String>>) -> Result<tonic::Response<String>, Status> {
        let _running = self.enter(&request);
        let mut messages = request.into_inner();
        let mut count = 0;
        while messages.message().await?.is_some() {
            count += 1;
        }
        Ok(tonic::Response::new(count.to_string()))
    }

    fn download(&self, request: &tonic::Request<String>) -> tonic::Response<Answers> {
        let running = self.enter(request);
        let counted = move |answer| {
            let _ = &running;
            answer
        };
        let message = || Ok("message".to_owned());
        tonic::Response::new(match request.get_ref().as_str() {
            "hang" => Box::pin(stream::iter([message()]).chain(stream::pending()).map(counted)),
            "full" => Box::pin(stream::iter([message(), Err(Status::resource_exhausted("full"))]).map(counted)),
            _ => Box::pin(stream::iter([message(), message(), message()]).map(counted)),
        })
    }

    fn chat(&self, request: tonic::Request<Streaming<String>>) -> tonic::Response<Answers> {
        let running = self.enter(&request);
        tonic::Response::new(Box::pin(request.into_inner().map(move |message| {
            let _ = &running;
            message
        })))
    }
}

impl Methods for Kinds {
    const NAME: &'static str = "test.Kinds";

    async fn answer(self, method: &str, mut grpc: Grpc<Codec>, request: Request<Body>) -> Response<Body> {
        match method {
            "Upload" => {
                let upload = service_fn(move |request| {
                    let kinds = self.clone();
                    async move { kinds.upload(request).await }
                });
                grpc.client_streaming(upload, request).await
            }
            "Download" => {
                let download = service_fn(move |request| {
                    let answers = self.download(&request);
                    async { Ok(answers) }
                });
                grpc.server_streaming(download, request).await
            }
            "Chat" => {
                let chat = service_fn(move |request| {
                    let answers = self.chat(request);
                    async { Ok(answers) }
                });
                grpc.streaming(chat, request).await
            }
            _ => {
                let unary = service_fn(move |request| {
                    let kinds = self.clone();
                    async move { kinds.unary(request).await }
                });
                grpc.unary(unary, request).await
            }
        }
    }
}
