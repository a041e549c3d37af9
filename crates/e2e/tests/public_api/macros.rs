//! What macros write: those of the crate by their rules, and `pin_project!` the type that it is given.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    ImplItem, Item, Macro,
    parse::{Parse, ParseStream},
};

use super::rules::apply;

/// The macros of the crate, by name.
pub(crate) type Definitions = BTreeMap<String, TokenStream>;

/// What an invocation among items writes. Panics where something of it is public and can't be read.
pub(crate) fn items(called: &Macro, known: &Definitions) -> Vec<Item> {
    let Some(written) = expand(called, known) else { return Vec::new() };
    let file: syn::File = syn::parse2(written).unwrap_or_else(|error| unreadable(called, &error));
    let items = file.items.into_iter().map(|item| match item {
        Item::Macro(inner) if inner.ident.is_none() => items(&inner.mac, known),
        item => vec![item],
    });
    items.flatten().collect()
}

/// What an invocation within an `impl` writes.
pub(crate) fn members(called: &Macro, known: &Definitions) -> Vec<ImplItem> {
    let Some(written) = expand(called, known) else { return Vec::new() };
    let Members(members) = syn::parse2(written).unwrap_or_else(|error| unreadable(called, &error));
    let members = members.into_iter().map(|member| match member {
        ImplItem::Macro(inner) => self::members(&inner.mac, known),
        member => vec![member],
    });
    members.flatten().collect()
}

/// What an invocation stands for, unless nothing of it is public.
fn expand(called: &Macro, known: &Definitions) -> Option<TokenStream> {
    let name = name(called);
    let definition = known.get(&name);
    if !writes_public(called.tokens.clone()) && !definition.is_some_and(|it| writes_public(it.clone())) {
        return None;
    }
    if name == "pin_project" {
        let Pinned(item) = called.parse_body().unwrap_or_else(|error| unreadable(called, &error));
        return Some(quote::quote!(#item));
    }
    let written = definition.and_then(|definition| apply(definition, &called.tokens));
    Some(written.unwrap_or_else(|| unreadable(called, &"no rule is known that fits")))
}

fn name(called: &Macro) -> String {
    called.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn unreadable(called: &Macro, why: &dyn std::fmt::Display) -> ! {
    panic!("{}! writes something public that this test can't read ({why}): {}", name(called), called.tokens)
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

/// A type, before what `pin_project!` is told about `Drop`.
struct Pinned(Item);

impl Parse for Pinned {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let item = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(Self(item))
    }
}
