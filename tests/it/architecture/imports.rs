//! Which files import which, and the circles among them. A module is a file.
//!
//! A `pub use` is an import only if the file uses the name itself. Otherwise it re-exports the name: a file that
//! imports that name imports the file that defines it.

use std::collections::VecDeque;

use super::code_of;
use crate::support::prelude::*;

/// A module's path below the crate; empty for the crate itself.
type Module = Vec<String>;

/// The imports of all files.
pub(super) struct Imports {
    of: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Of `files`, each a name below `src/` and the words of its code.
    pub(super) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files.into_iter();
        let files = files.map(|(name, code)| (module(name), File::new(code)));
        let files = Files(files.collect());
        let imports = files.0.keys().map(|at| (at.clone(), files.imports(at)));
        Self {
            of: imports.collect(),
        }
    }

    /// The shortest circles inside the module, each as a line of text; of an empty name, those anywhere.
    pub(super) fn circles(&self, room: &str) -> Vec<String> {
        let is_inside = |module: &Module| {
            room.is_empty() || module[..].first().is_some_and(|first| first == room)
        };
        let mut found = BTreeMap::new();
        for module in self.of.keys().filter(|module| is_inside(module)) {
            if let Some(way) = self.way_back(module, is_inside) {
                let members: BTreeSet<_> = way.iter().cloned().collect();
                let names: Vec<_> = way.iter().map(|module| module.join("::")).collect();
                found.entry(members).or_insert_with(|| names.join(" -> "));
            }
        }
        found.into_values().collect()
    }

    /// The imports of rooms, each of another that lies beside it. A room is a folder with the file of its name, or a
    /// file beside it.
    pub(super) fn of_rooms(&self) -> Self {
        let mut of: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in &self.of {
            for to in to {
                let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (from.get(..=same), to.get(..=same)) {
                    of.entry(from.to_vec()).or_default().insert(to.to_vec());
                }
            }
        }
        Self { of }
    }

    /// The files outside of `room` that import one of it.
    pub(super) fn importers(&self, room: &str) -> Vec<String> {
        let room: Module = room.split("::").map(str::to_owned).collect();
        let users = self.of.iter().filter(|(from, to)| {
            !from.starts_with(&room) && to.iter().any(|to| to.starts_with(&room))
        });
        users.map(|(from, _)| from.join("::")).collect()
    }

    /// The shortest path of imports from `start` to itself, through what `is_inside`.
    fn way_back(&self, start: &Module, is_inside: impl Fn(&Module) -> bool) -> Option<Vec<Module>> {
        let mut came_from = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(at) = next.pop_front() {
            let known = self.of.get(at).into_iter().flatten();
            for to in known.filter(|to| is_inside(to)) {
                if to == start {
                    let mut way = vec![start.clone(), at.clone()];
                    while let Some(before) = came_from.get(&way[way.len() - 1]) {
                        way.push(Module::clone(before));
                    }
                    way.reverse();
                    return Some(way);
                }
                came_from.entry(to.clone()).or_insert_with(|| {
                    next.push_back(to);
                    at.clone()
                });
            }
        }
        None
    }
}

/// One name that a `use` brings in.
#[derive(Debug)]
struct Use {
    path: Vec<String>,
    name: String,
    is_forwarded: bool,
}

/// A file's `use`s, and the words of its code without them.
struct File {
    uses: Vec<Use>,
    rest: Vec<String>,
}

struct Files(BTreeMap<Module, File>);

impl Files {
    fn imports(&self, at: &Module) -> BTreeSet<Module> {
        let file = &self.0[at];
        let names = file.rest.iter().flat_map(|word| word.split("::"));
        let names: BTreeSet<&str> = names.collect();
        let used = file.uses.iter();
        let used = used.filter(|u| !u.is_forwarded || names.contains(u.name.as_str()));
        let targets = used.map(|u| u.path.clone()).chain(paths(&file.rest));
        let targets = targets.filter_map(|path| self.target(at, &path, 0));
        targets.filter(|to| to != at).collect()
    }

