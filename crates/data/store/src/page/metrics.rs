//! Figures for Prometheus, by the names of redis_exporter: dashboards and alerts that know Redis know the store.

use std::fmt::Write as _;

use crate::status::Info;

/// What Prometheus is to make of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    /// A gauge that is 1 if the field says `ok`.
    Ok,
}

/// A field of `INFO` as a metric.
struct Metric {
    field: &'static str,
    name: &'static str,
    kind: Kind,
}

const fn metric(kind: Kind, field: &'static str, name: &'static str) -> Metric {
    Metric { field, name, kind }
}

use Kind::{Counter, Gauge, Ok as IsOk};

/// Fields with one number each. Those of which `INFO` says nothing are left out.
const METRICS: &[Metric] = &[
    metric(Gauge, "uptime_in_seconds", "redis_uptime_in_seconds"),
    metric(Gauge, "process_id", "redis_process_id"),
    metric(Gauge, "io_threads_active", "redis_io_threads_active"),
    metric(Gauge, "connected_clients", "redis_connected_clients"),
    metric(Gauge, "blocked_clients", "redis_blocked_clients"),
    metric(Gauge, "maxclients", "redis_max_clients"),
    metric(Gauge, "tracking_clients", "redis_tracking_clients"),
    metric(Gauge, "clients_in_timeout_table", "redis_clients_in_timeout_table"),
    metric(Gauge, "client_recent_max_input_buffer", "redis_client_recent_max_input_buffer_bytes"),
    metric(Gauge, "client_recent_max_output_buffer", "redis_client_recent_max_output_buffer_bytes"),
    metric(Gauge, "allocator_active", "redis_allocator_active_bytes"),
    metric(Gauge, "allocator_allocated", "redis_allocator_allocated_bytes"),
    metric(Gauge, "allocator_resident", "redis_allocator_resident_bytes"),
    metric(Gauge, "used_memory", "redis_memory_used_bytes"),
    metric(Gauge, "used_memory_rss", "redis_memory_used_rss_bytes"),
    metric(Gauge, "used_memory_peak", "redis_memory_used_peak_bytes"),
    metric(Gauge, "used_memory_overhead", "redis_memory_used_overhead_bytes"),
    metric(Gauge, "used_memory_startup", "redis_memory_used_startup_bytes"),
    metric(Gauge, "used_memory_dataset", "redis_memory_used_dataset_bytes"),
    metric(Gauge, "used_memory_lua", "redis_memory_used_lua_bytes"),
    metric(Gauge, "maxmemory", "redis_memory_max_bytes"),
    metric(Gauge, "mem_fragmentation_ratio", "redis_mem_fragmentation_ratio"),
    metric(Gauge, "mem_fragmentation_bytes", "redis_mem_fragmentation_bytes"),
    metric(Gauge, "mem_clients_normal", "redis_mem_clients_normal"),
    metric(Gauge, "lazyfree_pending_objects", "redis_lazyfree_pending_objects"),
    metric(Gauge, "loading", "redis_loading_dump_file"),
    metric(Gauge, "rdb_changes_since_last_save", "redis_rdb_changes_since_last_save"),
    metric(Gauge, "rdb_bgsave_in_progress", "redis_rdb_bgsave_in_progress"),
    metric(Gauge, "rdb_last_save_time", "redis_rdb_last_save_timestamp_seconds"),
    metric(IsOk, "rdb_last_bgsave_status", "redis_rdb_last_bgsave_status"),
    metric(Gauge, "rdb_last_bgsave_time_sec", "redis_rdb_last_bgsave_duration_sec"),
    metric(Gauge, "aof_enabled", "redis_aof_enabled"),
    metric(IsOk, "aof_last_write_status", "redis_aof_last_write_status"),
    metric(Gauge, "aof_current_size", "redis_aof_current_size_bytes"),
    metric(Gauge, "aof_base_size", "redis_aof_base_size_bytes"),
    metric(Gauge, "aof_pending_bio_fsync", "redis_aof_pending_bio_fsync"),
    metric(Gauge, "instantaneous_ops_per_sec", "redis_instantaneous_ops_per_sec"),
    metric(Gauge, "instantaneous_input_kbps", "redis_instantaneous_input_kbps"),
    metric(Gauge, "instantaneous_output_kbps", "redis_instantaneous_output_kbps"),
    metric(Gauge, "pubsub_channels", "redis_pubsub_channels"),
    metric(Gauge, "pubsub_patterns", "redis_pubsub_patterns"),
    metric(Gauge, "connected_slaves", "redis_connected_slaves"),
    metric(Gauge, "master_repl_offset", "redis_master_repl_offset"),
    metric(Gauge, "repl_backlog_size", "redis_replication_backlog_bytes"),
    metric(Gauge, "number_of_cached_scripts", "redis_number_of_cached_scripts"),
    metric(Gauge, "number_of_functions", "redis_number_of_functions"),
    metric(Counter, "total_connections_received", "redis_connections_received_total"),
    metric(Counter, "rejected_connections", "redis_rejected_connections_total"),
    metric(Counter, "total_commands_processed", "redis_commands_processed_total"),
    metric(Counter, "total_error_replies", "redis_total_error_replies"),
    metric(Counter, "total_reads_processed", "redis_total_reads_processed"),
    metric(Counter, "total_writes_processed", "redis_total_writes_processed"),
    metric(Counter, "total_net_input_bytes", "redis_net_input_bytes_total"),
    metric(Counter, "total_net_output_bytes", "redis_net_output_bytes_total"),
    metric(Counter, "expired_keys", "redis_expired_keys_total"),
    metric(Counter, "evicted_keys", "redis_evicted_keys_total"),
    metric(Counter, "evicted_clients", "redis_evicted_clients_total"),
    metric(Counter, "keyspace_hits", "redis_keyspace_hits_total"),
    metric(Counter, "keyspace_misses", "redis_keyspace_misses_total"),
    metric(Counter, "used_cpu_sys", "redis_cpu_sys_seconds_total"),
    metric(Counter, "used_cpu_user", "redis_cpu_user_seconds_total"),
    metric(Counter, "used_cpu_sys_main_thread", "redis_cpu_sys_main_thread_seconds_total"),
    metric(Counter, "used_cpu_user_main_thread", "redis_cpu_user_main_thread_seconds_total"),
    metric(Gauge, "client_longest_output_list", "redis_client_longest_output_list"),
    metric(Gauge, "client_biggest_input_buf", "redis_client_biggest_input_buf"),
    metric(Gauge, "maxclients", "redis_config_maxclients"),
    metric(Gauge, "maxmemory", "redis_config_maxmemory"),
    metric(Gauge, "total_system_memory", "redis_total_system_memory_bytes"),
    metric(Gauge, "allocator_frag_ratio", "redis_allocator_frag_ratio"),
    metric(Gauge, "allocator_frag_bytes", "redis_allocator_frag_bytes"),
    metric(Gauge, "allocator_rss_ratio", "redis_allocator_rss_ratio"),
    metric(Gauge, "allocator_rss_bytes", "redis_allocator_rss_bytes"),
    metric(Gauge, "used_memory_scripts", "redis_memory_used_scripts_bytes"),
    metric(Gauge, "used_memory_scripts_eval", "redis_memory_used_scripts_eval_bytes"),
    metric(Gauge, "used_memory_functions", "redis_memory_used_functions_bytes"),
    metric(Gauge, "used_memory_vm_eval", "redis_memory_used_vm_eval_bytes"),
    metric(Gauge, "used_memory_vm_functions", "redis_memory_used_vm_functions_bytes"),
    metric(Gauge, "used_memory_vm_total", "redis_memory_used_vm_total_bytes"),
    metric(Gauge, "number_of_libraries", "redis_number_of_libraries"),
    metric(Gauge, "mem_clients_slaves", "redis_mem_clients_slaves"),
    metric(Gauge, "mem_cluster_links", "redis_mem_cluster_links_bytes"),
    metric(Gauge, "mem_aof_buffer", "redis_mem_aof_buffer_bytes"),
    metric(Gauge, "mem_replication_backlog", "redis_mem_replication_backlog_bytes"),
    metric(Gauge, "mem_total_replication_buffers", "redis_mem_total_replication_buffers_bytes"),
    metric(Gauge, "mem_not_counted_for_evict", "redis_mem_not_counted_for_eviction_bytes"),
    metric(Gauge, "expired_stale_perc", "redis_expired_stale_percentage"),
    metric(Gauge, "active_defrag_running", "redis_active_defrag_running"),
    metric(Gauge, "migrate_cached_sockets", "redis_migrate_cached_sockets_total"),
    metric(Gauge, "active_defrag_hits", "redis_defrag_hits"),
    metric(Gauge, "active_defrag_misses", "redis_defrag_misses"),
    metric(Gauge, "active_defrag_key_hits", "redis_defrag_key_hits"),
    metric(Gauge, "active_defrag_key_misses", "redis_defrag_key_misses"),
    metric(Gauge, "total_active_defrag_time", "redis_total_active_defrag_time"),
    metric(Gauge, "current_active_defrag_time", "redis_current_active_defrag_time"),
    metric(Gauge, "expired_time_cap_reached_count", "redis_expired_time_cap_reached_total"),
    metric(Gauge, "rdb_current_bgsave_time_sec", "redis_rdb_current_bgsave_duration_sec"),
    metric(Gauge, "rdb_last_cow_size", "redis_rdb_last_cow_size_bytes"),
    metric(Gauge, "rdb_saves", "redis_rdb_saves_total"),
    metric(Gauge, "current_cow_size", "redis_current_cow_size_bytes"),
    metric(Gauge, "current_cow_peak", "redis_current_cow_peak_bytes"),
    metric(Gauge, "current_fork_perc", "redis_current_fork_perc"),
    metric(Gauge, "current_save_keys_processed", "redis_current_save_keys_processed"),
    metric(Gauge, "current_save_keys_total", "redis_current_save_keys_total"),
    metric(Gauge, "async_loading", "redis_async_loading"),
    metric(Gauge, "aof_rewrite_in_progress", "redis_aof_rewrite_in_progress"),
    metric(Gauge, "aof_rewrite_scheduled", "redis_aof_rewrite_scheduled"),
    metric(Gauge, "aof_rewrites", "redis_aof_rewrites_total"),
    metric(Gauge, "aof_last_rewrite_time_sec", "redis_aof_last_rewrite_duration_sec"),
    metric(Gauge, "aof_current_rewrite_time_sec", "redis_aof_current_rewrite_duration_sec"),
    metric(Gauge, "aof_last_cow_size", "redis_aof_last_cow_size_bytes"),
    metric(Gauge, "aof_pending_rewrite", "redis_aof_pending_rewrite"),
    metric(Gauge, "aof_buffer_length", "redis_aof_buffer_length"),
    metric(Gauge, "aof_rewrite_buffer_length", "redis_aof_rewrite_buffer_length"),
    metric(Gauge, "aof_delayed_fsync", "redis_aof_delayed_fsync"),
    metric(Gauge, "module_fork_in_progress", "redis_module_fork_in_progress"),
    metric(Gauge, "module_fork_last_cow_size", "redis_module_fork_last_cow_size"),
    metric(Gauge, "pubsubshard_channels", "redis_pubsubshard_channels"),
    metric(Gauge, "latest_fork_usec", "redis_latest_fork_usec"),
    metric(Gauge, "total_forks", "redis_forks_total"),
    metric(Gauge, "repl_backlog_active", "redis_repl_backlog_is_active"),
    metric(Gauge, "repl_backlog_first_byte_offset", "redis_repl_backlog_first_byte_offset"),
    metric(Gauge, "repl_backlog_histlen", "redis_repl_backlog_history_bytes"),
    metric(Gauge, "second_repl_offset", "redis_second_repl_offset"),
    metric(Gauge, "slave_expires_tracked_keys", "redis_slave_expires_tracked_keys"),
    metric(Gauge, "slave_priority", "redis_slave_priority"),
    metric(Gauge, "sync_full", "redis_replica_resyncs_full"),
    metric(Gauge, "sync_partial_ok", "redis_replica_partial_resync_accepted"),
    metric(Gauge, "sync_partial_err", "redis_replica_partial_resync_denied"),
    metric(Gauge, "tracking_total_keys", "redis_tracking_total_keys"),
    metric(Gauge, "tracking_total_items", "redis_tracking_total_items"),
    metric(Gauge, "tracking_total_prefixes", "redis_tracking_total_prefixes"),
    metric(Gauge, "cluster_enabled", "redis_cluster_enabled"),
    metric(Gauge, "cluster_connections", "redis_cluster_connections"),
    metric(Counter, "used_cpu_sys_children", "redis_cpu_sys_children_seconds_total"),
    metric(Counter, "used_cpu_user_children", "redis_cpu_user_children_seconds_total"),
    metric(Counter, "total_net_repl_input_bytes", "redis_net_repl_input_bytes_total"),
    metric(Counter, "total_net_repl_output_bytes", "redis_net_repl_output_bytes_total"),
    metric(Counter, "expire_cycle_cpu_milliseconds", "redis_expire_cycle_cpu_time_ms_total"),
    metric(Counter, "unexpected_error_replies", "redis_unexpected_error_replies"),
    metric(Counter, "dump_payload_sanitizations", "redis_dump_payload_sanitizations"),
    metric(Counter, "total_eviction_exceeded_time", "redis_eviction_exceeded_time_total"),
    metric(Counter, "io_threaded_reads_processed", "redis_io_threaded_reads_processed"),
    metric(Counter, "io_threaded_writes_processed", "redis_io_threaded_writes_processed"),
    metric(Counter, "reply_buffer_shrinks", "redis_reply_buffer_shrinks"),
    metric(Counter, "reply_buffer_expands", "redis_reply_buffer_expands"),
    metric(Counter, "acl_access_denied_auth", "redis_acl_access_denied_auth_total"),
    metric(Counter, "acl_access_denied_cmd", "redis_acl_access_denied_cmd_total"),
    metric(Counter, "acl_access_denied_key", "redis_acl_access_denied_key_total"),
    metric(Counter, "acl_access_denied_channel", "redis_acl_access_denied_channel_total"),
    metric(IsOk, "aof_last_bgrewrite_status", "redis_aof_last_bgrewrite_status"),
    // What Redis has not.
    metric(Counter, "keys_read_from_tables", "tidegate_store_keys_read_from_tables_total"),
    metric(Counter, "keys_left_to_tables", "tidegate_store_keys_left_to_tables_total"),
    metric(Gauge, "tables_applied_offset", "tidegate_store_tables_applied_offset"),
];

