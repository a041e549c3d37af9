//! The metrics through OpenTelemetry's own SDK, by way of a recorder for it: what arrives there is what the handle says.

use std::collections::BTreeMap;

use metrics_exporter_otel::OpenTelemetryRecorder;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData, ResourceMetrics},
};
use tower_admission::{Admission, Outcome, Ticket, limit::Fixed, percent};

/// Values by name and attributes; of histograms how many were recorded.
fn values(exported: &[ResourceMetrics]) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let metrics = exported.last().unwrap().scope_metrics().flat_map(|scope| scope.metrics());
    for metric in metrics {
        let mut add = |attributes: &mut dyn Iterator<Item = &opentelemetry::KeyValue>, value: f64| {
            let mut of: Vec<_> = attributes.map(|it| format!("{}={}", it.key, it.value)).collect();
            of.sort_unstable();
            values.insert(format!("{}{{{}}}", metric.name(), of.join(",")), value);
        };
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().for_each(|it| add(&mut it.attributes(), it.value() as f64));
            }
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                gauge.data_points().for_each(|it| add(&mut it.attributes(), it.value()));
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                histogram.data_points().for_each(|it| add(&mut it.attributes(), it.count() as f64));
            }
            other => panic!("{}: {other:?}", metric.name()),
        }
    }
    values
}

#[test]
fn counters_gauges_and_histograms_arrive_in_opentelemetry() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    let recorder = OpenTelemetryRecorder::new(provider.meter("tower-admission"));
    let admission =
        Admission::builder().name("otel").limit(Fixed::new(3)).shed().partition("web", percent(50)).build().unwrap();
    let mut held = Vec::new();
    // Published again and again, as a handle does: what was told before is not told twice.
    for round in 1..=3 {
        for _ in 0..4 {
            admission.try_admit(Ticket::new().partition("web")).unwrap().finish(Outcome::Success);
        }
        held.push(admission.try_admit(Ticket::new()).unwrap());
        if round == 3 {
            admission.try_admit(Ticket::new()).unwrap_err();
        }
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        provider.force_flush().unwrap();
    }
    let values = values(&exporter.get_finished_metrics().unwrap());
    let of = |name: &str, part: &str| {
        let found = values.iter().filter(|(key, _)| key.starts_with(&format!("{name}{{")) && key.contains(part));
        found.map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!(of("admission_limit", "limiter=otel"), 3.0);
    assert_eq!(of("admission_in_flight", "partition=default"), 3.0);
    assert_eq!(of("admission_admitted_total", "partition=web"), 12.0);
    assert_eq!(of("admission_admitted_total", "partition=default"), 3.0);
    assert_eq!(of("admission_rejected_total", "partition=default"), 1.0);
    assert_eq!(of("admission_rtt_seconds", "partition=web"), 12.0);
    assert_eq!(of("admission_rejected_total", "partition=web"), 0.0, "control: nothing of the kind happened");
}
