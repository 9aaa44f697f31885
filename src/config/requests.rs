//! Options of how requests are answered and logged, and of the log.
//!
//! They become the configuration of the service and of the log. A value that an option does not take is refused here,
//! with what to give instead.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::num::NonZeroU64;
use std::time::Duration;

use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use hyper::header::HeaderName;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

use super::file::{ConfigError, filled, table};
use super::mistakes::one_of;
use crate::commands::{number, size};
use crate::http::{
    AllowLists, CACHE_CONTROL, Hosts, INDEX, KeptFields, LogFormat, Origins, RequestLogs, Routes,
    ServiceConfig, Site, Sites, TrustedProxies, UploadLimits, cache_control,
};
use crate::log;
use crate::store::{Key, Prefixes, check_prefix};

/// No file is longer: the kernel's offsets are signed.
const LONGEST_FILE: u64 = i64::MAX as u64;

const NO_NETWORK: &str =
    "no network; give one such as 10.0.0.0/8, an address, or unix for unix sockets";

/// Levels, as [`LevelFilter`] parses them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Requests")]
pub struct ProtocolArgs {
    /// Longest value accepted; a longer value is answered 413 [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_body: Option<ByteSize>,

    /// Most segments of a key that can be stored; deeper keys are answered 400, and can still be read and removed
    #[arg(long, value_name = "N", default_value = "32", value_parser = number(1..=u16::MAX))]
    max_key_depth: u16,

    /// Send 104 (Upload Resumption Supported) before the final response; nginx and Varnish mishandle it
    #[arg(long, value_name = "WHETHER", default_value = "on", action = ArgAction::Set,
        value_parser = one_of([("on", true), ("off", false)]))]
    interim: bool,

    /// Refuse PUT, DELETE and all else that changes values or folders; the directory must exist, and may be on a
    /// read-only file system
    #[arg(long)]
    read_only: bool,

    /// Drop PUT bodies: for load tests of the network
    #[arg(long)]
    discard: bool,

    /// Answer as the older C server did: 304 to an empty or chunked PUT, 204 to a PUT without a key, 404 to other
    /// methods, to GET / and to keys of several segments
    #[arg(long)]
    compat: bool,

    /// Compress (gzip) responses of media types that are worth it
    #[arg(long)]
    compress: bool,

    /// Cache-Control of listings, and of values that were stored without one; with the default, caches revalidate
    /// before each use; '' sends none
    #[arg(long, value_name = "VALUE", default_value = CACHE_CONTROL)]
    cache_control: String,

    /// Field of a PUT to keep with its value, and to send with it, such as x-artifact-tag; all kept fields of a value
    /// have at most 2 KiB; repeat for more [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    keep_field: Vec<String>,

    /// What the values below a prefix are, as a table of TOML, in the file `[[content]]`: prefix, and name = "sha256":
    /// the last segment of such a key is the SHA-256 of its value, else PUT is answered 400; or kind = "bazel-ac":
    /// entries of Bazel's action cache, which are answered while all their outputs below cas/ beside ac/ are there; or
    /// kind = "restic": a folder of restic's repositories, by its REST protocol; repeat for more [default: none]
    #[arg(long, value_name = "TABLE", value_parser = content)]
    content: Vec<Content>,

    /// Folder that is a site, as a table of TOML, in the file `[[site]]`: its prefix ('' is the root), index (the value
    /// that a folder is opened as, instead of its listing; default "index.html"), clean = true (about is about.html),
    /// fallback and not-found (the pages for addresses without a value, with 200 and 404), scripts = true (its pages
    /// run scripts, which may do on this server what their reader may: give it a host name of its own); siblings .br,
    /// .zst and .gz go to clients that take them; repeat for more [default: none]
    #[arg(long, value_name = "TABLE", value_parser = site)]
    site: Vec<Site>,

    /// Name of the page for browsers [default: the realm of --access, else data-server]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Host name that clients may use, in addition to localhost and loopback addresses; others are answered 421 (DNS
    /// rebinding); '*' is any; repeat for more [default: what --listen names, when that is a loopback address, else
    /// any]
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub allowed_host: Vec<String>,

    /// Host name below which the first label names the bucket, for clients of S3 (--listen s3+...) that ask for
    /// BUCKET.HOST in place of HOST/BUCKET; repeat for more
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    s3_host: Vec<String>,

    /// Origin whose web pages may use this server, such as `https://app.example`; '*' is any; repeat for more
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    cors_origin: Vec<String>,

    /// Network or address of a proxy, or unix for the proxies on a unix socket, whose Forwarded or X-Forwarded-For
    /// names the client, and whose X-Forwarded-Proto, -Host and -Prefix the address of this server; repeat for more
    /// [default: none]
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    trusted_proxy: Vec<String>,

    /// Header by which the proxies of --trusted-proxy name the subject of --access whom they have signed on, such as
    /// Remote-User; from others it means nothing. The proxy must remove what its clients send by this name, and their
    /// Authorization [default: none]
    #[arg(long, value_name = "NAME", requires_all = ["access", "trusted_proxy"])]
    proxy_user_header: Option<String>,

    /// Send the duration of a request in a Server-Timing header
    #[arg(long)]
    server_timing: bool,
}

