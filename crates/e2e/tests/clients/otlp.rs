//! An exporter of OpenTelemetry: it keeps a batch that was refused if it is told when to retry, and drops it otherwise.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use admission_testkit::eventually;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use otlp_api::trace::{Tracer, TracerProvider};
use otlp_sdk::trace::SdkTracerProvider;
use tonic::{Request, Response, Status};
use tower_admission::{Admission, Ticket, limit::Fixed};

use super::serve;

/// Counts the spans that are delivered.
struct Collector(Arc<AtomicUsize>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.into_inner().resource_spans.into_iter().flat_map(|it| it.scope_spans);
        self.0.fetch_add(spans.map(|it| it.spans.len()).sum(), Ordering::SeqCst);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_batch_is_kept_and_delivered_later() {
    const SPANS: usize = 10;
    // The control: without the details, the batch is lost.
    for (with_details, expected) in [(true, SPANS), (false, 0)] {
        let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
        let held = admission.try_admit(Ticket::new()).unwrap();
        let delivered = Arc::new(AtomicUsize::new(0));
        let service = TraceServiceServer::new(Collector(Arc::clone(&delivered)));
        let (address, _) = serve(&admission, service, with_details).await;
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(format!("http://{address}")).build().unwrap();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
        let tracer = provider.tracer("test");
        (0..SPANS).for_each(|_| drop(tracer.start("span")));
        let flushed = tokio::task::spawn_blocking(move || {
            let flushed = provider.force_flush();
            drop(provider);
            flushed
        });
        eventually("the batch is refused", || admission.snapshot().rejected() > 0).await;
        drop(held);
        let flushed = flushed.await.unwrap();
        assert_eq!((delivered.load(Ordering::SeqCst), flushed.is_ok()), (expected, with_details), "{flushed:?}");
    }
}
