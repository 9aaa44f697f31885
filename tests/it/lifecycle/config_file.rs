//! Proves the configuration file: what it may have, what wins over it, and how a fault in it is told.

use std::fmt::Write as _;

use clap::CommandFactory;
use data_server::Args;

use crate::support::prelude::*;

/// A directory with a file of options in it.
struct Written {
    place: TempDir,
}

impl Written {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let place = TempDir::new().expect("a directory");
        let written = Self { place };
        fs::write(written.path(), text).expect("a file");
        written
    }

    fn path(&self) -> String {
        let path = self.place.path().join("options.toml");
        path.to_str().expect("text").to_owned()
    }

    fn check(&self) -> Ended {
        Launch::new(&["config", "check", &self.path()]).bare().run()
    }
}

#[test]
fn a_server_has_the_options_of_its_file() {
    directory_only!("serves the directory that the file names");
    let dir = DataDir::temporary();
    let file = Written::new(format!(
        "# A comment.\ndir = {:?}\nlisten = \"127.0.0.1:0\"\nmax-body = 10\nread-only = false\nserver-timing = true\n\
         cors-origin = [\"https://a.example\", 'https://b.example']\nlog-format = \"json\"\n",
        dir.path()
    ));
    let server = Launch::new(&["--config", &file.path()]).bare().start();
    server.store("k", "10 letters");
    assert_eq!(dir.read("k"), b"10 letters");
    assert_eq!(server.put("k", "11 letters!").status, 413);
    assert!(server.get("k").header("server-timing").is_some());
    for origin in ["https://a.example", "https://b.example"] {
        let head =
            format!("GET /k HTTP/1.1\r\nHost: t\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n");
        let answer = server.connect().ask(head);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    }
}

