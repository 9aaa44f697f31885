//! Requests and their answers as a table: what a client says to a server and is answered, one row after the other.

use std::fs;
use std::os::unix::fs::symlink;

use super::policy::bearer;
use super::{TestServer, ask, table};

impl TestServer {
    /// Asks for the requests of these rows, one after the other on one connection as long as that stays, and asserts
    /// what they are answered, and that one that is refused leaves each name as it was:
    ///
    /// `METHOD /target body ; status ; lines ; text ; fields`
    ///
    /// The last word of a MOVE or COPY is its Destination. Lines are parted by ` | `, and `as ann` is the line by which
    /// `ann` proves who asks. The body has each text, which ` | ` parts, or is what follows a `=`. The answer has each
    /// field, and none whose value is `-`. A status behind `~` is one of a request that is refused after a part of it
    /// was done. `{x300}` stands for 300 times `x`, `@KEY` in a line for the tag of that value, and a comma between
    /// methods for the same of each.
    ///
    /// What a hand does is in lower case: `place KEY VALUE`, `mkdir FOLDER`, `link NAME TO`, `remove KEY`, `clear`, and
    /// `holds KEY...`, which asserts that the directory has these and no others.
    #[track_caller]
    pub fn talk(&self, rows: &str) {
        let (rows, mut wrong, mut raw) = (repeated(rows), Vec::new(), self.connect());
        for row in table::<5>(&rows).flat_map(each_method) {
            let [request, status, lines, texts, fields] = row.each_ref().map(|cell| &**cell);
            let mut words = request.splitn(3, ' ');
            let [method, target, last] = [(); 3].map(|()| words.next().unwrap_or_default());
            if method == method.to_lowercase() {
                self.by_hand(method, target, last);
                continue;
            }
            let lines =
                parts(lines).map(
                    |line| match (line.strip_prefix("as "), line.split_once('@')) {
                        (Some(name), _) => bearer(name),
                        (_, Some((field, key))) => {
                            format!("{field}{}\r\n", self.get(key).must("etag"))
                        }
                        _ => format!("{line}\r\n"),
                    },
                );
            let mut lines = lines.collect::<Vec<_>>().concat();
            let is_move = matches!(method, "MOVE" | "COPY");
            if is_move {
                lines = format!("Destination: {last}\r\n{lines}");
            }
            let (is_partial, status) = (status.starts_with('~'), status.trim_start_matches('~'));
            let status: u16 = status.parse().expect("a status");
            let is_unmade = status >= 400 && !is_partial && !matches!(method, "GET" | "HEAD");
            let before = is_unmade.then(|| self.dir.names());
            let body = if is_move { "" } else { last };
            let got = ask(&mut raw, method, target, &lines, body.as_bytes());
            if got.closes() {
                raw = self.connect();
            }
            let body = String::from_utf8_lossy(&got.body);
            let has_text = parts(texts).all(|text| match text.strip_prefix('=') {
                Some(whole) => body == whole,
                None => body.contains(text),
            });
            let has_fields = parts(fields).all(|field| match field.split_once(": ") {
                Some((name, "-")) => got.header(name).is_none(),
                Some((name, value)) => got.all(name) == value,
                None => got.header(field).is_some(),
            });
            let is_as_before = before.is_none_or(|before| before == self.dir.names());
            if got.status != status || !has_text || !has_fields || !is_as_before {
                let head = (got.status, &got.headers);
                wrong.push(format!(
                    "{row:?}: {head:?} {body:?}, unchanged {is_as_before}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[track_caller]
    fn by_hand(&self, act: &str, name: &str, rest: &str) {
        match act {
            "place" => self.dir.place(name, rest),
            "mkdir" => fs::create_dir_all(self.dir.file(name)).expect("a folder"),
            "link" => symlink(rest, self.dir.file(name)).expect("a link"),
            "remove" => self.dir.remove(name),
            "clear" => self.dir.clear(),
            "holds" => {
                let rest = rest.split(' ').chain([name]);
                self.dir
                    .assert_holds(&rest.filter(|key| !key.is_empty()).collect::<Vec<_>>());
            }
            _ => panic!("nobody can {act}"),
        }
    }
}

/// A row for each method that its request names.
fn each_method(row: [&str; 5]) -> impl Iterator<Item = [String; 5]> {
    let (methods, rest) = row[0].split_once(' ').unwrap_or((row[0], ""));
    methods.split(',').map(move |method| {
        let mut row = row.map(str::to_owned);
        row[0] = format!("{method} {rest}");
        row
    })
}

fn parts(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(" | ").filter(|part| !part.is_empty())
}

/// The text with what stands for repeated characters as they are.
fn repeated(text: &str) -> String {
    let mut pieces = text.split('{');
    let first = pieces.next().map(str::to_owned);
    let others = pieces.map(|piece| {
        let times = piece.split_once('}').and_then(|(what, rest)| {
            let (of, times) = what.split_at_checked(1)?;
            Some(of.repeat(times.parse().ok()?) + rest)
        });
        times.unwrap_or_else(|| format!("{{{piece}"))
    });
    first.into_iter().chain(others).collect()
}