/// A table of `--content`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentTable {
    prefix: String,
    name: Option<NameOfValue>,
    kind: Option<KindOfValue>,
}

/// The last segment of such a key.
#[derive(Deserialize)]
enum NameOfValue {
    #[serde(rename = "sha256")]
    Sha256,
}

/// Such a value.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum KindOfValue {
    #[serde(rename = "bazel-ac")]
    BazelAc,
    #[serde(rename = "restic")]
    Restic,
}

/// A prefix, and what its values are: those of no kind are named by their SHA-256.
#[derive(Clone, Debug)]
struct Content {
    prefix: String,
    kind: Option<KindOfValue>,
}

/// The table that `text` is.
fn content(text: &str) -> Result<Content, String> {
    let ContentTable { prefix, name, kind } = table(text)?;
    check_prefix(&prefix)?;
    let why = match (name, kind) {
        (None, Some(KindOfValue::BazelAc)) if !(prefix == "ac/" || prefix.ends_with("/ac/")) => {
            "prefix: that of an action cache ends with ac/, and its outputs are in cas/ beside it"
        }
        (None, Some(KindOfValue::Restic)) if !(prefix.is_empty() || prefix.ends_with('/')) => {
            "prefix: repositories lie in a folder, whose name ends with '/'"
        }
        (Some(NameOfValue::Sha256), None) | (None, Some(_)) => return Ok(Content { prefix, kind }),
        _ => "give name = \"sha256\", kind = \"bazel-ac\" or kind = \"restic\", one of them",
    };
    Err(why.to_owned())
}

/// A table of `--site`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    prefix: String,
    index: Option<String>,
    #[serde(default)]
    scripts: bool,
    #[serde(default)]
    clean: bool,
    fallback: Option<String>,
    #[serde(rename = "not-found")]
    not_found: Option<String>,
}

/// The site that `text` is, the entries of a table.
fn site(text: &str) -> Result<Site, String> {
    let SiteTable {
        prefix,
        index,
        scripts,
        clean,
        fallback,
        not_found,
    } = table(text)?;
    check_prefix(&prefix)?;
    if !prefix.is_empty() && !prefix.ends_with('/') {
        return Err(format!("prefix: a site is a folder: write \"{prefix}/\""));
    }
    let index = index.unwrap_or_else(|| INDEX.to_owned());
    if !Key::new(&*index).is_ok_and(|key| key.is_flat()) {
        return Err("index: give the name of a value in a folder, such as index.html".to_owned());
    }
    let page = |option: &str, name: Option<String>| {
        let key = name.map(|name| format!("{prefix}{name}"));
        match key.as_deref().map(Key::new).transpose() {
            Ok(_) => Ok(key),
            Err(why) => Err(format!(
                "{option}: give the name of a value below the prefix, such as 404.html: {why}"
            )),
        }
    };
    Ok(Site {
        index,
        scripts,
        clean,
        fallback: page("fallback", fallback)?,
        not_found: page("not-found", not_found)?,
        prefix,
    })
}

impl ProtocolArgs {
    pub fn hosts(&self) -> Result<Hosts, ConfigError> {
        let mut hosts = Hosts::default();
        each("--allowed-host", &self.allowed_host, |name| hosts.add(name))?;
        each("--s3-host", &self.s3_host, |name| hosts.add_below(name))?;
        Ok(hosts)
    }

