//! The trial of a store: what it does is found by trying it, as some stores accept a condition, and write all the same.
//!
//! At the start of a server a short form decides what it may promise; `check-store` runs a long one and shows every
//! row. Both write objects below a reserved name, which no key can have, and remove them.

mod checks;
mod lists;
mod requests;

use super::contract::{ContractReport, Promises, Settings, What, explained};
use super::transport::S3Client;
use crate::value::Error;
use requests::{CheckEffort, StoreTrial};

/// Why an S3 store cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum UnfitStore {
    /// The store cannot be reached, or refuses the requests: the reason.
    #[error("cannot use the store: {0}")]
    Unusable(String),
    /// The store does not do something that a value store needs: what.
    #[error(
        "the store cannot be trusted with conditional writes: {0}; --s3-conditions off serves it without them"
    )]
    Faithless(String),
}

/// Finds out what the store may be trusted with. One that is only read is not tried: that takes writes. Blocks.
pub fn probe_store(
    client: S3Client,
    settings: &Settings,
    read_only: bool,
) -> Result<Promises, UnfitStore> {
    let with_conditions = settings.requires_conditions;
    let effort = (!read_only).then(|| CheckEffort::at_start(with_conditions));
    let report = try_out(vec![client], effort)?;
    if read_only {
        return Ok(Promises::default());
    }
    if report.fault(&What::NEEDED).is_some() {
        return Err(UnfitStore::Unusable(report.faults()));
    }
    if let Some(fault) = report.fault(&What::FOR_PUT) {
        return Err(UnfitStore::Faithless(fault.to_owned()));
    }
    if let Some(fault) = report.fault(&[What::WrongChecksum]) {
        tracing::warn!("the store does not check what it receives: {fault}");
    }
    let promises = Promises {
        conditional_put: with_conditions,
        conditional_delete: with_conditions && report.fault(&What::FOR_DELETE).is_none(),
    };
    tracing::info!(
        conditional_put = promises.conditional_put,
        conditional_delete = promises.conditional_delete,
        "the store was tested"
    );
    Ok(promises)
}

/// Tries at length what the store does, through each of its endpoints. Blocks.
pub fn test(each: Vec<S3Client>) -> Result<ContractReport, UnfitStore> {
    try_out(each, Some(CheckEffort::at_length()))
}

/// Whether the bucket can be used at all through the first of `clients` and, where an effort is given, what its store
/// does through it and, where there are more, through each against the others. A thread that has a runtime may not wait
/// for another: this has one of its own, with which their connections end.
fn try_out(
    clients: Vec<S3Client>,
    effort: Option<CheckEffort>,
) -> Result<ContractReport, UnfitStore> {
    let try_out = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build();
        let runtime = runtime.map_err(|e| UnfitStore::Unusable(e.to_string()))?;
        let tried = runtime.block_on(async {
            clients[0].probe().await?;
            let Some(effort) = effort else {
                return Ok(ContractReport::default());
            };
            let trials = StoreTrial::through(clients)?;
            let tried = try_all(&trials, effort).await;
            trials[0].clear().await;
            tried
        });
        tried.map_err(|error| UnfitStore::Unusable(explained(&error)))
    };
    let tried = std::thread::scope(|scope| scope.spawn(try_out).join());
    tried.unwrap_or_else(|_| Err(UnfitStore::Unusable("a panic".to_owned())))
}

/// What the store does. An error is none of its promises: it cannot be used as it is.
async fn try_all(trials: &[StoreTrial], effort: CheckEffort) -> Result<ContractReport, Error> {
    let mut report = ContractReport::default();
    let trial = &trials[0];
    report.add(What::CutUpload, checks::cut(trial, effort).await)?;
    report.add(What::WrongChecksum, checks::wrong_checksum(trial).await)?;
    lists::listing(trial, effort, &mut report).await?;
    if effort.conditions {
        checks::one_at_a_time(trial, &mut report).await?;
        checks::at_once(trial, effort, &mut report).await?;
    }
    if trials.len() > 1 {
        checks::endpoints(trials, effort, &mut report).await;
    }
    Ok(report)
}
