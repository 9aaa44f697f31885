//! The clients that people already have: the real programs, against the real binary.
//!
//! Each client has a section in docs/clients.md, with the lines that a user pastes; a build cache has its lines in
//! docs/caching.md. A row of `plain`, or the module of the client, runs these lines, then judges what lies in the
//! directory and what else the client can do. A client that is not installed is LEFT OUT; `tests/clients/install`
//! installs what is no Debian package. `DATA_SERVER_CLIENTS=required`, which `.ci/run` sets, asks for enough of them;
//! `DATA_SERVER_CLIENTS=full` also runs what takes long.

mod client;
mod page;

mod access;
mod caches;
mod ccache;
mod dvc;
mod maven;
mod plain;
mod restarts;
mod restic;
mod s3_door;
mod stores;
mod tus;
mod webdav;
mod wire;

use data_server_testing as support;

/// The sections of docs/clients.md with lines to run and the programs of docs/caching.md, and what each needs:
/// programs, or a command that must succeed.
const CLIENTS: &str = r#"
aiohttp ; python3 -c 'import aiohttp'
apt ; apt-get, dpkg-scanpackages, curl
aria2 ; aria2c, curl
Bazel ; bazel
Cargo ; cargo --version, curl
boto3 and Azure ; python3 -c 'import boto3', python3 -c 'import azure.storage.blob'
ccache ; ccache, gcc
curl ; curl
DVC ; dvc, git
ffmpeg ; ffmpeg, curl
fsspec ; python3 -c 'import fsspec', python3 -c 'import aiohttp', curl
GDAL ; /usr/bin/python3 -c 'from osgeo import gdal', curl
git ; git, curl
Go ; go
Go build cache ; go, python3
Go modules ; go, zip, curl
Gradle ; gradle, javac
httpx ; python3 -c 'import httpx'
Java ; java, javac
lftp ; lftp, curl
Maven ; mvn, javac, test -e $CLIENTS/maven/done
nginx ; nginx, curl, test $(id -u) = 0
Nix ; nix
Nx ; node, test -e $CLIENTS/caches/node_modules/.bin/nx
Node ; node -e 'require("fs").openAsBlob.name'
npm ; npm, curl
pip ; pip, curl, test -e $CLIENTS/venv/done
rclone ; rclone, curl
requests ; python3 -c 'import requests'
restic ; restic
Terraform and OpenTofu ; terraform, curl
Tokens and passwords ; curl, wget, ccache, gcc, rclone, git
S3 ; aws --version, rclone, python3 -c 'import boto3'
sccache ; sccache, gcc
Turborepo ; npm, test -e $CLIENTS/caches/node_modules/.bin/turbo
tus-js-client ; node, curl, test -e $CLIENTS/npm/node_modules/tus-js-client
Varnish ; varnishd, gcc, curl
WebDAV ; rclone, litmus, cadaver
w3m ; w3m, curl
wget ; wget, curl
"#;

/// How many clients a run of all tests should have.
const ENOUGH: usize = 14;

#[test]
fn every_section_with_lines_is_run() {
    let mut listed: Vec<&str> = support::table(CLIENTS).map(|[name, _]| name).collect();
    listed.sort_unstable();
    let mut sections = page::sections_with_lines();
    sections.extend(page::build_caches());
    sections.sort_unstable();
    sections.dedup();
    assert_eq!(listed, sections);
    let sources = page::sources();
    for name in listed {
        let runs = format!("Client::of(\"{name}\")");
        assert!(sources.contains(&runs), "no module has {runs}");
    }
}

#[test]
fn enough_clients_are_installed_where_they_are_required() {
    let all = support::table(CLIENTS);
    let missing = all.filter_map(|[name, needs]| Some((name, client::missing(needs)?)));
    let missing: Vec<_> = missing.collect();
    let all = support::table::<2>(CLIENTS).count();
    let here = all - missing.len();
    support::say(&format!("CLIENTS: {here} of {all} are installed"));
    let is_enough = here >= ENOUGH.min(all);
    assert!(is_enough || !client::is_required(), "{missing:#?}");
}
