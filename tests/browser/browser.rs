//! A browser window on the page, as a person uses it: what is seen, what is clicked, what is typed.
//!
//! Every wait asks again until a deadline.

use std::fmt::Display;

use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::driver::{Driver, Session};
use crate::support::prelude::*;

/// How long the page may take for what a test waits for: 100 MB, or a hundred files, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// How the browser is made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shape {
    pub(crate) is_phone: bool,
    pub(crate) is_dark: bool,
    /// No page runs scripts.
    pub(crate) is_plain: bool,
}

/// The origin of what is served at `host`: over TLS, and so by HTTP/2, in a run over TLS.
pub(crate) fn origin(host: impl Display) -> String {
    format!("{}://{host}", scheme())
}

/// A browser with one window.
pub(crate) struct Browser {
    pub(crate) client: Client,
    session: Session,
    home: TempDir,
}

/// Runs `test` with a browser, where there is one.
pub(crate) fn browse(test: impl AsyncFnOnce(&Browser)) {
    browse_as(Shape::default(), test);
}

pub(crate) fn browse_as(shape: Shape, test: impl AsyncFnOnce(&Browser)) {
    let driver = needed!(Driver::start());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let browser = Browser::open(driver, shape).await;
        test(&browser).await;
    });
}

impl Browser {
    async fn open(driver: Driver, shape: Shape) -> Self {
        let home = TempDir::new().expect("a temporary directory");
        fs::create_dir(home.path().join("downloads")).expect("a directory");
        let capabilities = capabilities(&home, shape);
        let capabilities = capabilities.as_object().expect("an object").clone();
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&driver.url())
            .await
            .expect("a browser");
        let id = client.session_id().await.expect("a session");
        let id = id.expect("a session");
        Self {
            client,
            session: Session { driver, id },
            home,
        }
    }

    /// A file for the browser to upload.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, content).expect("a file");
        path
    }

    /// A folder for the browser to upload, with a file for each of these paths, which holds its path.
    pub(crate) fn folder(&self, name: &str, paths: &[&str]) -> PathBuf {
        let folder = self.home.path().join(name);
        for path in paths {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, path).expect("a file");
        }
        folder
    }

    /// The file that was downloaded under this name, once it is complete.
    pub(crate) async fn downloaded(&self, name: &str) -> Vec<u8> {
        let path = self.home.path().join("downloads").join(name);
        // A download has another name until it is complete; just before, an empty file may keep its place.
        let is_there = async || fs::metadata(&path).is_ok_and(|file| file.len() > 0);
        self.until(&format!("the download of {name}"), is_there)
            .await;
        fs::read(path).expect("the download")
    }

    pub(crate) async fn go(&self, url: &str) {
        self.client.goto(url).await.expect("the page");
    }

    /// Goes to a path of what is served at `addr`.
    pub(crate) async fn visit(&self, addr: SocketAddr, path: &str) {
        self.go(&format!("{}{path}", origin(addr))).await;
    }

    /// The same, and waits until the script has rows of its own in place of those of the document.
    pub(crate) async fn visit_keys(&self, addr: SocketAddr, path: &str) {
        self.visit(addr, path).await;
        self.until_true("document.getElementById('keys').ariaBusy === 'false'")
            .await;
    }

    /// The element of this selector, once there is one.
    pub(crate) async fn find(&self, css: &str) -> Element {
        let found = self.client.wait().at_most(PATIENCE);
        let found = found.for_element(Locator::Css(css)).await;
        found.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    pub(crate) async fn click(&self, css: &str) {
        let element = self.find(css).await;
        element.click().await.expect(css);
    }

    pub(crate) async fn type_into(&self, css: &str, text: &str) {
        let element = self.find(css).await;
        element.send_keys(text).await.expect(css);
    }

    /// Chooses a file for an upload, and waits until it is stored.
    pub(crate) async fn upload(&self, file: &Path) {
        self.type_into("#files", &file.display().to_string()).await;
        self.until_text("#uploads-count", "1 of 1 uploaded").await;
    }

    /// Presses these keys wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let focused = self.client.active_element().await.expect("a focus");
        focused.send_keys(keys).await.expect("keys");
    }

    /// Answers a question with yes by the keyboard: the focus is on what does no harm, Tab leads on, and `key` presses.
    pub(crate) async fn confirm_by(&self, key: &str) {
        self.until_true("document.activeElement.id === 'ask-no'")
            .await;
        self.press(&Key::Tab.to_string()).await;
        self.press(key).await;
    }

    /// What an expression of JavaScript is worth in this window.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        self.eval_with(expression, vec![]).await
    }

    pub(crate) async fn eval_with(&self, expression: &str, arguments: Vec<Value>) -> Value {
        let script = format!("return ({expression});");
        let value = self.client.execute(&script, arguments).await;
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    pub(crate) async fn text(&self, css: &str) -> String {
        let text = "document.querySelector(arguments[0])?.textContent ?? ''";
        let text = self.eval_with(text, vec![json!(css)]).await;
        text.as_str().expect("text").to_owned()
    }

    /// The keys in the table, as they are shown; `None` before the scripts have read them, and while they do.
    pub(crate) async fn keys(&self) -> Option<Vec<String>> {
        let keys = "document.getElementById('keys').ariaBusy === 'false' \
                    ? [...document.querySelectorAll('#rows .key')].map((key) => key.textContent) : null";
        let keys = self.eval(keys).await;
        serde_json::from_value(keys).expect("texts")
    }

    /// Waits until the table shows exactly these keys.
    pub(crate) async fn until_keys(&self, expected: &[&str]) {
        self.until(&format!("the keys are {expected:?}"), async || {
            self.keys().await.is_some_and(|keys| keys == expected)
        })
        .await;
    }

    /// Waits until the text of an element contains this.
    pub(crate) async fn until_text(&self, css: &str, part: &str) {
        self.until(&format!("{css} says {part:?}"), async || {
            self.text(css).await.contains(part)
        })
        .await;
    }

    /// Waits until an expression is true.
    pub(crate) async fn until_true(&self, expression: &str) {
        self.until(expression, async || self.eval(expression).await == true)
            .await;
    }

    /// Asks again and again, because a condition may concern files, or outlive a page and the scripts in it.
    pub(crate) async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds().await {
            if Instant::now() >= deadline {
                let seen = self
                    .eval("(document.body ?? document.documentElement).innerText ?? document.title")
                    .await;
                panic!("not within {PATIENCE:?}: {what}\nthe page shows: {seen}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await; // the pace of the questions: pages and files tell nobody
        }
    }

    /// What the console says that is no failed request: faults of scripts, and breaches of the policy.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.console().await;
        log.into_iter()
            .filter(|line| !line.starts_with("\"network\""))
            .filter(|line| !line.contains("WebSocket connection to"))
            .collect()
    }

    /// What the console says since it was asked last.
    pub(crate) async fn console(&self) -> Vec<String> {
        let path = format!("/session/{}/se/log", self.session.id);
        let kind = json!({"type": "browser"});
        let log = self.session.driver.post(&path, &kind).await;
        let lines = log.as_array().expect("a log").iter();
        lines
            .map(|line| format!("{}: {}", line["source"], line["message"]))
            .collect()
    }

    /// What a command of the `DevTools` protocol answers.
    pub(crate) async fn devtools(&self, command: &str) -> Value {
        self.devtools_with(command, json!({})).await
    }

    pub(crate) async fn devtools_with(&self, command: &str, parameters: Value) -> Value {
        let path = format!("/session/{}/goog/cdp/execute", self.session.id);
        let command = json!({"cmd": command, "params": parameters});
        self.session.driver.post(&path, &command).await
    }

    /// A picture of the window, kept beside the build to be looked at.
    pub(crate) async fn picture(&self, name: &str) {
        let png = self.client.screenshot().await.expect("a picture");
        assert!(png.starts_with(b"\x89PNG"), "no picture");
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pictures");
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(name), png).expect("a picture");
    }
}

