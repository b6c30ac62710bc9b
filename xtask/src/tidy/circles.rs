//! Circles: files of a crate that use each other, as far as their paths show it. A file below another is a part of it,
//! so that it may use the one above, except in the [strict](STRICT) crates; the crate's root is above all.

use super::code::{Source, without_tests};
use super::ratchet::Measure;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Crates in which a file does not use the one above it, either.
const STRICT: &[&str] = &["cli", "collect"];

/// The modules of a crate by their paths, each with those that its file uses. The root's path is empty.
type Uses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Counts the files of each crate that use others and are used by them again.
pub(super) fn check(sources: &[Source]) -> Measure {
    let mut measure = Measure {
        name: "circles",
        faults: "files that use others and are used by these",
        remedy: "let them use each other in one direction: move what both need to the lower one, or into a third",
        free: 0,
        bar: None,
        groups: BTreeMap::new(),
    };
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_crate_code()) {
        crates.entry(source.room()).or_default().push(source);
    }
    for (room, files) in crates {
        let files = files.iter().map(|source| (module(source.file), code(source))).collect();
        let uses = uses(&files, STRICT.contains(&room));
        for circle in uses.keys().filter_map(|module| circle(module, &uses)) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            measure.add(room, names.join(" uses "));
        }
    }
    measure
}

/// The path of a file's module: `read`, `exchange` for `crates/recording/ring/src/read/exchange.rs`.
fn module(file: &str) -> Vec<String> {
    let (_, below) = file.split_once("/src/").unwrap_or_default();
    let path = below.trim_end_matches(".rs");
    match path {
        "lib" | "main" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// The code of a file in one line, without its tests.
fn code(source: &Source) -> String {
    without_tests(&source.lines).iter().map(|(_, line)| line.code.trim().to_owned() + " ").collect()
}

/// Returns the modules that each module uses: the longest ones that its paths begin with. Unless `is_strict`, those
/// above it are left out.
fn uses(files: &BTreeMap<Vec<String>, String>, is_strict: bool) -> Uses {
    let of = |(own, code): (&Vec<String>, &String)| {
        let mut used: BTreeSet<Vec<String>> = BTreeSet::new();
        for path in paths(own, code) {
            let modules = (1..=path.len()).rev().map(|length| path[..length].to_vec());
            used.extend(modules.into_iter().find(|module| files.contains_key(module)));
        }
        used.retain(|module| module != own && (is_strict || !own.starts_with(module)));
        (own.clone(), used)
    };
    files.iter().filter(|(own, _)| !own.is_empty()).map(of).collect()
}

/// Returns the paths in the code of a module that begin with `crate`, `super` or the name of a module that it declares.
fn paths(own: &[String], code: &str) -> Vec<Vec<String>> {
    let words: Vec<&str> = code.split(|c: char| !is_name(c)).collect();
    let declared = words.windows(2).filter(|pair| pair[0] == "mod").map(|pair| pair[1]);
    let mut begins: BTreeSet<&str> = declared.filter(|name| !name.is_empty()).collect();
    begins.extend(["crate", "super"]);
    let mut found = Vec::new();
    for begin in begins {
        for (at, _) in code.match_indices(&format!("{begin}::")) {
            // The middle of a longer path or name is not the begin of one.
            if code[..at].ends_with(|c: char| is_name(c) || c == ':') {
                continue;
            }
            tree(own.to_vec(), &code[at..], &mut found);
        }
    }
    found
}

/// Adds the paths of a tree such as `crate::{a::B, c}`, below the module `from`. Returns its length.
fn tree(mut from: Vec<String>, text: &str, found: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if rest.starts_with('{') {
            at += 1;
            while !text[at..].starts_with('}') && at < text.len() {
                let length = tree(from.clone(), &text[at..], found);
                at += length.max(text[at..].chars().next().map_or(1, char::len_utf8));
            }
            return (at + 1).min(text.len());
        }
        let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        match &rest[..length] {
            "" if at == 0 => return 0,
            // All names of a module: `crate::a::*`.
            "" => {
                found.push(from);
                return at;
            }
            "crate" => from.clear(),
            "super" => drop(from.pop()),
            "self" => {}
            name => from.push(name.to_owned()),
        }
        at += length;
        if !text[at..].starts_with("::") {
            found.push(from);
            return at;
        }
        at += 2;
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the shortest way from a module over those that it uses back to it.
fn circle<'a>(module: &'a Vec<String>, uses: &'a Uses) -> Option<Vec<&'a Vec<String>>> {
    let mut ways = VecDeque::from([vec![module]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in way.last().and_then(|last| uses.get(*last)).into_iter().flatten() {
            let longer = || way.iter().copied().chain([next]).collect();
            if next == module {
                return Some(longer());
            }
            if seen.insert(next) {
                ways.push_back(longer());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        circles_of(files, false)
    }

    fn circles_of(files: &[(&str, &str)], is_strict: bool) -> Vec<String> {
        let files = files.iter().map(|(module, code)| (path(module), (*code).to_owned())).collect();
        let uses = uses(&files, is_strict);
        let found = uses.keys().filter_map(|module| circle(module, &uses));
        found.map(|way| way.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_file_is_a_module() {
        assert_eq!(module("crates/recording/ring/src/read/exchange.rs"), path("read::exchange"));
        assert_eq!(module("crates/cli/src/main.rs"), path(""));
    }

    #[test]
    fn paths_begin_at_the_root_above_or_in_a_declared_module() {
        let code = "mod low; use crate::{a::{B, c::D}, e}; use super::f::*; use std::io; fn h() { low::x(); x::low::y; \
            crate::i::J }";
        let mut found = paths(&path("own"), code);
        found.sort();
        let expected = ["a::B", "a::c::D", "e", "f", "i::J", "own::low::x"].map(path);
        assert_eq!(found, expected);
    }

    #[test]
    fn files_that_use_each_other_are_a_circle_however_long() {
        assert_eq!(circles(&[("a", "use crate::b::X;"), ("b", "use super::c::{Y, Z};"), ("c", "")]), [""; 0]);
        let three =
            [("a", "use crate::b::X;"), ("b", "use super::c::{Y, Z};"), ("c", "fn f(_: &crate::a::X) {}")];
        assert_eq!(circles(&three), ["a b c a", "b c a b", "c a b c"]);
        let other = [
            ("a", "mod low; fn f() { low::g() }"),
            ("a::low", "use crate::b::X;"),
            ("b", "use crate::a::low;"),
        ];
        assert_eq!(circles(&other), ["a::low b a::low", "b a::low b"]);
    }

    #[test]
    fn a_part_may_use_the_file_above() {
        assert_eq!(circles(&[("", "mod a; pub use a::X;"), ("a", "use crate::Error;")]), [""; 0]);
        let above = [("a", "mod low; fn f() { low::g() }"), ("a::low", "use super::Own;")];
        assert_eq!(circles(&above), [""; 0]);
        assert_eq!(circles_of(&above, true), ["a a::low a", "a::low a a::low"]);
    }

    #[test]
    fn no_text_is_a_panic() {
        for text in ["crate::{", "crate::{a::", "crate::ü{ü}", "super::super::super::{{}}", "crate::}"] {
            paths(&path("a"), text);
        }
    }
}
