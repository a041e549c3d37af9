//! What a law learns from a body that goes on, and from a large upload: for how long its slot was held, up to the deadline of the
//! caller. Laws that do not ask for that hear of heads.
//!
//! The clock of these tests is paused: a sleep moves it on, and takes no time.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    future::{join_all, poll_immediate},
    stream,
};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tower::{Layer, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Outcome, Ticket,
    limit::{Aimd, Fixed, Limit, LimitAlgorithm, Sample, TwoPoint, Windowed},
    policy::{Policy, SampleAt},
};

const PATIENCE: Duration = Duration::from_secs(1);

/// A limit of ten that notes each sample, and how long callers wait; and whether it asks for the time of heads only.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<(Vec<Sample>, Option<Duration>)>>, bool);

impl LimitAlgorithm for Notes {
    fn limit(&self) -> usize {
        10
    }

    fn max_limit(&self) -> usize {
        20
    }

    fn on_sample(&mut self, sample: &Sample) {
        self.0.lock().unwrap().0.push(sample.clone());
    }

    fn note_patience(&mut self, patience: Option<Duration>) {
        self.0.lock().unwrap().1 = patience;
    }

    fn learns_hold_times(&self) -> bool {
        !self.1
    }
}

impl Notes {
    /// Returns the milliseconds that each sample since the last call says, and how it ended.
    fn take(&self, admission: &Admission) -> Vec<(u128, Outcome)> {
        drop(admission.snapshot());
        let samples = std::mem::take(&mut self.0.lock().unwrap().0);
        samples.iter().map(|it| (it.rtt.unwrap_or_default().as_millis(), it.outcome)).collect()
    }
}

/// A handle with these callers. Where `is_quiet`, it lends slots to requests that come one after the other.
async fn handle(patience: Option<Duration>, is_quiet: bool) -> (Admission, Notes) {
    handle_of(Notes::default(), patience, is_quiet).await
}

async fn handle_of(notes: Notes, patience: Option<Duration>, is_quiet: bool) -> (Admission, Notes) {
    let builder = Admission::builder().limit(Limit::per_sample(notes.clone()));
    let admission = patience.into_iter().fold(builder, |builder, it| builder.patience(it)).build().unwrap();
    let layer = AdmissionLayer::new(&admission);
    for _ in 0..if is_quiet { 50 } else { 0 } {
        let answer =
            service_fn(async |_: Request<Empty<Bytes>>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())));
        drop(layer.layer(answer).oneshot(Request::new(Empty::new())).await.unwrap());
    }
    notes.take(&admission);
    (admission, notes)
}

/// An answer whose head takes 20 ms, and whose body is a number of frames, 100 ms each.
async fn call(
    admission: &Admission,
    sample_at: Option<SampleAt>,
    head: u64,
    frames: u32,
) -> Response<impl http_body::Body<Data = Bytes> + use<>> {
    let answer = service_fn(move |_: Request<Empty<Bytes>>| async move {
        sleep(Duration::from_millis(head)).await;
        let pieces = stream::unfold(0, move |sent| async move {
            sleep(Duration::from_millis(100)).await;
            (sent < frames).then(|| (Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"piece"))), sent + 1))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(pieces))))
    });
    let layer = AdmissionLayer::new(admission);
    let layer = sample_at.into_iter().fold(layer, |layer, at| layer.policy(Policy::new().sample_at(at)));
    layer.layer(answer).oneshot(Request::new(Empty::new())).await.unwrap()
}