#[test]
fn a_file_may_begin_with_a_byte_order_mark() {
    let file = Written::new("\u{feff}max-body = 10\r\nmin-free = 1\r\n");
    let checked = file.check();
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn the_command_line_wins_over_the_environment_and_both_over_the_file() {
    let file = Written::new("max-body = 1\nread-only = true\n");
    let allows = |launch: Launch| {
        let server = launch.env("DATA_SERVER_CONFIG", file.path()).start();
        let statuses = ["1", "12", "123"].map(|value| server.put("k", value).status);
        (statuses, server)
    };
    let (statuses, server) = allows(Launch::new(&[]));
    assert_eq!(statuses, [403; 3]);
    drop(server);
    // A switch that the file turns on is turned off by its variable.
    let off = |launch: Launch| allows(launch.env("DATA_SERVER_READ_ONLY", "no")).0;
    assert_eq!(off(Launch::new(&[])), [200, 413, 413]);
    let by_variable = Launch::new(&[]).env("DATA_SERVER_MAX_BODY", "2");
    assert_eq!(off(by_variable), [200, 200, 413]);
    let by_both = Launch::new(&["--max-body", "3"]).env("DATA_SERVER_MAX_BODY", "2");
    assert_eq!(off(by_both), [200, 200, 200]);
    // The file of the command line is read in place of that of the environment.
    let one = Written::new("max-body = 1\n");
    let other = Written::new("max-body = nonsense");
    let server = Launch::new(&["--config", &one.path()]).env("DATA_SERVER_CONFIG", other.path());
    assert_eq!(server.start().put("k", "12").status, 413);
}

/// Paths of a file are relative to it, wherever the server is started.
#[test]
fn paths_of_a_file_are_relative_to_it() {
    directory_only!("serves the directory that the file names");
    let file = Written::new(
        "dir = 'values'\nlisten = ['unix:socket', 'proxy+unix:sub/../other', '127.0.0.1:0']\naccess = 'access.toml'\n",
    );
    let at = |name: &str| file.place.path().join(name);
    fs::create_dir(at("sub")).expect("a folder");
    let rule = "[[rule]]\nwho = 'anonymous'\nmay = ['read', 'write']\n";
    fs::write(at("access.toml"), rule).expect("a file");
    let elsewhere = TempDir::new().expect("a directory");
    let launch = Launch::new(&["--config", &file.path()]).bare().through(&[
        "env",
        "-C",
        elsewhere.path().to_str().expect("text"),
    ]);
    let mut server = launch.start();
    server.store("k", "value");
    assert_eq!(fs::read(at("values/k")).expect("a value"), b"value");
    assert!(at("socket").exists() && at("other").exists());
    let left = fs::read_dir(elsewhere.path()).expect("a directory").count();
    assert_eq!(left, 0, "nothing is made where it was started");
    server.stop();
    let log = server.log().join("\n");
    assert!(log.contains(at("values").to_str().expect("text")), "{log}");
    let checked = file.check();
    let told = format!("values in {}; not checked", at("values").display());
    assert!(checked.stdout.contains(&told), "{}", checked.stdout);
}

#[test]
fn the_log_names_the_whole_path_of_the_directory() {
    directory_only!("has a directory");
    let place = TempDir::new().expect("a directory");
    let launch = Launch::new(&["./values", "--listen", "127.0.0.1:0"]).bare();
    let launch = launch.through(&["env", "-C", place.path().to_str().expect("text")]);
    let mut server = launch.start();
    server.stop();
    let (log, path) = (server.log().join("\n"), place.path().join("values"));
    assert!(log.contains(path.to_str().expect("text")), "{log}");
}

/// Each of several paths in one text is, and nothing that only looks like a path.
#[test]
fn every_path_of_a_text_is_relative_to_the_file_and_no_other_text_is() {
    let file = Written::new(
        "dir = 5\nlisten = 'unix:a,unix:b,127.0.0.1:0'\ncors-origin = 'http://unix:8080'\nread-only = true\n",
    );
    let at = |name: &str| file.place.path().join(name);
    fs::create_dir(at("5")).expect("a directory");
    let elsewhere = TempDir::new().expect("a directory");
    let away = ["env", "-C", elsewhere.path().to_str().expect("text")];
    let launch = Launch::new(&["--config", &file.path()]).bare();
    let _server = launch.through(&away).start();
    assert!(at("a").exists() && at("b").exists());
}

/// A file that comes through a descriptor is in no folder.
#[test]
fn paths_of_standard_input_are_relative_to_the_working_directory() {
    let (file, work) = (
        Written::new("dir = 'values'\n"),
        TempDir::new().expect("a directory"),
    );
    for stdin in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let script = "cd \"$0\"; file=$1; shift; exec \"$@\" < \"$file\"";
        let place = work.path().to_str().expect("text");
        let launch = Launch::new(&["config", "check", stdin]).bare();
        let launch = launch.through(&["sh", "-c", script, place, &file.path()]);
        let ended = launch.run();
        let told = format!("values in {}/values;", work.path().display());
        assert!(ended.printed().contains(&told), "{}", ended.stdout);
    }
}

/// systemd names the directory of a service, which the file of options may replace.
#[test]
fn a_service_has_its_own_directory_unless_its_file_names_another() {
    directory_only!("has a directory");
    let (state, file) = (DataDir::temporary(), Written::new("dir = 'other'\n"));
    // A unit may have several.
    let named = format!("{}:/nonexistent", state.path().display());
    let launch = |options: &[&str]| {
        let launch = Launch::new(&[options, &["--listen", "127.0.0.1:0"]].concat());
        launch.bare().env("STATE_DIRECTORY", &named).start()
    };
    launch(&[]).store("k", "its own");
    assert_eq!(state.read("k"), b"its own");
    launch(&["--config", &file.path()]).store("k", "another");
    let other = file.place.path().join("other/k");
    assert_eq!(fs::read(other).expect("a value"), b"another");
    assert_eq!(state.read("k"), b"its own");
}

#[test]
fn every_fault_of_a_file_is_told_in_its_order() {
    let file = Written::new("threads = 0\npin = true\nmax_body = 1\ndurability = 'disc'\n");
    let ended = file.check();
    assert_eq!(ended.code, Some(2));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, number) in lines.iter().zip([1, 3, 4]) {
        let place = format!("{}:{number}: ", file.path());
        assert!(line.contains(&place), "{line}");
    }
}

