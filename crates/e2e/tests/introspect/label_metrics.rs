//! Metrics of single labels and of the admission lock, as an exporter shows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use tower_admission::{
    Admission, Labels, Outcome, Ticket,
    limit::Fixed,
    store::{AdmissionLock, Keys, LockCaller, MemoryStore},
};

fn recorder() -> PrometheusRecorder {
    let seconds = Matcher::Suffix("_seconds".into());
    PrometheusBuilder::new().set_buckets_for_metric(seconds, &[0.1, 1.0]).unwrap().build_recorder()
}

/// A name and all labels.
type Series = (String, BTreeMap<String, String>);

/// Reads the text that an exporter makes, whatever is in the values of labels.
fn read(text: &str) -> BTreeMap<Series, f64> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| read_line(line).unwrap_or_else(|| panic!("{line:?} is not a sample"))).collect()
}

fn read_line(line: &str) -> Option<(Series, f64)> {
    let (name, mut rest) = line.split_once('{')?;
    let mut labels = BTreeMap::new();
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let (mut value, mut letters) = (String::new(), after.chars());
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => value.push(match letters.next()? {
                    'n' => '\n',
                    letter @ ('"' | '\\') => letter,
                    _ => return None,
                }),
                letter => value.push(letter),
            }
        }
        assert!(labels.insert(key.to_owned(), value).is_none(), "{key} is there twice: {line}");
        rest = letters.as_str();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => break,
        }
    }
    Some(((name.to_owned(), labels), rest.strip_prefix("} ")?.parse().ok()?))
}

/// What a new recorder is told, which knows nothing of earlier values.
fn scrape(admission: &Admission) -> BTreeMap<Series, f64> {
    let recorder = recorder();
    metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    read(&recorder.handle().render())
}

fn request(admission: &Admission, namespace: &str, label: &str) {
    let ticket = Ticket::new().namespace(namespace).label(label);
    admission.try_admit(ticket).unwrap().finish(Outcome::Success);
}

/// The values of one metric, by namespace, label and whether it is the series of all others.
fn by_label(scrape: &BTreeMap<Series, f64>, metric: &str) -> BTreeMap<(String, String, String), f64> {
    let of_metric = scrape.iter().filter(|((name, _), _)| name == metric);
    let key = |labels: &BTreeMap<String, String>| ["namespace", "label", "overflow"].map(|key| labels[key].clone());
    let all = of_metric.map(|((_, labels), value)| {
        let [namespace, label, overflow] = key(labels);
        ((namespace, label, overflow), *value)
    });
    all.collect()
}

#[test]
fn ten_thousand_labels_make_as_many_series_as_allowed() {
    let labels = Labels::new().metrics(20).max_labels(1_000).label_cap("gold", 4);
    let admission = Admission::builder().name("api").labels(labels).build().unwrap();
    let recorder = recorder();
    let publish = || metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    for number in 0..10_000 {
        request(&admission, "", &format!("stranger {number}"));
        if number % 1_000 == 0 {
            request(&admission, "", "gold");
            publish();
        }
    }
    publish();
    let scrape = read(&recorder.handle().render());
    let requests = by_label(&scrape, "admission_label_requests_total");
    assert_eq!(requests.len(), 21);
    let get = |label: &str, overflow: &str| requests[&(String::new(), label.to_owned(), overflow.to_owned())];
    assert_eq!((get("gold", "false"), get("stranger 18", "false")), (10.0, 1.0));
    assert_eq!(get("", "true"), 10_000.0 - 19.0);
    let series: BTreeSet<_> = scrape.keys().filter(|(_, labels)| labels.contains_key("overflow")).collect();
    assert!(series.len() <= 21 * 45, "{}", series.len());
    let rtt = by_label(&scrape, "admission_label_rtt_seconds_count");
    assert_eq!(rtt.values().sum::<f64>(), 10_010.0, "each time is published once");
}

/// Undoes percent encoding.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| first == b'%').map(|hex| std::str::from_utf8(hex).unwrap());
        bytes.push(hex.map_or(first, |hex| u8::from_str_radix(hex, 16).unwrap()));
        rest = if hex.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn whatever_the_name_it_is_a_label_and_nothing_else() {
    let hostile = [
        "overflow",
        "true",
        "\"",
        "%22",
        "\"} 1\nevil{x=\"",
        "\\",
        "\\\\",
        "\\\"",
        "\\\n\\",
        "a\u{2028}b",
        "a\nb",
        "\u{0}\u{7f}",
        "ä,ö=\"ü\"",
        "label=\"x\",overflow=\"true\"",
    ];
    let admission = Admission::builder().name("api").labels(Labels::new().metrics(100)).build().unwrap();
    for name in hostile {
        request(&admission, "", name);
        request(&admission, name, "plain");
    }
    drop(admission.try_admit(Ticket::new()).unwrap());
    let recorder = recorder();
    metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    let text = recorder.handle().render();
    assert!(!text.contains(|c: char| c == '\\' || c != '\n' && c.is_control()), "{text}");
    let scrape = read(&text);
    let lines = text.lines().filter(|line| line.starts_with("admission_label_requests_total"));
    let requests = by_label(&scrape, "admission_label_requests_total");
    assert_eq!(requests.len(), lines.count(), "none is there twice");
    let requests: BTreeMap<_, _> = requests
        .into_iter()
        .map(|((namespace, label, rest), it)| ((decode(&namespace), decode(&label), rest), it))
        .collect();
    let own = |namespace: &str, label: &str| (namespace.to_owned(), label.to_owned(), "false".to_owned());
    let mut expected: BTreeMap<_, _> = hostile.iter().map(|name| (own("", name), 1.0)).collect();
    expected.extend(hostile.iter().map(|name| (own(name, "plain"), 1.0)));
    expected.insert((String::new(), String::new(), "true".to_owned()), 0.0);
    assert_eq!(requests, expected);
    assert!(scrape.keys().all(|(name, _)| name.starts_with("admission_")));
}