    /// The file that defines what `path` names in the file `at`, if that file is part of this crate.
    fn target(&self, at: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let child = [&at[..], std::slice::from_ref(first)].concat();
        match first.as_str() {
            "crate" | "data_server" => self.walk(Module::new(), rest, depth),
            "self" => self.walk(at.clone(), rest, depth),
            "super" => {
                let up = at.split_last()?.1.to_vec();
                match rest.first() {
                    Some(next) if next == "super" => self.target(&up, rest, depth),
                    _ => self.walk(up, rest, depth),
                }
            }
            _ if self.0.contains_key(&child) => self.walk(child, rest, depth),
            _ => {
                // A module that was imported by name.
                let imported = self.0[at].uses.iter().find(|u| u.name == *first)?;
                let path = [&imported.path[..], rest].concat();
                (depth < 8 && imported.path[0] != *first)
                    .then(|| self.target(at, &path, depth + 1))?
            }
        }
    }

    /// Follows `path` from the module `at`, through modules and re-exports.
    fn walk(&self, at: Module, path: &[String], depth: usize) -> Option<Module> {
        let file = self.0.get(&at)?;
        let Some((first, rest)) = path.split_first() else {
            return Some(at);
        };
        let child = [&at[..], std::slice::from_ref(first)].concat();
        if self.0.contains_key(&child) {
            return self.walk(child, rest, depth);
        }
        let mut forwarded = file.uses.iter();
        let forwarded = forwarded.find(|u| u.is_forwarded && u.name == *first);
        match forwarded {
            // A re-export of another crate.
            Some(forwarded) if depth < 8 => self.target(&at, &forwarded.path, depth + 1),
            _ => Some(at),
        }
    }
}

/// The module that a file below `src/` is.
fn module(name: &str) -> Module {
    let path = name.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "mod") {
        return Module::new();
    }
    path.split('/').map(str::to_owned).collect()
}

/// The paths of two names or more that `code` imports or uses.
pub(super) fn named(code: &str) -> Vec<Vec<String>> {
    let File { uses, rest } = File::new(code);
    let uses = uses.into_iter().map(|each| each.path);
    uses.chain(paths(&rest)).collect()
}

impl File {
    fn new(code: &str) -> Self {
        let (mut uses, mut rest) = (Vec::new(), Vec::new());
        let (mut words, mut before) = (code.split(' '), "");
        while let Some(word) = words.next() {
            // Not the `use` that tells what a type captures.
            if word == "use" && before != "+" {
                let tree = words.by_ref().take_while(|word| *word != ";");
                expand(tree, ["pub", ")"].contains(&before), &mut uses);
            } else {
                rest.push(word.to_owned());
            }
            before = word;
        }
        Self { uses, rest }
    }
}

/// Takes a tree such as `a::{ b , c::{ self , d as e } }` apart.
fn expand<'a>(tree: impl Iterator<Item = &'a str>, is_forwarded: bool, uses: &mut Vec<Use>) {
    let (mut prefixes, mut before) = (vec![Vec::new()], "");
    for word in tree {
        let prefix: &[String] = prefixes.last().map_or(&[], Vec::as_slice);
        let mut path = [prefix, &segments(word)].concat();
        match (word, uses.last_mut()) {
            ("," | "as", _) => {}
            ("}", _) => drop(prefixes.pop()),
            (alias, Some(named)) if before == "as" => alias.clone_into(&mut named.name),
            _ if word.ends_with('{') => prefixes.push(path),
            _ => {
                if path.len() > 1 && path.last().is_some_and(|l| l == "self" || l == "*") {
                    path.pop();
                }
                let name = path.last().cloned().unwrap_or_default();
                uses.push(Use {
                    path,
                    name,
                    is_forwarded,
                });
            }
        }
        before = word;
    }
}

fn segments(path: &str) -> Vec<String> {
    let segments = path.split("::").filter(|s| !s.is_empty() && *s != "{");
    segments.map(str::to_owned).collect()
}

