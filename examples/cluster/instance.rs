//! One instance: an axum server as it would stand in production, but for what its handler does.

use std::{sync::Arc, time::Duration};

use axum::{Router, routing::get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower_admission::{
    Admission, AdmissionLayer, ClassLimits, Rules, Ticket,
    classify::RequestHead,
    limit::Fixed,
    store::{AfterRestart, Keys, Leases, RedisStore},
};

use crate::{BoxError, CAP};

/// Serves until it is killed. Told the port of Redis, the port of the witness, and whether the cap is shared; says on its
/// output which port it serves.
pub(crate) async fn serve(mut told: impl Iterator<Item = String>) -> Result<(), BoxError> {
    let mut next = || told.next().ok_or("the ports of Redis and of the witness, and shared or alone");
    let (redis, witness, shared): (u16, u16, bool) = (next()?.parse()?, next()?.parse()?, next()? == "shared");

    let keys = Keys::new("cluster")?;
    let store = RedisStore::builder(&format!("redis://127.0.0.1:{redis}/"), keys.clone())
        // It is not a restart: this server is new.
        .after_restart(AfterRestart::Grant)
        .timeout(Duration::from_secs(1))
        .build()?;
    let mut admission = Admission::builder()
        .limit(Fixed::new(200))
        .queue(1_000)
        .max_wait(Duration::from_secs(30))
        .rules(Rules::new().default_limits(ClassLimits::new().max_in_flight(CAP as usize)));
    if shared {
        admission = admission.shared(Leases::builder().build(Arc::new(store)), keys);
    }
    let tenant = http::HeaderName::from_static("x-tenant");
    let layer =
        AdmissionLayer::new(&admission.build()?).classify(move |head: &RequestHead<'_>, ticket: &mut Ticket<'_>| {
            if let Some(tenant) = head.header(&tenant) {
                ticket.set_label(tenant.to_owned());
            }
        });
    let app = Router::new().route("/work", get(async move || work(witness).await)).route_layer(layer);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    axum::serve(listener, app).await?;
    Ok(())
}

/// Half a second of work, of which the witness knows.
async fn work(witness: u16) -> Result<&'static str, String> {
    let told = async {
        let mut witness = TcpStream::connect(("127.0.0.1", witness)).await?;
        witness.write_all(b"+").await?;
        witness.read_u8().await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        witness.write_all(b"-").await?;
        witness.read_u8().await?;
        Ok::<_, std::io::Error>("done")
    };
    told.await.map_err(|error| error.to_string())
}
