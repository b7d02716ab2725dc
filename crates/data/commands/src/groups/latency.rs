//! `LATENCY`: events and commands that took long.

use std::fmt::Write as _;

use keyspace::{Failure, Millis};

use crate::{
    Context,
    server::{Command, Histogram, LatencyEvent},
    table::{Categories, Flags},
};

use super::help;

const GROUP: &str = "server";
const FLAGS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("LATENCY", -2, |_| Err(Failure::Syntax))
    .group(GROUP, Categories::empty())
    .docs("2.8.13", "depends on the subcommand", "Shows slow events.")
    .subcommands(&[
        Command::new("DOCTOR", 2, doctor).flags(FLAGS).group(GROUP, Categories::empty()).docs(
            "2.8.13",
            "O(1)",
            "Reports slow events as text.",
        ),
        Command::new("GRAPH", 3, graph)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs("2.8.13", "O(1)", "Draws the samples of an event with letters.")
            .syntax("event"),
        Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::empty()).docs(
            "2.8.13",
            "O(1)",
            "Lists the subcommands.",
        ),
        Command::new("HISTOGRAM", -2, histogram)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs("7.0.0", "O(N) for N commands", "Returns how often commands took how long.")
            .syntax("[command...]"),
        Command::new("HISTORY", 3, history)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs("2.8.13", "O(1)", "Returns the samples of an event.")
            .syntax("event"),
        Command::new("LATEST", 2, latest).flags(FLAGS).group(GROUP, Categories::empty()).docs(
            "2.8.13",
            "O(1)",
            "Returns the last sample of each event.",
        ),
        Command::new("RESET", -2, reset)
            .flags(FLAGS)
            .group(GROUP, Categories::empty())
            .docs("2.8.13", "O(1)", "Removes the samples of events.")
            .syntax("[event...]"),
    ])];

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[(&str, &str)] = &[
        ("DOCTOR", "Reports slow events as text."),
        ("GRAPH <event>", "Draws the samples of <event>."),
        ("HISTOGRAM [COMMAND ...]", "Counts the calls of each command that took at most 1, 2, 4 ... microseconds."),
        ("HISTORY <event>", "Returns the samples of <event>: time and milliseconds."),
        ("LATEST", "Returns the last sample of each event."),
        ("RESET [<event> ...]", "Removes the samples of these events, or of all events."),
    ];
    help::reply(context, "LATENCY", LINES);
    Ok(())
}

fn history(context: &mut Context<'_>) -> Result<(), Failure> {
    let event = context.shared.slow.latency.event(context.words.at(2));
    context.reply.array(event.map_or(0, |event| event.samples.len()));
    for (at, ms) in event.iter().flat_map(|event| &event.samples) {
        context.reply.array(2);
        context.reply.integer(*at);
        context.reply.integer(*ms as i64);
    }
    Ok(())
}

fn latest(context: &mut Context<'_>) -> Result<(), Failure> {
    let events = context.shared.slow.latency.iter();
    context.reply.array(events.len());
    for (name, event) in events {
        let (at, ms) = event.samples.back().copied().unwrap_or_default();
        context.reply.array(4);
        context.reply.bulk(name.as_bytes());
        context.reply.integer(at);
        context.reply.integer(ms as i64);
        context.reply.integer(event.longest as i64);
    }
    Ok(())
}

fn reset(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    let count = if names.is_empty() {
        context.shared.slow.latency.clear()
    } else {
        names.iter().filter(|name| context.shared.slow.latency.forget(name)).count()
    };
    context.reply.count(count);
    Ok(())
}

fn histogram(context: &mut Context<'_>) -> Result<(), Failure> {
    let shared = &context.shared;
    let names = context.words.from(2);
    let wanted = |full_name: &str| {
        names.is_empty()
            || names.iter().any(|name| {
                let container = full_name.split('|').next().unwrap_or_default();
                full_name.as_bytes().eq_ignore_ascii_case(name) || container.as_bytes().eq_ignore_ascii_case(name)
            })
    };
    let mut found: Vec<(String, &Histogram)> = Vec::new();
    for command in shared.table.all() {
        let times = shared.statistics.commands.get(command.index).and_then(|one| one.times.as_deref());
        if let Some(times) = times {
            let name = command.full_name();
            if wanted(&name) {
                found.push((name, times));
            }
        }
    }
    context.reply.map(found.len());
    for (name, times) in found {
        context.reply.bulk(name.as_bytes());
        context.reply.map(2);
        context.reply.bulk(b"calls");
        context.reply.integer(times.total() as i64);
        context.reply.bulk(b"histogram_usec");
        let powers = times.by_powers_of_two();
        context.reply.map(powers.len());
        for (bound, count) in powers {
            context.reply.integer(bound as i64);
            context.reply.integer(count as i64);
        }
    }
    Ok(())
}

