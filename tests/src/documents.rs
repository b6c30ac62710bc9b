//! Documents, run as their readers would: every block of commands as it stands, in one directory for each page.
//!
//! HTML comments in front of a block have its settings; the rendered page does not show them. All are optional:
//!
//! | setting | meaning |
//! |---|---|
//! | `not run: REASON` | the block is left alone; the reason is printed |
//! | `file: NAME`, `append: NAME` | the block is (the end of) a file, which is there before the page's first command runs |
//! | `in: DIRECTORY` | where the commands run, below the page's directory, in which `sordino` are the sources |
//! | `needs: root, 2 CPUs, jq` | without one of these the block is skipped, and listed; a block with `sudo` needs root |
//! | `before: COMMANDS`, `after: COMMANDS` | commands around the block, which have to succeed; any number of lines |
//! | `finally: COMMANDS` | commands at the end of the page, also where a block failed |
//! | `with: WORDS = OTHERS` | words of the block that are replaced |
//! | `status: PART = 0 1` | exit statuses of the commands that contain PART; 0 otherwise |
//! | `interrupt: PART = COMMANDS` | such a command gets Ctrl-C when COMMANDS have ended; its standard output is in `$OUTPUT` |
//! | `limit: SECONDS` | how long each command may take; 100 otherwise |
//! | `output: LINES` | lines of the output in their order, `*` for anything; a block without prints nothing |
//!
//! `$BUILT` is a directory that is kept from run to run, for builds that take long.
//!
//! Blocks of `text` show output or a grammar, and are not checked. A block of any other language is a file, or its
//! comment gives the reason why it is not run.

mod output;
mod page;
mod walk;

pub use page::{BlockRole, CodeBlock, DocumentPage};
pub use walk::{PageOutcome, walk};

use crate::install::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Reads the pages: README.md, and all below docs/.
///
/// # Errors
/// The first invalid setting or block, with its location.
pub fn pages() -> Result<Vec<DocumentPage>, String> {
    let mut files = vec![root().join("README.md")];
    files.extend(markdown_below(&root().join("docs")));
    let page = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned();
        DocumentPage::parse(&name, &text)
    };
    files.iter().map(page).collect()
}

fn markdown_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(markdown_below(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            files.push(path);
        }
    }
    files.sort();
    files
}
