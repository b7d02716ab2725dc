//! `INFO replication`: the role, the master or the replicas, and where the log is.

use crate::{
    Context,
    replication::{CopyProgress, MasterLink, Role},
};

use super::sections::{field, fields};

pub(super) fn write(context: &mut Context<'_>, text: &mut String) {
    let now = context.now();
    let shared = &context.shared;
    let replication = &shared.replication;
    let (first, end) = shared.persistence.log;
    match &replication.role {
        Role::Master => field(text, "role", "master"),
        Role::Replica(link) => {
            field(text, "role", "slave");
            master(link, end, now, text);
            bond(link, shared.cluster.is_some(), text);
            field(text, "slave_priority", shared.settings.replica_priority.0);
            field(text, "slave_read_only", u8::from(shared.settings.replica_read_only.0));
            field(text, "replica_announced", u8::from(shared.settings.replica_announced.0));
        }
    }
    field(text, "connected_slaves", replication.replicas.len());
    let (least, lag_max) = (shared.settings.min_replicas_to_write.0, shared.settings.min_replicas_max_lag.0);
    if least > 0 && lag_max > 0 {
        field(text, "min_slaves_good_slaves", replication.good_replicas(lag_max, now));
    }
    for (number, (_, replica)) in replication.replicas.iter().enumerate() {
        let (address, port, state) = (&replica.address, replica.port, replica.state.word());
        let (offset, lag) = (replica.applied, replica.lag(now));
        field(
            text,
            &format!("slave{number}"),
            format!("ip={address},port={port},state={state},offset={offset},lag={lag}"),
        );
    }
    let none = || "0".repeat(40);
    field(text, "master_failover_state", replication.failover_word());
    let id = if shared.replication_id.is_empty() { none() } else { shared.replication_id.clone() };
    field(text, "master_replid", id);
    let (former, until) = match &replication.former {
        Some((id, until)) => (id.clone(), i64::try_from(*until).unwrap_or(i64::MAX)),
        None => (none(), -1),
    };
    field(text, "master_replid2", former);
    field(text, "master_repl_offset", end);
    field(text, "second_repl_offset", until);
    field(text, "log_durable_offset", shared.persistence.durable);
    field(text, "log_histories", &replication.histories);
    for (name, offset) in &replication.log_followers {
        field(text, &format!("log_follower_{name}"), offset);
    }
    field(text, "set_aside_files", replication.set_aside.len());
    if let Some(last) = replication.set_aside.last() {
        field(text, "set_aside_last", last);
    }
    field(text, "repl_backlog_active", u8::from(shared.persistence.enabled));
    field(text, "repl_backlog_size", shared.settings.repl_backlog_size.0);
    // The number of the first byte, and not of those before it.
    field(text, "repl_backlog_first_byte_offset", if shared.persistence.enabled { first + 1 } else { 0 });
    field(text, "repl_backlog_histlen", end.saturating_sub(first));
}

/// What an agent has said of the master.
fn bond(link: &MasterLink, is_node: bool, text: &mut String) {
    let bond = link.bond.as_ref();
    if is_node {
        field(text, "master_since_epoch", bond.map_or(0, |bond| bond.since));
    }
    if let Some((until, end)) = bond.and_then(|bond| bond.refusal) {
        field(text, "master_refused", format!("lacks_from={until},lacks_to={end}"));
    }
}

fn master(link: &MasterLink, end: u64, now: keyspace::Millis, text: &mut String) {
    let since = |at: Option<keyspace::Millis>| at.map_or(-1, |at| (now - at).max(0) / 1000);
    field(text, "master_host", &link.host);
    field(text, "master_port", link.port);
    field(text, "master_link_status", if link.is_up() { "up" } else { "down" });
    field(text, "master_last_io_seconds_ago", if link.is_up() { since(link.heard) } else { -1 });
    field(text, "master_sync_in_progress", u8::from(link.copy.is_some()));
    fields(text, &[("slave_read_repl_offset", end), ("slave_repl_offset", end)]);
    if let Some(CopyProgress { total, read }) = link.copy {
        let total = total.unwrap_or(0);
        let share = if total > 0 { read as f64 * 100.0 / total as f64 } else { 0.0 };
        fields(text, &[("master_sync_total_bytes", total), ("master_sync_read_bytes", read)]);
        field(text, "master_sync_left_bytes", total.saturating_sub(read));
        field(text, "master_sync_perc", format!("{share:.2}"));
        field(text, "master_sync_last_io_seconds_ago", since(link.heard));
    }
    if !link.is_up() {
        field(text, "master_link_down_since_seconds", since(link.down_since));
    }
}
