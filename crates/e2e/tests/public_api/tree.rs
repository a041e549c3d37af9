//! The modules of a crate, read from its sources, and which item a path means.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, Meta, Path, UseTree, Visibility, punctuated::Punctuated, token::Comma};

use super::macros::{self, Definitions};

/// Where files come from: the disk, or the snippet of a test.
pub(crate) type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Crates of which the facade exports something. Each counts as a private module of it, with its own `crate`.
const PARTS: [&str; 3] = ["tower_admission_config", "tower_admission_engine", "tower_admission_store"];

/// A module, with what its macros write.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) items: Vec<Item>,
    pub(crate) modules: BTreeMap<String, Self>,
}

/// The crate, and how its macros look.
pub(crate) struct Tree {
    pub(crate) root: Module,
}

/// The place of an item: its module, and its number there.
pub(crate) type Place = (Vec<String>, usize);

/// What a path means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Item(Place),
    Module(Vec<String>),
    /// Of another crate.
    Foreign,
}

impl Tree {
    pub(crate) fn read(files: Files<'_>) -> Self {
        let text = files("lib.rs").expect("a crate has a root");
        let mut root = Module::read(&text, "", files);
        for part in PARTS {
            let folder = format!("{part}/");
            let text = files(&format!("{folder}lib.rs"));
            root.modules.extend(text.map(|text| (part.to_owned(), Module::read(&text, &folder, files))));
        }
        let mut known = Definitions::new();
        root.collect_macros(&mut known);
        root.expand(&known);
        Self { root }
    }

    pub(crate) fn module(&self, path: &[String]) -> &Module {
        path.iter().fold(&self.root, |module, name| &module.modules[name])
    }

    pub(crate) fn item(&self, (path, number): &Place) -> &Item {
        &self.module(path).items[*number]
    }

    /// All modules, with their paths.
    pub(crate) fn modules(&self) -> Vec<(Vec<String>, &Module)> {
        let mut found = vec![(Vec::new(), &self.root)];
        let mut next = 0;
        while next < found.len() {
            let (path, module) = found[next].clone();
            found.extend(
                module.modules.iter().map(|(name, inner)| ([&path[..], std::slice::from_ref(name)].concat(), inner)),
            );
            next += 1;
        }
        found
    }

    /// What `path`, written in the module `from`, means.
    pub(crate) fn resolve(&self, from: &[String], path: &[String]) -> Target {
        self.look(from, path, 0).unwrap_or(Target::Foreign)
    }

    fn look(&self, from: &[String], path: &[String], depth: usize) -> Option<Target> {
        // Modules may import each other's names in a circle.
        if depth > 16 {
            return None;
        }
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(from.to_vec())) };
        match first.as_str() {
            "crate" => {
                return self.look(if is_part(from) { &from[..1] } else { &[] }, rest, depth + 1);
            }
            "self" => return self.look(from, rest, depth + 1),
            "super" => return self.look(&from[..from.len().checked_sub(1)?], rest, depth + 1),
            part if PARTS.contains(&part) && self.root.modules.contains_key(part) => {
                return self.look(&[part.to_owned()], rest, depth + 1);
            }
            _ => {}
        }
        let module = self.module(from);
        if module.modules.contains_key(first) {
            return self.look(&[from, std::slice::from_ref(first)].concat(), rest, depth + 1);
        }
        if rest.is_empty()
            && let Some(number) = module.items.iter().position(|item| name(item).as_ref() == Some(first))
        {
            return Some(Target::Item((from.to_vec(), number)));
        }
        let imports =
            module.items.iter().filter_map(|item| if let Item::Use(it) = item { Some(&it.tree) } else { None });
        imports.flat_map(leaves).find_map(|leaf| match leaf.name.as_deref() {
            Some(name) if name == first => {
                let through = self.look(from, &leaf.path, depth + 1)?;
                match (through, rest.is_empty()) {
                    (Target::Module(path), false) => self.look(&path, rest, depth + 1),
                    (target, true) => Some(target),
                    _ => None,
                }
            }
            None => match self.look(from, &leaf.path, depth + 1)? {
                Target::Module(inner) if inner != from => self.look(&inner, path, depth + 1),
                _ => None,
            },
            _ => None,
        })
    }
}

impl Module {
    /// `folder` is where the files of its modules are.
    fn read(text: &str, folder: &str, files: Files<'_>) -> Self {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{folder}: {error}"));
        Self::of(file.items, folder, files)
    }