    /// With `staging`: the bytes that may be staged at once, if that is bounded, for no longer value can ever be
    /// stored; and how long an unfinished upload is kept.
    pub fn service_config(
        self,
        logs: RequestLogs,
        staging: (Option<NonZeroU64>, Duration),
        hosts: Hosts,
    ) -> Result<ServiceConfig, ConfigError> {
        let mut origins = Origins::default();
        each("--cors-origin", &self.cors_origin, |it| origins.add(it))?;
        let mut trusted_proxies = TrustedProxies::default();
        let add = |network: &str| trusted_proxies.add(network).map_err(|_| NO_NETWORK);
        each("--trusted-proxy", &self.trusted_proxy, add)?;
        let mut proxy_user_header = None;
        each(
            "--proxy-user-header",
            self.proxy_user_header.as_slice(),
            |name| HeaderName::try_from(name).map(|name| proxy_user_header = Some(name)),
        )?;
        let mut kept_fields = KeptFields::default();
        each("--keep-field", &self.keep_field, |it| kept_fields.add(it))?;
        let given = &self.cache_control;
        let cache_control = cache_control(given)
            .map_err(|why| ConfigError::value("--cache-control", format_args!("{given:?}"), why))?;
        // The C server had no folders.
        let sites = if self.compat { Vec::new() } else { self.site };
        let of_kind = |kind| {
            let content = self.content.iter().filter(move |it| it.kind == kind);
            content.map(|it| it.prefix.as_str())
        };
        // The C server had neither, and where nothing is stored there is no repository.
        let (has_rows, stores) = (!self.compat, !self.compat && !self.discard);
        let action_results = of_kind(Some(KindOfValue::BazelAc)).filter(|_| has_rows);
        let action_results = Prefixes::new(action_results);
        let repositories = of_kind(Some(KindOfValue::Restic)).filter(|_| stores);
        let repositories = Prefixes::new(repositories);
        let named_by_sha256 = Prefixes::new(of_kind(None));
        let sites = Sites::new(sites);
        let sites = sites.map_err(|prefix| {
            ConfigError::value(
                "--site",
                format_args!("{prefix:?}"),
                "two sites have this prefix",
            )
        })?;
        let (max_staged, expiry) = staging;
        let storable = max_staged
            .filter(|_| !self.discard)
            .map_or(LONGEST_FILE, NonZeroU64::get);
        let max_body = self.max_body.map_or(LONGEST_FILE, |size| size.as_u64());
        Ok(ServiceConfig {
            routes: Routes::All,
            compat: self.compat,
            discard: self.discard,
            read_only: self.read_only,
            follows_symlinks: false,
            authorizes: false,
            store_resumes: true,
            interim: self.interim,
            limits: UploadLimits {
                max_key_depth: self.max_key_depth.into(),
                max_body: max_body.min(storable),
                expiry,
            },
            kept_fields,
            named_by_sha256,
            reads_by_rows: !(sites.is_empty()
                && action_results.is_empty()
                && repositories.is_empty()),
            action_results,
            repositories,
            sites,
            title: self.title,
            compress: self.compress,
            cache_control,
            allowed: AllowLists { hosts, origins },
            s3_hosts: self
                .s3_host
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
            trusted_proxies,
            proxy_user_header,
            logs,
            server_timing: self.server_timing,
        })
    }
}

/// Adds each value of `option`.
fn each<E: Display>(
    option: &'static str,
    given: &[String],
    mut add: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), ConfigError> {
    let bad = |given, why| ConfigError::value(option, given, why);
    filled(given).try_for_each(|given| add(given).map_err(|why| bad(given, why)))
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Log")]
pub struct Logging {
    /// Least severe level to log [default: info; on a terminal warn, unless requests or changes are logged]
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = PossibleValuesParser::new(LEVELS).try_map(|level| level.parse::<LevelFilter>())
    )]
    log_level: Option<LevelFilter>,

    /// Format of the log, on standard error
    #[arg(long = "log-format", value_name = "FORM", default_value = "text", action = ArgAction::Set,
        value_parser = one_of([("text", false), ("json", true)]))]
    is_json: bool,

    /// Log a line for each request
    #[arg(long)]
    access_log: bool,

    /// Line format: `fields`; `full` adds query, range, user agent and referrer (also to --audit-log); `combined` is
    /// `full` with --access-log lines in nginx's combined format
    #[arg(long, value_name = "FORMAT", default_value = "fields", value_parser = one_of([
        ("fields", LogFormat::Fields),
        ("full", LogFormat::Full),
        ("combined", LogFormat::Combined),
    ]))]
    access_log_format: LogFormat,

    /// Log a line for each change of a value and for each refused client
    #[arg(long)]
    audit_log: bool,
}

impl Logging {
    /// The logs of requests.
    pub fn requests(&self) -> RequestLogs {
        RequestLogs {
            access: self.access_log,
            audit: self.audit_log,
            format: self.access_log_format,
        }
    }

    pub fn options(&self) -> log::LogOptions {
        let is_quiet = !self.access_log && !self.audit_log && std::io::stderr().is_terminal();
        let usual = if is_quiet {
            LevelFilter::WARN
        } else {
            LevelFilter::INFO
        };
        log::LogOptions {
            level: self.log_level.unwrap_or(usual),
            json: self.is_json,
        }
    }
}
