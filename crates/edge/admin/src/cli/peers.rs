//! `show peers`.

use std::{fmt::Write as _, net::SocketAddr, sync::PoisonError, time::Duration, time::UNIX_EPOCH};

use ::peers::{CursorView, PeerView};
use live::peering::LiveSection;
use net::Target;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
    sessions::human,
    show::date,
};

/// Words of a cache that stand in one line.
const WORDS_PER_LINE: usize = 4;

pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let with_words = line.word(2) == "dict";
    // A section may be called "dict".
    let at = if matches!(line.word(2), "dict" | "-") { 3 } else { 2 };
    let name = line.word(at);
    // As HAProxy lists them: the last one first.
    let mut sections = context.control.peers();
    sections.reverse();
    if !name.is_empty() {
        sections.retain(|section| &*section.name == name);
        if sections.is_empty() {
            return Reply::error("No such peers");
        }
    }
    let mut out = String::new();
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        show_section(&mut out, section, context, with_words);
    }
    Reply::Text(out)
}

/// A time from now, or that there is none, as HAProxy shows it.
fn until(time: Option<i64>) -> String {
    match time.map(u64::try_from) {
        None => "<NEVER>".to_owned(),
        Some(Ok(time)) if time > 0 => human(Duration::from_millis(time)),
        Some(_) => "<PAST>".to_owned(),
    }
}

/// Something that differs from that of every other thing, where HAProxy shows an address in memory.
fn address<T: ?Sized>(of: &T) -> String {
    format!("{:#x}", std::ptr::from_ref(of).addr())
}

fn show_section(out: &mut String, section: &LiveSection, context: &Context<'_>, with_words: bool) {
    let state = section.state();
    let view = state.view(context.control.now_ms());
    let since = date(section.since.duration_since(UNIX_EPOCH).unwrap_or_default(), context.offset);
    // It has milliseconds, which are not shown here.
    let since = since.split('.').next().unwrap_or_default();
    let _ = writeln!(
        out,
        "{}: [{since}] id={} disabled=0 flags={:#x} resync_timeout={} task_calls={}",
        address(section),
        section.name,
        view.flags,
        until(view.resync_timeout),
        view.calls
    );
    // Here, too, the last one is the first.
    for (index, peer) in view.peers.iter().enumerate().rev() {
        show_peer(out, section, index, peer);
        show_tables(out, section, peer, &state, with_words);
        out.push('\n');
    }
}

fn show_peer(out: &mut String, section: &LiveSection, index: usize, peer: &PeerView) {
    let live = section.peers.get(index);
    let target = live.map_or_else(
        || "?:0".to_owned(),
        |live| match &live.target {
            Target::Inet(address) => plain(address),
            Target::Unresolved => "?:0".to_owned(),
            Target::Unix(_) | Target::Abstract(_) => "unix:0".to_owned(),
        },
    );
    let place = live.map_or_else(String::new, address);
    let _ = write!(
        out,
        "  {place}: id={}({},{}) addr={target} last_status={} last_hdshk={}\n        reconnect={} heartbeat={} confirm={} \
         tx_hbt={} rx_hbt={} no_hbt={} new_conn={} proto_err={} coll={}\n        flags={:#x}",
        peer.name,
        if peer.is_local { "local" } else { "remote" },
        if peer.connection.is_some() { "active" } else { "inactive" },
        peer.status.name(),
        peer.last_handshake.map_or_else(|| "<NEVER>".to_owned(), |time| human(Duration::from_millis(time))),
        until(peer.reconnect),
        until(peer.heartbeat),
        peer.confirm,
        peer.heartbeats.0,
        peer.heartbeats.1,
        peer.silences,
        peer.connections,
        peer.protocol_errors,
        peer.collisions,
        peer.flags
    );
    let Some((id, progress)) = peer.connection else { return };
    let state = if progress == 5 { "CON" } else { "EST" };
    let _ = write!(out, " appctx:{:#x} st0={progress} st1=0 task_calls=0 state={state}", id.0);
    let ends = section.ends.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
    if let Some((source, destination)) = ends {
        let _ = write!(out, "\n        xprt=RAW src={} addr={}", plain(&source), plain(&destination));
    }
}

/// Without brackets.
fn plain(address: &SocketAddr) -> String {
    format!("{}:{}", address.ip(), address.port())
}

fn show_tables(out: &mut String, section: &LiveSection, peer: &PeerView, state: &::peers::Section, with_words: bool) {
    let name = |table: usize| section.tables.get(table).map_or("", |name| &**name);
    let cursor = |table: usize| peer.cursors.get(table);
    for (what, table) in [("remote_table", peer.receiving), ("last_local_table", peer.sending)] {
        if let Some(table) = table
            && let Some(cursor) = cursor(table)
        {
            let _ = write!(
                out,
                "\n        {what}:{} id={} local_id={} remote_id={}",
                address(cursor),
                name(table),
                table + 1,
                cursor.remote_id
            );
        }
    }
    if peer.cursors.is_empty() {
        return;
    }
    out.push_str("\n        shared tables:");
    for ((index, cursor), shared) in peer.cursors.iter().enumerate().zip(&state.config().tables).rev() {
        show_cursor(out, index, cursor);
        let table = &shared.table;
        let _ = write!(
            out,
            "\n              table:{} id={} update={} localupdate={} commitupdate={} refcnt=1",
            address(&**table),
            name(index),
            table.last_update(),
            table.last_update(),
            table.committed()
        );
        if with_words {
            show_words(out, "TX", peer.sent_words.iter().map(|word| &**word));
            show_words(out, "RX", peer.received_words.iter().map(|word| word.as_deref().unwrap_or("-")));
        } else {
            out.push_str("\n        Dictionary cache not dumped (use \"show peers dict\")");
        }
    }
}

fn show_cursor(out: &mut String, index: usize, cursor: &CursorView) {
    let _ = write!(
        out,
        "\n          {} local_id={} remote_id={} flags={:#x} remote_data={:#x}\n              last_acked={} last_pushed={} \
         last_get={} teaching_origin={} update={}",
        address(cursor),
        index + 1,
        cursor.remote_id,
        cursor.flags,
        cursor.remote_data,
        cursor.last_acked,
        cursor.last_pushed,
        cursor.last_get,
        cursor.teaching_origin,
        cursor.update
    );
}

fn show_words<'a>(out: &mut String, way: &str, words: impl Iterator<Item = &'a str>) {
    let _ = write!(out, "\n        {way} dictionary cache:");
    for (index, word) in words.enumerate() {
        if index % WORDS_PER_LINE == 0 {
            out.push_str("\n        ");
        }
        let _ = write!(out, "  {index:3} -> {word}");
    }
}
