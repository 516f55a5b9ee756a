//! Which files of a crate use each other in a circle. A node is a file; an edge leads to the file that holds what a path
//! names, also where the path goes through a re-export. Only paths count: a method that is called needs no import.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Import, Module, ModulePath, Source};

/// Re-exports of re-exports that are followed; real ones have two or three.
const MAX_STEPS: usize = 16;

/// Files of a crate, by number, and which of them each one uses.
pub(crate) type Edges = Vec<BTreeSet<usize>>;

/// Returns the groups of files in which each one leads to each other one, biggest first.
pub(crate) fn cycles(edges: &Edges) -> Vec<Vec<usize>> {
    let reached = reachable(edges);
    let mut groups: BTreeSet<Vec<usize>> = BTreeSet::new();
    for (file, others) in reached.iter().enumerate() {
        if others.contains(&file) {
            groups.insert(others.iter().copied().filter(|it| reached[*it].contains(&file)).collect());
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|it| std::cmp::Reverse(it.len()));
    groups
}

/// Returns for each file the files that it uses. A file above others in the tree is made of them, so that using them is
/// no edge; that they use it is one.
pub(crate) fn edges(sources: &[Source]) -> Edges {
    let tree = Tree::of(sources);
    let used = |source: &Source| {
        let files: BTreeSet<usize> = source.modules.iter().flat_map(|it| tree.used_by(it)).collect();
        files.into_iter().filter(|it| !sources[*it].path().starts_with(source.path())).collect()
    };
    sources.iter().map(used).collect()
}

fn reachable(edges: &Edges) -> Edges {
    let from = |start: &BTreeSet<usize>| {
        let (mut seen, mut open) = (BTreeSet::new(), start.iter().copied().collect::<Vec<_>>());
        while let Some(file) = open.pop() {
            if seen.insert(file) {
                open.extend(&edges[file]);
            }
        }
        seen
    };
    edges.iter().map(from).collect()
}

/// All modules of a crate.
struct Tree<'a> {
    modules: BTreeMap<&'a [String], (usize, &'a Module)>,
}

impl<'a> Tree<'a> {
    fn of(sources: &'a [Source]) -> Self {
        let modules = sources.iter().enumerate().flat_map(|(file, source)| {
            source.modules.iter().map(move |module| (&*module.path, (file, module)))
        });
        Self { modules: modules.collect() }
    }

    fn used_by(&self, module: &Module) -> BTreeSet<usize> {
        let mut files = BTreeSet::new();
        for import in &module.imports {
            let Some(path) = self.absolute(&import.path, module, 0) else { continue };
            let file = match import.name {
                Some(_) => self.file_of(&path, 0),
                None => self.modules.get(&*path).map(|(file, _)| *file),
            };
            files.extend(file);
        }
        for path in &module.paths {
            files.extend(self.absolute(path, module, 0).and_then(|it| self.file_of(&it, 0)));
        }
        files
    }

