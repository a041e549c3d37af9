//! Finds the places of a file where a mutant can be, and writes the file with all of them behind switches.

use std::{collections::BTreeSet, ops::Range};

use proc_macro2::Span;
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprUnary, ImplItemConst, ImplItemFn, ItemConst, ItemFn, ItemImpl,
    ItemMod, ItemStatic, Pat, ReturnType, Signature, TraitItemConst, TraitItemFn, Type, UnOp, Variant,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::values::values;

/// A small mistake.
#[derive(Debug)]
pub struct Mutant {
    pub id: u32,
    pub file: String,
    pub line: usize,
    pub function: String,
    pub what: String,
}

/// A file with its mutants.
pub struct Mutated {
    pub text: String,
    pub mutants: Vec<Mutant>,
    /// Places in what is computed while compiling, where nothing can be switched.
    pub constant: usize,
}

struct Writer<'a> {
    file: &'a str,
    text: &'a str,
    next: u32,
    dropped: &'a BTreeSet<u32>,
    edits: Vec<(Range<usize>, String)>,
    mutants: Vec<Mutant>,
    names: Vec<String>,
    constant: usize,
    in_constant: usize,
}

/// The file `text` with its mutants, numbered from `first` on, without those that are `dropped`. Comments mark where each of
/// them is: that is how an error of the compiler finds the mutant that it is about.
pub fn mutate(file: &str, text: &str, first: u32, dropped: &BTreeSet<u32>) -> Mutated {
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut writer = Writer {
        file,
        text,
        next: first,
        dropped,
        edits: Vec::new(),
        mutants: Vec::new(),
        names: Vec::new(),
        constant: 0,
        in_constant: 0,
    };
    writer.visit_file(&parsed);
    let text = writer.take(0..text.len());
    Mutated { text, mutants: writer.mutants, constant: writer.constant }
}

fn on(id: u32) -> String {
    format!("crate::mutants::on({id})")
}

fn marked(ids: &[u32], text: &str) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    format!("/*<{}*/{text}/*>*/", ids.join(","))
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let meta = &it.meta;
        let words = match meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        meta.path().is_ident("test")
            || meta.path().is_ident("cfg")
                && (words.contains("test") || words.contains("kani"))
                && !words.contains("not")
    })
}

/// Whether a chain of conditions binds something: its parts can't be taken apart.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(it) if matches!(it.op, BinOp::And(_)) => binds(&it.left) || binds(&it.right),
        _ => false,
    }
}

/// What cargo-mutants puts in the place of an operator, and both boundaries.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">", "=="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<", "=="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["&", "|"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        _ => &[],
    }
}

