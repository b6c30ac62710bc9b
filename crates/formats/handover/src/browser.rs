//! The browser of the desktop, which opens a page.

use crate::fetch::cache;
use sordino_dirfd::Dir;
use std::env::var_os;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use tempfile::NamedTempFile;

/// A file that leads the browser to a page, for as long as this value exists. Programs' arguments can be read by every
/// user of the machine, so the address, which has a secret part, is not passed as an argument.
#[derive(Debug)]
pub struct Redirection(#[expect(dead_code, reason = "it is removed when it is dropped")] NamedTempFile);

/// Opens the address in the desktop's browser, and does not wait for it. If the browser fails to start later, `failed`
/// gets the reason in words.
///
/// # Errors
/// The reason in words, if there is no browser.
pub fn open_browser(
    address: &str,
    failed: impl FnOnce(String) + Send + 'static,
) -> Result<Redirection, String> {
    if rustix::process::geteuid().is_root() {
        return Err("root has no browser".to_owned());
    }
    if var_os("DISPLAY").is_none() && var_os("WAYLAND_DISPLAY").is_none() {
        return Err("there is no display".to_owned());
    }
    let file = redirection(address)?;
    let mut command = Command::new("xdg-open");
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("xdg-open: {error}"))?;
    // Some browsers stay in the foreground.
    thread::spawn(move || match child.wait() {
        Ok(status) if !status.success() => failed(format!("xdg-open: {status}")),
        _ => {}
    });
    Ok(Redirection(file))
}

/// Writes a page of the user's own that leads to the address.
fn redirection(address: &str) -> Result<NamedTempFile, String> {
    let cache = cache().ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    let written = Dir::make(&cache).and_then(|_| {
        let mut file = tempfile::Builder::new().prefix("view-").suffix(".html").tempfile_in(&cache)?;
        let address = address.replace('&', "&amp;");
        write!(file, "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0; url={address}\">")?;
        Ok(file)
    });
    written.map_err(|error| format!("{}: {error}", cache.display()))
}