fn capabilities(home: &TempDir, shape: Shape) -> Value {
    let dir = |name: &str| home.path().join(name).display().to_string();
    let mut args = vec![
        "--headless=new".to_owned(),
        "--disable-gpu".into(),
        "--disable-dev-shm-usage".into(),
        "--disable-background-networking".into(),
        "--disable-component-update".into(),
        "--no-first-run".into(),
        "--hide-scrollbars".into(),
        "--window-size=1280,900".into(),
        // Nothing but this machine is asked for anything.
        "--host-resolver-rules=MAP plain.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
            .into(),
        format!("--user-data-dir={}", dir("profile")),
    ];
    if rustix::process::geteuid().is_root() {
        args.push("--no-sandbox".into());
    }
    if shape.is_dark {
        args.push("--blink-settings=preferredColorScheme=0".into());
    }
    let mut options = json!({
        "args": args,
        "prefs": {
            "download.default_directory": dir("downloads"),
            "download.prompt_for_download": false,
            // As one answers who is asked whether a page may download several files.
            "profile.default_content_setting_values.automatic_downloads": 1,
        },
    });
    if shape.is_plain {
        options["prefs"]["profile.managed_default_content_settings.javascript"] = json!(2);
    }
    if shape.is_phone {
        let metrics = json!({"width": 390, "height": 844, "pixelRatio": 2, "touch": true});
        options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
    }
    json!({
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL"},
        "unhandledPromptBehavior": "accept",
        // The certificate of the run is of no issuer that it knows.
        "acceptInsecureCerts": true,
    })
}
