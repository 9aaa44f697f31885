//! The parts of a form, however its bytes are divided.

use super::{Pieces, now};
use crate::http::forms::perform::Form;
use crate::http::forms::{Disposition, FormState, Role};
use crate::http::refusal::Refusal;

/// The parts of a form with the boundary `x` that are whole, and what ended it.
type Parts = (Vec<(Disposition, Vec<u8>)>, Result<(), Refusal>);

fn parts(body: &[u8], size: usize) -> Parts {
    let mut whole = Vec::new();
    let mut pieces = Pieces(body.chunks(size));
    let ended = now(read(&mut pieces, &mut whole));
    (whole, ended)
}

async fn read(
    pieces: &mut Pieces<'_>,
    whole: &mut Vec<(Disposition, Vec<u8>)>,
) -> Result<(), Refusal> {
    let mut form = Form::new("x".to_owned(), pieces);
    while let Some(part) = form.next().await? {
        let mut data = Vec::new();
        while let Some(more) = form.data().await? {
            data.extend_from_slice(&more);
        }
        whole.push((part.disposition, data));
    }
    form.end().await
}

/// The first byte says how the others are divided: the parts are the same as of all at once. No part holds a delimiter,
/// and a file has a key in the folder of the form or none.
pub fn form(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else {
        return;
    };
    let all = parts(body, body.len().max(1));
    assert_eq!(parts(body, usize::from(size).max(1)), all);
    let mut state = FormState::default();
    for (disposition, data) in all.0 {
        assert!(!data.windows(5).any(|window| window == b"\r\n--x"));
        match state.role(disposition, None) {
            Ok(Role::File(name)) => {
                if let Ok(key) = state.key(&name) {
                    assert!(key.as_str().starts_with(state.folder()));
                }
            }
            Ok(Role::Text(name)) => {
                let _ = state.set(name, data);
            }
            Err(_) => {}
        }
    }
}
