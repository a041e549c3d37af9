//! The body of a response: what the service sent, with the slot attached, or the answer to a rejected request.

use std::{
    cell::Cell,
    fmt,
    panic::catch_unwind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::{
    runtime::{Handle, Id},
    time::{Sleep, sleep},
};

use super::{
    assess::{ForResponses, judge_trailers},
    respond::load_reports::Format,
};
#[cfg(all(feature = "capture", feature = "introspect"))]
use crate::runtime::CapturedLines;
use crate::{Outcome, Timestamp, runtime::SlotGuard};

pin_project! {
    /// The body of every response that passes the layer.
    ///
    /// Holds the slot of its request until the last frame, an error, or its own end. Frames, trailers, size and end of
    /// stream of the inner body pass through unchanged.
    pub struct AdmissionBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<B> {
        Inner { #[pin] body: B, guard: Option<Guard> },
        Rejected { payload: BodyData },
    }
}

/// When the sample of a request is taken whose body goes on, and of what.
pub(super) enum Learned {
    /// At the end, unless it was taken before.
    AtEnd,
    /// At the end, as of this time: that of the head.
    Head(Timestamp),
    /// At the end, or with the first frame after this time: the caller is still there.
    Until(Timestamp),
    /// At the end, or after this time, of a body that sends nothing for a while.
    Alarm(Pin<Box<Sleep>>),
}

/// Returns an alarm, unless there are no timers here: then the next frame shows that the time has passed.
#[cold]
fn alarm(after: Duration) -> Option<Pin<Box<Sleep>>> {
    thread_local! {
        static HAS_TIMERS: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
    }
    let runtime = Handle::try_current().ok()?.id();
    // Making a timer panics where there are none.
    let has_timers = match HAS_TIMERS.get() {
        Some((known, has_timers)) if known == runtime => has_timers,
        _ => catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok(),
    };
    HAS_TIMERS.set(Some((runtime, has_timers)));
    has_timers.then(|| Box::pin(sleep(after)))
}

/// What is left to do when a response body ends.
pub(super) struct Guard {
    pub(super) permit: SlotGuard,
    /// How the request went, should its sample be taken only now.
    pub(super) outcome: Outcome,
    pub(super) learned: Learned,
    /// Whether there may be trailers that say more, and what judges them, and reports in them, unless that is the default.
    pub(super) has_trailers: bool,
    pub(super) responses: Option<Arc<ForResponses>>,
}

impl Guard {
    #[inline]
    fn end(&mut self, trailers: Option<&mut HeaderMap>) {
        if let Some(trailers) = trailers {
            self.read_trailers(trailers);
        }
        if self.permit.is_held() {
            let head = if let Learned::Head(head) = self.learned { Some(head) } else { None };
            self.permit.give_back(self.outcome, head);
        }
    }

    /// Takes the sample of a body that goes on beyond the deadline of a caller that is still there.
    fn note_frame(&mut self) {
        let is_due = match &self.learned {
            Learned::Until(until) => self.permit.now() >= *until,
            Learned::Alarm(alarm) => alarm.is_elapsed(),
            Learned::AtEnd | Learned::Head(_) => false,
        };
        if is_due {
            self.permit.observe(self.outcome);
            self.learned = Learned::AtEnd;
        }
    }

    /// The same for a body that sends nothing: an idle stream may hold its slot for hours.
    fn note_silence(&mut self, cx: &mut Context<'_>) {
        if let Learned::Until(until) = self.learned
            && let Some(alarm) = alarm(until.since(self.permit.now()))
        {
            self.learned = Learned::Alarm(alarm);
        }
        if let Learned::Alarm(alarm) = &mut self.learned
            && (alarm.is_elapsed() || alarm.as_mut().poll(cx).is_ready())
        {
            self.note_frame();
        }
    }

    /// Learns what trailers say, and adds a load report to them if there is to be one.
    fn read_trailers(&mut self, trailers: &mut HeaderMap) {
        let responses = self.responses.as_deref();
        if let Some(reports) = responses.and_then(|responses| responses.reports.as_ref()) {
            reports.add(trailers, Format::Binary);
        }
        let assess = responses.and_then(|responses| responses.assess.as_deref());
        if self.has_trailers && judge_trailers(assess, trailers) == Outcome::Overload {
            if self.permit.is_held() && self.permit.is_observed() {
                self.permit.observe_late_overload();
            }
            self.outcome = Outcome::Overload;
        }
    }
}

/// A body that fails or is dropped before its end. What the head said counts, unless it was a success.
impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if !self.permit.is_held() {
            return;
        }
        match self.learned {
            // What the head said counts, as it does where the sample is taken then.
            Learned::Head(_) | Learned::Until(_) | Learned::Alarm(_) => self.end(None),
            Learned::AtEnd => {
                self.permit.abandon(|unsaid| if self.outcome == Outcome::Success { unsaid } else { self.outcome });
            }
        }
    }
}

