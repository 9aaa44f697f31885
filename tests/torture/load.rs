//! Clients that write without rest, each to keys of its own, and remember every answer; and the look at what is left.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::ledger::{Account, Found, Tally, Value, Verdict};
use crate::random::{Random, seed};
use crate::session::{Heard, Session};
use crate::support::{self, Done, TestServer, eventually};

const CLIENTS: u64 = 8;

/// Keys of each client.
const KEYS: u64 = 40;

/// Answers in a row that acknowledge nothing, after which a client leaves a server that it takes for broken.
const PATIENCE: usize = 40;

/// Lengths of values: kept in memory until published (up to 64 KiB), written in pieces (256 KiB), and beyond.
const LENGTHS: [usize; 10] = [0, 1, 100, 1000, 1000, 5000, 5000, 20_000, 70_000, 300_000];

/// All clients, and the seed of what they do.
pub(crate) struct Load {
    pub(crate) seed: u64,
    clients: Vec<Client>,
    random: Random,
}

/// What the clients have heard so far.
#[derive(Default)]
pub(crate) struct Progress {
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
    done: Done,
}

impl Progress {
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Acquire)
    }

    /// Waits until so many writes have been acknowledged.
    #[track_caller]
    pub(crate) fn reach(&self, acknowledged: usize) {
        eventually("writes are acknowledged", || {
            self.acknowledged() >= acknowledged
        });
    }

    /// Waits for so many answers more, whatever they say.
    #[track_caller]
    pub(crate) fn go_on_for(&self, answers: usize) {
        let all = || self.acknowledged() + self.refused();
        let enough = all() + answers;
        eventually("requests are answered", || all() >= enough);
    }
}

impl Load {
    pub(crate) fn new() -> Self {
        let seed = seed("load");
        Self {
            seed,
            clients: (0..CLIENTS).map(|n| Client::new(n, seed)).collect(),
            random: Random::new(seed ^ 0xfa17),
        }
    }

    /// A number from `from` up to `to`, both included.
    pub(crate) fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.random.place(to - from + 1)
    }

    /// Has all clients write to the server for as long as `meanwhile` takes, and end in good order, if they still can.
    pub(crate) fn work<R>(
        &mut self,
        addr: SocketAddr,
        meanwhile: impl FnOnce(&Progress) -> R,
    ) -> R {
        let progress = Progress::default();
        thread::scope(|scope| {
            let _told_at_the_end = progress.done.when_dropped();
            for client in &mut self.clients {
                let progress = &progress;
                scope.spawn(move || client.work(addr, progress));
            }
            meanwhile(&progress)
        })
    }

    /// Reads every key and counts what became of it; removes what is wrong, to go on from there.
    pub(crate) fn look(&mut self, server: &TestServer) -> Tally {
        let mut tally = Tally::default();
        let mut client = support::Client::new(server.addr);
        for account in self
            .clients
            .iter_mut()
            .flat_map(|client| &mut client.accounts)
        {
            let answer = client.ask("GET", &account.key);
            let found = match answer.status {
                200 => Found::Bytes(answer.body),
                404 => Found::Nothing,
                status => Found::Failure(status),
            };
            if tally.count(account, &found) == Verdict::Kept {
                account.settle(&found);
            } else {
                server.ask("DELETE", &account.key);
                account.settle(&Found::Nothing);
            }
        }
        let keys: Vec<_> = self
            .clients
            .iter()
            .flat_map(|client| &client.accounts)
            .collect();
        let is_known = |name: &Vec<u8>| keys.iter().any(|account| account.key.as_bytes() == name);
        let names = server.dir.names();
        let strange = names.iter().filter(|&name| !is_known(name));
        let strange: Vec<_> = strange
            .map(|name| name.escape_ascii().to_string())
            .collect();
        assert!(strange.is_empty(), "names that nobody wrote: {strange:?}");
        server.dir.assert_nothing_staged();
        tally
    }
}

/// One writer of some keys.
struct Client {
    accounts: Vec<Account>,
    random: Random,
}

impl Client {
    fn new(n: u64, seed: u64) -> Self {
        let key = |k| Account::new(format!("key-{n}-{k}"));
        Self {
            accounts: (0..KEYS).map(key).collect(),
            random: Random::new(seed ^ (n << 40)),
        }
    }

    /// Writes until told to end, or until there is no server that answers.
    fn work(&mut self, addr: SocketAddr, progress: &Progress) {
        let mut refused_in_a_row = 0;
        let mut session = Session::new(addr);
        while !progress.done.is_said() && refused_in_a_row < PATIENCE {
            match self.write(&mut session) {
                // Without an answer, the change may be made at any later time: nothing more may be asked of the key.
                None => return,
                Some(true) => {
                    progress.acknowledged.fetch_add(1, Ordering::AcqRel);
                    refused_in_a_row = 0;
                }
                Some(false) => {
                    progress.refused.fetch_add(1, Ordering::AcqRel);
                    refused_in_a_row += 1;
                }
            }
        }
    }

    /// One write, and whether it was acknowledged; new keys, replaced ones and removed ones in turn as it happens.
    fn write(&mut self, session: &mut Session) -> Option<bool> {
        let at = self.random.place(self.accounts.len());
        let account = &mut self.accounts[at];
        let removes = account.acknowledged().is_some() && self.random.below(3) == 0;
        let change = (!removes).then(|| Value {
            seed: self.random.draw(),
            len: self.random.one_of(&LENGTHS),
        });
        account.ask(change);
        let heard = match change {
            Some(value) => session.ask("PUT", &account.key, "", &value.bytes()),
            None => session.ask("DELETE", &account.key, "", &[]),
        };
        // A head that is whole says what became of the change.
        let (Heard::Answer(answer) | Heard::Part(Some(answer))) = heard else {
            return None;
        };
        let is_ack = (200..300).contains(&answer.status);
        if is_ack {
            account.acknowledge();
        }
        Some(is_ack)
    }
}
