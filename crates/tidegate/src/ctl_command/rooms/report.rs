//! What the edge's answers say, in tables for people. Works on HAProxy's answers too: a column that it does not tell has a dash.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::style::{columns, lasting, size};

/// The answer to `show info`.
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// Of its lines, `Name: value`.
    pub fn of_lines(text: &str) -> Self {
        let line = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Self(text.lines().filter_map(line).collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("-", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }
}

/// The answer to `show stat`, a row for each frontend, backend and server.
pub struct Statistics {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Statistics {
    /// Of its lines. Values in quotes are none of those that are looked at, but may have commas.
    pub fn of_csv(text: &str) -> Self {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let names = lines.next().unwrap_or_default().trim_start_matches("# ");
        let names = names.split(',').map(str::to_owned).collect();
        Self { names, rows: lines.map(fields).collect() }
    }

    fn value<'a>(&self, row: &'a [String], name: &str) -> &'a str {
        let place = self.names.iter().position(|known| known == name);
        place.and_then(|place| row.get(place)).map_or("-", |text| if text.is_empty() { "-" } else { text })
    }

    /// Proxies that have this side: `FRONTEND`, `BACKEND`.
    pub fn named(&self, side: &str) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| self.value(row, "svname") == side);
        rows.map(|row| self.value(row, "pxname").to_owned()).collect()
    }

    /// `backend/server` of all servers.
    pub fn servers(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| self.value(row, "type") == "2");
        rows.map(|row| format!("{}/{}", self.value(row, "pxname"), self.value(row, "svname"))).collect()
    }
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => {
                if let Some(last) = fields.last_mut() {
                    last.push(letter);
                }
            }
        }
    }
    fields
}

/// Version, process, since when.
pub fn uptime(info: &Info) -> String {
    let mut out = format!(
        "{} {}, process {}, up {}\n",
        info.text("Name"),
        info.text("Version"),
        info.text("Pid"),
        lasting(info.number("Uptime_sec"))
    );
    let stopping = if info.number("Stopping") > 0 { "yes: it ends when its connections have" } else { "no" };
    let _ = writeln!(out, "  host          {}", info.text("node"));
    let _ = writeln!(out, "  threads       {}", info.text("Nbthread"));
    let _ = writeln!(out, "  ends          {stopping}");
    let _ = writeln!(out, "  connections   {} now, {} so far", info.text("CurrConns"), info.text("CumConns"));
    let _ = writeln!(out, "  requests      {}", info.text("CumReq"));
    out
}

/// A row for each thread.
pub fn workers(activity: &str) -> String {
    // `conn: 3 [ 1 2 ]`; of one thread the number alone
    let values = |name: &str| -> Vec<String> {
        let line = activity.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let line = line.unwrap_or_default();
        let each = line.split_once('[').map_or(line, |(_, rest)| rest.trim_end_matches(']'));
        each.trim().trim_end_matches(']').split_whitespace().map(str::to_owned).collect()
    };
    let columns_of = ["conn", "accepted", "requests", "tasks", "busy_ms"].map(values);
    let threads = values("loops").len().max(1);
    let mut rows = vec![["THREAD", "CONNECTIONS", "ACCEPTED", "REQUESTS", "TASKS", "BUSY"].map(str::to_owned)];
    for thread in 0..threads {
        let [connections, accepted, requests, tasks, busy] =
            columns_of.each_ref().map(|all| all.get(thread).cloned().unwrap_or_else(|| "-".to_owned()));
        let busy = busy.parse().map_or(busy, |ms: u64| format!("{}.{}s", ms / 1_000, ms % 1_000 / 100));
        rows.push([(thread + 1).to_string(), connections, accepted, requests, tasks, busy]);
    }
    columns(&rows)
}