/// The paths of two names or more among these words, each from its first name.
fn paths(words: &[String]) -> impl Iterator<Item = Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let parts = words
        .iter()
        .flat_map(move |word| word.split(move |c| !is_part(c)));
    let parts = parts.filter(|part| part.contains("::") && !part.starts_with(':'));
    parts.map(segments)
}

#[test]
fn a_planted_circle_is_found_however_the_path_is_written() {
    let of = |files: &[(&str, &str)]| {
        let files: Vec<_> = files.iter().map(|(n, text)| (*n, code_of(text))).collect();
        Imports::new(files.iter().map(|(n, code)| (*n, &**code))).circles("net")
    };
    let two = |one: &str, other: &str| {
        of(&[
            ("lib.rs", "pub mod net;"),
            (
                "net/mod.rs",
                "mod a;\nmod b;\npub(crate) use b::B;\npub use self::a::{A, other as Two};",
            ),
            ("net/a.rs", one),
            ("net/b.rs", other),
        ])
    };
    let ways_to_b = [
        "use super::b;\nfn f() { b::g() }",
        "use crate::{http, net::{x::Y, b::{self, B}}};",
        "fn f(x:super::B) {}",
        "use crate::net as n;\nfn f() { n::b::g() }",
    ];
    for to_b in ways_to_b {
        for to_a in ["use super::a::A;", "use super::Two;", "impl super::A {}"] {
            let found = two(to_b, to_a);
            assert_eq!(found, ["net::a -> net::b -> net::a"], "{to_b} {to_a}");
        }
        assert_eq!(two(to_b, "use std::io;"), [""; 0], "{to_b}");
        let got = two(to_b, "use super::c;\nuse hyper::a::A;");
        assert_eq!(got, [""; 0], "{to_b}");
    }

    let three = of(&[
        ("net/mod.rs", "pub mod x;"),
        ("net/x/mod.rs", "mod y;\nfn f() { y::g() }"),
        ("net/x/y.rs", "use super::super::z;"),
        ("net/z.rs", "use super::x::Here;"),
    ]);
    assert_eq!(three, ["net::x -> net::x::y -> net::z -> net::x"]);
}

#[test]
fn a_planted_circle_of_rooms_is_found() {
    let of = |files: &[(&str, &str)]| {
        let files: Vec<_> = files.iter().map(|(n, text)| (*n, code_of(text))).collect();
        let imports = Imports::new(files.iter().map(|(n, code)| (*n, &**code)));
        imports.of_rooms().circles("")
    };
    // No two files import each other.
    let down = ("net/x/a.rs", "use crate::net::y::c::C;");
    let up = ("net/y/d.rs", "use crate::net::x::b::B;");
    let others = [
        "lib", "net/mod", "net/x", "net/y", "net/z", "net/x/b", "net/y/c",
    ];
    let others = others.map(|it| (it, ""));
    let found = of(&[&others[..], &[down, up]].concat());
    assert_eq!(found, ["net::x -> net::y -> net::x"]);
    // No two rooms import each other.
    let [through, on] = [
        ("net/y/d.rs", "use crate::net::z;"),
        ("net/z/e.rs", "use crate::net::x::b;"),
    ];
    let found = of(&[&others[..], &[down, through, on]].concat());
    assert_eq!(found, ["net::x -> net::y -> net::z -> net::x"]);
    assert_eq!(of(&[&others[..], &[down]].concat()), [""; 0]);
}

#[test]
fn a_reexport_makes_a_circle_only_where_it_is_used() {
    let of = |root: &str, one: &str| {
        let [root, one] = [root, one].map(code_of);
        Imports::new([("net/mod.rs", &*root), ("net/a.rs", &one)]).circles("net")
    };
    let root = "mod a;\npub use a::A;\npub struct R;";
    assert_eq!(of(root, "use super::R;"), [""; 0]);
    let root = "mod a;\npub use a::A;\npub struct R(A);";
    assert_eq!(of(root, "use super::R;"), ["net -> net::a -> net"]);
    assert_eq!(of(root, "use super::A;"), [""; 0]);
    let root = "mod a;\nuse a::A;\npub struct R;";
    assert_eq!(of(root, "use super::R;"), ["net -> net::a -> net"]);
}
