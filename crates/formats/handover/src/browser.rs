//! The browser of the desktop, which opens a page.

use std::env::var_os;
use std::process::{Command, Stdio};
use std::thread;

/// Opens the address in the desktop's browser, and does not wait for it.
///
/// # Errors
/// The reason in words, if there is no browser to do it.
pub fn open_browser(address: &str) -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        return Err("root has no browser".to_owned());
    }
    if var_os("DISPLAY").is_none() && var_os("WAYLAND_DISPLAY").is_none() {
        return Err("there is no display".to_owned());
    }
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("xdg-open: {error}"))?;
    // Some browsers stay in the foreground.
    thread::spawn(move || child.wait());
    Ok(())
}
