//! What one source file consists of: lines, functions, names, and the paths that it uses. Parsed with `syn`, because
//! only a parser tells an import from a comment, and a match arm from a struct literal. Code for tests is left out.

use std::collections::BTreeSet;

use anyhow::Context;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{
    Attribute, Block, ExprMatch, File, ImplItemFn, ItemImpl, ItemMacro, ItemMod, ItemUse, Macro, Path,
    Signature, TraitItemFn, UseTree, VisRestricted, Visibility,
    parse::Parser,
    spanned::Spanned,
    visit::{self, Visit},
};

/// Names from the crate's root downwards; empty for the root itself.
pub(crate) type ModulePath = Vec<String>;

/// One source file without its tests.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Lines, without those of items for tests.
    pub(crate) lines: usize,
    pub(crate) functions: Vec<Function>,
    /// The file's own module first, then those written inside of it.
    pub(crate) modules: Vec<Module>,
    /// Modules that are declared for tests only; their files are no code.
    pub(crate) test_modules: Vec<ModulePath>,
    /// Public items without a doc comment, as `name (line)`.
    pub(crate) undocumented: Vec<String>,
}

impl Source {
    /// The module that the file is.
    pub(crate) fn path(&self) -> &ModulePath {
        &self.modules[0].path
    }
}

/// A function or method with a body.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of the `fn`.
    pub(crate) line: usize,
    /// Lines from the `fn` to its last brace.
    pub(crate) lines: usize,
    /// Deepest block: a block in the body is 1, a block in that is 2; a `match` counts, and so does the block of an arm.
    pub(crate) nesting: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) path: ModulePath,
    /// Names of the items that it defines.
    pub(crate) defined: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// Paths in code, of at least two names.
    pub(crate) paths: BTreeSet<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Import {
    /// As written, with `crate`, `self` and `super`.
    pub(crate) path: Vec<String>,
    /// The name that it gets; `None` for a glob.
    pub(crate) name: Option<String>,
}

/// Parses a file whose module is `path`.
pub(crate) fn read(text: &str, path: ModulePath) -> anyhow::Result<Source> {
    let file: File = syn::parse_file(text).context("it does not parse")?;
    let mut reader = Reader::default();
    reader.source.modules.push(Module { path, ..Module::default() });
    reader.visit_file(&file);
    reader.source.lines = text.lines().count().saturating_sub(reader.test_lines);
    Ok(reader.source)
}

#[derive(Default)]
struct Reader {
    source: Source,
    /// Index of the module that is being read.
    module: usize,
    test_lines: usize,
    /// Blocks around the present place in the present function, and the most there were.
    depth: usize,
    deepest: usize,
}

impl Reader {
    fn here(&mut self) -> &mut Module {
        &mut self.source.modules[self.module]
    }

    fn define(&mut self, name: &impl ToString) {
        let name = name.to_string();
        self.here().defined.insert(name);
    }

    /// Counts an item out if it is for tests.
    fn is_for_tests(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is = attributes.iter().any(|it| {
            it.path().is_ident("cfg") && it.parse_args::<Path>().is_ok_and(|it| it.is_ident("test"))
        });
        if is {
            self.test_lines += lines_of(item);
        }
        is
    }

    fn document(
        &mut self,
        visibility: &Visibility,
        attributes: &[Attribute],
        name: &impl ToString,
        line: usize,
    ) {
        let documented = attributes.iter().any(|it| it.path().is_ident("doc"));
        if matches!(visibility, Visibility::Public(_)) && !documented {
            self.source.undocumented.push(format!("{} ({line})", name.to_string()));
        }
    }

