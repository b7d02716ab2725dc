//! `std`: what it asks of the world, and what it changes.

use std::net::ToSocketAddrs as _;

use telemetry::vsl::VslTag;
use vcl::{
    modules::FunctionId,
    run::{Value, Workspace},
    subroutine::Subroutine,
    variables::Message,
};

use super::{Arguments, Exchange, Outcome, argument, fail, header_at, is_of_program, number_at, string, text_at};
use crate::common::Common;

/// Does what a function does.
pub(super) fn call<'w>(
    exchange: &mut impl Exchange,
    id: FunctionId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Outcome<'w>> {
    match id {
        FunctionId::StdCollect => return Some(collect(exchange, arguments)),
        FunctionId::StdRollback => return Some(roll_back(exchange, arguments)),
        FunctionId::StdHealthy => {
            let healthy = match argument(arguments, 0) {
                Some(Value::Backend(Some(backend))) => exchange.common().loaded.is_healthy(backend),
                _ => false,
            };
            return Some(Ok(Value::Bool(healthy)));
        }
        FunctionId::StdFileread | FunctionId::StdBlobread => {
            return Some(Ok(file(exchange.common(), id, arguments, workspace)));
        }
        FunctionId::StdIp => return Some(ip(exchange.common(), arguments)),
        _ => {}
    }
    let common = exchange.common_mut();
    let done = match id {
        FunctionId::StdLog => {
            common.record(VslTag::VCL_Log, text_at(arguments, 0));
            Ok(Value::Void)
        }
        FunctionId::StdSyslog => {
            syslog(common, arguments);
            Ok(Value::Void)
        }
        FunctionId::StdTimestamp => {
            let label = text_at(arguments, 0);
            if !label.is_empty() && !is_of_program(common.subroutine) {
                common.timestamp(label);
            }
            Ok(Value::Void)
        }
        FunctionId::StdBan if matches!(arguments.first(), Some(Some(Value::String(None)))) => {
            common.record(VslTag::VCL_Error, b"ban(): Null argument");
            common.ban_error = Some("Null argument".to_owned());
            Ok(Value::Bool(false))
        }
        FunctionId::StdBan => Ok(Value::Bool(common.ban(text_at(arguments, 0)))),
        FunctionId::StdBanError => {
            let error = common.ban_error.clone().unwrap_or_default();
            string(workspace, Some(error.as_bytes()))
        }
        FunctionId::StdRandom => {
            let (low, high) = (number_at(arguments, 0), number_at(arguments, 1));
            Ok(Value::Real(low + (high - low) * common.loaded.draw(common.now)))
        }
        FunctionId::StdSyntax => {
            let wanted = number_at(arguments, 0) * 10.0;
            // Version 3 is taken for what it is translated to.
            let version = f64::from(common.loaded.program.version.0).max(40.0);
            Ok(Value::Bool(wanted.round() <= version))
        }
        FunctionId::StdGetenv => {
            let name = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            let value = is_name.then(|| std::env::var_os(&name)).flatten();
            string(workspace, value.as_deref().map(std::ffi::OsStr::as_encoded_bytes))
        }
        FunctionId::StdFileExists => {
            let path = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
            Ok(Value::Bool(!path.is_empty() && std::fs::metadata(path).is_ok()))
        }
        _ => return of_connection(common, id, arguments),
    };
    Some(done)
}

