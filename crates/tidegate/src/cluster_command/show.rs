//! What the agent says of the cluster, for people.

use basics::{Date, many};
use serde_json::Value;

use crate::style::{Colour, Style, columns, size};

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_u64).map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn painted(style: Style, state: &str) -> String {
    let colour = match state {
        "ok" | "up" => Colour::Good,
        "down" => Colour::Bad,
        _ => Colour::Doubtful,
    };
    style.paint(colour, state)
}

/// Groups and servers.
pub fn status(status: &Value) -> String {
    let style = Style::of_output();
    let counts = status.get("slots").unwrap_or(&Value::Null);
    let mut out = format!("Cluster {}, epoch {}\n", painted(style, text(status, "state")), number(status, "epoch"));
    for (name, what) in [("offline", "slots that nobody serves"), ("migrating", "slots on their way")] {
        if number(counts, name) != "0" {
            out.push_str(&format!("  {} {what}\n", number(counts, name)));
        }
    }
    for proxy in list(status, "proxies") {
        let state =
            if text(proxy, "state") == "online" { String::new() } else { format!(" ({})", text(proxy, "state")) };
        out.push_str(&format!("  clients connect to {}{state}\n", text(proxy, "address")));
    }
    for problem in coordinator_problems(status) {
        out.push_str(&format!("  {}\n", style.paint(Colour::Bad, &problem)));
    }
    let hosts = list(status, "hosts");
    if hosts.len() > 1 {
        out.push_str(&format!("  {}\n", votes(hosts)));
    }
    out.push('\n');
    out.push_str(&servers(status));
    let pending = status.get("pending").unwrap_or(&Value::Null);
    if pending.as_array().is_some_and(|all| !all.is_empty()) {
        out.push_str(&format!("\n{}", self::pending(pending)));
    }
    let moves = list(status, "moves");
    if !moves.is_empty() {
        out.push_str(&format!("\n{}\n", progress(status.get("moves").unwrap_or(&Value::Null))));
    }
    out
}

/// Servers with their groups.
pub fn servers(status: &Value) -> String {
    let style = Style::of_output();
    let mut rows = vec![["GROUP", "SERVER", "ROLE", "PID", "SLOTS", "IN SYNC", "STATE"].map(str::to_owned).to_vec()];
    for group in list(status, "groups") {
        let id = number(group, "id");
        let id = if text(group, "kind") == "redis" { format!("{id} redis") } else { id };
        for server in list(group, "servers") {
            let is_master = text(server, "role") == "master";
            let in_sync = server.get("in_sync").and_then(Value::as_bool).unwrap_or(false);
            let problem = text(server, "problem");
            let state = painted(style, text(server, "state"));
            rows.push(vec![
                id.clone(),
                text(server, "address").to_owned(),
                text(server, "role").to_owned(),
                number(server, "pid"),
                if is_master { number(group, "slots") } else { String::new() },
                if is_master { String::new() } else { if in_sync { "yes" } else { "no" }.to_owned() },
                match refusal(server) {
                    Some(refusal) => format!("{state}: {refusal}"),
                    None if problem.is_empty() => format!("{state}{}", starter(server)),
                    None => format!("{state}: {problem}"),
                },
            ]);
        }
    }
    table(&rows)
}

/// What a replica has that its master has lost, if it does not copy the master for that reason.
fn refusal(server: &Value) -> Option<String> {
    let lost = server.get("refuses")?.as_array()?;
    let [until, end] = lost.as_slice() else { return None };
    Some(format!(
        "it does not copy its master, which has lost a part of its log: offsets {until} to {end} are here alone"
    ))
}

/// Says so where no agent looks after a server: one that somebody has started and that joined by `CLUSTER MEET`.
fn starter(server: &Value) -> &'static str {
    let is_known = server.get("host").is_some_and(Value::is_string);
    if is_known && text(server, "host").is_empty() { " (no agent starts it again)" } else { "" }
}

fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<[String; 7]> = rows.iter().filter_map(|row| row.clone().try_into().ok()).collect();
    columns(&rows)
}

