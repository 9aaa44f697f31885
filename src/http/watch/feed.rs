//! Subscribers, which get changes as they are acknowledged, in the order of publishing.
//!
//! A [`Subscription`] is a position in the store's changes and a prefix; it has no queue. Changes stay in the store,
//! once for all subscribers, and one that finds them gone gets a resync event. One task of each reactor waits for
//! changes and wakes its subscribers, a few at a time: publishing costs the same for a thousand of them as for one,
//! other connections have their turn in between, and changes made meanwhile are sent together. A subscriber gets no key
//! that it may not watch by the rules of this moment, and its subscription ends with its right.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use slab::Slab;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::access::{Access, Right, Subject};
use crate::http::auth::credentials::Principal;
use crate::http::exchange::Exchange;
use crate::http::exchange::connection::Ends;
use crate::store::{Change, Changes, Error, Gap, Prefixes, Removal, etag};

/// The interval of messages that keep a quiet connection alive.
pub const HEARTBEAT: Duration = Duration::from_secs(20);

/// The most changes that are taken from the store at once.
const CHANGES_AT_ONCE: usize = 64;

/// The bytes of events that a subscriber gets at once; the last event of a batch may pass them.
pub const BATCH: usize = 16 << 10;

/// The most subscribers that are woken before other connections have their turn: each writes to its socket.
const WOKEN_AT_ONCE: usize = 16;

/// The error of an S3 store: others write to it, so its changes have no order that holds for all.
pub const NO_WATCH: Error = Error::NotSupported {
    name: "no-watch",
    what: "changes of an S3 store are not told: list the keys from time to time",
};

/// A timer of [`HEARTBEAT`], for use on a reactor. After a pause of the machine it ticks once, not once for each
/// interval.
pub fn heartbeat() -> Interval {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// The subscribers of one reactor, and the changes that they get.
#[derive(Debug)]
pub struct Subscribers {
    changes: Arc<Changes>,
    access: Option<Arc<Access>>,
    waiting: RefCell<Slab<Option<Waker>>>,
    is_relaying: Cell<bool>,
}

impl Subscribers {
    pub fn new(changes: Arc<Changes>, access: Option<Arc<Access>>) -> Self {
        Self {
            changes,
            access,
            waiting: RefCell::default(),
            is_relaying: Cell::new(false),
        }
    }

    /// Wakes all that wait, [`WOKEN_AT_ONCE`] at a time.
    async fn wake(&self) {
        let waiting: Vec<Waker> = {
            let mut all = self.waiting.borrow_mut();
            all.iter_mut().filter_map(|(_, it)| it.take()).collect()
        };
        for woken in waiting.chunks(WOKEN_AT_ONCE) {
            woken.iter().for_each(Waker::wake_by_ref);
            tokio::task::yield_now().await;
        }
    }
}

/// Wakes the subscribers of this reactor when there are changes or other rules, as long as there are subscribers.
fn relay(subscribers: &Rc<Subscribers>) {
    if subscribers.is_relaying.replace(true) {
        return;
    }
    let mut latest = subscribers.changes.latest.subscribe();
    let access = subscribers.access.as_ref();
    let mut rules = access.map(|access| access.replacements());
    let subscribers = Rc::clone(subscribers);
    tokio::task::spawn_local(async move {
        while !subscribers.waiting.borrow().is_empty() {
            tokio::select! {
                changed = latest.changed() => if changed.is_err() { break },
                Some(Ok(())) = async { Some(rules.as_mut()?.changed().await) } => {}
            }
            latest.mark_unchanged();
            subscribers.wake().await;
        }
        subscribers.is_relaying.set(false);
    });
}

/// A message for a subscriber.
#[derive(Debug)]
pub struct WatchEvent {
    /// Its number in the order of changes.
    pub seq: u64,
    /// Changes before it are lost.
    pub is_resync: bool,
    /// Its text.
    pub json: String,
}

#[derive(Default, Serialize)]
struct Json<'a> {
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// The key that the value moved from, and that has none since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    /// Why the server removed it; of a deletion by a client, nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    seq: u64,
}

