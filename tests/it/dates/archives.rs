//! Dates of files that come and go in archives, by the programs that people use.

use super::THEN;
use crate::support::prelude::*;

/// A folder with files of these dates, in seconds since 1970.
fn place(files: &[(&str, u64)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, second) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, name).expect("a file");
        let file = File::options().write(true).open(&path).expect("the file");
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(*second);
        file.set_modified(date).expect("its date");
    }
    folder
}

fn run(program: &str, args: &[&str], within: &Path) -> Vec<u8> {
    let mut command = Command::new(program);
    let ended = command
        .args(args)
        .env("TZ", "UTC")
        .current_dir(within)
        .output();
    let ended = ended.expect(program);
    assert!(ended.status.success(), "{program}: {ended:?}");
    ended.stdout
}

fn second(path: &Path) -> i64 {
    fs::metadata(path).expect("a file").mtime()
}

#[test]
fn files_keep_their_dates_through_a_tar_in_and_a_tar_or_zip_out() {
    let server = TestServer::start(&[]);
    let files = [("a.jpg", THEN), ("b/c.jpg", 1_700_000_001), ("b/first", 1)];
    let folder = place(&files);
    for format in ["--format=gnu", "--format=pax", "--format=ustar"] {
        let tar = run("tar", &[format, "-cf", "-", "."], folder.path());
        let put = server.request("PUT", "/in/?archive=tar", "", &tar);
        assert_eq!(put.status, 200, "{put:?}");
        for (program, archive, args) in [("tar", "tar", &["-xf"][..]), ("unzip", "zip", &["-q"])] {
            if !is_on_path(program) {
                left_out(&this_test(), &format!("there is no {program}"));
                continue;
            }
            let got = server.request("GET", &format!("/in/?archive={archive}"), "", b"");
            let into = TempDir::new().expect("a folder");
            let path = into.path().join("archive");
            fs::write(&path, &got.body).expect("a file");
            run(program, &[args, &[text(&path)]].concat(), into.path());
            for (name, date) in files {
                let second = second(&into.path().join(name));
                assert_eq!(
                    second,
                    i64::try_from(date).expect("a date"),
                    "{program} {name}"
                );
            }
        }
    }
    if !is_s3() {
        let put = server.request("GET", "/in/a.jpg", "", b"");
        assert_eq!(put.header("x-oc-mtime"), Some("981173106"));
    }
}

/// Such a header is what a program writes that knows no date.
#[test]
fn a_tar_that_tells_no_date_gives_none_and_a_bad_one_keeps_no_file_out() {
    let server = TestServer::start(&[]);
    let odd = crate::archives::tar([("x", &b"v"[..])]);
    for field in [
        [0; 12],
        *b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        *b"not a number",
    ] {
        let mut odd = odd.clone();
        let mut header = tar::Header::from_byte_slice(&odd[..512]).clone();
        header.as_old_mut().mtime = field;
        header.set_cksum();
        odd[..512].copy_from_slice(header.as_bytes());
        let put = server.request("PUT", "/?archive=tar", "", &odd);
        assert_eq!(put.status, 200, "{put:?}");
        assert_eq!(server.get("x").header("x-oc-mtime"), None);
    }
}

#[test]
fn curl_sends_and_gets_the_date_of_a_file() {
    let server = Launch::new(&[]).in_the_clear().start();
    let folder = place(&[("a.jpg", THEN)]);
    let url = format!("http://{}/a.jpg", server.addr);
    let line = format!("X-OC-Mtime: {THEN}");
    run(
        "curl",
        &["-sS", "-H", &line, "-T", "a.jpg", &url],
        folder.path(),
    );
    let head = run("curl", &["-sSI", &url], folder.path());
    let head = String::from_utf8(head).expect("text").to_lowercase();
    assert!(head.contains("\r\nx-oc-mtime: 981173106\r\n"), "{head}");
}