/// Hosts with their votes.
pub fn hosts(hosts: &Value) -> String {
    let style = Style::of_output();
    let mut rows = vec![["HOST", "ADDRESS", "VOTE", "AGENT", "LEADS", "SERVERS", "PROXIES"].map(str::to_owned)];
    let is = |host: &Value, name: &str| host.get(name).and_then(Value::as_bool).unwrap_or(false);
    let word = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    let all = hosts.as_array().map(Vec::as_slice).unwrap_or_default();
    for host in all {
        let (address, told) = (text(host, "address"), text(host, "told_address"));
        let address =
            if told.is_empty() || told == address { address.to_owned() } else { format!("{address} (now {told})") };
        rows.push([
            text(host, "host").to_owned(),
            address,
            word(is(host, "votes")),
            painted(style, text(host, "state")),
            if is(host, "leads") { "yes".to_owned() } else { String::new() },
            number(host, "servers"),
            number(host, "proxies"),
        ]);
    }
    format!("{}\n{}\n", columns(&rows), votes(all))
}

/// How many votes there are, and how many are needed.
fn votes(hosts: &[Value]) -> String {
    let is = |host: &&Value, name: &str| host.get(name).and_then(Value::as_bool).unwrap_or(false);
    let voters: Vec<&Value> = hosts.iter().filter(|host| is(host, "votes")).collect();
    let there = voters.iter().filter(|host| text(host, "state") == "up").count();
    format!("{there} of {} votes are there; masters serve with {}", voters.len(), voters.len() / 2 + 1)
}

/// Proxies.
pub fn proxies(proxies: &Value) -> String {
    let mut rows = vec![["PROXY", "PID", "STATE"].map(str::to_owned)];
    for proxy in proxies.as_array().map(Vec::as_slice).unwrap_or_default() {
        rows.push([text(proxy, "address").to_owned(), number(proxy, "pid"), text(proxy, "state").to_owned()]);
    }
    columns(&rows)
}

/// Who has which slots.
pub fn slots(status: &Value) -> String {
    let mut rows = vec![["GROUP", "SLOTS", "RANGES"].map(str::to_owned)];
    for group in list(status, "groups") {
        let ranges: Vec<String> = list(group, "ranges")
            .iter()
            .filter_map(Value::as_array)
            .map(|range| range.iter().map(ToString::to_string).collect::<Vec<_>>().join("-"))
            .collect();
        rows.push([number(group, "id"), number(group, "slots"), ranges.join(" ")]);
    }
    let counts = status.get("slots").unwrap_or(&Value::Null);
    let count = |name| counts.get(name).and_then(Value::as_u64).unwrap_or(0);
    let offline = many(count("offline"), "slot is offline", "slots are offline");
    format!("{}\n{offline}, {} on their way\n", columns(&rows), count("migrating"))
}

/// Changes that were made.
pub fn history(changes: &Value) -> String {
    let mut rows = vec![["EPOCH", "AT", "BY", "WHAT"].map(str::to_owned)];
    for change in changes.as_array().map(Vec::as_slice).unwrap_or_default() {
        rows.push([
            number(change, "epoch"),
            date(change, "at"),
            text(change, "by").to_owned(),
            text(change, "what").to_owned(),
        ]);
    }
    columns(&rows)
}

/// A moment, for people.
fn date(value: &Value, name: &str) -> String {
    let Some(seconds) = value.get(name).and_then(Value::as_u64) else { return "-".to_owned() };
    let date = Date::at(i64::try_from(seconds).unwrap_or(0));
    let (hour, minute, second) = (date.hour, date.minute, date.second);
    format!("{}-{:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", date.year, date.month, date.day)
}

