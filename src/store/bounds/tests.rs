//! The account beside the simplest model of it: a map of the values and what each takes, summed and sorted anew at
//! every question.
//!
//! Clients write, remove and read, and move folders, other programs place files of any age and remove them, the index
//! counts, and the server is started anew, all of it in any order. After each step the sums of each scope are those of
//! the model, and what is evicted is what the model sorts first.

mod plays;
mod step;
mod world;

use data_server_testing::scaled;
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use step::Step;
use world::{KEYS, MOVED, World, bound};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // As a rule below the folders that move.
    let key = prop_oneof![0..KEYS.len(), 8..KEYS.len()];
    let blocks = 0_u64..5;
    let put = (key.clone(), blocks.clone(), prop::bool::weighted(0.1));
    let put = put.prop_map(|(key, blocks, fails)| Step::Put { key, blocks, fails });
    let place = (key.clone(), blocks, 0_u64..5_000);
    let simple = prop_oneof![
        6 => put,
        1 => key.clone().prop_map(Step::Delete),
        4 => key.clone().prop_map(Step::Read),
        2 => place.prop_map(|(key, blocks, age)| Step::Place { key, blocks, age }),
        1 => key.prop_map(Step::Remove),
        3 => (0..MOVED.len()).prop_map(Step::Move),
        1 => (1_u64..9).prop_map(Step::Disk),
    ];
    let folder = prop_oneof![Just("a/"), Just(MOVED[0]), Just(MOVED[1])];
    let between = (0..KEYS.len(), vec(simple.clone(), 0..3));
    let step = prop_oneof![
        12 => simple,
        2 => between.clone().prop_map(|(at, steps)| Step::Count(at, steps)),
        2 => (folder, between).prop_map(|(folder, (at, steps))| Step::Reread(folder, at, steps)),
        1 => Just(Step::Restart),
    ];
    vec(step, 1..40)
}

/// An account, whole and empty, of a bound of 1 MiB of each `prefix` that evicts.
pub fn account(prefix: &str) -> std::sync::Arc<Account> {
    account_with(prefix, Uses::default())
}

/// The same, of which an earlier process has noted these uses.
pub fn account_with(prefix: &str, noted: Uses) -> std::sync::Arc<Account> {
    whole(bound(prefix, Some(256), None, Full::Evict), noted)
}

fn whole(bound: Bound, noted: Uses) -> std::sync::Arc<Account> {
    let account = Account::new(vec![bound], None, noted);
    account.set_may_remove(0, crate::store::changes::Removal::Full, true);
    account.set_whole();
    account
}

impl Account {
    /// A whole account of one bound of so many blocks that evicts.
    pub fn of_blocks(blocks: u64) -> std::sync::Arc<Self> {
        whole(bound("", Some(blocks), None, Full::Evict), Uses::default())
    }

    /// The value of `key` is used, a second later than it was.
    pub fn use_again(&self, key: &str) {
        if let Some(value) = self.state.lock().names.value(key) {
            value.set_used(value.used() + 1000);
        }
    }

    /// Has the file of `key` take so many bytes, or be gone; it is used now, and of version 1.
    pub fn place(&self, key: &str, bytes: Option<u64>) {
        let file = bytes.map(|bytes| Known {
            version: 1,
            bytes,
            end: None,
            is_linked: false,
            is_elsewhere: false,
        });
        let mut state = self.state.lock();
        state.note(&self.bounds, key, (file, super::value::uptime()), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(scaled(150, 3_000)).unwrap()))]

    #[test]
    fn the_account_has_the_sums_and_the_order_of_a_map_and_a_sorted_list(steps in steps()) {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let mut world = World::new(dir.path());
        for step in &steps {
            world.step(step);
        }
    }
}
