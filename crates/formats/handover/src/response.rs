//! The responses of the server: their heads, and the files that they send.

use crate::policy::{Answer, HttpRefusal};
use sordino_dirfd::Dir;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Content security policy for the viewer's page: it loads nothing from other hosts, and sends nothing there.
const CONTAINED: &str = "default-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:; \
                         form-action 'none'; base-uri 'self'; frame-ancestors 'none'";
/// Size of the portions in which files are sent, in bytes.
const PORTION: usize = 64 << 10;

/// The files that are served.
#[derive(Debug)]
pub struct ServedFiles {
    /// The trace, which is read from its begin.
    pub trace: File,
    /// The directory of the viewer's page; `None` if its public page shows the trace.
    pub page: Option<Dir>,
}

/// A response before it is sent.
pub(crate) struct Response {
    status: u16,
    kind: &'static str,
    cache: &'static str,
    /// The file with the body, and its length at the time of the request: bytes that are appended later are left out.
    body: Option<(File, u64)>,
}

impl Response {
    /// Returns the response to a request that the rules allow.
    pub(crate) fn of(answer: &Answer, content: &ServedFiles) -> Self {
        let found = match answer {
            Answer::Trace => content
                .trace
                .try_clone()
                .and_then(|file| Self::file(file, "application/octet-stream", "no-store")),
            Answer::File(names) => page_file(content, names),
            Answer::Permission => Ok(Self::empty(204)),
        };
        found.unwrap_or_else(|_| Self::refusal(HttpRefusal::NotFound))
    }

    /// Returns the response without content to a request that is refused.
    pub(crate) const fn refusal(refusal: HttpRefusal) -> Self {
        Self::empty(refusal.status())
    }

    const fn empty(status: u16) -> Self {
        Self { status, kind: "text/plain", cache: "no-store", body: None }
    }

    fn file(file: File, kind: &'static str, cache: &'static str) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { status: 200, kind, cache, body: Some((file, length)) })
    }

    /// Returns the head, by which pages of origin `reader` may read the response.
    pub(crate) fn head(&self, reader: Option<&'static str>) -> String {
        let Self { status, kind, cache, body } = self;
        let mut head = format!(
            "HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: {kind}\r\nCache-Control: {cache}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: {CONTAINED}\r\n",
            reason = reason(*status),
        );
        // A write to a string can't fail.
        if *status != 204 {
            let length = body.as_ref().map_or(0, |(_, length)| *length);
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        if *status == 405 {
            head.push_str("Allow: GET, HEAD\r\n");
        }
        if let Some(origin) = reader.filter(|_| *status < 300) {
            let _ = write!(
                head,
                "Access-Control-Allow-Origin: {origin}\r\nAccess-Control-Allow-Private-Network: true\r\nVary: Origin\r\n"
            );
        }
        head + "\r\n"
    }

    /// Sends the body, if there is one.
    ///
    /// # Errors
    /// The client closed the connection, or received nothing until the socket's timeout; `UnexpectedEof` if the file
    /// was truncated.
    pub(crate) fn send_body(&self, to: &mut impl Write) -> io::Result<()> {
        let Some((file, length)) = &self.body else { return Ok(()) };
        let (mut portion, mut at) = (vec![0; PORTION], 0);
        while at < *length {
            let length_now = usize::try_from(*length - at).unwrap_or(PORTION).min(PORTION);
            file.read_exact_at(&mut portion[..length_now], at)?;
            to.write_all(&portion[..length_now])?;
            at += length_now as u64;
        }
        Ok(())
    }
}

fn page_file(content: &ServedFiles, names: &[String]) -> io::Result<Response> {
    let page = content.page.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let path: PathBuf = names.iter().collect();
    Response::file(page.read(&path)?, kind(names.last().map_or("", String::as_str)), "no-cache")
}

/// Returns the phrase that stands behind a status code.
const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Not Found",
    }
}

/// Returns the media type of a file by its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
