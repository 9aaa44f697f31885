//! Proves who may do what: `--access FILE`, by every way in which a client proves who it is.

mod answers;
mod audit;
mod certificates;
mod commands;
mod existing;
mod failures;
mod hidden;
mod links;
mod own_links;
mod reload;
mod rights;
mod shares;
mod sharing;
mod sign_in;
mod sites;

use crate::support::policy::{
    basic, bearer, one_who_may, revise, rule, serve_on, subject, token, with_password,
    write_policy as write,
};
use crate::support::prelude::*;

/// A server with this policy, and `args` besides.
#[track_caller]
fn serve(text: &str, args: &[&str]) -> TestServer {
    serve_on(&DataDir::temporary(), text, args)
}

/// The target that `data-server sign` makes of `target`.
fn sign(dir: &DataDir, by: &str, target: &str, options: &[&str]) -> String {
    let secret = dir.outside(&format!("{by}.key"));
    let secret = secret.to_str().expect("text");
    let args = [
        &["sign", "--by", by, "--secret-file", secret],
        options,
        &[target],
    ];
    Launch::new(&args.concat())
        .bare()
        .run()
        .printed()
        .to_owned()
}