#[test]
fn counters_never_go_backwards_although_labels_are_forgotten() {
    let labels = Labels::new().metrics(2).max_labels(1);
    let admission = Admission::builder().name("api").labels(labels).build().unwrap();
    let mut before = BTreeMap::new();
    for round in 0..20 {
        request(&admission, "", ["a", "b", "c", "a"][round % 4]);
        let mut now = scrape(&admission);
        // Gauges may fall, and histograms are told what is new.
        now.retain(|(name, _), _| name.ends_with("_total"));
        for (series, value) in &before {
            assert!(now[series] >= *value, "{series:?}");
        }
        before = now;
    }
    assert!(admission.snapshot().labels_evicted >= 15);
    let requests = by_label(&before, "admission_label_requests_total");
    assert_eq!(requests.values().copied().collect::<Vec<_>>(), [5.0, 10.0, 5.0], "of all others, a and b");
}

#[test]
fn slots_that_are_gone_are_no_number() {
    let settings = |labels: Labels| Admission::builder().name("api").labels(labels.metrics(5));
    let admission = settings(Labels::new().label_cap("gold", 4)).build().unwrap();
    let _held = admission.try_admit(Ticket::new().label("gold")).unwrap();
    let recorder = recorder();
    let read = || {
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        let scrape = read(&recorder.handle().render());
        ["admission_label_in_flight", "admission_label_available", "admission_label_utilisation_ratio"]
            .map(|metric| by_label(&scrape, metric).into_iter().find(|((_, label, _), _)| label == "gold").unwrap().1)
    };
    assert_eq!(read(), [1.0, 3.0, 0.25]);
    admission.reload(settings(Labels::new().label_cap("gold", None))).unwrap();
    let [in_flight, available, utilisation] = read();
    assert!(in_flight == 1.0 && available.is_nan() && utilisation.is_nan());
}

#[test]
fn those_who_publish_at_once_count_nothing_twice() {
    let admission = Admission::builder().name("api").labels(Labels::new().metrics(1)).build().unwrap();
    let publish = || {
        let recorder = recorder();
        for _ in 0..500 {
            metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        }
        read(&recorder.handle().render())
    };
    let (of_all, requests) = std::thread::scope(|scope| {
        // More than there are processors, so that some are passed between reading and publishing.
        let publishing = [(); 8].map(|()| scope.spawn(publish));
        let mut requests = 0;
        while !publishing.iter().all(|it| it.is_finished()) {
            // Each is recorded by a publisher, which takes longer than the request.
            if requests < 20_000 {
                request(&admission, "", "a");
                requests += 1;
            } else {
                std::thread::yield_now();
            }
        }
        (publishing.map(|it| it.join().unwrap()), requests)
    });
    for metric in ["admission_rtt_seconds_count", "admission_label_rtt_seconds_count"] {
        let all = of_all.iter().flatten().filter(|((name, _), _)| name == metric);
        let published: f64 = all.map(|(_, count)| *count).sum();
        assert!(published > 0.0 && published <= f64::from(requests), "{metric}: {published} of {requests}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_the_lock_are_published_and_bounded() {
    let retry = tower_admission::store::LockRetry::Fixed(Duration::from_millis(10));
    let lock = AdmissionLock::builder().retry(retry).build(Arc::new(MemoryStore::new()), Keys::new("shop").unwrap());
    let admission = Admission::builder().name("api").limit(Fixed::new(5)).lock_metrics(&lock).build().unwrap();
    let caller = || LockCaller::new("one").counted_as("gold", "start");
    let guard = lock.acquire(caller()).await.unwrap();
    lock.acquire(caller().max_wait(Duration::from_millis(500))).await.unwrap_err();
    drop(guard);
    let recorder = recorder();
    let read = || {
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        read(&recorder.handle().render())
    };
    let of_gold = |scrape: &BTreeMap<Series, f64>, metric: &str, key: &str, value: &str| {
        let known = [("limiter", "api"), ("class", "gold"), ("endpoint", "start")];
        let labels = known.into_iter().chain((!key.is_empty()).then_some((key, value)));
        scrape[&(metric.to_owned(), labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())]
    };
    for _ in 0..2 {
        let scrape = read();
        for (outcome, count) in [("taken", 1.0), ("busy", 1.0), ("failed", 0.0)] {
            assert_eq!(of_gold(&scrape, "admission_lock_outcomes_total", "outcome", outcome), count, "{outcome}");
        }
        for (le, count) in [("0.1", 1.0), ("1", 2.0)] {
            assert_eq!(of_gold(&scrape, "admission_lock_wait_seconds_bucket", "le", le), count, "up to {le} s");
        }
        let sum = of_gold(&scrape, "admission_lock_wait_seconds_sum", "", "");
        assert!((0.4..0.6).contains(&sum), "{sum}");
    }
    for number in 0..1_000 {
        let class = number.to_string();
        drop(lock.acquire(LockCaller::new(&class).counted_as(&class, "start")).await.unwrap());
    }
    let scrape = read();
    let taken = |labels: &BTreeMap<String, String>| labels.get("outcome").is_some_and(|it| it == "taken");
    let all = scrape.iter().filter(|((name, labels), _)| name == "admission_lock_outcomes_total" && taken(labels));
    let counts: Vec<f64> = all.map(|(_, count)| *count).collect();
    assert_eq!((counts.len(), counts.iter().sum::<f64>()), (64, 1_001.0), "none is left out");
}
