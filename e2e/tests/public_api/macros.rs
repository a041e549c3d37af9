//! Types that macros write: `pin_project!`, and macros of the crate that take a struct with a default for each field.

use std::collections::BTreeMap;

use syn::{
    Attribute, Expr, Field, FieldsNamed, Generics, Ident, Item, ItemEnum, ItemStruct, Macro, Token, Visibility, braced,
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

/// Gives the type what the macro says of each type that it writes: attributes, and traits.
fn complete(item: &mut Item, definition: &str) -> Vec<Item> {
    let (ident, attributes) = match item {
        Item::Struct(it) => (it.ident.clone(), &mut it.attrs),
        Item::Enum(it) => (it.ident.clone(), &mut it.attrs),
        _ => return Vec::new(),
    };
    for part in definition.split("derive (").skip(1) {
        let derived: proc_macro2::TokenStream = part.split(')').next().unwrap_or_default().parse().unwrap();
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
        input.parse::<proc_macro2::TokenStream>()?;
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
