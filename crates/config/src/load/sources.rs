//! Where a configuration comes from, layer by layer, and where each of its values came from in the end.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    environment, json_text,
    problems::{ConfigError, ConfigProblem},
    toml_text,
    value::{Node, Origin, Value, join, word},
};
use crate::{
    AdmissionConfig,
    schema::{
        limits,
        setting::{AUTO, At, NONE, Problems, Setting},
    },
};

/// Where a configuration comes from: files, environment variables, code.
///
/// Per setting, code overrides the environment, the environment overrides files, and files override the default. Of
/// several files, the last one that has the setting wins.
///
/// ```
/// use tower_admission::configuration::Sources;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let loaded = Sources::new()
///     .toml("built in", "limit = 200\nqueue = 3600")   // or .file("admission.toml")
///     .variables([("TOWER_ADMISSION_QUEUE", "400")])   // or .environment()
///     .code(|config| config.name = "search".into())
///     .load()?;
/// assert_eq!(loaded.config().queue.get(), Some(&400));
/// for one in loaded.effective() {
///     println!("{} = {}   # {}", one.path, one.value, one.origin);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Sources {
    files: Vec<Text>,
    variables: Vec<Variables>,
    code: Vec<Arc<Change>>,
    is_watched: bool,
}

type Change = dyn Fn(&mut AdmissionConfig) + Send + Sync;

#[derive(Clone, Debug)]
enum Text {
    File(PathBuf),
    Toml { name: String, text: String },
    Json { name: String, text: String },
}

#[derive(Clone, Debug)]
enum Variables {
    Environment,
    These(Vec<(String, String)>),
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sources");
        shown.field("files", &self.files).field("variables", &self.variables).field("code", &self.code.len()).finish()
    }
}

impl Sources {
    /// No sources: all settings have their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file: JSON if its name ends with `.json`, TOML if it ends with `.toml` or has no ending. Each [`load`](Self::load) reads it again.
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.files.push(Text::File(path.as_ref().to_owned()));
        self
    }

    /// Adds a text in TOML, with its name in messages.
    pub fn toml(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.push(Text::Toml { name: name.into(), text: text.into() });
        self
    }

    /// Adds a text in JSON, with its name in messages.
    pub fn json(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.push(Text::Json { name: name.into(), text: text.into() });
        self
    }

    /// Adds the variables of this process that begin with `TOWER_ADMISSION_`, as they are when [`load`](Self::load) is
    /// called.
    pub fn environment(mut self) -> Self {
        self.variables.push(Variables::Environment);
        self
    }

    /// Adds these variables in place of the environment. Names that don't begin with `TOWER_ADMISSION_` are ignored.
    pub fn variables<N: Into<String>, T: Into<String>>(mut self, variables: impl IntoIterator<Item = (N, T)>) -> Self {
        let variables = variables.into_iter().map(|(name, text)| (name.into(), text.into()));
        self.variables.push(Variables::These(variables.collect()));
        self
    }

    /// Adds a change by the program itself, which overrides all other sources.
    pub fn code(mut self, change: impl Fn(&mut AdmissionConfig) + Send + Sync + 'static) -> Self {
        self.code.push(Arc::new(change));
        self
    }

    /// Takes files only that can be read again and again: to open a pipe waits until another process writes to it.
    #[doc(hidden)]
    pub const fn watched(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// Reads all sources.
    ///
    /// # Errors
    ///
    /// Names every problem of every source.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        let problems = Problems::default();
        let mut said = Node::empty();
        let files = self.files.iter().filter_map(|text| text.read(self.is_watched, &problems));
        let variables = self.variables.iter().map(|variables| environment::read(&variables.list(&problems), &problems));
        for mut layer in files.chain(variables) {
            limits::spell_out(&mut layer, &problems);
            said.lay(layer);
        }
        derive_threshold(&mut said);
        let mut config = AdmissionConfig::read(&At::root(&said, &problems)).unwrap_or_default();
        let before = config.resolved().write().at(&Origin::Default);
        for change in &self.code {
            change(&mut config);
        }
        let resolved = config.resolved().write().at(&Origin::Default);
        let mut shown = said.clone();
        if let (Value::Table(shown), true) = (&mut shown.value, config.patience.is_some()) {
            // What is something else once it is resolved was not set.
            let written = config.write();
            let fields = resolved.value.as_table().into_iter().flatten();
            let derived = fields.filter(|(name, node)| written.get(name) != Some(node));
            shown.extend(derived.map(|(name, _)| (name.clone(), Value::text(AUTO).at(&Origin::Patience))));
        }
        let mut effective = Vec::new();
        trace("", &resolved, Some(&before), Some(&shown), &mut effective);
        let warnings = config.check().unwrap_or_else(|error| {
            for problem in error.problems() {
                let path = as_written(problem.path());
                let origin = origin_of(&path, &effective, &said);
                problems.borrow_mut().push(ConfigProblem::new(&origin, path, problem.message()));
            }
            Vec::new()
        });
        ConfigError::check(problems.into_inner())?;
        Ok(Loaded { config, warnings, effective })
    }
}