/// What is asked of the client's connection and of the request's body.
fn of_connection<'w>(common: &mut Common, id: FunctionId, arguments: Arguments<'_, 'w>) -> Option<Outcome<'w>> {
    let done = match id {
        FunctionId::StdLate100Continue => {
            if common.subroutine != Subroutine::Recv {
                common.record(VslTag::VCL_Error, b"std.late_100_continue() only valid in vcl_recv{}");
            }
            // NOTE: the edge says 100 when the body is wanted, which is what `true` asks for and `false` allows.
            Ok(Value::Void)
        }
        FunctionId::StdCacheReqBody => {
            if common.subroutine != Subroutine::Recv {
                common.record(VslTag::VCL_Error, b"req.body can only be cached in vcl_recv{}");
                return Some(Ok(Value::Bool(false)));
            }
            let size = u64::try_from(super::integer_at(arguments, 0)).unwrap_or(0);
            common.wishes.cached_body = Some(size);
            Ok(Value::Bool(common.wishes.body_length.is_none_or(|length| length <= size)))
        }
        FunctionId::StdSetIpTos => {
            common.wishes.tos = u8::try_from(super::integer_at(arguments, 0) & 0xff).ok();
            Ok(Value::Void)
        }
        _ => return None,
    };
    Some(done)
}

/// `std.collect(hdr, sep)`: one field of several.
fn collect<'w>(exchange: &mut impl Exchange, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let Some(header) = header_at(arguments, 0) else { return fail("std.collect(): header argument is NULL") };
    let separator = text_at(arguments, 1);
    let Some(headers) = exchange.headers_mut(header.message) else {
        return fail("std.collect(): header argument can not be used here");
    };
    let name = header.name.lower.as_bytes();
    if headers.all(name).nth(1).is_some() {
        let joined = headers.all(name).collect::<Vec<_>>().join(separator);
        headers.set(header.name.text.as_bytes(), &joined);
    }
    Ok(Value::Void)
}

fn roll_back<'w>(exchange: &mut impl Exchange, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    if exchange.common().subroutine == Subroutine::Pipe {
        return fail("Cannot rollback in vcl_pipe {}");
    }
    match argument(arguments, 0) {
        Some(Value::Message(message @ (Message::Req | Message::Bereq))) => {
            exchange.roll_back(message).map(|()| Value::Void)
        }
        _ => fail("std.rollback(): only req and bereq can be rolled back"),
    }
}

fn file<'w>(common: &Common, id: FunctionId, arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Value<'w> {
    let path = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
    let bytes = common.loaded.lasting.files.read(&path).map(|bytes| workspace.share(bytes));
    match id {
        // A string of VCL ends with its first null byte.
        FunctionId::StdFileread => {
            Value::String(bytes.map(|bytes| bytes.split(|byte| *byte == 0).next().unwrap_or_default()))
        }
        _ => Value::Blob(bytes),
    }
}

/// `std.ip(name)`. Names are looked up while a program is loaded; a request would make all others of its worker wait for that.
fn ip<'w>(common: &Common, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let text = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
    let (host, port) = text.rsplit_once([' ', ':']).unwrap_or((&text, ""));
    let standard = String::from_utf8_lossy(text_at(arguments, 3)).into_owned();
    let port = port.parse().or_else(|_| standard.parse()).unwrap_or(80_u16);
    let found = if host == "localhost" {
        Some(std::net::SocketAddr::from(([127, 0, 0, 1], port)))
    } else if is_of_program(common.subroutine) {
        (host, port).to_socket_addrs().ok().and_then(|mut found| found.next())
    } else {
        None
    };
    match (found, argument(arguments, 1)) {
        (Some(address), _) => Ok(Value::Ip(Some((address.ip(), address.port())))),
        (None, Some(fallback)) => Ok(fallback),
        (None, None) => fail("std.ip: conversion failed"),
    }
}

/// `std.syslog(priority, text)`: to the machine's log, which is asked once and never waited for.
fn syslog(common: &mut Common, arguments: Arguments<'_, '_>) {
    let priority = u16::try_from(super::integer_at(arguments, 0)).unwrap_or(0);
    let mut line = format!("<{priority}>varnishd: ").into_bytes();
    line.extend_from_slice(text_at(arguments, 1));
    let sent = std::os::unix::net::UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(&line, "/dev/log")
    });
    if let Err(error) = sent {
        common.record(VslTag::Error, format!("std.syslog(): {error}").as_bytes());
    }
}