/// Ends a body, once.
#[inline]
fn end(guard: &mut Option<Guard>, trailers: Option<&mut HeaderMap>) {
    if let Some(it) = guard {
        it.end(trailers);
        if it.responses.is_none() {
            // The permit was given back: nothing is left to drop, and nothing looks for it once more.
            std::mem::forget(guard.take());
        }
    }
}

impl<B> AdmissionBody<B> {
    /// A body that has not ended, or one without a guard.
    pub(super) const fn new(body: B, guard: Option<Guard>) -> Self {
        Self { kind: Kind::Inner { body, guard } }
    }

    pub(super) const fn rejected(payload: BodyData) -> Self {
        Self { kind: Kind::Rejected { payload } }
    }
}

impl<B> Body for AdmissionBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().kind.project() {
            KindProj::Inner { mut body, guard } => {
                let Poll::Ready(mut frame) = body.as_mut().poll_frame(cx) else {
                    if let Some(guard) = guard {
                        guard.note_silence(cx);
                    }
                    return Poll::Pending;
                };
                match &mut frame {
                    // The last frame is often the last thing that is asked for: no reader waits for `None` once the
                    // announced length is reached.
                    Some(Ok(frame)) if !frame.is_trailers() && !body.is_end_stream() => {
                        if let Some(guard) = guard {
                            guard.note_frame();
                        }
                    }
                    Some(Ok(frame)) => end(guard, frame.trailers_mut()),
                    Some(Err(_)) => drop(guard.take()),
                    None => end(guard, None),
                }
                Poll::Ready(frame)
            }
            KindProj::Rejected { payload } => Poll::Ready(payload.take().map(|data| Ok(Frame::data(data.into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body, .. } => body.is_end_stream(),
            Kind::Rejected { payload } => payload.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body, .. } => body.size_hint(),
            Kind::Rejected { payload } => payload.size_hint(),
        }
    }
}

/// For layers that answer in place of the service, such as timeouts.
impl<B: Default> Default for AdmissionBody<B> {
    fn default() -> Self {
        Self { kind: Kind::Inner { body: B::default(), guard: None } }
    }
}

impl<B> fmt::Debug for AdmissionBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Inner { guard: Some(_), .. } => "holds a slot",
            Kind::Inner { guard: None, .. } => "holds no slot",
            Kind::Rejected { .. } => "rejected",
        };
        f.debug_tuple("AdmissionBody").field(&kind).finish()
    }
}

/// One piece of data, or none; or the lines of a capture.
#[derive(Clone, Debug)]
pub struct BodyData(Data);

#[derive(Clone, Debug)]
enum Data {
    Piece(Option<Bytes>),
    #[cfg(all(feature = "capture", feature = "introspect"))]
    Lines(Box<CapturedLines>),
}

impl BodyData {
    pub(crate) const fn empty() -> Self {
        Self(Data::Piece(None))
    }

    pub(crate) fn new(data: Bytes) -> Self {
        Self(Data::Piece(Some(data).filter(|data| !data.is_empty())))
    }

    /// Returns a body that makes the lines as they are sent.
    #[cfg(all(feature = "capture", feature = "introspect"))]
    pub(crate) fn lines(lines: CapturedLines) -> Self {
        Self(Data::Lines(Box::new(lines)))
    }

    fn take(&mut self) -> Option<Bytes> {
        match &mut self.0 {
            Data::Piece(piece) => piece.take(),
            #[cfg(all(feature = "capture", feature = "introspect"))]
            Data::Lines(lines) => lines.next().map(Bytes::from),
        }
    }
}

impl Body for BodyData {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Data::Piece(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Data::Piece(piece) => SizeHint::with_exact(piece.as_ref().map_or(0, Bytes::len) as u64),
            #[cfg(all(feature = "capture", feature = "introspect"))]
            Data::Lines(_) => SizeHint::default(),
        }
    }
}
