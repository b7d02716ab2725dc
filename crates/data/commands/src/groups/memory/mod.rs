//! `MEMORY`: what takes how much.

use std::fmt::Write as _;

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

use super::{
    help,
    info::{Fragmentation, human},
};

const GROUP: &str = "server";

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("MEMORY", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::empty())
    .docs("4.0.0", "depends on the subcommand", "Shows what takes memory.")
    .subcommands(&[
        Command::new("DOCTOR", 2, doctor).group(GROUP, Categories::empty()).docs("4.0.0", "O(1)", "Reports problems."),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::empty()).docs(
            "4.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("MALLOC-STATS", 2, malloc_stats).group(GROUP, Categories::empty()).docs(
            "4.0.0",
            "O(1)",
            "Returns the allocator's own statistics.",
        ),
        Command::new("PURGE", 2, purge).group(GROUP, Categories::empty()).docs(
            "4.0.0",
            "O(1)",
            "Makes the allocator give back free memory at once; by itself it does so within a second or two.",
        ),
        Command::new("STATS", 2, stats).group(GROUP, Categories::empty()).docs(
            "4.0.0",
            "O(1)",
            "Shows how much memory each part of the server takes.",
        ),
        Command::new("USAGE", -3, usage)
            .flags(Flags::READONLY)
            .keys(&[KeySpec::one(2, Access::RO)])
            .group(GROUP, Categories::empty())
            .docs("4.0.0", "O(N) for N samples", "Estimates the bytes of memory of a key.")
            .syntax("key#0 [SAMPLES/count:integer]"),
    ])];

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[(&str, &str)] = &[
        ("DOCTOR", "Reports problems."),
        ("MALLOC-STATS", "Returns the allocator's own statistics."),
        ("PURGE", "Makes the allocator give back free memory."),
        ("STATS", "Shows how much memory each part of the server takes."),
        (
            "USAGE <key> [SAMPLES <count>]",
            "Estimates the bytes of <key> from the sizes of <count> of its elements (default: 5, 0: all).",
        ),
    ];
    help::reply(context, "MEMORY", LINES);
    Ok(())
}

fn usage(context: &mut Context<'_>) -> Result<(), Failure> {
    const SAMPLES_DEFAULT: usize = 5;
    let words = context.words;
    let mut samples = SAMPLES_DEFAULT;
    let mut index = 3;
    while index < words.len() {
        if !words.is(index, "SAMPLES") || index + 1 >= words.len() {
            return Err(Failure::Syntax);
        }
        samples = match words.integer(index + 1)? {
            ..0 => return Err(Failure::Syntax),
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(usize::MAX),
        };
        index += 2;
    }
    match context.keys.peek(words.at(2))? {
        Some(entry) => context.reply.count(entry.footprint(samples)),
        None => context.reply.null(),
    }
    Ok(())
}

fn purge(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.host.purge_memory();
    context.reply.ok();
    Ok(())
}

