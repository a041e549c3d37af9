//! `admission check`: whether a configuration can be used, and what it says.

use std::io::{read_to_string, stdin};

use serde_json::{Value, json};
use tower_admission::configuration::{ConfigError, Effective, Loaded, Sources};

use crate::{
    args::CheckArgs,
    failure::{End, Failure},
    key::Held,
    table::{Cell, Table},
    text::{self, Look, Paint, safe},
};

pub(crate) fn run(args: &CheckArgs) -> Result<End, Failure> {
    let mut sources = Sources::new();
    for file in &args.files {
        sources = if file.as_os_str() == "-" { standard_input(sources)? } else { sources.file(file) };
    }
    if args.env {
        sources = sources.environment();
    }
    let loaded = match sources.load() {
        Ok(loaded) => loaded,
        Err(error) => {
            text::print(&if args.json { text::json(&problems_json(&error)) } else { problems(&error) })?;
            return Ok(End::Wrong);
        }
    };
    let held = match &args.key {
        Some(key) => Some(Held::find(&loaded, key, args.class.as_deref())?),
        None => None,
    };
    let wrong = args.deny_warnings && !loaded.warnings().is_empty();
    if args.json {
        let mut json = json!({ "ok": !wrong, "problems": [], "warnings": loaded.warnings() });
        if let Some(held) = &held {
            json["key"] = held.to_json();
        }
        if args.effective {
            json["effective"] = loaded.effective().iter().map(effective_json).collect();
        }
        text::print(&text::json(&json))?;
    } else {
        text::print(&human(args, &loaded, held.as_ref(), wrong))?;
    }
    Ok(End::wrong_if(wrong))
}

/// JSON begins with a brace, which TOML does not.
fn standard_input(sources: Sources) -> Result<Sources, Failure> {
    const NAME: &str = "standard input";
    let text = read_to_string(stdin()).map_err(|error| Failure::Missing(format!("{NAME}: {error}")))?;
    Ok(if text.trim_start().starts_with('{') { sources.json(NAME, text) } else { sources.toml(NAME, text) })
}

fn problems(error: &ConfigError) -> String {
    let paint = Paint::for_stdout();
    let shown = error.problems().iter().take(10);
    let mut lines: Vec<_> = shown.map(|problem| safe(&problem.to_string()).into_owned()).collect();
    let count = match error.problems().len() {
        1 => "1 problem".to_owned(),
        count @ 2..=10 => format!("{count} problems"),
        count => format!("{count} problems, of which --json shows all"),
    };
    lines.push(paint.paint(Look::Bad, &count));
    lines.join("\n") + "\n"
}

fn problems_json(error: &ConfigError) -> Value {
    let problems = error.problems().iter().map(|problem| {
        json!({ "origin": problem.origin().to_string(), "path": problem.path(), "message": problem.message() })
    });
    json!({ "ok": false, "problems": problems.collect::<Vec<_>>(), "warnings": [] })
}

fn effective_json(one: &Effective) -> Value {
    json!({ "path": one.path, "value": one.value, "origin": one.origin.to_string() })
}

fn human(args: &CheckArgs, loaded: &Loaded, held: Option<&Held>, wrong: bool) -> String {
    let paint = Paint::for_stdout();
    let mut lines = Vec::new();
    for warning in loaded.warnings() {
        lines.push(format!("{}: {}", paint.paint(Look::Busy, "warning"), safe(warning)));
    }
    if args.effective {
        let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
        for one in loaded.effective() {
            table.row([
                Cell::from(&one.path),
                Cell::from(&one.value),
                Cell::from(one.origin.to_string()).with(Look::Dim),
            ]);
        }
        lines.extend(table.lines(paint));
    }
    lines.extend(held.map(|held| held.lines(paint)).unwrap_or_default());
    // A requested part is printed alone, unless there are problems.
    match (wrong, args.effective || held.is_some()) {
        (true, _) => lines.push(paint.paint(Look::Bad, "warnings count as problems")),
        (false, true) => {}
        (false, false) => lines.push(paint.paint(Look::Good, "the configuration can be used")),
    }
    lines.join("\n") + "\n"
}