/// What a rescue does.
pub fn rescue(plan: &Value) -> String {
    let style = Style::of_output();
    let mut out =
        format!("The latest record that is known is of {} (epoch {}).\n", date(plan, "at"), number(plan, "epoch"));
    for branch in list(plan, "branches") {
        let hosts = |of: &Value| list(of, "hosts").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
        out.push_str(&format!(
            "{}: there are two histories of it since change {}. {} has the one that is taken (change {}). {} has another one, of {} (change {}, \
             epoch {}): what was acknowledged there alone is set aside. To take that one, end `up` on the other hosts and rescue from there.\n",
            style.paint(Colour::Bad, "DANGER"),
            number(branch, "after"),
            hosts(plan),
            number(plan, "number"),
            hosts(branch),
            date(branch, "at"),
            number(branch, "number"),
            number(branch, "epoch"),
        ));
    }
    let missing = list(plan, "missing");
    let voters = plan.get("voters").and_then(Value::as_u64).unwrap_or(0);
    let pair = |host: &Value, place: usize| host.get(place).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|host| format!("{} ({})", pair(host, 0), pair(host, 1))).collect();
        out.push_str(&format!(
            "{} of {voters} hosts are not here: {}. They lose their votes.\n",
            missing.len(),
            names.join(", ")
        ));
    }
    if plan.get("has_majority").and_then(Value::as_bool) == Some(false) {
        out.push_str(&format!(
            "{}: these are most of the hosts. If they run, they serve the same keys, and what is written to one of the two clusters is lost \
             to the other one. Switch them off first.\n",
            style.paint(Colour::Bad, "DANGER")
        ));
    }
    for group in list(plan, "groups") {
        let loss = match group.get("loss") {
            Some(Value::String(all)) if all == "all" => {
                style.paint(Colour::Bad, "none of its servers is here: its keys are not served until one comes back")
            }
            Some(Value::Object(some)) => {
                let why = some.get("some").and_then(Value::as_str).unwrap_or_default();
                style.paint(Colour::Bad, format!("writes may be lost: {why}"))
            }
            _ => style.paint(Colour::Good, "nothing that was acknowledged is lost"),
        };
        out.push_str(&format!("\ngroup {}: master {}; {loss}\n", number(group, "id"), text(group, "master")));
        let mut rows = vec![["  SERVER", "WAS", "LOG ENDS AT", "KEYS"].map(str::to_owned)];
        for server in list(group, "servers") {
            let is = |name: &str| server.get(name).and_then(Value::as_bool).unwrap_or(false);
            let was = match (is("was_master"), is("was_in_sync")) {
                (true, _) => "master".to_owned(),
                (_, true) => format!("in sync since {}", date(group, "in_sync_since")),
                _ => format!("not in sync, at least since {}", date(group, "in_sync_since")),
            };
            let found = server.get("found").filter(|found| found.is_object());
            let field = |name: &str| found.map_or_else(|| "not here".to_owned(), |found| number(found, name));
            rows.push([format!("  {}", text(server, "address")), was, field("offset"), field("keys")]);
        }
        out.push_str(&columns(&rows));
        out.push('\n');
    }
    out.push_str("\nServers that come back later are replicas; what only they have is set aside in their folders.\n");
    out
}

/// What waits for a person.
pub fn pending(all: &Value) -> String {
    let mut rows = vec![["NUMBER", "ACTION", "STATE", "WHAT"].map(str::to_owned)];
    for one in all.as_array().map(Vec::as_slice).unwrap_or_default() {
        rows.push([
            number(one, "number"),
            text(one, "action").to_owned(),
            text(one, "state").to_owned(),
            text(one, "what").to_owned(),
        ]);
    }
    if rows.len() == 1 { "nothing waits for a person".into() } else { columns(&rows) }
}

/// How actions come about.
pub fn policy(all: &Value) -> String {
    let mut rows = vec![["ACTION", "MODE", "WHAT"].map(str::to_owned)];
    for one in all.as_array().map(Vec::as_slice).unwrap_or_default() {
        rows.push(["action", "mode", "about"].map(|name| text(one, name).to_owned()));
    }
    columns(&rows)
}

/// What a change does.
pub fn what(plan: &Value) -> String {
    let mut out = text(plan, "what").to_owned();
    let bytes = plan.get("copies_bytes").and_then(Value::as_u64).unwrap_or(0);
    if bytes > 0 {
        out.push_str(&format!(" (about {} are copied)", size(bytes)));
    }
    out
}

/// What was done.
pub fn done(done: &Value) -> String {
    let mut out = format!("done: {}", text(done, "what"));
    let data: Vec<&str> = match done.get("data") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for folder in data {
        out.push_str(&format!("\nits data is still there, and may be removed: {folder}"));
    }
    out
}

/// What an undo does.
pub fn undo(plan: &Value) -> String {
    if plan.get("moves").is_none() {
        return what(plan);
    }
    format!("{}\n{}", text(plan, "what"), if list(plan, "moves").is_empty() { String::new() } else { moves(plan) })
}

/// Whether a server runs and has what its master has.
pub fn is_well(server: &Value) -> bool {
    is_up(server) && server.get("in_sync").and_then(Value::as_bool).unwrap_or(false)
}

/// Whether a server runs.
pub fn is_up(server: &Value) -> bool {
    text(server, "state") == "up"
}

