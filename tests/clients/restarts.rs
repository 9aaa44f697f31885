//! Restarts beside clients of each kind: who has a connection gets a response to each request, and only new connections
//! are refused.

use std::process::Child;

use crate::client::{environment, missing};
use crate::support::{self, prelude::*};
use crate::wire::Wire;

/// Clients, what each needs, a key that it uses, and a line of the shell that runs one at `$AT` until there is a file
/// `end`.
const CLIENTS: &str = "
    curl ; curl ; curl ; $PROGRAMS/restarts-curl.sh $AT end
    Go ; go ; go-0 ; go run $PROGRAMS/restarts.go $AT end
    Java ; javac ; java-0 ; java $PROGRAMS/Restarts.java $AT end
    Python ; python3 ; python-0 ; python3 $PROGRAMS/restarts.py $AT end
    h2load over HTTP/1.1 ; h2load ; read ; $PROGRAMS/restarts-h2load.sh $AT/read end --h1
    h2load over HTTP/2 ; h2load ; read ; env COUNTS=wire $PROGRAMS/restarts-h2load.sh $AT/read end -m 10
";

/// A client that runs.
struct Running {
    name: &'static str,
    key: &'static str,
    child: Child,
    home: TempDir,
}

impl Running {
    fn start(at: SocketAddr, name: &'static str, key: &'static str, line: &str) -> Self {
        let home = TempDir::new().expect("a directory");
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/programs");
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec {line}")]).env_clear();
        bash.envs(environment()).env("HOME", home.path());
        bash.envs([("PROGRAMS", programs), ("AT", &format!("http://{at}"))]);
        bash.current_dir(home.path()).stdout(Stdio::piped());
        let child = bash.stderr(Stdio::piped()).spawn().expect("bash");
        Self {
            name,
            key,
            child,
            home,
        }
    }

    /// Ends it: it has seen no error, and has met the server.
    #[track_caller]
    fn end(self) -> String {
        let name = self.name;
        fs::write(self.home.path().join("end"), "").expect("the end");
        let ended = self.child.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&ended.stdout);
        let why = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {said}{why}");
        say(&format!("RESTARTS: {name}: {}", said.trim()));
        assert!(!said.starts_with("0 "), "{name} was never answered");
        said.trim().to_owned()
    }
}

/// Starts a server, waits until each client has been answered some more, stops it, and so on.
#[test]
fn fifty_restarts_cost_no_client_a_request() {
    let dir = DataDir::temporary();
    dir.place("read", "value");
    let args = ["--http2-clear", "--threads", "2"];
    // No client's own address: a connection from a free port cannot take the server's while it is away.
    let mut server = Launch::new(&args).listen("127.0.0.77:0").on(&dir).start();
    let at = server.addr;
    let wire = Wire::to(at);
    let mut clients = Vec::new();
    for [name, need, key, line] in table(CLIENTS) {
        if let Some(need) = missing(need) {
            left_out(name, &format!("there is no `{need}`"));
            continue;
        }
        let by_wire = line.contains("COUNTS=wire");
        let at = if by_wire { wire.addr() } else { at };
        clients.push(Running::start(at, name, key, line));
    }
    for client in &clients {
        eventually(client.name, || dir.file(client.key).exists());
    }
    for _ in 0..50 {
        answers(&server);
        server.stop();
        server = Launch::new(&args).listen(&at.to_string()).on(&dir).start();
    }
    for client in clients {
        client.end();
    }
    let (asked, lost) = wire.end();
    say(&format!("RESTARTS: {asked} requests of HTTP/2 on the wire"));
    assert_eq!(lost, [[0; 0]; 0], "of {asked} requests on the wire");
}

/// Waits until this server has answered clients since its start.
fn answers(server: &TestServer) {
    let answered = || Scrape::of(server.addr).sum("data_server_requests_total", &[]);
    eventually("the clients go on", || answered() > 500.0);
}

/// With `max_fails=1` the first error of a server has nginx ask the other alone: here each error that a client sees
/// counts.
#[test]
fn nginx_passes_on_no_error_while_its_servers_restart_in_turn() {
    if let Some(need) = missing("nginx, h2load") {
        return left_out("restarts behind nginx", &format!("there is no `{need}`"));
    }
    let dirs = [(); 2].map(|()| DataDir::temporary());
    let start = |n: usize, at: &str| {
        let launch = Launch::new(&["--threads", "1"]).listen(at);
        launch.on(&dirs[n]).start()
    };
    for dir in &dirs {
        dir.place("read", "value");
    }
    let mut servers = [0, 1].map(|n| start(n, &format!("127.0.0.{}:0", 78 + n)));
    let [one, other] = servers.each_ref().map(|server| server.addr);
    let home = TempDir::new().expect("a directory");
    let front = SocketAddr::from(([127, 0, 0, 80], one.port()));
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|of| format!("{of}_temp_path {of};"));
    let settings = format!(
        "pid pid; daemon off; master_process off; error_log errors;\nevents {{}}\n\
         http {{ access_log off; {}\n\
         upstream store {{ server {one} max_fails=1 fail_timeout=1s; server {other} max_fails=1 fail_timeout=1s; keepalive 8; }}\n\
         server {{ listen {front}; location / {{ proxy_pass http://store; proxy_http_version 1.1; proxy_set_header Connection ''; }} }} }}\n",
        temporary.concat()
    );
    fs::write(home.path().join("conf"), settings).expect("its configuration");
    let mut nginx = Command::new("nginx");
    nginx.args(["-e", "errors", "-p", ".", "-c", "conf"]);
    let nginx = support::Running::spawn(nginx.current_dir(home.path())).expect("nginx");
    eventually("nginx listens", || TcpStream::connect(front).is_ok());
    let line = "$PROGRAMS/restarts-h2load.sh $AT";
    let reader = Running::start(front, "reads", "read", &format!("{line}/read end --h1"));
    let writer = format!("{line}/written end --h1 -d $PROGRAMS/restarts.go -H ':method: PUT'");
    let writer = Running::start(front, "writes", "written", &writer);
    for round in 0..20 {
        let turn = round % 2;
        // Both: nginx asks none for a second that failed.
        servers.iter().for_each(answers);
        servers[turn].stop();
        let at = servers[turn].addr.to_string();
        servers[turn] = start(turn, &at);
    }
    for client in [reader, writer] {
        let told = client.end();
        assert!(told.ends_with(" 0 refused"), "{told}");
    }
    drop(nginx);
    let errors = fs::read_to_string(home.path().join("errors")).expect("its log");
    let of_connections = |line: &&str| {
        !line.contains("connect() failed (111") && !line.contains("temporarily disabled")
    };
    assert_eq!(errors.lines().find(of_connections), None);
}
