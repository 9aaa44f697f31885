//! tus-js-client: uploads that break off, and a server that is killed between their parts.

use std::os::unix::fs::symlink;

use crate::client::{Client, installed};
use crate::support::prelude::*;

/// Uploads the file of the first argument to the key of the second, in parts of 256 KiB.
const PROGRAM: &str = "
import fs from 'node:fs';
import { Upload } from 'tus-js-client';
const [file, endpoint] = process.argv.slice(2);
const upload = new Upload(fs.readFileSync(file), {
  endpoint,
  protocol: 'ietf-draft-05',
  chunkSize: 256 * 1024,
  retryDelays: Array(200).fill(50),
  onSuccess: () => process.exit(0),
  onError: (error) => { console.error(error.message); process.exit(1); },
});
upload.start();
";

#[test]
fn the_lines_for_tus_js_client_run() {
    let mut client = needed!(Client::of("tus-js-client"));
    let modules = installed().join("npm/node_modules");
    symlink(&modules, client.home().join("node_modules")).expect("a link");
    client.play();
    client.server().dir.assert_holds(&["data/numbers.txt"]);

    let (home, value) = (client.home(), pattern(1, 20_000_000));
    fs::write(home.join("value"), &value).expect("a file");
    fs::write(home.join("kills.mjs"), PROGRAM).expect("a program");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&[]).on(&dir).start();
    let addr = server.addr.to_string();
    let endpoint = format!("http://{addr}/k");
    let mut node = Command::new("node");
    node.args(["kills.mjs", "value", &endpoint]);
    let mut uploading = node.current_dir(&home).spawn().expect("node");
    for kill in 1..=4 {
        let comes = || received(&dir) >= kill * 4_000_000;
        eventually("more has been received", comes);
        server.kill();
        server = Launch::new(&[]).on(&dir).listen(&addr).start();
    }
    let status = uploading.wait().expect("its end");
    assert!(status.success(), "{status}");
    assert!(server.get("k").body == value);
    dir.assert_holds(&["k"]);
}

/// How much has been received of the one upload, or all of it.
fn received(dir: &DataDir) -> u64 {
    let data = dir.uploads().into_iter().find(|name| name.len() == 32);
    let path = data.map_or_else(|| dir.file("k"), |name| dir.own("uploads").join(name));
    fs::metadata(path).map_or(0, |meta| meta.len())
}
