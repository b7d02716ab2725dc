//! A status for people.

use std::fmt::Write as _;

use super::{Info, Status};

/// How wide the names of rows are.
const NAME_WIDTH: usize = 12;

/// A number with its thousands apart.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes.
fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if number < 1000 {
        return format!("{number} bytes");
    }
    // As with `maxmemory 1gb`: 1024 of one are one of the next.
    let mut value = number as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A time in its two largest units.
fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (len, unit) in UNITS {
        let whole = left / len;
        left %= len;
        if whole > 0 && parts.len() < 2 {
            parts.push(format!("{whole} {unit}"));
        } else if !parts.is_empty() {
            break;
        }
    }
    if parts.is_empty() { "0 s".into() } else { parts.join(" ") }
}

/// One thing or many of it.
fn many(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// The status as a table, a row a line.
#[must_use]
pub fn table(status: &Status) -> String {
    let info = &status.info;
    let mut text = head(info);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<NAME_WIDTH$}  {value}");
        }
    };
    let listens = status.running.as_ref().map_or_else(|| status.address.clone(), |running| running.listens.join(", "));
    row("listens on", listens);
    let page = status.running.as_ref().and_then(|running| running.page.as_ref());
    row("page", page.map(|address| format!("http://{address}/")).unwrap_or_default());
    row("folder", status.folder.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default());
    row("keys", keys(info));
    row("clients", clients(info));
    row("commands", commands(info, status.slow));
    row("memory", memory(info));
    row("found", found(info));
    row(
        "disk",
        status.disk.map(|(tables, log)| format!("tables {}, log {}", bytes(tables), bytes(log))).unwrap_or_default(),
    );
    row("log", log(info));
    row("checkpoint", checkpoint(info));
    for line in trouble(info) {
        row("TROUBLE", line.to_owned());
    }
    text
}

fn head(info: &Info) -> String {
    let server = match info.get("tidegate_version") {
        Some(version) => format!("Tidegate's store {version}"),
        None => format!("Redis {}", info.get("redis_version").unwrap_or("?")),
    };
    format!("{server}, process {}, up {}\n", info.number("process_id"), span(info.number("uptime_in_seconds")))
}

fn keys(info: &Info) -> String {
    let databases = info.databases();
    let keys = databases.iter().map(|(_, keys, _)| keys).sum();
    let expire = databases.iter().map(|(_, _, expires)| expires).sum();
    let mut text = many(keys, "key", "keys");
    if expire > 0 {
        let _ = write!(text, ", {} of them with an expiry", count(expire));
    }
    if databases.iter().any(|(db, ..)| *db > 0) {
        let each: Vec<String> = databases.iter().map(|(db, keys, _)| format!("db{db} {}", count(*keys))).collect();
        let _ = write!(text, " ({})", each.join(", "));
    }
    text
}

fn clients(info: &Info) -> String {
    let mut text = format!("{} of {}", count(info.number("connected_clients")), count(info.number("maxclients")));
    for (name, words) in [("blocked_clients", "blocked"), ("rejected_connections", "refused so far")] {
        let number = info.number(name);
        if number > 0 {
            let _ = write!(text, ", {} {words}", count(number));
        }
    }
    text
}

fn commands(info: &Info, slow: Option<u64>) -> String {
    let mut text = format!(
        "{} a second, {} since the start",
        count(info.number("instantaneous_ops_per_sec")),
        count(info.number("total_commands_processed"))
    );
    let (errors, slow) = (info.number("total_error_replies"), slow.unwrap_or(0));
    if errors > 0 {
        let _ = write!(text, ", {}", many(errors, "error", "errors"));
    }
    if slow > 0 {
        let _ = write!(text, ", {} in SLOWLOG", count(slow));
    }
    text
}

fn memory(info: &Info) -> String {
    let used = bytes(info.number("used_memory"));
    let bound = match info.number("maxmemory") {
        0 => " (maxmemory: no bound)".into(),
        bound => format!(" of {} (maxmemory, {})", bytes(bound), info.get("maxmemory_policy").unwrap_or_default()),
    };
    let resident = bytes(info.number("used_memory_rss"));
    format!("{used}{bound}, peak {}, the process {resident}", bytes(info.number("used_memory_peak")))
}

