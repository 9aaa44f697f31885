//! Resumable uploads (draft-ietf-httpbis-resumable-upload), through the socket.

use crate::support::prelude::*;

mod concurrency;
mod faults;
mod lifetime;
mod limits;
mod protocol;
mod published;

/// What an answer tells of its upload: the status, whether it is complete, and how much was received.
#[track_caller]
fn told(answer: &Response) -> (u16, &str, usize) {
    let offset = answer.must("upload-offset").parse();
    let complete = answer.must("upload-complete");
    (answer.status, complete, offset.expect("an offset"))
}
