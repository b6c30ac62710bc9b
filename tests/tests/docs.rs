//! README.md and docs/: each block of commands is run as it stands there, or has a reason why not.

use sordino_tests::documents::{BlockRole, DocumentPage, pages, walk};
use sordino_tests::{Scene, wait_until};

/// `DOCS=npt.md` runs the pages whose names contain `npt.md`.
#[test]
fn every_block_of_the_documents_is_run_or_says_why_not() {
    let scene = Scene::new();
    let chosen = std::env::var("DOCS").unwrap_or_default();
    let mut pages = pages().unwrap_or_else(|error| panic!("{error}"));
    pages.retain(|page| page.name.contains(&chosen));
    assert!(!pages.is_empty(), "there is no page with '{chosen}' in its name");
    let mut failures = Vec::new();
    for page in &pages {
        let outcome = walk(&scene, page);
        outcome.left.iter().for_each(|left| Scene::not_measured(left));
        failures.extend(outcome.failures);
    }
    assert!(
        failures.is_empty(),
        "{} of the documents' promises are not kept:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn page(text: &str) -> DocumentPage {
    DocumentPage::parse("page.md", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the error for a page that cannot be read.
fn fault(text: &str) -> String {
    DocumentPage::parse("page.md", text).expect_err("a fault")
}

/// Returns the failures of a page that is run.
fn failures(text: &str) -> Vec<String> {
    walk(&Scene::new(), &page(text)).failures
}

#[test]
fn a_block_that_is_neither_run_nor_explained_is_a_fault() {
    assert!(fault("text\n```rust\nlet a = 1;\n```\n").starts_with("page.md:2: a block of 'rust' is a file"));
    assert!(fault("```\nls\n```\n").starts_with("page.md:1: a block of ''"));
    assert_eq!(fault("<!-- not run: -->\n```sh\nls\n```\n"), "page.md:2: not run: why?");
    assert_eq!(fault("<!-- shap: x -->\n```sh\nls\n```\n"), "page.md:1: 'shap' is no setting");
    assert_eq!(
        fault("<!-- output: x -->\ntext\n```sh\nls\n```\n"),
        "page.md:2: settings, and no block behind them"
    );
    assert_eq!(
        fault("<!-- status: cp = 1 -->\n```sh\nls\n```\n"),
        "page.md:2: 'cp' is in no command of the block"
    );
    assert_eq!(
        fault("<!-- with: 7days = 7s -->\n```sh\nls\n```\n"),
        "page.md:2: '7days' is not in the block"
    );
    assert_eq!(fault("```sh\nls\n"), "page.md:1: a block without end");
}

#[test]
fn commands_are_the_lines_that_backslashes_do_not_join() {
    let page = page("```sh\n# how\necho a \\\n    b    # c\n\nls\n```\n- list\n  ```text\n  out\n  ```\n");
    let commands = ["echo a      b    # c", "ls"].map(str::to_owned).to_vec();
    assert_eq!(page.blocks[0].role, BlockRole::Commands(commands));
    assert_eq!(page.blocks[1].role, BlockRole::Text);
    assert_eq!(page.blocks[1].place, "page.md:9");
}

#[test]
fn a_block_whose_output_or_status_is_another_fails() {
    let block = |settings: &str, command: &str| failures(&format!("{settings}\n```sh\n{command}\n```\n"));
    assert_eq!(
        block("<!-- output:\nrecorded * events\nlost *\n-->", "printf 'recorded 17  events\\n\\nlost 0\\n'"),
        [""; 0]
    );
    assert!(
        block("<!-- output: recorded * events -->", "echo recorded nothing")[0]
            .contains("no line 'recorded * events'")
    );
    assert!(block("<!-- output:\nb\na\n-->", "printf 'a\\nb\\n'")[0].contains("no line 'a'"));
    assert!(block("", "echo more")[0].contains("it prints 'more', and no output is expected"));
    assert_eq!(block("<!-- status: false = 0 1 -->", "false"), [""; 0]);
    assert!(
        block("<!-- status: false = 0 -->", "false")[0].starts_with("page.md:2: false: status 1, not [0]")
    );
    assert_eq!(block("<!-- needs: no-such-program -->", "false"), [""; 0]);
}

#[test]
fn a_command_that_does_not_end_is_interrupted_when_it_has_begun() {
    let text = "<!-- interrupt: sleep = until grep -q begun $OUTPUT; do sleep 0.01; done -->\n\
        <!-- status: sleep = 130 -->\n<!-- output: begun -->\n```sh\necho begun && sleep 1000\n```\n";
    assert_eq!(failures(text), [""; 0]);
}

#[test]
fn what_a_page_started_is_ended_also_where_a_block_fails() {
    let scene = Scene::new();
    let text = "<!-- file: there/note -->\n```toml\na = 1\n```\n<!-- append: there/note -->\n```toml\nb = 2\n```\n\
        <!-- before: sleep 1000 & echo $! >pid -->\n<!-- finally: touch ended -->\n```sh\nfalse\n```\n\
        <!-- output:\na = 1\nb = 2\n-->\n```sh\ncat there/note\n```\n";
    let outcome = walk(&scene, &page(text));
    assert_eq!((outcome.ran, outcome.failures.len()), (4, 1), "{:?}", outcome.failures);
    let directory = scene.path("page.md");
    assert!(directory.join("ended").exists());
    let pid = std::fs::read_to_string(directory.join("pid")).unwrap();
    // The process may be a zombie until its new parent reaps it.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    wait_until("what the page started is killed", || state().is_empty() || state().contains(") Z "));
}
