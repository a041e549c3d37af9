//! Links lead to headings that there are and to items that are documented, on the pages of the repository and in rustdoc alike.
//!
//! A page of `src/docs` writes `[text][Admission::leave]` for what rustdoc calls `crate::Admission::leave`. `links.txt` stands before
//! each page in the documentation and says so, and rustdoc checks it. Elsewhere the lines at the end of the page say where that is.
//! `UPDATE_SNAPSHOTS=1 cargo test --all-features --test all tidy::links` writes both.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use super::{promises::files, root, sources};

/// Where releases are documented.
const ONLINE: &str = "https://docs.rs/tower-admission/latest/tower_admission/";

/// What precedes the definitions that are written at the end of a page.
const WRITTEN: &str = "\n<!-- Written by the test `tidy::links`. -->\n";

/// A page without its blocks of code.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The anchors of a page, as both GitHub and rustdoc make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let text = format!("\n{}", prose(&format!("\n{text}")));
    let mut found = BTreeSet::new();
    for heading in text.lines().filter(|line| line.starts_with('#')) {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let plain = words.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        let anchor: String = plain.map(|it| if it == ' ' { '-' } else { it }).collect();
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = [anchor.clone()].into_iter().chain(again).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

/// The file of a page of the documentation, by the name of its module.
fn page(module: &str) -> String {
    format!("{}.md", module.replace('_', "-"))
}

/// Where public items are documented, by their paths and those of their members, read from the list of the public API.
fn items(api: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut owner = (String::new(), String::new());
    for line in api.lines() {
        let is_member = line.starts_with(' ');
        let words: Vec<_> = line.split_whitespace().filter(|it| !["async", "unsafe"].contains(it)).collect();
        let words = words.strip_prefix(&["const"]).filter(|rest| rest.first() == Some(&"fn")).unwrap_or(&words);
        let [kind, name, ..] = words[..] else { continue };
        let end = name.find(|it: char| !it.is_alphanumeric() && it != '_' && it != ':').unwrap_or(name.len());
        let name = name[..end].trim_end_matches(':');
        let kind = match (is_member, kind) {
            (true, "fn") if owner.1.contains("trait.") && !line.contains("{ provided }") => "tymethod",
            (true, "fn") => "method",
            (true, "field") => "structfield",
            (true, "variant") => "variant",
            (true, "const") => "associatedconstant",
            // Of those that are exported again, all are traits but one.
            (false, "use") if name == "store::RateMode" => "enum",
            (false, "use") => "trait",
            (false, "enum" | "fn" | "mod" | "struct" | "trait" | "type") => kind,
            _ => continue,
        };
        if is_member {
            let (path, url) = (format!("{}::{name}", owner.0), format!("{}#{kind}.{name}", owner.1));
            // Of a field and a setter of one name, the setter is meant.
            if kind != "structfield" || !found.contains_key(&path) {
                found.insert(path, url);
            }
            continue;
        }
        let (folder, last) = name
            .rsplit_once("::")
            .map_or((String::new(), name), |(folder, last)| (folder.replace("::", "/") + "/", last));
        let url =
            if kind == "mod" { format!("{folder}{last}/index.html") } else { format!("{folder}{kind}.{last}.html") };
        owner = (name.to_owned(), url.clone());
        found.insert(name.to_owned(), url);
    }
    found
}

/// What is known of the places that links lead to.
struct Places {
    items: BTreeMap<String, String>,
    urls: BTreeSet<String>,
    docs: PathBuf,
}

impl Places {
    fn read() -> Self {
        let api = fs::read_to_string(root().join("crates/e2e/tests/public_api/api.txt")).unwrap();
        let items = items(&api);
        Self { urls: items.values().cloned().collect(), items, docs: root().join("src/docs") }
    }

    /// Whether a file is there, and has the heading if one is named.
    fn has(&self, file: &Path, anchor: Option<&str>) -> bool {
        let is_page = file.extension().is_some_and(|it| it == "md");
        let heads = |anchor: &str| fs::read_to_string(file).is_ok_and(|text| anchors(&text).contains(anchor));
        file.exists() && anchor.is_none_or(|anchor| !is_page || heads(anchor))
    }

    /// Where a page that is not built by rustdoc finds `crate::LABEL`.
    fn target(&self, label: &str) -> Option<String> {
        let (path, anchor) = split(label);
        let Some(module) = path.strip_prefix("docs::") else {
            return self.items.get(path).filter(|_| anchor.is_none()).map(|url| format!("{ONLINE}{url}"));
        };
        let file = page(module);
        let anchored = anchor.map(|it| format!("#{it}")).unwrap_or_default();
        self.has(&self.docs.join(&file), anchor).then(|| file + &anchored)
    }

    /// Whether rustdoc writes this page, a part of an address below `ONLINE`.
    fn is_online(&self, url: &str) -> bool {
        let (path, anchor) = split(url);
        let path = path.strip_suffix('/').map_or_else(|| path.to_owned(), |folder| format!("{folder}/index.html"));
        let module = path.strip_prefix("docs/").and_then(|it| it.strip_suffix("/index.html"));
        if let Some(module) = module {
            return self.has(&self.docs.join(page(module)), anchor);
        }
        let whole = anchor.map_or_else(|| path.clone(), |anchor| format!("{path}#{anchor}"));
        ["", "index.html", "all.html"].contains(&&*path) && anchor.is_none() || self.urls.contains(&whole)
    }

    /// The links of a page that lead nowhere.
    fn dead(&self, at: &Path, text: &str) -> Vec<String> {
        let text = prose(text);
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let defined = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|it| it.1);
        let is_dead = |target: &&str| {
            if let Some(url) = target.strip_prefix(ONLINE) {
                return !self.is_online(url);
            }
            let (file, anchor) = split(target);
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:") || target.contains(' ');
            let file = if file.is_empty() { at.to_owned() } else { at.with_file_name(file) };
            !is_elsewhere && !self.has(&file, anchor)
        };
        inline.chain(defined).filter(is_dead).map(|it| format!("{}: {it}", at.display())).collect()
    }
}

