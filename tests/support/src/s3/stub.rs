//! A store in memory that does what a test tells it: for what no real server gives. It is atomic and has every
//! condition, also that of DELETE, unless it is told to lie; it fails where it is told to fail.
//!
//! It does not check signatures, only which access key and which session made them: [`VersityGw`](super::VersityGw)
//! checks the rest.

mod answer;
mod list;
mod objects;
mod parts;
mod payload;
mod read;
mod reply;

use std::net::TcpListener;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::objects::Objects;
use super::{Bucket, Keys};
use crate::eventually;
use crate::http2::RUNTIME;

/// What the store does in place of what it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Does what it is asked.
    None,
    /// Answers this status and code, with Retry-After where one is given, and does nothing.
    Refuse(u16, &'static str, Option<u64>),
    /// Answers that the bucket is in this region, and does nothing.
    Elsewhere(&'static str),
    /// Answers 200 with this body, and does nothing.
    Answer(&'static str),
    /// Does it, and answers this status.
    FailDone(u16),
    /// Does it, lets another writer replace the object, and answers this status.
    Overtake(u16),
    /// Does it twice, and answers what comes of the second: as behind what sends a request again whose answer is lost.
    Twice,
    /// Does it, and closes the connection without an answer.
    LoseDone,
    /// Closes the connection without an answer, and does nothing.
    LoseUndone,
    /// Does it, and never answers.
    StallDone,
    /// Does nothing, and never answers.
    StallUndone,
    /// Does it, and answers after this time.
    Slow(Duration),
    /// Breaks the body of the answer off after so many bytes.
    CutAt(usize),
    /// Sends so many bytes of the body of the answer, and no more.
    StallAt(usize),
}

/// A store with these faults and no others.
#[macro_export]
macro_rules! lies {
    ($($fault:ident),+) => {
        $crate::s3::Lies { $($fault: true,)+ ..$crate::s3::Lies::default() }
    };
}

/// What a store says and does not do.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fault that some store has"
)]
pub struct Lies {
    /// Writes with `If-None-Match: *` also over a value.
    pub ignores_create: bool,
    /// Writes with `If-Match` over any value.
    pub ignores_swap: bool,
    /// Removes any value with `If-Match`.
    pub ignores_delete: bool,
    /// Decides a condition of PUT, and acts some time after.
    pub races: bool,
    /// Decides the condition of a DELETE, and acts some time after.
    pub races_delete: bool,
    /// Takes trailers that do not fit the body.
    pub ignores_trailers: bool,
    /// Stores the beginning of an upload that breaks off, also where a trailer is to come.
    pub keeps_cuts: bool,
    /// Says of what was uploaded in chunks that it is encoded so.
    pub codes_chunked: bool,
    /// Leaves the entity tag out of a 304.
    pub bare_304: bool,
    /// Lists in the order of words: great and small letters are the same.
    pub lists_words: bool,
    /// Begins a list anew that is to begin after a key that is not there.
    pub forgets_absent: bool,
    /// Leaves out where a list by folder goes on after its second page.
    pub forgets_token: bool,
    /// Has a second endpoint, which answers reads with what was there before the last change.
    pub stale_second: bool,
    /// Has a second endpoint, through which writes race.
    pub races_across: bool,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// The object, with the prefix.
    pub key: String,
    pub query: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(named, value)| (named == name).then_some(value.as_str()))
    }
}

/// A store; it ends with the test.
pub struct Stub {
    pub bucket: Bucket,
    store: Arc<Store>,
    /// Connections end when it changes, each once its request is answered.
    hang_up: watch::Sender<()>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Store {
    bucket: String,
    lies: Lies,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: Objects,
    faults: Vec<Planned>,
    asked: Vec<Asked>,
    keys: Vec<Keys>,
}

#[derive(Debug)]
struct Planned {
    method: &'static str,
    key: String,
    fault: Fault,
    times: usize,
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }
}

impl Stub {
    /// A store that does all it says.
    pub fn start() -> Self {
        Self::lying(Lies::default())
    }

