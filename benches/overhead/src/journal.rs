//! What the journal costs: the same layers with and without it.

use tower::Layer;
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionLayer, Rejections,
    limit::{Aimd, Fixed},
};

use crate::contestants::{
    BARE, BARE_DROPPING, Contestant, HANDLER, Handler, MANY, ONE, Prepared, THRESHOLD, accepting, accepts, rejecting,
    rejects_ours,
};

/// As many entries as there are unless told otherwise.
const ON: usize = 512;

/// Each layer first without, then with a journal.
pub const JOURNAL: &[Contestant] = &[
    accepting(BARE, || accepts(Handler::<true>)),
    rejecting(BARE_DROPPING, || accepts(Handler::<false>)),
    accepting("AdmissionLayer, no journal", || accepts(fixed(MANY, 0).layer(HANDLER))),
    accepting("AdmissionLayer, journal", || accepts(fixed(MANY, ON).layer(HANDLER))),
    accepting("AdaptiveConcurrencyLayer, no journal", || adaptive(0)),
    accepting("AdaptiveConcurrencyLayer, journal", || adaptive(ON)),
    rejecting("bare rejection, no journal", || rejects_ours(fixed(ONE, 0).layer(HANDLER))),
    rejecting("bare rejection, journal", || rejects_ours(fixed(ONE, ON).layer(HANDLER))),
];

fn fixed(limit: usize, journal: usize) -> AdmissionLayer {
    let admission = Admission::builder().limit(Fixed::new(limit)).shed().journal(journal).build();
    AdmissionLayer::new(&admission.expect("valid settings")).rejections(Rejections::new().bare())
}

fn adaptive(journal: usize) -> Box<dyn Prepared> {
    let law = Aimd::new(THRESHOLD).initial(MANY).max(MANY);
    let layer = AdaptiveConcurrencyLayer::with(law, |admission| admission.journal(journal)).expect("valid settings");
    accepts(layer.layer(HANDLER))
}
