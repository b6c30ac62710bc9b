//! Edges between crates: compares the table of `ARCHITECTURE.md` with Cargo's dependencies.

use super::{Findings, Tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Page with the table, and the heading above the table.
const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Who may use whom";
/// First words of the sentence that names what a traced program links.
const LINKED: &str = "The crates that a traced program links (";
/// The crate for C programs, which no Rust code uses.
const FOR_C: &str = "probe-c";

/// Edges that the page allows. Crates are named by their folders.
#[derive(Debug, Default, PartialEq)]
struct Allowed {
    /// Crates that a crate may use, and additional ones for its tests.
    uses: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>,
    /// Crates that may use any but the one for C programs, and that no crate may use.
    free: BTreeSet<String>,
    /// The crates that a traced program links.
    linked: BTreeSet<String>,
    /// Crates from outside of the workspace that these may use.
    linked_others: BTreeSet<String>,
}

/// One dependency of a package.
struct Edge {
    /// Folder of the crate that has the dependency.
    user: String,
    /// Name of the package that it uses, and its folder if it belongs to the workspace.
    name: String,
    used: Option<String>,
    /// True if only tests and models link the package.
    in_tests: bool,
}

pub(super) fn check(tree: &Tree) -> Findings {
    match parse(&tree.read(PAGE)) {
        Ok(allowed) => compare(&allowed, &edges(&tree.packages)),
        Err(error) => vec![error],
    }
}

/// Reads the section of the page.
fn parse(page: &str) -> Result<Allowed, String> {
    let (before, section) = page.split_once(HEADING).ok_or_else(|| format!("{PAGE} has no '{HEADING}'"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut allowed = Allowed::default();
    for (number, line) in (before.lines().count() + 1..).zip(section.lines()) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [users, uses, in_tests] = cells[..] else { continue };
        if users == "crate" || users.starts_with("---") {
            continue;
        }
        for user in list(users) {
            let user = user.rsplit('/').next().unwrap_or_default().to_owned();
            let is_new = match uses {
                "any but probe-c; no crate may use one of these" => allowed.free.insert(user),
                _ => allowed.uses.insert(user, (list(uses).collect(), list(in_tests).collect())).is_none(),
            };
            if !is_new {
                return Err(format!("{PAGE}:{number}: a crate of '{users}' has two rows"));
            }
        }
    }
    let linked = section.split_once(LINKED).and_then(|(_, behind)| behind.split_once(')'));
    let (linked, others) = linked.ok_or_else(|| format!("{PAGE}: no sentence '{LINKED}...)'"))?;
    allowed.linked = list(linked).collect();
    let others = others.split('.').next().unwrap_or_default();
    allowed.linked_others = others.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Ok(allowed)
}

/// Parses the crates of a cell: `a, b`; none for an empty cell or "none".
fn list(cell: &str) -> impl Iterator<Item = String> {
    cell.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "none").map(str::to_owned)
}

/// The dependencies of all packages.
fn edges(packages: &[Value]) -> Vec<Edge> {
    let folder_of = |package: &Value| folder(&text(&package["manifest_path"]));
    let folders: BTreeMap<String, String> =
        packages.iter().map(|package| (text(&package["name"]), folder_of(package))).collect();
    let of_package = |package: &Value| {
        let edge = |dependency: &Value| {
            let name = text(&dependency["name"]);
            // Models of the code (scripts/loom), like tests, are not linked into a traced program.
            let in_tests = text(&dependency["kind"]) == "dev" || text(&dependency["target"]) == "cfg(loom)";
            Edge { user: folder_of(package), used: folders.get(&name).cloned(), name, in_tests }
        };
        package["dependencies"].as_array().into_iter().flatten().map(edge).collect::<Vec<_>>()
    };
    packages.iter().flat_map(of_package).collect()
}

/// Edges that the page does not allow, and rows of the page that no edge needs.
fn compare(allowed: &Allowed, edges: &[Edge]) -> Findings {
    let mut findings: Findings = edges.iter().filter_map(|edge| judge(allowed, edge)).collect();
    for (user, (uses, test_uses)) in &allowed.uses {
        let exists = |used: &str, in_tests: bool| {
            let mut of_user = edges.iter().filter(|edge| edge.user == *user);
            of_user.any(|edge| edge.used.as_deref() == Some(used) && edge.in_tests == in_tests)
        };
        let unused = uses.iter().filter(|used| !exists(used, false));
        let unused = unused.chain(test_uses.iter().filter(|used| !exists(used, true)));
        findings.extend(unused.map(|used| {
            format!("{PAGE}, '{HEADING}': {user} does not use {used}: delete it from the row of {user}")
        }));
    }
    findings
}

fn judge(allowed: &Allowed, edge: &Edge) -> Option<String> {
    let Edge { user, name, used, in_tests } = edge;
    let Some(used) = used else {
        let is_refused = allowed.linked.contains(user) && !in_tests && !allowed.linked_others.contains(name);
        return is_refused
            .then(|| format!("crates/{user}/Cargo.toml: a traced program links it: it may not use {name}"));
    };
    if allowed.free.contains(used) {
        return Some(format!("{user} uses {used}, which nothing may use"));
    }
    if allowed.free.contains(user) {
        return (used == FOR_C).then(|| format!("{user} uses {FOR_C}, which is for C programs"));
    }
    let is_fine = allowed
        .uses
        .get(user)
        .is_some_and(|(uses, test_uses)| uses.contains(used) || *in_tests && test_uses.contains(used));
    (!is_fine).then(|| {
        format!("crates/{user}/Cargo.toml: {user} uses {used}: no edge of {PAGE}, '{HEADING}'; add it there if it is to be one")
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The last folder of a manifest's path.
fn folder(manifest: &str) -> String {
    manifest.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Map\n\n## Who may use whom\n\n| crate | may use | its tests also |\n|---|---|---|\n\
        | event, percpu | none | |\n| ring | percpu | |\n| tracefs | event | ring |\n\
        | cli, examples/rust | any but probe-c; no crate may use one of these | |\n\n\
        The crates that a traced program links (percpu, ring) use no crate of others but `libc`.\n\n## Next\n| a | b | c |\n";

    fn edge(user: &str, used: &str, in_tests: bool) -> Edge {
        let is_ours = !matches!(used, "serde" | "libc");
        Edge { user: user.into(), name: used.into(), used: is_ours.then(|| used.to_owned()), in_tests }
    }

    fn refused(user: &str, used: &str, in_tests: bool) -> bool {
        judge(&parse(TEXT).unwrap(), &edge(user, used, in_tests)).is_some()
    }

    #[test]
    fn the_table_is_read() {
        let allowed = parse(TEXT).unwrap();
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(
            allowed.uses.keys().cloned().collect::<BTreeSet<_>>(),
            set(&["event", "percpu", "ring", "tracefs"])
        );
        assert_eq!(allowed.uses["tracefs"], (set(&["event"]), set(&["ring"])));
        assert_eq!(allowed.free, set(&["cli", "rust"]));
        assert_eq!((allowed.linked, allowed.linked_others), (set(&["percpu", "ring"]), set(&["libc"])));
    }

    #[test]
    fn a_page_without_the_section_or_with_two_rows_for_a_crate_is_refused() {
        assert!(parse("# Map\n").unwrap_err().contains("has no '## Who may use whom'"));
        assert!(parse(&TEXT.replace("links (", "has (")).unwrap_err().contains("no sentence"));
        let twice = TEXT.replace("| ring |", "| event |");
        assert_eq!(parse(&twice).unwrap_err(), "ARCHITECTURE.md:8: a crate of 'event' has two rows");
    }

    #[test]
    fn an_edge_that_is_not_listed_is_refused() {
        assert!(!refused("ring", "percpu", false) && !refused("cli", "ring", false));
        assert!(!refused("tracefs", "ring", true) && refused("tracefs", "ring", false));
        assert!(refused("ring", "event", false) && refused("newcomer", "event", false));
        assert!(refused("event", "cli", false) && refused("cli", "probe-c", false));
        assert!(refused("ring", "serde", false) && !refused("ring", "serde", true));
        assert!(!refused("ring", "libc", false) && !refused("event", "serde", false));
    }

    #[test]
    fn a_listed_edge_that_does_not_exist_is_refused() {
        let mut edges = vec![
            edge("ring", "percpu", false),
            edge("tracefs", "event", false),
            edge("tracefs", "ring", true),
        ];
        assert!(compare(&parse(TEXT).unwrap(), &edges).is_empty());
        edges.pop();
        let found = compare(&parse(TEXT).unwrap(), &edges);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].ends_with("tracefs does not use ring: delete it from the row of tracefs"),
            "{}",
            found[0]
        );
    }
}
