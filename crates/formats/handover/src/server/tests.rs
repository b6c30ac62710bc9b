//! A server with real sockets: its readers, and clients that would keep them out.

use super::*;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};

const TRACE: usize = 3_000_000;

/// A running server, which ends with this value.
struct Running {
    server: Arc<Server>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
    stop: Option<OwnedFd>,
    directory: tempfile::TempDir,
}

impl Running {
    fn start(has_page: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("index.html"), "<p>page").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        fs::write(directory.path().join("trace"), vec![7u8; TRACE]).unwrap();
        let trace = File::open(directory.path().join("trace")).unwrap();
        let page = has_page.then(|| Dir::open(directory.path()).unwrap());
        let server = Arc::new(Server::bind(Some(0), ServedFiles { trace, page }).unwrap());
        let runs = Arc::clone(&server);
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let thread = thread::spawn(move || runs.run(stopped.as_fd()));
        Self { server, thread: Some(thread), stop: Some(stop), directory }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.server.port())).unwrap()
    }

    /// Returns a whole head of a request.
    fn request(&self, line: &str, fields: &str) -> String {
        let (port, token) = (self.server.port(), &self.server.policy.token);
        let host =
            if fields.contains("Host:") { String::new() } else { format!("Host: 127.0.0.1:{port}\r\n") };
        format!("{} HTTP/1.1\r\n{host}{fields}\r\n", line.replace("TOKEN", token))
    }

    /// Returns the head and the body of the answer to these bytes.
    fn send(&self, request: &[u8]) -> (String, Vec<u8>) {
        let mut stream = self.connect();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer") + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).unwrap(), body)
    }

    fn ask(&self, line: &str, fields: &str) -> (String, Vec<u8>) {
        self.send(self.request(line, fields).as_bytes())
    }

    fn serves_the_trace(&self) {
        let (head, trace) = self.ask("GET /TOKEN/trace", "");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && trace == vec![7u8; TRACE], "{head}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap().unwrap();
        assert!(self.directory.path().exists());
    }
}

#[test]
fn the_page_of_its_own_and_the_trace_are_read_by_nobody_else() {
    let running = Running::start(true);
    let (head, page) = running.ask("GET /TOKEN/ui/", "");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/html"), "{head}");
    assert!(head.contains("default-src 'self'") && !head.contains("Access-Control-Allow-Origin"), "{head}");
    assert_eq!(page, b"<p>page");
    running.serves_the_trace();
    let (head, trace) = running.ask("HEAD /TOKEN/trace", "");
    assert!(head.contains("Content-Length: 3000000") && trace.is_empty(), "{head}");
    for (line, fields) in [
        ("GET /TOKEN/ui/link", ""),
        ("GET /TOKEN/ui/none", ""),
        ("GET /wrong/trace", ""),
        ("GET /TOKEN/trace", "Origin: https://ui.perfetto.dev\r\n"),
        ("GET /TOKEN/trace", "Origin: null\r\n"),
        ("GET /TOKEN/trace", "Host: attacker.example\r\n"),
        ("POST /wrong/trace", "Content-Length: 0\r\n"),
    ] {
        let (head, body) = running.ask(line, fields);
        assert!(head.starts_with("HTTP/1.1 404") && body.is_empty(), "{line} {fields}: {head}");
    }
    let (head, _) = running.ask("POST /TOKEN/trace", "Content-Length: 0\r\n");
    assert!(head.starts_with("HTTP/1.1 405") && head.contains("Allow: GET, HEAD\r\n"), "{head}");
}

#[test]
fn the_public_page_may_read_the_trace() {
    let running = Running::start(false);
    let origin = "Origin: https://ui.perfetto.dev\r\n";
    let (head, trace) = running.ask("GET /TOKEN/trace", origin);
    assert!(head.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"), "{head}");
    assert_eq!(trace.len(), TRACE);
    let (head, _) = running.ask("OPTIONS /TOKEN/trace", origin);
    assert!(head.starts_with("HTTP/1.1 204") && head.contains("Private-Network: true"), "{head}");
    assert!(!head.contains("Content-Length"), "{head}");
    assert!(running.ask("GET /TOKEN/ui/", "").0.starts_with("HTTP/1.1 404"));
    assert!(running.server.address(None).starts_with("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:"));
}

#[test]
fn clients_that_send_nothing_or_half_a_head_do_not_keep_a_reader_out() {
    let running = Running::start(true);
    let mut idle: Vec<TcpStream> = (0..4 * UNREAD_MAX).map(|_| running.connect()).collect();
    for stream in idle.iter_mut().step_by(2) {
        // Some are closed already.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nA: ");
    }
    running.serves_the_trace();
    // The connections that waited longest are closed, and no more than necessary.
    idle.last().unwrap().set_nonblocking(true).unwrap();
    assert_eq!(idle.last_mut().unwrap().read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let first = idle.first_mut().unwrap().read(&mut [0]);
    assert!(first.is_err() || first.unwrap() == 0);
}

#[test]
fn a_head_that_arrives_in_pieces_is_answered() {
    let running = Running::start(true);
    let request = running.request("GET /TOKEN/ui/", "");
    let mut stream = running.connect();
    let (begin, end) = request.split_at(request.len() - 1);
    for byte in begin.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    running.serves_the_trace();
    stream.write_all(end.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("<p>page"), "{answer}");
}

#[test]
fn huge_heads_bodies_and_garbage_are_refused() {
    let running = Running::start(true);
    let huge = running.request("GET /TOKEN/trace", &format!("A: {}\r\n", "x".repeat(4 << 20)));
    assert!(running.send(huge.as_bytes()).0.starts_with("HTTP/1.1 431"));
    let garbage: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(running.send(&garbage).0.starts_with("HTTP/1.1 400"));
    for length in ["18446744073709551615", "99999999999999999999999", "-1", "1"] {
        let fields = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n");
        assert!(running.ask("POST /TOKEN/trace", &fields).0.starts_with("HTTP/1.1 405"));
        let (head, trace) = running.ask("GET /TOKEN/trace", &fields);
        assert!(head.starts_with("HTTP/1.1 200") && trace.len() == TRACE, "{head}");
    }
    let (head, _) = running.ask("GET /TOKEN/trace", "Transfer-Encoding: chunked\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    running.serves_the_trace();
}

#[test]
fn readers_beyond_the_limit_are_refused_until_one_is_done() {
    let running = Running::start(true);
    // Each answer is larger than what the sockets' buffers hold: it is sent as long as nobody reads it.
    fs::write(running.directory.path().join("trace"), vec![7u8; 64 << 20]).unwrap();
    let slow = || {
        let mut stream = running.connect();
        stream.write_all(running.request("GET /TOKEN/trace", "").as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (stream, status)
    };
    let mut readers: Vec<_> = (0..SENDING_MAX).map(|_| slow()).collect();
    assert!(readers.iter().all(|(_, status)| status == b"HTTP/1.1 200"));
    assert_eq!(&slow().1, b"HTTP/1.1 503");
    readers.pop();
    while &slow().1 != b"HTTP/1.1 200" {}
}

#[test]
fn a_server_ends_while_clients_are_connected() {
    let running = Running::start(true);
    let idle = running.connect();
    running.serves_the_trace();
    drop(running);
    drop(idle);
}

#[test]
fn tokens_differ() {
    let (one, other) = (token().unwrap(), token().unwrap());
    assert!(one.len() == 32 && one != other);
}
