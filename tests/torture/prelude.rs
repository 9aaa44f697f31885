//! What nearly every torture test uses: the helpers of all suites, how much of a test is run, and its random choices.

pub(crate) use data_server_testing::prelude::*;

pub(crate) use crate::random::{Random, SEED, nth, one_of, seed};
pub(crate) use crate::scale::{counted, is_full, scaled};
