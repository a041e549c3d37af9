//! What `macro_rules!` write: enough of it for the macros of the crate.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{
    Expr, Meta, Path, Type, Visibility,
    parse::{Parse, ParseStream, Parser},
};

/// What an invocation with these tokens stands for; `None` if it fits none of the rules, or if they can't be read.
pub(crate) fn apply(definition: &TokenStream, tokens: &TokenStream) -> Option<TokenStream> {
    let groups: Vec<TokenStream> = definition.clone().into_iter().filter_map(inside).collect();
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    groups.chunks_exact(2).find_map(|rule| {
        let mut bound = Bindings::new();
        let rest = fit(&patterns(&rule[0])?, &tokens, &mut bound)?;
        rest.is_empty().then(|| write(&rule[1], &bound))?
    })
}

enum Pattern {
    Token(TokenTree),
    Group(Delimiter, Vec<Self>),
    Variable { name: String, kind: String },
    Repeated { inner: Vec<Self>, repetition: Repetition },
}

struct Repetition {
    separator: Option<TokenTree>,
    /// `*`, `+` or `?`.
    times: char,
}

/// The tokens of a variable, or what it is in each round of a repetition.
#[derive(Clone)]
enum Bound {
    One(TokenStream),
    Each(Vec<Self>),
}

type Bindings = BTreeMap<String, Bound>;

fn inside(token: TokenTree) -> Option<TokenStream> {
    if let TokenTree::Group(group) = token { Some(group.stream()) } else { None }
}

fn is_dollar(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '$')
}

fn patterns(tokens: &TokenStream) -> Option<Vec<Pattern>> {
    let mut tokens = tokens.clone().into_iter();
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        found.push(match token {
            dollar if is_dollar(&dollar) => match tokens.next()? {
                TokenTree::Group(group) => {
                    let inner = patterns(&group.stream())?;
                    Pattern::Repeated { inner, repetition: Repetition::read(&mut tokens)? }
                }
                name => {
                    tokens.next().filter(|colon| colon.to_string() == ":")?;
                    Pattern::Variable { name: name.to_string(), kind: tokens.next()?.to_string() }
                }
            },
            TokenTree::Group(group) => Pattern::Group(group.delimiter(), patterns(&group.stream())?),
            other => Pattern::Token(other),
        });
    }
    Some(found)
}

impl Repetition {
    fn read(tokens: &mut impl Iterator<Item = TokenTree>) -> Option<Self> {
        let times = |token: &TokenTree| token.to_string().chars().next().filter(|it| "*+?".contains(*it));
        let first = tokens.next()?;
        match times(&first) {
            Some(times) => Some(Self { separator: None, times }),
            None => Some(Self { times: times(&tokens.next()?)?, separator: Some(first) }),
        }
    }
}

/// Binds the variables to what they are in `input`, and returns the rest of it.
fn fit<'a>(patterns: &[Pattern], mut input: &'a [TokenTree], bound: &mut Bindings) -> Option<&'a [TokenTree]> {
    for pattern in patterns {
        input = match pattern {
            Pattern::Token(token) => input.split_first().filter(|(first, _)| is_same(token, first))?.1,
            Pattern::Group(delimiter, inner) => {
                let (first, rest) = input.split_first()?;
                let TokenTree::Group(group) = first else { return None };
                let within: Vec<TokenTree> = group.stream().into_iter().collect();
                let fits = group.delimiter() == *delimiter && fit(inner, &within, bound)?.is_empty();
                fits.then_some(rest)?
            }
            Pattern::Variable { name, kind } => {
                let (taken, rest) = input.split_at(length(kind, input)?);
                bound.insert(name.clone(), Bound::One(taken.iter().cloned().collect()));
                rest
            }
            Pattern::Repeated { inner, repetition } => fit_rounds(inner, repetition, input, bound)?,
        };
    }
    Some(input)
}

