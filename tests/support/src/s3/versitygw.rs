//! `VersityGW`, a real S3 server: several processes over one directory, as several gateways of one store.
//!
//! `tests/run setup` builds it to `target/tools`. Without it a test says LEFT OUT, or fails where `DATA_SERVER_S3` is
//! `required`.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::process::{Process, Program};
use super::{Bucket, Keys};
use crate::{Certificates, Proc, left_out, tool};

/// What removes a directory when its standard input ends. A gateway that ends at the same time may still make a file.
const SWEEPER: &str = r#"read -r _; rm -rf -- "$1" || rm -rf -- "$1""#;

/// A store of one or more gateways, with an empty bucket.
pub struct VersityGw {
    pub bucket: Bucket,
    gateways: Vec<Process>,
    dir: TempDir,
}

impl VersityGw {
    /// Starts this many gateways over a new directory; `None`, where there is none to start.
    #[track_caller]
    pub fn start(gateways: usize) -> Option<Self> {
        Self::required()?;
        let dir = TempDir::new().expect("a temporary directory");
        fs::create_dir(dir.path().join("objects")).expect("the directory of the store");
        let keys = Keys::new("tester", "a-secret-of-tests");
        let start = |_| Process::start(|addr| gateway(dir.path(), &keys, addr, None));
        let gateways: Vec<Process> = (0..gateways).map(start).collect();
        let bucket = Bucket {
            endpoints: gateways.iter().map(|gateway| gateway.addr).collect(),
            name: "values".to_owned(),
            prefix: String::new(),
            region: "us-east-1".to_owned(),
            keys,
        };
        bucket.make();
        Some(Self {
            bucket,
            gateways,
            dir,
        })
    }

    /// Where the program is: as named by a variable, among the tools of this project, or on the path.
    pub fn program() -> Option<PathBuf> {
        let named = env::var_os("DATA_SERVER_VERSITYGW").map(PathBuf::from);
        named.or_else(|| tool("versitygw"))
    }

    /// The program; without it, the test is left out, or fails where it is required.
    #[track_caller]
    pub fn required() -> Option<PathBuf> {
        let program = Self::program();
        if program.is_none() {
            let is_required = env::var_os("DATA_SERVER_S3").is_some_and(|form| form == "required");
            assert!(!is_required, "DATA_SERVER_S3 requires versitygw");
            let why = "there is no versitygw, which `tests/run setup` builds where Go is";
            left_out("S3", why);
        }
        program
    }

    /// Starts one more gateway, which speaks TLS with the certificate of 127.0.0.1; its address.
    #[track_caller]
    pub fn secure(&mut self, certificates: &Certificates) -> SocketAddr {
        let tls = Some(certificates);
        let (dir, keys) = (self.dir.path(), &self.bucket.keys);
        let gateway = Process::start(|addr| gateway(dir, keys, addr, tls));
        let addr = gateway.addr;
        self.gateways.push(gateway);
        addr
    }

    /// Two gateways that all tests of this process share; each takes a prefix of its own.
    #[track_caller]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<(Child, VersityGw)>> = OnceLock::new();
        let swept = |store: Self| (sweep_at_the_end(store.dir.path()), store);
        let shared = SHARED.get_or_init(|| Self::start(2).map(swept));
        shared.as_ref().map(|(_, store)| store)
    }

    /// The process of one of the gateways.
    pub fn proc(&self, gateway: usize) -> Proc {
        Proc(self.gateways[gateway].pid)
    }

    /// Ends one of the gateways at once, and starts it again at the same address.
    #[track_caller]
    pub fn restart(&mut self, gateway: usize) {
        let addr = self.gateways[gateway].addr;
        self.kill(gateway);
        let again = self::gateway(self.dir.path(), &self.bucket.keys, addr, None);
        let again = Process::at(addr, &again);
        self.gateways[gateway] = again.expect("the address that it had before");
    }

    /// Ends one of the gateways at once.
    pub fn kill(&mut self, gateway: usize) {
        self.gateways[gateway].end();
    }

    /// The files of the objects, as the gateways keep them.
    pub fn objects(&self) -> PathBuf {
        self.dir.path().join("objects").join(&self.bucket.name)
    }
}

/// How a gateway is started at this address.
fn gateway(dir: &Path, keys: &Keys, addr: SocketAddr, tls: Option<&Certificates>) -> Program {
    // A page that only this process has: whatever else answers at the address is another one.
    let health = format!("/health-{}-{}", std::process::id(), addr.port());
    let args = ["--quiet", "--keep-alive", "--health", &health, "--port"];
    let mut args: Vec<_> = args.iter().map(Into::into).collect();
    args.push(addr.to_string().into());
    args.extend(tls.iter().flat_map(|tls| tls.options()));
    args.push("posix".into());
    args.push(dir.join("objects").into());
    Program {
        path: VersityGw::program().expect("a program, as was found before"),
        args,
        env: vec![
            ("ROOT_ACCESS_KEY", keys.id.clone()),
            ("ROOT_SECRET_KEY", keys.secret.clone()),
        ],
        health,
        healthy: &[200],
        authority: tls.map(Certificates::authority),
    }
}

/// Has this directory removed when this process ends, which drops nothing that is static.
fn sweep_at_the_end(dir: &Path) -> Child {
    let mut sweeper = Command::new("sh");
    sweeper.args(["-c", SWEEPER, "sh"]).arg(dir);
    sweeper.stdin(Stdio::piped()).stdout(Stdio::null());
    sweeper.stderr(Stdio::null()).spawn().expect("a shell")
}
