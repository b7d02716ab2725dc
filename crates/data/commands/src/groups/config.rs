//! `CONFIG`: settings while the server runs.

use keyspace::{Failure, glob};

use crate::{
    Context,
    config::{self, Change, SETTINGS, Settings, State, kept},
    host::{ListenTrouble, TlsChange},
    server::{Command, Request},
    table::{Categories, Flags},
};

const GROUP: &str = "server";
const FLAGS: Flags =
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS);

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("CONFIG", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::empty())
    .docs("2.0.0", "depends on the subcommand", "Reads and changes settings while the server runs.")
    .subcommands(&[
        Command::new("GET", -3, get)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs("2.0.0", "O(N) for N settings", "Returns the settings whose names match a pattern.")
            .syntax("parameter{parameter}..."),
        Command::new("SET", -4, set)
            .secrets(passwords)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs("2.0.0", "O(N) for N settings", "Changes settings: all or none.")
            .syntax("parameter_value{parameter value}..."),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::empty()).docs(
            "5.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("REWRITE", 2, rewrite).flags(FLAGS).group(GROUP, Categories::empty()).docs(
            "2.8.0",
            "O(N) for N lines",
            "Writes the present settings to the file that the server was started with.",
        ),
        Command::new("RESETSTAT", 2, resetstat).flags(FLAGS).group(GROUP, Categories::empty()).docs(
            "2.0.0",
            "O(1)",
            "Resets the statistics.",
        ),
    ])];

/// Settings for tests of Redis alone: a pattern does not show them.
const HIDDEN: &[&str] = &[
    "key-load-delay",
    "loading-process-events-interval-bytes",
    "rdb-key-save-delay",
    "use-exit-on-panic",
    "watchdog-period",
];

fn get(context: &mut Context<'_>) -> Result<(), Failure> {
    let settings = &context.shared.settings;
    let mut found = Vec::new();
    for pattern in context.words.from(2) {
        for setting in SETTINGS {
            if HIDDEN.contains(&setting.name) && !pattern.eq_ignore_ascii_case(setting.name.as_bytes()) {
                continue;
            }
            for name in [Some(setting.name), setting.alias].into_iter().flatten() {
                if glob::matches_ignoring_case(pattern, name.as_bytes())
                    && !found.iter().any(|(known, _)| *known == name)
                {
                    found.push((name, (setting.bytes)(settings)));
                }
            }
        }
    }
    context.reply.map(found.len());
    for (name, value) in found {
        context.reply.bulk(name.as_bytes());
        context.reply.bulk(&value);
    }
    Ok(())
}

/// The places of passwords among names and values.
fn passwords(words: &[&[u8]], places: &mut Vec<usize>) {
    places.extend(
        (2..words.len()).step_by(2).filter(|at| words.get(*at).is_some_and(|name| is_secret(name))).map(|at| at + 1),
    );
}

/// Whether a setting holds a password.
fn is_secret(name: &[u8]) -> bool {
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"]
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

/// The settings with what the names and values say, and the names of those that are set.
fn changed_settings(context: &Context<'_>, words: &[&[u8]]) -> Result<(Settings, Vec<&'static str>), Failure> {
    let unknown =
        |name: &[u8]| Failure::quoting(&[b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"]);
    let mut settings = context.shared.settings.clone();
    let mut names = Vec::new();
    for pair in words.chunks_exact(2) {
        let [name, value] = pair else { continue };
        let setting = config::find(name).ok_or_else(|| unknown(name))?;
        let failed = |reason: &str| {
            let name = String::from_utf8_lossy(name);
            Failure::owned(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
        };
        match setting.change {
            Change::Free => {}
            // Whoever sets everything as it is changes nothing.
            Change::AtStart if (setting.text)(&settings).as_bytes() == *value => continue,
            Change::AtStart => return Err(failed("can't set immutable config")),
            Change::Protected if context.may(context.shared.settings.enable_protected_configs) => {}
            Change::Protected => return Err(failed("can't set protected config")),
        }
        if names.contains(&setting.name) {
            return Err(failed("duplicate parameter"));
        }
        names.push(setting.name);
        let before = (setting.text)(&settings);
        (setting.set)(&mut settings, &[*value]).map_err(|reason| failed(&reason.to_string()))?;
        if setting.name == "dir" && (setting.text)(&settings) != before {
            return Err(failed("the folder of the data cannot change while the store runs"));
        }
        if let State::Missing(reason) = setting.state
            && (setting.text)(&settings) != (setting.text)(&Settings::default())
        {
            return Err(failed(&format!("not there yet: {reason}")));
        }
    }
    Ok((settings, names))
}

/// Refuses what a store in memory alone would take and not do: to keep its data.
fn check_persistence(context: &Context<'_>, settings: &Settings, names: &[&'static str]) -> Result<(), Failure> {
    let turned_on = |name: &str| match name {
        "appendonly" => settings.appendonly.0 && !context.shared.settings.appendonly.0,
        "save" => !settings.save.points.is_empty() && context.shared.settings.save.points.is_empty(),
        _ => false,
    };
    if let Some(name) = names.iter().find(|name| turned_on(name) && !context.shared.persistence.enabled) {
        return Err(Failure::owned(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - the store is in memory alone, and no folder can be \
             added while it runs: start it anew with this setting, or with a folder (dir)"
        )));
    }
    Ok(())
}

/// What the agent of a cluster sets at all its nodes while they run.
const SET_BY_AGENT: &[&str] = &["replica-ack", "cluster-node-timeout", "cluster-settings-told"];

/// Refuses what the agent would set back, or what would have no effect though it looks as if.
fn check_cluster(context: &Context<'_>, names: &[&'static str]) -> Result<(), Failure> {
    if !context.shared.is_steered_by_others(context.session) {
        return Ok(());
    }
    match SET_BY_AGENT.iter().find(|name| names.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::owned(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - the cluster's agent looks after that: {}",
            kept::decided(name).unwrap_or_default()
        ))),
    }
}