/// What is wrong in a file, whose lines end with `|`, in which line, and what is said of it.
const WRONG: &str = "
nonsense ; 1 ; expected
threads = 1|threads = 2| ; 2 ; duplicate key
threads =  ; 1 ; threads has no value
a = 1| ; 1 ; a cannot be set in a file
# max||max_body = 1| ; 3 ; max_body cannot be set in a file; did you mean max-body?
root = '/tmp'| ; 1 ; root cannot be set in a file
[log]|level = 'info'| ; 1 ; there are no sections such as [log]
man = true| ; 1 ; man cannot be set in a file
completions = 'bash'| ; 1 ; completions cannot be set in a file
config = 'other.toml'| ; 1 ; config cannot be set in a file
help = true| ; 1 ; help cannot be set in a file
threads = 0| ; 1 ; '--threads <N>': give a whole number from 1 to 1024
threads = 'nope'| ; 1 ; '--threads <N>': give a whole number
threads = true| ; 1 ; threads takes a string or an integer, not this boolean
threads = [1, 2]| ; 1 ; threads takes a string or an integer, not this array
max-body = 1.5| ; 1 ; not this float
upload-expiry = 1979-05-27| ; 1 ; not this datetime
read-only = 'yes'| ; 1 ; read-only takes true or false, not this string
allowed-host = ['a', true]| ; 1 ; allowed-host takes a string or an array of strings
durability = 'disc'| ; 1 ; [possible values: os, disk]
header-timeout = 10| ; 1 ; time unit needed
||listen = 'nowhere'| ; 3 ; --listen nowhere: 
durability = 'os'|listen = '0.0.0.0:0'| ; 2 ; give --share to let others read, --share=upload to let them add files, --access FILE
s3-region = 'x'| ; 1 ; s3-region needs --store
pin = true|s3-virtual-host = true| ; 2 ; s3-virtual-host needs --store
store = 's3://values'|dir = '/tmp'| ; 2 ; --dir cannot be had with --store
content = 1| ; 1 ; content takes a table, [[content]], not this integer
[content]|name = 'sha256'| ; 1 ; missing field `prefix`
pin = true|[[content]]|prefix = 'cas/'| ; 2 ; give name = 
[[content]]|prefix = 'cas/'|name = 'md5'| ; 1 ; unknown variant `md5`, expected `sha256`
[[content]]|prefix = 'cas/'|name = 'sha256'|threads = 1| ; 1 ; unknown field `threads`
[[content]]|name = 'sha256'|prefix = '/cas/'| ; 1 ; no key begins with '/': write
[[content]]|name = 'sha256'|prefix = 'a//'| ; 1 ; no key begins with this prefix
[[bound]]|max-keys = 1|[[bound]]|prefix = 'a/'| ; 3 ; it bounds nothing: give max-size, max-keys or max-age
[[site]]|index = 'x'| ; 1 ; missing field `prefix`
[[site]]|prefix = 'a'| ; 1 ; prefix: a site is a folder: write
[[site]]|prefix = '/a/'| ; 1 ; no key begins with '/': write
[[site]]|prefix = 'a/'|index = 'b/c'| ; 1 ; index: give the name of a value in a folder
[[site]]|prefix = 'a/'|index = ''| ; 1 ; index: give the name of a value in a folder
[[site]]|prefix = 'a/'|script = true| ; 1 ; unknown field `script`
threads = 1|[[site]]|prefix = 'a/'|[[site]]|prefix = 'a/'|scripts = true| ; 2 ; two sites have this prefix
[[bound]]|max-keys = 1|x = ['a']| ; 1 ; bound takes a table, [[bound]]
";

