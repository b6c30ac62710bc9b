//! A headless Chromium, which opens pages and evaluates scripts in them (DevTools protocol, by pipe).

use crate::Scene;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The browser reads commands from descriptor 3 and answers on 4.
const BY_PIPE: &str = r#"exec 3<&0 4>&1 </dev/null >/dev/null; exec chromium "$@""#;
/// Directory of the pictures that tests keep, for people who look at them.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/screenshots");
/// Time limit for one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser, which ends with this value.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    commanded: u64,
    errors: Vec<String>,
}

/// The form in which a browser shows a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// The width in CSS pixels.
    pub width: u32,
    /// True for a browser with the preference for dark pages.
    pub is_dark: bool,
    /// True for a page on paper.
    pub is_paper: bool,
}

/// Returns the path of a picture that is kept after the test, in `target/screenshots`.
///
/// # Panics
/// If the directory can't be made.
pub fn kept(name: &str) -> PathBuf {
    std::fs::create_dir_all(KEPT).unwrap();
    Path::new(KEPT).join(name)
}

/// A page that a browser has open, by the session of the DevTools protocol.
#[derive(Debug)]
pub struct BrowserPage(String);

impl Browser {
    /// Starts a browser with a profile of its own in the scene; `None`, reported as not measured, if there is none.
    pub fn start(scene: &Scene) -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            Scene::not_measured("chromium is not installed: no page was opened");
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-c", BY_PIPE, "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--remote-debugging-pipe", "--window-size=1400,900"]);
        command.arg(format!("--user-data-dir={}", scene.fresh("browser").display())).arg("about:blank");
        // Where it leaves a directory.
        command.env("TMPDIR", scene.path(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (commands, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, answers) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                if send.send(serde_json::from_slice(&message).expect("a message of DevTools")).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, commands, answers, commanded: 0, errors: Vec::new() })
    }

    /// Opens a page.
    ///
    /// # Panics
    /// If the browser ends, or does not answer in a minute.
    #[track_caller]
    pub fn open(&mut self, address: &str) -> BrowserPage {
        let target = self.call("Target.createTarget", &json!({ "url": address }), None);
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach, None);
        let page = BrowserPage(session["sessionId"].as_str().expect("a session").to_owned());
        // Earlier log entries are sent, too.
        for domain in ["Log.enable", "Runtime.enable"] {
            self.call(domain, &json!({}), Some(&page.0));
        }
        page
    }

    /// Evaluates an expression in the page, and returns its value; waits for a promise.
    ///
    /// # Panics
    /// If the browser ends, or does not answer in a minute.
    #[track_caller]
    pub fn evaluate(&mut self, page: &BrowserPage, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        self.call("Runtime.evaluate", &parameters, Some(&page.0))["result"]["value"].clone()
    }

    /// Evaluates an expression again and again until its value is something, and returns that.
    ///
    /// # Panics
    /// After a minute.
    #[track_caller]
    pub fn wait_for(&mut self, page: &BrowserPage, expression: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.evaluate(page, expression) {
                Value::Null => assert!(Instant::now() < end, "nothing after a minute: {expression}"),
                value => return value,
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Shows the page in another form from now on.
    ///
    /// # Panics
    /// If the browser ends, or does not answer in a minute.
    #[track_caller]
    pub fn show(&mut self, page: &BrowserPage, medium: Medium) {
        let Medium { width, is_dark, is_paper } = medium;
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &size, Some(&page.0));
        let scheme =
            json!({ "name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" } });
        let media = json!({ "media": if is_paper { "print" } else { "screen" }, "features": [scheme] });
        self.call("Emulation.setEmulatedMedia", &media, Some(&page.0));
    }

    /// Keeps a picture of the page in a file, PNG: of all of it, also of what is to be scrolled to.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn photograph(&mut self, page: &BrowserPage, file: &Path) {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", &whole, Some(&page.0));
        let mut decode = Command::new("base64");
        decode.arg("-d").stdin(Stdio::piped()).stdout(std::fs::File::create(file).unwrap());
        let mut child = decode.spawn().unwrap();
        let text = picture["data"].as_str().expect("a picture");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Returns the errors in the consoles of the pages so far, and the exceptions that their scripts did not catch.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Keeps an event of the browser's, if it is about an error.
    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => parameters["type"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(parameters.to_string());
        }
    }

    #[track_caller]
    fn call(&mut self, method: &str, parameters: &Value, session: Option<&str>) -> Value {
        self.commanded += 1;
        let mut command = json!({ "id": self.commanded, "method": method, "params": parameters });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let answer =
                self.answers.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.commanded {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
