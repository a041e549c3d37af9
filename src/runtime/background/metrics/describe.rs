//! What each metric is and in which unit.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) fn describe() {
    for (name, text) in [
        ("admission_available", "Free slots: the limit without the requests that run"),
        ("admission_draining", "1 while nobody is let in because the server shuts down, else 0"),
        ("admission_in_flight", "Requests that run"),
        (
            "admission_in_flight_beyond",
            "Requests that run although their partition, which observes, would not have let them",
        ),
        (
            "admission_label_available",
            "Free slots of a label: its cap, or what its workers take, without what runs of it",
        ),
        ("admission_label_in_flight", "Requests of a label that run"),
        ("admission_label_waiting", "Requests of a label that wait, in line or at the gate"),
        ("admission_labels_known", "Labels that are told apart, counted once for each class of work"),
        ("admission_limit", "How many requests may run at once"),
        ("admission_mode", "1 for the mode that the handle is in, else 0"),
        ("admission_partition_limit", "What a partition is guaranteed of the limit"),
        ("admission_partition_observes", "1 for a partition that only says what it would do, else 0"),
        ("admission_shadow_in_flight", "Requests that run and would run under the limit of the shadow law"),
        ("admission_shadow_limit", "The limit that the shadow law would have set"),
        ("admission_queue_places", "How many requests may wait in line for a slot"),
        ("admission_store_state", "1 for the state that the store of shared limits is in, else 0"),
        ("admission_waiting", "Requests that wait, in line for a slot or at the full gate"),
    ] {
        describe_gauge!(name, Unit::Count, text);
    }
    describe_gauge!(
        "admission_store_down_seconds",
        Unit::Seconds,
        "For how long the store of shared limits has been down"
    );
    describe_gauge!(
        "admission_label_utilisation_ratio",
        "The part of the slots of a label that is used; above 1 where they don't bind, or shrank"
    );
    describe_gauge!("admission_utilisation_ratio", "The part of the limit that is used; above 1 after it shrank");
    for (name, text) in [
        ("admission_admitted_total", "Requests that were admitted"),
        ("admission_cancelled_waiting_total", "Requests that left while they waited"),
        ("admission_label_outcomes_total", "Requests of a label, by what became of them"),
        ("admission_label_requests_total", "Requests of a label that came"),
        ("admission_labels_evicted_total", "Labels that were forgotten because others needed their entries"),
        ("admission_labels_overflowed_total", "Requests whose label found no entry, and shared one"),
        ("admission_law_panics_total", "Panics of the control law, after which the limit stayed what it was"),
        ("admission_lock_outcomes_total", "Calls for the admission lock, by whether it was taken"),
        ("admission_outcomes_total", "Requests that ran, by how they ended"),
        ("admission_overdue_total", "Slots that were taken back from holders who kept them for too long"),
        ("admission_queued_total", "Requests that were admitted after a wait"),
        ("admission_rejected_total", "Requests that were rejected, by reason"),
        ("admission_reloads_total", "How often the settings were changed"),
        ("admission_requests_total", "Requests that came"),
        ("admission_shadow_would_admit_total", "Rejected requests for which the shadow law had a free slot"),
        ("admission_shadow_would_queue_total", "Requests that would have waited under the limit of the shadow law"),
        ("admission_shadow_would_reject_total", "Requests that the limit of the shadow law would have rejected"),
        ("admission_store_leases_lost_total", "Leases of shared limits that were lost while their work went on"),
        ("admission_store_local_total", "Requests admitted under shared limits without asking the store, by why"),
        ("admission_store_requests_total", "Requests that the store of shared limits was asked for, by its answer"),
        ("admission_would_queue_total", "Requests that would have waited, while observing"),
        ("admission_would_reject_total", "Requests that would have been rejected, while observing, by reason"),
    ] {
        describe_counter!(name, Unit::Count, text);
    }
    for (name, text) in [
        ("admission_label_rtt_seconds", "Round-trip time of requests of a label that succeeded"),
        ("admission_label_wait_seconds", "Wait of requests of a label that were admitted after one"),
        ("admission_lock_wait_seconds", "Wait for the admission lock, whether it was taken or not"),
        ("admission_rtt_seconds", "Round-trip time of requests that succeeded"),
        ("admission_wait_seconds", "Wait of requests that were admitted after one"),
    ] {
        describe_histogram!(name, Unit::Seconds, text);
    }
}
