//! A request as a program is told of it.

use std::{collections::BTreeMap, sync::Arc};

use fastcgi::{Facts, Override, PAIRS_BYTES_MAX, Program, Script, Variables, is_hidden, write_pair};
use haproxycfg::model::{FcgiApp, PassedHeader};
use http::{BodyLength, Method};
use live::LiveProxy;
use logs::LogTargets;
use sample::Context as _;

use crate::session::{
    rules::{Phase, applies},
    transaction::Transaction,
};

/// What programs are told to be asked by.
pub const SOFTWARE: &str = concat!("Tidegate/", env!("CARGO_PKG_VERSION"));

/// The status of the answer to a request that means no program.
const MALFORMED: u16 = 400;
/// The status of the answer to a request whose variables are too much.
const TOO_LARGE: u16 = 431;

/// A request as a FastCGI application is told of it.
#[derive(Clone, Debug)]
pub struct ProgramRequest {
    /// Its variables, encoded. CONTENT_LENGTH is not among them if nobody knows it.
    pub params: Vec<u8>,
    /// Where its complaints go.
    pub log: Arc<LogTargets>,
}

/// Describes a request for the application of its backend; otherwise the status of the answer that it gets instead. Without a section
/// that says more, the application is one program for all paths (WSGI).
pub fn describe(transaction: &Transaction, backend: &LiveProxy, app: Option<&FcgiApp>) -> Result<ProgramRequest, u16> {
    let request = &transaction.request;
    let overrides = app.map(|app| overrides(transaction, app)).unwrap_or_default();
    let program = Program {
        docroot: app.map_or(b"", |app| &app.docroot),
        index: app.and_then(|app| app.index.as_deref()),
        path_info: app.and_then(|app| app.path_info.as_ref()),
    };
    let is_named = overrides.iter().any(|variable| variable.name == b"SCRIPT_NAME");
    let script = match is_named {
        true => Script::default(),
        false => Script::of(request.path(), &program).map_err(|_| MALFORMED)?,
    };
    let script = match app {
        Some(_) => script,
        None => Script { name: Vec::new(), path_info: script.name },
    };
    let fields: Vec<(&[u8], &[u8])> =
        request.headers.iter().filter(|(name, _)| is_shown(transaction, app, name)).collect();
    let length = match http::request_body_length(request) {
        BodyLength::Exact(length) => Some(length),
        BodyLength::Chunked => None,
        BodyLength::None | BodyLength::UntilClose => Some(0),
    };
    let facts = Facts {
        method: request.method(),
        uri: uri(transaction),
        query: request.query(),
        protocol: request.version_bytes(),
        content_length: length,
        remote: transaction.source.get(),
        local: transaction.destination(),
        is_secure: transaction.client_tls().is_some(),
        docroot: program.docroot,
        software: SOFTWARE.as_bytes(),
    };
    let mut params = Vec::with_capacity(1024);
    let fields = fields.iter().copied();
    Variables { facts, script: &script, fields, overrides: &overrides }
        .for_each(|name, value| write_pair(name, value, &mut params));
    if params.len() > PAIRS_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    Ok(ProgramRequest { params, log: Arc::clone(&backend.program_log) })
}

/// REQUEST_URI: what the client has asked for, whatever a backend has made of it (`try-files`).
pub fn uri(transaction: &Transaction) -> &[u8] {
    let request = &transaction.request;
    match &transaction.asked.original_target {
        Some(target) => target,
        None if request.method_kind() == Method::Connect => request.target(),
        None => request.path_and_query(),
    }
}

/// What the application's section sets. Of several rules for one variable the last one counts whose condition holds.
fn overrides(transaction: &Transaction, app: &FcgiApp) -> Vec<Override> {
    let mut found = BTreeMap::new();
    for param in &app.params {
        if applies(param.condition.as_ref(), transaction, Phase::Request) {
            found.insert(&*param.name, &param.value);
        }
    }
    let values =
        found.into_iter().map(|(name, value)| Override { name: name.to_vec(), value: value.to_vec(transaction) });
    values.filter(|variable| !variable.value.is_empty()).collect()
}

/// Whether the application sees a field.
fn is_shown(transaction: &Transaction, app: Option<&FcgiApp>, name: &[u8]) -> bool {
    let is_passed = |header: &PassedHeader| {
        header.name.eq_ignore_ascii_case(name) && applies(header.condition.as_ref(), transaction, Phase::Request)
    };
    !is_hidden(name) || app.is_some_and(|app| app.passed.iter().any(is_passed))
}
