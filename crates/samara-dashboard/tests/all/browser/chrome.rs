//! Chromium without a window, over the DevTools protocol.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// The names that it has on different systems.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser with one page.
pub(crate) struct Chrome {
    process: Child,
    page: WebSocket<TcpStream>,
    number: u64,
    /// What the page has complained of.
    pub(crate) complaints: Vec<String>,
}

impl Chrome {
    /// Starts it, if there is one on this machine.
    pub(crate) fn start(directory: &Path) -> Option<Self> {
        let mut process = PROGRAMS.iter().find_map(|program| spawn(program, directory))?;
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listens = "DevTools listening on ws://";
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with(listens));
        let line = line.expect("the browser ended before it listened");
        // Whoever does not read on lets the browser wait for its own messages.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line[listens.len()..].split('/').next().unwrap().to_owned();
        let pages =
            ureq::get(format!("http://{address}/json/list")).call().unwrap().body_mut().read_to_string();
        let pages: Value = serde_json::from_str(&pages.unwrap()).unwrap();
        let page = pages.as_array().unwrap().iter().find(|page| page["type"] == "page").unwrap();
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (page, _) = tungstenite::client(page["webSocketDebuggerUrl"].as_str().unwrap(), stream).unwrap();
        let mut chrome = Self { process, page, number: 0, complaints: Vec::new() };
        for domain in ["Page", "Runtime", "Log"] {
            chrome.call(&format!("{domain}.enable"), json!({}));
        }
        Some(chrome)
    }

    /// Asks for something, and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let asked = json!({ "id": self.number, "method": method, "params": params });
        self.page.send(Message::text(asked.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.page.read().unwrap() else { continue };
            let mut told: Value = serde_json::from_str(&text).unwrap();
            if told["id"] == self.number {
                // A page that was left in between has no answer: whoever waits for something asks the next one.
                let was_left = told["error"]["message"] == "Inspected target navigated or closed";
                assert!(told["error"].is_null() || was_left, "{method}: {}", told["error"]);
                return told["result"].take();
            }
            self.listen(&told);
        }
    }

    fn listen(&mut self, told: &Value) {
        let complaint = match told["method"].as_str() {
            Some("Runtime.exceptionThrown") => told["params"]["exceptionDetails"].to_string(),
            // A server that is away is the point of one of the tests.
            Some("Log.entryAdded") if told["params"]["entry"]["source"] != "network" => {
                told["params"]["entry"].to_string()
            }
            _ => return,
        };
        self.complaints.push(complaint);
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Opens an address.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// A window of this size, light or dark.
    pub(crate) fn window(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" { "\r" } else { "" };
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the whole page.
    pub(crate) fn picture(&mut self, path: &Path) {
        let taken = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let data = base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(program: &str, directory: &Path) -> Option<Child> {
    Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
        .args(["--remote-debugging-port=0", "about:blank"])
        .arg(format!("--user-data-dir={}", directory.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()
}
