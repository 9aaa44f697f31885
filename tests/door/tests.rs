//! What the door of lines answers: each request once with its result, and once refused.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::Method;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Semaphore;

use super::answer;
use crate::access::{Access, Evidence};
use crate::http::audit::AuditEvent;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::body::request::{Received, RequestBody};
use crate::http::exchange::request_log::{IdGenerator, RequestLogs};
use crate::http::exchange::{Exchange, RequestGuard};
use crate::http::head::client::{Client, Peer};
use crate::http::request::{RequestContext, ResponseContext, Service};
use crate::http::service_config::{ServiceConfig, UploadLimits};
use crate::log::Throttle;
use crate::store::{BodySource, Directory, Options, Prefixes, Store};

/// Requests, each with its answer, and what the audit log has of it; behind a `|` is the body. `ID` stands for what the
/// last `begin` answered.
const TALK: &[(&str, &str, &str)] = &[
    ("store a/x|one", "stored", "/a/x"),
    ("store a/x new|two", "no: precondition-failed", ""),
    ("store a/3/4/5/6/7/8/9/10|deep", "no: key-too-deep", ""),
    ("store b/sha256/none|named", "no: bad-key", ""),
    ("fetch a/x", "one", ""),
    ("fetch a/none", "no: no-such-key", ""),
    ("double a/x a/y", "it is a/y", "/a/y"),
    ("double a/x a/3/4/5/6/7/8/9/10", "no: key-too-deep", ""),
    ("double a/none a/y", "no: no-such-key", ""),
    ("rename a/y a/z", "it is a/z", "/a/y /a/z"),
    ("rename a/x a/z new", "no: precondition-failed", ""),
    ("names a/", "a/x a/z", ""),
    ("names shut/", "no: unauthenticated", ""),
    ("drop a/z", "dropped a/z", "/a/z"),
    ("drop a/z", "no: no-such-key", ""),
    ("found a/folder", "founded", "/a/folder/"),
    ("found a/x", "no: name-taken", ""),
    ("found a/3/4/5/6/7/8/9", "no: key-too-deep", ""),
    ("double-all a b/copy", "doubled 1", ""),
    ("double-all a/none b/copy", "no: no-such-folder", ""),
    (
        "rename-all b/copy b/moved",
        "all is below b/moved",
        "/b/copy/ /b/moved/",
    ),
    ("rename-all b/moved a", "no: folder-taken", ""),
    ("raze b/moved", "razed 1", "/b/moved/"),
    ("raze b/moved", "no: no-such-folder", ""),
    ("begin a/big", "ID", ""),
    ("begin shut/big", "no: unauthenticated", ""),
    ("add ID 0|first ", "add: 6 bytes", ""),
    (
        "add ID 3|second",
        "no: https://iana.org/assignments/http-problem-types#mismatching-upload-offset, Some(6)",
        "",
    ),
    ("add ID 6|second", "add: 12 bytes", ""),
    ("finish ID", "finish: 12 bytes", "/a/big"),
    ("finish ID", "no: upload-complete, Some(12)", ""),
    ("fetch a/big", "first second", ""),
    ("begin a/other", "ID", ""),
    ("forget ID", "forget: 0 bytes", "/a/other"),
    ("forget ID", "no: no-such-upload", ""),
];

/// A rule: all may be done with keys that begin with this, and nothing elsewhere.
fn rule(prefix: &str) -> String {
    let may = r#"may = ["list", "read", "create", "write", "delete"]"#;
    format!("[[rule]]\nwho = [\"anonymous\"]\nprefix = \"{prefix}\"\n{may}\n")
}

