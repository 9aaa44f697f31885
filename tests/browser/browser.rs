//! A browser window on the page, as a person uses it: what is seen, what is clicked, what is typed.
//!
//! Every wait asks again until a deadline.

use std::fmt::Display;

use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::wd::WindowHandle;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::driver::{Driver, Session};
use crate::support::prelude::*;

/// How long the page may take for what a test waits for: 100 MB, or a hundred files, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// What is at the beginning of each script.
const FINDERS: &str = "const $ = (css) => document.querySelector(css), $$ = (css) => [...document.querySelectorAll(css)];";

/// How the browser is made.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) is_phone: bool,
    pub(crate) is_dark: bool,
    /// No page runs scripts.
    pub(crate) is_plain: bool,
}

impl Shape {
    pub(crate) const DESK: Self = Self {
        is_phone: false,
        is_dark: false,
        is_plain: false,
    };

    pub(crate) const PLAIN: Self = Self {
        is_plain: true,
        ..Self::DESK
    };
}

/// The origin of what is served at `host`: over TLS, and so by HTTP/2, in a run over TLS.
pub(crate) fn origin(host: impl Display) -> String {
    format!("{}://{host}", scheme())
}

/// A browser with one window. Its methods wait for the browser, so tests need no `async`.
pub(crate) struct Browser {
    client: Client,
    session: Session,
    home: TempDir,
    runtime: Runtime,
}

/// Runs `test` with a browser, where there is one.
pub(crate) fn browse(test: impl FnOnce(&Browser)) {
    browse_as(Shape::DESK, test);
}

/// Runs `test` with a browser, and a server with these options.
pub(crate) fn browse_served(args: &[&str], test: impl FnOnce(&Browser, &TestServer)) {
    browse(|page| test(page, &TestServer::start(args)));
}

/// Runs `test` with a browser on the page of a server that has these values.
pub(crate) fn browse_keys(values: &[(&str, &str)], test: impl FnOnce(&Browser, &TestServer)) {
    browse_at("/", values, test);
}

/// The same, at this path of the page.
pub(crate) fn browse_at(
    path: &str,
    values: &[(&str, &str)],
    test: impl FnOnce(&Browser, &TestServer),
) {
    browse_served(&[], |page, server| {
        for (key, value) in values {
            server.store(key, value);
        }
        page.visit_keys(server.addr, path);
        test(page, server);
    });
}

pub(crate) fn browse_as(shape: Shape, test: impl FnOnce(&Browser)) {
    let driver = needed!(Driver::start());
    test(&Browser::open(driver, shape));
}

impl Browser {
    fn open(driver: Driver, shape: Shape) -> Self {
        let home = TempDir::new().expect("a temporary directory");
        fs::create_dir(home.path().join("downloads")).expect("a directory");
        let capabilities = capabilities(&home, shape);
        let capabilities = capabilities.as_object().expect("an object").clone();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (client, id) = runtime.block_on(async {
            let mut client = ClientBuilder::new(HttpConnector::new());
            client.capabilities(capabilities);
            let client = client.connect(&driver.url()).await.expect("a browser");
            let id = client.session_id().await.expect("a session");
            (client, id.expect("a session"))
        });
        Self {
            client,
            session: Session { driver, id },
            home,
            runtime,
        }
    }

