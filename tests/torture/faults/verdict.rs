//! What must hold after a fault, as pure questions: so that the judge itself can be tried.

use super::matrix::{Fault, first_path};
use super::operation::{CODING, MEDIA_TYPE, Operation, Reply, State};
use crate::prelude::*;

/// What was seen of one operation.
pub(super) struct Seen<'a> {
    pub(super) operation: Operation,
    pub(super) state: &'a State,
    pub(super) reply: &'a Reply,
    /// The value that lies in the directory after it.
    pub(super) after: Option<Vec<u8>>,
    /// The fault and the call that it hit, if it hit one during this operation.
    pub(super) hit: Option<(&'a Fault, &'a Call)>,
    /// Whether that call was a sync of the directory.
    pub(super) of_names: bool,
}

impl Seen<'_> {
    /// Whether the server was told that it may not do something.
    fn is_forbidden(&self) -> bool {
        self.hit.is_some_and(|(fault, _)| fault.error == "EACCES")
    }
}

/// The statuses that docs/http.md lists for `error`, where it is not overcome.
pub(super) fn statuses(error: &str) -> &'static [u16] {
    match error {
        "ENOSPC" | "EDQUOT" | "EROFS" => &[507],
        "EMFILE" | "ENFILE" | "ENOMEM" => &[503],
        "EACCES" => &[403],
        "EAGAIN" => &[500, 503],
        _ => &[500],
    }
}

fn is_sync(call: &str) -> bool {
    matches!(call, "fsync" | "fdatasync")
}

fn is_of_journal(call: &Call) -> bool {
    first_path(call).is_some_and(|path| path.contains("/.data-server/journal/"))
}

/// Calls whose failure may cost the connection, so that there is no answer.
pub(super) fn is_of_connection(call: &Call) -> bool {
    const ALWAYS: [&str; 5] = ["epoll_ctl", "accept4", "ppoll", "sendfile", "shutdown"];
    is_on_socket(call) || is_sending(call) || ALWAYS.contains(&&*call.name)
}

fn is_on_socket(call: &Call) -> bool {
    first_path(call).is_some_and(|path| path.starts_with("socket:"))
}

/// Calls that pass bytes from a pipe on to a socket.
fn is_sending(call: &Call) -> bool {
    let to = call.args.split(',').nth(2);
    call.name == "splice" && to.is_some_and(|to| to.contains("<socket:"))
}

/// Calls that take bytes from a socket.
fn is_receiving(call: &Call) -> bool {
    call.name == "recvfrom" || call.name == "splice" && is_on_socket(call)
}

/// What is wrong with what was seen, if anything is.
pub(super) fn judge(seen: &Seen<'_>) -> Result<(), String> {
    let State { before, wanted } = seen.state;
    let is_before = seen.after == *before;
    let is_wanted = seen.after == *wanted;
    match seen.reply {
        None => {
            let (_, call) = seen.hit.ok_or("no answer, and nothing failed")?;
            // The head of an answer was on its way already when the value could not be read.
            let while_sending = seen.operation.is_read() && call.name.starts_with("pread");
            if !(is_of_connection(call) || while_sending) {
                return Err("no answer".into());
            }
            if !(is_before || is_wanted) {
                return Err("neither the old value nor the new one".into());
            }
        }
        Some(answer) if answer.status == 200 => {
            // A value that is synced with its file needs no journal, and no change a segment that is being made: frames
            // are put on the disk by fdatasync.
            let is_needed = |call: &Call| {
                !(is_of_journal(call) && (seen.operation.is_large() || call.name == "fsync"))
            };
            let failed = |(fault, call): &(&Fault, &Call)| is_sync(&fault.call) && is_needed(call);
            if seen.hit.is_some_and(|hit| failed(&hit)) {
                return Err("200, though a sync failed".into());
            }
            if !is_wanted {
                return Err("200, and the directory does not say so".into());
            }
            check_body(seen, &answer.body)?;
            let header = |name| answer.header(name).unwrap_or_default();
            let kind = (header("content-type"), header("content-encoding"));
            if matches!(seen.operation, Operation::Get { .. }) && kind != (MEDIA_TYPE, CODING) {
                return Err(format!("200 as {kind:?}, not as {MEDIA_TYPE} in {CODING}"));
            }
        }
        Some(answer) => {
            let status = answer.status;
            let (fault, call) = seen.hit.ok_or(format!("{status}, and nothing failed"))?;
            // A body that cannot be received any more is one that broke off.
            if is_receiving(call) && status == 400 && is_before {
                return Ok(());
            }
            if fault.error == "EINTR" && !is_sync(&fault.call) {
                return Err(format!("{status}: an interrupted call is to be made again"));
            }
            // After a failed sync the change may have been made, whatever the error: 500.
            let is_in_doubt = is_sync(&fault.call) && status == 500;
            if !is_in_doubt && !statuses(fault.error).contains(&status) {
                return Err(format!("{status}, not {:?}", statuses(fault.error)));
            }
            // After a sync of names that failed, the change may have been made: docs/guarantees.md says so.
            if !(is_before || seen.of_names && is_wanted) {
                return Err(format!("{status}, and the old value is gone"));
            }
        }
    }
    Ok(())
}

fn check_body(seen: &Seen<'_>, body: &[u8]) -> Result<(), String> {
    let same = match seen.operation {
        Operation::Get { .. } => Some(body) == seen.state.before.as_deref(),
        // What lies in a folder that the server may not read is left out.
        Operation::List if body.is_empty() => seen.is_forbidden(),
        Operation::List => body == format!("{}\n", seen.operation.key()).as_bytes(),
        Operation::Put { .. } | Operation::Resume | Operation::Delete => true,
    };
    same.then_some(()).ok_or("200, and the body lies".into())
}

/// A sync that failed is final for its file: whether any came after it, of the calls from then on. The control file of
/// the journal is written anew before each.
pub(super) fn sync_retried(calls: &[Call], of_names: impl Fn(&Call) -> bool) -> Option<&Call> {
    let is_anew = |call: &&Call| {
        first_path(call).is_some_and(|path| path.ends_with("/.data-server/journal/control"))
    };
    let syncs = || {
        let syncs = calls.iter().filter(|call| is_sync(&call.name));
        syncs.filter(move |call| !is_anew(call))
    };
    let failed = syncs().find(|call| call.is_injected() && !of_names(call))?;
    syncs().find(|call| call.began > failed.ended && first_path(call) == first_path(failed))
}
