//! The socket, the files and the answers.

use crate::page::{Shown, address};
use crate::policy::{AccessRules, Answer, HttpRefusal, Method, PageRequest};
use crate::{HandoverError, PUBLIC_PAGE, PUBLIC_PORT};
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_dirfd::Dir;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tiny_http::{Header, Request, Response, StatusCode};

/// The most answers that are sent at the same time; more requests are refused.
const MOST: usize = 32;
/// Rules for the viewer's page: it loads nothing from other hosts, and sends nothing there.
const CONTAINED: &str = "default-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:; \
                         form-action 'none'; base-uri 'self'; frame-ancestors 'none'";

/// The files that are served.
#[derive(Debug)]
pub struct ServedFiles {
    /// The trace, which is read from its begin.
    pub trace: File,
    /// The directory of the viewer's page; `None` if its public page shows the trace.
    pub page: Option<Dir>,
}

/// A server on the loopback address.
pub struct Server {
    http: Arc<tiny_http::Server>,
    policy: AccessRules,
    content: Arc<ServedFiles>,
}

/// Ends a server, from any thread.
#[derive(Clone)]
pub struct Stopper(Arc<tiny_http::Server>);

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}

/// Leaves out the token.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("port", &self.policy.port).finish_non_exhaustive()
    }
}

impl Stopper {
    /// Makes [`Server::run`] return soon.
    pub fn stop(&self) {
        self.0.unblock();
    }
}