    fn of(items: Vec<Item>, folder: &str, files: Files<'_>) -> Self {
        let mut module = Self::default();
        for item in items.into_iter().filter(|item| compiled(attributes(item))) {
            if let Item::Mod(declared) = &item {
                let name = declared.ident.to_string();
                let inner = format!("{folder}{name}/");
                let contents = if let Some((_, items)) = declared.content.clone() {
                    Self::of(items, &inner, files)
                } else {
                    let text = files(&format!("{folder}{name}.rs")).or_else(|| files(&format!("{inner}mod.rs")));
                    let text = text.unwrap_or_else(|| panic!("no file for the module {folder}{name}"));
                    Self::read(&text, &inner, files)
                };
                module.modules.insert(name, contents);
            }
            module.items.push(item);
        }
        module
    }

    fn collect_macros(&self, known: &mut Definitions) {
        for item in &self.items {
            if let Item::Macro(defined) = item
                && let Some(name) = &defined.ident
            {
                known.insert(name.to_string(), defined.mac.tokens.clone());
            }
        }
        self.modules.values().for_each(|module| module.collect_macros(known));
    }

    fn expand(&mut self, known: &Definitions) {
        let written = self.items.iter().filter_map(|item| match item {
            Item::Macro(called) if called.ident.is_none() => Some(macros::items(&called.mac, known)),
            _ => None,
        });
        let written: Vec<Item> = written.flatten().filter(|item| compiled(attributes(item))).collect();
        self.items.extend(written);
        for item in &mut self.items {
            let Item::Impl(block) = item else { continue };
            let called = block.items.iter().filter_map(|member| match member {
                ImplItem::Macro(called) => Some(macros::members(&called.mac, known)),
                _ => None,
            });
            let written: Vec<ImplItem> = called.flatten().collect();
            block.items.extend(written);
        }
        self.modules.values_mut().for_each(|module| module.expand(known));
    }
}

/// One name that a `use` brings, or all names of a module.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    pub(crate) name: Option<String>,
}

pub(crate) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    fn walk(tree: &UseTree, path: &[String], found: &mut Vec<Leaf>) {
        let with = |name: &syn::Ident| [path, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(it) => walk(&it.tree, &with(&it.ident), found),
            UseTree::Name(it) if it.ident == "self" => {
                found.push(Leaf { path: path.to_vec(), name: path.last().cloned() });
            }
            UseTree::Name(it) => found.push(Leaf { path: with(&it.ident), name: Some(it.ident.to_string()) }),
            UseTree::Rename(it) => found.push(Leaf { path: with(&it.ident), name: Some(it.rename.to_string()) }),
            UseTree::Glob(_) => found.push(Leaf { path: path.to_vec(), name: None }),
            UseTree::Group(it) => it.items.iter().for_each(|tree| walk(tree, path, found)),
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Whether an item is there with all features, outside of tests.
pub(crate) fn compiled(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|it| it.path().is_ident("cfg")).all(|it| it.parse_args().is_ok_and(|meta| holds(&meta)))
}

/// Whether a module is of a crate that the facade exports.
pub(crate) fn is_part(module: &[String]) -> bool {
    module.first().is_some_and(|part| PARTS.contains(&part.as_str()))
}

/// Whether an item is hidden: in a part, it is for the facade and no promise.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    let mut docs = attributes.iter().filter(|it| it.path().is_ident("doc"));
    docs.any(|it| it.parse_args().is_ok_and(|it: Path| it.is_ident("hidden")))
}

/// Whether a condition holds with all features, outside of tests.
pub(crate) fn holds(condition: &Meta) -> bool {
    let inner = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<Meta, Comma>::parse_terminated).unwrap_or_default().into_iter()
    };
    match condition {
        Meta::List(list) if list.path.is_ident("not") => !inner(list).all(|it| holds(&it)),
        Meta::List(list) if list.path.is_ident("any") => inner(list).any(|it| holds(&it)),
        Meta::List(list) => inner(list).all(|it| holds(&it)),
        // The operating system counts as ours, whatever it is. `schema` is for the tests of this repository, and no promise.
        Meta::NameValue(it) => it.to_token_stream().to_string() != r#"feature = "schema""#,
        Meta::Path(path) => !["test", "doctest", "docsrs", "kani", "loom"].iter().any(|name| path.is_ident(name)),
    }
}

pub(crate) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The name that an item defines, in the namespace of types or of values.
pub(crate) fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}
