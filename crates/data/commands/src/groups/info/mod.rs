//! `INFO`: what the server says of itself. Sections and fields are Redis'; a field of something that is not here has the value
//! that Redis shows without it.

mod fragmentation;
mod replication;
mod sections;

pub(crate) use fragmentation::Fragmentation;

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Categories, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("INFO", -1, info)
        .flags(Flags::LOADING.union(Flags::STALE).union(Flags::TELLS_NO_KEYS))
        .group("server", Categories::DANGEROUS)
        .docs("1.0.0", "O(1)", "Returns figures of the server, by section.")
        .syntax("[section...]"),
    Command::new("TIME", 1, time)
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS))
        .group("server", Categories::empty())
        .docs("2.6.0", "O(1)", "Returns the server's time: seconds and microseconds."),
];

/// Which sections are asked for.
fn is_wanted(words: &[&[u8]], name: &str, by_default: bool) -> bool {
    let names = |word: &&[u8]| {
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        is(name) || is("all") || is("everything") || is("default") && by_default
    };
    if words.is_empty() { by_default } else { words.iter().any(names) }
}

fn info(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut text = String::new();
    for section in sections::ALL {
        if !is_wanted(context.words.from(1), section.name, section.by_default) {
            continue;
        }
        if !text.is_empty() {
            text += "\r\n";
        }
        text += "# ";
        text += section.title;
        text += "\r\n";
        (section.write)(context, &mut text);
    }
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// A number of bytes as people read it.
pub(super) fn human(bytes: u64) -> String {
    const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];
    let mut number = bytes as f64;
    let mut unit = None;
    for next in UNITS {
        if number < 1024.0 {
            break;
        }
        number /= 1024.0;
        unit = Some(next);
    }
    match unit {
        None => format!("{bytes}B"),
        Some(unit) => format!("{number:.2}{unit}"),
    }
}

fn time(context: &mut Context<'_>) -> Result<(), Failure> {
    let now = now_us(context);
    context.reply.array(2);
    context.reply.bulk((now / 1_000_000).to_string().as_bytes());
    context.reply.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}

/// Microseconds since 1970. Scripts make names of it that are to differ, so milliseconds would not do.
fn now_us(context: &Context<'_>) -> u64 {
    context.shared.host.time_us().unwrap_or_else(|| context.now().unsigned_abs() * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::testing::Shard;

    struct Clock;

    impl crate::host::Host for Clock {
        fn time_us(&self) -> Option<u64> {
            Some(1_700_000_000_123_456)
        }
    }

    #[test]
    fn time_has_microseconds() {
        let mut shard = Shard::new();
        let client = shard.client();
        assert_eq!(shard.ask(client, "TIME"), "*2 $1 1 $1 0 ");
        shard.0.shared.host = Box::new(Clock);
        assert_eq!(shard.ask(client, "TIME"), "*2 $10 1700000000 $6 123456 ");
        assert!(shard.ask(client, "INFO server").contains(" server_time_usec:1700000000123456 "));
    }

    #[test]
    fn sizes_for_people() {
        let expected = [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1 << 20, "1.00M"),
            (1_500_000_000, "1.40G"),
            (u64::MAX, "16384.00P"),
        ];
        for (bytes, text) in expected {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn sections_are_chosen_by_name() {
        let mut shard = Shard::new();
        let client = shard.client();
        let titles = |reply: String| {
            let words: Vec<&str> = reply.split(' ').collect();
            words.windows(2).filter(|pair| pair[0] == "#").map(|pair| pair[1].to_owned()).collect::<Vec<_>>().join(" ")
        };
        shard.ask(client, "SET a 1");
        shard.ask(client, "LPUSH a 1");
        let default = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace";
        let all = "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats \
                   Cluster Keyspace";
        for (command, expected) in [
            ("INFO", default),
            ("INFO default", default),
            ("INFO EVERYTHING", all),
            ("INFO cpu keyspace cpu", "CPU Keyspace"),
            ("INFO commandstats default", all.replace(" Latencystats", "").as_str()),
            ("INFO nothing", ""),
        ] {
            assert_eq!(titles(shard.ask(client, command)), expected, "{command}");
        }
        assert!(shard.ask(client, "INFO errorstats").contains("errorstat_WRONGTYPE:count=1 "));
        let commands = shard.ask(client, "INFO commandstats");
        assert!(
            commands.contains("cmdstat_lpush:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1 "),
            "{commands}"
        );
        assert!(
            shard
                .ask(client, "INFO latencystats")
                .contains("latency_percentiles_usec_set:p50=0.000,p99=0.000,p99.9=0.000 ")
        );
        assert!(shard.ask(client, "INFO keyspace").contains("db0:keys=1,expires=0,avg_ttl=0 "));
    }

    #[test]
    fn what_clients_and_scripts_take_is_told() {
        let mut shard = Shard::new();
        let client = shard.client();
        let number = |text: &str, name: &str| -> u64 {
            text.split(' ').find_map(|word| word.strip_prefix(name)).and_then(|value| value.parse().ok()).expect(name)
        };
        let of_one = number(&shard.ask(client, "INFO memory"), "mem_clients_normal:");
        let listed = number(&shard.ask(client, "CLIENT LIST"), "tot-mem=");
        assert!(0 < of_one && of_one <= listed, "{of_one} {listed}");
        shard.client();
        assert_eq!(number(&shard.ask(client, "INFO memory"), "mem_clients_normal:"), 2 * of_one);
        shard.ask(client, "EVAL 'return 1' 0");
        let figures = shard.ask(client, "MEMORY STATS");
        assert!(figures.contains(&format!(" clients.normal :{} ", 2 * of_one)), "{figures}");
        assert!(figures.contains(" lua.caches :") && !figures.contains(" lua.caches :0 "), "{figures}");
        assert!(!figures.contains(" db.0 "), "{figures}");
        shard.ask(client, "SET a 1 EX 100\r\nSELECT 3\r\nSET b 1");
        let figures = shard.ask(client, "MEMORY STATS");
        let of_one = number(&figures.replace("overhead.hashtable.main :", "main:"), "main:");
        assert!(of_one > 0, "{figures}");
        assert!(figures.contains(" db.0 *6 $23 overhead.hashtable.main :"), "{figures}");
        assert!(figures.contains(" db.3 *6 ") && figures.contains("overhead.hashtable.expires :0 "), "{figures}");
    }
}
