//! The calls: nine short ones for each stream, and one stream in five has a slow reader.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arrow_flight::{FlightDescriptor, Ticket, flight_service_client::FlightServiceClient};
use load::Outcome;
use tokio::time::sleep;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::server::BATCHES;

/// Units of work of a call on average: nine calls of one, and a stream.
pub(crate) const MEAN: f64 = 1.9;

/// How many connections carry the calls.
const CONNECTIONS: u64 = 16;

/// How long a slow reader does something else after each batch.
const PAUSE: Duration = Duration::from_millis(20);

/// What all callers of a run share.
pub(crate) struct Client(Vec<FlightServiceClient<Channel>>);

/// A window of one batch for each stream, and a connection that is never full because of one of them.
pub(crate) async fn connect(_: &'static str, address: SocketAddr) -> Client {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address is a URL");
        let endpoint = endpoint.initial_stream_window_size(1 << 16).initial_connection_window_size(1 << 26);
        clients.push(FlightServiceClient::new(endpoint.connect().await.expect("the server listens")));
    }
    Client(clients)
}

/// One call.
pub(crate) async fn call(client: Arc<Client>, number: u64) -> Outcome {
    // The next ten go by the next connection, so that each carries calls and streams.
    let connection = usize::try_from(number / 10 % CONNECTIONS).unwrap_or_default();
    let mut client = client.0[connection].clone();
    let ended = if number.is_multiple_of(10) {
        read(client, number.is_multiple_of(50)).await
    } else {
        client.get_flight_info(FlightDescriptor::new_cmd("short")).await.map(|_| 1)
    };
    match ended.as_ref().map_err(Status::code) {
        Ok(&work) => Outcome::InTime(work),
        Err(Code::ResourceExhausted) => Outcome::Refused,
        Err(_) => Outcome::Failed,
    }
}

/// Reads a stream to its end.
async fn read(mut client: FlightServiceClient<Channel>, slowly: bool) -> Result<u64, Status> {
    let mut batches = client.do_get(Ticket::new("long")).await?.into_inner();
    let mut read = 0;
    while batches.message().await?.is_some() {
        read += 1;
        if slowly {
            sleep(PAUSE).await;
        }
    }
    if read == BATCHES { Ok(read) } else { Err(Status::data_loss("a stream that ended early")) }
}
