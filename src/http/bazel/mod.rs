//! The action cache of Bazel: below the prefixes of `[[content]]` with `kind = "bazel-ac"` a value is an entry that
//! names outputs, which lie below `cas/` beside it.
//!
//! Promises that an entry is answered only while all that it names is there, so that a build which relies on it does
//! not fail, and that a GET or HEAD of it is a use of all that. What is no entry is answered as none.

mod action_result;

use async_trait::async_trait;
use bytes::Bytes;

use crate::access::Right;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::Outcome;
use crate::http::values::get::{GetOptions, get};
use crate::http::verb::{Parsed, Verb, parsed};
use crate::store::{Directory, Key, Purpose};
use action_result::{Blob, FILES, OUTPUTS, TREES, blobs};

/// The end of the prefix of an action cache, and that of its outputs in its place.
const ENDS: [&str; 2] = ["ac/", "cas/"];

/// The most bytes of an entry, and of the list of a directory's files, that are read.
const MOST: u64 = 1 << 20;

/// A GET of an entry.
struct EntryRequest {
    key: Key<'static>,
    /// The prefix of its outputs.
    outputs: String,
    options: GetOptions,
}

/// The GET of an entry of an action cache.
pub fn entry(asked: &RequestHead<'_>) -> Parsed {
    let entries = &asked.config.action_results;
    if entries.is_empty() || !asked.reads() || asked.folder()?.is_some() {
        return Ok(None);
    }
    let key = asked.key()?;
    let Some(prefix) = entries.prefix_of(key.as_str()) else {
        return Ok(None);
    };
    let outputs = prefix.strip_suffix(ENDS[0]).unwrap_or(prefix).to_owned() + ENDS[1];
    parsed(EntryRequest {
        key: key.into_owned(),
        outputs,
        options: GetOptions::of(asked.head, asked.config),
    })
}

#[async_trait(?Send)]
impl Verb for EntryRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        vec![Need::all(Right::Read, self.key.as_str())]
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        if let Some(directory) = request.service.store.directory()
            && !self.is_whole(directory).await?
        {
            directory.count_request(&self.key, false);
            return Err(NO_SUCH_KEY);
        }
        let found = get(request, &self.key, Some(&self.options), None).await?;
        found.map(Into::into).ok_or(NO_SUCH_KEY)
    }
}

impl EntryRequest {
    /// True if there is an entry, and all that it names.
    async fn is_whole(&self, directory: &Directory) -> Result<bool, Refusal> {
        let entry = read(directory, &self.key).await?;
        let (Some(outputs), Some(trees)) = (blobs(&entry, OUTPUTS), blobs(&entry, TREES)) else {
            return Ok(false);
        };
        if !self.are_there(directory, outputs).await? {
            return Ok(false);
        }
        for tree in trees {
            let mut files = Some(Vec::new());
            // Of a directory with more files only the list of them has to be there.
            if tree.len <= MOST {
                let list = read(directory, &self.output(&tree)?).await?;
                files = blobs(&list, FILES);
            }
            let Some(mut files) = files else {
                return Ok(false);
            };
            files.push(tree);
            if !self.are_there(directory, files).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn are_there(&self, directory: &Directory, blobs: Vec<Blob>) -> Result<bool, Refusal> {
        // Bazel never sends a blob of no bytes.
        let blobs = blobs.into_iter().filter(|blob| blob.len > 0);
        let keys: Result<_, Refusal> = blobs.map(|it| Ok((self.output(&it)?, it.len))).collect();
        Ok(directory.use_all(keys?).await?)
    }

    fn output(&self, blob: &Blob) -> Result<Key<'static>, Refusal> {
        Key::new(self.outputs.clone() + &blob.hash).map_err(|_| NO_SUCH_KEY)
    }
}

/// The value of `key`; what is no message where there is none, or one that is longer than [`MOST`].
async fn read(directory: &Directory, key: &Key<'_>) -> Result<Bytes, Refusal> {
    match directory.get(key, Purpose::Scan).await? {
        Some(found) if found.meta.len <= MOST => Ok(found.whole().await?),
        _ => Ok(Bytes::from_static(b"\xff")),
    }
}
