//! Conditions, one request at a time.

use super::report::{Report, Verdict, What};
use super::trial::{Outcome, Trial};
use crate::s3::contract::Exact;
use crate::value::Error;

/// The entity tag of other bytes than those of the check.
const STALE: &str = "\"00000000000000000000000000000000\"";

pub async fn check(trial: &Trial, report: &mut Report) -> Result<(), Error> {
    let object = trial.object();
    let etag = trial.place(&object, "old").await?;
    report.add(What::Create, create(trial, &object).await);
    let etag = match trial.read(&object).await? {
        Some(value) if value == "old" => etag,
        // The conditions of what follows are about what is there.
        _ => trial.place(&object, "old").await?,
    };
    report.add(What::Swap, swap(trial, &object, &etag).await);
    let verdict = remove(trial).await?;
    report.add(What::Remove, verdict);
    Ok(())
}

async fn create(trial: &Trial, object: &str) -> Verdict {
    let over = trial.put(object, "created", &Exact::Create).await;
    if let Some(fails) = unless_not_held(over, "PUT with If-None-Match: * over a value") {
        return fails;
    }
    let fresh = trial.object();
    match trial.put(&fresh, "created", &Exact::Create).await {
        Outcome::Done(_) => Verdict::Holds(2),
        other => Verdict::Fails(format!(
            "PUT with If-None-Match: * where there is no value is not made: {}",
            said(other)
        )),
    }
}

async fn swap(trial: &Trial, object: &str, etag: &str) -> Verdict {
    let stale = Exact::Swap(STALE.to_owned());
    let other = trial.put(object, "stale", &stale).await;
    if let Some(fails) = unless_not_held(other, "PUT with If-Match of another version") {
        return fails;
    }
    let absent = trial.put(&trial.object(), "absent", &stale).await;
    if let Some(fails) = unless_not_held(absent, "PUT with If-Match where there is no value") {
        return fails;
    }
    match trial
        .put(object, "new", &Exact::Swap(etag.to_owned()))
        .await
    {
        Outcome::Done(_) => Verdict::Holds(3),
        other => Verdict::Fails(format!(
            "PUT with If-Match of the current version is not made: {}",
            said(other)
        )),
    }
}

async fn remove(trial: &Trial) -> Result<Verdict, Error> {
    let object = trial.object();
    let etag = trial.place(&object, "kept").await?;
    let other = trial.delete(&object, &Exact::Swap(STALE.to_owned())).await;
    let what = "DELETE with If-Match of another version";
    if let Some(fails) = unless_not_held(other, what) {
        return Ok(fails);
    }
    if trial.read(&object).await?.is_none() {
        return Ok(Verdict::Fails(format!(
            "{what} removes it, and is answered that it does not"
        )));
    }
    Ok(match trial.delete(&object, &Exact::Swap(etag)).await {
        Outcome::Done(_) => Verdict::Holds(2),
        other => Verdict::Fails(format!(
            "DELETE with If-Match of the current version is not made: {}",
            said(other)
        )),
    })
}

/// What is wrong, unless the condition was found not to hold.
fn unless_not_held(outcome: Outcome, what: &str) -> Option<Verdict> {
    match outcome {
        Outcome::NotHeld => None,
        Outcome::Done(_) => Some(Verdict::Fails(format!("{what} is made all the same"))),
        other => Some(Verdict::Fails(format!(
            "{what} is answered {}",
            said(other)
        ))),
    }
}

fn said(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done(_) => "that it is made".to_owned(),
        Outcome::NotHeld => "that the condition does not hold".to_owned(),
        Outcome::Refused(said) => said,
        Outcome::Unclear => "nothing that is clear".to_owned(),
    }
}