impl Writer<'_> {
    fn range(span: Span) -> Range<usize> {
        span.byte_range()
    }

    /// The text of a range with the edits inside it, which are used up.
    fn take(&mut self, range: Range<usize>) -> String {
        let (mut inside, outside): (Vec<_>, Vec<_>) =
            self.edits.drain(..).partition(|(at, _)| range.start <= at.start && at.end <= range.end);
        self.edits = outside;
        inside.sort_by_key(|(at, _)| (at.start, at.end));
        let (mut text, mut done) = (String::new(), range.start);
        for (at, new) in inside {
            text += &self.text[done..at.start];
            text += &new;
            done = at.end;
        }
        text + &self.text[done..range.end]
    }

    fn put(&mut self, at: Range<usize>, text: String) {
        self.edits.push((at, text));
    }

    /// Numbers a mutant; `None` if it is not to be made.
    fn mutant(&mut self, at: Span, what: String) -> Option<u32> {
        if self.in_constant > 0 {
            self.constant += 1;
            return None;
        }
        let id = self.next;
        self.next += 1;
        let function = self.names.join("::");
        self.mutants.push(Mutant { id, file: self.file.to_owned(), line: at.start().line, function, what });
        (!self.dropped.contains(&id)).then_some(id)
    }

    fn binary(&mut self, it: &ExprBinary) {
        let written = &self.text[Self::range(it.op.span())];
        if matches!(it.op, BinOp::And(_) | BinOp::Or(_)) {
            return self.lazy(it, written);
        }
        let alternatives: Vec<(u32, &str)> = others(&it.op)
            .iter()
            .filter_map(|other| Some((self.mutant(it.op.span(), format!("{written} becomes {other}"))?, *other)))
            .collect();
        if alternatives.is_empty() {
            return;
        }
        let (left, right) = (self.take(Self::range(it.left.span())), self.take(Self::range(it.right.span())));
        let is_comparison =
            matches!(it.op, BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_));
        let is_assignment = written.ends_with('=') && !is_comparison;
        let (asked, pattern, l, r) = if is_comparison {
            (format!("(&({left}), &({right}))"), "(__l, __r)", "*__l", "*__r")
        } else if is_assignment {
            (format!("({right})"), "__r", left.as_str(), "__r")
        } else {
            (format!("(({left}), ({right}))"), "(__l, __r)", "__l", "__r")
        };
        let ids: Vec<u32> = alternatives.iter().map(|it| it.0).collect();
        let mut body = String::new();
        for (id, other) in alternatives {
            body += &marked(&[id], &format!("if {} {{ {l} {other} {r} }}", on(id)));
            body += " else ";
        }
        let text = format!("(match {asked} {{ {pattern} => {body} {{ {l} {written} {r} }} }})");
        self.put(Self::range(it.span()), marked(&ids, &text));
    }

    /// `&&` and `||`: the right side is written a single time, and evaluated when it has to be.
    fn lazy(&mut self, it: &ExprBinary, written: &str) {
        if binds(&it.left) || binds(&it.right) {
            return;
        }
        let is_and = matches!(it.op, BinOp::And(_));
        let other = if is_and { "||" } else { "&&" };
        let Some(id) = self.mutant(it.op.span(), format!("{written} becomes {other}")) else { return };
        let (left, right) = (self.take(Self::range(it.left.span())), self.take(Self::range(it.right.span())));
        let (compared, not) = if is_and { ("!=", "") } else { ("==", "!") };
        let text = format!("(if ({left}) {compared} {on} {{ {right} }} else {{ {not}{on} }})", on = on(id));
        self.put(Self::range(it.span()), marked(&[id], &text));
    }

    fn unary(&mut self, it: &ExprUnary) {
        let sign = match it.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => return,
        };
        let Some(id) = self.mutant(it.span(), format!("{sign} is left out")) else { return };
        let inner = self.take(Self::range(it.expr.span()));
        let text = format!("(match ({inner}) {{ __v => if {} {{ __v }} else {{ {sign}__v }} }})", on(id));
        self.put(Self::range(it.span()), marked(&[id], &text));
    }

    fn arms(&mut self, arms: &[Arm]) {
        let rest = arms.iter().position(|it| matches!(it.pat, Pat::Wild(_)) && it.guard.is_none());
        for (place, arm) in arms.iter().enumerate() {
            if let Some((_, guard)) = &arm.guard {
                if binds(guard) || matches!(**guard, Expr::Let(_)) {
                    continue;
                }
                let always = self.mutant(guard.span(), "guard becomes true".to_owned());
                let never = self.mutant(guard.span(), "guard becomes false".to_owned());
                if let (Some(always), Some(never)) = (always, never) {
                    let old = self.take(Self::range(guard.span()));
                    let text = format!("({} || (!{} && ({old})))", on(always), on(never));
                    self.put(Self::range(guard.span()), marked(&[always, never], &text));
                }
            } else if rest.is_some_and(|rest| place < rest) {
                let pattern: String =
                    self.text[Self::range(arm.pat.span())].split_whitespace().collect::<Vec<_>>().join(" ");
                if let Some(id) = self.mutant(arm.pat.span(), format!("arm {pattern} is left out")) {
                    let end = Self::range(arm.pat.span()).end;
                    self.put(end..end, marked(&[id], &format!(" if !{} ", on(id))));
                }
            }
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block, inside: impl FnOnce(&mut Self)) {
        let name = signature.ident.to_string();
        self.names.push(name.clone());
        let is_constant = signature.constness.is_some();
        self.in_constant += usize::from(is_constant);
        inside(self);
        let body = Self::range(block.span());
        let old = self.text[body.start + 1..body.end - 1].trim();
        let unit = Type::Tuple(syn::TypeTuple { paren_token: Default::default(), elems: Default::default() });
        let result = match &signature.output {
            ReturnType::Default => &unit,
            ReturnType::Type(_, result) => result,
        };
        let of_default = name == "default" && signature.inputs.is_empty();
        let possible = if old.is_empty() || of_default { Vec::new() } else { values(result) };
        for value in possible.into_iter().filter(|it| it != old) {
            if let Some(id) = self.mutant(signature.ident.span(), format!("returns {value}")) {
                let text = format!("if {} {{ return {value}; }}", on(id));
                self.put(body.start + 1..body.start + 1, marked(&[id], &text));
            }
        }
        self.in_constant -= usize::from(is_constant);
        self.names.pop();
    }

    fn constantly(&mut self, inside: impl FnOnce(&mut Self)) {
        self.in_constant += 1;
        inside(self);
        self.in_constant -= 1;
    }
}

