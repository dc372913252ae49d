//! Headless Chromium, controlled over the DevTools protocol.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// The names of its program on different systems.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser with one page.
pub(crate) struct Chrome {
    process: Child,
    page: WebSocket<TcpStream>,
    number: u64,
    /// Errors that the page has logged.
    pub(crate) complaints: Vec<String>,
}

impl Chrome {
    /// Starts a browser, if this machine has one.
    pub(crate) fn start(directory: &Path) -> Option<Self> {
        let mut process = PROGRAMS.iter().find_map(|program| spawn(program, directory))?;
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listens = "DevTools listening on ws://";
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with(listens));
        let line = line.expect("the browser ended before it listened");
        // Reads its output to the end, since the browser blocks when the pipe is full.
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

    /// Sends a command and waits for the response.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let request = json!({ "id": self.number, "method": method, "params": params });
        self.page.send(Message::text(request.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.page.read().unwrap() else { continue };
            let mut message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == self.number {
                // Navigation cancels the command. Callers that wait for a condition repeat it.
                let was_cancelled = message["error"]["message"] == "Inspected target navigated or closed";
                assert!(message["error"].is_null() || was_cancelled, "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.listen(&message);
        }
    }

    fn listen(&mut self, message: &Value) {
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => message["params"]["exceptionDetails"].to_string(),
            // One of the tests stops the server on purpose.
            Some("Log.entryAdded") if message["params"]["entry"]["source"] != "network" => {
                message["params"]["entry"].to_string()
            }
            _ => return,
        };
        self.complaints.push(complaint);
    }

    /// Evaluates an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Navigates to an address.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Sets the size of the window and the colour scheme.
    pub(crate) fn window(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Sends a key press.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" { "\r" } else { "" };
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Writes a screenshot of the whole page.
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
