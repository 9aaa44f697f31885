//! Proves that no symbolic link is followed on any level of a key's path, by no method and at no moment: nothing
//! outside the directory is read, written, removed, made or listed.

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::prelude::*;

/// The paths of all that lies below `path`, and what the files hold.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = entry.path();
            if entry.file_type().expect("its kind").is_dir() {
                folders.push(path.clone());
            }
            let content = fs::read(&path).unwrap_or_default();
            all.push((path.to_string_lossy().into_owned(), content));
        }
    }
    all.sort();
    all
}

#[test]
fn a_link_on_any_level_leads_nowhere() {
    let server = needed!(TestServer::of_directory("hands in the directory", &[]));
    let outside = server.dir.outside("outside");
    fs::create_dir_all(outside.join("b/c")).expect("folders outside");
    for file in ["k", "b/k", "b/c/k"] {
        fs::write(outside.join(file), "secret").expect("a file outside");
    }
    let before = contents(&outside);
    let absolute = outside.to_str().expect("text");
    // A chain of real folders with a link on one of its levels.
    for level in 0..3 {
        let targets = [
            absolute.to_owned(),
            format!("{}../outside", "../".repeat(level)),
            "real".to_owned(),
            ".".to_owned(),
            "..".to_owned(),
        ];
        for target in targets {
            let above = ["", "a", "a/b"][level];
            fs::create_dir_all(server.dir.file(above)).expect("real folders");
            let real = format!("{above}/real/k");
            server.dir.place(real.trim_start_matches('/'), "real");
            let link = format!("{above}/link");
            let link = link.trim_start_matches('/');
            symlink(&target, server.dir.file(link)).expect("a link");
            let names = server.dir.names();
            for below in ["k", "b/k", "b/c/k", "new", "b/new", "new/new", "link/k"] {
                let key = format!("{link}/{below}");
                for method in ["GET", "HEAD", "DELETE"] {
                    let got = server.ask(method, &key);
                    assert_eq!(got.status, 404, "{method} /{key} by {target}");
                }
                for size in [3, 300_000] {
                    let got = server.put(&key, vec![b'x'; size]);
                    assert_eq!(got.status, 409, "PUT /{key} by {target}");
                }
            }
            let listed = server.get("?limit=10000").text();
            assert!(!listed.contains("link"), "{listed}");
            let body = server.get(&format!("{link}/?format=json")).body;
            assert_eq!(body, b"{\"keys\":[],\"next\":null}\n");
            assert_eq!(server.dir.names(), names, "{link} to {target}");
            assert_eq!(contents(&outside), before, "{link} to {target}");
            server.dir.clear();
        }
    }
}

/// A folder that flips between itself and a link to one outside: what is written goes to the folder or nowhere.
#[test]
fn a_link_swapped_in_for_a_folder_is_never_followed() {
    directory_only!("hands in the directory");
    let dir = DataDir::in_memory();
    let server = Launch::new(&["--threads", "2"]).on(&dir).start();
    let outside = dir.outside("outside");
    fs::create_dir_all(outside.join("b")).expect("folders outside");
    fs::write(outside.join("b/k"), "secret").expect("a file outside");
    let before = contents(&outside);
    fs::create_dir_all(dir.file("a/b")).expect("a folder");
    symlink("../outside", dir.file("z")).expect("a link");
    let done = Done::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.is_said() {
                // The folder may be gone for a moment, when its last key was removed.
                let (a, z) = (dir.file("a"), dir.file("z"));
                let _ = renameat_with(CWD, &a, CWD, &z, RenameFlags::EXCHANGE);
                let _ =
                    fs::create_dir(dir.file("a")).and_then(|()| fs::create_dir(dir.file("a/b")));
            }
        });
        let _saying = done.when_dropped();
        let mut client = Client::new(server.addr);
        let enough = scaled(20, 100);
        let (mut stored, mut refused, mut removed) = (0, 0, 0);
        eventually("the race has been run", || {
            for n in 0..50 {
                let key = ["a/b/k", "a/b/c/k", "a/new/k"][n % 3];
                match client.put(key, "value").status {
                    200 => stored += 1,
                    409 => refused += 1,
                    other => panic!("PUT /{key}: {other}"),
                }
                let got = client.ask("GET", key);
                let is_right = got.status == 404 || (got.status == 200 && got.body == b"value");
                assert!(is_right, "GET /{key}: {got:?}");
                let listed = client.ask("GET", "a/?format=json");
                let listed = listed.text();
                assert!(!listed.contains("\"size\":6"), "{listed}");
                match client.ask("DELETE", key).status {
                    200 => removed += 1,
                    404 => {}
                    other => panic!("DELETE /{key}: {other}"),
                }
            }
            stored > 3 * enough && refused > enough && removed > enough
        });
        println!("{stored} stored, {refused} refused, {removed} removed");
    });
    assert_eq!(contents(&outside), before);
}
