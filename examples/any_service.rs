//! Admission for a tower service that is not HTTP: rejected requests get a typed error.
//!
//! ```text
//! cargo run --release --example any_service
//! ```

use std::{convert::Infallible, time::Duration};

use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_admission::{Admission, AdmissionLayer, Ticket, generic::AdmissionError, limit::Fixed};

struct Job {
    tenant: &'static str,
    number: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let admission = Admission::builder().limit(Fixed::new(2)).queue(1).admission_timeout(Duration::ZERO).build()?;
    let layer = AdmissionLayer::new(&admission)
        .generic()
        .classify(|job: &Job, ticket: &mut Ticket<'_>| ticket.set_partition(job.tenant));

    let service = ServiceBuilder::new().layer(layer).service(service_fn(async |job: Job| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok::<_, Infallible>(job.number)
    }));

    // Four at once: two run, one waits for its turn, one is turned away.
    let jobs = (1..=4).map(|number| service.clone().oneshot(Job { tenant: "acme", number }));
    for answer in futures_util::future::join_all(jobs).await {
        match answer {
            Ok(number) => println!("job {number} is done"),
            Err(AdmissionError::Rejected(rejection)) => {
                println!("{rejection}; come back in {:?}", rejection.retry_after())
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut service = service;
    assert_eq!(service.ready().await?.call(Job { tenant: "acme", number: 5 }).await?, 5);
    Ok(())
}
