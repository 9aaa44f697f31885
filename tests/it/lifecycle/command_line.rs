//! Proves what the command line says: words in place of options, what is wrong and what to do about it, and what was
//! given in vain.

use crate::support::prelude::*;

/// Words of the command line, what stands on standard error, and the exit code.
const WRONG: &str = "
--max-body 10XB ; give a number of bytes, or one with KiB, MiB, GiB, kB, MB or GB ; 2
--max-body -5 ; give a number of bytes ; 2
--thread 2 ; --threads ; 2
helth ; there is no command of this name; did you mean health? To serve a directory that is not there yet, give ./helth ; 2
nosuch ; there is no command of this name. To serve a directory that is not there yet, give ./nosuch or --dir nosuch ; 2
./a --dir b ; the directory is given twice ; 2
acces check FILE ; acces: there is no command of this name; did you mean access? ; 2
-p 9000 ; -p is no option: give --listen 127.0.0.1:9000, or --listen :9000 for all addresses ; 2
health --port 1 ; unexpected argument '--port' found ; 2
version --dir v ; unexpected argument '--dir' found ; 2
--threads 2 journal check --directory d ; unexpected argument '--directory' found ; 2
config chek FILE ; unrecognized subcommand 'chek' ; 2
help helth ; unrecognized subcommand 'helth' ; 2
--port=9000 ; --port is no option: give --listen 127.0.0.1:9000 ; 2
-d values ; -d is no option: give the directory alone, as in data-server ./values, or --dir ./values ; 2
--dir /etc/hostname ; /etc/hostname is no directory ; 1
/etc/hostname ; /etc/hostname is no directory ; 1
--read-only --dir /nonexistent ; a server that only reads makes no directory ; 1
--listen 192.0.2.1:0 --allow-anonymous ; no interface of this machine has this address ; 4
check-stores --store s3://values ; did you mean check-store? ; 2
check-store ; there is none to check; give s3://BUCKET ; 2
--listen 9000 ; a port without an address; give an address and a port, such as 127.0.0.1:9000, or :9000 for all addresses ; 2
--listen 10.0.0.1 ; an address without a port; give an address and a port, such as 10.0.0.1:8080 ; 2
--listen 127.0.0.1:99999 ; invalid port value; give an address and a port ; 2
--listen dav+127.0.0.1:0 --store s3://values ; --listen dav+http://127.0.0.1:0 cannot be had with --store ; 2
--listen s3+127.0.0.1:0 --store s3://values ; --listen s3+http://127.0.0.1:0 cannot be had with --store ; 2
--listen dav+127.0.0.1:0 --compat ; --listen dav+http://127.0.0.1:0 cannot be had with --compat ; 2
--listen s3+127.0.0.1:0 --compat ; --listen s3+http://127.0.0.1:0 cannot be had with --compat ; 2
--listen dav+127.0.0.1:0 --discard ; --listen dav+http://127.0.0.1:0 cannot be had with --discard ; 2
--listen s3+127.0.0.1:0 --discard ; --listen s3+http://127.0.0.1:0 cannot be had with --discard ; 2
--admin dav+127.0.0.1:0 ; it has neither folders nor buckets: give the address alone ; 2
--admin s3+127.0.0.1:0 ; it has neither folders nor buckets: give the address alone ; 2
--listen 0.0.0.0:0 ; other machines reach it, and anyone could write and delete; give --share ; 2
--listen https://127.0.0.1:0 ; give --tls-cert and --tls-key, or --tls-self-signed ; 2
--listen https://127.0.0.1:0 --tls-cert c ; give as many --tls-key as --tls-cert ; 2
--listen https+fd:3 ; give --tls-cert and --tls-key, or --tls-self-signed ; 2
--listen https://127.0.0.1:0 --tls-cert c --tls-key k --tls-self-signed ; exclude each other ; 2
--tls-cert c --tls-key k ; there is a certificate but no TLS listener: give --listen https://ADDR:PORT ; 2
--cors-origin https://App.example/ ; no browser spells an origin so; write https://app.example ; 2
--cache-control max-age:60 ; --cache-control ; 2
--admin nonsense ; --admin nonsense: ; 2
--trusted-proxy nonsense ; give one such as 10.0.0.0/8 ; 2
--store http://bucket ; it has to begin with s3://; give s3://BUCKET ; 2
--idle-timeout 60 ; time unit needed, for example 60sec ; 2
--threads many ; give a whole number ; 2
--threads 0 ; give a whole number from 1 to 1024 ; 2
--log-level loud ; possible values: off, error, warn, info, debug, trace ; 2
--log-format xml ; possible values: text, json ; 2
--max-connections -1 ; give a whole number from 1 to 4294967295 ; 2
--max-connections 0 ; give a whole number from 1 to 4294967295 ; 2
--max-staged much ; give a number of bytes ; 2
--allowed-host http://a ; no host name or address (without scheme, port and path), and not '*' ; 2
--grace-period ; a value is required for '--grace-period <DURATION>' but none was supplied ; 2
--listen nowhere ; give an address and a port, such as 127.0.0.1:8080, or :8080 for all addresses, or unix:PATH ; 2
--max-connections-per-ip 0 ; give a whole number ; 2
--durability yes ; possible values: os, disk ; 2
--foo ; unexpected argument '--foo' found ; 2
--config /nonexistent.toml ; /nonexistent.toml: No such file or directory ; 2
access explain FILE ; <SUBJECT> ; 2
health http://127.0.0.1:1 ; http://127.0.0.1:1: Connection refused ; 1
";

