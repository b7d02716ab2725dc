//! `vtc`: what Varnish's test scripts steer a program by. It is for tests: a program that calls it may make its worker wait.

use std::{
    io::Read as _,
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use telemetry::vsl::VslTag;
use vcl::{
    modules::FunctionId,
    run::{Value, Workspace},
};

use super::{Arguments, Outcome, argument, fail, number_at, text_at};
use crate::common::Common;

/// Seconds that a program may make its worker wait.
const WAIT_MAX: f64 = 60.0;

/// Does what a function does.
pub(super) fn call<'w>(
    common: &mut Common,
    id: FunctionId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Outcome<'w>> {
    Some(match id {
        FunctionId::VtcBarrierSync => {
            let address = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
            common.record(VslTag::Debug, format!("barrier_sync(\"{address}\")").as_bytes());
            let seconds = number_at(arguments, 1);
            let seconds = if seconds > 0.0 { seconds.min(WAIT_MAX) } else { WAIT_MAX };
            barrier(&address, Duration::from_secs_f64(seconds)).map_or_else(fail, |()| Ok(Value::Void))
        }
        FunctionId::VtcSleep => {
            std::thread::sleep(Duration::from_secs_f64(number_at(arguments, 0).clamp(0.0, WAIT_MAX)));
            Ok(Value::Void)
        }
        FunctionId::VtcPanic => {
            let why = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
            fail(format!("vtc.panic(\"{why}\") is refused: a program cannot end the worker"))
        }
        FunctionId::VtcProxyHeader => proxy_header(arguments, workspace),
        _ => return None,
    })
}

/// Waits until whoever listens there lets everybody go by closing.
fn barrier(address: &str, wait: Duration) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("Barrier connection failed: {error}");
    // A program of varnishtest says `127.0.0.1 1234` as well as `127.0.0.1:1234`.
    let address = address.replace(' ', ":");
    let first = address.to_socket_addrs().map_err(failed)?.next().ok_or("Barrier connection failed: no address")?;
    let mut socket = TcpStream::connect_timeout(&first, wait).map_err(failed)?;
    socket.set_read_timeout(Some(wait)).map_err(failed)?;
    match socket.read(&mut [0; 32]) {
        Ok(0) => Ok(()),
        Ok(count) => Err(format!("Barrier unexpected data ({count}B)")),
        Err(error) => Err(format!("Barrier read failed: {error}")),
    }
}

fn proxy_header<'w>(arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Outcome<'w> {
    use http::proxy_protocol::{encode_v1, encode_v2, tlv_type};
    let address = |place| match argument(arguments, place) {
        Some(Value::Ip(Some((address, port)))) => Some(std::net::SocketAddr::from((address, port))),
        _ => None,
    };
    let ends = address(1).zip(address(2));
    let mut out = Vec::new();
    if matches!(argument(arguments, 0), Some(Value::Enum("v1"))) {
        encode_v1(ends, &mut out);
    } else {
        let authority = argument(arguments, 3).and_then(Value::text).map(|name| (tlv_type::AUTHORITY, name));
        encode_v2(ends, authority.as_slice(), &mut out);
    }
    Ok(Value::Blob(Some(workspace.keep(&out)?)))
}
