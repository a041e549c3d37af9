//! Bodies of answers that are known at once.

use bytes::Bytes;

/// What can be the body of an [answer to a rejected request](crate::AdmissionLayer::respond): a text or bytes; with the feature
/// `axum` also `axum::body::Body`, so that an answer may be what `into_response()` gives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the body of an answer to a rejected request",
    label = "allowed are a text and bytes; with the feature `axum` also what `into_response()` gives"
)]
pub trait AnswerBody {
    /// Returns the bytes; `None` if they are not all known at once, such as those of a stream. The request then gets the built-in
    /// answer.
    fn into_bytes(self) -> Option<Bytes>;
}

macro_rules! known_at_once {
    ($($body:ty),+) => {
        $(impl AnswerBody for $body {
            fn into_bytes(self) -> Option<Bytes> {
                Some(self.into())
            }
        })+
    };
}
known_at_once!(&'static str, &'static [u8], String, Vec<u8>, Bytes);

#[cfg(feature = "axum")]
impl AnswerBody for axum::body::Body {
    fn into_bytes(mut self) -> Option<Bytes> {
        use std::{
            pin::Pin,
            task::{Context, Poll, Waker},
        };

        use http_body::Body;

        /// Bytes of an answer, at most: a body may go on without end.
        const MOST: usize = 1 << 20;
        let (mut context, mut bytes) = (Context::from_waker(Waker::noop()), Vec::new());
        while let Poll::Ready(frame) = Pin::new(&mut self).poll_frame(&mut context) {
            match frame {
                None => return Some(bytes.into()),
                Some(frame) => bytes.extend_from_slice(&frame.ok()?.into_data().unwrap_or_default()),
            }
            if bytes.len() > MOST {
                break;
            }
        }
        None
    }
}
