//! What a handle tells of labels, of which there may be thousands.

use std::collections::BTreeSet;

use tower_admission::{Admission, Labels, Outcome, Ticket, limit::Fixed};

const NAMESPACES: [&str; 3] = ["", "production", "test"];
const OF_EACH: usize = 700;

#[test]
fn a_snapshot_has_each_label_once_and_in_order() {
    let known = NAMESPACES.len() * OF_EACH;
    let labels = Labels::new().max_labels(known);
    let admission = Admission::builder().limit(Fixed::new(1)).shed().labels(labels).build().unwrap();
    let names: Vec<String> = (0..OF_EACH).map(|number| format!("label-{number}")).collect();
    let come = |namespace, label| {
        admission.try_admit(Ticket::new().namespace(namespace).label(label)).unwrap().finish(Outcome::Success);
    };
    for name in &names {
        NAMESPACES.into_iter().for_each(|namespace| come(namespace, name));
    }
    let expected: BTreeSet<(&str, &str)> =
        NAMESPACES.iter().flat_map(|&namespace| names.iter().map(move |name| (namespace, name.as_str()))).collect();
    let snapshot = admission.snapshot();
    let told: Vec<_> = snapshot.labels.iter().map(|label| (label.namespace.as_str(), label.name.as_str())).collect();
    assert!(told.iter().copied().eq(expected), "{} of {known}", told.len());
    assert!(snapshot.labels.iter().all(|label| label.admitted == 1));
    assert_eq!(snapshot.labels_known, known);
}