/// Why a server is not well.
pub fn why_not_well(server: &Value) -> String {
    let (problem, refusal) = (text(server, "problem"), refusal(server));
    let why = match (is_up(server), problem) {
        (true, _) => refusal.as_deref().unwrap_or("gets what its master has"),
        (false, "") => "starts",
        (false, problem) => problem,
    };
    format!("{}: {why}", text(server, "address"))
}

/// What moves.
pub fn moves(plan: &Value) -> String {
    listed_moves(plan, ["slot moves", "slots move"])
}

/// The same when they are over.
pub fn moved(done: &Value) -> String {
    listed_moves(done, ["slot has moved", "slots have moved"])
}

/// The same when they are cancelled.
pub fn not_moved(done: &Value) -> String {
    listed_moves(done, ["slot does not move", "slots do not move"])
}

fn listed_moves(plan: &Value, [one, more]: [&str; 2]) -> String {
    let moves = list(plan, "moves");
    if moves.is_empty() {
        return "no slot is to move".into();
    }
    let about = |name: &str| plan.get(name).and_then(Value::as_u64).unwrap_or(0);
    let cost = match about("keys_about") {
        0 => String::new(),
        keys => format!(", about {keys} keys and {}", size(about("bytes_about"))),
    };
    let mut out = format!("{}{cost}:\n", many(plan.get("slots").and_then(Value::as_u64).unwrap_or(0), one, more));
    for one in moves {
        out.push_str(&format!(
            "  slots {} to {}: from group {} to group {}\n",
            number(one, "first"),
            number(one, "last"),
            number(one, "from"),
            number(one, "to")
        ));
    }
    out
}