    /// Returns a path as seen from the crate's root; `None` if it leads to another crate or to something local.
    fn absolute(&self, path: &[String], from: &Module, steps: usize) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.path.clone(),
            "super" => from.path.split_last()?.1.to_vec(),
            name => self.in_scope(name, from, steps)?,
        };
        for name in rest {
            if name == "super" {
                base.pop()?;
            } else {
                base.push(name.clone());
            }
        }
        Some(base)
    }

    /// Returns what a bare name stands for at the beginning of a path: an import or a module that lies in `from`.
    fn in_scope(&self, name: &str, from: &Module, steps: usize) -> Option<ModulePath> {
        let named = |it: &&Import| it.name.as_deref() == Some(name);
        // `use serde::de::{self, …}`: the name leads to itself.
        let import = from.imports.iter().filter(named).find(|it| it.path.first().is_none_or(|it| it != name));
        if let Some(import) = import
            && steps < MAX_STEPS
        {
            return self.absolute(&import.path, from, steps + 1);
        }
        let child: ModulePath = [&*from.path, &[name.to_owned()]].concat();
        self.modules.contains_key(&*child).then_some(child)
    }

    /// Returns the file that holds what an absolute path names; `None` if that is a module, whose file matters only
    /// once something in it is named.
    fn file_of(&self, path: &[String], steps: usize) -> Option<usize> {
        let mut length = 0;
        while length < path.len() && self.modules.contains_key(&path[..=length]) {
            length += 1;
        }
        // A function may have the name of its module.
        let is_module = length == path.len();
        let length = length.min(path.len().checked_sub(1)?);
        let (file, module) = self.modules.get(&path[..length])?;
        let name = &path[length];
        if module.defined.contains(name) {
            return Some(*file);
        }
        let glob = |it: &&Import| it.name.is_none() && !is_module;
        self.re_exported(module, &path[length..], steps)
            .or_else(|| module.imports.iter().filter(glob).find_map(|it| self.glob(it, name, module, steps)))
            .or((!is_module).then_some(*file))
    }

    /// Follows an import in `module` that brings in the first name of `path`.
    fn re_exported(&self, module: &Module, path: &[String], steps: usize) -> Option<usize> {
        let (name, rest) = path.split_first()?;
        let import = module.imports.iter().find(|it| it.name.as_ref() == Some(name))?;
        let mut target = self.absolute(&import.path, module, steps)?;
        target.extend_from_slice(rest);
        if steps < MAX_STEPS { self.file_of(&target, steps + 1) } else { None }
    }

    /// Returns the file of `name`, if the module that a glob opens has it.
    fn glob(&self, glob: &Import, name: &String, from: &Module, steps: usize) -> Option<usize> {
        let target = self.absolute(&glob.path, from, steps)?;
        let (file, module) = self.modules.get(&*target)?;
        if module.defined.contains(name) {
            return Some(*file);
        }
        self.re_exported(module, std::slice::from_ref(name), steps)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::source, *};

    /// Returns the circles of a crate with these files, each `(module, text)`.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let path = |it: &str| it.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let sources: Vec<_> =
            files.iter().map(|(module, text)| source::read(text, path(module)).unwrap()).collect();
        let named = |group: Vec<usize>| group.into_iter().map(|it| files[it].0.to_owned()).collect();
        cycles(&edges(&sources)).into_iter().map(named).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let found = circles(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "use crate::c::f; pub struct B;"),
            ("c", "use super::a::A; pub fn f() {}"),
        ]);
        assert_eq!(found, [["a", "b", "c"]]);
    }

    #[test]
    fn a_path_in_code_and_one_in_a_macro_are_uses_too() {
        let found = circles(&[
            ("", "mod a; mod b;"),
            ("a", "use crate::b; pub struct A; fn f() { b::g(1) }"),
            ("b", "pub fn g(_: u8) { assert!(matches!(h(), crate::a::A)); }"),
        ]);
        assert_eq!(found, [["a", "b"]]);
    }

    #[test]
    fn an_imported_module_is_used_once_something_of_it_is_named() {
        let files = [("", "mod a; mod b;"), ("a", "use crate::b; pub struct A;"), ("b", "use crate::a::A;")];
        assert_eq!(circles(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_has_the_item() {
        let found = circles(&[
            ("", "mod a; mod b; pub use a::inner::Inner; pub use b::*;"),
            ("a", "pub mod inner; pub use inner::Inner; use crate::B; fn f(_: B) {}"),
            ("a::inner", "pub struct Inner;"),
            ("b", "use crate::a::Inner; use crate::Inner as Again; pub struct B;"),
        ]);
        assert_eq!(found, Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_folder_may_use_the_files_below_it() {
        let found = circles(&[
            ("", "mod a;"),
            ("a", "mod child; pub struct A; fn f() { child::g() }"),
            ("a::child", "use super::A; pub fn g() {}"),
        ]);
        assert_eq!(found, Vec::<Vec<String>>::new());
        let found = circles(&[
            ("", "mod a;"),
            ("a", "mod one; mod two;"),
            ("a::one", "pub fn f() { super::two::g() }"),
            ("a::two", "use super::one; pub fn g() { one::f() }"),
        ]);
        assert_eq!(found, [["a::one", "a::two"]]);
    }

    #[test]
    fn other_crates_and_tests_are_no_edges() {
        let found = circles(&[
            ("", "mod a; mod b;"),
            ("a", "use other::b::B; use crate::b::C; pub struct A;"),
            ("b", "pub struct C; #[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::a::A;"),
        ]);
        assert_eq!(found, Vec::<Vec<String>>::new());
    }
}
