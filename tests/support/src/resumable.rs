//! A client of resumable uploads (draft-ietf-httpbis-resumable-upload).

use std::path::PathBuf;

use super::{DataDir, Raw, Response, ask};

/// An upload resource.
#[derive(Clone, Debug)]
pub struct Resumable {
    /// The path of its URI.
    pub path: String,
}

impl Resumable {
    /// Creates one that waits for more, with these header lines, each ending in CRLF, and the first bytes of the value.
    #[track_caller]
    pub fn create(raw: &mut Raw, key: &str, lines: &str, first: &[u8]) -> Self {
        let lines = format!("Upload-Complete: ?0\r\n{lines}");
        let created = Self::ask_to_create(raw, key, &lines, first);
        assert_eq!(created.status, 201, "{created:?}");
        Self::of_key(&created, key)
    }

    /// The one that the response to a request of a key at the root leads to.
    #[track_caller]
    pub fn of(response: &Response) -> Self {
        Self::of_key(response, "")
    }

    /// The one that the response to a request of this key leads to: relative, as the server knows no path of a proxy.
    #[track_caller]
    pub fn of_key(response: &Response, key: &str) -> Self {
        let up = "../".repeat(key.matches('/').count());
        let path = response.must("location").strip_prefix(&up);
        let path = path.filter(|path| path.starts_with("-/"));
        let path = path.unwrap_or_else(|| panic!("{response:?}"));
        Self {
            path: format!("/{path}"),
        }
    }

    /// Its file, or with `.json` its record.
    pub fn file(&self, dir: &DataDir, suffix: &str) -> PathBuf {
        let id = self.path.rsplit('/').next().expect("an id");
        dir.own(&format!("uploads/{id}{suffix}"))
    }

    /// Sends a PUT with these header lines, and reads the final response.
    #[track_caller]
    pub fn ask_to_create(raw: &mut Raw, key: &str, lines: &str, body: &[u8]) -> Response {
        ask(raw, "PUT", &format!("/{key}"), lines, body)
    }

    /// Appends a part that begins at `offset`, the last one if `is_last`.
    #[track_caller]
    pub fn append(&self, raw: &mut Raw, offset: usize, is_last: bool, part: &[u8]) -> Response {
        self.append_with(raw, offset, is_last, "", part)
    }

    /// As [`Self::append`], with these header lines.
    #[track_caller]
    pub fn append_with(
        &self,
        raw: &mut Raw,
        offset: usize,
        is_last: bool,
        lines: &str,
        part: &[u8],
    ) -> Response {
        let lines = format!("{}{lines}", append_lines(offset, is_last));
        ask(raw, "PATCH", &self.path, &lines, part)
    }

    /// The head of a request that appends `len` bytes from `offset` on.
    pub fn append_head(&self, offset: usize, is_last: bool, len: usize) -> String {
        let (path, lines) = (&self.path, append_lines(offset, is_last));
        format!("PATCH {path} HTTP/1.1\r\nHost: t\r\nContent-Length: {len}\r\n{lines}\r\n")
    }

    /// Asks how much has been received.
    #[track_caller]
    pub fn state(&self, raw: &mut Raw) -> Response {
        ask(raw, "HEAD", &self.path, "", b"")
    }

    /// How much has been received.
    #[track_caller]
    pub fn offset(&self, raw: &mut Raw) -> usize {
        let state = self.state(raw);
        assert_eq!(state.status, 204, "{state:?}");
        state.must("upload-offset").parse().expect("an offset")
    }

    #[track_caller]
    pub fn cancel(&self, raw: &mut Raw) -> Response {
        ask(raw, "DELETE", &self.path, "", b"")
    }
}

fn append_lines(offset: usize, is_last: bool) -> String {
    let complete = u8::from(is_last);
    format!(
        "Content-Type: application/partial-upload\r\nUpload-Offset: {offset}\r\nUpload-Complete: ?{complete}\r\n"
    )
}
