//! Forms with files, as browsers send them.

use super::{Response, TestServer};

/// The delimiter of the parts of a form.
pub const BOUNDARY: &str = "----WebKitFormBoundaryo2Jt5";

/// The line of a head that says that a form comes.
pub const FORM: &str =
    "Content-Type: multipart/form-data; boundary=----WebKitFormBoundaryo2Jt5\r\n";

/// What follows `form-data; ` in the head of a part that is the folder of the files, or says that they replace others.
pub const FOLDER: &str = "name=\"folder\"";
pub const REPLACE: &str = "name=\"replace\"";

/// The same of a file.
pub fn file(name: &str) -> String {
    format!("name=\"file\"; filename=\"{name}\"")
}

/// The body of a form: of each part what follows `form-data; ` in its head, and its data.
pub fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let part = |(head, data): &(&str, &[u8])| {
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), data, b"\r\n"].concat()
    };
    let parts = parts.iter().flat_map(part);
    parts
        .chain(format!("--{BOUNDARY}--\r\n").into_bytes())
        .collect()
}

impl TestServer {
    /// Posts a form of these parts on a connection of its own, with these header lines.
    #[track_caller]
    pub fn post(&self, lines: &str, parts: &[(&str, &[u8])]) -> Response {
        self.request("POST", "/-/upload", &format!("{lines}{FORM}"), &form(parts))
    }
}