impl WatchEvent {
    /// The event of `change` for a subscriber that may see the keys for which `knows` is true: of a move both ends, or
    /// the end that it may see.
    fn change(change: &Change, knows: impl Fn(&str) -> bool) -> Option<Self> {
        let from = change.from.as_ref().map(|from| from.as_str());
        let from = from.filter(|from| knows(from));
        if !knows(change.key.as_str()) {
            return from.map(|from| {
                Self::new(&Json {
                    op: "delete",
                    key: Some(from),
                    seq: change.seq,
                    ..Json::default()
                })
            });
        }
        let value = change.value;
        Some(Self::new(&Json {
            from,
            op: if value.is_some() { "put" } else { "delete" },
            key: Some(change.key.as_str()),
            etag: value.map(etag),
            size: value.map(|value| value.len),
            reason: change.removal.map(Removal::name),
            seq: change.seq,
        }))
    }

    fn new(json: &Json<'_>) -> Self {
        Self {
            seq: json.seq,
            is_resync: json.key.is_none(),
            json: serde_json::to_string(json).unwrap_or_default(),
        }
    }
}

/// A subscriber's position in the order of changes.
pub struct Subscription {
    subscribers: Rc<Subscribers>,
    /// The exchange of the subscriber.
    pub exchange: Rc<Exchange>,
    place: usize,
    prefix: Box<str>,
    /// `None` where there are no rules: it covers all keys.
    permission: Option<Permission>,
    /// The number of the last change that was sent or skipped.
    pub seen: u64,
}

impl Subscription {
    /// Subscribes to the changes of keys that begin with `prefix` and that the `permission` covers, if there is one: to
    /// the changes after number `since`, or from now on.
    pub fn new(
        subscribers: &Rc<Subscribers>,
        exchange: &Rc<Exchange>,
        prefix: Box<str>,
        since: Option<u64>,
        permission: Option<Permission>,
    ) -> Self {
        let place = subscribers.waiting.borrow_mut().insert(None);
        // Listens before the store keeps changes, so that none is missed between.
        relay(subscribers);
        let latest = subscribers.changes.subscribe();
        Self {
            subscribers: Rc::clone(subscribers),
            exchange: Rc::clone(exchange),
            place,
            prefix,
            permission,
            seen: since.unwrap_or(latest),
        }
    }

    /// True once the connection was asked to end.
    pub fn has_ended(&self) -> bool {
        self.exchange.connection().ends() != Ends::Open
    }

    /// True once the client may get no more changes.
    pub fn is_revoked(&mut self) -> bool {
        let permission = self.permission.as_mut();
        self.exchange.connection().proven.has_ended() || permission.is_some_and(|it| !it.holds())
    }

