//! Tokens as a line of text, in the same way however the source breaks its lines.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// What is written, in a line. Paths into the crate are cut to their name, for files may move.
pub(crate) fn line(what: &impl ToTokens) -> String {
    let mut words = Vec::new();
    flatten(what.to_token_stream(), &mut words);
    let mut text = String::new();
    let mut before = "";
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).map_or("", String::as_str);
        if word == "," && matches!(next, ")" | ">" | "]" | "") {
            continue;
        }
        if !text.is_empty() && spaced(before, word) {
            text.push(' ');
        }
        text.push_str(word);
        before = word;
    }
    text
}

fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    let mut joined = String::new();
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => {
                joined.push(punct.as_char());
                // Closing brackets of generics stand for themselves, also where two of them end a type.
                let alone = matches!(punct.as_char(), '<' | '&' | '?' | ',')
                    || (punct.as_char() == '>' && !matches!(&*joined, "->" | "=>"));
                if punct.as_char() == '\'' {
                    continue;
                }
                if alone || punct.spacing() == Spacing::Alone || matches!(&*joined, "::" | "->" | "=>") {
                    words.push(std::mem::take(&mut joined));
                }
            }
            TokenTree::Ident(ident) => words.push(format!("{}{ident}", std::mem::take(&mut joined))),
            TokenTree::Literal(literal) => words.push(literal.to_string()),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                words.extend((!open.is_empty()).then(|| open.to_owned()));
                flatten(group.stream(), words);
                words.extend((!close.is_empty()).then(|| close.to_owned()));
            }
        }
    }
    cut_paths(words);
    // Whether a function changes its own copy of an argument is its own affair.
    let mut before = String::new();
    words.retain(|word| {
        let own = word == "mut" && matches!(&*before, "(" | ",");
        before.clone_from(word);
        !own
    });
}

/// `crate::engine::Outcome` becomes `Outcome`.
fn cut_paths(words: &mut Vec<String>) {
    let mut index = 0;
    while index + 1 < words.len() {
        let inside = matches!(&*words[index], "crate" | "self" | "super") && words[index + 1] == "::";
        if inside {
            let is_module = |word: &String| word.starts_with(|first: char| first.is_lowercase());
            words.drain(index..index + 2);
            while index + 1 < words.len() && is_module(&words[index]) && words[index + 1] == "::" {
                words.drain(index..index + 2);
            }
        } else {
            index += 1;
        }
    }
}

fn spaced(before: &str, next: &str) -> bool {
    let is_word = before.ends_with(|last: char| last.is_alphanumeric() || last == '_') && !before.starts_with('\'');
    let keyword = matches!(before, "impl" | "dyn" | "mut" | "where" | "as" | "in" | "const");
    match next {
        "," | ";" | ":" | ")" | "]" | ">" | "." | "::" => false,
        "<" if before == "impl" => false,
        "<" | "(" if before == ">" || (is_word && !keyword) => false,
        _ => !matches!(before, "(" | "[" | "<" | "&" | "::" | "?" | "!" | "." | "#" | "*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_same_however_the_source_breaks_it() {
        let lines = [
            (
                "fn a(\n    &mut self,\n    by: Vec<Option<u8>>,\n) -> Self",
                "fn a(&mut self, by: Vec<Option<u8>>) -> Self",
            ),
            ("fn a<'a, T: ?Sized + Fn(&'a T) -> (u8, u8)>()", "fn a<'a, T: ?Sized + Fn(&'a T) -> (u8, u8)>()"),
            ("fn a(it: crate::engine::Outcome, at: super::Clock)", "fn a(it: Outcome, at: Clock)"),
            ("fn a() -> impl Future<Output = ()> + use<'_>", "fn a() -> impl Future<Output = ()> + use<'_>"),
            ("fn a(it: &'static [&dyn std::error::Error; 2])", "fn a(it: &'static [&dyn std::error::Error; 2])"),
            ("fn a(mut self, mut by: &mut u8)", "fn a(self, by: &mut u8)"),
            ("fn a() -> <Self as Trait>::Out", "fn a() -> <Self as Trait>::Out"),
        ];
        for (source, expected) in lines {
            let signature: syn::Signature = syn::parse_str(source).unwrap();
            assert_eq!(line(&signature), expected);
        }
    }
}
