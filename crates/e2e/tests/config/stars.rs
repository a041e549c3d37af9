//! A `*` that can match nothing is an error, wherever a setting is named by a label, a namespace or a class.

use tower_admission::{Admission, BuildError, ClassLimits, Labels, Rules, configuration::Sources};

const TOGGLES: [&str; 5] = [
    "",
    "[labels]\nwildcards = true\n",
    "[labels]\ntrailing_fallback = false\n",
    "[labels]\nprefix_expand = false\n",
    "[labels]\nwildcards = true\ntrailing_fallback = false\nprefix_expand = false\n",
];

/// What is wrong with a file, a problem a line; nothing if it loads.
fn problems(text: &str) -> String {
    let loaded = Sources::new().toml("admission.toml", text).load();
    loaded.err().map_or_else(String::new, |error| error.to_string())
}

fn warnings(text: &str) -> Vec<String> {
    Sources::new().toml("admission.toml", text).load().unwrap().warnings().to_vec()
}

#[test]
fn a_star_in_an_override_key_stands_for_a_whole_label_or_is_an_error() {
    let text =
        |key: &str| format!("[classes.mail]\nmax_in_flight = 9\n[overrides.\"{key}\".mail]\nmax_in_flight = 2\n");
    for toggles in TOGGLES {
        for key in
            ["*:payments", "prod*", "production:pay*", "*:*", "a:*:uat", "a:b:*", "prod*:*", "**", "production:**"]
        {
            let said = problems(&(text(key) + toggles));
            let wanted = format!("admission.toml:3:1: overrides.{key}.mail: found a * that matches nothing, allowed");
            assert!(said.contains(&wanted), "{toggles}{key}: {said:?}");
        }
        for key in ["*", " * ", "production:*", ":*", "production: *", "production:payments", "/files/{*path}"] {
            assert_eq!(problems(&(text(key) + toggles)), "", "control: {toggles}{key}");
        }
    }
    assert!(problems(&text("*:payments")).contains("\"payments\" is for any namespace"));
    assert!(problems(&text("*:*")).contains("\"*\" is for any namespace"));
}

#[test]
fn a_star_in_the_name_of_a_label_is_a_whole_segment_and_takes_wildcards() {
    let named = |name: &str| {
        [
            ("labels.caps", format!("[labels]\ncaps = {{ \"{name}\" = 2 }}\n")),
            ("labels.weights", format!("[labels]\nweights = {{ \"{name}\" = 2 }}\n")),
            ("labels.only", format!("[labels]\nonly = [{{ namespace = \"ns\", label = \"{name}\", cap = 2 }}]\n")),
        ]
    };
    for toggles in ["", "trailing_fallback = false\n", "prefix_expand = false\n", "wildcards = true\n"] {
        let wildcards = toggles.contains("wildcards");
        for (name, allowed) in [
            ("AppA:*:UAT", wildcards),
            ("*", wildcards),
            ("*:UAT", wildcards),
            ("AppA:Chrom*:UAT", false),
            ("AppA*", false),
            ("/files/{*path}", true),
        ] {
            for (path, text) in named(name) {
                let said = problems(&(text + toggles));
                let wanted = format!("{path}.{name}: found a * that matches nothing");
                assert_eq!(said.is_empty(), allowed, "{toggles}{path}.{name}: {said}");
                assert!(allowed || said.contains(&wanted), "{toggles}{path}.{name}: {said}");
            }
        }
    }
    let off = problems("[labels]\ncaps = { \"AppA:*:UAT\" = 2 }");
    assert!(off.starts_with("the configuration") && off.contains("wildcards = true"), "{off}");
    let namespace = problems("[labels]\nwildcards = true\nonly = [{ namespace = \"hub*\", label = \"a\", cap = 2 }]");
    assert!(namespace.contains("labels.only.a: found a * in namespace \"hub*\""), "{namespace}");
}

#[test]
fn classes_are_named_in_full() {
    for text in ["[classes.\"work*\"]\nmax_in_flight = 1", "[overrides.payments.\"work*\"]\nmax_in_flight = 1"] {
        let said = problems(text);
        assert!(said.contains("work*: found a * that matches nothing, allowed is the whole name of a class"), "{said}");
    }
    assert_eq!(problems("[classes.\"*\"]\nmax_in_flight = 1\n[overrides.payments.\"*\"]\nmax_in_flight = 1"), "");
}

#[test]
fn a_label_whose_name_has_a_star_can_be_meant_and_is_asked_about() {
    let text = |namespace: &str, label: &str| {
        format!(
            "[[label_overrides]]\nnamespace = \"{namespace}\"\nlabel = \"{label}\"\nclass = \"mail\"\nmax_in_flight = 2"
        )
    };
    for (namespace, label) in [("hub", "AppA:*:UAT"), ("hub", "*"), ("hub*", "AppA")] {
        let warnings = warnings(&text(namespace, label));
        assert_eq!(warnings.len(), 1, "{namespace} {label}: {warnings:?}");
        assert!(warnings[0].contains("taken literally"), "{warnings:?}");
    }
    assert_eq!(warnings(&text("hub", "AppA:Chromium:UAT")), [""; 0], "control");
}

#[test]
fn code_is_held_to_the_same() {
    let paths = |outcome: Result<Admission, BuildError>| -> Vec<String> {
        outcome.err().map_or_else(Vec::new, |error| error.problems().iter().map(|it| it.path().to_owned()).collect())
    };
    let over = |key: &str| {
        let rules = Rules::new().class("mail", ClassLimits::new()).override_key(
            key,
            "mail",
            ClassLimits::new().max_in_flight(2),
        );
        Admission::builder().rules(rules).build()
    };
    assert_eq!(paths(over("prod*")), ["overrides.prod*.mail"]);
    assert_eq!(paths(over("prod:*")), [""; 0]);
    let cap = |wildcards| Admission::builder().labels(Labels::new().label_cap("a:*", 2).wildcards(wildcards)).build();
    assert_eq!((paths(cap(false)), paths(cap(true))), (vec!["labels.caps.a:*".to_owned()], Vec::new()));
    // A reload is held to the same, and changes nothing then.
    let admission = over("prod:*").unwrap();
    let rules =
        Rules::new().class("mail", ClassLimits::new()).override_key("*:x", "mail", ClassLimits::new().max_in_flight(2));
    assert!(admission.reload(Admission::builder().rules(rules)).is_err());
}
