//! The load that crashes, power cuts and faults meet: eight clients of a history at twelve pairs of folders, and the
//! look at what is left of what they were told. A history goes on from what was found.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::player::Player;
use super::register::{Asked, Event, Only, Told, UNHEARD, Value, Version, at};
use super::stage::{Rules, Stage, whole};
use super::{explain, pairs};
use crate::prelude::*;

const CLIENTS: usize = 8;

const KEYS: usize = 24;

/// All keys, what is known of each, and the seed of what is drawn.
pub(crate) struct Load {
    pub(crate) seed: u64,
    random: Random,
    stage: Stage,
    /// Those that have played since the last look, and what it found.
    players: Vec<Player>,
    found: Vec<Value>,
}

impl Load {
    pub(crate) fn new(test: &str) -> Self {
        let seed = seed(test);
        let stage = Stage {
            keys: KEYS,
            ..Stage::with_moves(Rules::Power)
        };
        Self {
            seed,
            random: Random::with_seed(seed),
            stage,
            players: Vec::new(),
            found: vec![None; KEYS],
        }
    }

    /// A source of numbers for the test itself.
    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The paths of all folders that its keys lie in or below.
    pub(crate) fn folders(&self) -> BTreeSet<String> {
        let folders = (0..KEYS).flat_map(|key| {
            let path = self.stage.key(key);
            let slashes: Vec<_> = path.match_indices('/').map(|(at, _)| at).collect();
            slashes.into_iter().map(move |at| path[..at].to_owned())
        });
        folders.collect()
    }

    /// Has all clients at work for as long as `meanwhile` takes; panics where one hears what it must not.
    pub(crate) fn work<R>(
        &mut self,
        addr: SocketAddr,
        rules: Rules,
        meanwhile: impl FnOnce(&Stage) -> R,
    ) -> R {
        self.stage.begin(rules);
        // A folder that moves has the journal written to the files.
        self.stage.moves_folders = self.random.bool();
        let player = |number| Player::new(number, self.random.fork());
        let mut players: Vec<_> = (0..CLIENTS).map(player).collect();
        let stage = &self.stage;
        let result = thread::scope(|scope| {
            for player in &mut players {
                scope.spawn(move || {
                    let mut client = Client::new(addr);
                    let play = AssertUnwindSafe(|| player.play(stage, &mut client));
                    catch_unwind(play).unwrap_or_else(|panic| {
                        stage.broken.store(true, Ordering::Release);
                        resume_unwind(panic)
                    });
                });
            }
            let _ending = stage.ending.when_dropped();
            meanwhile(stage)
        });
        self.players.append(&mut players);
        result
    }

    /// With nothing under way, and after a cut of power maybe: reads every key, and tells of each pair that has no order
    /// and of each value that nobody wrote, which it removes. What else lies in the directory panics.
    pub(crate) fn look(&mut self, server: &TestServer) -> Vec<String> {
        self.look_beside(server, &[])
    }

    /// The same, where these files lie there, too.
    pub(crate) fn look_beside(&mut self, server: &TestServer, files: &[String]) -> Vec<String> {
        let (mut wrong, mut torn) = (Vec::new(), HashSet::new());
        let mut reader = Player::new(0, self.random.fork());
        let mut client = Client::new(server.addr);
        for key in 0..KEYS {
            let path = self.stage.key(key);
            let answer = client.ask("GET", &path);
            if answer.status == 200 && whole(&answer.body).is_none() {
                wrong.push(format!("{path}: {} bytes of nobody", answer.body.len()));
                torn.insert(key / 2);
                client.ask("DELETE", &path);
            }
            assert!(reader.read(key, &self.stage, &mut client));
        }
        let players = self.players.drain(..).chain([reader]).collect();
        let pairs = pairs(players, None, &self.found, KEYS);
        for (pair, events) in pairs.into_iter().enumerate() {
            let judged = self.judge(pair, events);
            wrong.extend(judged.err().filter(|_| !torn.contains(&pair)));
        }
        self.assert_nothing_else(server, files);
        wrong
    }

    /// The last of the events of a pair that have no order. The last two of all are what was found; goes on from there.
    fn judge(&mut self, pair: usize, mut events: Vec<Event>) -> Result<(), String> {
        let last = events.split_off(events.len() - 2);
        let before = (0..2).filter_map(|of| {
            let written = Asked::Put(self.found[2 * pair + of]?, Only::Always);
            let event = at(0, 0, written, Told::Done);
            Some(Event { of, ..event })
        });
        let before: Vec<_> = before.collect();
        for read in &last {
            let Told::Read(found) = read.told else {
                panic!("{read:?} is no read");
            };
            let known = |version: Version| Version {
                tag: version.tag & !UNHEARD,
                ..version
            };
            self.found[2 * pair + read.of] = found.map(known);
        }
        let path = self.stage.key(2 * pair);
        let is_right = |events: &[Event], last: &[Event]| {
            let all: Vec<_> = [&before, events, last].concat();
            explain(&all, false).map_err(|wrong| format!("{path}: {wrong}"))
        };
        if self.stage.rules != Rules::Power {
            return is_right(&events, &last);
        }
        // A client may meet a change that is not on the disk yet.
        is_right(&events, &[])?;
        events.retain(|event| matches!(event.told, Told::Done | Told::Unknown));
        is_right(&events, &last)
    }

    /// Nothing lies there but keys, and folders that a kill has left.
    fn assert_nothing_else(&self, server: &TestServer, files: &[String]) {
        let keys: HashSet<_> = (0..KEYS).map(|key| self.stage.key(key)).collect();
        let folders = self.folders();
        let names = server.dir.names().into_iter();
        let names = names.map(|name| name.escape_ascii().to_string());
        let mut strange: Vec<_> = names.chain(files.iter().cloned()).collect();
        strange.retain(|name| !keys.contains(name) && !folders.contains(name));
        assert_eq!(strange, [""; 0], "names that no client wrote");
        server.dir.assert_nothing_staged();
    }
}

impl Stage {
    /// Others begin.
    fn begin(&mut self, rules: Rules) {
        self.rules = rules;
        self.ending.unsay();
        for flag in [&self.fails, &self.broken] {
            flag.store(false, Ordering::Release);
        }
        for count in [
            &self.acknowledged,
            &self.answered,
            &self.refused,
            &self.unanswered,
        ] {
            count.store(0, Ordering::Release);
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// From now on a request may get no answer, or, where the power is cut, a failure.
    pub(crate) fn let_break(&self) {
        self.fails.store(true, Ordering::Release);
    }

    /// Waits until so many changes have been acknowledged.
    #[track_caller]
    pub(crate) fn reach(&self, acknowledged: usize) {
        self.wait_for(|| self.acknowledged() >= acknowledged);
    }

    /// Waits for so many answers more, whatever they say.
    #[track_caller]
    pub(crate) fn go_on_for(&self, answers: usize) {
        let answered = || self.answered.load(Ordering::Acquire);
        let enough = answered() + answers;
        self.wait_for(|| answered() >= enough);
    }

    #[track_caller]
    fn wait_for(&self, holds: impl Fn() -> bool) {
        let is_over = within(DEADLINE, || self.is_broken() || holds());
        assert!(is_over, "too few answers within {DEADLINE:?}");
    }
}

/// Whether these are all bytes of some write.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    whole(bytes).is_some()
}