    fn function(&mut self, signature: &Signature, body: &Block) {
        let outer = (std::mem::take(&mut self.depth), std::mem::take(&mut self.deepest));
        self.visit_signature(signature);
        body.stmts.iter().for_each(|it| self.visit_stmt(it));
        let line = signature.fn_token.span.start().line;
        self.source.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: body.brace_token.span.close().end().line + 1 - line,
            nesting: self.deepest,
        });
        (self.depth, self.deepest) = outer;
    }

    fn nested(&mut self, visit: impl FnOnce(&mut Self)) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        visit(self);
        self.depth -= 1;
    }

    /// Reads a macro's input: braces that hold statements are a block, and names joined by `::` are a path.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(name) if colons == 2 => path.push(name.to_string()),
                TokenTree::Ident(name) => {
                    self.path(std::mem::replace(&mut path, vec![name.to_string()]));
                }
                TokenTree::Punct(it) if it.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.path(std::mem::take(&mut path));
                    self.group(&group);
                }
                _ => self.path(std::mem::take(&mut path)),
            }
            colons = 0;
        }
        self.path(path);
    }

    fn group(&mut self, group: &Group) {
        let block = Block::parse_within.parse2(group.stream()).ok();
        match block.filter(|it| group.delimiter() == Delimiter::Brace && !it.is_empty()) {
            Some(block) => self.nested(|it| block.iter().for_each(|stmt| it.visit_stmt(stmt))),
            None => self.tokens(&group.stream()),
        }
    }

    fn path(&mut self, path: Vec<String>) {
        if path.len() > 1 {
            self.here().paths.insert(path);
        }
    }
}