/// How keys that were asked for were found.
fn found(info: &Info) -> String {
    let (hits, misses) = (info.number("keyspace_hits"), info.number("keyspace_misses"));
    if hits + misses == 0 {
        return String::new();
    }
    let mut text = format!("{} of {} keys asked for were there", percent(hits, hits + misses), count(hits + misses));
    if info.get("keys_read_from_tables").is_some() {
        let loads = info.number("keys_read_from_tables");
        let _ = write!(text, ", {} came from the disk", many(loads, "key", "keys"));
    }
    text
}

fn log(info: &Info) -> String {
    if info.get("tables_applied_offset").is_none() {
        return if info.get("tidegate_version").is_some() {
            "none: all data is in memory, and gone when the store ends (--dir)".into()
        } else {
            String::new()
        };
    }
    let (first, end) = (info.number("repl_backlog_first_byte_offset"), info.number("master_repl_offset"));
    let behind = end.saturating_sub(info.number("tables_applied_offset"));
    let synced = if info.number("aof_pending_bio_fsync") == 0 { "all of it synced" } else { "the end is being synced" };
    format!("offsets {first} to {end}, {synced}; the tables are {} behind", bytes(behind))
}

fn checkpoint(info: &Info) -> String {
    if info.get("tables_applied_offset").is_none() {
        return String::new();
    }
    if info.number("rdb_bgsave_in_progress") == 1 {
        return "under way".into();
    }
    let ago = (info.number("server_time_usec") / 1_000_000).saturating_sub(info.number("rdb_last_save_time"));
    let since = many(info.number("rdb_changes_since_last_save"), "change", "changes");
    match info.number("rdb_saves") {
        0 => format!("none since the start, {since}"),
        _ => format!("{} ago, {since} since", span(ago)),
    }
}

fn trouble(info: &Info) -> Vec<&'static str> {
    let mut found = Vec::new();
    if info.get("aof_last_write_status") == Some("err") {
        found.push("the log cannot be written: writes are refused (the store's messages say why)");
    }
    if info.get("rdb_last_bgsave_status") == Some("err") {
        found.push("the tables cannot be written: the log grows (the store's messages say why)");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [(0, "0 bytes"), (1024, "1.0 kB"), (1 << 30, "1.0 GB"), (1_500_000_000, "1.4 GB")] {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in
            [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (90061, "1 d 1 h"), (86_460, "1 d")]
        {
            assert_eq!(span(number), text);
        }
    }

    #[test]
    fn a_table_says_what_is_wrong() {
        let info = Info::parse(
            "tidegate_version:0.1.0\nprocess_id:7\nuptime_in_seconds:61\nconnected_clients:2\nmaxclients:10000\n\
             blocked_clients:1\nused_memory:2097152\nmaxmemory:1073741824\nmaxmemory_policy:noeviction\n\
             tables_applied_offset:100\nmaster_repl_offset:150\naof_last_write_status:err\nrdb_last_bgsave_status:ok\n\
             keyspace_hits:3\nkeyspace_misses:1\nkeys_read_from_tables:1\ndb0:keys=3,expires=1,avg_ttl=0\n",
        );
        let status =
            Status { address: "127.0.0.1:1".into(), running: None, folder: None, disk: None, info, slow: Some(2) };
        let text = table(&status);
        for wanted in [
            "Tidegate's store 0.1.0, process 7, up 1 min 1 s\n",
            "  listens on    127.0.0.1:1\n",
            "  keys          3 keys, 1 of them with an expiry\n",
            "  clients       2 of 10,000, 1 blocked\n",
            "  memory        2.0 MB of 1.0 GB (maxmemory, noeviction)",
            "  found         75.0 % of 4 keys asked for were there, 1 key came from the disk\n",
            "all of it synced; the tables are 50 bytes behind\n",
            "  TROUBLE       the log cannot be written",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("the tables cannot"), "{text}");
    }
}
