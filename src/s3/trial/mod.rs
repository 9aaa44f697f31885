//! What the store does, found by trying it: some stores accept a condition, and write all the same.
//!
//! At the start of a server a short form decides what it may promise; `check-store` runs a long one and shows every row. Both
//! write objects below a reserved name, which no key can have, and remove them.

pub mod conditions;
pub mod depth;
pub mod endpoints;
pub mod listing;
pub mod opening;
pub mod races;
pub mod report;
pub mod trial;
pub mod uploads;

use std::sync::Arc;

use crate::s3::transport::client::Client;
use crate::value::Error;
use depth::Depth;
pub use report::{Report, Row, Verdict, What};
use trial::Trial;

/// Tries the store through the first of `clients` and, where there are more, each against the others. An error is none of
/// its promises: it cannot be used as it is.
pub async fn check(clients: &[Arc<Client>], depth: Depth) -> Result<Report, Error> {
    let trials = Trial::through(clients);
    let tried = try_all(&trials, depth).await;
    trials[0].clear().await;
    tried
}

async fn try_all(trials: &[Arc<Trial>], depth: Depth) -> Result<Report, Error> {
    let mut report = Report::default();
    let trial = &trials[0];
    uploads::check(trial, depth, &mut report).await?;
    listing::check(trial, depth, &mut report).await?;
    if depth.conditions {
        conditions::check(trial, &mut report).await?;
        races::check(trial, depth, &mut report).await?;
    }
    if trials.len() > 1 {
        endpoints::check(trials, depth, &mut report).await;
    }
    Ok(report)
}