    /// A store with these faults.
    pub fn lying(lies: Lies) -> Self {
        let endpoints = 1 + usize::from(lies.stale_second || lies.races_across);
        let listener = |_| TcpListener::bind("127.0.0.1:0").expect("a free port");
        let listeners: Vec<_> = (0..endpoints).map(listener).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("its address");
        let keys = Keys::new(Keys::STUB, "a-secret-of-the-stub");
        let bucket = Bucket {
            endpoints: listeners.iter().map(address).collect(),
            name: "values".to_owned(),
            prefix: String::new(),
            region: "us-east-1".to_owned(),
            keys: keys.clone(),
        };
        let state = State {
            keys: vec![keys],
            ..State::default()
        };
        let store = Arc::new(Store {
            bucket: bucket.name.clone(),
            lies,
            state: Mutex::new(state),
        });
        let mut serving = JoinSet::new();
        let hang_up = watch::Sender::new(());
        for (endpoint, listener) in listeners.into_iter().enumerate() {
            let accepting = accept(listener, endpoint, Arc::clone(&store), hang_up.subscribe());
            serving.spawn_on(accepting, RUNTIME.handle());
        }
        Self {
            bucket,
            store,
            hang_up,
            _serving: serving,
        }
    }

    /// Has the next `times` requests by this method for objects whose name contains `key` fail. Of several faults that
    /// fit, the first that was told comes first.
    pub fn fail(&self, method: &'static str, key: &str, fault: Fault, times: usize) {
        self.store.state().faults.push(Planned {
            method,
            key: key.to_owned(),
            fault,
            times,
        });
    }

    /// Has one request by this method for a value fail, after so many that do not; what was told before comes before.
    pub fn fail_now_and_then(&self, method: &'static str, fault: Fault, after: usize) {
        self.fail(method, "", Fault::None, after);
        self.fail(method, "", fault, 1);
    }

    /// Has this object be there under these names too; all names are with the prefix.
    pub fn copy(&self, key: &str, names: impl Iterator<Item = String>) {
        let objects = &mut self.store.state().objects;
        let object = objects.of(key, false).expect("an object");
        for name in names {
            objects.replace(&name, Some(object.clone()));
        }
    }

    /// Has this object be of this time.
    pub fn date(&self, key: &str, time: SystemTime) {
        let objects = &mut self.store.state().objects;
        let mut object = objects.of(key, false).expect("an object").clone();
        object.modified = time;
        objects.replace(key, Some(object));
    }

    /// Closes its connections, which are idle, and returns once it has.
    pub fn hang_up(&self) {
        self.hang_up.send_replace(());
        // Each connection has a receiver, and so has each endpoint.
        let open = || self.hang_up.receiver_count() - self.bucket.endpoints.len();
        eventually("the store has closed its connections", || open() == 0);
    }

    /// No request fails any more.
    pub fn heal(&self) {
        self.store.state().faults.clear();
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.store.state().asked.clone()
    }

    /// The last so many of them.
    pub fn asked_last(&self, most: usize) -> Vec<Asked> {
        let asked = &self.store.state().asked;
        asked[asked.len().saturating_sub(most)..].to_vec()
    }

    /// The requests so far by this method for objects whose name contains `key`.
    pub fn asked_for(&self, method: &str, key: &str) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|asked| asked.method == method && asked.key.contains(key));
        asked
    }

    /// From now on, only requests with these keys are served.
    pub fn accept(&self, keys: &[Keys]) {
        self.store.state().keys = keys.to_vec();
    }
}

/// Serves what comes to one of the endpoints; the connections end with it.
async fn accept(
    listener: TcpListener,
    endpoint: usize,
    store: Arc<Store>,
    hang_up: watch::Receiver<()>,
) {
    let set = listener.set_nonblocking(true);
    set.expect("a listener that does not block");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let store = Arc::clone(&store);
        let answer = move |request| answer::answer(Arc::clone(&store), endpoint, request);
        let service = service_fn(answer);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut hang_up = hang_up.clone();
        hang_up.mark_unchanged();
        connections.spawn(async move {
            let mut connection = pin!(connection);
            let asked = pin!(hang_up.changed());
            // A lost answer is an error of the service, and a client may hang up.
            if let Either::Right(_) = select(connection.as_mut(), asked).await {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        });
    }
}
