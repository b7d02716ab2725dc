//! Commands that only tell.

use basics::Date;
use std::{fmt::Write as _, sync::Arc, time::Duration};

use haproxycfg::model::CliLevel;
use live::capture::{self, Capture};

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session, level_name},
};
use crate::stats::{
    control::{ProxyName, find_proxy},
    files::show_files,
    info::{InfoForm, show_info},
    render,
    row::{Only, Selection},
    view::Detail,
};

/// The last line with its line break, as JSON has none.
fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(super) fn info(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let (mut form, mut descriptions, mut float) = (InfoForm::Plain, false, false);
    for word in line.rest(2) {
        match word {
            "typed" => form = InfoForm::Typed,
            "json" => form = InfoForm::Json,
            "desc" => descriptions = true,
            "float" => float = true,
            _ => {}
        }
    }
    Reply::Text(ended(show_info(&context.control.process(), form, descriptions, float)))
}

/// What C's `atoi` makes of a text.
pub(super) fn leading_number(text: &str) -> i64 {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).bytes().take_while(u8::is_ascii_digit).count();
    let signs = usize::from(text.starts_with(['+', '-']));
    text.get(..signs + digits).and_then(|number| number.trim_start_matches('+').parse().ok()).unwrap_or(0)
}

pub(super) fn statistics(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let mut at = 2;
    if line.word(at) == "domain" {
        match line.word(at + 1) {
            "proxy" => at += 2,
            "resolvers" => return super::resolvers::statistics(context, line),
            _ => return Reply::error("Invalid statistics domain."),
        }
    }
    let mut selection = Selection { legends: session.level() >= CliLevel::Operator, ..Selection::default() };
    if !line.word(at + 2).is_empty() {
        let named = find_proxy(context.control, line.word(at), |_| true).map(|proxy| i64::from(proxy.id));
        let proxy = named.unwrap_or_else(|| leading_number(line.word(at)));
        if proxy == 0 {
            return Reply::error("No such proxy.");
        }
        let (types, service) = (leading_number(line.word(at + 1)), leading_number(line.word(at + 2)));
        selection.only = Some(Only { proxy, types, service });
        at += 3;
    }
    let (mut typed, mut json, mut descriptions) = (false, false, false);
    for word in line.rest(at) {
        match word {
            "typed" => (typed, json) = (true, false),
            "json" => (typed, json) = (false, true),
            "desc" => descriptions = true,
            "no-maint" => selection.hide_maintenance = true,
            "up" => selection.hide_down = true,
            _ => {}
        }
    }
    let snapshot = context.control.snapshot(&|proxy| selection.wants_proxy(proxy.id), Detail::default());
    Reply::Text(ended(match (typed, json) {
        (true, _) => render::typed(&snapshot.proxies, selection, descriptions),
        (_, true) => render::json(&snapshot.proxies, selection),
        _ => render::csv(&snapshot.proxies, selection),
    }))
}

pub(super) fn schema(_: &mut Session, _: &Context<'_>, _: &Line) -> Reply {
    Reply::Text(ended(render::SCHEMA.to_owned()))
}

pub(super) fn backends(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let mut out = "# name\n".to_owned();
    for proxy in context.control.proxies().iter().filter(|proxy| proxy.backend) {
        let _ = writeln!(out, "{}", proxy.name);
    }
    Reply::Text(out)
}

pub(super) fn environment(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let wanted = line.word(2);
    let mut out = String::new();
    for (name, value) in context.control.environment() {
        if wanted.is_empty() || wanted == name {
            let _ = writeln!(out, "{name}={value}");
        }
    }
    if out.is_empty() && !wanted.is_empty() {
        return Reply::error("Variable not found");
    }
    Reply::Text(out)
}

