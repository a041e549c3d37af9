//! The file server, on one core.

use std::{path::Path, sync::atomic::Ordering::Relaxed, time::Duration};

use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use load::{Counters, Meter, serve_then};
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tower::{BoxError, Layer, Service};

use crate::{AT_ONCE, DEADLINE, TOWER, VARIANTS, counted::Counted, glue};

/// After the load, slots have this long to come back. A slot of work that may go on comes back within the first.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves the files of a folder until standard input ends.
pub(crate) async fn be_server(variant: &str, folder: &str) {
    let files = FileSystem::new(Path::new(folder)).expect("the folder is there");
    let meter = Meter::default();
    let counted = Counted::new(S3ServiceBuilder::new(files).build(), meter.clone());
    let highest_limit = counted.highest_limit();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (admission, layer) = match variant {
        "bare" => {
            accept(listener, counted);
            return serve_then(address, async || meter.counters()).await;
        }
        "tower" => {
            accept(listener, glue::tower(counted, TOWER));
            return serve_then(address, async || meter.counters()).await;
        }
        "patience" => glue::patience(DEADLINE).expect("valid settings"),
        "bodies" => glue::bodies(DEADLINE).expect("valid settings"),
        "best" => glue::best(DEADLINE, AT_ONCE).expect("valid settings"),
        _ => panic!("{variant} is none of {VARIANTS:?}"),
    };
    accept(listener, layer.layer(counted.watch(admission.clone())));
    let look = async || {
        let begin = Instant::now();
        while admission.snapshot().in_flight > 0 && begin.elapsed() < PATIENCE {
            sleep(Duration::from_millis(10)).await;
        }
        let (held, limit) = (admission.snapshot().in_flight as u64, highest_limit.load(Relaxed));
        Counters { held: Some(held), limit: Some(limit), ..meter.counters() }
    };
    serve_then(address, look).await;
}

/// Accepts connections, each of which shares the service.
fn accept<S, B>(listener: TcpListener, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
}
