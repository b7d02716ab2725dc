//! `tune.*` keywords of the `global` section.

use crate::{args, diagnostics::Problem, keywords::global::is_first, line::Line, scope::Scope, units::Unit};

/// Sizes of buffers are rounded up to this, as in HAProxy.
const BUFSIZE_STEP: usize = 16;

/// HAProxy refuses larger buffers for HTTP.
const BUFSIZE_MAX: usize = 256 << 20;

/// Most that a length or size which HAProxy keeps in an `int` may be.
const INT_MAX: usize = i32::MAX.unsigned_abs() as usize;

/// The settings that are a plain number of bytes, fields or connections.
pub fn number(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let keyword = line.word(0);
    let range = match keyword {
        "tune.bufsize" => 1..=BUFSIZE_MAX - BUFSIZE_STEP,
        "tune.http.maxhdr" => 1..=32_767,
        // Of one worker's turn lines have to fit.
        "tune.log-file.bufsize" => 65_536..=INT_MAX,
        _ => 0..=INT_MAX,
    };
    let value = args::lenient(scope, line, 1, range)?;
    let tune = &mut scope.state.global.tune;
    let field = match keyword {
        "tune.bufsize" => &mut tune.bufsize,
        "tune.maxrewrite" => &mut tune.maxrewrite,
        "tune.http.maxhdr" => &mut tune.http_maxhdr,
        "tune.http.logurilen" => &mut tune.http_logurilen,
        "tune.http.cookielen" => &mut tune.http_cookielen,
        "tune.log-file.bufsize" => &mut tune.log_file_bufsize,
        _ => &mut tune.pipesize,
    };
    *field = if keyword == "tune.bufsize" { value.next_multiple_of(BUFSIZE_STEP) } else { value };
    Ok(())
}

/// Streams of a connection where `tune.h2.max-concurrent-streams 0` says that there is no limit: each of them takes memory.
const STREAMS_MAX: u32 = 10_000;

/// `tune.h2.*`.
pub fn http2(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let keyword = line.word(0);
    let value = args::lenient(scope, line, 1, 0..=i32::MAX.unsigned_abs())?;
    let problem = |message: &str| Err(Problem::new(format!("'{keyword}' expects a numeric value {message}.")).at(1));
    let h2 = &mut scope.state.global.tune.h2;
    match keyword {
        "tune.h2.header-table-size" if value > 65_536 => return problem("between 0 and 65536"),
        "tune.h2.header-table-size" => h2.header_table_size = value,
        "tune.h2.initial-window-size" => h2.initial_window_size = value,
        "tune.h2.max-concurrent-streams" => {
            h2.max_concurrent_streams = if value == 0 { STREAMS_MAX } else { value.min(STREAMS_MAX) };
        }
        _ if !(16_384..=16_777_215).contains(&value) => return problem("between 16384 and 16777215"),
        _ => h2.max_frame_size = value,
    }
    Ok(())
}

/// `tune.maxaccept`: -1 is no limit.
pub fn maxaccept(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let value = args::lenient(scope, line, 1, -1..=i32::MAX)?;
    if is_first(scope, line, "tune.maxaccept") {
        scope.state.global.tune.maxaccept = u32::try_from(value).unwrap_or(u32::MAX);
    }
    Ok(())
}

/// `tune.rcvbuf.client` and its siblings.
pub fn socket_buffer(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let name = match line.word(0) {
        "tune.rcvbuf.client" => "tune.rcvbuf.client",
        "tune.rcvbuf.server" => "tune.rcvbuf.server",
        "tune.sndbuf.client" => "tune.sndbuf.client",
        _ => "tune.sndbuf.server",
    };
    let value = args::lenient(scope, line, 1, 0..=INT_MAX)?;
    if is_first(scope, line, name) {
        let tune = &mut scope.state.global.tune;
        match name {
            "tune.rcvbuf.client" => tune.rcvbuf_client = value,
            "tune.rcvbuf.server" => tune.rcvbuf_server = value,
            "tune.sndbuf.client" => tune.sndbuf_client = value,
            _ => tune.sndbuf_server = value,
        }
    }
    Ok(())
}

/// `tune.idletimer`.
pub fn idletimer(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let value = args::time(scope, line, 1, Unit::Millisecond)?;
    if value.as_millis() > 65_535 {
        let message = "'tune.idletimer' expects a timer value between 0 and 65535 ms.";
        return Err(Problem::new(message).at(1));
    }
    Ok(())
}

/// `tune.idle-pool.shared`.
pub fn idle_pool_shared(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    match line.word(1) {
        word @ ("on" | "off") => {
            scope.state.global.tune.idle_pool_shared = word == "on";
            Ok(())
        }
        word => {
            let message = format!("'tune.idle-pool.shared' expects either 'on' or 'off' but got '{word}'.");
            Err(Problem::new(message).at(1))
        }
    }
}

/// `tune.pool-high-fd-ratio` and `tune.pool-low-fd-ratio`.
pub fn pool_fd_ratio(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let percent = u8::try_from(args::lenient(scope, line, 1, 0..=100)?).unwrap_or(100);
    let tune = &mut scope.state.global.tune;
    match line.word(0) {
        "tune.pool-low-fd-ratio" => tune.pool_low_fd_percent = percent,
        _ => tune.pool_high_fd_percent = percent,
    }
    Ok(())
}

/// `tune.vars.*-max-size`.
pub fn vars_max_size(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 1, 0);
    let size = args::integer(line, 1, 0..=INT_MAX)?;
    let position = match line.word(0) {
        "tune.vars.global-max-size" => 0,
        "tune.vars.proc-max-size" => 1,
        "tune.vars.sess-max-size" => 2,
        "tune.vars.txn-max-size" => 3,
        "tune.vars.reqres-max-size" => 4,
        // Variables of checks live for one check and are few.
        _ => return Ok(()),
    };
    if let Some(limit) = scope.state.global.tune.vars_max_size.get_mut(position) {
        *limit = size;
    }
    Ok(())
}

/// `tune.peers.max-updates-at-once`.
pub fn peers_updates(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.state.global.tune.peers_updates_max = args::integer(line, 1, 1..=INT_MAX)?;
    Ok(())
}

/// Tidegate's `tune.external-checks`.
pub fn external_checks(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.state.global.tune.external_checks_max = args::integer(line, 1, 1..=10_000)?;
    Ok(())
}

/// Tidegate's `tune.disk-threads`.
pub fn disk_threads(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.state.global.tune.disk_threads = args::integer(line, 1, 1..=1_024)?;
    Ok(())
}

/// Tidegate's `tune.plugin-threads`.
pub fn plugin_threads(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.state.global.tune.plugin_threads = args::integer(line, 1, 1..=1_024)?;
    Ok(())
}

/// Tidegate's `tune.plugin-queue`.
pub fn plugin_queue(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.state.global.tune.plugin_queue = args::integer(line, 1, 1..=65_536)?;
    Ok(())
}

/// Tidegate's `tune.ring.size`, `tune.splice.min` and `tune.stick-table.handover`.
pub fn size(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let size = args::size(line, 1)?;
    let tune = &mut scope.state.global.tune;
    match line.word(0) {
        "tune.ring.size" => tune.ring_size = usize::try_from(size).unwrap_or(usize::MAX),
        "tune.stick-table.handover" => tune.stick_handover_max = size,
        _ => tune.splice_min = size,
    }
    Ok(())
}
