//! Commands about the instance as a whole, its backends, bans and storages.

use basics::Date;
use std::{fmt::Write as _, time::SystemTime};

use super::{Access, Call, matches};
use crate::{
    AdminHealth, BackendEntry, BanEntry, ChildState, Failure, Instance, Outcome, Status,
    command::{self, Command},
    json, table,
};

const BANNER_LINE: &str = "-----------------------------";

/// What a client is told first.
pub(crate) fn banner(instance: &mut dyn Instance) -> String {
    let mut text = format!("{BANNER_LINE}\nVarnish Cache CLI 1.0\n{BANNER_LINE}\n");
    for line in instance.identity() {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str("\nType 'help' for command list.\nType 'quit' to close CLI session.\n");
    if instance.state() != ChildState::Running {
        text.push_str("Type 'start' to launch worker process.\n");
    }
    text
}

pub(super) fn run(name: &str, call: &Call<'_>, access: Access, instance: &mut dyn Instance) -> Outcome {
    match name {
        "auth" => Err(Failure::cannot("This client is known already.\n")),
        "backend.list" => backend_list(call, instance),
        "backend.set_health" => backend_set_health(call, instance),
        "ban" => instance.ban(call.arguments).map(|()| String::new()),
        "ban.list" => Ok(ban_list(call, &instance.bans()?)),
        "banner" => Ok(banner(instance)),
        "debug.listen_address" => Ok(listeners(instance)),
        "help" => help(call, access, instance.state() == ChildState::Running),
        "panic.clear" => panic_clear(call, instance),
        "panic.show" => panic_show(call, instance),
        "pid" => Ok(pid(call, instance)),
        "ping" => Ok(ping(call)),
        "quit" => Err(Failure { status: Status::Close, text: "Closing CLI connection".to_owned() }),
        "start" => start(instance),
        "status" => Ok(status(call, instance.state())),
        "stop" => stop(instance),
        "storage.list" => Ok(storages(call, instance)),
        _ => instance.debug(name, call.arguments).unwrap_or_else(|| {
            let text = "Unimplemented\n".to_owned();
            Err(Failure { status: Status::Unimplemented, text })
        }),
    }
}

fn help(call: &Call<'_>, access: Access, has_worker: bool) -> Outcome {
    let is_visible = |command: &&Command| {
        (access == Access::Full || command.is_for_strangers) && (has_worker || !command.is_for_worker)
    };
    let visible = || command::ALL.iter().filter(is_visible);
    if call.wants_json {
        let elements: Vec<String> = visible().map(help_json).collect();
        return Ok(json::envelope(2, call.words, call.now, &elements));
    }
    let lines = |wanted: &dyn Fn(&Command) -> bool| {
        visible().filter(|command| wanted(command)).fold(String::new(), |text, command| text + command.syntax + "\n")
    };
    match call.argument(0) {
        "" => Ok(lines(&|command| !command.is_debug)),
        "-a" => Ok(lines(&|_| true)),
        "-d" => Ok(lines(&|command| command.is_debug)),
        flag if flag.starts_with('-') => Err(Failure { status: Status::Unknown, text: "Unknown flag\n".to_owned() }),
        name => match visible().find(|command| command.name == name) {
            Some(command) => Ok(format!("{}\n{}\n", command.syntax, command.help)),
            None => Err(Failure {
                status: Status::Unknown,
                text: "Unknown request.\nType 'help' for more info.\n".to_owned(),
            }),
        },
    }
}

fn help_json(command: &Command) -> String {
    json::object(&[
        ("request", json::string(command.name)),
        ("syntax", json::string(command.syntax)),
        ("help", json::string(command.help)),
        ("minarg", command.arguments_min.to_string()),
        ("maxarg", command.arguments_max.map_or_else(|| "-1".to_owned(), |most| most.to_string())),
        ("flags", json::string(if command.is_debug { "d" } else { "" })),
        ("json", command.has_json.to_string()),
    ])
}

fn ping(call: &Call<'_>) -> String {
    if call.wants_json {
        return json::envelope(2, call.words, call.now, &[json::string("PONG")]);
    }
    format!("PONG {:.0} 1.0", json::seconds(call.now).trunc())
}

fn status(call: &Call<'_>, state: ChildState) -> String {
    match call.wants_json {
        true => json::envelope(2, call.words, call.now, &[json::string(state.name())]),
        false => format!("Child in state {}", state.name()),
    }
}

fn start(instance: &mut dyn Instance) -> Outcome {
    let state = instance.state();
    if state != ChildState::Stopped {
        return Err(Failure::cannot(format!("Child in state {}", state.name())));
    }
    let vcls = instance.vcls();
    if vcls.is_empty() {
        return Err(Failure::cannot("No VCL loaded"));
    }
    if !vcls.iter().any(|vcl| vcl.is_active) {
        return Err(Failure::cannot("No active VCL"));
    }
    instance.start()
}

fn stop(instance: &mut dyn Instance) -> Outcome {
    let state = instance.state();
    match state {
        ChildState::Running => instance.stop(),
        _ => Err(Failure::cannot(format!("Child in state {}", state.name()))),
    }
}

fn pid(call: &Call<'_>, instance: &mut dyn Instance) -> String {
    let pids = instance.pids();
    if call.wants_json {
        let worker = pids.worker.map(|worker| format!(", \"worker\": {worker}")).unwrap_or_default();
        return json::envelope(2, call.words, call.now, &[format!("{{\"master\": {}{worker}}}", pids.master)]);
    }
    let worker = pids.worker.map(|worker| format!("Worker: {worker:>10}\n")).unwrap_or_default();
    format!("Master: {:>10}\n{worker}", pids.master)
}

fn panic_show(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let Some(text) = instance.panic_text() else {
        return Err(Failure::cannot("Child has not panicked or panic has been cleared"));
    };
    Ok(if call.wants_json {
        json::envelope(2, call.words, call.now, &[json::string(&text)])
    } else {
        format!("{text}\n")
    })
}

fn panic_clear(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let flag = call.argument(0);
    if !flag.is_empty() && flag != "-z" {
        return Err(Failure::parameter(format!("Unknown parameter \"{flag}\".")));
    }
    if instance.panic_text().is_none() && flag.is_empty() {
        return Err(Failure::cannot("No panic to clear"));
    }
    instance.clear_panic(flag == "-z");
    Ok(String::new())
}

fn listeners(instance: &mut dyn Instance) -> String {
    let line =
        |text: String, (name, address, port): (String, String, String)| text + &format!("{name} {address} {port}\n");
    instance.listeners().into_iter().fold(String::new(), line)
}

fn storages(call: &Call<'_>, instance: &mut dyn Instance) -> String {
    let storages = instance.storages();
    if call.wants_json {
        let element = |(name, kind): &(String, String)| {
            json::object(&[("name", json::string(name)), ("storage", json::string(kind))])
        };
        return json::envelope(2, call.words, call.now, &storages.iter().map(element).collect::<Vec<_>>());
    }
    let line = |text: String, (name, kind): &(String, String)| text + &format!("\tstorage.{name} = {kind}\n");
    storages.iter().fold("Storage devices:\n".to_owned(), line)
}

fn ban_list(call: &Call<'_>, bans: &[BanEntry]) -> String {
    if call.wants_json {
        let element = |ban: &BanEntry| {
            json::object(&[
                ("time", format!("{:.6}", ban.time)),
                ("refs", ban.references.to_string()),
                ("completed", ban.is_completed.to_string()),
                ("spec", json::string(&ban.specification)),
            ])
        };
        return json::envelope(2, call.words, call.now, &bans.iter().map(element).collect::<Vec<_>>());
    }
    let mut text = "Present bans:\n".to_owned();
    for ban in bans {
        let mark = if ban.is_completed { 'C' } else { '-' };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{:.6} {:>5} {mark}  {}", ban.time, ban.references, ban.specification);
    }
    text
}

/// The backends that a pattern means: `name` of any VCL that is in use, `vcl.name`, each with `*`.
fn chosen(pattern: &str, instance: &mut dyn Instance) -> Result<Vec<BackendEntry>, Failure> {
    let backends = instance.backends()?;
    if pattern.is_empty() {
        let active = instance.vcls().into_iter().find(|vcl| vcl.is_active).map(|vcl| vcl.name).unwrap_or_default();
        let prefix = format!("{active}.");
        return Ok(backends.into_iter().filter(|backend| backend.name.starts_with(&prefix)).collect());
    }
    if pattern.contains('.') {
        return Ok(backends.into_iter().filter(|backend| matches(pattern, &backend.name)).collect());
    }
    // Without a VCL's name it is one of the active VCL.
    let active = instance.vcls().into_iter().find(|vcl| vcl.is_active).map(|vcl| vcl.name).unwrap_or_default();
    let of_active = |backend: &BackendEntry| {
        backend
            .name
            .strip_prefix(&active)
            .and_then(|name| name.strip_prefix('.'))
            .is_some_and(|name| matches(pattern, name))
    };
    Ok(backends.into_iter().filter(of_active).collect())
}

fn backend_list(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let mut wants_json = call.wants_json;
    let mut wants_probes = false;
    let mut rest = call.arguments;
    while let [flag, behind @ ..] = rest
        && let Some(letters) = flag.strip_prefix('-')
    {
        for letter in letters.chars() {
            match letter {
                'j' => wants_json = true,
                'p' => wants_probes = !wants_probes,
                _ => return Err(Failure::parameter(format!("Invalid flag {letter}"))),
            }
        }
        rest = behind;
    }
    if rest.len() > 1 {
        return Err(Failure::parameter("Too many arguments"));
    }
    let backends = chosen(rest.first().map_or("", String::as_str), instance)?;
    if wants_json {
        let members: Vec<(&str, String)> =
            backends.iter().map(|backend| (backend.name.as_str(), backend_json(backend, wants_probes))).collect();
        return Ok(json::envelope(3, call.words, call.now, &[json::object(&members)]));
    }
    let mut lines = "Backend name\tAdmin\tProbe\tHealth\tLast change\n".to_owned();
    for backend in &backends {
        let (good, of) = backend.good_of;
        let change = http_date(backend.last_change);
        let (admin, health) = (admin_word(backend.admin), health_word(backend.is_healthy));
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "{}\t{admin}\t{good}/{of}\t{health}\t{change}", backend.name);
        if let Some(details) = backend.details.as_ref().filter(|_| wants_probes) {
            lines.push_str(&details.lines());
        }
    }
    Ok(table::in_columns_with_details(&lines))
}

