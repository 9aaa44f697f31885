//! A proxy in front of a server: `haproxy` or nginx, the programs themselves.

use socket2::{Domain, Socket, Type};

use crate::prelude::*;

/// A proxy, until it is dropped.
pub struct Proxy {
    _program: Running,
    pub addr: SocketAddr,
    _home: TempDir,
    /// Keeps the port for it.
    _port: Socket,
}

/// A port that only who shares it may have.
fn port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_port(true).expect("a shared port");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a port");
    let address = socket.local_addr().expect("an address");
    (socket, address.as_socket().expect("an address"))
}

impl Proxy {
    /// Starts `program` with the configuration that `text` makes for its address; none where there is no such program.
    #[track_caller]
    fn start(program: &[&str], text: impl FnOnce(SocketAddr) -> String) -> Option<Self> {
        if !is_on_path(program[0]) {
            left_out("a proxy in front", &format!("there is no {}", program[0]));
            return None;
        }
        let home = TempDir::new().expect("a directory");
        let (port, addr) = port();
        fs::write(home.path().join("conf"), text(addr)).expect("its configuration");
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(home.path());
        let running = Running::spawn(&mut command).expect("it runs");
        eventually("the proxy listens", || TcpStream::connect(addr).is_ok());
        Some(Self {
            _program: running,
            addr,
            _home: home,
            _port: port,
        })
    }

    /// `haproxy`, with these lines for its clients and this server.
    #[track_caller]
    pub fn haproxy(clients: &str, server: &str) -> Option<Self> {
        let text = |addr| {
            format!(
                "defaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
                 frontend clients\n bind {addr}\n {clients}\n default_backend values\n\
                 backend values\n server one {server}\n"
            )
        };
        Self::start(&["haproxy", "-db", "-f", "conf"], text)
    }

    /// nginx, with these lines for what is below `path`.
    #[track_caller]
    pub fn nginx(path: &str, location: &str) -> Option<Self> {
        let text = |addr| {
            let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
            let paths = paths.map(|of| format!("{of}_temp_path {of};")).concat();
            format!(
                "pid pid; daemon off; master_process off; error_log stderr;\nevents {{}}\n\
                 http {{ access_log off; {paths}\n\
                 server {{ listen {addr} reuseport; location {path} {{ {location} }} }} }}\n"
            )
        };
        Self::start(&["nginx", "-e", "stderr", "-p", ".", "-c", "conf"], text)
    }
}