fn fit_rounds<'a>(
    inner: &[Pattern],
    repetition: &Repetition,
    mut input: &'a [TokenTree],
    bound: &mut Bindings,
) -> Option<&'a [TokenTree]> {
    let mut rounds: Vec<Bindings> = Vec::new();
    while repetition.times != '?' || rounds.is_empty() {
        let separator = repetition.separator.as_ref().filter(|_| !rounds.is_empty());
        let after = match (separator, input.split_first()) {
            (None, _) => input,
            (Some(separator), Some((first, rest))) if is_same(separator, first) => rest,
            _ => break,
        };
        let mut round = Bindings::new();
        let Some(rest) = fit(inner, after, &mut round).filter(|rest| rest.len() < input.len()) else { break };
        rounds.push(round);
        input = rest;
    }
    for name in variables(inner) {
        let each = rounds.iter().map(|round| round[name].clone()).collect();
        bound.insert(name.to_owned(), Bound::Each(each));
    }
    (repetition.times != '+' || !rounds.is_empty()).then_some(input)
}

fn variables(patterns: &[Pattern]) -> Vec<&str> {
    let names = patterns.iter().map(|pattern| match pattern {
        Pattern::Token(_) => Vec::new(),
        Pattern::Group(_, inner) | Pattern::Repeated { inner, .. } => variables(inner),
        Pattern::Variable { name, .. } => vec![name.as_str()],
    });
    names.flatten().collect()
}

fn is_same(one: &TokenTree, other: &TokenTree) -> bool {
    !matches!(other, TokenTree::Group(_)) && one.to_string() == other.to_string()
}

/// How many tokens a variable takes.
fn length(kind: &str, input: &[TokenTree]) -> Option<usize> {
    fn parsed<T: Parse>(input: &[TokenTree]) -> Option<usize> {
        let rest = |input: ParseStream<'_>| input.parse::<T>().and_then(|_| input.parse::<TokenStream>());
        let rest = rest.parse2(input.iter().cloned().collect()).ok()?;
        Some(input.len() - rest.into_iter().count())
    }
    match (kind, input.first()?) {
        ("tt", _) | ("ident", TokenTree::Ident(_)) | ("literal", TokenTree::Literal(_)) => Some(1),
        ("expr", _) => parsed::<Expr>(input),
        ("meta", _) => parsed::<Meta>(input),
        ("path", _) => parsed::<Path>(input),
        ("ty", _) => parsed::<Type>(input),
        ("vis", _) => parsed::<Visibility>(input),
        _ => None,
    }
}

/// The right side of a rule, with the variables replaced.
fn write(template: &TokenStream, bound: &Bindings) -> Option<TokenStream> {
    let mut written = TokenStream::new();
    let mut tokens = template.clone().into_iter();
    while let Some(token) = tokens.next() {
        match token {
            dollar if is_dollar(&dollar) => match tokens.next()? {
                TokenTree::Group(group) => {
                    let repetition = Repetition::read(&mut tokens)?;
                    written.extend(write_rounds(&group.stream(), &repetition, bound)?);
                }
                name => match bound.get(&name.to_string()) {
                    Some(Bound::One(tokens)) => written.extend(tokens.clone()),
                    Some(Bound::Each(_)) => return None,
                    // `$crate`.
                    None => written.extend([name]),
                },
            },
            TokenTree::Group(group) => {
                let inner = write(&group.stream(), bound)?;
                written.extend([TokenTree::Group(Group::new(group.delimiter(), inner))]);
            }
            other => written.extend([other]),
        }
    }
    Some(written)
}

fn write_rounds(template: &TokenStream, repetition: &Repetition, bound: &Bindings) -> Option<TokenStream> {
    let named = named(template);
    let repeated: Vec<(&String, &Vec<Bound>)> = bound
        .iter()
        .filter(|(name, _)| named.contains(*name))
        .filter_map(|(name, bound)| if let Bound::Each(each) = bound { Some((name, each)) } else { None })
        .collect();
    let mut written = TokenStream::new();
    for round in 0..repeated.first()?.1.len() {
        let mut bound = bound.clone();
        for (name, each) in &repeated {
            bound.insert((*name).clone(), each.get(round)?.clone());
        }
        written.extend(repetition.separator.clone().filter(|_| round > 0));
        written.extend(write(template, &bound)?);
    }
    Some(written)
}

/// The names after each `$`.
fn named(template: &TokenStream) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_variable = false;
    for token in template.clone() {
        if let TokenTree::Group(group) = &token {
            names.extend(named(&group.stream()));
        } else if is_variable {
            names.insert(token.to_string());
        }
        is_variable = is_dollar(&token);
    }
    names
}
