//! Varnish's tools: `varnishlog`, `varnishncsa`, `varnishstat`, `varnishadm`, with the options of those of 7.1.
//!
//! They look at what an instance publishes (crate `vsm`), so they work with Tidegate and with Debian's varnishd alike. Each tool is a function
//! that takes the words behind its name and gives the exit code.
//!
//! - `options`: command lines as getopt reads them.
//! - `source`: records of a running instance, or of a file that `varnishlog -w` wrote.
//! - `group`: records to transactions, transactions to groups; knows no clock and no file.
//! - `filter`: which records are shown.
//! - `watch`: what `varnishlog` and `varnishncsa` have in common: from options to groups that a query is true of.
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "these are command line tools")]

mod adm;
mod background;
mod filter;
mod group;
mod log;
pub mod management;
mod ncsa;
mod options;
mod output;
pub mod overview;
mod source;
mod stat;
mod watch;

use std::process::ExitCode;

pub use adm::varnishadm;
pub use log::varnishlog;
pub use ncsa::varnishncsa;
pub use stat::varnishstat;

/// The version that `-V` tells.
const VERSION: &str = "varnish-7.1.1, by Tidegate";

/// The tool with that name, be it that of Vinyl Cache, as Varnish Cache calls itself from 9.0 on.
#[must_use]
pub fn named(name: &str) -> Option<fn(&[String]) -> ExitCode> {
    match name {
        "varnishadm" | "vinyladm" => Some(varnishadm),
        "varnishlog" | "vinyllog" => Some(varnishlog),
        "varnishncsa" | "vinylncsa" => Some(varnishncsa),
        "varnishstat" | "vinylstat" => Some(varnishstat),
        _ => None,
    }
}

/// Says what is wrong and gives the exit code.
fn fail(tool: &str, message: &str) -> ExitCode {
    eprintln!("{tool}: {message}");
    ExitCode::FAILURE
}
