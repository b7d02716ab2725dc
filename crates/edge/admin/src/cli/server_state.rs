//! What changes of servers at run time: `show servers state`, in the form of HAProxy's server state file (version 1), and
//! `show servers conn`.

use std::fmt::Write as _;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};
use crate::stats::{
    control::find_proxy,
    view::{Detail, Place, ProxyView, ServerView, Snapshot},
};

const STATE_HEADER: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight \
    srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state \
    srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port \
    srv_check_addr srv_agent_addr srv_agent_port\n";

/// Bits of `srv_check_state`.
const CHECK_RUNNING: u32 = 0x01;
const CHECK_CONFIGURED: u32 = 0x02;
const CHECK_ENABLED: u32 = 0x04;
const CHECK_PAUSED: u32 = 0x08;

/// The backends that a command asks for, with their servers.
fn backends(context: &Context<'_>, line: &Line) -> Result<Snapshot, Reply> {
    let detail = Detail { states: true };
    let name = line.word(3);
    if name.is_empty() {
        return Ok(context.control.snapshot(&|proxy| proxy.backend, detail));
    }
    let found = find_proxy(context.control, name, |proxy| proxy.backend);
    let wanted = found.ok_or_else(|| Reply::error("Can't find backend."))?;
    Ok(context.control.snapshot(&|proxy| proxy.index == wanted.index, detail))
}

/// `show servers state`.
pub(super) fn states(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let snapshot = match backends(context, line) {
        Ok(snapshot) => snapshot,
        Err(reply) => return reply,
    };
    let mut out = STATE_HEADER.to_owned();
    for proxy in &snapshot.proxies {
        for server in &proxy.servers {
            write_state(&mut out, proxy, server);
        }
    }
    Reply::Text(out)
}

fn write_state(out: &mut String, proxy: &ProxyView, server: &ServerView) {
    let Some(state) = &server.state else { return };
    let farm = &server.farm;
    let (id, name, server_id, server_name) = (proxy.id, &proxy.name, farm.number, &farm.name);
    let _ = write!(out, "{id} {name} {server_id} {server_name} {} ", server.place.ip());
    let (operation, administration) = (state.state.code(), state.admin.bits());
    let (user_weight, weight, since) = (state.user_weight, state.initial_weight, state.last_change_s);
    let _ = write!(out, "{operation} {administration} {user_weight} {weight} {since} ");
    let result = state.check_result as u8;
    let checked = farm.track.is_none() && state.check_enabled.is_some();
    let health = match (checked, state.admin.is_maint()) {
        (true, _) => state.check_health,
        // Who is not checked stands where checks would begin.
        // Who was in maintenance once, or came at run time, stands at the bottom.
        (false, false) if state.check_health == 0 => 0,
        (false, false) => server.rise,
        (false, true) => 0,
    };
    let (status, check) = (state.check_status.code(), check_state(server));
    let _ = write!(out, "{status} {result} {health} {check} {} ", agent_state(server));
    let (forced, server_forced) = (u8::from(proxy.id_forced), u8::from(server.id_forced));
    let host = server.host_name.as_deref().unwrap_or("-");
    let service = server.service.as_deref().unwrap_or("-");
    let _ = write!(out, "{forced} {server_forced} {host} {} {service} 0 ", server.place.port());
    let (check, agent) = (server.check_place.as_ref(), server.agent_place.as_ref());
    let ip = |place: Option<&Place>| place.map_or_else(|| "-".to_owned(), Place::ip);
    let port = |place: Option<&Place>| place.map_or(0, Place::port);
    let _ = writeln!(out, "{} {} {} {}", port(check), ip(check), ip(agent), port(agent));
}

/// The bits of a check that is there, switched on, running, and an agent's.
fn agent_state(server: &ServerView) -> u32 {
    const AGENT: u32 = 0x10;
    let Some(agent) = server.state.as_ref().and_then(|state| state.agent.as_ref()) else { return 0 };
    let running = server.farm.agent.as_ref().is_some_and(|agent| agent.in_progress);
    let enabled = if agent.enabled { CHECK_ENABLED } else { 0 };
    CHECK_CONFIGURED | AGENT | enabled | u32::from(running)
}

fn check_state(server: &ServerView) -> u32 {
    let Some(state) = &server.state else { return 0 };
    // Whoever tracks another is not checked itself.
    let own = server.farm.track.is_none();
    let running = server.farm.check.as_ref().is_some_and(|check| check.in_progress);
    [
        (running, CHECK_RUNNING),
        (own && state.check_enabled.is_some(), CHECK_CONFIGURED),
        (own && state.check_enabled == Some(true), CHECK_ENABLED),
        (state.check_paused, CHECK_PAUSED),
    ]
    .into_iter()
    .filter_map(|(set, bit)| set.then_some(bit))
    .sum()
}

/// `show servers conn`.
pub(super) fn connections(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let snapshot = match backends(context, line) {
        Ok(snapshot) => snapshot,
        Err(reply) => return reply,
    };
    let mut out = format!(
        "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim \
         idle_cur idle_per_thr[{}]\n",
        snapshot.process.workers
    );
    for proxy in &snapshot.proxies {
        for server in &proxy.servers {
            let (farm, used, idle) = (&server.farm, server.used, server.idle);
            let by_worker: String = server.idle_by_worker.iter().map(|idle| format!(" {idle}")).collect();
            let _ = writeln!(
                out,
                "{}/{} {}/{} {} {} - {} {} {} {} 0 {idle} {} {idle}{by_worker}",
                proxy.name,
                farm.name,
                proxy.id,
                farm.number,
                server.place.ip(),
                server.place.port(),
                server.purge_delay.as_millis(),
                used.now,
                used.max,
                used.max,
                server.idle_limit,
            );
        }
    }
    Reply::Text(out)
}