fn split(link: &str) -> (&str, Option<&str>) {
    link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)))
}

/// The labels by which a page names items and other pages.
fn labels(text: &str) -> BTreeSet<String> {
    let text = prose(text);
    let named = text.split("][").skip(1).filter_map(|rest| rest.split_once(']')).map(|(label, _)| label);
    named.map(|label| label.split_whitespace().collect()).collect()
}

/// A page of `src/docs` with the definitions that its links need at its end.
fn defined(places: &Places, text: &str) -> Result<String, String> {
    let text = text.split(WRITTEN).next().unwrap_or(text);
    let mut whole = text.to_owned();
    for label in labels(text) {
        let target = places.target(&label).ok_or_else(|| format!("[{label}] is nothing that is documented"))?;
        whole += if whole.len() == text.len() { WRITTEN } else { "" };
        whole += &format!("\n[{label}]: {target}");
    }
    Ok(if whole.len() == text.len() { whole } else { whole + "\n" })
}

#[test]
fn links_lead_to_what_there_is() {
    let places = Places::read();
    let of_pages =
        files(root(), "md").into_iter().flat_map(|page| places.dead(&page, &fs::read_to_string(&page).unwrap()));
    let sources = sources(&root().join("src")).into_iter().chain(sources(&root().join("crates")));
    let of_sources = sources.flat_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let urls = text
            .split(ONLINE)
            .skip(1)
            .map(|rest| rest.split([')', '"', '`', '>', '\n']).next().unwrap_or("").to_owned());
        // An address that a program completes says no more than its beginning.
        let dead = urls.filter(|url| !places.is_online(url.trim_end_matches(['#', '.', ' '])));
        dead.map(|url| format!("{}: {url}", path.display())).collect::<Vec<_>>()
    });
    let dead: Vec<_> = of_pages.chain(of_sources).collect();
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn pages_define_the_links_that_they_have() {
    let places = Places::read();
    let (mut all, mut wrong) = (BTreeSet::new(), Vec::new());
    let is_updating = env::var_os("UPDATE_SNAPSHOTS").is_some();
    let mut agree = |path: &Path, whole: &str| match fs::read_to_string(path) {
        Ok(known) if known == whole => {}
        _ if is_updating => fs::write(path, whole).unwrap(),
        _ => wrong.push(format!("{}: run it with UPDATE_SNAPSHOTS=1", path.display())),
    };
    let files = files(&places.docs, "md");
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains("](crate::"), "{}: a link that is dead in the repository", path.display());
        all.extend(labels(text.split(WRITTEN).next().unwrap_or_default()));
        agree(path, &defined(&places, &text).unwrap_or_else(|problem| panic!("{}: {problem}", path.display())));
    }
    let prelude: String = all.iter().map(|label| format!("[{label}]: crate::{label}\n")).collect();
    agree(&places.docs.join("links.txt"), &prelude);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(all.len() > 100 && files.len() > 10, "{} links of {} pages were read", all.len(), files.len());
}

#[test]
fn the_front_page_names_every_page() {
    let front = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules = fs::read_to_string(root().join("src/docs.rs")).unwrap();
    let names = modules.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(" {}"));
    let missing: Vec<_> = names.filter(|name| !front.contains(&format!("(docs::{name})"))).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn dead_links_and_anchors_are_found() {
    let places = Places::read();
    let at = root().join("README.md");
    for dead in [
        "[a](no-such-file.md)",
        "[a](CHANGELOG.md#no-such-heading)",
        "[a](#no-such-heading)",
        "[a]: src/docs/no-such-page.md",
        "[a]: src/docs/tuning.md#no-such-heading",
        "[a](https://docs.rs/tower-admission/latest/tower_admission/struct.NoSuchType.html)",
        "[a](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.no_such_method)",
        "[a](https://docs.rs/tower-admission/latest/tower_admission/docs/tuning/#no-such-heading)",
    ] {
        assert_eq!(places.dead(&at, dead).len(), 1, "control: {dead}");
    }
    for good in [
        "[a](CHANGELOG.md#changelog)",
        "[a]: src/docs/tuning.md#one-knob",
        "[a](https://docs.rs/tower-admission/latest/tower_admission/docs/tuning/#one-knob)",
        "[a](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.leave)",
        "[a](https://docs.rs/metrics#no-concern-of-this)",
        "```\n[a](in-code.md)\n```",
    ] {
        assert_eq!(places.dead(&at, &format!("text\n{good}\n")), [""; 0], "{good}");
    }
    for label in ["NoSuchType", "Admission::no_such_method", "docs::no_such_page", "docs::tuning#no-such-heading"] {
        assert!(defined(&places, &format!("[a][{label}]")).is_err(), "control: {label}");
    }
    let page = defined(&places, "[a][Discipline::Fair] [b][docs::tuning#one-knob]").unwrap();
    let ends = format!(
        "\n[Discipline::Fair]: {ONLINE}enum.Discipline.html#variant.Fair\n[docs::tuning#one-knob]: tuning.md#one-knob\n"
    );
    assert!(page.ends_with(&ends), "{page}");
}
