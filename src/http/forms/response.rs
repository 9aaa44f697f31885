//! Responses to a form with files: which were stored, for a program or for a person.

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use serde::Serialize;

use crate::http::head::syntax::encoded;
use crate::http::response::outcome::{FormHalted, Outcome, Published, StoredFile};
use crate::http::response::plain::put;
use crate::http::service::operation::{FormProgress, ResponseContext};

#[derive(Serialize)]
struct JsonFile<'a> {
    key: &'a str,
    /// None where the value was received and dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// The stored files, for a program.
pub fn json(files: &[StoredFile]) -> Vec<u8> {
    let files = files.iter().map(|StoredFile { key, published }| JsonFile {
        key: key.as_str(),
        etag: published.as_ref().map(Published::etag),
    });
    let files: Vec<_> = files.collect();
    let mut json = serde_json::to_vec(&files).unwrap_or_default();
    json.push(b'\n');
    json
}

/// Describes that.
pub fn describe_json(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// Leads a person to the page of `folder`. The address is relative to where forms are sent, so that it holds behind a proxy
/// that serves this server below a path.
pub fn lead_to_folder(headers: &mut HeaderMap, folder: &str) {
    put(headers, LOCATION, format!("../{}", encoded(folder)));
}

/// Why a form ended too early, for a client that is told how far it came.
pub fn halted(form: FormHalted, context: &ResponseContext) -> (Outcome, ResponseContext) {
    let key = |file: StoredFile| encoded(file.key.as_str()).to_string();
    let progress = FormProgress {
        folder: encoded(&form.folder).to_string(),
        file: form.file.map(|key| encoded(key.as_str()).to_string()),
        stored: form.stored.into_iter().map(key).collect(),
    };
    let context = ResponseContext {
        form: Some(Box::new(progress)),
        ..context.clone()
    };
    (form.why, context)
}