/// What stands in the fields of one command, by its names there.
const OF_COMMANDS: &[(&str, &str, f64)] = &[
    ("calls", "redis_commands_total", 1.0),
    ("usec", "redis_commands_duration_seconds_total", 1e-6),
    ("rejected_calls", "redis_commands_rejected_calls_total", 1.0),
    ("failed_calls", "redis_commands_failed_calls_total", 1.0),
];

/// What stands in the fields of a database.
const OF_DATABASES: &[(&str, &str, f64)] = &[
    ("keys", "redis_db_keys", 1.0),
    ("expires", "redis_db_keys_expiring", 1.0),
    ("avg_ttl", "redis_db_avg_ttl_seconds", 1e-3),
];

/// A value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Several values of one metric, by a label.
fn by_label(out: &mut String, name: &str, kind: &str, help: &str, key: &str, values: &[(String, f64)]) {
    if values.is_empty() {
        return;
    }
    head(out, name, kind, help);
    for (of, value) in values {
        let _ = writeln!(out, "{name}{{{key}=\"{}\"}} {value}", label(of));
    }
}

/// A number in a field of several: `calls=1,usec=2`.
fn part(value: &str, name: &str) -> Option<f64> {
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// All metrics, as text. `disk` is what tables and log take of it.
pub fn text(info: &Info, slow: Option<(u64, Option<(u64, f64)>)>, disk: Option<(u64, u64)>) -> String {
    let mut out = String::new();
    head(&mut out, "redis_up", "gauge", "Whether the store answers.");
    out += "redis_up 1\n";
    instance(&mut out, info);
    for Metric { field, name, kind } in METRICS {
        let Some(value) = info.get(field) else { continue };
        let number = match kind {
            Kind::Ok => Some(f64::from(u8::from(value == "ok"))),
            _ => value.parse::<f64>().ok(),
        };
        let Some(number) = number else { continue };
        head(&mut out, name, if *kind == Counter { "counter" } else { "gauge" }, &format!("{field} of INFO."));
        let _ = writeln!(out, "{name} {number}");
    }
    let of_prefix = |prefix: &str, field: &str, factor: f64| -> Vec<(String, f64)> {
        let found = info.fields().filter_map(|(name, value)| {
            let of = name.strip_prefix(prefix)?;
            Some((of.to_owned(), part(value, field)? * factor))
        });
        found.collect()
    };
    for (field, name, factor) in OF_COMMANDS {
        let values = of_prefix("cmdstat_", field, *factor);
        by_label(&mut out, name, "counter", &format!("{field} of each command."), "cmd", &values);
    }
    by_label(
        &mut out,
        "redis_errors_total",
        "counter",
        "Error replies by their first word.",
        "err",
        &of_prefix("errorstat_", "count", 1.0),
    );
    for (field, name, factor) in OF_DATABASES {
        let is_database = |of: &str| of.bytes().all(|byte| byte.is_ascii_digit());
        let values = of_prefix("db", field, *factor).into_iter().filter(|(of, _)| is_database(of));
        let values: Vec<_> = values.map(|(of, value)| (format!("db{of}"), value)).collect();
        by_label(&mut out, name, "gauge", &format!("{field} of each database."), "db", &values);
    }
    percentiles(&mut out, info);
    replication(&mut out, info);
    let mut one = |name: &str, help: &str, value: f64| {
        head(&mut out, name, "gauge", help);
        let _ = writeln!(out, "{name} {value}");
    };
    if let Some((len, last)) = slow {
        one("redis_slowlog_length", "Commands in SLOWLOG.", len as f64);
        if let Some((id, seconds)) = last {
            one("redis_slowlog_last_id", "The number of the last slow command.", id as f64);
            one("redis_last_slow_execution_duration_seconds", "How long that took.", seconds);
        }
    }
    if let Some((tables, log)) = disk {
        one("tidegate_store_tables_disk_bytes", "What the tables take of the disk.", tables as f64);
        one("tidegate_store_log_disk_bytes", "What the log takes of the disk.", log as f64);
    }
    out
}

/// How long commands take, by command and quantile.
fn percentiles(out: &mut String, info: &Info) {
    const NAME: &str = "redis_latency_percentiles_usec";
    let of = info.fields().filter_map(|(name, value)| Some((name.strip_prefix("latency_percentiles_usec_")?, value)));
    for (index, (command, value)) in of.enumerate() {
        if index == 0 {
            head(out, NAME, "summary", "How long commands take, in microseconds.");
        }
        let parts = value.split(',').filter_map(|part| part.strip_prefix('p')?.split_once('='));
        for (percent, time) in parts {
            let Ok(percent) = percent.parse::<f64>() else { continue };
            let _ = writeln!(out, "{NAME}{{cmd=\"{}\",quantile=\"{}\"}} {time}", label(command), percent / 100.0);
        }
    }
}

/// A master's replicas, or a replica's master.
fn replication(out: &mut String, info: &Info) {
    let text = |value: &str, name: &str| {
        value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default().to_owned()
    };
    for (field, name, help) in [
        ("offset", "redis_connected_slave_offset_bytes", "How far a replica is."),
        ("lag", "redis_connected_slave_lag_seconds", "When a replica was heard of last, in seconds."),
    ] {
        let replicas = (0..).map_while(|number| info.get(&format!("slave{number}")));
        for (index, value) in replicas.enumerate() {
            if index == 0 {
                head(out, name, "gauge", help);
            }
            let labels = ["ip", "port", "state"].map(|name| format!("slave_{name}=\"{}\"", label(&text(value, name))));
            let _ = writeln!(out, "{name}{{{}}} {}", labels.join(","), text(value, field));
        }
    }
    let Some(host) = info.get("master_host") else { return };
    let labels = format!("master_host=\"{}\",master_port=\"{}\"", label(host), info.number("master_port"));
    let is_up = u64::from(info.get("master_link_status") == Some("up"));
    for (name, help, value) in [
        ("redis_master_link_up", "Whether the link to the master is up.", Some(is_up)),
        (
            "redis_master_sync_in_progress",
            "Whether all keys are being copied.",
            info.get("master_sync_in_progress").and_then(|text| text.parse().ok()),
        ),
        (
            "redis_master_last_io_seconds_ago",
            "When the master was heard of last, in seconds.",
            info.get("master_last_io_seconds_ago").and_then(|text| text.parse().ok()),
        ),
        (
            "redis_slave_repl_offset",
            "How far this replica is.",
            info.get("slave_repl_offset").and_then(|text| text.parse().ok()),
        ),
    ] {
        let Some(value) = value else { continue };
        head(out, name, "gauge", help);
        let _ = writeln!(out, "{name}{{{labels}}} {value}");
    }
    head(out, "redis_slave_info", "gauge", "Which master this replica follows.");
    let _ = writeln!(out, "redis_slave_info{{{labels},read_only=\"{}\"}} 1", info.number("slave_read_only"));
}

fn instance(out: &mut String, info: &Info) {
    let start = (info.number("server_time_usec") / 1_000_000).saturating_sub(info.number("uptime_in_seconds"));
    head(out, "redis_start_time_seconds", "gauge", "When the store was started, in seconds since 1970.");
    let _ = writeln!(out, "redis_start_time_seconds {start}");
    head(out, "redis_instance_info", "gauge", "Which store it is.");
    let labels: Vec<String> = [
        "redis_version",
        "tidegate_version",
        "redis_mode",
        "role",
        "os",
        "tcp_port",
        "process_id",
        "run_id",
        "maxmemory_policy",
    ]
    .iter()
    .map(|name| format!("{name}=\"{}\"", label(info.get(name).unwrap_or_default())))
    .collect();
    let _ = writeln!(out, "redis_instance_info{{{}}} 1", labels.join(","));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_redis_exporter() {
        let info = Info::parse(
            "redis_version:7.0.15\nuptime_in_seconds:10\nserver_time_usec:110000000\nconnected_clients:3\nused_memory:1024\n\
             rdb_last_bgsave_status:ok\naof_last_write_status:err\nkeyspace_hits:7\nused_cpu_sys:0.500000\n\
             cmdstat_config|get:calls=2,usec=1500000,usec_per_call=1,rejected_calls=0,failed_calls=1\n\
             errorstat_ERR:count=4\ndb0:keys=9,expires=1,avg_ttl=2500\nos:a \"b\"\n\
             latency_percentiles_usec_get:p50=1.003,p99.9=20.5\nslave0:ip=10.0.0.7,port=6379,state=online,offset=14,lag=1\n\
             master_host:10.0.0.5\nmaster_port:6379\nmaster_link_status:up\nmaster_last_io_seconds_ago:-1\nslave_read_only:1\n",
        );
        let text = text(&info, Some((2, Some((5, 0.25)))), Some((100, 50)));
        for line in [
            "redis_up 1",
            "redis_start_time_seconds 100",
            "# TYPE redis_connected_clients gauge\nredis_connected_clients 3",
            "redis_memory_used_bytes 1024",
            "redis_rdb_last_bgsave_status 1",
            "redis_aof_last_write_status 0",
            "# TYPE redis_keyspace_hits_total counter\nredis_keyspace_hits_total 7",
            "redis_cpu_sys_seconds_total 0.5",
            "redis_commands_total{cmd=\"config|get\"} 2",
            "redis_commands_duration_seconds_total{cmd=\"config|get\"} 1.5",
            "redis_errors_total{err=\"ERR\"} 4",
            "redis_db_keys{db=\"db0\"} 9",
            "redis_db_avg_ttl_seconds{db=\"db0\"} 2.5",
            "redis_slowlog_length 2",
            "redis_last_slow_execution_duration_seconds 0.25",
            "tidegate_store_tables_disk_bytes 100",
            "# TYPE redis_latency_percentiles_usec summary\nredis_latency_percentiles_usec{cmd=\"get\",quantile=\"0.5\"} 1.003",
            "redis_connected_slave_lag_seconds{slave_ip=\"10.0.0.7\",slave_port=\"6379\",slave_state=\"online\"} 1",
            "redis_master_link_up{master_host=\"10.0.0.5\",master_port=\"6379\"} 1",
            "redis_slave_info{master_host=\"10.0.0.5\",master_port=\"6379\",read_only=\"1\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
        assert!(text.contains("os=\"a \\\"b\\\"\"") && !text.contains("redis_blocked_clients"), "{text}");
        assert!(!text.contains("redis_master_last_io_seconds_ago"), "it was never heard of: {text}");
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut apart = names.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), names.len(), "each metric is described once");
    }
}