#[test]
fn what_is_wrong_is_told_with_what_to_do() {
    for [words, why, code] in table(WRONG) {
        let dir = TempDir::new().expect("a directory");
        let words: Vec<_> = words.split(' ').collect();
        let mut launch = Launch::new(&words).bare();
        let is_place = |word: &&str| word.contains("dir") || word.starts_with('/');
        if !words.iter().any(is_place) {
            launch = launch.env("DATA_SERVER_DIR", dir.path());
        }
        let ended = launch.run();
        ended.says(code.parse().expect("a code"), why);
        ended.says(code.parse().expect("a code"), "data-server: ");
    }
}

/// The same of what is named, which lies in the directory that `@` stands for.
const NAMED: &str = "
--access @/hash.toml ; hash.toml:3: no hash of a password: `data-server hash-password` makes one ; 1
--access @/digest.toml ; digest.toml:3: a token is given by its digest, as `data-server new-token` prints it ; 1
--access @/open.toml ; open.toml: every user of this machine may write it: chmod o-w ; 1
--access @/right.toml ; right.toml:4: may has one or more of read, create, write ; 1
--listen https://127.0.0.1:0 --tls-cert @/a.pem --tls-key @/b.key ; the key in @/b.key does not belong to the certificate in @/a.pem ; 1
--listen https://127.0.0.1:0 --tls-cert @/open.toml --tls-key @/b.key ; open.toml: there is no certificate in it ; 1
--dir @/held ; @/held is in use by another data-server (pid ; 3
";

#[test]
fn what_is_wrong_with_what_is_named_is_told_with_what_to_do() {
    directory_only!("directories that are in use");
    let dir = TempDir::new().expect("a directory");
    let ann = "[[subject]]\nname = \"ann\"\n";
    let rule = "[[rule]]\nwho = \"anonymous\"\nprefix = \"\"\nmay = [\"reed\"]\n";
    for (name, text, mode) in [
        ("hash.toml", format!("{ann}password = \"planted\"\n"), 0o600),
        ("digest.toml", format!("{ann}token = \"planted\"\n"), 0o600),
        ("open.toml", ann.to_owned(), 0o666),
        ("right.toml", rule.to_owned(), 0o600),
    ] {
        fs::write(dir.path().join(name), text).expect("a file");
        chmod(dir.path().join(name), mode);
    }
    let authority = Authority::new();
    let [a, b] = ["a", "b"].map(|name| authority.issue(name, &["localhost"]));
    fs::copy(&a.certificate, dir.path().join("a.pem")).expect("a certificate");
    fs::copy(&b.key, dir.path().join("b.key")).expect("a key");
    let held = dir.path().join("held");
    let held = held.to_str().expect("text");
    let _server = Launch::new(&[held, "--listen", "127.0.0.1:0"])
        .bare()
        .start();
    let here = dir.path().to_str().expect("text");
    for [words, why, code] in table(NAMED) {
        let (words, why) = (words.replace('@', here), why.replace('@', here));
        let words: Vec<_> = words.split(' ').collect();
        let own = TempDir::new().expect("a directory");
        let values = own.path().join("values");
        let launch = Launch::new(&words).bare();
        let ended = launch.env("DATA_SERVER_DIR", &values).run();
        assert!(!values.exists(), "{words:?}: made before it is refused");
        ended.says(code.parse().expect("a code"), &why);
    }
}

#[test]
fn a_file_is_no_directory_to_serve() {
    let place = TempDir::new().expect("a directory");
    fs::write(place.path().join("plain"), "").expect("a file");
    let here = place.path().to_str().expect("text");
    let launch = Launch::new(&["plain"]).bare().through(&["env", "-C", here]);
    launch
        .run()
        .says(2, "this is a file: values are served from a directory");
}

#[test]
fn a_wrong_variable_is_named_itself_and_a_port_that_is_taken_with_how_to_find_who_has_it() {
    let launch = Launch::new(&[]).bare();
    let ended = launch.env("DATA_SERVER_MAX_BODY", "lots").run();
    ended.says(2, "for DATA_SERVER_MAX_BODY: give a number of bytes");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address");
    let admin = Launch::new(&["--admin", &addr.to_string()]);
    for launch in [Launch::new(&[]).listen(&addr.to_string()), admin] {
        let ended = launch.run();
        ended.says(4, &format!("ss -ltnp 'sport = :{}'", addr.port()));
        ended.says(4, &addr.to_string());
    }
}

#[test]
fn a_directory_is_served_by_its_name_alone() {
    directory_only!("serves a directory that it is told");
    let dir = DataDir::temporary();
    dir.place("k", "value");
    let path = dir.path().to_str().expect("text").to_owned();
    let words = [path.as_str(), "--listen", "127.0.0.1:0"];
    // What is typed wins over the variable.
    let launch = Launch::new(&words)
        .bare()
        .env("DATA_SERVER_DIR", "/nonexistent");
    assert_eq!(launch.start().get("k").body, b"value");
}

#[test]
fn help_and_version_are_words_too() {
    for asked in [&["help"][..], &["-h"], &["--help"], &["help", "health"]] {
        let ended = Launch::new(asked).bare().run();
        assert!(ended.printed().contains("Usage: data-server"), "{asked:?}");
    }
    for word in ["version", "--version"] {
        let version = Launch::new(&[word]).bare().run();
        let expected = concat!("data-server ", env!("CARGO_PKG_VERSION"));
        assert_eq!((version.code, version.stdout.trim()), (Some(0), expected));
    }
    let help = words(&Launch::new(&["--help"]).bare().run().stdout).join(" ");
    for text in [
        "Refuse PUT, DELETE and all else that changes values or folders",
        "MOVE and COPY rename and copy a value or a folder, MKCOL makes a folder",
    ] {
        assert!(help.contains(text), "{help}");
    }
    // A page of a terminal has the options that most people need.
    let short = Launch::new(&["-h"]).bare().run().stdout;
    let named = |line: &&str| line.starts_with(' ') && line.trim_start().starts_with("--");
    assert_eq!(short.lines().filter(named).count(), 17, "{short}");
    assert!(short.contains("--help has all"), "{short}");
}

/// All else that a start logs is for a file or a service manager.
#[test]
fn on_a_terminal_a_start_says_one_line() {
    only_where!(is_on_path("script"), "a terminal", "there is no script");
    directory_only!("names the directory");
    let dir = TempDir::new().expect("a directory");
    let dir = dir.path().display();
    let binary = binary().display().to_string();
    // Without the variables of the tests, which would be told as unknown.
    let line = format!("echo $$; exec env -i {binary} --dir {dir} --listen 127.0.0.1:0");
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a terminal");
    let out = BufReader::new(terminal.stdout.take().expect("its output"));
    let lines = out.lines().map(|line| line.expect("a line"));
    let mut lines = lines.map(|line| line.trim().to_owned());
    let server: i32 = lines.next().expect("a line").parse().expect("a process");
    let said = lines.next().expect("a line");
    let server = rustix::process::Pid::from_raw(server).expect("a process");
    rustix::process::kill_process(server, Signal::TERM).expect("a signal");
    let rest: Vec<_> = lines.collect();
    let is_right = terminal.wait().expect("its end").success();
    assert!(is_right, "{said} {rest:?}");
    let expected = format!(
        "(data-server {}, {dir}, durability os)",
        env!("CARGO_PKG_VERSION")
    );
    let is_right = said.starts_with("listening on http://127.0.0.1:") && said.ends_with(&expected);
    assert!(is_right && rest.is_empty(), "{said} {rest:?}");
}

/// Options and variables that do nothing, and the warning of each.
const IN_VAIN: &str = "
--compat --site prefix='a/' ; - ; --site has no effect with --compat
--journal-dir /tmp/j ; - ; --journal-dir has no effect without --durability disk
--min-free 100PiB ; - ; no more than --min-free is free, and uploads are refused: free space, or give a lower --min-free
--read-only --max-body 5 ; - ; --max-body has no effect with --read-only
--read-only --max-size 1MiB ; - ; --max-size has no effect with --read-only
 ; DATA_SERVER_MAXBODY ; the variable DATA_SERVER_MAXBODY is no option; did you mean DATA_SERVER_MAX_BODY?
";

#[test]
fn what_is_given_in_vain_is_a_warning_at_the_start() {
    directory_only!("options of a directory");
    for [words, variable, warning] in table(IN_VAIN) {
        let words: Vec<_> = words.split_whitespace().collect();
        let mut launch = Launch::new(&words);
        if variable != "-" {
            launch = launch.env(variable, "5");
        }
        assert_eq!(launch.start().event(warning).level, "WARN", "{warning}");
    }
    // Kubernetes sets these for a service of this name.
    let launch = Launch::new(&[]).env("DATA_SERVER_PORT", "tcp://10.0.0.1:80");
    let mut server = launch.env("DATA_SERVER_SERVICE_HOST", "10.0.0.1").start();
    server.stop();
    let log = server.log().join("\n");
    assert!(!log.contains("is no option"), "{log}");
}

/// What only a start found before: a file of options, and what is wrong with what it names.
const CHECKED: &str = "
access = 'missing.toml' ; /missing.toml: No such file
listen = 'https://127.0.0.1:0'|tls-cert = 'missing.pem'|tls-key = 'missing.pem' ; missing.pem: 
dir = '/etc/hostname' ; /etc/hostname is no directory
read-only = true|dir = '/nonexistent' ; cannot open /nonexistent
";

#[test]
fn a_check_finds_what_a_start_would_find() {
    for [text, why] in table(CHECKED) {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("options.toml");
        let text = format!("{}\n", text.replace('|', "\n"));
        fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("text");
        let ended = Launch::new(&["config", "check", file]).bare().run();
        ended.says(1, why);
    }
}