impl Text {
    fn read(&self, is_watched: bool, problems: &Problems) -> Option<Node> {
        // Some editors begin a text with a mark of its encoding.
        let bare = |text: &'_ str| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let json = |name: &str, text: &str| json_text::read(&Origin::file(name), "", &bare(text), problems);
        let toml = |name: &str, text: &str| Some(toml_text::read(name, &bare(text), problems));
        match self {
            Self::Toml { name, text } => toml(name, text),
            Self::Json { name, text } => json(name, text),
            Self::File(path) => {
                let name = path.display().to_string();
                let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
                // Of a link, what it leads to.
                let text = match fs::metadata(path) {
                    Ok(it) if is_watched && !it.is_file() => Err(io::Error::other("not a regular file")),
                    _ => fs::read_to_string(path),
                };
                let message = match (ending.as_deref(), text) {
                    (_, Err(error)) => format!("can't be read: {error}"),
                    (Some("json"), Ok(text)) => return json(&name, &text),
                    (Some("toml") | None, Ok(text)) => return toml(&name, &text),
                    (Some(ending), Ok(_)) => {
                        format!("found a file that ends with .{ending}, allowed are .toml and .json")
                    }
                };
                problems.borrow_mut().push(ConfigProblem::new(&Origin::file(&name), "", message));
                None
            }
        }
    }
}

impl Variables {
    fn list(&self, problems: &Problems) -> Vec<(String, String)> {
        if let Self::These(variables) = self {
            return variables.clone();
        }
        let named = std::env::vars_os().filter_map(|(name, text)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(environment::PREFIX))?;
            let text = text.into_string().map_err(|_| {
                let origin = Origin::Variable(name.as_str().into());
                problems.borrow_mut().push(ConfigProblem::new(&origin, "", "found bytes that are not UTF-8"));
            });
            Some((name, text.ok()?))
        });
        named.collect()
    }
}

/// A valid configuration, and the origin of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    config: AdmissionConfig,
    warnings: Vec<String>,
    effective: Vec<Effective>,
}

impl Loaded {
    /// The configuration.
    pub const fn config(&self) -> &AdmissionConfig {
        &self.config
    }

    /// The configuration, without the origins.
    pub fn into_config(self) -> AdmissionConfig {
        self.config
    }

    /// Warnings: settings that are allowed, and likely to be a mistake.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Every setting with its path, its value and the origin of the value.
    pub fn effective(&self) -> &[Effective] {
        &self.effective
    }
}

/// One setting of a [`Loaded`] configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Effective {
    /// The path of the setting, such as `labels.max_waiting`.
    pub path: String,
    /// The value as JSON, which is TOML as well unless it is a table.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
}

/// Notes for each value where it came from: `before` is what it was before the program changed it, `said` what the other
/// sources set. A short form, such as `limit = 100`, sets every field that it stands for.
fn trace(path: &str, node: &Node, before: Option<&Node>, said: Option<&Node>, effective: &mut Vec<Effective>) {
    match &node.value {
        Value::Table(table) if !table.is_empty() => {
            for (key, node) in table {
                let before = before.and_then(|before| before.value.get(key));
                let said = match said.and_then(|said| said.value.as_table()) {
                    Some(table) => table.get(key),
                    None => said,
                };
                trace(&join(path, key), node, before, said, effective);
            }
        }
        value => {
            let origin = match said {
                _ if before.map(|node| &node.value) != Some(value) => Origin::Code,
                Some(said) => said.origin.clone(),
                None => Origin::Default,
            };
            // It may hold a password.
            let hidden = path == "store.url" && matches!(value, Value::Text(text) if text != NONE);
            let value = if hidden { "\"(hidden)\"".to_owned() } else { value.to_string() };
            effective.push(Effective { path: path.to_owned(), value, origin });
        }
    }
}

/// Gives a law without a threshold half of the patience, where that is known.
fn derive_threshold(said: &mut Node) {
    let Value::Table(said) = &mut said.value else { return };
    let unread = Problems::default();
    let patience = said.get("patience").and_then(|patience| Duration::read(&At::root(patience, &unread)));
    let Some((patience, limit)) = patience.zip(said.get_mut("limit")) else { return };
    let kind = limit.value.get("kind").and_then(|kind| kind.value.as_text()).map(word);
    if let (Value::Table(law), Some("aimd")) = (&mut limit.value, kind.as_deref()) {
        law.entry("threshold".to_owned()).or_insert_with(|| (patience / 2).write().at(&Origin::Patience));
    }
}

/// The path of a problem as it is in the file: laws call themselves by their name.
fn as_written(path: &str) -> String {
    if let Some(rest) = path.strip_prefix("limit.") {
        let law = ["window", "two_point", "fixed", "aimd", "vegas", "gradient2", "gradient"];
        let rest = law.into_iter().find_map(|law| rest.strip_prefix(law)).unwrap_or(rest);
        return join("limit", rest.trim_start_matches('.')).trim_end_matches('.').to_owned();
    }
    path.to_owned()
}

/// Where the value that a problem is about came from.
fn origin_of(path: &str, effective: &[Effective], said: &Node) -> Origin {
    let is_about = |one: &Effective| one.path.strip_prefix(path).is_some_and(|it| it.is_empty() || it.starts_with('.'));
    if effective.iter().any(|one| one.origin == Origin::Code && is_about(one)) {
        return Origin::Code;
    }
    if let Some(group) = path.strip_prefix("budget ") {
        let names = |one: &&Effective| one.path.ends_with("budget_group") && one.value == format!("{group:?}");
        return effective.iter().rfind(names).map(|one| one.origin.clone()).unwrap_or_default();
    }
    said.closest(path).origin.clone()
}
