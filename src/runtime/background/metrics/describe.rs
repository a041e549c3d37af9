//! What each metric is and in which unit.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) fn describe() {
    for (name, text) in [
        ("admission_available", "Free slots: the limit minus the requests in flight"),
        ("admission_draining", "1 while the server drains and admits no request, else 0"),
        ("admission_in_flight", "Requests in flight"),
        ("admission_abandoned", "Requests in flight that have ended while their work goes on"),
        ("admission_stuck_slots", "Slots of one label or partition that do not come back: its requests do not end"),
        (
            "admission_in_flight_over_limit",
            "Requests in flight beyond what their partition, which observes, would have admitted",
        ),
        (
            "admission_label_available",
            "Free slots of a label: its cap, or the slots of its workers, minus its requests in flight",
        ),
        ("admission_label_in_flight", "Requests of a label in flight"),
        ("admission_label_waiting", "Waiting requests of a label, in line or at the gate"),
        ("admission_reserved", "Slots that are held back for requests that were rejected below their share"),
        ("admission_labels_known", "Labels in the table of labels, counted once for each class of work"),
        ("admission_limit", "How many requests may run at once"),
        ("admission_limit_maximum", "The greatest limit that the law may set, if it tells"),
        ("admission_limit_minimum", "The least limit that the law may set, if it tells"),
        ("admission_limit_state", "1 for what the limit does at present, else 0"),
        ("admission_mode", "1 for the present mode of the handle, else 0"),
        ("admission_partition_limit", "Slots that a partition is guaranteed"),
        ("admission_partition_observes", "1 for a partition that observes (dry run), else 0"),
        ("admission_shadow_in_flight", "Requests in flight that the shadow law would run as well"),
        ("admission_shadow_limit", "The limit that the shadow law would have set"),
        ("admission_queue_places", "How many requests may wait in line for a slot"),
        ("admission_store_state", "1 for the present state of the store of shared limits, else 0"),
        ("admission_health", "1 for the present state of the handle in a word, else 0"),
        ("admission_waiting", "Waiting requests, in line for a slot or at the full gate"),
    ] {
        describe_gauge!(name, Unit::Count, text);
    }
    for (name, text) in [
        ("admission_limit_reference_seconds", "Time that the law compares round-trip times with, if it tells"),
        ("admission_limit_rtt_seconds", "Round-trip time by which the law judged last, if it tells"),
        ("admission_health_seconds", "Time for which the handle has been in its present state"),
        ("admission_store_down_seconds", "Time for which the store of shared limits has been down"),
    ] {
        describe_gauge!(name, Unit::Seconds, text);
    }
    describe_gauge!(
        "admission_label_utilisation_ratio",
        "Used part of the slots of a label; above 1 where they are not enforced, or shrank"
    );
    describe_gauge!("admission_utilisation_ratio", "Used part of the limit; above 1 after the limit shrank");
    for (name, text) in [
        ("admission_admitted_total", "Requests that were admitted"),
        ("admission_cancelled_waiting_total", "Waiting requests that were cancelled"),
        ("admission_label_outcomes_total", "Requests of a label, by outcome"),
        ("admission_label_requests_total", "Requests of a label that arrived"),
        ("admission_labels_evicted_total", "Labels that were removed from the full table to make room for others"),
        ("admission_labels_overflowed_total", "Requests that shared an entry because the table of labels was full"),
        ("admission_law_panics_total", "Panics of the control law; the limit stays unchanged after one"),
        ("admission_lock_outcomes_total", "Calls for the admission lock, by outcome"),
        ("admission_outcomes_total", "Requests that ran, by how they ended"),
        ("admission_expired_slots_total", "Slots that were taken back from permits that exceeded their time to live"),
        ("admission_queued_total", "Requests that were admitted after a wait"),
        ("admission_rejected_total", "Requests that were rejected, by reason"),
        ("admission_reloads_total", "Reloads of the settings"),
        ("admission_requests_total", "Requests that arrived"),
        ("admission_shadow_would_admit_total", "Rejected requests for which the shadow law had a free slot"),
        ("admission_shadow_would_queue_total", "Requests that would have waited under the limit of the shadow law"),
        ("admission_shadow_would_reject_total", "Requests that the limit of the shadow law would have rejected"),
        ("admission_store_leases_lost_total", "Leases of shared limits that were lost while their request was running"),
        ("admission_store_local_total", "Requests admitted under shared limits without asking the store, by cause"),
        ("admission_store_requests_total", "Requests for which the store of shared limits was asked, by answer"),
        ("admission_would_queue_total", "Requests that would have waited, while observing"),
        ("admission_would_reject_total", "Requests that would have been rejected, while observing, by reason"),
    ] {
        describe_counter!(name, Unit::Count, text);
    }
    for (name, text) in [
        ("admission_label_rtt_seconds", "Round-trip time of the requests of a label that succeeded"),
        ("admission_label_wait_seconds", "Wait of the requests of a label that were admitted after a wait"),
        ("admission_lock_wait_seconds", "Wait for the admission lock, whether or not the call got the lock"),
        ("admission_rtt_seconds", "Round-trip time of requests that succeeded"),
        ("admission_wait_seconds", "Wait of requests that were admitted after a wait"),
    ] {
        describe_histogram!(name, Unit::Seconds, text);
    }
}