#[test]
fn a_fault_is_told_with_its_line_and_is_exit_code_2() {
    for [text, line, why] in table(WRONG) {
        let file = Written::new(text.replace('|', "\n"));
        let starts_with = format!("data-server: {}:{line}: ", file.path());
        let start = Launch::new(&["--config", &file.path()]).bare().run();
        for ended in [start, file.check()] {
            let said = ended.stderr.trim_end();
            let told = (ended.code, ended.stdout.as_str());
            assert_eq!(told, (Some(2), ""), "{text}: {said}");
            assert!(said.starts_with(&starts_with), "{text}: {said}");
            assert!(said.contains(why), "{text}: {said}");
            assert_eq!(said.lines().count(), 1, "{text}: {said}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let (bytes, place) = (Written::new(b"dir = '\xff'\n"), Written::new(""));
    let missing = place.path() + ".missing";
    let directory = place.place.path().to_str().expect("text").to_owned();
    for path in [missing, directory, bytes.path()] {
        let ended = Launch::new(&["--config", &path]).run();
        ended.says(2, &format!("data-server: {path}: "));
    }
}

#[test]
fn a_file_is_checked_without_a_start() {
    let dir = TempDir::new().expect("a directory");
    let values = dir.path().join("values");
    // Serving from a descriptor that is not passed would fail, and so would a port that is not free to this user.
    let file = Written::new(format!("dir = {values:?}\nlisten = 'fd:99'\n"));
    let checked = file.check();
    let ok = format!(
        "{}: ok; values in {}; not checked: whether the addresses are free; the directory, which is not there yet",
        file.path(),
        values.display()
    );
    assert_eq!(checked.printed(), ok);
    assert!(!values.exists());

    let check = Launch::new(&["config", "check"]).bare();
    let by_variable = check.env("DATA_SERVER_CONFIG", file.path()).run();
    assert_eq!(by_variable.printed(), ok);
    let none = Launch::new(&["config", "check"]).bare().run();
    none.says(2, "DATA_SERVER_CONFIG");
}

#[test]
fn options_of_a_file_fit_those_that_are_given_elsewhere() {
    let check = |text: &str| {
        let file = Written::new(text);
        let launch = Launch::new(&["config", "check", &file.path()]).bare();
        launch.env("DATA_SERVER_STORE", "s3://values").run()
    };
    assert_eq!(check("s3-region = 'x'\n").code, Some(0));
    check("compress = true\n").says(2, ":1: --compress cannot be had with --store");
    // What is wrong on the command line is no fault of the file.
    let file = Written::new("pin = false\n");
    let ended = Launch::new(&["--config", &file.path(), "--s3-region", "x"]);
    let ended = ended.bare().run();
    assert!(!ended.stderr.contains(&file.path()), "{}", ended.stderr);
    assert_eq!(ended.code, Some(2));
}

/// A file with every option that has a variable, those of an S3 store or the others, each with a value that it takes.
fn every_option(of_a_store: bool) -> String {
    let mut text = String::new();
    for option in Args::command().get_arguments() {
        let name = option.get_long().unwrap_or_default();
        let is_of_a_store = option.get_help_heading() == Some("An S3 store");
        // A certificate is given, or made; others have the rights of a file, or of --share.
        let excludes_another = matches!(name, "config" | "tls-self-signed" | "share");
        if option.get_env().is_none() || excludes_another || is_of_a_store != of_a_store {
            continue;
        }
        let default = option.get_default_values().first();
        let value = match (default, option.get_possible_values().first()) {
            _ if !option.get_action().takes_values() => "true".to_owned(),
            (Some(default), _) => format!("{:?}", default.to_str().expect("text")),
            (None, Some(possible)) => format!("{:?}", possible.get_name()),
            (None, None) => match name {
                "listen" | "admin" => "'https://127.0.0.1:0'".to_owned(),
                "cors-origin" => "['https://a.example', 'https://b.example']".to_owned(),
                "trusted-proxy" => "['10.0.0.0/8', 'unix']".to_owned(),
                "s3-endpoint" => "['http://127.0.0.1:1', 'http://127.0.0.1:2']".to_owned(),
                "store" => "'s3://values'".to_owned(),
                "bound" => "[{max-keys = 1}, {prefix = '{name}/', max-size = '1MiB'}]".to_owned(),
                "site" => "[{prefix = 'docs/', scripts = true}]".to_owned(),
                "content" => "[{prefix = 'cas/', name = 'sha256'}]".to_owned(),
                _ => "'1'".to_owned(),
            },
        };
        writeln!(text, "{name} = {value}").expect("a line");
    }
    text
}

#[test]
fn a_file_may_have_every_option() {
    for (of_a_store, at_least) in [(false, 30), (true, 8)] {
        let text = every_option(of_a_store);
        let ended = Written::new(&text).check();
        // The files that it names are not there; a store is not asked.
        let code = i32::from(!of_a_store);
        assert_eq!(ended.code, Some(code), "{}\n{text}", ended.stderr);
        assert!(text.lines().count() > at_least, "{text}");
    }
}
