//! Options of the log.

use std::io::IsTerminal as _;

use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

use crate::http::{LogFormat, RequestLogs};
use crate::log;

/// Levels, as [`LevelFilter`] parses them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Log")]
pub struct Logging {
    /// Least severe level to log [default: info; on a terminal warn, unless requests or changes are logged]
    #[arg(
        long,
        value_name = "LEVEL",
        env = "DATA_SERVER_LOG_LEVEL",
        value_parser = PossibleValuesParser::new(LEVELS).try_map(|level| level.parse::<LevelFilter>())
    )]
    log_level: Option<LevelFilter>,

    /// Form of the log, on standard error
    #[arg(
        long,
        value_name = "FORM",
        env = "DATA_SERVER_LOG_FORMAT",
        default_value = "text"
    )]
    log_format: Shape,

    /// Log a line for each request
    #[arg(long, env = "DATA_SERVER_ACCESS_LOG", value_parser = FalseyValueParser::new())]
    access_log: bool,

    /// What such a line says: fields; also the query, the range, the client's program and the page that led there (full, also for
    /// --audit-log); or as full, with the line of nginx's format for --access-log (combined)
    #[arg(
        long,
        value_name = "FORMAT",
        env = "DATA_SERVER_ACCESS_LOG_FORMAT",
        default_value = "fields"
    )]
    access_log_format: Format,

    /// Log a line for each change of a value, and for each refusal of who asks
    #[arg(long, env = "DATA_SERVER_AUDIT_LOG", value_parser = FalseyValueParser::new())]
    audit_log: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shape {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Fields,
    Full,
    Combined,
}

impl Logging {
    /// The logs of requests.
    pub fn requests(&self) -> RequestLogs {
        RequestLogs {
            access: self.access_log,
            audit: self.audit_log,
            format: match self.access_log_format {
                Format::Fields => LogFormat::Fields,
                Format::Full => LogFormat::Full,
                Format::Combined => LogFormat::Combined,
            },
        }
    }

    pub fn options(&self) -> log::Options {
        let is_quiet = !self.access_log && !self.audit_log && std::io::stderr().is_terminal();
        let usual = if is_quiet {
            LevelFilter::WARN
        } else {
            LevelFilter::INFO
        };
        log::Options {
            level: self.log_level.unwrap_or(usual),
            json: matches!(self.log_format, Shape::Json),
        }
    }
}