/// Each section, and what it has stored.
pub(super) fn caches(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    const BLOCK: u64 = 1024;
    let now = basics::clock::seconds();
    let mut out = String::new();
    for cache in &context.control.caches() {
        let place = Arc::as_ptr(cache);
        let free = cache.storage.free() / BLOCK;
        let _ = writeln!(out, "{place:p}: {} (shctx:{place:p}, available blocks:{free})", cache.spec.name);
        for object in (0..).map_while(|part| cache.cache.objects_of(part)).flatten() {
            let left = object.fresh_until() - now;
            let (Some(digest), true) = (object.digest(), left > 0.0) else { continue };
            let hash = u32::from_le_bytes(digest.0.first_chunk().copied().unwrap_or_default());
            let key = object.variant().map(|variant| variant.key.clone()).unwrap_or_default();
            let vary = basics::hex::lower(&key);
            let (bytes, readers) = (object.bytes(), Arc::strong_count(&object).saturating_sub(3));
            let _ = writeln!(
                out,
                "{:p} hash:{hash} vary:0x{vary:0>16} size:{bytes} ({} blocks), refcount:{readers}, expire:{left:.0}",
                Arc::as_ptr(&object),
                bytes.div_ceil(BLOCK),
            );
        }
    }
    Reply::Text(out)
}

pub(super) fn files(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let wanted = line.word(2);
    let mut files = context.control.files();
    if !wanted.is_empty() {
        files.retain(|backend| &*backend.backend == wanted);
        if files.is_empty() {
            return Reply::error("No such backend with files.");
        }
    }
    Reply::Text(show_files(&files))
}

pub(super) fn sockets(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let mut out = "# socket lvl processes\n".to_owned();
    for (address, level) in &context.sockets {
        let _ = writeln!(out, "{address} {} all", level_name(*level));
    }
    Reply::Text(out)
}

pub(super) fn version(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    Reply::info(context.control.process().product.version)
}

pub(super) fn startup_logs(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let logs = &context.startup_logs;
    Reply::Unended(Severity::Info, if logs.is_empty() { "\n".to_owned() } else { logs.clone() })
}

/// `show errors [<proxy>] [request|response]`; -1 is every proxy.
pub(super) fn errors(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let name = line.word(2);
    let id = match name {
        "" => -1,
        name => match find_proxy(context.control, name, |_| true) {
            Some(proxy) => i64::from(proxy.id),
            None => leading_number(name),
        },
    };
    if id == 0 {
        return Reply::error("No such proxy.");
    }
    let (total, captures) = context.control.captures(&|proxy: &ProxyName| id == -1 || i64::from(proxy.id) == id);
    let mut out = format!("Total events captured on [{}] : {total}\n", date(context.now, context.offset));
    let asked = |capture: &&Capture| match line.word(3) {
        "request" => !capture.is_response,
        "response" => capture.is_response,
        _ => true,
    };
    for capture in captures.iter().filter(asked) {
        capture::render(&mut out, capture, &date(capture.at, context.offset));
    }
    Reply::Text(out)
}

/// `21/Nov/2026:03:35:34.365`
pub(super) fn date(now: Duration, offset: i32) -> String {
    let date = Date::at(i64::try_from(now.as_secs()).unwrap_or(0) + i64::from(offset));
    let Date { year, day, hour, minute, second, .. } = date;
    let month = date.month_short();
    format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02}.{:03}", now.subsec_millis())
}

pub(super) fn pools(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let bytes = context.control.process().memory_bytes;
    Reply::Text(format!(
        "Memory is the system's: there are no pools.\nTotal: 0 pools, {bytes} bytes allocated, {bytes} used.\n"
    ))
}

pub(super) fn descriptors(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    Reply::ShowDescriptors(match line.word(2) {
        "" => None,
        number => Some(i32::try_from(leading_number(number)).unwrap_or(-1)),
    })
}

/// `show libs`: the program itself, which needs no others but the system's.
pub(super) fn libraries(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    Reply::Text(context.libraries.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, millis, offset, expected) in [
            (0, 0, 0, "01/Jan/1970:00:00:00.000"),
            (951_782_400, 7, 0, "29/Feb/2000:00:00:00.007"),
            (1_795_232_134, 365, 0, "21/Nov/2026:03:35:34.365"),
            (1_798_761_599, 0, 3_600, "01/Jan/2027:00:59:59.000"),
            (1_798_761_600, 0, -3_600, "31/Dec/2026:23:00:00.000"),
        ] {
            let now = Duration::from_secs(seconds) + Duration::from_millis(millis);
            assert_eq!(date(now, offset), expected);
        }
    }

    #[test]
    fn numbers_as_c_reads_them() {
        for (text, expected) in [("12", 12), (" -3x", -3), ("+7", 7), ("x", 0), ("", 0), ("-", 0)] {
            assert_eq!(leading_number(text), expected, "{text}");
        }
    }
}
