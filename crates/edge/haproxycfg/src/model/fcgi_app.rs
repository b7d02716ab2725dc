//! `fcgi-app` sections: applications that speak FastCGI.

use std::{sync::Arc, time::Duration};

use sample::{Condition, LogFormat, Regex};

use super::{Location, LogTarget};

/// An `fcgi-app` section.
#[derive(Clone, Debug)]
pub struct FcgiApp {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is in the configuration.
    pub location: Location,
    /// `docroot`.
    pub docroot: Vec<u8>,
    /// `index`.
    pub index: Option<Vec<u8>>,
    /// `path-info`.
    pub path_info: Option<Regex>,
    /// `option keep-conn`.
    pub keeps_connection: bool,
    /// `option get-values`.
    pub asks_values: bool,
    /// `option mpxs-conns`.
    pub is_multiplexed: bool,
    /// `option max-reqs`.
    pub requests_max: usize,
    /// `option mpxs-buffer`: bytes of an answer that have come and were not taken, before nothing more is read on a connection of several
    /// requests.
    pub answer_bytes_max: usize,
    /// `option mpxs-wait`: how long such an answer may keep the others waiting.
    pub answer_patience: Duration,
    /// `log-stderr`.
    pub logs: Vec<LogTarget>,
    /// `set-param` in order; for one name the last one counts whose condition holds.
    pub params: Vec<FcgiParam>,
    /// `pass-header`.
    pub passed: Vec<PassedHeader>,
}

/// `set-param`.
#[derive(Clone, Debug)]
pub struct FcgiParam {
    /// The name: capitals, digits and underscores.
    pub name: Vec<u8>,
    /// What it is; the rule does nothing where that is empty.
    pub value: LogFormat,
    /// When.
    pub condition: Option<Condition>,
}

/// `pass-header`.
#[derive(Clone, Debug)]
pub struct PassedHeader {
    /// The name, in lower case.
    pub name: Vec<u8>,
    /// When.
    pub condition: Option<Condition>,
}
