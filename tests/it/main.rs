//! The integration tests: the real binary, real sockets, one module per behaviour.

mod access;
mod architecture;
mod archives;
mod bounds;
mod dates;
mod dav;
mod docs;
mod expiry;
mod folders;
mod get;
mod http;
mod http2;
mod lifecycle;
mod limits;
mod moves;
mod observability;
mod proxies;
mod put;
mod refusals;
mod s3;
mod s3_door;
mod security;
mod sites;
mod tls;
mod uploads;
mod watch;

use data_server_testing as support;
