use std::{
    mem::{size_of, size_of_val},
    sync::atomic::{AtomicU64, Ordering},
};

use super::*;
use crate::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Clock, Labels, Mode, Reason, Rules, Ticket, WhenFull,
    engine::{BlockingBound, RejectedCount},
    limit::Fixed,
    percent,
};

fn builder() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(10)).shed().partition("web", percent(50))
}

fn frames(admission: &Admission) -> Vec<Arc<Frame>> {
    admission.shared.history(RETAINED, Timestamp::ZERO).unwrap().frames
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

impl Frame {
    pub(super) fn lasts(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// A clock that is set by hand, on which a driver on Tokio's time has no say.
#[derive(Clone, Debug, Default)]
struct ByHand(Arc<AtomicU64>);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// So many requests, one after the other.
fn admit(admission: &Admission, count: usize, ticket: &Ticket<'_>) {
    (0..count).for_each(|_| drop(admission.try_admit(ticket.clone()).unwrap()));
}

/// Sums of admitted and rejected requests.
fn totals(frames: &[Arc<Frame>]) -> (u64, u64) {
    let admitted = frames.iter().map(|it| u64::from(it.whole.admitted)).sum();
    (admitted, frames.iter().map(|it| it.whole.rejections()).sum())
}

/// Whether frames follow each other without a hole.
fn is_seamless(frames: &[Arc<Frame>]) -> bool {
    frames.windows(2).all(|pair| pair[0].to == pair[1].from)
}

#[tokio::test(start_paused = true)]
async fn an_hour_is_kept_in_seconds_and_tens_of_seconds_and_adds_up() {
    let admission = builder().build().unwrap();
    admission.shared.begin_history();
    let (mut admitted, mut rejected) = (0, 0);
    for second in 0..4_500usize {
        let count = second % 7;
        admit(&admission, count, &Ticket::new().partition("web"));
        admitted += count as u64;
        if second % 3 == 0 {
            let held: Vec<_> = (0..10).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
            (0..5).for_each(|_| drop(admission.try_admit(Ticket::new()).unwrap_err()));
            (admitted, rejected) = (admitted + held.len() as u64, rejected + 5);
        }
        tokio::time::sleep(seconds(1)).await;
        if second == 250 {
            let frames = frames(&admission);
            assert_eq!(totals(&frames), (admitted, rejected), "nothing is lost while all is there");
            assert!(frames.iter().all(|it| it.lasts() < seconds(2)) && is_seamless(&frames));
        }
        if second == 3_000 {
            let frames = frames(&admission);
            assert_eq!(totals(&frames), (admitted, rejected), "and nothing when seconds became tens of seconds");
            assert!(is_seamless(&frames));
        }
    }
    let frames = frames(&admission);
    assert!(is_seamless(&frames) && frames.iter().all(|it| !it.is_gap));
    let (first, last) = (frames.first().unwrap().from, frames.last().unwrap().to);
    assert!((3_590..=3_610).contains(&last.since(first).as_secs()), "{:?}", last.since(first));
    let fine = frames.iter().filter(|it| it.lasts() < seconds(2)).count();
    assert!((300..=322).contains(&fine) && frames.len() <= 322 + 331, "{fine} of {}", frames.len());
    let coarse = frames.iter().find(|it| it.lasts() > seconds(5)).unwrap();
    assert!((9.0..=11.0).contains(&coarse.seconds()), "{coarse:?}");
    let web = coarse.partitions.iter().find(|it| it.name.name == "web").unwrap();
    assert!((20..=42).contains(&web.admitted), "{web:?}");
    // Control: the difference of all counts is not what an hour has.
    assert!(totals(&frames).0 < admitted);
}

#[tokio::test(start_paused = true)]
async fn rejections_are_told_by_reason_and_rule_of_partitions_and_of_the_busiest_labels() {
    let admission = builder().labels(Labels::new().label_cap("capped", 1)).build().unwrap();
    admission.shared.begin_history();
    let capped = Ticket::new().partition("web").label("capped");
    let _held = admission.try_admit(capped.clone()).unwrap();
    for _ in 0..40 {
        (0..20).for_each(|_| drop(admission.try_admit(capped.clone()).unwrap_err()));
        admit(&admission, 3, &Ticket::new().partition("web").label("calm"));
        admit(&admission, 2, &Ticket::new());
        tokio::time::sleep(seconds(1)).await;
    }
    let frames = frames(&admission);
    // Requests come at the very end of a frame or at the begin of the next one.
    let last = &frames[frames.len() - 3];
    let cap = [RejectedCount { reason: Reason::LabelCap, by: BlockingBound::LabelCap, count: 20 }];
    let row = |rows: &[Row], name: &str| rows.iter().find(|it| it.name.name == name).cloned();
    let web = row(&last.partitions, "web").unwrap();
    assert_eq!((&*web.rejected, web.admitted, web.in_flight), (&cap[..], 3, 1.0));
    let label = row(&last.labels, "capped").unwrap();
    assert_eq!((&*label.rejected, label.admitted, label.in_flight), (&cap[..], 0, 1.0));
    let calm = row(&last.labels, "calm").unwrap();
    assert_eq!((calm.admitted, calm.rejected.len()), (3, 0));
    let others = last.others();
    assert_eq!((others.admitted, others.rejections()), (2, 0), "what has no label is among the others");
    assert_eq!((last.whole.admitted, last.whole.rejections()), (5, 20));
}

#[tokio::test(start_paused = true)]
async fn times_are_told_where_requests_ended() {
    let admission = builder().time_one_in(std::num::NonZeroU32::MIN).build().unwrap();
    admission.shared.begin_history();
    for second in 0..20 {
        let permit = admission.try_admit(Ticket::new().partition("web")).unwrap();
        tokio::time::sleep(Duration::from_millis(if second < 10 { 100 } else { 400 })).await;
        permit.finish(crate::Outcome::Success);
        tokio::time::sleep(Duration::from_millis(if second < 10 { 900 } else { 600 })).await;
    }
    tokio::time::sleep(seconds(3)).await;
    let frames = frames(&admission);
    let p50: Vec<_> = frames.iter().map(|it| it.whole.rtt.map(|[p50, _]| p50)).collect();
    assert!(p50[3].is_some_and(|it| (0.08..0.125).contains(&it)), "{p50:?}");
    assert!(p50[15].is_some_and(|it| (0.32..0.5).contains(&it)), "not that of the whole life: {p50:?}");
    assert_eq!(p50.last(), Some(&None), "no request ended");
}

/// Two labels, of which the requests of the second take four times as long; and a third one, which waits for that.
#[tokio::test(start_paused = true)]
async fn times_are_told_of_each_label_that_is_followed() {
    let builder = Admission::builder().limit(Fixed::new(2)).queue(10);
    let admission = builder.time_one_in(std::num::NonZeroU32::MIN).build().unwrap();
    admission.shared.begin_history();
    let admit = |label: &'static str| admission.try_admit(Ticket::new().label(label)).unwrap();
    for _ in 0..350 {
        let (quick, slow) = (admit("quick"), admit("slow"));
        let late = admission.admit(Ticket::new().label("late"));
        let late = tokio::spawn(async move { late.await.unwrap().finish(crate::Outcome::Ignore) });
        tokio::time::sleep(Duration::from_millis(100)).await;
        quick.finish(crate::Outcome::Success);
        late.await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        slow.finish(crate::Outcome::Success);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let frames = frames(&admission);
    let at = |at: usize, label: &str| {
        let row = frames[at].labels.iter().find(|it| it.name.name == label);
        row.map(|it| [it.rtt, it.wait].map(|it| it.map(|[p50, _]| (p50 * 10.0).round())))
    };
    // A frame of seconds, and one of ten seconds.
    let coarse = frames.iter().rposition(|it| it.lasts() > seconds(5)).unwrap();
    for place in [frames.len() - 3, coarse] {
        assert_eq!(at(place, "quick"), Some([Some(1.0), None]));
        assert_eq!(at(place, "slow"), Some([Some(4.0), None]));
        assert_eq!(at(place, "late"), Some([None, Some(1.0)]), "its outcomes say nothing");
        let [_, p99] = frames[place].whole.rtt.unwrap();
        assert!(p99 > 0.3, "control: the handle as a whole has the times of both: {p99}");
    }
    assert!(frames.iter().all(|it| it.others().rtt.is_none()));
}

/// Rules for imports, requests of which are misspelt from the twenty-sixth second on.
#[tokio::test(start_paused = true)]
async fn each_frame_has_the_sentence_of_its_end_and_a_class_without_rules_is_named_where_others_have_some() {
    for has_rules in [true, false] {
        let limits = ClassLimits::new().max_in_flight(Cap::from(5).local().when_full(WhenFull::Reject));
        let rules = if has_rules { Rules::new().class("import", limits) } else { Rules::new() };
        let admission = builder().rules(rules).build().unwrap();
        admission.shared.begin_history();
        for second in 0..50 {
            let class = if second < 25 { "import" } else { "imprt" };
            let held: Vec<_> = (0..12).map(|_| admission.try_admit(Ticket::new().label("shop").class(class))).collect();
            tokio::time::sleep(Duration::from_millis(500)).await;
            held.into_iter().flatten().for_each(|permit| permit.finish(crate::Outcome::Success));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let frames = frames(&admission);
        let said: Vec<_> = frames.iter().map(|it| &*it.headline).collect();
        assert!(said[10].starts_with(if has_rules { "throttled: " } else { "overloaded: " }), "{}", said[10]);
        let strangers: Vec<_> =
            said.iter().map(|it| it.contains("requests of imprt come, a class without rules")).collect();
        assert!(!strangers[..24].contains(&true), "control: not before they come");
        assert_eq!(strangers[40], has_rules, "{}", said[40]);
    }
}

#[tokio::test(start_paused = true)]
async fn settings_and_modes_change_and_nothing_is_counted_twice() {
    let admission = builder().build().unwrap();
    admission.shared.begin_history();
    let (mut admitted, web) = (0, Ticket::new().partition("web"));
    for second in 0..60 {
        admit(&admission, 4, &web);
        admitted += 4;
        match second {
            // The partition goes and comes back, with all that was ever counted of it.
            15 => admission.reload(Admission::builder().limit(Fixed::new(5)).shed()).unwrap(),
            25 => admission.reload(builder().partition("batch", percent(10))).unwrap(),
            35 => admission.set_mode(Mode::Observe),
            45 => admission.set_mode(Mode::Enforce),
            _ => {}
        }
        tokio::time::sleep(seconds(1)).await;
    }
    let frames = frames(&admission);
    assert_eq!(totals(&frames), (admitted, 0));
    assert!(frames.iter().all(|it| it.whole.admitted <= 8), "{:?}", frames.iter().map(|it| it.whole.admitted).max());
    let limits: Vec<_> = frames.iter().map(|it| it.limits[0]).collect();
    assert!(limits.contains(&5) && limits.contains(&10), "{limits:?}");
}

#[tokio::test]
async fn a_clock_that_jumps_leaves_a_gap_and_loses_no_request() {
    let clock = ByHand::default();
    let admission = builder().clock(clock.clone()).build().unwrap();
    admission.shared.begin_history();
    let mut admitted = 0;
    let mut pass = |millis: i64| {
        admit(&admission, 3, &Ticket::new());
        admitted += 3;
        clock.0.fetch_add(millis.cast_unsigned(), Ordering::Relaxed);
        admission.shared.note_history();
        admitted
    };
    (0..25).for_each(|_| _ = pass(1_000));
    pass(1_800_000);
    (0..5).for_each(|_| _ = pass(1_000));
    pass(-600_000);
    // The clock is behind what it told: time stands still until it has caught up.
    (0..300).for_each(|_| _ = pass(1_000));
    pass(301_000);
    let admitted = pass(1_000);
    let frames = frames(&admission);
    assert_eq!(totals(&frames).0, admitted);
    assert!(is_seamless(&frames));
    let gaps: Vec<_> = frames.iter().filter(|it| it.is_gap).map(|it| it.lasts().as_secs()).collect();
    assert_eq!(gaps, [1_800], "control: {} frames are none", frames.len() - gaps.len());
    pass(7_200_000);
    assert_eq!(self::frames(&admission).len(), 1, "what is older than an hour goes");
}

/// All that strangers can grow: names of 256 bytes, with other ones on top each second, and rejections by several rules.
#[tokio::test(start_paused = true)]
async fn ten_thousand_labels_of_strangers_take_a_bounded_memory() {
    let admission = builder().labels(Labels::new().max_labels(10_000)).build().unwrap();
    admission.shared.begin_history();
    let held: Vec<_> = (0..10).map(|_| admission.try_admit(Ticket::new().label("held")).unwrap()).collect();
    let long = "x".repeat(240);
    let mut asked = 0u64;
    for second in 0..3_700u64 {
        let busy = (0..20).flat_map(|rank| std::iter::repeat_n(second / 3 * 7 + rank, 3));
        let all = (0..10_000).filter(|_| second % 600 == 0);
        for number in all.chain(busy) {
            let name = format!("{long}{:05}", number % 10_000);
            assert!(admission.try_admit(Ticket::new().label(name.as_str())).is_err());
            asked += 1;
        }
        tokio::time::sleep(seconds(1)).await;
    }
    let view = frames(&admission);
    let names: std::collections::BTreeSet<_> =
        view.iter().flat_map(|it| &it.labels).map(|it| Arc::as_ptr(&it.name)).collect();
    let bytes = bytes(&view);
    println!("{asked} requests, {} frames, {} names of labels, {} KiB", view.len(), names.len(), bytes / 1_024);
    assert!(view.iter().all(|it| it.labels.len() <= 32));
    assert!((16..=400).contains(&names.len()), "{}", names.len());
    assert!(bytes < 1_500_000, "{bytes}");
    let request = http::Request::get("/admission/history?last=1h&labels=top").body(String::new()).unwrap();
    let answer = tower_service::Service::call(&mut admission.introspection(), request).await.unwrap();
    let size = http_body::Body::size_hint(answer.body()).exact().unwrap();
    println!("all of it: {} KiB of JSON", size / 1_024);
    drop(held);
}

/// The heap that frames take, names included.
fn bytes(frames: &[Arc<Frame>]) -> usize {
    let mut names = std::collections::BTreeMap::new();
    let row = |it: &Row| size_of_val(&*it.rejected);
    let mut sum = 0;
    for frame in frames {
        let rows = frame.partitions.iter().chain(&frame.labels);
        for it in rows.chain([&frame.whole]) {
            names.insert(Arc::as_ptr(&it.name), it.name.name.len() + it.name.namespace.len() + it.name.class.len());
            sum += row(it);
        }
        sum += size_of::<Frame>()
            + 32
            + frame.headline.len()
            + size_of_val(&*frame.partitions)
            + size_of_val(&*frame.labels);
    }
    sum + names.values().map(|text| text + size_of::<crate::engine::SampledName>() + 16).sum::<usize>()
}
