//! `tune.quic.*` and `cluster-secret`.

use crate::{args, diagnostics::Problem, line::Line, scope::Scope, units::Unit};

/// Most streams and buffers of a connection, and handshakes of a worker: each of them takes memory.
const NUMBER_MAX: u32 = 65_535;

/// `tune.quic.*`.
pub fn tune(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let keyword = line.word(0);
    if keyword == "tune.quic.frontend.max-idle-timeout" {
        let time = args::time(scope, line, 1, Unit::Millisecond)?;
        scope.state.global.tune.quic.idle_timeout = time;
        return Ok(());
    }
    let least = u32::from(keyword != "tune.quic.retry-threshold");
    let value = args::lenient(scope, line, 1, least..=NUMBER_MAX)?;
    let quic = &mut scope.state.global.tune.quic;
    match keyword {
        "tune.quic.frontend.conn-tx-buffers.limit" => quic.send_buffers_max = value,
        "tune.quic.frontend.max-streams-bidi" => quic.streams_max = value,
        _ => quic.retry_threshold = value,
    }
    Ok(())
}

/// `cluster-secret`.
pub fn cluster_secret(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    if line.word(1).is_empty() {
        return Err(Problem::new("'cluster-secret' expects a string as argument.").at(0));
    }
    if scope.state.global.cluster_secret.is_some() {
        return Err(Problem::new("'cluster-secret' already specified. Continuing.").at(0));
    }
    scope.state.global.cluster_secret = Some(line.word(1).to_owned());
    Ok(())
}
