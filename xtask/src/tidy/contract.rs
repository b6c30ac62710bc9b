//! The shared-memory layout is a contract: a change to it must reach the page that explains it.

use super::{Findings, Tree};

/// Files that define the layout.
const FILES: [&str; 7] = [
    "layout.rs",
    "offset.rs",
    "number.rs",
    "table.rs",
    "area/enable.rs",
    "area/condition.rs",
    "area/annotations.rs",
];

/// The FNV-1a hash of [`FILES`], without comments and white space.
pub fn layout_hash(tree: &Tree) -> String {
    let code = FILES.map(|file| {
        let text = tree.read(&format!("crates/recording/ring/src/{file}"));
        let code = text.split("\n#[cfg(test)]\n").next().unwrap_or_default().to_owned();
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<String>()
    });
    let bytes = code.iter().flat_map(|code| code.bytes()).filter(|byte| !byte.is_ascii_whitespace());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

pub(super) fn check(tree: &Tree) -> Findings {
    let page = tree.read("docs/layout.md");
    let hash = layout_hash(tree);
    if page.contains(&hash) {
        return Vec::new();
    }
    vec![format!(
        "one of {} in crates/recording/ring/src changed, or is missing: bring docs/layout.md up to date, count VERSION up \
         if programs and collectors no longer understand each other, and write this hash into the page: {hash}",
        FILES.join(", ")
    )]
}
