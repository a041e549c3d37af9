//! What a function can return instead.

use syn::{GenericArgument, PathArguments, Type, TypePath};

fn arguments(path: &TypePath) -> Vec<&Type> {
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let PathArguments::AngleBracketed(all) = &last.arguments else { return Vec::new() };
    all.args.iter().filter_map(|it| if let GenericArgument::Type(it) = it { Some(it) } else { None }).collect()
}

fn wrapped(with: &str, inner: Option<&&Type>) -> Vec<String> {
    let inner = inner.map_or_else(|| vec!["Default::default()".to_owned()], |it| values(it));
    inner.into_iter().map(|it| format!("{with}({it})")).collect()
}

/// Expressions of a type, such as a program with a mistake might return. Those that the compiler refuses are dropped later.
pub fn values(of: &Type) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => words(&["()"]),
        Type::Tuple(_) | Type::Array(_) => words(&["Default::default()"]),
        Type::Reference(it) => match &*it.elem {
            Type::Path(path) if path.path.is_ident("str") => words(&["\"\"", "\"xyzzy\""]),
            Type::Slice(_) if it.mutability.is_none() => words(&["&[]"]),
            _ => Vec::new(),
        },
        Type::Path(path) => {
            let inner = arguments(path);
            let name = path.path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
            match name.as_str() {
                "bool" => words(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => words(&["0", "1"]),
                "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => words(&["0", "1", "-1"]),
                "f32" | "f64" => words(&["0.0", "1.0", "-1.0"]),
                "String" => words(&["String::new()", "\"xyzzy\".into()"]),
                "Option" => [words(&["None"]), wrapped("Some", inner.first())].concat(),
                "Result" => wrapped("Ok", inner.first()),
                "Poll" => wrapped("std::task::Poll::Ready", inner.first()),
                _ => words(&["Default::default()"]),
            }
        }
        _ => Vec::new(),
    }
}
