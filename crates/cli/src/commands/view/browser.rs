//! The browser that shows a page, and what the user reads about it.

use sordino_sched::is_root;
use std::env::var_os;
use std::process::{Command, Stdio};
use std::thread;

/// Opens the address in the user's browser if `is_wanted`, and says what to do if it can't.
pub(super) fn open(address: &str, is_wanted: bool, has_page: bool, port: u16) {
    let obstacle = is_wanted.then(|| obstacle(address)).flatten();
    match (is_wanted, obstacle) {
        (true, None) => message!("sordino: the browser opens this address; Ctrl-C ends the server"),
        (true, Some(reason)) => {
            message!(
                "sordino: {reason}: open the address in a browser of this machine; Ctrl-C ends the server"
            );
        }
        (false, _) => {
            message!("sordino: open the address in a browser of this machine; Ctrl-C ends the server")
        }
    }
    if var_os("SSH_CONNECTION").is_some() {
        message!(
            "sordino: in a browser of another machine, forward the port first: ssh -L {port}:127.0.0.1:{port} HOST"
        );
    }
    if !has_page {
        message!(
            "sordino: the page comes from ui.perfetto.dev; without a network: sordino view --fetch-ui, or --ui DIR"
        );
    }
}

/// Opens the address. Returns the reason if there is no browser to do it.
fn obstacle(address: &str) -> Option<String> {
    if is_root() {
        return Some("root has no browser".to_owned());
    }
    if var_os("DISPLAY").is_none() && var_os("WAYLAND_DISPLAY").is_none() {
        return Some("there is no display".to_owned());
    }
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => {
            // Some browsers stay in the foreground.
            thread::spawn(move || child.wait());
            None
        }
        Err(error) => Some(format!("xdg-open: {error}")),
    }
}