/// How far moves are.
pub fn progress(moves: &Value) -> String {
    let lines = moves.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|one| {
        let copy = one.get("progress").unwrap_or(&Value::Null);
        let keys =
            copy.get("keys").and_then(Value::as_u64).map(|keys| format!(", {keys} keys copied")).unwrap_or_default();
        let speed = one.get("keys_per_second").and_then(Value::as_u64).filter(|speed| *speed > 0);
        let speed = speed.map(|speed| format!(", {speed} a second")).unwrap_or_default();
        let attempts = one.get("attempts").and_then(Value::as_u64).unwrap_or(0);
        let problem = match one.get("problem").and_then(Value::as_str) {
            Some(problem) if attempts > 1 => format!(" (attempt {attempts}; what went wrong before: {problem})"),
            Some(problem) => format!(" ({problem})"),
            None => String::new(),
        };
        format!(
            "slots {} to {} from group {} to group {}: {}{keys}{speed}{problem}",
            number(one, "first"),
            number(one, "last"),
            number(one, "from"),
            number(one, "to"),
            text(one, "phase")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A coordinator that does not answer, and agents without a leader.
fn coordinator_problems(status: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let coordinator = status.get("coordinator").unwrap_or(&Value::Null);
    if text(coordinator, "state") == "down" {
        let seconds = coordinator.get("silent_ms").and_then(Value::as_u64).unwrap_or(0) / 1_000;
        found.push(format!(
            "the coordinator has not answered for {seconds} s ({}): commands go on, but no master is replaced and nothing can be changed. If it is \
             gone for good: `tidegate cluster rescue`",
            text(coordinator, "problem")
        ));
    }
    if text(coordinator, "state") == "other" {
        found.push(format!(
            "{} ({}). Commands go on, but no master is replaced and nothing can be changed. Bring the one of before back as it was last; if it is              gone for good, end all agents (`tidegate cluster down`), start them again and run `tidegate cluster rescue`",
            text(coordinator, "problem"),
            text(coordinator, "place")
        ));
    }
    for agent in list(status, "agents") {
        let problem = text(agent, "record_problem");
        if !problem.is_empty() {
            found.push(format!(
                "host {} ({}) cannot write the record, and gives no vote to a master that was named since: {problem}. Make room on its disk",
                text(agent, "host"),
                text(agent, "address")
            ));
        }
    }
    if status.get("has_leader").and_then(Value::as_bool) == Some(false) {
        found.push(
            "no agent leads: most hosts or the coordinator are away, and what is shown of servers is what this host knows".to_owned(),
        );
    }
    found
}

/// Hosts whose agents are gone, with what is gone with them, and hosts with other addresses than the record has.
fn lost_hosts(status: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let hosts = list(status, "hosts");
    for host in hosts {
        let (id, address, told) = (text(host, "host"), text(host, "address"), text(host, "told_address"));
        if text(host, "state") != "up" {
            let proxies = list(status, "proxies").iter().filter(|proxy| text(proxy, "host") == id);
            let proxies: Vec<&str> = proxies.map(|proxy| text(proxy, "address")).collect();
            let with = if proxies.is_empty() { String::new() } else { format!(", its proxy {}", proxies.join(" ")) };
            found.push(format!(
                "host {id} ({address}) is down: its agent does not answer, its vote is missing{with} (`cluster up` there, also with another \
                 --host; if it is gone for good: `tidegate cluster host remove {id}`)"
            ));
        } else if !told.is_empty() && told != address {
            found.push(format!("host {id} is at {told} now: its servers are still listed at {address}"));
        }
    }
    if found.len() > 1 || hosts.len() < 3 && !found.is_empty() {
        found.push(votes(hosts));
    }
    // A proxy of a host that is there.
    let is_down = |id: &str| hosts.iter().any(|host| text(host, "host") == id && text(host, "state") != "up");
    for proxy in list(status, "proxies").iter().filter(|proxy| text(proxy, "state") == "down") {
        if !is_down(text(proxy, "host")) {
            found.push(format!(
                "proxy {} is down: the agent starts it again (logs/ in its host's folder)",
                text(proxy, "address")
            ));
        }
    }
    found
}

/// What is not as it should be.
pub fn problems(status: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let offline = status.get("slots").and_then(|slots| slots.get("offline")).and_then(Value::as_u64);
    if offline != Some(0) {
        let offline = offline.map_or_else(|| "slots are".into(), |count| many(count, "slot is", "slots are"));
        found.push(format!("{offline} served by nobody: `tidegate cluster slot init` or `slot set` gives them out"));
    }
    found.extend(coordinator_problems(status));
    found.extend(lost_hosts(status));
    for group in list(status, "groups") {
        let id = number(group, "id");
        if text(group, "state") != "ok" {
            let waits = match text(group, "advice") {
                "" => String::new(),
                advice => format!(". {advice}"),
            };
            found.push(format!("group {id} does not serve: its master is {}{waits}", text(group, "master")));
        }
        for server in list(group, "servers") {
            let (address, problem) = (text(server, "address"), text(server, "problem"));
            if text(server, "state") != "up" {
                let why = match problem {
                    "" => "it is being told what to be, or has just come back",
                    problem => problem,
                };
                found.push(format!("group {id}: {address} is {}: {why}", text(server, "state")));
            } else if let Some(refusal) = refusal(server) {
                found.push(format!(
                    "group {id}: {address}: {refusal}. If it was in sync, it takes the master's place as soon as all that were in sync have \
                     been heard. If the master serves on, back up what is here (`tidegate backup`), then give it up: `tidegate cluster server \
                     remove {id} {address}`"
                ));
            } else if !server.get("in_sync").and_then(Value::as_bool).unwrap_or(false) {
                found.push(format!("group {id}: {address} does not have all that its master has yet"));
            }
            if let Some(answer) = server.get("refused_setting").and_then(Value::as_str) {
                found.push(format!(
                    "group {id}: {address} does not take a setting that the cluster keeps (`tidegate cluster config get`): {answer}"
                ));
            }
        }
    }
    for one in list(status, "losses") {
        found.push(format!(
            "{} ({}). A backup may have it; `tidegate cluster action confirm {}` when you have taken note",
            text(one, "what"),
            date(one, "at"),
            number(one, "number")
        ));
    }
    for one in list(status, "pending") {
        let (number, action, what) = (number(one, "number"), text(one, "action"), text(one, "what"));
        found.push(match text(one, "state") {
            "off" => format!("the policy has {action} off, so this is left to you: {what}"),
            "refused" => format!("refused, and still so: {what} (`tidegate cluster action confirm {number}` does it)"),
            "confirmed" => format!("confirmed, and about to be done: {what}"),
            _ => format!(
                "waits for you: {what} (`tidegate cluster action confirm {number}`, or `action refuse {number}`)"
            ),
        });
    }
    for one in list(status, "moves").iter().filter(|one| one.get("problem").is_some_and(Value::is_string)) {
        found.push(format!(
            "slots {} to {} do not move: {}",
            number(one, "first"),
            number(one, "last"),
            text(one, "problem")
        ));
    }
    found
}
