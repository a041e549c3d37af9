//! A page of bad configurations, each with the message that it gets: `bad.txt`.

use std::fmt::Write;

use tower_admission::configuration::Sources;

/// How a configuration is written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Toml,
    Json,
    Variables,
    /// What can't be said in a file: what the program changes.
    Code,
}
use Kind::{Code, Json, Toml, Variables};

/// Whether a schema could know that it is bad: it knows one value at a time, and no values that depend on others.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Schema {
    Knows,
    CanNot,
}
use Schema::{CanNot, Knows};

pub(crate) const BAD: &[(Kind, Schema, &str)] = &[
    (Toml, Knows, "quee = 100"),
    (Toml, Knows, "workers = 4"),
    (Toml, Knows, "queue = \"many\""),
    (Toml, Knows, "queue = -1"),
    (Toml, Knows, "queue = 1.5"),
    (Toml, CanNot, "queue = 5\nqueue = 6"),
    (Toml, CanNot, "queue 5\nmax_wiat = \"5s\""),
    (Toml, CanNot, "[labels\nmax_wait = \"5s\"\n[partitions]\na = 60"),
    (Toml, CanNot, "queue = 5x\nmax_wiat = \"5s\"\nlimit = [1"),
    (Toml, Knows, "admission_timeout = 5\nmax_wait = \"5 weeks\"\npermit_time_to_live = \"0s\""),
    (Toml, Knows, "mode = \"enforced\"\ndiscipline = \"lifo\"\ndefault_partition_mode = \"hardcap\""),
    (Toml, Knows, "aging = 0"),
    (Toml, CanNot, "name = 2026-01-01"),
    (Toml, Knows, "limit = 0"),
    (Toml, Knows, "limit = \"100\""),
    (Toml, Knows, "[limit]\nkind = \"gradient3\""),
    (Toml, Knows, "limit = \"vegass\""),
    (Toml, CanNot, "limit = \"aimd\""),
    (Toml, Knows, "[limit]\nkind = \"aimd\"\nbackof = 0.9"),
    (Toml, Knows, "[limit]\nkind = \"aimd\"\nthreshold = 250"),
    (Toml, CanNot, "[limit]\nkind = \"aimd\"\nthreshold = \"1s\"\nper_sample = true\nmin_time = \"2s\""),
    (Toml, CanNot, "[limit]\nkind = \"aimd\"\nthreshold = \"0s\"\nmin = 50\nmax = 10\nmin_samples = 0\nbackoff = 1"),
    (Toml, CanNot, "[limit]\nkind = \"vegas\"\nalpha = 3"),
    (Toml, Knows, "[limit]\nkind = \"two_point\"\nthreshold = \"1s\""),
    (
        Toml,
        Knows,
        "[partitions]\na = 60\nb = \"60\"\nc = \"0%\"\nd = { percent = \"5%\", mode = \"hard\" }\ne = { mode = \"burst\" }",
    ),
    (Toml, CanNot, "[partitions]\na = 1\nb = { percent = 1 }\nc = { percent = 0.1, lend = 1 }"),
    (Toml, CanNot, "[partitions]\na = \"60%\"\nb = \"50%\"\ndefault = \"1%\"\n\"\" = \"1%\""),
    (
        Toml,
        Knows,
        "[labels]\nmax_labels = 0\nmetrics = 1001\nweight = 0\ncaps = { a = -1 }\nweights = { gold = 1001 }\nonly = [{ namespace = \"x\" }]",
    ),
    (
        Toml,
        Knows,
        "[classes.workflow]\nmax_per_minute = 0\nmax_in_flight = { when_full = \"wait\" }\nmax_dispatches_per_min = 5",
    ),
    (
        Toml,
        Knows,
        "[classes.workflow]\nmax_in_flight = 0\nmax_pending = { max = 0 }\nmax_in_flight_per_namespace = { observe = true }",
    ),
    (Toml, CanNot, "[labels]\ncap = 0\ncaps = { abuser = 0 }\nonly = [{ namespace = \"ns\", label = \"a\", cap = 0 }]"),
    (Toml, CanNot, "capture_max_bytes = 5"),
    (Toml, Knows, "a = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf = 1\ng = 1\nh = 1\ni = 1\nj = 1\nk = 1\nl = 1"),
    (Toml, CanNot, "[classes.workflow]\nmax_in_flight = 5\nmax_active_leases = 6"),
    (Toml, Knows, "[classes.mail]\nmax_per_minute = { max = 60, mode = \"smoth\", burst = 0, when_full = \"drop\" }"),
    (Toml, CanNot, "[classes.mail]\nmax_per_minute = { max = 60, burst = 5 }\nbudget_group = \"smtp\""),
    (
        Toml,
        CanNot,
        "[overrides.\"a:x\".mail]\nbudget_group = \"smtp\"\nmax_per_minute_per_budget_group = 60\n\
         [overrides.\"a:y\".mail]\nbudget_group = \"smtp\"\nmax_per_minute_per_budget_group = 90",
    ),
    (Toml, Knows, "[overrides]\n\"a:x\" = { max_in_flight = 5 }"),
    (Toml, CanNot, "[overrides]\n\"a:\" = { mail = { max_in_flight = 5 } }"),
    (
        Toml,
        CanNot,
        "[overrides.\"a:x\".mail]\nmax_in_flight = 1\n[[label_overrides]]\nnamespace = \"a\"\nlabel = \"x\"\nclass = \"mail\"",
    ),
    (
        Toml,
        CanNot,
        "[overrides]\n\"*:a\".mail.max_in_flight = 5\n\"prod*\".mail.max_in_flight = 5\n\"x\".\"ma*\".max_in_flight = 5",
    ),
    (Toml, CanNot, "[labels]\ncaps = { \"a:*:b\" = 2 }\nweights = { \"a:b*\" = 2 }"),
    (Toml, Knows, "[[label_overrides]]\nlabel = \"a:b\"\nmax_inflight = 5"),
    (Json, Knows, "{ \"queue\": \"5\", \"labels\": [], \"partitions\": { \"a\": 1.5 } }"),
    (Json, CanNot, "{ \"queue\": 5, \"queue\": 6 }"),
    (Json, CanNot, "{\n  \"queue\": 5,\n}"),
    (Json, Knows, "{ \"queue\": null, \"max_waiting\": 18446744073709551615 }"),
    (Json, Knows, "[]"),
    (
        Json,
        Knows,
        "{\n  \"labels\": { \"only\": [\n    { \"label\": 5, \"cap\": -1 }\n  ] },\n  \"partitions\": { \"ä\": \"6\", \"b\": \"7\" }\n}",
    ),
    (Variables, CanNot, "TOWER_ADMISSION_QEUE=5\nTOWER_ADMISSION_WORKERS=4"),
    (Variables, CanNot, "TOWER_ADMISSION_QUEUE=many\nTOWER_ADMISSION_ADMISSION_TIMEOUT=soon"),
    (Variables, CanNot, "TOWER_ADMISSION_LIMIT=gradent2"),
    (Variables, CanNot, "TOWER_ADMISSION_LABELS_CAPS=a=1,b,c=x,a=2\nTOWER_ADMISSION_PARTITIONS=a=60"),
    (Variables, CanNot, "TOWER_ADMISSION_OVERRIDES={\"a:x\":{\"mail\":{\"max_active_lease\":5}}"),
    (Variables, CanNot, "TOWER_ADMISSION_OVERRIDES={\"a:x\":{\"mail\":{\"max_active_lease\":5}}}"),
    (Code, CanNot, "permit_time_to_live = 0"),
];

fn message(kind: Kind, text: &str) -> String {
    let sources = match kind {
        Toml => Sources::new().toml("admission.toml", text),
        Json => Sources::new().json("admission.json", text),
        Variables => Sources::new().variables(text.lines().map(|line| line.split_once('=').unwrap())),
        Code => Sources::new().code(|config| config.permit_time_to_live = Some(std::time::Duration::ZERO)),
    };
    sources.load().unwrap_err().to_string()
}

#[test]
fn each_bad_configuration_gets_its_message() {
    let mut page = String::new();
    for (kind, _, text) in BAD {
        let kind_name = match kind {
            Toml => "admission.toml",
            Json => "admission.json",
            Variables => "environment",
            Code => "code",
        };
        writeln!(page, "== {kind_name}\n{text}\n-- {}\n", message(*kind, text)).unwrap();
    }
    super::snapshot("tests/config/bad.txt", &page);
}
