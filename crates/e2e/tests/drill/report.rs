//! The table of what was told.

use std::{env, fs, path::PathBuf};

use super::{clients::Truth, incidents::Incident, told::Told};

/// Where pictures and the table go.
pub(crate) fn folder() -> Option<PathBuf> {
    env::var_os("DRILL").map(PathBuf::from)
}

/// The table, in Markdown.
pub(crate) fn table(incidents: &[Incident], told: &[Told], truths: &[Truth]) -> String {
    let mut out = "| incident | what was done | what callers got in ten seconds | the page's first line | status' first line | JSON: \
                   state, limit, limit's state, refused | alerts |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for ((incident, told), truth) in incidents.iter().zip(told).zip(truths) {
        let json = if told.json.is_null() {
            "no answer".to_owned()
        } else {
            let (health, limit) = (&told.json["health"], &told.json["limit_state"]);
            let refused = health["rejected"].as_array().into_iter().flatten();
            let refused: Vec<_> = refused
                .map(|it| {
                    format!(
                        "{} {:.0} % {}",
                        it["name"].as_str().unwrap(),
                        it["percent"].as_f64().unwrap(),
                        it["reason"]
                    )
                })
                .collect();
            let state = health["state"].as_str().unwrap();
            format!("{state}, {}, {}, {refused:?}", told.json["limit"], limit["state"].as_str().unwrap())
        };
        let cells = [
            incident.name,
            incident.what,
            &truth.to_string(),
            &told.page.first_line,
            &told.status,
            &json,
            &told.alert_states.join(", "),
        ];
        out += &format!("| {} |\n", cells.map(|it| it.replace('|', "\\|")).join(" | "));
    }
    out
}

pub(crate) fn write(incidents: &[Incident], told: &[Told], truths: &[Truth]) {
    if let Some(folder) = folder() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("drill.md"), table(incidents, told, truths)).unwrap();
    }
}