/// A row for each frontend.
pub fn connections(info: &Info, statistics: &Statistics) -> String {
    let mut out = format!("{} connections now of {} that are allowed", info.text("CurrConns"), info.text("Maxconn"));
    let _ = writeln!(out, "; {} by TLS; {} so far\n", info.text("CurrSslConns"), info.text("CumConns"));
    let mut rows = vec![["FRONTEND", "NOW", "MOST", "LIMIT", "A SECOND", "SO FAR", "STATE"].map(str::to_owned)];
    for row in statistics.rows.iter().filter(|row| statistics.value(row, "svname") == "FRONTEND") {
        rows.push(
            ["pxname", "scur", "smax", "slim", "rate", "stot", "status"]
                .map(|name| statistics.value(row, name).to_owned()),
        );
    }
    out.push_str(&columns(&rows));
    out
}

/// A row for each backend and server.
pub fn servers(statistics: &Statistics) -> String {
    let mut rows = vec![["SERVER", "STATE", "WEIGHT", "NOW", "QUEUE", "SO FAR", "ADDRESS"].map(str::to_owned)];
    for row in &statistics.rows {
        let (proxy, name) = (statistics.value(row, "pxname"), statistics.value(row, "svname"));
        let name = match statistics.value(row, "type") {
            "1" => proxy.to_owned(),
            "2" => format!("  {proxy}/{name}"),
            _ => continue,
        };
        let [state, weight, now, queue, total, address] =
            ["status", "weight", "scur", "qcur", "stot", "addr"].map(|name| statistics.value(row, name).to_owned());
        let address = if address == "-" { String::new() } else { address };
        rows.push([name, state, weight, now, queue, total, address]);
    }
    if rows.len() == 1 {
        return "there are no servers\n".to_owned();
    }
    columns(&rows)
}

/// What the system says of the process, if it is on this machine, and what the process says.
pub fn memory(info: &Info, pools: &str) -> String {
    let mut out = String::new();
    let status = std::fs::read_to_string(format!("/proc/{}/status", info.text("Pid"))).unwrap_or_default();
    for (name, what) in [("VmRSS:", "in memory now"), ("VmHWM:", "most so far")] {
        let kilobytes =
            status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
        if let Some(kilobytes) = kilobytes {
            let bytes: u64 = kilobytes;
            let _ = writeln!(out, "  {what:<14}{}", size(bytes << 10));
        }
    }
    let limit = match info.number("Memmax_MB") {
        0 => "none".to_owned(),
        limit => format!("{limit} MB"),
    };
    let _ = writeln!(out, "  limit         {limit}\n");
    out.push_str(pools.trim_end());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "# pxname,svname,qcur,scur,smax,slim,stot,rate,status,weight,type,addr,last_chk\n\
        f,FRONTEND,,1,2,100,7,0,OPEN,,0,,\nb,one,0,0,1,,5,0,UP,3,2,127.0.0.1:80,\"a, \"\"b\"\"\"\nb,BACKEND,0,0,1,10,5,0,UP,3,1,,\n";

    #[test]
    fn statistics_become_tables() {
        let statistics = Statistics::of_csv(CSV);
        assert_eq!(statistics.servers(), ["b/one"]);
        assert_eq!(statistics.named("FRONTEND"), ["f"]);
        let info = Info::of_lines("Name: HAProxy\nCurrConns: 1\nMaxconn: 50\n");
        let table = connections(&info, &statistics);
        assert!(table.starts_with("1 connections now of 50 that are allowed; - by TLS; - so far\n"), "{table}");
        assert!(table.contains("\n  f         1    2     100    0         7       OPEN\n"), "{table}");
        let table = servers(&statistics);
        assert!(table.contains("\n    b/one  UP     3       0    0      5       127.0.0.1:80\n"), "{table}");
    }

    #[test]
    fn threads_are_rows() {
        let one = workers("loops: 5\ntasks: 2\nbusy_ms: 1234\nconn: 1\n");
        assert!(one.ends_with("\n  1       1            -         -         2      1.2s\n"), "{one}");
        let two = workers("loops: 5 [ 2 3 ]\ntasks: 3 [ 1 2 ]\naccepted: 9 [ 4 5 ]\n");
        assert!(two.ends_with("  2       -            5         -         2      -\n"), "{two}");
    }
}
