//! The files that the program was loaded from (`show libs`). Read at start: later they may be out of reach.

use std::fmt::Write as _;

/// One line a file: where it begins and ends in memory, how long that is, and its name.
#[must_use]
pub fn loaded() -> String {
    listed(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

/// Their names, a line each (`-dL`).
#[must_use]
pub fn names() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    files(&maps).into_iter().fold(String::new(), |out, (.., name)| out + name + "\n")
}

fn files(maps: &str) -> Vec<(u64, u64, &str)> {
    let mut files: Vec<(u64, u64, &str)> = Vec::new();
    for line in maps.lines() {
        // Address range, rights, offset, device, inode, name.
        let mut fields = line.split_ascii_whitespace();
        let Some((start, end)) = fields.next().and_then(|range| range.split_once('-')) else { continue };
        let Some(name) = fields.nth(4).filter(|name| name.starts_with('/') && !name.starts_with("/memfd:")) else {
            continue;
        };
        let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16)) else { continue };
        match files.iter_mut().find(|(_, _, known)| *known == name) {
            Some(file) => (file.0, file.1) = (file.0.min(start), file.1.max(end)),
            None => files.push((start, end, name)),
        }
    }
    files
}

fn listed(maps: &str) -> String {
    let mut out = String::new();
    for (start, end, name) in files(maps) {
        let last = end.saturating_sub(1);
        let _ = writeln!(out, "{start:#014x}-{last:#014x} ({:#09x}) {name}", end.saturating_sub(start));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_once() {
        let maps = "7f0000001000-7f0000002000 r--p 0000 08:01 1 /lib/libc.so.6\n\
                    7f0000002000-7f0000004000 r-xp 1000 08:01 1 /lib/libc.so.6\n\
                    7ffc00000000-7ffc00001000 rw-p 0000 00:00 0 [stack]\n\
                    7f1000000000-7f1000001000 rw-s 0000 00:01 5 /memfd:ring (deleted)\n";
        assert_eq!(listed(maps), "0x7f0000001000-0x7f0000003fff (0x0003000) /lib/libc.so.6\n");
        assert_eq!(listed("x\n-\n"), "");
    }
}