async fn read<B: http_body::Body<Data = Bytes>>(answer: Response<B>, frames: u32) -> impl Sized {
    let mut body = Box::pin(answer.into_body());
    for _ in 0..frames {
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    }
    body
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_in_time_is_learned_as_a_whole_and_its_head_where_no_deadline_is_known() {
    for is_quiet in [false, true] {
        for (patience, sample_at, learned) in [
            (Some(PATIENCE), None, 320),
            (Some(PATIENCE), Some(SampleAt::BodyEndOrDeadline), 320),
            (Some(PATIENCE), Some(SampleAt::ResponseHead), 20),
            (None, None, 20),
            (None, Some(SampleAt::BodyEnd), 320),
        ] {
            let (admission, notes) = handle(patience, is_quiet).await;
            assert_eq!(notes.0.lock().unwrap().1, patience);
            let answer = call(&admission, sample_at, 20, 2).await;
            answer.into_body().collect().await.ok();
            assert_eq!(
                notes.take(&admission),
                [(learned, Outcome::Success)],
                "{patience:?}, {sample_at:?}, {is_quiet}"
            );
            assert_eq!(admission.snapshot().in_flight, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_learned_at_the_deadline_of_a_caller_that_is_still_there_and_is_no_late_answer() {
    for is_quiet in [false, true] {
        let (admission, notes) = handle(Some(PATIENCE), is_quiet).await;
        let body = read(call(&admission, None, 20, 1_000).await, 9).await;
        assert_eq!(notes.take(&admission), [], "920 ms after it came");
        drop(body);
        assert_eq!(notes.take(&admission), [(920, Outcome::Success)], "its caller has left");

        let body = read(call(&admission, None, 20, 1_000).await, 30).await;
        assert_eq!(notes.take(&admission), [(1_000, Outcome::Success)], "a second after it came, between two frames");
        assert_eq!(admission.snapshot().in_flight, 1, "its slot is held");
        let other = call(&admission, None, 20, 0).await;
        other.into_body().collect().await.ok();
        assert_eq!(notes.take(&admission), [(120, Outcome::Success)]);
        drop(body);
        assert_eq!((notes.take(&admission), admission.snapshot().in_flight), (vec![], 0), "once is enough");
        assert_eq!(admission.snapshot().partitions[0].cancelled, 0);
    }
}

/// Answers that outlast their callers have slots on top of the limit, and samples leave them out. The control: a policy by which a
/// body counts from its head on.
#[tokio::test(start_paused = true)]
async fn streams_that_outlast_their_callers_take_no_slots_of_the_limit() {
    for (is_quiet, sample_at) in [false, true].map(|it| [(it, None), (it, Some(SampleAt::ResponseHead))]).as_flattened()
    {
        let (admission, notes) = handle(Some(PATIENCE), *is_quiet).await;
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(read(call(&admission, *sample_at, 20, 1_000).await, 11).await);
        }
        drop(admission.snapshot());
        notes.0.lock().unwrap().0.clear();
        let counts = async || {
            call(&admission, None, 20, 0).await.into_body().collect().await.ok();
            let limit = admission.snapshot().limit;
            // Heads of streams may be heard of later; a call takes 120 ms.
            let samples = std::mem::take(&mut notes.0.lock().unwrap().0);
            let sample = samples.iter().find(|it| it.rtt == Some(Duration::from_millis(120))).unwrap();
            (limit, sample.answering, sample.running, sample.in_flight)
        };
        for left in (0..4).rev() {
            let expected = if sample_at.is_none() { (10 + left, 0, 1, 1) } else { (10, left, left + 1, left + 1) };
            assert_eq!(counts().await, expected, "{is_quiet}, {sample_at:?}");
            drop(streams.pop());
        }
    }
}

/// Streams that send nothing after their heads, each read by a task of its own.
fn fill_with_silent_streams(admission: &Admission, count: usize) -> JoinSet<()> {
    let stream = |admission: Admission| async move {
        let answer = service_fn(async |_: Request<Empty<Bytes>>| {
            Ok::<_, Infallible>(Response::new(StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>())))
        });
        let answer = AdmissionLayer::new(&admission).layer(answer).oneshot(Request::new(Empty::new())).await.unwrap();
        assert!(answer.status().is_success());
        answer.into_body().collect().await.ok();
    };
    (0..count).map(|_| stream(admission.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_server_full_of_silent_streams_serves_calls_once_these_outlast_their_callers() {
    let admission = Admission::builder().patience(PATIENCE).build().unwrap();
    let streams = fill_with_silent_streams(&admission, 20);
    sleep(PATIENCE * 9 / 10).await;
    assert!(admission.try_admit(Ticket::new()).is_err(), "they may be answers that come slowly");
    sleep(PATIENCE / 5).await;
    assert!(admission.try_admit(Ticket::new()).is_ok());
    let most = Admission::builder().patience(PATIENCE).limit(TwoPoint::new().max(20)).build().unwrap();
    let (all, _full) = (most.snapshot().limit, fill_with_silent_streams(&most, 20));
    sleep(PATIENCE * 2).await;
    assert!(all == 20 && most.try_admit(Ticket::new()).is_err(), "the largest limit bounds these as well");
    drop(streams);
    sleep(PATIENCE).await;
    assert_eq!(admission.snapshot().in_flight, 0);
}

#[test]
fn a_silent_stream_does_no_harm_in_a_runtime_without_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let admission = Admission::builder().patience(PATIENCE).build().unwrap();
        let answer = service_fn(async |_: Request<Empty<Bytes>>| {
            Ok::<_, Infallible>(Response::new(StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>())))
        });
        let answer = AdmissionLayer::new(&admission).layer(answer).oneshot(Request::new(Empty::new())).await.unwrap();
        assert!(poll_immediate(Box::pin(answer.into_body()).frame()).await.is_none());
        assert_eq!(admission.snapshot().in_flight, 0, "and its slot is free once it is dropped");
    });
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_slot_that_a_stream_leaves_to_calls() {
    for is_quiet in [false, true] {
        let (admission, _) = handle(Some(PATIENCE), is_quiet).await;
        let _streams = fill_with_silent_streams(&admission, 10);
        sleep(PATIENCE * 9 / 10).await;
        assert_eq!((admission.snapshot().in_flight, admission.snapshot().limit), (10, 10), "{is_quiet}");
        let began = Instant::now();
        let waiter = admission.admit(Ticket::new()).await;
        assert!(waiter.is_ok() && began.elapsed() < PATIENCE / 5, "{is_quiet}: {waiter:?}, {:?}", began.elapsed());
        assert_eq!(admission.snapshot().in_flight, 11);
    }
}

#[tokio::test(start_paused = true)]
async fn slots_on_top_of_a_limit_come_and_go_with_the_law_of_a_reload() {
    let (admission, _) = handle(Some(PATIENCE), false).await;
    let _streams = fill_with_silent_streams(&admission, 5);
    sleep(PATIENCE * 2).await;
    for (hears_heads, limit) in [(false, 15), (true, 10), (false, 15)] {
        let law = Limit::per_sample(Notes(Arc::default(), hears_heads));
        admission.reload(Admission::builder().limit(law).patience(PATIENCE)).unwrap();
        assert_eq!(admission.snapshot().limit, limit);
    }
}

/// What a waiter needs time for is the head of its answer.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_not_refused_because_bodies_take_longer_than_it_has() {
    let admitted = async |sample_at| {
        let admission = Admission::builder().limit(Fixed::new(1)).patience(PATIENCE).build().unwrap();
        for _ in 0..20 {
            call(&admission, sample_at, 20, 2).await.into_body().collect().await.ok();
        }
        let running = admission.try_admit(Ticket::new()).unwrap();
        let waiting = [(); 2].map(|()| {
            let admission = admission.clone();
            tokio::spawn(async move { call(&admission, sample_at, 20, 0).await.status() })
        });
        sleep(Duration::from_millis(700)).await;
        drop(running);
        let [first, second] = waiting;
        let answers = [first.await.unwrap(), second.await.unwrap()];
        answers.into_iter().filter(|status| status.is_success()).count()
    };
    assert_eq!(admitted(None).await, 2, "300 ms are left, and a head takes 20");
    // The control: where a whole body is what callers wait for.
    assert_eq!(admitted(Some(SampleAt::BodyEnd)).await, 1, "the last one that waits is served");
}

#[tokio::test(start_paused = true)]
async fn a_law_hears_of_the_patience_of_a_reload() {
    let (admission, notes) = handle(None, false).await;
    for patience in [Some(PATIENCE), Some(PATIENCE * 2), None] {
        let builder = Admission::builder().limit(Limit::per_sample(notes.clone()));
        admission.reload(patience.into_iter().fold(builder, |builder, it| builder.patience(it))).unwrap();
        assert_eq!(notes.0.lock().unwrap().1, patience);
    }
}

/// The control: what is late is late, whatever its body does.
#[tokio::test(start_paused = true)]
async fn a_head_that_comes_after_the_deadline_is_learned_at_once_as_no_answer() {
    for is_quiet in [false, true] {
        let (admission, notes) = handle(Some(PATIENCE), is_quiet).await;
        let answer = call(&admission, None, 1_500, 10).await;
        assert_eq!(notes.take(&admission), [(1_500, Outcome::Cancelled)]);
        answer.into_body().collect().await.ok();
        assert_eq!(notes.take(&admission), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_law_that_does_not_ask_for_hold_times_hears_of_heads_unless_a_policy_asks() {
    for is_quiet in [false, true] {
        for (sample_at, learned) in [(None, 20), (Some(SampleAt::BodyEndOrDeadline), 320)] {
            let (admission, notes) = handle_of(Notes(Arc::default(), true), Some(PATIENCE), is_quiet).await;
            call(&admission, sample_at, 20, 2).await.into_body().collect().await.ok();
            assert_eq!(notes.take(&admission), [(learned, Outcome::Success)], "{sample_at:?}, {is_quiet}");
            upload(&admission, None, 500).await.unwrap();
            assert_eq!(notes.take(&admission), [], "an upload says nothing to it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_law_is_asked_anew_at_each_reload_and_a_request_half_way_is_not_late() {
    for is_quiet in [false, true] {
        let (admission, _) = handle(Some(PATIENCE), is_quiet).await;
        for hears_heads in [true, false, true] {
            let half_way = read(call(&admission, None, 20, 1_000).await, 2).await;
            let notes = Notes(Arc::default(), hears_heads);
            let builder = Admission::builder().limit(Limit::per_sample(notes.clone())).patience(PATIENCE);
            admission.reload(builder).unwrap();
            call(&admission, None, 20, 2).await.into_body().collect().await.ok();
            let learned = if hears_heads { 20 } else { 320 };
            assert_eq!(notes.take(&admission), [(learned, Outcome::Success)], "{hears_heads}, {is_quiet}");
            sleep(PATIENCE * 2).await;
            drop(half_way);
            let late = notes.take(&admission).iter().filter(|(_, outcome)| *outcome != Outcome::Success).count();
            assert_eq!((late, admission.snapshot().in_flight), (0, 0), "{hears_heads}, {is_quiet}");
        }
    }
}

/// The limit after 400 answers with heads of 20 ms, whose readers take 900 ms.
async fn limit_after_slow_readers(law: impl Into<Limit>, sample_at: Option<SampleAt>) -> usize {
    let admission = Admission::builder().limit(law).patience(PATIENCE).build().unwrap();
    for _ in 0..50 {
        let readers = (0..8).map(|_| async {
            call(&admission, sample_at, 20, 8).await.into_body().collect().await.ok();
        });
        join_all(readers).await;
    }
    admission.snapshot().limit
}

#[tokio::test(start_paused = true)]
async fn slow_readers_lower_no_limit_that_follows_a_threshold() {
    let aimd = || Aimd::new(Duration::from_millis(100)).initial(20).max(20);
    assert_eq!(limit_after_slow_readers(aimd(), None).await, 20);
    assert!(limit_after_slow_readers(aimd(), Some(SampleAt::BodyEndOrDeadline)).await < 10, "the control");
    assert!(TwoPoint::new().learns_hold_times() && Windowed::new(TwoPoint::new()).learns_hold_times());
}

/// A request with a large body, whose answer, empty or of some bytes, takes so many milliseconds.
async fn upload(admission: &Admission, sample_at: Option<SampleAt>, head: u64) -> Result<(), Infallible> {
    let answer = service_fn(move |_: Request<Full<Bytes>>| async move {
        sleep(Duration::from_millis(head)).await;
        let answer = if head.is_multiple_of(200) { "stored" } else { "" };
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(answer.as_bytes()))))
    });
    let mut request = Request::post("/").body(Full::new(Bytes::from(vec![0; 70_000]))).unwrap();
    if let Some(at) = sample_at {
        request.extensions_mut().insert(Policy::new().sample_at(at));
    }
    let answer = AdmissionLayer::new(admission).layer(answer).oneshot(request).await?;
    answer.into_body().collect().await.ok();
    Ok(())
}

/// How long an upload takes is up to its caller: it is no reason to call a request late, and it holds a slot.
#[tokio::test(start_paused = true)]
async fn a_large_upload_is_learned_for_as_long_as_it_took_and_is_never_late() {
    for is_quiet in [false, true] {
        for (patience, sample_at, head, learned) in [
            (Some(PATIENCE), None, 500, vec![(500, Outcome::Success)]),
            (Some(PATIENCE), None, 600, vec![(600, Outcome::Success)]),
            (Some(PATIENCE), None, 1_500, vec![(1_500, Outcome::Success)]),
            (Some(PATIENCE), None, 1_600, vec![(1_600, Outcome::Success)]),
            (Some(PATIENCE), Some(SampleAt::ResponseHead), 1_500, vec![(1_500, Outcome::Cancelled)]),
            (Some(PATIENCE), Some(SampleAt::OverloadOnly), 500, vec![]),
            (None, None, 500, vec![]),
            (None, None, 600, vec![]),
        ] {
            let (admission, notes) = handle(patience, is_quiet).await;
            upload(&admission, sample_at, head).await.unwrap();
            let case = format!("{patience:?}, {sample_at:?}, {head}, {is_quiet}");
            assert_eq!(notes.take(&admission), learned, "{case}");
            assert_eq!(admission.snapshot().in_flight, 0, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_upload_that_is_given_up_says_nothing() {
    for is_quiet in [false, true] {
        let (admission, notes) = handle(Some(PATIENCE), is_quiet).await;
        let given_up = tokio::time::timeout(Duration::from_millis(900), upload(&admission, None, 5_000)).await;
        assert!(given_up.is_err());
        sleep(PATIENCE * 3).await;
        assert_eq!(notes.take(&admission), []);
        assert_eq!(admission.snapshot().in_flight, 0);
    }
}
