//! What the command line says.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::sim::scenario::Scenario;

/// The command line.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Files, and folders of them.
    paths: Vec<PathBuf>,
    seed: Option<u64>,
    seeds: Option<u64>,
    pub(crate) laws: Vec<String>,
    set: Vec<(String, Value)>,
    pub(crate) search: bool,
    pub(crate) check: bool,
    pub(crate) table: bool,
    pub(crate) json: bool,
    pub(crate) help: bool,
    pub(crate) metric: Option<String>,
    pub(crate) svg: Option<PathBuf>,
}

impl Options {
    pub(crate) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self { search: true, ..Self::default() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing"));
            let number = |text: &String| {
                text.parse::<u64>().map_err(|_| format!("{argument}: found {text}, wanted is a whole number"))
            };
            match argument.as_str() {
                "-h" | "--help" => options.help = true,
                "--check" => options.check = true,
                "--json" => options.json = true,
                "--no-search" => options.search = false,
                "--table" => options.table = true,
                "--law" => options.laws.push(value()?.clone()),
                "--metric" => options.metric = Some(value()?.clone()),
                "--seed" => options.seed = Some(number(value()?)?),
                "--seeds" => options.seeds = Some(number(value()?)?.max(1)),
                "--set" => options.set.push(assignment(value()?)?),
                "--svg" => options.svg = Some(value()?.into()),
                unknown if unknown.starts_with('-') => return Err(format!("{unknown}: unknown; try --help")),
                path => options.paths.push(path.into()),
            }
        }
        if options.paths.is_empty() && !options.help {
            return Err("which scenario? Try --help, or one of tests/scenarios".to_owned());
        }
        Ok(options)
    }

    /// All scenarios, under `law` if there is one, else under their own.
    pub(crate) fn scenarios(&self, law: Option<&str>) -> Result<Vec<Scenario>, String> {
        files(&self.paths)?.iter().map(|path| self.scenario(path, law)).collect()
    }

    fn scenario(&self, path: &Path, law: Option<&str>) -> Result<Scenario, String> {
        let complain = |problem: String| {
            problem.lines().map(|line| format!("{}: {line}", path.display())).collect::<Vec<_>>().join("\n")
        };
        let mut table = read_table(path).map_err(complain)?;
        let (whole, fields): (Vec<_>, Vec<_>) = self.set.iter().partition(|(key, _)| !key.contains('.'));
        for (key, value) in whole {
            put(&mut table, key, value.clone()).map_err(complain)?;
        }
        if let Some(law) = law {
            put(&mut table, "policy.law", Value::Table(parse_law(law)?)).map_err(complain)?;
        }
        for (key, value) in fields {
            put(&mut table, key, value.clone()).map_err(complain)?;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        let mut scenario = Scenario::read(&name, &table, folder).map_err(complain)?;
        match (self.seed, self.seeds) {
            (Some(seed), count) => scenario.seeds = (seed..seed + count.unwrap_or(1)).collect(),
            (None, Some(count)) => scenario.seeds = (1..=count).collect(),
            (None, None) => {}
        }
        Ok(scenario)
    }
}

fn read_table(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    text.parse::<Table>().map_err(|error| error.to_string())
}

/// The files that the command line names, those in folders in the order of their names.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let mut inside: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            inside.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
            inside.sort();
            files.append(&mut inside);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// `KEY=VALUE`, the value in TOML; what isn't TOML is a string.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text}: wanted is FIELD=VALUE"))?;
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((key.trim().to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// `KIND` or `KIND:FIELD=VALUE,FIELD=VALUE`.
fn parse_law(text: &str) -> Result<Table, String> {
    let (kind, fields) = text.split_once(':').unwrap_or((text, ""));
    let mut law = Table::new();
    law.insert("kind".to_owned(), kind.into());
    for field in fields.split(',').filter(|field| !field.is_empty()) {
        let (key, value) = assignment(field)?;
        law.insert(key, value);
    }
    Ok(law)
}

/// Puts `value` where the dotted path `key` says.
fn put(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let child = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            let child = child.as_table_mut().ok_or_else(|| format!("{first}: is not a table"))?;
            put(child, rest, value)
        }
    }
}