    /// Waits for what the driver answers.
    #[track_caller]
    fn wait<T, E: Display>(&self, what: &str, asked: impl Future<Output = Result<T, E>>) -> T {
        let answer = self.runtime.block_on(asked);
        answer.unwrap_or_else(|error| panic!("{what}: {error}"))
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
    pub(crate) fn downloaded(&self, name: &str) -> Vec<u8> {
        let path = self.home.path().join("downloads").join(name);
        // A download has another name until it is complete; just before, an empty file may keep its place.
        let is_there = || fs::metadata(&path).is_ok_and(|file| file.len() > 0);
        self.until(&format!("the download of {name}"), is_there);
        fs::read(path).expect("the download")
    }

    pub(crate) fn go(&self, url: &str) {
        self.wait("the page", self.client.goto(url));
    }

    /// Goes to a path of what is served at `addr`.
    pub(crate) fn visit(&self, addr: SocketAddr, path: &str) {
        self.go(&format!("{}{path}", origin(addr)));
    }

    /// The same, and waits until the script has rows of its own in place of those of the document.
    pub(crate) fn visit_keys(&self, addr: SocketAddr, path: &str) {
        self.visit(addr, path);
        self.holds("$('#keys').ariaBusy === 'false'");
    }

    pub(crate) fn back(&self) {
        self.wait("back", self.client.back());
    }

    pub(crate) fn forward(&self) {
        self.wait("forward", self.client.forward());
    }

    pub(crate) fn reload(&self) {
        self.wait("the page again", self.client.refresh());
    }

    pub(crate) fn title(&self) -> String {
        self.wait("a title", self.client.title())
    }

    /// Where it is, below the origin.
    pub(crate) fn address(&self) -> String {
        let address = self.eval("location.pathname + location.search");
        address.as_str().expect("text").to_owned()
    }

    /// The window that is used now.
    pub(crate) fn window(&self) -> WindowHandle {
        self.wait("a window", self.client.window())
    }

    pub(crate) fn new_window(&self) -> WindowHandle {
        self.wait("a window", self.client.new_window(false)).handle
    }

    pub(crate) fn switch_to(&self, window: &WindowHandle) {
        self.wait("a window", self.client.switch_to_window(window.clone()));
    }

    pub(crate) fn set_size(&self, width: u32, height: u32) {
        self.wait("a size", self.client.set_window_size(width, height));
    }

    /// The element of this selector, once there is one.
    pub(crate) fn find(&self, css: &str) -> Element {
        let found = self.client.wait().at_most(PATIENCE);
        self.wait(css, found.for_element(Locator::Css(css)))
    }

    /// The texts of what this selector finds, as they are seen: nothing of what is hidden. `None` while the page
    /// changes.
    pub(crate) fn seen(&self, css: &str) -> Option<Vec<String>> {
        self.runtime.block_on(async {
            let mut texts = Vec::new();
            for element in self.client.find_all(Locator::Css(css)).await.ok()? {
                if element.is_displayed().await.ok()? {
                    texts.push(element.text().await.ok()?);
                }
            }
            Some(texts)
        })
    }

    pub(crate) fn click(&self, css: &str) {
        self.wait(css, self.find(css).click());
    }

    pub(crate) fn types(&self, css: &str, text: impl Display) {
        self.wait(css, self.find(css).send_keys(&text.to_string()));
    }

    /// Chooses a file for an upload, and waits until it is stored.
    pub(crate) fn upload(&self, file: &Path) {
        self.types("#files", file.display());
        self.says("#uploads-count", "1 of 1 uploaded");
    }

    /// Opens the look at the file of this name, once its row is there.
    pub(crate) fn look_at(&self, name: &str) {
        let row = "$$('#rows a[data-key]').find((it) => it.textContent === arguments[0])";
        let name = || vec![json!(name)];
        let is_there = format!("Boolean({row})");
        let is_seen = || self.eval_with(&is_there, name()) == true;
        self.until("the row is there", is_seen);
        self.eval_with(&format!("{row}.click()"), name());
    }

    /// Whether the page itself follows a click with a modifier on this link, which is the browser's to follow: another
    /// tab, another window.
    pub(crate) fn takes_a_click_with_control(&self, css: &str) -> bool {
        let click = "(() => { let isOurs = null; const look = (event) => { isOurs = event.defaultPrevented; event.preventDefault(); }; \
            window.addEventListener('click', look, { once: true }); \
            $(arguments[0]).dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey: true })); return isOurs; })()";
        let click = click.replace("arguments[0]", &json!(css).to_string());
        self.is(&click)
    }

    /// Presses these keys wherever the focus is.
    pub(crate) fn press(&self, keys: impl Display) {
        let focused = self.wait("a focus", self.client.active_element());
        self.wait("keys", focused.send_keys(&keys.to_string()));
    }

    /// Answers a question with yes by the keyboard: the focus is on what does no harm, Tab leads on, and `key` presses.
    pub(crate) fn confirm_by(&self, key: impl Display) {
        self.holds("document.activeElement.id === 'ask-no'");
        self.press(Key::Tab);
        self.press(key);
    }

    /// What an expression of JavaScript is worth in this window, where `$` finds one element by a selector and `$$`
    /// all.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.eval_with(expression, vec![])
    }

