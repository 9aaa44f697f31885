//! The page in a real browser: headless Chromium, driven through `WebDriver`, against the real binary.
//!
//! Needs `chromium` and `chromedriver` (Debian: chromium, chromium-driver). Without them each test says LEFT OUT and
//! passes, unless `DATA_SERVER_BROWSER=required`, which `.ci/run` sets; `tests/run` installs them.

mod access;
mod alice;
mod artifacts;
mod browser;
mod caching;
mod charset;
mod driver;
mod edit;
mod folders;
mod keys;
mod links;
mod live;
mod look;
mod order;
mod origin;
mod picked;
mod plain;
mod previews;
mod prompt;
mod rename;
mod resume;
mod search;
mod share;
mod sign_in;
mod sites;
mod subpath;
mod upload_folders;
mod uploads;

use data_server_testing as support;