/// Has the process listen as the settings say, and show the certificates that they name.
fn listen(context: &mut Context<'_>, settings: &Settings, names: &[&'static str]) -> Result<(), Failure> {
    let is_tls = |name: &&str| name.starts_with("tls-") && *name != "tls-port";
    let is_address = |name: &&str| matches!(*name, "port" | "bind" | "tls-port");
    if !names.iter().any(|name| is_tls(name) || is_address(name)) {
        return Ok(());
    }
    let tls = if names.iter().any(is_tls) { TlsChange::Some } else { TlsChange::None };
    let failed = |trouble| {
        let wanted = |name: &&&'static str| match trouble {
            ListenTrouble::Address => is_address(name),
            ListenTrouble::Tls => is_tls(name),
        };
        let name = names.iter().find(wanted).or_else(|| names.iter().find(|name| is_address(name)));
        let name = name.copied().unwrap_or_default();
        let reason = match (trouble, name) {
            (ListenTrouble::Tls, _) => "Unable to update TLS configuration. Check server logs.",
            (ListenTrouble::Address, "bind") => "Failed to bind to specified addresses.",
            (ListenTrouble::Address, _) => "Unable to listen on this port. Check server logs.",
        };
        Failure::owned(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
    };
    context.shared.host.listen(settings, tls).map_err(failed)?;
    context.shared.outbox.push(Request::Listen);
    Ok(())
}

fn set(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words.from(2);
    if !words.len().is_multiple_of(2) {
        return Err(if words.len() < 2 {
            Failure::text("ERR wrong number of arguments for 'config|set' command")
        } else {
            Failure::Syntax
        });
    }
    let (settings, names) = changed_settings(context, words)?;
    check_persistence(context, &settings, &names)?;
    check_cluster(context, &names)?;
    if settings.maxclients.0 > context.shared.settings.maxclients.0 {
        context.shared.host.make_room_for_clients(settings.maxclients.0).map_err(|possible| {
            Failure::owned(format!(
                "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to \
                 handle the specified number of clients, try with {possible}"
            ))
        })?;
    }
    listen(context, &settings, &names)?;
    // The next command sees keys as the policy has them.
    context.keys.space().usage.by_frequency = settings.maxmemory_policy.is_by_frequency();
    context.shared.slow.log.keep(usize::try_from(settings.slowlog_max_len.0).unwrap_or(usize::MAX));
    context.shared.settings = settings;
    context.shared.refresh_limits();
    if names.contains(&"requirepass") {
        context.shared.set_default_password(context.session);
    }
    context.shared.settings_changed();
    context.shared.outbox.push(Request::FollowSettings);
    context.reply.ok();
    Ok(())
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[(&str, &str)] = &[
        ("GET <pattern> [<pattern> ...]", "Returns the settings whose names match, with their values."),
        ("SET <name> <value> [<name> <value> ...]", "Changes settings: all of them or none."),
        ("RESETSTAT", "Resets the statistics."),
        ("REWRITE", "Writes the present settings to their file."),
    ];
    super::help::reply(context, "CONFIG", LINES);
    Ok(())
}

fn rewrite(context: &mut Context<'_>) -> Result<(), Failure> {
    let failed = |reason: String| Failure::owned(format!("ERR Rewriting config file: {reason}"));
    // The agent starts this node with what the cluster keeps. Its file, if it has one, is that of all stores.
    if !context.shared.settings.cluster_agent_socket.0.is_empty() && context.shared.cluster.is_some() {
        return super::cluster::keep_settings(context);
    }
    let Some(old) = context.shared.host.read_config().map_err(failed)? else {
        return Err(Failure::text("ERR The server is running without a config file"));
    };
    let shared = &mut context.shared;
    let users = shared.sessions.acl.config_lines(&shared.settings, &shared.table, shared.new_users_have_channels());
    let new = config::rewrite(&old, &shared.settings, users.as_ref().map(|(lines, _)| lines.as_slice()));
    shared.host.write_config(&new).map_err(failed)?;
    if let Some((_, words)) = users {
        shared.settings.users = words;
    }
    context.reply.ok();
    Ok(())
}

fn resetstat(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.statistics.reset();
    let space = context.keys.space();
    space.graveyard.freed = 0;
    (space.hits, space.misses, space.expired, space.evicted) = (0, 0, 0, 0);
    context.reply.ok();
    Ok(())
}
