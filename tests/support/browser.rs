//! A real Chromium without a window, driven over its DevTools protocol.
//!
//! Test and browser exchange JSON messages that end with a zero byte over a pair of pipes, so no
//! port is needed and the browser ends when the pipes are closed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::sandbox::Sandbox;

const TIMEOUT: Duration = Duration::from_secs(90);

/// The browser that `PACELINE_CHROMIUM` names, or the one that `cargo xtask setup` installs.
pub(crate) fn chromium() -> String {
    let browser = std::env::var("PACELINE_CHROMIUM").unwrap_or("chromium".into());
    let starts = Command::new(&browser).arg("--version").output().is_ok();
    assert!(
        starts,
        "{browser} does not start: run `cargo xtask setup`, or name a browser in PACELINE_CHROMIUM"
    );
    browser
}

/// A browser with one tab.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// Errors and warnings in the page's console.
    complaints: Vec<String>,
}

impl Browser {
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        let browser = chromium();
        // The browser expects its pipes as file descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null 2>&1", &browser]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]);
        command.args(["--no-first-run", "--disable-background-networking", "--disable-extensions"]);
        command.arg(format!("--user-data-dir={}", sandbox.path("browser").display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send, from) = channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut message = Vec::new();
            while stdout.read_until(0, &mut message).is_ok_and(|len| len > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { return };
                if send.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let to = child.stdin.take().unwrap();
        let mut browser = Self { child, to, from, session: None, next: 1, complaints: Vec::new() };
        browser.open_tab();
        browser
    }

    fn open_tab(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target);
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Runtime", "Log", "Page", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Calls a method of the protocol and waits for its result.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(mut answer) = self.from.recv_timeout(left) else {
                panic!("{method}: no answer from the browser");
            };
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.note_complaint(&answer);
        }
    }

    /// Keeps errors and warnings.
    fn note_complaint(&mut self, event: &Value) {
        let params = &event["params"];
        let is_bad = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].contains(&params["type"].as_str().unwrap_or(""))
            }
            Some("Log.entryAdded") => {
                ["error", "warning"].contains(&params["entry"]["level"].as_str().unwrap_or(""))
            }
            _ => false,
        };
        if is_bad {
            self.complaints.push(params.to_string());
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.wait_for("document.readyState === 'complete'");
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.eval(&format!("Boolean({expression})")) != true {
            let shown = self.eval("document.body?.innerText.slice(0, 2000)");
            assert!(
                Instant::now() < deadline,
                "not within {TIMEOUT:?}: {expression}\n{shown}\n{:?}",
                self.complaints
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let code = match key {
            "Tab" => 9,
            " " => 32,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code}),
            );
        }
    }

    /// Sets the window's size and the preferred colour scheme.
    pub(crate) fn set_screen(&mut self, width: u32, height: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Panics if the console has an error or a warning.
    #[track_caller]
    pub(crate) fn assert_no_complaints(&mut self) {
        self.eval("1");
        assert!(self.complaints.is_empty(), "the console says: {:#?}", self.complaints);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