#[test]
fn another_door_says_what_the_core_does_in_its_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("access.toml");
    std::fs::write(&rules, rule("a/") + &rule("b/")).unwrap();
    let access = Arc::new(Access::read(rules).unwrap());
    let values = dir.path().join("values");
    std::fs::create_dir(&values).unwrap();
    let store = Directory::open(&values, &Options::default()).unwrap();
    let store = Arc::new(Store::Directory(Box::new(store)));
    let service = |read_only| Service {
        store: Arc::clone(&store),
        reactor: 0,
        config: ServiceConfig {
            read_only,
            store_resumes: true,
            named_by_sha256: Prefixes::new(["b/sha256/"]),
            logs: RequestLogs {
                audit: true,
                ..RequestLogs::default()
            },
            limits: UploadLimits {
                max_body: 1 << 20,
                max_key_depth: 8,
                ..UploadLimits::default()
            },
            ..ServiceConfig::default()
        },
        ids: IdGenerator::default(),
        throttle: Throttle::default(),
        directories: Arc::new(Semaphore::new(0)),
        guard: None,
        locks: None,
    };
    let [service, read_only] = [false, true].map(|read_only| Rc::new(service(read_only)));
    let principal = Rc::new(Principal {
        subject: Arc::clone(&access.policy().anonymous),
        by: AuthMethod::Nothing,
        evidence: Evidence::Nothing,
        access,
    });
    let client = Client {
        by_loopback: true,
        ..Client::of(Peer::Address(SocketAddr::from(([127, 0, 0, 1], 1))))
    };
    let request = |service: &Rc<Service>| RequestContext {
        service: Rc::clone(service),
        guard: RequestGuard::new(&Exchange::of_new_connection(), &Method::POST),
        client,
        context: ResponseContext {
            principal: Some(Rc::clone(&principal)),
            ..ResponseContext::default()
        },
        method: Method::POST,
        path: "/".into(),
        size: None,
        tokens: RefCell::default(),
    };
    // The answer to a line, and the names that the audit log has.
    let ask = async |service: &Rc<Service>, line: &str| {
        let (line, body) = line.split_once('|').unwrap_or((line, ""));
        let request = request(service);
        let record = &request.guard.exchange.record;
        record.set_entry(service.log_entry(None, client, Some(&principal)));
        let body = RequestBody::Socket(Box::new(Arrived(body.to_owned().into())));
        let mut body = Received::new(body, 1 << 20, &request.guard.exchange);
        let answer = answer(&request, line, &mut body).await;
        let audit = record.with_entry(|entry| entry.audit.take()).flatten();
        let names = audit.unwrap().events.into_iter().map(|event| match event {
            AuditEvent::Changed(path) => path.unwrap(),
            other => panic!("{other:?}"),
        });
        (answer, names.collect::<Vec<_>>().join(" "))
    };
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default());
    runtime.unwrap().block_on(async {
        let (mut id, mut wrong) = (String::new(), Vec::new());
        for (line, expected, names) in TALK {
            let line = line.replace("ID", &id);
            let is_reading = ["fetch", "names"].iter().any(|word| line.starts_with(word));
            if !is_reading && !expected.starts_with("no: ") {
                let refused = ask(&read_only, &line).await;
                if refused != ("no: read-only".to_owned(), String::new()) {
                    wrong.push(format!("{line}: {refused:?}, where nothing may be changed"));
                }
            }
            let (answer, audited) = ask(&service, &line).await;
            if *expected == "ID" {
                id = answer;
            } else if !answer.starts_with(expected) || audited != *names {
                wrong.push(format!(
                    "{line}: {answer}, {audited}, not {expected}, {names}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn the_door_is_short() {
    let lines = include_str!("mod.rs").lines().count();
    assert!(lines < 150, "{lines} lines");
}

/// A body all of which has been received with its head.
#[derive(Debug)]
struct Arrived(Bytes);

impl BodySource for Arrived {
    fn remaining(&self) -> u64 {
        self.0.len() as u64
    }

    fn take_early(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    fn poll_announce(&mut self, _: &mut Context<'_>, _: &mut Bytes) -> Poll<()> {
        Poll::Ready(())
    }

    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut BytesMut) -> Poll<Option<usize>> {
        Poll::Ready(None)
    }

    fn can_splice(&self) -> bool {
        false
    }

    fn poll_splice(
        &mut self,
        _: &mut Context<'_>,
        _: BorrowedFd<'_>,
        _: bool,
    ) -> Poll<Option<usize>> {
        Poll::Ready(None)
    }

    fn poll_discard(&mut self, _: &mut Context<'_>) -> Poll<Option<usize>> {
        Poll::Ready(None)
    }

    fn source(&self) -> Option<OwnedFd> {
        None
    }

    fn taken(&mut self, _: u64) {}
}
