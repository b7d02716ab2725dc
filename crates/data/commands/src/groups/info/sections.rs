//! The sections of `INFO`, in their order.

use std::fmt::{Display, Write as _};

use crate::Context;

use super::{Fragmentation, human};

/// A section.
pub(super) struct Section {
    /// What it is asked for by.
    pub name: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// Whether it is shown to who asks for none.
    pub by_default: bool,
    /// Writes its fields.
    pub write: fn(&mut Context<'_>, &mut String),
}

pub(super) const ALL: &[Section] = &[
    Section { name: "server", title: "Server", by_default: true, write: server },
    Section { name: "clients", title: "Clients", by_default: true, write: clients },
    Section { name: "memory", title: "Memory", by_default: true, write: memory },
    Section { name: "persistence", title: "Persistence", by_default: true, write: persistence },
    Section { name: "stats", title: "Stats", by_default: true, write: stats },
    Section { name: "replication", title: "Replication", by_default: true, write: super::replication::write },
    Section { name: "cpu", title: "CPU", by_default: true, write: cpu },
    Section { name: "modules", title: "Modules", by_default: true, write: |_, _| () },
    Section { name: "commandstats", title: "Commandstats", by_default: false, write: command_stats },
    Section { name: "errorstats", title: "Errorstats", by_default: true, write: error_stats },
    Section { name: "latencystats", title: "Latencystats", by_default: false, write: latency_stats },
    Section {
        name: "cluster",
        title: "Cluster",
        by_default: true,
        write: |info, text| field(text, "cluster_enabled", u8::from(info.shared.cluster.is_some())),
    },
    Section { name: "keyspace", title: "Keyspace", by_default: true, write: keyspace },
];

pub(super) fn field(text: &mut String, name: &str, value: impl Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

pub(super) fn fields<T: Display>(text: &mut String, rows: &[(&str, T)]) {
    for (name, value) in rows {
        field(text, name, value);
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn server(context: &mut Context<'_>, text: &mut String) {
    let process = context.shared.host.process();
    let settings = &context.shared.settings;
    let now = context.keys.now;
    let uptime = now.saturating_sub(context.shared.clock.started) / 1000;
    fields(
        text,
        &[
            ("redis_version", crate::REDIS_VERSION),
            ("redis_git_sha1", "00000000"),
            ("redis_git_dirty", "0"),
            ("redis_build_id", "0000000000000000"),
            ("tidegate_version", env!("CARGO_PKG_VERSION")),
            ("redis_mode", if context.shared.cluster.is_some() { "cluster" } else { "standalone" }),
            ("os", process.os.as_str()),
        ],
    );
    field(text, "arch_bits", usize::BITS);
    fields(
        text,
        &[
            ("monotonic_clock", "POSIX clock_gettime"),
            ("multiplexing_api", "epoll"),
            ("atomicvar_api", "rust"),
            ("gcc_version", "0.0.0"),
        ],
    );
    field(text, "process_id", process.id);
    field(text, "process_supervised", process.supervised);
    field(text, "run_id", &process.run_id);
    field(text, "tcp_port", if settings.port.0 == 0 { settings.tls_port.0 } else { settings.port.0 });
    field(text, "server_time_usec", super::now_us(context));
    field(text, "uptime_in_seconds", uptime);
    field(text, "uptime_in_days", uptime / 86400);
    field(text, "hz", settings.hz.0);
    field(text, "configured_hz", settings.hz.0);
    field(text, "lru_clock", (now / 1000) & 0xff_ffff);
    field(text, "executable", &process.executable);
    field(text, "config_file", &process.config_file);
    field(text, "io_threads_active", u8::from(settings.io_threads.0 > 1));
}

fn clients(context: &mut Context<'_>, text: &mut String) {
    let shared = &context.shared;
    let others = shared.sessions.by_id.values().flatten();
    let (mut input, mut output) = (context.session.query_len(), context.session.output.bytes.len());
    for session in others {
        input = input.max(session.query_len());
        output = output.max(session.output.bytes.len());
    }
    field(text, "connected_clients", shared.sessions.by_id.len());
    field(text, "cluster_connections", 0);
    field(text, "maxclients", shared.settings.maxclients.0);
    field(text, "client_recent_max_input_buffer", input);
    field(text, "client_recent_max_output_buffer", output);
    field(text, "blocked_clients", shared.statistics.blocked);
    field(text, "clients_to_read", shared.sessions.unread.waiting());
    field(text, "tracking_clients", shared.sessions.tracking_counts().clients);
    field(text, "clients_in_timeout_table", shared.sessions.blocked.deadlines.len());
}

fn memory(context: &mut Context<'_>, text: &mut String) {
    let shared = &context.shared;
    let figures = shared.host.memory();
    let settings = &shared.settings;
    let clients = context.memory_of_clients();
    let (used, start, resident) = (figures.used, figures.at_start, figures.resident);
    let peak = shared.statistics.peak_memory.max(used);
    let space = context.keys.space();
    let tables: u64 = (0..space.len())
        .filter_map(|db| space.database(db))
        .map(|database| database.overhead())
        .map(|(keys, expiring)| keys + expiring)
        .sum();
    let overhead = start + clients + tables;
    let dataset = used.saturating_sub(overhead);
    let percent = |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    let parts = Fragmentation::of(&figures);
    let policy = crate::config::Kind::text(&settings.maxmemory_policy);
    let scripts = shared.scripting.scripts.as_ref().map_or(0, |scripts| scripts.len());
    let with_human = |text: &mut String, name: &str, bytes: u64| {
        field(text, name, bytes);
        field(text, &format!("{name}_human"), human(bytes));
    };
    with_human(text, "used_memory", used);
    with_human(text, "used_memory_rss", resident);
    with_human(text, "used_memory_peak", peak);
    field(text, "used_memory_peak_perc", percent(used, peak));
    field(text, "used_memory_overhead", overhead);
    field(text, "used_memory_startup", start);
    field(text, "used_memory_dataset", dataset);
    field(text, "used_memory_dataset_perc", percent(dataset, used.saturating_sub(start)));
    field(text, "allocator_allocated", parts.allocated);
    field(text, "allocator_active", parts.active);
    field(text, "allocator_resident", parts.resident);
    with_human(text, "total_system_memory", figures.total);
    let evaluating = shared.scripting.scripts.as_ref().map_or(0, |scripts| scripts.memory());
    let texts = shared.scripting.scripts.as_ref().map_or(0, |scripts| scripts.text_len());
    let (calling, libraries) = (shared.scripting.functions.memory(), shared.scripting.functions.text_len());
    field(text, "used_memory_lua", evaluating);
    field(text, "used_memory_vm_eval", evaluating);
    field(text, "used_memory_lua_human", human(evaluating as u64));
    field(text, "used_memory_scripts_eval", texts);
    field(text, "number_of_cached_scripts", scripts);
    field(text, "number_of_functions", shared.scripting.functions.len());
    field(text, "number_of_libraries", shared.scripting.functions.libraries().len());
    field(text, "used_memory_vm_functions", calling);
    with_human(text, "used_memory_vm_total", (evaluating + calling) as u64);
    field(text, "used_memory_functions", libraries);
    with_human(text, "used_memory_scripts", (texts + libraries) as u64);
    with_human(text, "maxmemory", settings.maxmemory.0);
    field(text, "maxmemory_policy", policy);
    for (ratio, bytes, part) in [
        ("allocator_frag_ratio", "allocator_frag_bytes", &parts.places),
        ("allocator_rss_ratio", "allocator_rss_bytes", &parts.pages),
        ("rss_overhead_ratio", "rss_overhead_bytes", &parts.process),
        ("mem_fragmentation_ratio", "mem_fragmentation_bytes", &parts.all),
    ] {
        field(text, ratio, format!("{:.2}", part.ratio));
        field(text, bytes, part.bytes);
    }
    field(text, "mem_not_counted_for_evict", 0);
    field(text, "mem_replication_backlog", 0);
    field(text, "mem_total_replication_buffers", 0);
    field(text, "mem_clients_slaves", 0);
    field(text, "mem_clients_normal", clients);
    field(text, "mem_cluster_links", 0);
    field(text, "mem_aof_buffer", 0);
    field(text, "mem_allocator", &figures.allocator);
    field(text, "active_defrag_running", 0);
    field(text, "lazyfree_pending_objects", usize::from(!context.keys.space().graveyard.is_empty()));
    field(text, "lazyfreed_objects", context.keys.space().graveyard.freed);
}

fn persistence(context: &mut Context<'_>, text: &mut String) {
    let figures = context.shared.persistence;
    let changes = context.keys.changes.dirty.saturating_sub(context.shared.changes_at_checkpoint);
    let in_progress = u8::from(figures.in_progress);
    let or_never = |ms: i64| if figures.checkpoints > 0 { ms / 1000 } else { -1 };
    let status = |failed: bool| if failed { "err" } else { "ok" };
    fields(text, &[("loading", "0"), ("async_loading", "0"), ("current_cow_peak", "0"), ("current_cow_size", "0")]);
    fields(text, &[("current_cow_size_age", "0"), ("current_fork_perc", "0.00")]);
    fields(text, &[("current_save_keys_processed", "0"), ("current_save_keys_total", "0")]);
    field(text, "rdb_changes_since_last_save", changes);
    field(text, "rdb_bgsave_in_progress", in_progress);
    field(text, "rdb_last_save_time", figures.last_checkpoint / 1000);
    field(text, "rdb_last_bgsave_status", status(figures.failed));
    field(text, "rdb_last_bgsave_time_sec", or_never(figures.last_checkpoint_ms));
    field(text, "rdb_current_bgsave_time_sec", if figures.in_progress { 0 } else { -1 });
    field(text, "rdb_saves", figures.checkpoints);
    field(text, "rdb_last_cow_size", 0);
    field(text, "rdb_last_load_keys_expired", 0);
    field(text, "rdb_last_load_keys_loaded", 0);
    field(text, "aof_enabled", u8::from(figures.enabled));
    fields(text, &[("aof_rewrite_in_progress", 0), ("aof_rewrite_scheduled", 0)]);
    fields(text, &[("aof_last_rewrite_time_sec", -1), ("aof_current_rewrite_time_sec", -1)]);
    field(text, "aof_last_bgrewrite_status", "ok");
    fields(text, &[("aof_rewrites", 0), ("aof_rewrites_consecutive_failures", 0)]);
    field(text, "aof_last_write_status", status(figures.log_failed));
    fields(text, &[("aof_last_cow_size", 0), ("module_fork_in_progress", 0), ("module_fork_last_cow_size", 0)]);
    if figures.enabled {
        let (first, end) = figures.log;
        field(text, "aof_current_size", end.saturating_sub(first));
        field(text, "aof_base_size", figures.applied.saturating_sub(first));
        fields(text, &[("aof_pending_rewrite", 0), ("aof_buffer_length", 0)]);
        field(text, "aof_pending_bio_fsync", u8::from(figures.durable < end));
        field(text, "aof_delayed_fsync", 0);
        field(text, "tables_applied_offset", figures.applied);
        field(text, "tables_emptied_databases", context.keys.space().dropped_len());
        field(text, "tables_read_by", if figures.reads_by_ring { "io_uring" } else { "threads" });
    }
}

fn stats(context: &mut Context<'_>, text: &mut String) {
    let space = context.keys.space();
    let (hits, misses, expired, evicted) = (space.hits, space.misses, space.expired, space.evicted);
    let (loads, left) = (space.loads, space.evicted_to_tables);
    let shared = &context.shared;
    let statistics = &shared.statistics;
    let [commands, input, output] = statistics.rates.means();
    let kilo = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    field(text, "total_connections_received", statistics.connections);
    field(text, "total_commands_processed", statistics.processed);
    field(text, "instantaneous_ops_per_sec", commands);
    field(text, "total_net_input_bytes", statistics.input_bytes);
    field(text, "total_net_output_bytes", statistics.output_bytes);
    fields(text, &[("total_net_repl_input_bytes", 0), ("total_net_repl_output_bytes", 0)]);
    field(text, "instantaneous_input_kbps", kilo(input));
    field(text, "instantaneous_output_kbps", kilo(output));
    fields(text, &[("instantaneous_input_repl_kbps", "0.00"), ("instantaneous_output_repl_kbps", "0.00")]);
    field(text, "rejected_connections", statistics.refused_connections);
    let (full, partial, refused) = shared.replication.syncs;
    fields(text, &[("sync_full", full), ("sync_partial_ok", partial), ("sync_partial_err", refused)]);
    field(text, "expired_keys", expired);
    fields(text, &[("expired_stale_perc", "0.00"), ("expired_time_cap_reached_count", "0")]);
    field(text, "expire_cycle_cpu_milliseconds", 0);
    field(text, "evicted_keys", evicted);
    field(text, "evicted_clients", statistics.evicted_clients);
    field(text, "client_unread_pauses", statistics.unread_pauses);
    fields(text, &[("total_eviction_exceeded_time", 0), ("current_eviction_exceeded_time", 0)]);
    field(text, "keyspace_hits", hits);
    field(text, "keyspace_misses", misses);
    field(text, "pubsub_channels", shared.sessions.pubsub.channels.len());
    field(text, "pubsub_patterns", shared.sessions.pubsub.patterns.len());
    field(text, "pubsubshard_channels", shared.sessions.pubsub.shards.len());
    fields(text, &[("latest_fork_usec", 0), ("total_forks", 0)]);
    field(text, "migrate_cached_sockets", shared.migrations.sockets);
    field(text, "slave_expires_tracked_keys", 0);
    fields(text, &[("active_defrag_hits", 0), ("active_defrag_misses", 0), ("active_defrag_key_hits", 0)]);
    fields(
        text,
        &[("active_defrag_key_misses", 0), ("total_active_defrag_time", 0), ("current_active_defrag_time", 0)],
    );
    let tracking = shared.sessions.tracking_counts();
    field(text, "tracking_total_keys", tracking.keys);
    field(text, "tracking_total_items", tracking.items);
    field(text, "tracking_total_prefixes", tracking.prefixes);
    field(text, "unexpected_error_replies", 0);
    field(text, "total_error_replies", statistics.errors);
    field(text, "dump_payload_sanitizations", 0);
    field(text, "total_reads_processed", statistics.reads);
    field(text, "total_writes_processed", statistics.writes);
    field(text, "io_threaded_reads_processed", statistics.threaded_reads);
    field(text, "io_threaded_writes_processed", statistics.threaded_writes);
    fields(text, &[("reply_buffer_shrinks", 0), ("reply_buffer_expands", 0)]);
    field(text, "keys_read_from_tables", loads);
    field(text, "keys_left_to_tables", left);
}

fn cpu(context: &mut Context<'_>, text: &mut String) {
    let figures = context.shared.host.cpu();
    field(text, "used_cpu_sys", seconds(figures.system));
    field(text, "used_cpu_user", seconds(figures.user));
    fields(text, &[("used_cpu_sys_children", "0.000000"), ("used_cpu_user_children", "0.000000")]);
    field(text, "used_cpu_sys_main_thread", seconds(figures.thread_system));
    field(text, "used_cpu_user_main_thread", seconds(figures.thread_user));
}

fn command_stats(context: &mut Context<'_>, text: &mut String) {
    let shared = &context.shared;
    for found in shared.table.all() {
        let Some(one) = shared.statistics.commands.get(found.index) else { continue };
        if one.calls == 0 && one.failed == 0 && one.rejected == 0 {
            continue;
        }
        let mean = one.time_us as f64 / one.calls.max(1) as f64;
        let value = format!(
            "calls={},usec={},usec_per_call={mean:.2},rejected_calls={},failed_calls={}",
            one.calls, one.time_us, one.rejected, one.failed
        );
        field(text, &format!("cmdstat_{}", found.full_name()), value);
    }
}

fn error_stats(context: &mut Context<'_>, text: &mut String) {
    for (kind, count) in &context.shared.statistics.error_kinds {
        field(text, &format!("errorstat_{kind}"), format_args!("count={count}"));
    }
}

fn latency_stats(context: &mut Context<'_>, text: &mut String) {
    let shared = &context.shared;
    for found in shared.table.all() {
        let times = shared.statistics.commands.get(found.index).and_then(|one| one.times.as_deref());
        let Some(times) = times else { continue };
        let percentiles = &shared.settings.latency_tracking_info_percentiles.0;
        let values: Vec<String> = percentiles
            .iter()
            .map(|percentile| format!("p{percentile}={:.3}", times.percentile(*percentile) as f64))
            .collect();
        field(text, &format!("latency_percentiles_usec_{}", found.full_name()), values.join(","));
    }
}

fn keyspace(context: &mut Context<'_>, text: &mut String) {
    let now = context.keys.now;
    let space = context.keys.space();
    for db in 0..space.len() {
        if let Some(database) = space.database(db).filter(|database| !database.is_empty()) {
            let (keys, expires, ttl) = (database.len(), database.expires_len(), database.mean_ttl(now));
            field(text, &format!("db{db}"), format_args!("keys={keys},expires={expires},avg_ttl={ttl}"));
        }
    }
}