    /// Whether an expression of JavaScript is true.
    pub(crate) fn is(&self, expression: &str) -> bool {
        let value = self.eval(expression);
        let is = value.as_bool();
        is.unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    pub(crate) fn eval_with(&self, expression: &str, arguments: Vec<Value>) -> Value {
        let script = format!("{FINDERS} return ({expression});");
        self.wait(expression, self.client.execute(&script, arguments))
    }

    /// What a script gives to the function that is its last argument.
    pub(crate) fn call(&self, script: &str) -> Value {
        self.wait(script, self.client.execute_async(script, vec![]))
    }

    /// Runs a script that is no expression.
    pub(crate) fn run(&self, script: &str) {
        self.wait("a script", self.client.execute(script, vec![]));
    }

    pub(crate) fn text(&self, css: &str) -> String {
        let text = "$(arguments[0])?.textContent ?? ''";
        let text = self.eval_with(text, vec![json!(css)]);
        text.as_str().expect("text").to_owned()
    }

    /// The keys in the table, as they are shown; `None` before the scripts have read them, and while they do.
    pub(crate) fn keys(&self) -> Option<Vec<String>> {
        let keys = "$('#keys').ariaBusy === 'false' ? $$('#rows .key').map((key) => key.textContent) : null";
        let keys = self.eval(keys);
        serde_json::from_value(keys).expect("texts")
    }

    /// Waits until the table shows exactly these keys.
    pub(crate) fn shows(&self, expected: &[&str]) {
        self.until(&format!("the keys are {expected:?}"), || {
            self.keys().is_some_and(|keys| keys == expected)
        });
    }

    /// Waits until the text of an element contains this.
    pub(crate) fn says(&self, css: &str, part: &str) {
        let says = || self.text(css).contains(part);
        self.until(&format!("{css} says {part:?}"), says);
    }

    /// Waits until an expression is true.
    pub(crate) fn holds(&self, expression: &str) {
        self.until(expression, || self.eval(expression) == true);
    }

    /// Asks again and again, because a condition may concern files, or outlive a page and the scripts in it.
    pub(crate) fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        if within(PATIENCE, holds) {
            return;
        }
        let seen = "(document.body ?? document.documentElement).innerText ?? document.title";
        let seen = self.eval(seen);
        panic!("not within {PATIENCE:?}: {what}\nthe page shows: {seen}");
    }

    /// What the console says that is no failed request: faults of scripts, and breaches of the policy.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut log = self.console();
        log.retain(|line| !line.starts_with("\"network\""));
        log.retain(|line| !line.contains("WebSocket connection to"));
        log
    }

    /// What the console says since it was asked last.
    pub(crate) fn console(&self) -> Vec<String> {
        let path = format!("/session/{}/se/log", self.session.id);
        let log = self.post(&path, &json!({"type": "browser"}));
        let lines = log.as_array().expect("a log").iter();
        let told = lines.map(|line| format!("{}: {}", line["source"], line["message"]));
        told.collect()
    }

    /// What a command of the `DevTools` protocol answers.
    pub(crate) fn devtools(&self, command: &str) -> Value {
        self.devtools_with(command, &json!({}))
    }

    pub(crate) fn devtools_with(&self, command: &str, parameters: &Value) -> Value {
        let path = format!("/session/{}/goog/cdp/execute", self.session.id);
        let command = json!({"cmd": command, "params": parameters});
        self.post(&path, &command)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.runtime.block_on(self.session.driver.post(path, body))
    }

    /// A picture of the window, kept beside the build to be looked at.
    pub(crate) fn picture(&self, name: &str) {
        let png = self.wait("a picture", self.client.screenshot());
        assert!(png.starts_with(b"\x89PNG"), "no picture");
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pictures");
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(name), png).expect("a picture");
    }
}

fn capabilities(home: &TempDir, shape: Shape) -> Value {
    let dir = |name: &str| home.path().join(name).display().to_string();
    // Nothing but this machine is asked for anything.
    let names =
        "--host-resolver-rules=MAP plain.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1";
    let profile = format!("--user-data-dir={}", dir("profile"));
    let mut args = words(
        "--headless=new --disable-gpu --disable-dev-shm-usage --disable-background-networking \
         --disable-component-update --no-first-run --hide-scrollbars --window-size=1280,900",
    );
    args.extend([names, &profile]);
    let is_root = rustix::process::geteuid().is_root();
    args.extend(is_root.then_some("--no-sandbox"));
    let dark = "--blink-settings=preferredColorScheme=0";
    args.extend(shape.is_dark.then_some(dark));
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
