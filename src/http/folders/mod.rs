//! Requests to make, move, copy and remove a folder, and to move and copy a value: what each asks for. [`change`] does
//! what the store does with the whole folder, [`copy`] what is done value by value.

pub mod change;
pub mod copy;

use hyper::Method;

use crate::http::folders::change::{MakeFolder, MoveFolder, RemoveFolder};
use crate::http::folders::copy::CopyFolder;
use crate::http::head::path::{folder, name};
use crate::http::refusal::Refusal;
use crate::http::refusal::common::{FOLDER_PRECONDITION, ROOT};
use crate::http::request::head::RequestHead;
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::Relocating;
use crate::http::values::moves::request::{OF_FOLDER, is_deep, relocation};
use crate::http::verb::{Parsed, parsed};
use crate::store::{Error, Key, WriteCondition};

/// The DELETE of a folder.
pub fn removal(asked: &RequestHead<'_>) -> Parsed {
    if asked.head.method != Method::DELETE || asked.config.compat {
        return Ok(None);
    }
    if asked.path == "/" {
        return Err(ROOT);
    }
    let Ok(Some(_)) = folder(asked.path) else {
        return Ok(None);
    };
    let headers = &asked.head.headers;
    let folder = changed(asked)?;
    asked.refuses_if()?;
    if preconditions_of_write(headers).is_some() {
        return Err(FOLDER_PRECONDITION);
    }
    let is_deep = is_deep(headers)?.unwrap_or(false);
    parsed(RemoveFolder { folder, is_deep })
}

/// A method of RFC 4918: MKCOL, MOVE or COPY, of a folder or of a value.
pub fn extension(asked: &RequestHead<'_>) -> Parsed {
    let (head, config) = (asked.head, asked.config);
    let is_copy = match head.method.as_str() {
        _ if config.compat => return Ok(None),
        "MKCOL" => return parsed(made(asked)?),
        "MOVE" => false,
        "COPY" => true,
        _ => return Ok(None),
    };
    asked.config.may_change()?;
    asked.refuses_if()?;
    match relocation(head, &asked.query, is_copy, asked.client, config)? {
        Relocating::Value(asked) => Ok(Some(asked)),
        Relocating::Folder(asked) if is_copy => parsed(CopyFolder(asked)),
        Relocating::Folder(asked) => parsed(MoveFolder(asked)),
    }
}

/// The folder at the path, with a `/` at the end or without, which is to be changed.
fn changed(asked: &RequestHead<'_>) -> Result<Key<'static>, Refusal> {
    asked.query.check_all(OF_FOLDER)?;
    let (folder, _) = name(asked.path)?;
    asked.config.may_change()?;
    Ok(Key::new(folder)?)
}

/// The folder at the path, which is to be made.
fn made(asked: &RequestHead<'_>) -> Result<MakeFolder, Refusal> {
    if asked.path == "/" {
        return Err(Error::NameTaken("the root, a folder,").into());
    }
    let folder = changed(asked)?;
    asked.refuses_if()?;
    let given = preconditions_of_write(&asked.head.headers);
    // `If-None-Match: *` asks for what it does anyway.
    if given.is_some_and(|it| !matches!(it.exact(), Some(WriteCondition::Create))) {
        return Err(FOLDER_PRECONDITION);
    }
    MakeFolder::of(folder, asked.config)
}
