//! The future of an answer: most are there at once, a heartbeat has to be read first.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::{
    reply::{Problem, Reply},
    workers::{LONGEST, note},
};
use crate::{admission::BodyData, runtime::Admission};

pin_project! {
    /// The answer of [`Introspection`](crate::introspection::Introspection), which never fails.
    pub struct IntrospectionFuture<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<B> {
        Ready { response: Option<Response<BodyData>> },
        Reading { admission: Admission, #[pin] body: B, read: Vec<u8> },
    }
}

impl<B> IntrospectionFuture<B> {
    pub(super) const fn ready(response: Response<BodyData>) -> Self {
        Self { kind: Kind::Ready { response: Some(response) } }
    }

    /// The answer to a heartbeat, of which nothing is read yet.
    pub(super) const fn reading(admission: Admission, body: B) -> Self {
        Self { kind: Kind::Reading { admission, body, read: Vec::new() } }
    }
}

/// Reads to the end, or to where it is too long.
fn poll_read<B: Body>(mut body: Pin<&mut B>, read: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<Result<(), Problem>> {
    loop {
        match ready!(body.as_mut().poll_frame(cx)) {
            None => return Poll::Ready(Ok(())),
            Some(Err(_)) => return Poll::Ready(Err(Problem::invalid("the body ended early"))),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if read.len() + data.remaining() > LONGEST {
                    let detail = format_args!("the body is longer than {LONGEST} bytes");
                    return Poll::Ready(Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)));
                }
                read.put(data);
            }
        }
    }
}

impl<B: Body> Future for IntrospectionFuture<B> {
    type Output = Result<Response<BodyData>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            // As with other futures, nothing comes after the end.
            KindProj::Ready { response } => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            KindProj::Reading { admission, body, read } => {
                let answer = ready!(poll_read(body, read, cx)).and_then(|()| note(admission, read));
                Poll::Ready(Ok(answer.unwrap_or_else(Reply::from).respond(&HeaderMap::new(), false)))
            }
        }
    }
}

impl<B> fmt::Debug for IntrospectionFuture<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Ready { .. } => "ready",
            Kind::Reading { .. } => "reading",
        };
        f.debug_tuple("IntrospectionFuture").field(&kind).finish()
    }
}