/// Shorthand for the items that differ in nothing: noted, not for tests, documented or not.
macro_rules! items {
    ($($visit:ident $item:ident,)*) => {
        $(fn $visit(&mut self, it: &'ast syn::$item) {
            if !self.is_for_tests(&it.attrs, it) {
                self.define(&it.ident);
                self.document(&it.vis, &it.attrs, &it.ident, it.ident.span().start().line);
                visit::$visit(self, it);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Reader {
    items! {
        visit_item_const ItemConst,
        visit_item_enum ItemEnum,
        visit_item_static ItemStatic,
        visit_item_struct ItemStruct,
        visit_item_trait ItemTrait,
        visit_item_type ItemType,
    }

    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        if !self.is_for_tests(&it.attrs, it) {
            self.define(&it.sig.ident);
            self.document(&it.vis, &it.attrs, &it.sig.ident, it.sig.fn_token.span.start().line);
            self.function(&it.sig, &it.block);
        }
    }

    fn visit_item_impl(&mut self, it: &'ast ItemImpl) {
        if !self.is_for_tests(&it.attrs, it) {
            visit::visit_item_impl(self, it);
        }
    }

    fn visit_impl_item_fn(&mut self, it: &'ast ImplItemFn) {
        if !self.is_for_tests(&it.attrs, it) {
            self.document(&it.vis, &it.attrs, &it.sig.ident, it.sig.fn_token.span.start().line);
            self.function(&it.sig, &it.block);
        }
    }

    fn visit_trait_item_fn(&mut self, it: &'ast TraitItemFn) {
        match &it.default {
            Some(body) => self.function(&it.sig, body),
            None => self.visit_signature(&it.sig),
        }
    }

    fn visit_item_mod(&mut self, it: &'ast ItemMod) {
        let path: ModulePath = [&*self.here().path, &[it.ident.to_string()]].concat();
        if self.is_for_tests(&it.attrs, it) {
            self.source.test_modules.push(path);
        } else if let Some((_, items)) = &it.content {
            let outer = std::mem::replace(&mut self.module, self.source.modules.len());
            self.source.modules.push(Module { path, ..Module::default() });
            for item in items {
                self.visit_item(item);
            }
            self.module = outer;
        }
    }

    fn visit_item_use(&mut self, it: &'ast ItemUse) {
        if !self.is_for_tests(&it.attrs, it) {
            flatten(&it.tree, &mut Vec::new(), &mut self.here().imports);
        }
    }

    fn visit_item_macro(&mut self, it: &'ast ItemMacro) {
        it.ident.iter().for_each(|it| self.define(it));
        visit::visit_item_macro(self, it);
    }

    fn visit_block(&mut self, it: &'ast Block) {
        self.nested(|this| visit::visit_block(this, it));
    }

    fn visit_expr_match(&mut self, it: &'ast ExprMatch) {
        self.nested(|this| visit::visit_expr_match(this, it));
    }

    fn visit_macro(&mut self, it: &'ast Macro) {
        self.tokens(&it.tokens);
    }

    fn visit_path(&mut self, it: &'ast Path) {
        self.path(it.segments.iter().map(|it| it.ident.to_string()).collect());
        visit::visit_path(self, it);
    }

    /// `pub(super)` uses nothing.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

fn lines_of(item: &impl Spanned) -> usize {
    let span = item.span();
    span.end().line + 1 - span.start().line
}

/// Takes a tree of imports apart into paths.
fn flatten(tree: &UseTree, before: &mut Vec<String>, out: &mut Vec<Import>) {
    let mut add = |path: Vec<String>, name: Option<String>| out.push(Import { path, name });
    match tree {
        UseTree::Path(it) => {
            before.push(it.ident.to_string());
            flatten(&it.tree, before, out);
            before.pop();
        }
        UseTree::Name(it) if it.ident == "self" => add(before.clone(), before.last().cloned()),
        UseTree::Name(it) => {
            let name = it.ident.to_string();
            add([&**before, std::slice::from_ref(&name)].concat(), Some(name));
        }
        UseTree::Rename(it) => {
            let end = if it.ident == "self" { None } else { Some(it.ident.to_string()) };
            let path = before.iter().cloned().chain(end).collect();
            add(path, Some(it.rename.to_string()));
        }
        UseTree::Glob(_) => add(before.clone(), None),
        UseTree::Group(it) => it.items.iter().for_each(|it| flatten(it, before, out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Source {
        read(text, Vec::new()).unwrap()
    }

    fn nesting(body: &str) -> usize {
        parse(&format!("fn f() {{ {body} }}")).functions[0].nesting
    }

    #[test]
    fn blocks_in_blocks_are_counted() {
        assert_eq!(nesting("let a = A { b: 1 };"), 0);
        assert_eq!(
            nesting("if a { b() } else if c { d() } else { e() }"),
            1,
            "an else-if lies beside the if"
        );
        assert_eq!(nesting("for a in b { while c { d() } }"), 2);
        assert_eq!(nesting("match a { B => c(), D => e() }"), 1);
        assert_eq!(nesting("match a { B => { c() } D => e() }"), 2);
        assert_eq!(nesting("let Some(a) = b.map(|it| { it }) else { return };"), 1);
        assert_eq!(nesting("loop { async move { if a { b() } }.await }"), 3);
        assert_eq!(nesting("loop { fn inner() { if a { b() } } }"), 1, "a function in it is one of its own");
    }

    #[test]
    fn blocks_in_macros_are_counted() {
        assert_eq!(nesting("select! { a = b() => { if c { d() } } else => {} }"), 2);
        assert_eq!(nesting("json!({ \"a\": { \"b\": 1 } });"), 0);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let source = parse("/// Doc.\n#[inline]\nfn f() {\n    g();\n}\nimpl A {\n    fn m(&self) {}\n}\n");
        let measured: Vec<_> = source.functions.iter().map(|it| (&*it.name, it.line, it.lines)).collect();
        assert_eq!(measured, [("f", 3, 3), ("m", 7, 1)]);
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let source = parse(
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::a::B;\n    fn g() {}\n}\n#[cfg(test)]\nmod more;\n",
        );
        assert_eq!(source.lines, 2);
        assert_eq!(source.functions.len(), 1);
        assert_eq!(source.modules.len(), 1);
        assert_eq!(source.test_modules, [["tests"], ["more"]]);
    }

    #[test]
    fn imports_are_taken_apart() {
        let source = parse("use crate::{a::{self, B as C}, d::*}; use super::e::F;");
        let imports: Vec<_> =
            source.modules[0].imports.iter().map(|it| (it.path.join("::"), it.name.as_deref())).collect();
        let expected = [
            ("crate::a".to_owned(), Some("a")),
            ("crate::a::B".to_owned(), Some("C")),
            ("crate::d".to_owned(), None),
            ("super::e::F".to_owned(), Some("F")),
        ];
        assert_eq!(imports, expected);
    }

    #[test]
    fn public_items_need_a_doc_comment() {
        let source = parse(
            "pub struct A;\n/// Doc.\npub fn b() {}\npub(crate) fn c() {}\nimpl A { pub fn d(&self) {} }",
        );
        assert_eq!(source.undocumented, ["A (1)", "d (5)"]);
    }
}
