//! What the command line says.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::draw::Set;
use crate::{node::parse_time, scenario::Scenario};

/// The command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Files, and folders of them.
    paths: Vec<PathBuf>,
    seed: Option<u64>,
    seeds: Option<u64>,
    laws: Vec<String>,
    /// How many scenarios are drawn, and where they are written instead of run.
    pub(crate) draw: Option<u64>,
    /// What these are.
    drawn_from: Set,
    pub(crate) write: Option<PathBuf>,
    set: Vec<(String, Value)>,
    /// Whether to switch off the rules of a law, one at a time.
    pub(crate) ablate: bool,
    pub(crate) search: bool,
    pub(crate) check: bool,
    pub(crate) table: bool,
    pub(crate) json: bool,
    pub(crate) help: bool,
    /// Whether help is about the options alone.
    pub(crate) is_brief: bool,
    pub(crate) metric: Option<String>,
    pub(crate) svg: Option<PathBuf>,
    /// A capture to be run again, and the policies for that if not its own.
    pub(crate) replay: Option<PathBuf>,
    pub(crate) policies: Vec<PathBuf>,
}

impl Options {
    pub(crate) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self { search: true, ..Self::default() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing"));
            let number = |text: &String| {
                text.parse::<u64>().map_err(|_| format!("{argument}: found {text}, allowed is a whole number"))
            };
            match argument.as_str() {
                "-h" => (options.help, options.is_brief) = (true, true),
                "--help" => options.help = true,
                "--ablate" => options.ablate = true,
                "--check" => options.check = true,
                "--draw" => options.draw = Some(number(value()?)?.max(1)),
                "--json" => options.json = true,
                "--no-search" => options.search = false,
                "--table" => options.table = true,
                "--sizes" => options.drawn_from = Set::Sizes,
                "--trouble" => options.drawn_from = Set::Trouble,
                "--law" => options.laws.push(value()?.clone()),
                "--metric" => options.metric = Some(value()?.clone()),
                "--policy" => options.policies.push(value()?.into()),
                "--replay" => options.replay = Some(value()?.into()),
                "--seed" => options.seed = Some(number(value()?)?),
                "--seeds" => options.seeds = Some(number(value()?)?.max(1)),
                "--set" => options.set.push(assignment(value()?)?),
                "--svg" => options.svg = Some(value()?.into()),
                "--write" => options.write = Some(value()?.into()),
                unknown if unknown.starts_with('-') => return Err(format!("{unknown}: unknown option; see --help")),
                path => options.paths.push(path.into()),
            }
        }
        if options.draw.is_none() && (options.write.is_some() || options.drawn_from != Set::Overload) {
            return Err(
                "--write, --sizes and --trouble need --draw: they say what becomes of what is drawn, and what that is"
                    .to_owned(),
            );
        }
        if !options.policies.is_empty() && options.replay.is_none() {
            return Err("--policy is for --replay; --set changes the policy of a scenario".to_owned());
        }
        let nothing = options.paths.is_empty() && options.draw.is_none() && options.replay.is_none();
        if nothing && !options.help {
            return Err("a scenario is missing: see --help, or take one of crates/simulator/scenarios".to_owned());
        }
        Ok(options)
    }

    /// Those of the command line; where there are none, that of each scenario.
    pub(crate) fn laws(&self) -> Vec<Option<&str>> {
        match self.laws.as_slice() {
            [] => vec![None],
            laws => laws.iter().map(|law| Some(law.as_str())).collect(),
        }
    }

    /// All scenarios, under `law` if there is one, else under their own.
    pub(crate) fn scenarios(&self, law: Option<&str>) -> Result<Vec<Scenario>, String> {
        let files = files(&self.paths)?.into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            self.scenario(&path, &text, law)
        });
        let drawn = self.drawn().map(|(name, text)| self.scenario(Path::new(&name), &text, law));
        files.chain(drawn).collect()
    }

    /// Each path by itself, and what is drawn, with their names.
    pub(crate) fn groups(&self) -> Vec<(String, Self)> {
        let of = |paths: Vec<PathBuf>, draw| Self { paths, draw, ..self.clone() };
        let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let paths = self.paths.iter().map(|path| (name(path), of(vec![path.clone()], None)));
        let drawn = self.draw.map(|count| ("drawn".to_owned(), of(Vec::new(), Some(count))));
        paths.chain(drawn).collect()
    }

    /// The names and the texts of the scenarios that are drawn.
    fn drawn(&self) -> impl Iterator<Item = (String, String)> {
        let (seed, set) = (self.seed.unwrap_or(1), self.drawn_from);
        let numbers = 1..=self.draw.unwrap_or(0);
        numbers.map(move |number| (set.name(seed, number), set.draw(seed, number)))
    }

    pub(crate) fn write_drawn(&self, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (name, text) in self.drawn() {
            let path = folder.join(name).with_extension("toml");
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn scenario(&self, path: &Path, text: &str, law: Option<&str>) -> Result<Scenario, String> {
        let complain = |problem: String| {
            problem.lines().map(|line| format!("{}: {line}", path.display())).collect::<Vec<_>>().join("\n")
        };
        let mut table = text.parse::<Table>().map_err(|error| complain(error.to_string()))?;
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
        resolve_percent(&mut table);
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
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text}: allowed is FIELD=VALUE"))?;
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

/// A threshold or a patience in percent is one of the deadline: `--law aimd:threshold=50%` suits scenarios with different
/// ones, and so does `--set policy.patience=100%`.
#[expect(clippy::cast_precision_loss, reason = "times of less than a hundred days")]
fn resolve_percent(table: &mut Table) {
    let deadline = table.get("clients").and_then(|it| parse_time(it.get("deadline")?.as_str()?));
    let Some(deadline) = deadline else { return };
    for path in ["policy.law.threshold", "policy.patience"] {
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| table.get(key));
        let found = keys.fold(first, |value, key| value?.get(key));
        let percent = found.and_then(|it| it.as_str()?.strip_suffix('%')?.parse::<f64>().ok());
        if let Some(percent) = percent {
            let time = format!("{}us", deadline as f64 * percent / 100_000.0);
            let _ = put(table, path, Value::String(time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenarios(arguments: &str, law: Option<&str>) -> Vec<Scenario> {
        let arguments: Vec<_> = arguments.split_whitespace().map(str::to_owned).collect();
        Options::read(&arguments).unwrap().scenarios(law).unwrap()
    }

    #[test]
    fn a_drawn_scenario_does_not_depend_on_how_many_are_drawn() {
        let (few, many) = (scenarios("--draw 2 --seed 7", None), scenarios("--draw 5 --seed 7", None));
        assert_eq!(many.len(), 5);
        assert_eq!((&few[1].name, &few[1].about), (&many[1].name, &many[1].about));
        assert_eq!((few[1].name.as_str(), few[1].seeds.as_slice()), ("draw-7-002", [7].as_slice()));
    }

    #[test]
    fn what_is_written_is_what_is_drawn() {
        let folder = std::env::temp_dir().join(format!("simulate-write-{}", std::process::id()));
        let options = Options::read(&["--draw".to_owned(), "3".to_owned()]).unwrap();
        options.write_drawn(&folder).unwrap();
        let read = scenarios(folder.to_str().unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", options.scenarios(None).unwrap()));
    }

    #[test]
    fn a_patience_in_percent_is_the_deadline() {
        for scenario in scenarios("--draw 5 --set policy.patience=100%", None) {
            let deadline = format!("{}us", scenario.clients.deadline / 1_000);
            assert!(format!("{:?}", scenario.policy).contains(&deadline), "{:?}", scenario.policy);
        }
    }

    #[test]
    fn a_threshold_in_percent_is_one_of_the_deadline() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/overload-shared.toml");
        let law = |law| scenarios(&format!("--set clients.deadline=2s {file}"), Some(law))[0].policy.law();
        assert_eq!(law("aimd:threshold=50%"), "aimd:threshold=1000000us");
        assert_eq!(law("aimd:threshold=250ms"), "aimd:threshold=250ms");
    }
}