fn graph(context: &mut Context<'_>) -> Result<(), Failure> {
    let name = context.words.at(2);
    let Some(event) = context.shared.slow.latency.event(name) else {
        let name = String::from_utf8_lossy(name);
        return Err(Failure::owned(format!("ERR No samples available for event '{name}'")));
    };
    let text = draw(&String::from_utf8_lossy(name), event, context.keys.now / 1000);
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// From the bottom of a row to its top.
const TIPS: [char; 3] = ['_', 'o', '#'];

/// A column for each sample, as high as it took long; below it, from top to bottom, how long ago it was.
fn draw(name: &str, event: &LatencyEvent, now: Millis) -> String {
    let high = event.samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let low = event.samples.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", event.longest);
    text += &"-".repeat(COLUMNS);
    text.push('\n');
    let steps = ROWS * TIPS.len();
    let samples: Vec<(Millis, u64)> = event.samples.iter().copied().collect();
    for samples in samples.chunks(COLUMNS) {
        for row in (0..ROWS).rev() {
            let line: String = samples
                .iter()
                .map(|(_, ms)| {
                    let step = ((ms - low) as usize * steps / ((high - low).max(1) as usize)).min(steps - 1);
                    match step.checked_sub(row * TIPS.len()) {
                        None => ' ',
                        Some(above) => TIPS.get(above).copied().unwrap_or('|'),
                    }
                })
                .collect();
            text += line.trim_end();
            text.push('\n');
        }
        text.push('\n');
        let labels: Vec<String> = samples.iter().map(|(at, _)| ago(now.saturating_sub(*at))).collect();
        let longest = labels.iter().map(String::len).max().unwrap_or(0);
        for line in 0..longest {
            let line: String = labels.iter().map(|label| label.chars().nth(line).unwrap_or(' ')).collect();
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

fn ago(seconds: Millis) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

fn doctor(context: &mut Context<'_>) -> Result<(), Failure> {
    let settings = &context.shared.settings;
    let threshold = settings.latency_monitor_threshold.0;
    let mut text = String::new();
    if threshold == 0 {
        text += "Nothing is watched: CONFIG SET latency-monitor-threshold <milliseconds> has events kept that take longer.\n";
    } else if context.shared.slow.latency.iter().len() == 0 {
        let _ = writeln!(
            text,
            "Nothing has taken {threshold} ms or longer since this was asked to watch, or since LATENCY RESET."
        );
    } else {
        let _ = writeln!(text, "What took {threshold} ms or longer:");
        for (name, event) in context.shared.slow.latency.iter() {
            let count = event.samples.len() as u64;
            let sum: u64 = event.samples.iter().map(|(_, ms)| ms).sum();
            let mean = sum / count.max(1);
            let _ = writeln!(
                text,
                "- {name}: {count} seconds with one, {mean} ms in the mean, {} ms at most. {}",
                event.longest,
                advice(name)
            );
        }
        if settings.slowlog_log_slower_than.0 < 0 || settings.slowlog_log_slower_than.0 > threshold.saturating_mul(1000)
        {
            let _ = writeln!(
                text,
                "SLOWLOG names the commands: CONFIG SET slowlog-log-slower-than {} has it keep them.",
                threshold.saturating_mul(1000)
            );
        }
    }
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn advice(event: &str) -> &'static str {
    match event {
        "command" => {
            "SLOWLOG GET names the commands; those that walk over much (KEYS, SMEMBERS, long scripts) are better cut in pieces."
        }
        "fast-command" => {
            "Commands that are quick by themselves were not: the machine may be out of cores or of memory."
        }
        "expire-cycle" => "Many keys expired together: some random seconds more for each of them spread that.",
        "eviction-cycle" => "Keys had to go because memory is full: raise maxmemory, or let less in.",
        "aof-write" => "The log's disk is slow.",
        "checkpoint" => "Bringing keys to the tables took long.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let event = LatencyEvent { samples: [(100, 10), (160, 20), (200, 22)].into(), longest: 30 };
        let expected = format!(
            "command - high 22 ms, low 10 ms (all time high 30 ms)\n{}\n o#\n ||\n ||\n_||\n\n212\nm00\n ss\n",
            "-".repeat(COLUMNS)
        );
        assert_eq!(draw("command", &event, 220), expected.replace("m00\n ss", "mm0\n  s"));
    }
}
