//! The admission payload, field by field: a server is driven into exactly the state that the document shows which the
//! names of the fields come from.

use serde_json::{Value, json};
use tower_admission::{Admission, Cap, ClassLimits, Rate, Rules, WhenFull, limit::Fixed};

use super::support::{Site, Still};

/// The payload as documented, but for locks: caps are counted in this process, which needs none.
fn documented() -> Value {
    json!({
        "workflow_tasks": {
            "status": "throttled",
            "active_worker_count": 3,
            "configured_slot_count": 24,
            "leased_count": 8,
            "ready_count": 5,
            "available_slot_count": 16,
            "server_max_active_leases_per_queue": 8,
            "server_active_lease_count": 8,
            "server_remaining_active_lease_capacity": 0,
            "server_max_active_leases_per_namespace": 300,
            "server_namespace_active_lease_count": 149,
            "server_remaining_namespace_active_lease_capacity": 151,
            "server_max_dispatches_per_minute": 120,
            "server_dispatch_count_this_minute": 120,
            "server_remaining_dispatch_capacity": 0,
            "server_max_dispatches_per_minute_per_namespace": 6000,
            "server_namespace_dispatch_count_this_minute": 3520,
            "server_remaining_namespace_dispatch_capacity": 2480,
            "server_dispatch_budget_group": "downstream-openai",
            "server_max_dispatches_per_minute_per_budget_group": 600,
            "server_budget_group_dispatch_count_this_minute": 600,
            "server_remaining_budget_group_dispatch_capacity": 0,
            "server_lock_required": false,
            "server_lock_supported": true,
            "budget_source": "worker_registration.max_concurrent_workflow_tasks",
            "server_budget_source": "server.admission.queue_overrides"
        },
        "activity_tasks": {
            "status": "accepting",
            "configured_slot_count": 36,
            "server_max_active_leases_per_queue": 12,
            "server_remaining_active_lease_capacity": 4,
            "server_max_dispatches_per_minute": 240,
            "server_remaining_dispatch_capacity": 197
        },
        "query_tasks": {
            "status": "accepting",
            "max_pending_per_queue": 1024,
            "approximate_pending_count": 7,
            "remaining_pending_capacity": 1017,
            "lock_supported": true,
            "budget_source": "server.query_tasks.max_pending_per_queue"
        }
    })
}

/// The overrides of the document.
fn rules() -> Rules {
    let waits = |max| Cap::from(max).when_full(WhenFull::Queue);
    let budget = || ClassLimits::new().budget("downstream-openai", Rate::from(600).when_full(WhenFull::Queue));
    Rules::new()
        .class("workflow_tasks", ClassLimits::new())
        .class("activity_tasks", ClassLimits::new())
        .class("query_tasks", ClassLimits::new().fail_fast())
        .override_key(
            "production:payments",
            "workflow_tasks",
            budget().max_in_flight(waits(8)).max_per_minute(Rate::from(120).when_full(WhenFull::Queue)),
        )
        .override_key("production:search", "workflow_tasks", budget())
        .override_key(
            "production:payments",
            "activity_tasks",
            ClassLimits::new().max_in_flight(waits(12)).max_per_minute(240),
        )
        .override_key(
            "production:*",
            "workflow_tasks",
            ClassLimits::new().max_in_flight_per_namespace(300).max_per_minute_per_namespace(6_000),
        )
}

const PAYMENTS: &str = "payments?namespace=production";

fn of(class: &'static str, label: &'static str) -> [(&'static str, &'static str); 3] {
    [("x-class", class), ("x-namespace", "production"), ("x-label", label)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_payload_is_answered_field_by_field() {
    let admission =
        Admission::builder().limit(Fixed::new(1_000)).queue(1_000).rules(rules()).clock(Still).build().unwrap();
    let mut site = Site::start(&admission).await;
    for worker in 1..=3 {
        let heartbeat = json!({
            "worker_id": format!("payments-python-{worker}"),
            "namespace": "production",
            "task_queue": "payments",
            "runtime": "python",
            "supported_workflow_types": ["payments.PaymentWorkflow"],
            "supported_activity_types": ["payments.charge_card", "payments.send_receipt"],
            "max_concurrent_workflow_tasks": 8,
            "max_concurrent_activity_tasks": 12
        });
        assert_eq!(site.heartbeat(&heartbeat).await, 204);
    }

    // What starts and ends in this minute, then what stays.
    let (payments, activity) = (of("workflow_tasks", "payments"), of("activity_tasks", "payments"));
    site.quick(112, &payments).await;
    site.quick(480, &of("workflow_tasks", "search")).await;
    site.quick(2_779, &of("workflow_tasks", "reports")).await;
    site.quick(35, &activity).await;
    site.hold(141, &of("workflow_tasks", "reports"));
    site.hold(8, &payments);
    site.section_when(PAYMENTS, "workflow_tasks", "leased_count", 8).await;
    site.section_when(PAYMENTS, "workflow_tasks", "server_namespace_active_lease_count", 149).await;
    site.hold(5, &payments);
    site.hold(8, &activity);
    site.hold(7, &of("query_tasks", "payments"));
    site.section_when(PAYMENTS, "workflow_tasks", "ready_count", 5).await;
    site.section_when(PAYMENTS, "activity_tasks", "leased_count", 8).await;
    site.section_when(PAYMENTS, "query_tasks", "approximate_pending_count", 7).await;

    let label = site.json(&format!("/admission/labels/{PAYMENTS}")).await;
    for (class, fields) in documented().as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            assert_eq!(&label["admission"][class][field], value, "{class}.{field} in {label:#}");
        }
    }
    // What the document shows in full has no other field of a cap than those.
    for (class, section) in documented().as_object().unwrap().iter().filter(|(class, _)| *class != "activity_tasks") {
        let caps = |section: &Value| -> Vec<_> {
            let names = section.as_object().unwrap().keys().filter(|name| {
                ["server_", "max_pending", "approximate", "remaining", "lock", "budget"]
                    .iter()
                    .any(|it| name.starts_with(it))
            });
            names.cloned().collect()
        };
        let mut expected = caps(section);
        let mut found = caps(&label["admission"][class]);
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{class}");
    }
    // Why the next one waits, too: the first thing that is in its way.
    let blocked = json!({"rule": "max_in_flight", "used": 8, "bound": 8, "when_full": "wait", "room_in_seconds": null});
    assert_eq!(label["admission"]["workflow_tasks"]["blocked_by"], blocked);
    assert!(label["admission"]["activity_tasks"].get("blocked_by").is_none());

    let list = site.json("/admission/labels?namespace=production&prefix=pay").await;
    assert_eq!(list["labels"], json!([label]), "the list tells the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_caps_that_are_not_set_are_absent() {
    let admission = Admission::builder().limit(Fixed::new(10)).build().unwrap();
    let site = Site::start(&admission).await;
    site.quick(1, &[("x-label", "a")]).await;
    let section = site.section("a", "*").await;
    let mut names: Vec<_> = section.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "admitted",
            "available_slot_count",
            "budget_source",
            "configured_slot_count",
            "estimated_wait_seconds",
            "in_flight",
            "leased_count",
            "oldest_wait_seconds",
            "partition",
            "ready_count",
            "rejected",
            "rules",
            "server_lock_required",
            "server_lock_supported",
            "status",
            "waiting",
            "weight"
        ]
    );
    assert_eq!(section["budget_source"], "partitions.default");
    assert_eq!(section["configured_slot_count"], 10);
}