impl<'ast> Visit<'ast> for Writer<'_> {
    fn visit_expr(&mut self, it: &'ast Expr) {
        match it {
            Expr::Const(_) => return self.constantly(|writer| visit::visit_expr(writer, it)),
            Expr::Repeat(repeat) => {
                self.visit_expr(&repeat.expr);
                return self.constantly(|writer| writer.visit_expr(&repeat.len));
            }
            _ => visit::visit_expr(self, it),
        }
        match it {
            Expr::Binary(it) => self.binary(it),
            Expr::Unary(it) => self.unary(it),
            Expr::Match(it) => self.arms(&it.arms),
            _ => {}
        }
    }

    fn visit_item_fn(&mut self, it: &'ast ItemFn) {
        if !is_for_tests(&it.attrs) {
            self.function(&it.sig, &it.block, |writer| writer.visit_block(&it.block));
        }
    }

    fn visit_impl_item_fn(&mut self, it: &'ast ImplItemFn) {
        if !is_for_tests(&it.attrs) {
            self.function(&it.sig, &it.block, |writer| writer.visit_block(&it.block));
        }
    }

    fn visit_trait_item_fn(&mut self, it: &'ast TraitItemFn) {
        if let Some(block) = &it.default {
            self.function(&it.sig, block, |writer| writer.visit_block(block));
        }
    }

    fn visit_item_mod(&mut self, it: &'ast ItemMod) {
        if !is_for_tests(&it.attrs) {
            visit::visit_item_mod(self, it);
        }
    }

    fn visit_item_impl(&mut self, it: &'ast ItemImpl) {
        // What is shown to the authors of programs, and decides nothing.
        let is_debug = it.trait_.as_ref().and_then(|it| it.1.segments.last()).is_some_and(|it| it.ident == "Debug");
        if is_debug || is_for_tests(&it.attrs) {
            return;
        }
        let of = self.text[Self::range(it.self_ty.span())].to_owned();
        self.names.push(of);
        visit::visit_item_impl(self, it);
        self.names.pop();
    }

    fn visit_item_const(&mut self, it: &'ast ItemConst) {
        self.constantly(|writer| visit::visit_item_const(writer, it));
    }

    fn visit_item_static(&mut self, it: &'ast ItemStatic) {
        self.constantly(|writer| visit::visit_item_static(writer, it));
    }

    fn visit_impl_item_const(&mut self, it: &'ast ImplItemConst) {
        self.constantly(|writer| visit::visit_impl_item_const(writer, it));
    }

    fn visit_trait_item_const(&mut self, it: &'ast TraitItemConst) {
        self.constantly(|writer| visit::visit_trait_item_const(writer, it));
    }

    fn visit_variant(&mut self, it: &'ast Variant) {
        self.constantly(|writer| visit::visit_variant(writer, it));
    }

    fn visit_type(&mut self, it: &'ast Type) {
        self.constantly(|writer| visit::visit_type(writer, it));
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_pat(&mut self, _: &'ast Pat) {}
}
