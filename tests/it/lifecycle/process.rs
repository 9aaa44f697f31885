//! Proves the outside of a running process: options and environment, threads and their names, limits and warnings.

use rustix::process::{Pid, kill_process};

use crate::support::prelude::*;

#[test]
fn listening_beyond_loopback_logs_one_warning() {
    let warning = "--allow-anonymous: anyone who reaches";
    let cases: [(&str, &[&str], usize); 3] = [
        ("0.0.0.0:0", &["--allow-anonymous"], 1),
        ("0.0.0.0:0", &["--allow-anonymous", "--read-only"], 0),
        ("127.0.0.1:0", &["--allow-anonymous"], 0),
    ];
    for (addr, args, warnings) in cases {
        let mut server = Launch::new(args).listen(addr).start();
        server.stop();
        let log = server.log();
        let found: Vec<_> = log.iter().filter(|line| line.contains(warning)).collect();
        assert_eq!(found.len(), warnings, "{addr} {args:?}: {log:#?}");
        let mut is_right = found.iter();
        let is_right = is_right.all(|line| line.contains("WARN") && line.contains("0.0.0.0"));
        assert!(is_right, "{found:?}");
    }
}

#[test]
fn option_aliases_work() {
    directory_only!("the options of a directory");
    let dir = DataDir::temporary();
    let root = dir.path().to_str().expect("text");
    let server = Launch::new(&["--workers", "2", "--root", root, "--bind", "127.0.0.1:0"]);
    let server = server.bare().start();
    server.store("k", "value");
    assert_eq!(reactors(&server).len(), 2);
    dir.assert_holds(&["k"]);
}

/// The CPUs of each reactor, in the order of the reactors' numbers, which have no gap.
fn reactors(server: &TestServer) -> Vec<String> {
    let threads = server.proc().threads();
    let of = |n: usize| {
        threads
            .iter()
            .find(|(name, _)| *name == format!("reactor-{n}"))
    };
    (0..).map_while(of).map(|(_, cpus)| cpus.clone()).collect()
}

#[test]
fn threads_are_named_and_32_reactors_serve() {
    let server = TestServer::start(&["--threads", "32"]);
    let named = |wanted: &str| {
        let threads = server.proc().threads();
        threads.iter().any(|(name, _)| name == wanted)
    };
    // A thread sets its own name, some time after it starts.
    eventually("there is an acceptor", || named("acceptor"));
    eventually("there are 32 reactors", || reactors(&server).len() == 32);
    let mut connections: Vec<Raw> = (0..64).map(|_| server.connect()).collect();
    for (n, connection) in connections.iter_mut().enumerate() {
        let found = connection.put(&format!("k{n}"), "value").status;
        assert_eq!(found, 200, "connection {n}");
    }
    assert_eq!(server.dir.names().len(), 64);
}

#[test]
fn pinned_reactors_have_one_cpu_each() {
    let cpus = thread::available_parallelism().expect("CPUs").get();
    let pinned = reactors(&TestServer::start(&["--threads", "4", "--pin"]));
    let is_right = pinned.iter().all(|cpu| cpu.parse::<usize>().is_ok());
    assert!(is_right, "{pinned:?}");
    let distinct: BTreeSet<_> = pinned.iter().collect();
    assert_eq!(distinct.len(), cpus.min(4), "{pinned:?} on {cpus} CPUs");
    let free = reactors(&TestServer::start(&["--threads", "2"]));
    let is_right = cpus == 1 || free.iter().all(|cpus| cpus.parse::<usize>().is_err());
    assert!(is_right, "{free:?}");
}

/// The CPUs of each thread whose name has this prefix.
fn cpus_of(server: &TestServer, kind: &str) -> Vec<String> {
    let threads = server.proc().threads().into_iter();
    let of_kind = threads.filter(|(name, _)| name.starts_with(kind) && name != "disk-publisher");
    of_kind.map(|(_, cpus)| cpus).collect()
}

/// A reactor starts these threads when needed, and they would inherit its CPU.
#[test]
fn threads_beside_pinned_reactors_keep_to_the_cpus_that_are_left() {
    // A server of a store has disk threads for uploads that wait alone.
    let kinds = by_engine(&["disk-", "compute-"][..], &["compute-"]);
    let cpus = thread::available_parallelism().expect("CPUs").get();
    for reactors in 1..=cpus {
        let threads = reactors.to_string();
        let server = TestServer::start(&["--threads", &threads, "--pin", "--compute-threads", "2"]);
        eventually("two threads of each kind are there", || {
            thread::scope(|scope| {
                for n in 0..8 {
                    let key = format!("k{n}");
                    let server = &server;
                    scope.spawn(move || {
                        server.store(&key, pattern(n, 1_000_000));
                        let mut asking = server.connect();
                        let digest = "Want-Repr-Digest: sha-512=1";
                        asking.ask(format!(
                            "HEAD /{key} HTTP/1.1\r\nHost: t\r\n{digest}\r\n\r\n"
                        ));
                    });
                }
            });
            let enough = |kind| cpus_of(&server, kind).len() >= 2;
            kinds.iter().copied().all(enough)
        });
        let all = cpus_of(&server, "data-server").remove(0);
        let pinned = cpus_of(&server, "reactor-");
        for theirs in kinds.iter().flat_map(|kind| cpus_of(&server, kind)) {
            if reactors == cpus {
                assert_eq!(theirs, all, "no CPU is left: they have all");
            } else {
                assert!(!pinned.contains(&theirs), "{theirs} is among {pinned:?}");
                assert_ne!(theirs, all);
            }
        }
    }
}

#[test]
fn the_soft_limit_on_open_files_is_raised_to_the_hard_one() {
    let server = Launch::new(&[]).through(&["prlimit", "--nofile=100:3000"]);
    assert_eq!(server.start().proc().nofile(), (3000, 3000));
}

/// It was heard when the store's time was over, and ended with 1; a container was killed before.
#[test]
fn a_signal_is_heard_while_the_server_starts() {
    directory_only!("a store of its own");
    for signal in [Signal::TERM, Signal::INT] {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let endpoint = format!("http://{}", silent.local_addr().expect("its address"));
        let place = TempDir::new().expect("a directory");
        let pid = place.path().join("pid");
        let told = format!("echo $$ >'{}'; exec \"$@\"", pid.display());
        let args = words("--listen 127.0.0.1:0 --store s3://bucket --s3-endpoint");
        let launch = Launch::new(&[&args[..], &[&endpoint]].concat()).bare();
        let launch = launch.env("AWS_ACCESS_KEY_ID", "a");
        let launch = launch.env("AWS_SECRET_ACCESS_KEY", "a");
        let ended = thread::scope(|scope| {
            let run = scope.spawn(|| launch.through(&["sh", "-c", &told, "sh"]).run());
            let _asked = silent.accept().expect("the server asks the store");
            let pid = fs::read_to_string(&pid).expect("its number");
            let pid = Pid::from_raw(pid.trim().parse().expect("a number"));
            kill_process(pid.expect("a number"), signal).expect("it runs");
            run.join().expect("its end")
        });
        assert_eq!(ended.code, Some(0), "{signal:?}: {}", ended.stderr);
    }
}
