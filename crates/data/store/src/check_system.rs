//! `--check-system`: what of the machine's settings is bad for a store, in the form of redis-server's report.

use std::{fmt::Write as _, fs};

use commands::config::Settings;

use crate::messages;

/// What a check found: why the machine is bad, or nothing; an error if nobody can tell.
type Finding = Result<Option<String>, ()>;

type Check = (&'static str, fn() -> Finding);

const CHECKS: &[Check] = &[
    ("slow-clocksource", || {
        read("/sys/devices/system/clocksource/clocksource0/current_clocksource").map(|text| clock(&text))
    }),
    ("overcommit", || read("/proc/sys/vm/overcommit_memory").map(|text| overcommit(&text))),
    ("THP", || read("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| huge_pages(&text))),
];

/// The report, and whether all is well.
pub fn report() -> (String, bool) {
    let mut text = String::new();
    let mut is_good = true;
    for (name, check) in CHECKS {
        let _ = match check() {
            Ok(None) => writeln!(text, "[{name}]...OK"),
            Err(()) => writeln!(text, "[{name}]...skipped"),
            Ok(Some(reason)) => {
                is_good = false;
                writeln!(text, "[{name}]...WARNING:\n{reason}")
            }
        };
    }
    (text, is_good)
}

/// Says what of the settings the machine does not let be.
pub fn warn(settings: &Settings) {
    let bound = read("/proc/sys/net/core/somaxconn").ok().and_then(|text| text.trim().parse().ok());
    if let Some(bound) = bound.filter(|bound| *bound < settings.tcp_backlog.0) {
        messages::warn(&backlog(settings.tcp_backlog.0, bound));
    }
}

fn backlog(wanted: i64, bound: i64) -> String {
    format!(
        "WARNING: The TCP backlog setting of {wanted} cannot be enforced because /proc/sys/net/core/somaxconn is set to the lower \
         value of {bound}. (sysctl net.core.somaxconn={wanted}, or lower tcp-backlog)"
    )
}

fn read(path: &str) -> Result<String, ()> {
    fs::read_to_string(path).map_err(|_| ())
}

/// Clocks that are read by a system call, and not in the process.
fn clock(text: &str) -> Option<String> {
    let name = text.trim();
    matches!(name, "hpet" | "acpi_pm" | "xen").then(|| {
        format!(
            "The machine's clock '{name}' is slow to read, and a store reads it at each turn: take another one \
             (/sys/devices/system/clocksource/clocksource0/available_clocksource has those that there are)"
        )
    })
}

/// Nothing is forked, so only the strictest way, where what is reserved must be there, is in the way.
fn overcommit(text: &str) -> Option<String> {
    (text.trim() == "2").then(|| {
        "vm.overcommit_memory is 2: the allocator reserves more memory than it uses, and may be refused it before maxmemory is \
         reached; set it to 0 or 1 (sysctl vm.overcommit_memory=1)"
            .to_owned()
    })
}

/// What is given back in small pages comes back as large ones.
fn huge_pages(text: &str) -> Option<String> {
    text.contains("[always]").then(|| {
        "Transparent huge pages are on for all programs: a store switches them off for itself (disable-thp), but what runs \
         beside it takes more memory by them; set them to madvise \
         (echo madvise > /sys/kernel/mm/transparent_hugepage/enabled)"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_is_told_with_a_remedy() {
        assert!(clock("tsc\n").is_none() && clock("kvm-clock\n").is_none());
        assert!(clock("xen\n").is_some_and(|text| text.contains("available_clocksource")));
        assert!(overcommit("0\n").is_none() && overcommit("1\n").is_none());
        assert!(overcommit("2\n").is_some_and(|text| text.contains("sysctl")));
        assert!(huge_pages("always [madvise] never\n").is_none());
        assert!(huge_pages("[always] madvise never\n").is_some());
        let (text, _) = report();
        assert!(text.starts_with("[slow-clocksource]...") && text.contains("\n[overcommit]..."), "{text}");
    }
}
