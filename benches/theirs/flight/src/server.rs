//! A server of Arrow Flight whose calls and streams share four slots, in all variants.

use std::{error::Error, time::Duration};

use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
    flight_service_server::{FlightService, FlightServiceServer},
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use load::{Meter, Slots};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming, async_trait, transport::Server};
use tower::{ServiceBuilder, limit::GlobalConcurrencyLimitLayer, load_shed::LoadShedLayer};

use crate::glue::{best, bodies, front};

/// How many batches the storage reads at once.
const SLOTS: usize = 4;

/// How long that takes for one.
const WORK: Duration = Duration::from_millis(5);

/// Batches in a second. A short call is as much work as one.
pub(crate) const CAPACITY: f64 = 800.0;

/// Batches of a stream.
pub(crate) const BATCHES: u64 = 10;

/// Bytes of a batch.
const BATCH: usize = 64 * 1024;

/// How long callers wait, for a whole stream, too.
pub(crate) const DEADLINE: Duration = WORK.saturating_mul(100);

/// How many calls and streams may be inside before they slow each other down.
const INSIDE: u64 = 16;

/// A fixed number of calls at once: the best of 6, 8, 12 and 16 in short runs under the load of the table.
const TOWER: usize = 8;

type Calls<T> = Result<Response<T>, Status>;
type Stream<T> = BoxStream<'static, Result<T, Status>>;

struct Storage {
    slots: Slots,
    meter: Meter,
}

#[async_trait]
impl FlightService for Storage {
    type HandshakeStream = Stream<HandshakeResponse>;
    type ListFlightsStream = Stream<FlightInfo>;
    type DoGetStream = Stream<FlightData>;
    type DoPutStream = Stream<PutResult>;
    type DoExchangeStream = Stream<FlightData>;
    type DoActionStream = Stream<ActionResult>;
    type ListActionsStream = Stream<ActionType>;

    /// The short call.
    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Calls<FlightInfo> {
        let _running = self.meter.enter();
        self.slots.work().await;
        Ok(Response::new(FlightInfo::new().with_total_records(1)))
    }

    /// The stream: each batch is read when its reader has room for it.
    async fn do_get(&self, _: Request<Ticket>) -> Calls<Self::DoGetStream> {
        let (running, slots) = (self.meter.enter(), self.slots.clone());
        let batches = stream::unfold((BATCHES, running, slots), async |(left, running, slots)| {
            let left = left.checked_sub(1)?;
            slots.work().await;
            Some((Ok(FlightData::new().with_data_body(vec![0; BATCH])), (left, running, slots)))
        });
        Ok(Response::new(batches.boxed()))
    }

    async fn handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> Calls<Self::HandshakeStream> {
        Err(not_here())
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Calls<Self::ListFlightsStream> {
        Err(not_here())
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Calls<PollInfo> {
        Err(not_here())
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Calls<SchemaResult> {
        Err(not_here())
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Calls<Self::DoPutStream> {
        Err(not_here())
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Calls<Self::DoExchangeStream> {
        Err(not_here())
    }

    async fn do_action(&self, _: Request<Action>) -> Calls<Self::DoActionStream> {
        Err(not_here())
    }

    async fn list_actions(&self, _: Request<Empty>) -> Calls<Self::ListActionsStream> {
        Err(not_here())
    }
}

fn not_here() -> Status {
    Status::unimplemented("no caller of this comparison needs it")
}

/// Serves a variant until the parent process has enough.
pub(crate) async fn serve(kind: &str) -> Result<(), Box<dyn Error>> {
    let meter = Meter::default();
    let service = Storage { slots: Slots::new(SLOTS, WORK, INSIDE, &meter), meter: meter.clone() };
    let service = FlightServiceServer::new(service);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let incoming = TcpListenerStream::new(listener);
    let server = match kind {
        "bare" => tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming)),
        "tower" => {
            let limit = GlobalConcurrencyLimitLayer::new(TOWER);
            let layer = ServiceBuilder::new().layer(LoadShedLayer::new()).layer(limit);
            tokio::spawn(Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming))
        }
        "patience" => {
            let layer = front(DEADLINE)?;
            tokio::spawn(Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming))
        }
        "bodies" => {
            let layer = bodies(DEADLINE)?;
            tokio::spawn(Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming))
        }
        "best" => {
            let layer = best(DEADLINE, 8, 8 * WORK)?;
            tokio::spawn(Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming))
        }
        _ => return Err(format!("there is no variant {kind:?}").into()),
    };
    load::serve(address, &meter).await;
    server.abort();
    Ok(())
}
