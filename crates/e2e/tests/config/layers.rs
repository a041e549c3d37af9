//! Default, file, environment, code: which one holds, and who said so.

use std::{fs, time::Duration};

use tower_admission::{
    AdmissionBuilder, Discipline, Mode, PartitionMode, Ticket,
    configuration::{AdmissionConfig, LimitConfig, Loaded, Sources},
    percent,
};

fn origin(loaded: &Loaded, path: &str) -> String {
    let found = loaded.effective().iter().find(|one| one.path == path);
    found.map_or_else(|| format!("no {path}"), |one| format!("{} from {}", one.value, one.origin))
}

#[test]
fn code_beats_the_environment_which_beats_files_which_beat_the_default() {
    let loaded = Sources::new()
        .code(|config| config.queue = 4.into())
        .variables([("TOWER_ADMISSION_QUEUE", "3"), ("TOWER_ADMISSION_LABELS_MAX_WAITING", "30"), ("OTHER", "1")])
        .toml("one.toml", "queue = 1\nmax_waiting = 1\n[labels]\nmax_waiting = 10\nmax_waiting_per_run = 7\n")
        .json("two.json", r#"{ "queue": 2, "aging": "none" }"#)
        .load()
        .unwrap();
    assert_eq!(origin(&loaded, "queue"), "4 from code");
    assert_eq!(origin(&loaded, "max_waiting"), "1 from one.toml:2");
    assert_eq!(origin(&loaded, "labels.max_waiting"), "30 from TOWER_ADMISSION_LABELS_MAX_WAITING");
    assert_eq!(origin(&loaded, "labels.max_waiting_per_run"), "7 from one.toml:5");
    assert_eq!(origin(&loaded, "aging"), "\"none\" from two.json:1");
    assert_eq!(origin(&loaded, "labels.cap"), "\"none\" from default");
    assert_eq!((loaded.config().queue, loaded.config().aging), (4.into(), None));
}

#[test]
fn maps_are_layered_by_name_and_limits_by_field() {
    let loaded = Sources::new()
        .toml("file", "partitions = { a = '60%', b = 0.2 }\nclasses.w = { max_active_leases = 5, max_per_minute = 60 }")
        .variables([
            ("TOWER_ADMISSION_PARTITIONS", "b=10%, c=5%"),
            ("TOWER_ADMISSION_CLASSES_W_MAX_IN_FLIGHT", "6"),
            ("TOWER_ADMISSION_LABELS_CAPS", "AppA:Chromium:UAT=2,AppB:Firefox:UAT=1"),
        ])
        .load()
        .unwrap();
    let config = loaded.config();
    assert_eq!(config.partitions["a"], percent(60));
    assert_eq!(config.partitions["b"], percent(10));
    assert_eq!(config.partitions["c"], percent(5));
    assert_eq!(config.labels.caps["AppA:Chromium:UAT"], Some(2));
    assert_eq!(origin(&loaded, "classes.w.max_in_flight"), "6 from TOWER_ADMISSION_CLASSES_W_MAX_IN_FLIGHT");
    assert_eq!(origin(&loaded, "classes.w.max_per_minute"), "60 from file:2");
}

#[test]
fn another_kind_of_limit_starts_afresh() {
    let load = |variables: &[(&'static str, &'static str)]| {
        let file = "[limit]\nkind = 'aimd'\nthreshold = '300ms'\nmax = 50";
        let loaded = Sources::new().toml("file", file).variables(variables.iter().copied()).load();
        loaded.unwrap().into_config().limit
    };
    let LimitConfig::Aimd(law) = load(&[("TOWER_ADMISSION_LIMIT_MAX", "60")]) else { panic!() };
    assert_eq!((law.max, law.threshold), (60, Duration::from_millis(300)));
    assert_eq!(load(&[("TOWER_ADMISSION_LIMIT", "8")]), LimitConfig::from(8));
    let LimitConfig::TwoPoint(law) = load(&[("TOWER_ADMISSION_LIMIT", "two-point")]) else { panic!() };
    assert_eq!(law.max, 10_000, "the default, not what AIMD was told");
    let LimitConfig::Aimd(law) = load(&[("TOWER_ADMISSION_LIMIT", "aimd")]) else { panic!() };
    assert_eq!(law.max, 50, "the same law goes on");
    let name = |text: &str| AdmissionConfig::from_toml(text).unwrap();
    assert_eq!(name("limit = 'vegas'").limit.kind(), "vegas");
    assert_eq!(name("shadow_law = 'two-point'").shadow_law.unwrap().kind(), "two_point");
    let LimitConfig::Aimd(law) = name("limit = 'aimd'\npatience = '2s'").limit else { panic!() };
    assert_eq!(law.threshold, Duration::from_secs(1));
    let whole: AdmissionConfig = serde_json::from_str(r#"{ "limit": "gradient2" }"#).unwrap();
    assert_eq!(whole.limit.kind(), "gradient2");
}

#[test]
fn bare_numbers_are_seconds_in_the_environment_and_mistakes_in_files() {
    let variables = [("TOWER_ADMISSION_QUEUE", "9"), ("TOWER_ADMISSION_ADMISSION_TIMEOUT", "2.5")];
    let config = Sources::new().variables(variables).load().unwrap().into_config();
    assert_eq!(config.admission_timeout, Duration::from_millis(2_500).into());
    assert!(AdmissionConfig::from_toml("admission_timeout = 2.5").is_err());
}

#[test]
fn the_variables_of_the_two_phase_server_and_of_the_hub_have_their_like() {
    let config = Sources::new()
        .variables([
            ("TOWER_ADMISSION_LIMIT", "200"),
            ("TOWER_ADMISSION_QUEUE", "3600"),
            ("TOWER_ADMISSION_ADMISSION_TIMEOUT", "5.0"),
            ("TOWER_ADMISSION_MAX_CONCURRENT_STREAMS", "4000"),
            ("TOWER_ADMISSION_LABELS_MAX_WAIT", "20"),
            ("TOWER_ADMISSION_LABELS_MAX_WAITING", "20"),
            ("TOWER_ADMISSION_LABELS_MAX_WAITING_PER_RUN", "3"),
            ("TOWER_ADMISSION_LABELS_CAP", "none"),
            ("TOWER_ADMISSION_LABELS_CAPS", "AppB:Chromium:UAT=3,AppB:Firefox:UAT=1"),
            ("TOWER_ADMISSION_LABELS_TRAILING_FALLBACK", "true"),
            ("TOWER_ADMISSION_LABELS_PREFIX_EXPAND", "true"),
            ("TOWER_ADMISSION_LABELS_WILDCARDS", "false"),
        ])
        .load()
        .unwrap();
    let [endless] = config.warnings() else { panic!("{:?}", config.warnings()) };
    assert!(endless.starts_with("3600 requests may wait without a bound in time"), "{endless}");
    let admission = AdmissionBuilder::from(config.into_config()).build().unwrap();
    let running: Vec<_> =
        (0..5).map_while(|_| admission.try_admit(Ticket::new().label("AppB:Chromium:UAT")).ok()).collect();
    assert_eq!(running.len(), 3);
}

#[test]
fn everything_reaches_the_handle() {
    let config = AdmissionConfig::from_toml(
        "name = 'search'\nmode = 'observe'\ndiscipline = 'adaptive-lifo'\ndefault_partition_mode = 'hard_cap'\n\
         default_partition_observe = true\nqueue = 3\n\
         patience = '10s'\nmax_wait = 'none'\n",
    );
    let config = config.unwrap();
    assert_eq!((config.default_partition_mode, config.default_partition_observe), (PartitionMode::HardCap, true));
    let variables = [("TOWER_ADMISSION_DEFAULT_PARTITION_OBSERVE", "true")];
    let from_environment = Sources::new().variables(variables).load().unwrap().into_config();
    assert!(from_environment.default_partition_observe && !AdmissionConfig::default().default_partition_observe);
    let times = (Duration::from_millis(100), Duration::from_millis(5));
    assert_eq!(config.discipline, Discipline::AdaptiveLifo { interval: times.0, short_wait: times.1 }.into());
    let admission = AdmissionBuilder::from(config).build().unwrap();
    assert_eq!(admission.snapshot().mode, Mode::Observe.as_str());
    assert!(admission.snapshot().partition("default").unwrap().observes);
    assert_eq!(admission.warnings().len(), 1, "no max_wait and clients with little patience");
}

#[test]
fn files_are_read_by_their_ending_and_named_in_messages() {
    let folder = std::env::temp_dir().join(format!("tower-admission-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (good, json, gone) = (folder.join("a.toml"), folder.join("b.json"), folder.join("gone.toml"));
    fs::write(&good, "queue = 5").unwrap();
    fs::write(&json, r#"{ "queue": true }"#).unwrap();
    assert_eq!(AdmissionConfig::load(&good).unwrap().queue, 5.into());
    let message = AdmissionConfig::load(&json).unwrap_err().to_string();
    assert!(message.contains("b.json:1:12: queue: found true, allowed is a whole number"), "{message}");
    let message = AdmissionConfig::load(&gone).unwrap_err().to_string();
    assert!(message.contains("gone.toml: can't be read"), "{message}");
    let other = folder.join("c.yaml");
    fs::write(&other, "queue: 5").unwrap();
    let message = AdmissionConfig::load(&other).unwrap_err().to_string();
    assert!(message.contains("c.yaml: found a file that ends with .yaml, allowed are .toml and .json"), "{message}");
    fs::write(folder.join("plain"), "\u{feff}queue = 6").unwrap();
    assert_eq!(
        AdmissionConfig::load(folder.join("plain")).unwrap().queue,
        6.into(),
        "TOML behind a mark of its encoding"
    );
    assert_eq!(AdmissionConfig::from_json("\u{feff}{ \"queue\": 7 }").unwrap().queue, 7.into());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn it_can_be_a_part_of_a_larger_configuration() {
    #[derive(Debug, serde::Deserialize, serde::Serialize)]
    struct Service {
        port: u16,
        admission: AdmissionConfig,
    }
    let text = "port = 80\n[admission]\nqueue = 5\nclasses.w.max_active_leases = 3\n";
    let service: Service = toml::from_str(text).unwrap();
    assert_eq!((service.port, service.admission.queue), (80, 5.into()));
    let again: Service = serde_json::from_str(&serde_json::to_string(&service).unwrap()).unwrap();
    assert_eq!(again.admission, service.admission);
    let error = toml::from_str::<Service>("port = 80\n[admission]\nquee = 5\nmode = 'on'").unwrap_err();
    assert!(error.message().contains("did you mean queue?") && error.message().contains("mode: found"), "{error}");
}

#[test]
fn what_is_only_in_files_is_warned_about_by_the_handle_too() {
    let config =
        AdmissionConfig::from_toml("classes.workflow.max_in_flight = 3\noverrides.x.workflo.max_in_flight = 1");
    let warnings = AdmissionBuilder::from(config.unwrap()).build().unwrap().warnings();
    assert_eq!(warnings, ["overrides name a class \"workflo\" that has no rules; did you mean \"workflow\"?",]);
}

#[test]
fn what_changes_nothing_or_is_rarely_meant_is_warned_about() {
    let warning = |text: &str| Sources::new().toml("file", text).load().unwrap().warnings().concat();
    for (text, begins) in [
        ("partitions = { a = '0.6%' }\nlimit = 1000", "partitions.a is 0.6 % of the limit: if 60 % is meant"),
        ("store = { prefix = 'shop' }", "[store] has no effect without url"),
        ("patience = '10s'\npermit_time_to_live = '5s'", "permit_time_to_live is 5s, and clients wait for 10s"),
        ("labels = { caps = { a = 1, b = 1 }, max_labels = 1 }", "labels.max_labels is 1, and caps and weights name 2"),
        ("labels = { weights = { a = 2 } }\nwait_timeout = '0s'", "labels.weights has no effect"),
        ("labels = { wildcards = true }", "labels.wildcards has no effect"),
    ] {
        assert!(warning(text).starts_with(begins), "{text}: {}", warning(text));
    }
    assert_eq!(warning("store = { prefix = 'shop', url = 'redis://10.0.0.5/' }"), "");
    let lifted = "labels = { cap = 2, caps = { a = 'none' } }\nclasses.w.max_in_flight = 'none'";
    assert_eq!(warning(lifted), "", "no cap is a setting like any other");
}

#[test]
fn labels_without_settings_of_their_own_get_those_of_patterns() {
    let text = "[labels]\nwildcards = true\ncaps = { 'AppA:Chromium:UAT' = 2, 'AppB:*:UAT' = 3 }";
    let admission = AdmissionBuilder::from(AdmissionConfig::from_toml(text).unwrap()).build().unwrap();
    for (label, most) in [
        ("AppA:Chromium:UAT", 2),
        ("AppA:Chromium:UAT:eu", 2), // trailing fallback
        ("AppA", 2),                 // prefix expand
        ("AppB:Firefox:UAT", 3),     // wildcards
        ("AppC", 10),
    ] {
        let start = |_| admission.try_admit(Ticket::new().label(label)).ok();
        assert_eq!((0..10).map_while(start).collect::<Vec<_>>().len(), most, "{label}");
    }
}

#[test]
fn what_is_not_set_follows_from_the_patience_and_says_so() {
    let file = "patience = '2s'\nadmission_timeout = '10ms'\n[limit]\nkind = 'aimd'\nmax = 50";
    let loaded = Sources::new().toml("file", file).load().unwrap();
    assert_eq!(loaded.warnings(), [""; 0]);
    for (path, expected) in [
        ("patience", "\"2s\" from file:1"),
        ("queue", "10000 from patience"),
        ("admission_timeout", "\"10ms\" from file:2"),
        ("max_wait", "\"1600ms\" from patience"),
        ("discipline.kind", "\"burst_credit\" from patience"),
        ("discipline.standing", "\"50ms\" from patience"),
        ("limit.threshold", "\"1s\" from patience"),
        ("limit.max", "50 from file:5"),
    ] {
        assert_eq!(origin(&loaded, path), expected, "{path}");
    }
    let alone = Sources::new().toml("file", "patience = '1s'").load().unwrap();
    assert_eq!(origin(&alone, "limit.kind"), "\"two_point\" from default");
    let admission = AdmissionBuilder::from(alone.config().clone()).build().unwrap();
    assert_eq!((admission.snapshot().queue, admission.snapshot().limit), (10_000, 20));
    // What is written reads back as the same, and still follows.
    assert_eq!(AdmissionConfig::from_toml(&alone.config().to_toml()).unwrap(), *alone.config());

    let none = Sources::new().load().unwrap();
    assert_eq!(origin(&none, "queue"), "0 from default");
    assert_eq!(origin(&none, "wait_timeout"), "\"500ms\" from default");
    let by_code = Sources::new().code(|config| config.patience = Some(Duration::from_secs(4))).load().unwrap();
    assert_eq!(origin(&by_code, "patience"), "\"4s\" from code");
    assert_eq!(origin(&by_code, "max_wait"), "\"3200ms\" from code");

    let zero = Sources::new().toml("file", "patience = '0s'").load().unwrap_err().to_string();
    assert!(zero.contains("file:1:12: patience: found 0, allowed is any longer time"), "{zero}");
    let unread = Sources::new().toml("file", "patience = 'soon'\nlimit = { kind = 'aimd' }").load().unwrap_err();
    assert_eq!(unread.problems().len(), 2, "{unread}");
}
