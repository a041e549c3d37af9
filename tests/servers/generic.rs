//! Services that are not HTTP, among layers that box their errors.

use std::{convert::Infallible, error::Error, fmt, io, time::Duration};

use http::Request;
use tokio::time::advance;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn, timeout::error::Elapsed};
use tower_admission::{
    Admission, AdmissionLayer, Outcome, Reason, Rejection, Ticket,
    classify::classify_fn,
    generic::{AdmissionError, classify_request_fn},
    limit::Fixed,
};

use crate::support::bounded;

const LONG: Duration = Duration::from_secs(30);

fn handle() -> Admission {
    Admission::builder().limit(Fixed::new(1)).shed().build().unwrap()
}

/// What fails with a source.
#[derive(Debug)]
struct Broken(io::Error);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

impl Error for Broken {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Answers 1, fails for 0, and takes for ever otherwise.
async fn work(number: u32) -> Result<u32, BoxError> {
    match number {
        0 => Err(Box::new(Broken(io::Error::other("deep")))),
        1 => Ok(1),
        _ => std::future::pending().await,
    }
}

/// As a caller who only knows boxed errors.
async fn ask<S>(service: S, number: u32) -> Result<u32, BoxError>
where
    S: Service<u32, Response = u32, Error: Into<BoxError>>,
{
    bounded("the answer", service.oneshot(number)).await.map_err(Into::into)
}

type Ours = AdmissionError<BoxError>;

#[tokio::test]
async fn boxed_errors_pass_timeouts_buffers_and_question_marks() {
    let admission = handle();
    let service = ServiceBuilder::new()
        .buffer(4)
        .timeout(LONG)
        .layer(AdmissionLayer::new(&admission).generic())
        .timeout(Duration::from_millis(20))
        .service(service_fn(work));
    assert_eq!(ask(service.clone(), 1).await.unwrap(), 1);

    let broken = ask(service.clone(), 0).await.unwrap_err();
    assert_eq!(broken.to_string(), "broken", "it reads as the error of the service");
    assert_eq!(broken.source().unwrap().to_string(), "deep");
    let Some(Ours::Inner(inner)) = broken.downcast_ref() else { panic!("{broken:?}") };
    assert!(inner.is::<Broken>());

    let late = ask(service.clone(), 2).await.unwrap_err();
    let Some(Ours::Inner(inner)) = late.downcast_ref() else { panic!("{late:?}") };
    assert!(inner.is::<Elapsed>(), "of the timeout inside");

    let permit = admission.try_admit(Ticket::new()).unwrap();
    let rejected = ask(service.clone(), 1).await.unwrap_err();
    let Some(Ours::Rejected(rejection)) = rejected.downcast_ref() else { panic!("{rejected:?}") };
    assert_eq!(Rejection::find(&*rejected), Some(rejection), "found where the type of the error is not known");
    assert_eq!(rejection.reason(), Reason::Limit);
    assert!(rejected.source().is_some_and(|source| source.is::<Rejection>()), "{rejected}");
    drop(permit);

    // The same without layers around it.
    let plain = AdmissionLayer::new(&admission).generic();
    let plain = ServiceBuilder::new().layer(plain).service(service_fn(work));
    let question: Result<u32, BoxError> = async { Ok(plain.oneshot(0).await?) }.await;
    assert_eq!(question.unwrap_err().source().unwrap().to_string(), "deep");
}

/// The control: errors of a type of their own keep it.
#[tokio::test]
async fn typed_errors_stay_typed() {
    let layer = AdmissionLayer::new(&handle()).generic();
    let service = ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(async |_: u32| Err::<u32, _>(Broken(io::Error::other("deep")))));
    let error = service.clone().oneshot(1).await.unwrap_err();
    let AdmissionError::Inner(Broken(deep)) = &error else { panic!("{error:?}") };
    assert_eq!((error.to_string(), deep.to_string()), ("broken".to_owned(), "deep".to_owned()));
    let boxed = ask(service, 1).await.unwrap_err();
    assert!(boxed.is::<AdmissionError<Broken>>());
}

struct Job {
    tenant: String,
}

/// The classifiers are all that sets the label.
#[tokio::test]
async fn closures_that_borrow_from_the_request_classify() {
    let admission = handle();
    let layer = AdmissionLayer::new(&admission)
        .generic()
        .classify(classify_request_fn(|job: &Job, ticket| ticket.set_label(&job.tenant)));
    let service = ServiceBuilder::new().layer(layer).service(service_fn(async |_: Job| Ok::<_, Infallible>(())));
    service.oneshot(Job { tenant: "one".to_owned() }).await.unwrap();

    fn tenant<B>(request: &Request<B>) -> Option<&str> {
        request.headers().get("x-tenant").and_then(|tenant| tenant.to_str().ok())
    }
    let layer = AdmissionLayer::new(&admission).generic().classify(classify_request_fn(
        |request: &Request<String>, ticket: &mut Ticket<'_>| {
            if let Some(tenant) = tenant(request) {
                ticket.set_label(tenant);
            }
        },
    ));
    let answer = async |_: Request<String>| Ok::<_, Infallible>(http::Response::new(String::new()));
    let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    let request = |tenant| Request::builder().header("x-tenant", tenant).body(String::new()).unwrap();
    service.oneshot(request("two")).await.unwrap();

    // Nothing but what the header says, without a copy.
    let layer = AdmissionLayer::new(&admission).classify(classify_fn(|request, ticket| {
        if let Some(tenant) = request.headers().get("x-tenant").and_then(|tenant| tenant.to_str().ok()) {
            ticket.set_label(tenant);
        }
    }));
    let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    drop(service.oneshot(request("three")).await.unwrap());

    for label in ["one", "two", "three"] {
        assert_eq!(admission.label("", label).map(|label| label.admitted), Some(1), "{label}");
    }
}

/// A request of any type that is given up holds its slot for as long as its work may go on, where that is said: a second, as
/// long as nothing is known of such work.
#[tokio::test(start_paused = true)]
async fn work_that_goes_on_keeps_its_slot() {
    for goes_on in [true, false] {
        let admission = handle();
        let layer = AdmissionLayer::new(&admission).generic().abandoned_goes_on(goes_on);
        let service = ServiceBuilder::new().layer(layer.assess(|_: Result<&u32, &BoxError>| Outcome::Success));
        let service = service.service(service_fn(work));
        assert!(ask(service.clone(), 1).await.is_ok());
        assert_eq!(admission.snapshot().in_flight, 0, "an answer frees the slot");

        let impatient = tokio::time::timeout(Duration::from_millis(10), service.clone().oneshot(2));
        impatient.await.unwrap_err();
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.abandoned), if goes_on { (1, 1) } else { (0, 0) });
        advance(Duration::from_millis(980)).await;
        assert_eq!(ask(service.clone(), 1).await.is_err(), goes_on, "within the second");
        advance(Duration::from_millis(10)).await;
        assert!(ask(service.clone(), 1).await.is_ok(), "after it");
        assert_eq!((admission.snapshot().in_flight, admission.snapshot().abandoned), (0, 0));
    }
}
