//! Stores that the full form of the torture suite tries: what they do with conditions differs.
//!
//! `tests/torture/stores` installs them to `target/tools`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::process::{Process, Program, free_addr};
use super::{Bucket, Keys};
use crate::{left_out, tool};

/// A store that is known for what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ignores every condition.
    Garage,
    /// Keeps the conditions of PUT, and ignores those of DELETE.
    Minio,
    /// Keeps conditions as long as no other client writes.
    S3sFs,
}

/// One of them, with an empty bucket.
pub struct OtherStore {
    pub bucket: Bucket,
    _process: Process,
    _dir: TempDir,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Garage, Self::Minio, Self::S3sFs];

    fn name(self) -> &'static str {
        match self {
            Self::Garage => "garage",
            Self::Minio => "minio",
            Self::S3sFs => "s3s-fs",
        }
    }

    /// Garage wants digits of its own.
    fn keys(self) -> Keys {
        match self {
            Self::Garage => Keys::new(
                &format!("GK{}", "0123456789ab".repeat(2)),
                &"5ec2e7".repeat(11)[..64],
            ),
            Self::Minio | Self::S3sFs => Keys::new("tester", "a-secret-of-tests"),
        }
    }

    /// How it is started at this address, with its files in `dir`.
    fn program(self, dir: &Path, addr: SocketAddr) -> Option<Program> {
        let Keys { id, secret, .. } = self.keys();
        let (port, objects) = (addr.port().to_string(), dir.as_os_str());
        let (args, env): (Vec<OsString>, _) = match self {
            Self::Garage => {
                let config = dir.join("garage.toml");
                fs::write(&config, garage(dir, addr)).expect("its configuration");
                let args = ["server", "--single-node", "--default-bucket"];
                let args = args.iter().map(Into::into);
                (
                    ["-c".into(), config.into()]
                        .into_iter()
                        .chain(args)
                        .collect(),
                    vec![
                        ("GARAGE_DEFAULT_ACCESS_KEY", id),
                        ("GARAGE_DEFAULT_SECRET_KEY", secret),
                        ("GARAGE_DEFAULT_BUCKET", "values".to_owned()),
                    ],
                )
            }
            Self::Minio => (
                ["server", "--quiet", "--address", &addr.to_string()]
                    .iter()
                    .map(Into::into)
                    .chain([objects.to_owned()])
                    .collect(),
                vec![("MINIO_ROOT_USER", id), ("MINIO_ROOT_PASSWORD", secret)],
            ),
            Self::S3sFs => (
                [
                    "--access-key",
                    &id,
                    "--secret-key",
                    &secret,
                    "--host",
                    "127.0.0.1",
                    "--port",
                    &port,
                ]
                .iter()
                .map(Into::into)
                .chain([objects.to_owned()])
                .collect(),
                Vec::new(),
            ),
        };
        Some(Program {
            path: tool(self.name())?,
            args,
            env,
            health: "/".to_owned(),
            // A request without a signature is refused once the store serves.
            healthy: &[400, 403, 404, 405],
            authority: None,
        })
    }
}

impl OtherStore {
    /// The one that `DATA_SERVER_S3_STORE` names, which all tests of this process share; each takes a prefix of its own.
    #[track_caller]
    pub fn named() -> Option<&'static Self> {
        static NAMED: OnceLock<Option<OtherStore>> = OnceLock::new();
        let name = env::var("DATA_SERVER_S3_STORE").ok()?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.unwrap_or_else(|| panic!("no store is named {name}"));
        NAMED.get_or_init(|| Self::start(kind)).as_ref()
    }

    /// Starts it; `None`, where it is not installed.
    #[track_caller]
    pub fn start(kind: Kind) -> Option<Self> {
        if tool(kind.name()).is_none() {
            left_out(kind.name(), "tests/torture/stores installs it");
            return None;
        }
        let dir = TempDir::new().expect("a temporary directory");
        let process =
            Process::start(|addr| kind.program(dir.path(), addr).expect("it is installed"));
        let bucket = Bucket {
            endpoints: vec![process.addr],
            name: "values".to_owned(),
            prefix: String::new(),
            region: "us-east-1".to_owned(),
            keys: kind.keys(),
        };
        if kind != Kind::Garage {
            bucket.make();
        }
        Some(Self {
            bucket,
            _process: process,
            _dir: dir,
        })
    }
}

/// The configuration of Garage.
fn garage(dir: &Path, addr: SocketAddr) -> String {
    let (dir, secret, rpc) = (dir.display(), "5ec2e7".repeat(11), free_addr());
    format!(
        "metadata_dir = \"{dir}/meta\"\ndata_dir = \"{dir}/data\"\ndb_engine = \"sqlite\"\nreplication_factor = 1\n\
         rpc_bind_addr = \"{rpc}\"\nrpc_public_addr = \"{rpc}\"\nrpc_secret = \"{}\"\n\n\
         [s3_api]\ns3_region = \"us-east-1\"\napi_bind_addr = \"{addr}\"\n",
        &secret[..64]
    )
}