    /// The next events, one at least and about [`BATCH`] bytes at most.
    pub fn poll_events(&mut self, cx: &Context<'_>) -> Poll<Vec<WatchEvent>> {
        loop {
            let changes = match self.subscribers.changes.since(self.seen, CHANGES_AT_ONCE) {
                Ok(changes) => changes,
                Err(Gap { latest }) => {
                    self.seen = latest;
                    return Poll::Ready(vec![WatchEvent::new(&Json {
                        op: "resync",
                        seq: latest,
                        ..Json::default()
                    })]);
                }
            };
            if changes.is_empty() {
                let waiting = &mut self.subscribers.waiting.borrow_mut()[self.place];
                *waiting = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let granted = self.permission.as_ref().map(Permission::keys);
            let mut events = Vec::new();
            let mut bytes = 0;
            for change in changes {
                self.seen = change.seq;
                let knows = |key: &str| {
                    key.starts_with(&*self.prefix) && granted.is_none_or(|keys| keys.has(key))
                };
                if let Some(event) = WatchEvent::change(&change, knows) {
                    bytes += event.json.len();
                    events.push(event);
                }
                if bytes >= BATCH {
                    break;
                }
            }
            if !events.is_empty() {
                return Poll::Ready(events);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscribers.waiting.borrow_mut().try_remove(self.place);
        self.subscribers.changes.unsubscribe();
    }
}

/// The permission of one subscription, where there are rules.
pub struct Permission {
    generation: u64,
    principal: Rc<Principal>,
    /// The subject by the rules of this generation.
    subject: Arc<Subject>,
}

impl Permission {
    pub fn new(principal: &Rc<Principal>) -> Self {
        Self {
            // No generation of the rules, so that the first event looks again: they may have been replaced since.
            generation: u64::MAX,
            principal: Rc::clone(principal),
            subject: Arc::clone(&principal.subject),
        }
    }

    /// True while the evidence is valid by the current rules, and changes of any key may be reported.
    fn holds(&mut self) -> bool {
        let (access, now) = (&self.principal.access, SystemTime::now());
        let generation = access.generation();
        if generation != self.generation {
            let policy = access.policy();
            let Some(subject) = policy.prove(&self.principal.evidence, now) else {
                return false;
            };
            self.subject = Arc::clone(subject);
            self.generation = generation;
        }
        self.subject.is_valid(now) && !self.keys().is_empty()
    }

    /// The keys whose changes may be reported; for use after [`Permission::holds`].
    fn keys(&self) -> &Prefixes {
        self.subject.grant.keys(Right::Watch)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use data_server_testing::scaled;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::access::{Access, Evidence};
    use crate::http::auth::credentials::{AuthMethod, Principal};
    use crate::http::watch::feed::*;
    use crate::http::watch::testing::{on_reactor, subscribers};
    use crate::store::{Changes, Key, Meta, Version};

    /// The subscribers of `changes` learn that these values were deleted.
    fn tell<'k>(changes: &Changes, keys: impl Iterator<Item = &'k str>) {
        let deleted = |key: &str| Some((Key::new(key.to_owned()).ok()?, None, None, None));
        changes.append(keys.filter_map(deleted));
    }

    /// Rules by which anyone may watch keys that begin with one of `watched`, and list and read all of them.
    fn write(path: &Path, watched: &[String]) {
        let rule = |prefix: &str, may: &str| {
            format!("[[rule]]\nwho = [\"anonymous\"]\nprefix = \"{prefix}\"\nmay = [{may}]\n")
        };
        let watched = watched.iter().map(|prefix| rule(prefix, "\"watch\""));
        let text = watched.collect::<String>() + &rule("", "\"list\", \"read\"");
        std::fs::write(path, text).unwrap();
    }

    /// The keys that the subscriber gets now; `None` where it learns that its right has ended.
    fn told(subscription: &mut Subscription) -> Option<Vec<String>> {
        let cx = Context::from_waker(Waker::noop());
        let mut keys = Vec::new();
        while !subscription.is_revoked() {
            let Poll::Ready(events) = subscription.poll_events(&cx) else {
                return Some(keys);
            };
            for event in events {
                let json: serde_json::Value = serde_json::from_str(&event.json).unwrap();
                keys.push(json["key"].as_str().expect("a key").to_owned());
            }
        }
        None
    }

    #[test]
    fn others_have_their_turn_while_many_subscribers_are_told_of_a_change() {
        const SUBSCRIBERS: usize = 1000;
        let subscribers = subscribers(None);
        let exchange = Exchange::of_new_connection();
        let told = Rc::new(Cell::new(0));
        on_reactor(async {
            for _ in 0..SUBSCRIBERS {
                let mut subscription =
                    Subscription::new(&subscribers, &exchange, "".into(), None, None);
                let told = Rc::clone(&told);
                tokio::task::spawn_local(async move {
                    std::future::poll_fn(|cx| subscription.poll_events(cx)).await;
                    told.set(told.get() + 1);
                });
            }
            let are_waiting = || {
                subscribers
                    .waiting
                    .borrow()
                    .iter()
                    .all(|(_, it)| it.is_some())
            };
            while !are_waiting() {
                tokio::task::yield_now().await;
            }
            tell(&subscribers.changes, ["a"].into_iter());
            let mut turns = 0;
            while told.get() < SUBSCRIBERS {
                tokio::task::yield_now().await;
                turns += usize::from(told.get() > 0);
            }
            assert!(turns >= SUBSCRIBERS / WOKEN_AT_ONCE / 2, "{turns} turns");
        });
    }

    #[test]
    fn a_removal_by_the_server_tells_its_reason_and_a_deletion_by_a_client_none() {
        let reasons = [Removal::Full, Removal::Age, Removal::Expired].map(Some);
        let told = [None].into_iter().chain(reasons).map(|removal| {
            let change = Change {
                seq: 7,
                key: Key::new("k").unwrap(),
                value: None,
                removal,
                from: None,
            };
            WatchEvent::change(&change, |_| true).unwrap().json
        });
        let expected = [
            r#"{"op":"delete","key":"k","seq":7}"#,
            r#"{"op":"delete","key":"k","reason":"evicted","seq":7}"#,
            r#"{"op":"delete","key":"k","reason":"aged","seq":7}"#,
            r#"{"op":"delete","key":"k","reason":"expired","seq":7}"#,
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_a_move_each_subscriber_is_told_the_keys_that_it_may_know() {
        let change = Change {
            seq: 7,
            key: Key::new("new/k").unwrap(),
            value: Some(Meta::new(1, Version::from_nanos(2))),
            removal: None,
            from: Some(Box::new(Key::new("old/k").unwrap())),
        };
        let told = |prefixes: &[&str]| {
            let knows = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix));
            WatchEvent::change(&change, knows).map(|event| event.json)
        };
        let put = |from| {
            format!(r#"{{"op":"put","key":"new/k","etag":"\"2-1\"","size":1,{from}"seq":7}}"#)
        };
        assert_eq!(told(&["new/", "old/"]), Some(put(r#""from":"old/k","#)));
        assert_eq!(told(&["new/"]), Some(put("")));
        let delete = r#"{"op":"delete","key":"old/k","seq":7}"#;
        assert_eq!(told(&["old/"]), Some(delete.to_owned()));
        assert_eq!(told(&["other/"]), None);
    }

    const KEY: &str = "[ab]{1,2}(/[ab]){0,2}";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(scaled(24, 128)))]
        #[test]
        fn events_are_of_keys_that_may_be_watched_by_the_rules_of_their_time(
            steps in vec((vec("([ab]{1,2}/?){0,2}", 1..4), vec(KEY, 0..100)), 1..4),
            prefix in "([ab]/?){0,2}",
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("access.toml");
            write(&path, &[]);
            let access = Arc::new(Access::read(path.clone()).unwrap());
            let subscribers = subscribers(Some(Arc::clone(&access)));
            let exchange = Exchange::of_new_connection();
            let subject = Arc::clone(&access.policy().anonymous);
            let principal = Rc::new(Principal {
                subject,
                by: AuthMethod::Nothing,
                evidence: Evidence::Nothing,
                access: Arc::clone(&access),
            });
            let subscribe = |since| {
                let permission = Some(Permission::new(&principal));
                let prefix = prefix.as_str().into();
                Subscription::new(&subscribers, &exchange, prefix, since, permission)
            };
            let watched = |keys: &[String], rules: &[String]| -> Vec<String> {
                let is_watched = |key: &&String| {
                    key.starts_with(&prefix) && rules.iter().any(|rule| key.starts_with(rule))
                };
                keys.iter().filter(is_watched).cloned().collect()
            };
            on_reactor(async {
                let mut subscription = subscribe(None);
                let (begin, mut all) = (subscription.seen, Vec::new());
                for (rules, changes) in steps {
                    // Changes are reported by the rules that hold then, even if others held when they were made.
                    tell(&subscribers.changes, changes.iter().map(String::as_str));
                    write(&path, &rules);
                    access.reload().unwrap();
                    prop_assert_eq!(told(&mut subscription), Some(watched(&changes, &rules)));
                    all.extend(changes);
                    let mut late = subscribe(Some(begin));
                    prop_assert_eq!(told(&mut late), Some(watched(&all, &rules)));
                }
                tell(&subscribers.changes, ["a", "b"].into_iter());
                write(&path, &[]);
                access.reload().unwrap();
                prop_assert_eq!(told(&mut subscription), None);
                prop_assert_eq!(told(&mut subscribe(Some(begin))), None);
                Ok(())
            })?;
        }
    }
}
