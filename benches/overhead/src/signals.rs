//! What it costs that one can see what happens: the same layers with no signals, with the journal, and with all of them.

use std::cell::Cell;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use tower::Layer;
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionLayer,
    classify::by_header,
    limit::{Aimd, Fixed},
    percent,
    response::Rejections,
};

use crate::{
    contestants::{
        BARE, BARE_DROPPING, Contestant, HANDLER, Handler, MANY, ONE, Prepared, THRESHOLD, accepting, accepts,
        rejecting, rejects_ours,
    },
    drive::{GROUP_HEADER, GROUPS},
};

/// As many entries of the journal as there are unless told otherwise.
const JOURNAL_ON: usize = 512;

/// Metrics are published each second: this is a server that takes so many requests per second.
const PER_SECOND: u64 = 5_000;

const ADMISSION: &str = "AdmissionLayer, no signals";
const ADAPTIVE: &str = "AdaptiveConcurrencyLayer, no signals";
const REJECTION: &str = "bare rejection, no signals";

/// Each layer first without signals, which the others are compared with.
pub const SIGNALS: &[Contestant] = &[
    accepting(BARE, || accepts(Handler::<true>)),
    rejecting(BARE_DROPPING, || accepts(Handler::<false>)),
    accepting(ADMISSION, || accepts(layer(&fixed(MANY, 0)).layer(HANDLER))),
    Contestant {
        name: "AdmissionLayer, journal",
        baseline: ADMISSION,
        prepare: || accepts(layer(&fixed(MANY, JOURNAL_ON)).layer(HANDLER)),
    },
    Contestant {
        name: "AdmissionLayer, journal and metrics",
        baseline: ADMISSION,
        prepare: || {
            let admission = fixed(MANY, JOURNAL_ON);
            Published::boxed(&admission, accepts(layer(&admission).layer(HANDLER)))
        },
    },
    accepting(ADAPTIVE, || accepts(adaptive(0).layer(HANDLER))),
    Contestant {
        name: "AdaptiveConcurrencyLayer, journal",
        baseline: ADAPTIVE,
        prepare: || accepts(adaptive(JOURNAL_ON).layer(HANDLER)),
    },
    Contestant {
        name: "AdaptiveConcurrencyLayer, journal and metrics",
        baseline: ADAPTIVE,
        prepare: || {
            let layer = adaptive(JOURNAL_ON);
            Published::boxed(layer.handle(), accepts(layer.layer(HANDLER)))
        },
    },
    rejecting(REJECTION, || rejects_ours(layer(&fixed(ONE, 0)).layer(HANDLER))),
    Contestant {
        name: "bare rejection, journal",
        baseline: REJECTION,
        prepare: || rejects_ours(layer(&fixed(ONE, JOURNAL_ON)).layer(HANDLER)),
    },
    Contestant {
        name: "bare rejection, journal and metrics",
        baseline: REJECTION,
        prepare: || {
            let admission = fixed(ONE, JOURNAL_ON);
            Published::boxed(&admission, rejects_ours(layer(&admission).layer(HANDLER)))
        },
    },
];

fn fixed(limit: usize, journal: usize) -> Admission {
    Admission::builder().limit(Fixed::new(limit)).shed().journal(journal).build().expect("valid settings")
}

fn layer(admission: &Admission) -> AdmissionLayer {
    AdmissionLayer::new(admission).rejections(Rejections::new().bare())
}

/// Four partitions: most metrics are there once for each.
fn adaptive(journal: usize) -> AdaptiveConcurrencyLayer {
    let law = Aimd::new(THRESHOLD).initial(MANY).max(MANY);
    let layer = AdaptiveConcurrencyLayer::with(law, |admission| {
        let admission = admission.journal(journal);
        GROUPS.into_iter().fold(admission, |admission, group| admission.partition(group, percent(25)))
    });
    layer.expect("valid settings").map(|layer| layer.classify(by_header(GROUP_HEADER)))
}

/// Publishes to a recorder for Prometheus as often as the handle would by itself at [`PER_SECOND`].
pub(crate) struct Published {
    admission: Admission,
    service: Box<dyn Prepared>,
    recorder: PrometheusRecorder,
    since_published: Cell<u64>,
}

impl Published {
    pub(crate) fn boxed(admission: &Admission, service: Box<dyn Prepared>) -> Box<dyn Prepared> {
        let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &seconds)
            .expect("there are buckets")
            .build_recorder();
        let this = Self { admission: admission.clone(), service, recorder, since_published: Cell::new(0) };
        // The first time registers all of them.
        this.publish();
        Box::new(this)
    }

    fn publish(&self) {
        metrics::with_local_recorder(&self.recorder, || self.admission.publish_metrics());
    }
}

impl Prepared for Published {
    fn run(&self, mut requests: u64) {
        while requests > 0 {
            let batch = requests.min(PER_SECOND - self.since_published.get());
            self.service.run(batch);
            requests -= batch;
            self.since_published.set(self.since_published.get() + batch);
            if self.since_published.get() == PER_SECOND {
                self.since_published.set(0);
                self.publish();
            }
        }
    }

    fn sizes(&self) -> [usize; 3] {
        self.service.sizes()
    }
}