fn backend_json(backend: &BackendEntry, wants_probes: bool) -> String {
    let (good, of) = backend.good_of;
    let health = json::string(health_word(backend.is_healthy));
    let mut members = vec![
        ("type", json::string(&backend.kind)),
        ("admin_health", json::string(admin_word(backend.admin))),
        ("probe_message", format!("[{good}, {of}, {health}]")),
    ];
    if let Some(details) = backend.details.as_ref().filter(|_| wants_probes) {
        members.push(("probe_details", details.json()));
    }
    members.push(("last_change", format!("{:.3}", json::seconds(backend.last_change))));
    json::object(&members)
}

fn admin_word(admin: Option<AdminHealth>) -> &'static str {
    match admin {
        Some(AdminHealth::Auto) => "probe",
        Some(AdminHealth::Sick) => "sick",
        Some(AdminHealth::Healthy) | None => "healthy",
    }
}

fn health_word(is_healthy: bool) -> &'static str {
    if is_healthy { "healthy" } else { "sick" }
}

fn backend_set_health(call: &Call<'_>, instance: &mut dyn Instance) -> Outcome {
    let word = call.argument(1);
    let health = match word {
        "auto" | "probe" => AdminHealth::Auto,
        "healthy" => AdminHealth::Healthy,
        "sick" => AdminHealth::Sick,
        _ => return Err(Failure::parameter(format!("Invalid state {word}"))),
    };
    let backends = chosen(call.argument(0), instance)?;
    if backends.is_empty() {
        return Err(Failure::parameter("No Backends matches"));
    }
    for backend in backends {
        instance.set_backend_health(&backend.name, health)?;
    }
    Ok(String::new())
}

/// A time as in HTTP: `Mon, 23 Nov 2026 13:24:19 GMT`.
fn http_date(time: SystemTime) -> String {
    let date = Date::at(json::seconds(time) as i64);
    let Date { year, day, hour, minute, second, .. } = date;
    let (weekday, month) = (date.weekday_short(), date.month_short());
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::http_date;

    #[test]
    fn dates() {
        let cases = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_795_440_259, "Mon, 23 Nov 2026 13:24:19 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(http_date(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
