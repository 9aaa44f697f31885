//! The torture suite: what is promised of values, held against crashes, faults, hostile input and load.
//!
//!     tests/run torture         the short form, of which `tests/run` has a part
//!     tests/run full            the full form: hours become minutes only where the machine is fast
//!
//! Every harness prints what it counted, refuses to pass on an empty run, and is shown to fail on a planted fault.

mod backups;
mod bounds;
mod clocks;
mod cold;
mod counts;
mod crash;
mod damage;
mod disk;
mod eio;
mod exhaustion;
mod faults;
mod folders;
mod heal;
mod histories;
mod http2;
mod journal;
mod ledger;
mod load;
mod mutator;
mod nbd;
mod network;
mod panics;
mod parts;
mod planted;
mod power;
mod prelude;
mod random;
mod rest;
mod resumable;
mod s3;
mod scale;
mod slow;
mod soak;
mod value;
mod volatile;

use data_server_testing as support;
