//! The public API as text: an item a paragraph, a member a line.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Attribute, Fields, GenericArgument, Generics, ImplItem, Item, ItemImpl, Meta, PathArguments, TraitItem, Type,
    punctuated::Punctuated, token::Comma,
};

use super::{
    text::line,
    tree::{Files, Place, Target, Tree, attributes, compiled, holds, is_hidden, is_part, is_public, leaves, name},
};

/// All that a crate exports, with all features.
pub(crate) fn list(files: Files<'_>) -> String {
    let tree = Tree::read(files);
    let mut lister = Lister { tree: &tree, exported: BTreeMap::new(), modules: BTreeSet::new() };
    lister.export(&[], &[]);
    lister.write()
}

struct Lister<'t> {
    tree: &'t Tree,
    /// Under which paths each item can be named.
    exported: BTreeMap<Place, BTreeSet<String>>,
    modules: BTreeSet<String>,
}

impl Lister<'_> {
    /// Notes what the module `at` exports under the public path `public`.
    fn export(&mut self, at: &[String], public: &[String]) {
        let under = |name: &str| [public, &[name.to_owned()]].concat();
        for (number, item) in self.tree.module(at).items.iter().enumerate() {
            match item {
                item if is_part(at) && is_hidden(attributes(item)) => {}
                Item::Mod(it) if is_public(&it.vis) => {
                    let inner = it.ident.to_string();
                    self.export(&[at, std::slice::from_ref(&inner)].concat(), &under(&inner));
                    self.modules.insert(under(&inner).join("::"));
                }
                Item::Use(it) if is_public(&it.vis) => {
                    for leaf in leaves(&it.tree) {
                        match (self.tree.resolve(at, &leaf.path), leaf.name) {
                            (Target::Item(place), Some(name)) => self.note(place, &under(&name)),
                            (Target::Module(path), Some(name)) => {
                                self.export(&path, &under(&name));
                                self.modules.insert(under(&name).join("::"));
                            }
                            (Target::Module(path), None) => self.export(&path, public),
                            (Target::Foreign, name) => {
                                let name = name.unwrap_or_else(|| "*".to_owned());
                                self.modules.insert(format!("{} = {}", under(&name).join("::"), leaf.path.join("::")));
                            }
                            (Target::Item(_), None) => {}
                        }
                    }
                }
                item if name(item).is_some() && visible(item) => {
                    self.note((at.to_vec(), number), &under(&name(item).unwrap_or_default()));
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, place: Place, public: &[String]) {
        self.exported.entry(place).or_default().insert(public.join("::"));
    }

    fn write(&self) -> String {
        let mut members: BTreeMap<&Place, BTreeSet<String>> = BTreeMap::new();
        for (at, module) in self.tree.modules() {
            for item in &module.items {
                if let Item::Impl(it) = item
                    && let Some((place, lines)) = self.implementation(&at, it)
                    && let Some((place, _)) = self.exported.get_key_value(&place)
                {
                    members.entry(place).or_default().extend(lines);
                }
            }
        }
        let mut paragraphs = BTreeMap::new();
        for module in &self.modules {
            paragraphs.insert(module.clone(), format!("mod {module}\n"));
        }
        for (place, paths) in &self.exported {
            let mut paths = paths.iter();
            let path = paths.next().cloned().unwrap_or_default();
            for again in paths {
                paragraphs.insert(again.clone(), format!("use {again} = {path}\n"));
            }
            let item = self.tree.item(place);
            let (head, own) = describe(item, &path);
            let mut text = head + "\n";
            let members = members.get(place).into_iter().flatten();
            let implemented: BTreeSet<String> = derived(attributes(item)).chain(members.cloned()).collect();
            own.iter().chain(&implemented).for_each(|member| text += &format!("    {member}\n"));
            // A function and a module may have the same name.
            paragraphs.entry(path).and_modify(|before| before.push_str(&text)).or_insert(text);
        }
        paragraphs.into_values().collect::<Vec<_>>().join("\n")
    }

    /// Which item an `impl` belongs to, and what it adds.
    fn implementation(&self, at: &[String], it: &ItemImpl) -> Option<(Place, BTreeSet<String>)> {
        let subject = type_path(&it.self_ty).map_or(Target::Foreign, |path| self.tree.resolve(at, &path));
        let Some((_, path, _)) = &it.trait_ else {
            let Target::Item(place) = subject else { return None };
            let bounds = bounded(&it.generics, &it.self_ty);
            let shown = it.items.iter().filter(|it| !is_part(at) || !is_hidden(of_member(it)));
            let public = shown.filter_map(|member| inherent(member, &bounds));
            return Some((place, public.collect()));
        };
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let implemented = self.tree.resolve(at, &segments);
        let is_exported = |target: &Target| matches!(target, Target::Item(place) if self.exported.contains_key(place));
        if matches!(implemented, Target::Item(_)) && !is_exported(&implemented) {
            return None;
        }
        let (generics, bounds) = (&it.generics, &it.generics.where_clause);
        let simple = generics.params.is_empty() && is_exported(&subject);
        // `fmt::Debug` is `Debug`, however it was imported.
        let path = path.segments.last().map(line).unwrap_or_default();
        let head = if simple {
            format!("impl {path}")
        } else {
            line(&quote::quote!(impl #generics)) + " " + &path + " for " + &line(&it.self_ty) + &clause(bounds)
        };
        let types = it.items.iter().filter_map(|member| match member {
            ImplItem::Type(it) => Some(format!("{head}: type {}{} = {}", it.ident, line(&it.generics), line(&it.ty))),
            _ => None,
        });
        let lines = types.chain([head.clone()]).collect();
        match (subject, implemented) {
            (Target::Item(place), _) => Some((place, lines)),
            // A trait of ours, for a type of others or for all that have another trait.
            (_, Target::Item(place)) => Some((place, lines)),
            _ => None,
        }
    }
}

/// Whether an item is public by itself, rather than by an import.
fn visible(item: &Item) -> bool {
    let visibility = match item {
        Item::Const(it) => &it.vis,
        Item::Enum(it) => &it.vis,
        Item::Fn(it) => &it.vis,
        Item::Static(it) => &it.vis,
        Item::Struct(it) => &it.vis,
        Item::Trait(it) => &it.vis,
        Item::Type(it) => &it.vis,
        Item::Union(it) => &it.vis,
        _ => return false,
    };
    is_public(visibility)
}

/// The line of an item, and those of what it has by itself.
fn describe(item: &Item, path: &str) -> (String, Vec<String>) {
    let mut lines = Vec::new();
    let head = match item {
        Item::Struct(it) => {
            lines.extend(fields(&it.fields));
            format!("struct {path}{}{}", line(&it.generics), clause(&it.generics.where_clause))
        }
        Item::Union(it) => format!("union {path}{}", line(&it.generics)),
        Item::Enum(it) => {
            for variant in it.variants.iter().filter(|it| compiled(&it.attrs)) {
                let value = variant.discriminant.as_ref().map(|(_, value)| format!(" = {}", line(value)));
                let marks = marks(&variant.attrs);
                let fields = of_variant(&variant.fields);
                lines.push(format!("variant {}{fields}{}{marks}", variant.ident, value.unwrap_or_default()));
            }
            format!("enum {path}{}{}", line(&it.generics), clause(&it.generics.where_clause))
        }
        Item::Trait(it) => {
            lines.extend(it.items.iter().filter_map(of_trait));
            let unsafety = it.unsafety.map_or("", |_| "unsafe ");
            let above = if it.supertraits.is_empty() { String::new() } else { format!(": {}", line(&it.supertraits)) };
            format!("{unsafety}trait {path}{}{above}{}", line(&it.generics), clause(&it.generics.where_clause))
        }
        Item::Type(it) => format!("type {path}{} = {}", line(&it.generics), line(&it.ty)),
        Item::Const(it) => format!("const {path}: {}", line(&it.ty)),
        Item::Static(it) => format!("static {path}: {}", line(&it.ty)),
        Item::Fn(it) => {
            let signature = line(&it.sig);
            let name = it.sig.ident.to_string();
            signature.replacen(&format!("fn {name}"), &format!("fn {path}"), 1)
        }
        _ => format!("{path}?"),
    };
    (head + &marks(attributes(item)), lines)
}

fn fields(fields: &Fields) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, field) in fields.iter().enumerate() {
        let name = field.ident.as_ref().map_or_else(|| number.to_string(), ToString::to_string);
        if is_public(&field.vis) && compiled(&field.attrs) && !is_hidden(&field.attrs) {
            lines.push(format!("field {name}: {}{}", line(&field.ty), marks(&field.attrs)));
        }
    }
    if lines.len() < fields.len() {
        lines.push("field _: private".to_owned());
    }
    lines
}

fn of_variant(fields: &Fields) -> String {
    let types: Vec<String> = fields
        .iter()
        .map(|field| field.ident.iter().map(|name| format!("{name}: ")).chain([line(&field.ty)]).collect())
        .collect();
    match fields {
        Fields::Named(_) => format!(" {{ {} }}", types.join(", ")),
        Fields::Unnamed(_) => format!("({})", types.join(", ")),
        Fields::Unit => String::new(),
    }
}

fn of_trait(member: &TraitItem) -> Option<String> {
    let provided = |is: bool| if is { " { provided }" } else { "" };
    match member {
        TraitItem::Fn(it) if compiled(&it.attrs) => {
            Some(line(&it.sig) + provided(it.default.is_some()) + &marks(&it.attrs))
        }
        TraitItem::Type(it) => {
            let bounds = if it.bounds.is_empty() { String::new() } else { format!(": {}", line(&it.bounds)) };
            Some(format!("type {}{}{bounds}{}", it.ident, line(&it.generics), clause(&it.generics.where_clause)))
        }
        TraitItem::Const(it) => Some(format!("const {}: {}{}", it.ident, line(&it.ty), provided(it.default.is_some()))),
        _ => None,
    }
}

fn of_member(member: &ImplItem) -> &[Attribute] {
    match member {
        ImplItem::Const(it) => &it.attrs,
        ImplItem::Fn(it) => &it.attrs,
        _ => &[],
    }
}

/// A public method or constant; `bounds` are those of its block.
fn inherent(member: &ImplItem, bounds: &str) -> Option<String> {
    match member {
        ImplItem::Fn(it) if is_public(&it.vis) && compiled(&it.attrs) => {
            Some(line(&it.sig) + bounds + &marks(&it.attrs))
        }
        ImplItem::Const(it) if is_public(&it.vis) && compiled(&it.attrs) => {
            Some(format!("const {}: {}{bounds}", it.ident, line(&it.ty)))
        }
        _ => None,
    }
}

/// What a block of methods asks of the type, where it asks anything.
fn bounded(generics: &Generics, subject: &Type) -> String {
    let asks = generics.where_clause.is_some() || generics.type_params().any(|it| !it.bounds.is_empty());
    let special = matches!(subject, Type::Path(it) if it.path.segments.last().is_some_and(|segment| {
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
        arguments.args.iter().any(|argument| match argument {
            GenericArgument::Type(Type::Path(it)) => !generics.type_params().any(|name| it.path.is_ident(&name.ident)),
            GenericArgument::Lifetime(_) => false,
            _ => true,
        })
    }));
    if !asks && !special {
        return String::new();
    }
    format!("    // {} {}{}", line(&quote::quote!(impl #generics)), line(subject), clause(&generics.where_clause))
}

fn clause(bounds: &Option<syn::WhereClause>) -> String {
    bounds.as_ref().map(|it| format!(" {}", line(it))).unwrap_or_default()
}

/// Attributes that callers notice.
fn marks(attributes: &[Attribute]) -> String {
    let noticed = ["deprecated", "must_use", "non_exhaustive", "repr"];
    let has = |name: &&str| attributes.iter().any(|it| it.path().is_ident(name));
    noticed.iter().filter(|name| has(name)).map(|name| format!(" #[{name}]")).collect()
}

fn derived(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    fn of(meta: &Meta, found: &mut Vec<String>) {
        let Meta::List(list) = meta else { return };
        let inner = list.parse_args_with(Punctuated::<Meta, Comma>::parse_terminated).unwrap_or_default();
        if list.path.is_ident("derive") {
            found
                .extend(inner.iter().filter_map(|it| it.path().segments.last()).map(|it| format!("impl {}", it.ident)));
        } else if list.path.is_ident("cfg_attr") && inner.first().is_some_and(holds) {
            inner.iter().skip(1).for_each(|meta| of(meta, found));
        }
    }
    let mut found = Vec::new();
    attributes.iter().for_each(|it| of(&it.meta, &mut found));
    found.into_iter()
}

fn type_path(subject: &Type) -> Option<Vec<String>> {
    match subject {
        Type::Path(it) if it.qself.is_none() => Some(it.path.segments.iter().map(|it| it.ident.to_string()).collect()),
        Type::Reference(it) => type_path(&it.elem),
        _ => None,
    }
}