impl Server {
    /// Binds a port of the loopback address: this one, or the one that the public page needs, or, with a page of the
    /// server's own, any free one.
    ///
    /// # Errors
    /// [`HandoverError::Taken`] if another program has the port; the kernel's error otherwise.
    pub fn bind(port: Option<u16>, content: ServedFiles) -> Result<Self, HandoverError> {
        let has_page = content.page.is_some();
        let port = port.unwrap_or(if has_page { 0 } else { PUBLIC_PORT });
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => HandoverError::Taken(port),
                _ => error.into(),
            })?;
        let port = listener.local_addr()?.port();
        let http = tiny_http::Server::from_listener(listener, None).map_err(io::Error::other)?;
        Ok(Self {
            http: Arc::new(http),
            policy: AccessRules { token: token()?, port, has_page },
            content: Arc::new(content),
        })
    }

    /// Returns the port on the loopback address.
    pub const fn port(&self) -> u16 {
        self.policy.port
    }

    /// Returns the address that a browser is to open, which contains the secret token.
    pub fn address(&self, shown: Option<Shown>) -> String {
        let AccessRules { token, port, has_page } = &self.policy;
        let own = format!("http://127.0.0.1:{port}/{token}");
        let page = if *has_page { format!("{own}/ui") } else { PUBLIC_PAGE.to_owned() };
        address(&page, &format!("{own}/trace"), shown)
    }

    /// Returns a handle that ends the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.http))
    }

    /// Answers requests until the server is stopped. Answers that are being sent then are not waited for.
    ///
    /// # Errors
    /// The kernel's error, if no connection can be accepted.
    pub fn run(&self) -> io::Result<()> {
        let sending = Arc::new(AtomicUsize::new(0));
        loop {
            // A stopped server reports an error without a cause.
            let request = match self.http.recv() {
                Ok(request) => request,
                Err(error) if error.raw_os_error().is_none() => return Ok(()),
                Err(error) => return Err(error),
            };
            let answer = self.policy.answer(asked(&request));
            let is_crowded = sending.fetch_add(1, Ordering::Relaxed) >= MOST;
            let answer = if is_crowded { Err(503) } else { answer.map_err(HttpRefusal::status) };
            let (content, reader) = (Arc::clone(&self.content), self.policy.reader());
            let done = Arc::clone(&sending);
            let send = move || {
                // A client that went away needs no answer.
                let _ = respond(request, answer, &content, reader);
                done.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().name("sordino-answer".to_owned()).spawn(send).is_err() {
                sending.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Opens the directory of a page.
///
/// # Errors
/// [`HandoverError::NoPage`] if it can't be opened, or has no `index.html`.
pub fn open_page(directory: &Path) -> Result<Dir, HandoverError> {
    let no_page = |reason: String| HandoverError::NoPage { directory: directory.to_owned(), reason };
    let dir = Dir::open(directory).map_err(|error| no_page(error.to_string()))?;
    dir.read("index.html").map_err(|error| no_page(format!("index.html: {error}")))?;
    Ok(dir)
}

/// Returns 128 random bits as text.
fn token() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn asked(request: &Request) -> PageRequest<'_> {
    let method = match request.method() {
        tiny_http::Method::Get => Method::Get,
        tiny_http::Method::Head => Method::Head,
        tiny_http::Method::Options => Method::Options,
        _ => Method::Other,
    };
    let field = |name: &'static str| {
        let mut values = request.headers().iter().filter(|header| header.field.equiv(name));
        let first = values.next().map(|header| header.value.as_str());
        // Two values contradict each other.
        if values.next().is_some() { Some("") } else { first }
    };
    PageRequest { method, target: request.url(), host: field("Host"), origin: field("Origin") }
}

/// Sends the answer, and lets pages of origin `reader` read it.
fn respond(
    request: Request,
    answer: Result<Answer, u16>,
    content: &ServedFiles,
    reader: Option<&'static str>,
) -> io::Result<()> {
    let found = match answer {
        Ok(Answer::Trace) => body(&content.trace, "application/octet-stream", "no-store"),
        Ok(Answer::File(names)) => page_file(content, &names),
        Ok(Answer::Permission) => Ok(Body::none(204)),
        Err(status) => Ok(Body::none(status)),
    };
    let Body { status, kind, cache, length, reader: bytes } = found.unwrap_or_else(|_| Body::none(404));
    let mut fields = vec![
        ("Content-Type", kind),
        ("Cache-Control", cache),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Content-Security-Policy", CONTAINED),
    ];
    if let Some(origin) = reader.filter(|_| status < 300) {
        fields.extend([
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Private-Network", "true"),
            ("Vary", "Origin"),
        ]);
    }
    let headers =
        fields.into_iter().filter_map(|(name, value)| Header::from_bytes(name, value).ok()).collect();
    let response = Response::new(StatusCode(status), headers, bytes, Some(length), None);
    request.respond(response.with_chunked_threshold(usize::MAX))
}

/// The content of an answer.
struct Body {
    status: u16,
    kind: &'static str,
    cache: &'static str,
    length: usize,
    reader: FromBegin,
}

impl Body {
    const fn none(status: u16) -> Self {
        Self {
            status,
            kind: "text/plain",
            cache: "no-store",
            length: 0,
            reader: FromBegin { file: None, at: 0, end: 0 },
        }
    }
}

fn page_file(content: &ServedFiles, names: &[String]) -> io::Result<Body> {
    let page = content.page.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let path: PathBuf = names.iter().collect();
    body(&page.read(&path)?, kind(names.last().map_or("", String::as_str)), "no-cache")
}

fn body(file: &File, kind: &'static str, cache: &'static str) -> io::Result<Body> {
    let end = file.metadata()?.len();
    let length = usize::try_from(end).map_err(io::Error::other)?;
    Ok(Body {
        status: 200,
        kind,
        cache,
        length,
        reader: FromBegin { file: Some(file.try_clone()?), at: 0, end },
    })
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

/// A reader of a file from its begin, whose position is its own: several answers read one file.
struct FromBegin {
    file: Option<File>,
    at: u64,
    /// The end at the time when the length was sent: what is appended later is left out.
    end: u64,
}

impl Read for FromBegin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &self.file else { return Ok(0) };
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = file.read_at(&mut buffer[..left], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::net::TcpStream;

    /// A running server, which ends with this value.
    struct Running {
        server: Arc<Server>,
        thread: Option<thread::JoinHandle<io::Result<()>>>,
        directory: tempfile::TempDir,
    }

    impl Running {
        fn start(has_page: bool) -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("index.html"), "<p>page").unwrap();
            std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
            fs::write(directory.path().join("trace"), vec![7u8; 3_000_000]).unwrap();
            let trace = File::open(directory.path().join("trace")).unwrap();
            let page = has_page.then(|| Dir::open(directory.path()).unwrap());
            let server = Arc::new(Server::bind(Some(0), ServedFiles { trace, page }).unwrap());
            let runs = Arc::clone(&server);
            Self { server, thread: Some(thread::spawn(move || runs.run())), directory }
        }

        /// Returns the head and the body of the answer.
        fn ask(&self, line: &str, fields: &str) -> (String, Vec<u8>) {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port())).unwrap();
            let (port, token) = (self.server.port(), &self.server.policy.token);
            let line = line.replace("TOKEN", token);
            let request =
                format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{fields}\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            let body = answer.split_off(end);
            (String::from_utf8(answer).unwrap(), body)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.server.stopper().stop();
            self.thread.take().unwrap().join().unwrap().unwrap();
            assert!(self.directory.path().exists());
        }
    }

    #[test]
    fn the_page_of_its_own_and_the_trace_are_read_by_nobody_else() {
        let running = Running::start(true);
        let (head, page) = running.ask("GET /TOKEN/ui/", "");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/html"), "{head}");
        assert!(
            head.contains("default-src 'self'") && !head.contains("Access-Control-Allow-Origin"),
            "{head}"
        );
        assert_eq!(page, b"<p>page");
        let (head, trace) = running.ask("GET /TOKEN/trace", "");
        assert!(head.contains("200") && trace == vec![7u8; 3_000_000], "{head}");
        let (head, trace) = running.ask("HEAD /TOKEN/trace", "");
        assert!(head.contains("Content-Length: 3000000") && trace.is_empty(), "{head}");
        for (line, fields) in [
            ("GET /TOKEN/ui/link", ""),
            ("GET /TOKEN/ui/none", ""),
            ("GET /wrong/trace", ""),
            ("GET /TOKEN/trace", "Origin: https://ui.perfetto.dev\r\n"),
            ("GET /TOKEN/trace", "Host: attacker.example\r\n"),
        ] {
            let (head, body) = running.ask(line, fields);
            assert!(head.starts_with("HTTP/1.1 404") && body.is_empty(), "{line} {fields}: {head}");
        }
        assert!(running.ask("POST /TOKEN/trace", "Content-Length: 0\r\n").0.starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn the_public_page_may_read_the_trace() {
        let running = Running::start(false);
        let origin = "Origin: https://ui.perfetto.dev\r\n";
        let (head, trace) = running.ask("GET /TOKEN/trace", origin);
        assert!(head.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"), "{head}");
        assert_eq!(trace.len(), 3_000_000);
        let (head, _) = running.ask("OPTIONS /TOKEN/trace", origin);
        assert!(head.starts_with("HTTP/1.1 204") && head.contains("Private-Network: true"), "{head}");
        assert!(running.ask("GET /TOKEN/ui/", "").0.starts_with("HTTP/1.1 404"));
        assert!(
            running.server.address(None).starts_with("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:")
        );
    }

    #[test]
    fn tokens_differ() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one.len() == 32 && one != other);
    }
}
