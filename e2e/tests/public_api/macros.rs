//! What macros write: types, of `pin_project!` and of macros of the crate that take a struct with a default for each field;
//! and methods that the definition of a macro spells out.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{
    Attribute, Expr, Field, FieldsNamed, Generics, Ident, ImplItem, Item, ItemEnum, ItemStruct, Macro, Token,
    Visibility, braced,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// What an invocation writes, as far as it is a type. Panics where it names something public that is no type.
pub(crate) fn expand(called: &Macro, known: &BTreeMap<String, String>) -> Vec<Item> {
    let name = called.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    let text = called.tokens.to_string();
    if !text.split(|it: char| !it.is_alphanumeric()).any(|word| word == "pub") {
        return Vec::new();
    }
    let written: Written = called
        .parse_body()
        .unwrap_or_else(|error| panic!("{name}! writes something public that this test can't read ({error}): {text}"));
    let mut items = vec![written.0];
    if let Some(definition) = known.get(&name) {
        let traits = complete(&mut items[0], definition);
        items.extend(traits);
    }
    items
}

/// What an invocation within an `impl` writes.
pub(crate) fn members(called: &Macro, known: &BTreeMap<String, String>) -> Vec<ImplItem> {
    let name = name(called);
    let definition: TokenStream = known.get(&name).map(|text| text.parse().unwrap()).unwrap_or_default();
    if !writes_public(called.tokens.clone()) && !writes_public(definition.clone()) {
        return Vec::new();
    }
    // Pairs of a pattern and of what is written for it.
    let groups = definition.into_iter().filter_map(|token| match token {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    });
    let written: TokenStream = groups.skip(1).step_by(2).map(without_variables).collect();
    if written.is_empty() {
        unreadable(&name, &"it is not defined here");
    }
    let members: Members = syn::parse2(written).unwrap_or_else(|error| unreadable(&name, &error));
    members.0
}

fn name(called: &Macro) -> String {
    called.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn unreadable(name: &str, why: &dyn std::fmt::Display) -> ! {
    panic!("{name}! writes something public that this test can't read: {why}")
}

/// Whether there is a `pub` without a place to which it is restricted.
fn writes_public(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Ident(ident) if ident == "pub" => {
                let place = tokens.peek();
                !matches!(place, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
            }
            TokenTree::Group(group) => writes_public(group.stream()),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// `$(…)*` goes, for it repeats attributes; `$name` becomes `name`.
fn without_variables(tokens: TokenStream) -> TokenStream {
    let mut kept = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => {
                if matches!(tokens.peek(), Some(TokenTree::Group(_))) {
                    tokens.next();
                    // How often it is repeated.
                    tokens.next();
                }
            }
            TokenTree::Group(group) => {
                let inner = without_variables(group.stream());
                kept.extend([TokenTree::Group(Group::new(group.delimiter(), inner))]);
            }
            other => kept.extend([other]),
        }
    }
    kept
}

struct Members(Vec<ImplItem>);

impl Parse for Members {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut members = Vec::new();
        while !input.is_empty() {
            members.push(input.parse()?);
        }
        Ok(Self(members))
    }
}

/// Gives the type what the macro says of each type that it writes: attributes, and traits.
fn complete(item: &mut Item, definition: &str) -> Vec<Item> {
    let (ident, attributes) = match item {
        Item::Struct(it) => (it.ident.clone(), &mut it.attrs),
        Item::Enum(it) => (it.ident.clone(), &mut it.attrs),
        _ => return Vec::new(),
    };
    for part in definition.split("derive (").skip(1) {
        let derived: TokenStream = part.split(')').next().unwrap_or_default().parse().unwrap();
        attributes.push(syn::parse_quote!(#[derive(#derived)]));
    }
    if definition.contains("non_exhaustive") {
        attributes.push(syn::parse_quote!(#[non_exhaustive]));
    }
    let parts: Vec<&str> = definition.split("for $ name").collect();
    let traits = parts[..parts.len() - 1].iter().filter_map(|part| part.rsplit("impl ").next());
    traits
        .map(|implemented| {
            let path: syn::Path = syn::parse_str(&implemented.replace('$', "")).unwrap();
            syn::parse_quote!(impl #path for #ident {})
        })
        .collect()
}

struct Written(Item);

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let ahead = input.fork();
        ahead.call(Attribute::parse_outer)?;
        ahead.parse::<Visibility>()?;
        let item = if ahead.peek(Token![enum]) {
            Item::Enum(input.parse::<ItemEnum>()?)
        } else {
            Item::Struct(with_defaults(input)?)
        };
        // What `pin_project!` is told about `Drop`.
        input.parse::<TokenStream>()?;
        Ok(Self(item))
    }
}

/// A struct whose fields may be followed by `= default`.
fn with_defaults(input: ParseStream<'_>) -> syn::Result<ItemStruct> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis: Visibility = input.parse()?;
    let struct_token: Token![struct] = input.parse()?;
    let ident: Ident = input.parse()?;
    let mut generics: Generics = input.parse()?;
    generics.where_clause = input.parse()?;
    let content;
    let brace_token = braced!(content in input);
    let mut named: Punctuated<Field, Token![,]> = Punctuated::new();
    while !content.is_empty() {
        named.push(content.call(Field::parse_named)?);
        if content.peek(Token![=]) {
            content.parse::<Token![=]>()?;
            content.parse::<Expr>()?;
        }
        if content.peek(Token![,]) {
            content.parse::<Token![,]>()?;
        }
    }
    let fields = FieldsNamed { brace_token, named }.into();
    Ok(ItemStruct { attrs, vis, struct_token, ident, generics, fields, semi_token: None })
}