fn malloc_stats(context: &mut Context<'_>) -> Result<(), Failure> {
    let memory = context.shared.host.memory();
    let text = format!(
        "The allocator is {}. Asked of it: {} bytes. Given out: {}. Pages with such places: {}. Resident of its pages: {}. \
         Resident of the process: {}.\n",
        memory.allocator,
        memory.used,
        memory.allocator_allocated,
        memory.allocator_active,
        memory.allocator_resident,
        memory.resident
    );
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// What is known of memory beyond the machine's figures.
struct Figures {
    used: u64,
    peak: u64,
    at_start: u64,
    allocator: Fragmentation,
    clients: u64,
    scripts: u64,
    functions: u64,
    keys: u64,
    /// Databases that have keys: what their tables take, and the order of what expires.
    databases: Vec<(usize, (u64, u64))>,
}

fn figures(context: &mut Context<'_>) -> Figures {
    let memory = context.shared.host.memory();
    let space = context.keys.space();
    let keys = (0..space.len()).filter_map(|db| space.database(db)).map(|database| database.len() as u64).sum();
    let with_keys = (0..space.len()).filter_map(|db| Some((db, space.database(db)?)));
    let databases = with_keys.filter(|(_, one)| !one.is_empty()).map(|(db, one)| (db, one.overhead())).collect();
    let scripts = context.shared.scripting.scripts.as_ref().map_or(0, |scripts| scripts.text_len() as u64);
    Figures {
        used: memory.used,
        peak: context.shared.statistics.peak_memory.max(memory.used),
        at_start: memory.at_start,
        allocator: Fragmentation::of(&memory),
        clients: context.memory_of_clients(),
        scripts,
        functions: context.shared.scripting.functions.text_len() as u64,
        keys,
        databases,
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn stats(context: &mut Context<'_>) -> Result<(), Failure> {
    enum Figure {
        Count(u64),
        Ratio(f64),
    }
    use Figure::{Count, Ratio};
    let figures = figures(context);
    let tables: u64 = figures.databases.iter().map(|(_, (keys, expiring))| keys + expiring).sum();
    let overhead = figures.at_start + figures.clients + figures.scripts + figures.functions + tables;
    let dataset = figures.used.saturating_sub(overhead);
    let grown = figures.used.saturating_sub(figures.at_start);
    let parts = &figures.allocator;
    let count = |bytes: i64| Count(bytes.max(0).unsigned_abs());
    let rows = [
        ("peak.allocated", Count(figures.peak)),
        ("total.allocated", Count(figures.used)),
        ("startup.allocated", Count(figures.at_start)),
        ("replication.backlog", Count(0)),
        ("clients.slaves", Count(0)),
        ("clients.normal", Count(figures.clients)),
        ("cluster.links", Count(0)),
        ("aof.buffer", Count(0)),
        ("lua.caches", Count(figures.scripts)),
        ("functions.caches", Count(figures.functions)),
        ("overhead.total", Count(overhead)),
        ("keys.count", Count(figures.keys)),
        ("keys.bytes-per-key", Count(grown.checked_div(figures.keys).unwrap_or(0))),
        ("dataset.bytes", Count(dataset)),
        ("dataset.percentage", Ratio(share(dataset, grown))),
        ("peak.percentage", Ratio(share(figures.used, figures.peak))),
        ("allocator.allocated", Count(parts.allocated)),
        ("allocator.active", Count(parts.active)),
        ("allocator.resident", Count(parts.resident)),
        ("allocator-fragmentation.ratio", Ratio(parts.places.ratio)),
        ("allocator-fragmentation.bytes", count(parts.places.bytes)),
        ("allocator-rss.ratio", Ratio(parts.pages.ratio)),
        ("allocator-rss.bytes", count(parts.pages.bytes)),
        ("rss-overhead.ratio", Ratio(parts.process.ratio)),
        ("rss-overhead.bytes", count(parts.process.bytes)),
        ("fragmentation", Ratio(parts.all.ratio)),
        ("fragmentation.bytes", count(parts.all.bytes)),
    ];
    context.reply.map(rows.len() + figures.databases.len());
    for (name, figure) in rows {
        if name == "overhead.total" {
            write_databases(context, &figures.databases);
        }
        context.reply.bulk(name.as_bytes());
        match figure {
            Count(count) => context.reply.integer(count as i64),
            Ratio(ratio) => context.reply.double(ratio),
        }
    }
    Ok(())
}

fn write_databases(context: &mut Context<'_>, databases: &[(usize, (u64, u64))]) {
    for (db, (keys, expiring)) in databases {
        context.reply.bulk(format!("db.{db}").as_bytes());
        let rows = [
            ("overhead.hashtable.main", *keys),
            ("overhead.hashtable.expires", *expiring),
            ("overhead.hashtable.slot-to-keys", 0),
        ];
        context.reply.map(rows.len());
        for (name, bytes) in rows {
            context.reply.bulk(name.as_bytes());
            context.reply.integer(bytes as i64);
        }
    }
}

fn doctor(context: &mut Context<'_>) -> Result<(), Failure> {
    const SMALL: u64 = 5 << 20;
    let figures = figures(context);
    let bound = context.shared.settings.maxmemory.0;
    let mut text = String::new();
    if bound > 0 && figures.used > bound {
        let (used, bound) = (human(figures.used), human(bound));
        let _ = writeln!(
            text,
            "- {used} are in use, which is more than maxmemory ({bound}): too much waits to be written."
        );
    }
    if figures.used > SMALL && figures.peak > figures.used + figures.used / 2 {
        let (used, peak) = (human(figures.used), human(figures.peak));
        let _ =
            writeln!(text, "- {peak} were in use once, {used} are now: the machine may see more in use than there is.");
    }
    let parts = &figures.allocator;
    if figures.used > SMALL && parts.active > parts.allocated + parts.allocated / 2 {
        let (allocated, active) = (human(parts.allocated), human(parts.active));
        let _ = writeln!(
            text,
            "- {allocated} are given out in pages of {active}: memory is in pieces. Values that come and go fill them again; a restart mends it at once."
        );
    }
    if figures.used > SMALL && parts.resident > parts.active + parts.active / 2 {
        let free = human(parts.resident - parts.active);
        let _ = writeln!(text, "- {free} are free and not given back yet: that takes some seconds, MEMORY PURGE none.");
    }
    if figures.clients > figures.used / 2 && figures.used > SMALL {
        let clients = human(figures.clients);
        let _ = writeln!(text, "- {clients} of that are buffers of clients: CLIENT LIST tells whose.");
    }
    if text.is_empty() {
        text = "Nothing is wrong with memory.\n".into();
    }
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}
