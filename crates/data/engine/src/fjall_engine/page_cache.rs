//! Whether single records are read through the machine's page cache, or past it.
//!
//! What lies in the page cache is read for a microsecond. To put a block there that is not takes as much CPU time as everything
//! else that a read from the disk takes, and as much again when something else has to leave for it. So the cache is worth it where
//! it has room for a good part of the files, which a machine that has memory left has and a container whose limit is just above
//! `maxmemory` has not. Zipf's law over ten times as much data as memory, in such a container: 78,000 GET/s through the cache,
//! 91,000 past it.

use std::path::Path;

/// How single records are read from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageCache {
    /// Through the page cache where that has room for a good part of the files.
    #[default]
    Auto,
    /// Through it.
    Through,
    /// Past it, if the file system can do that.
    Past,
}

/// The page cache has to have room for one in so many bytes of files.
const SHARE: u64 = 2;

impl PageCache {
    /// Whether it goes past the cache, with so many bytes of files.
    pub(super) fn is_past(self, files_bytes: u64) -> bool {
        match self {
            Self::Auto => room().is_some_and(|room| room < files_bytes / SHARE),
            Self::Through => false,
            Self::Past => true,
        }
    }
}

/// How many bytes of files the kernel may keep in memory for this process, as things are: what is free, and what files take.
/// `None` if the kernel does not say.
fn room() -> Option<u64> {
    let machine = field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")? * 1024;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(groups.lines().filter_map(|line| of_group(Path::new("/sys/fs/cgroup"), line)).fold(machine, u64::min))
}

/// The least room in a group of processes and those above it: a line of `/proc/self/cgroup` names it.
fn of_group(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, names) = match controllers {
        "" => (root.to_owned(), ["memory.max", "memory.current", "active_file", "inactive_file"]),
        _ if controllers.split(',').any(|name| name == "memory") => {
            let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file", "total_inactive_file"];
            (root.join("memory"), names)
        }
        _ => return None,
    };
    let group = root.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|group| group.starts_with(&root)).filter_map(|group| of_folder(group, names)).min()
}

fn of_folder(group: &Path, [limit, usage, active, inactive]: [&str; 4]) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    // "max" is none.
    let limit: u64 = text(limit)?.trim().parse().ok()?;
    let usage: u64 = text(usage)?.trim().parse().ok()?;
    let stat = text("memory.stat")?;
    let files = field(&stat, active)? + field(&stat, inactive)?;
    Some(limit.saturating_sub(usage.saturating_sub(files)))
}

/// The number behind a word at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_room_for_something() {
        assert!(room().is_some_and(|room| room > 0));
        assert!(!PageCache::Auto.is_past(0) && PageCache::Auto.is_past(u64::MAX));
        assert!(!PageCache::Through.is_past(u64::MAX) && PageCache::Past.is_past(0));
    }

    #[test]
    fn a_group_has_the_room_that_is_free_or_taken_by_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, files: [(&str, &str); 3]| {
            std::fs::create_dir_all(root.path().join(group)).unwrap();
            files.iter().for_each(|(name, text)| std::fs::write(root.path().join(group).join(name), text).unwrap());
        };
        let stat = ("memory.stat", "anon 70\nactive_file 20\ninactive_file 5\n");
        write("a", [("memory.max", "1000\n"), ("memory.current", "100\n"), stat]);
        write("a/b", [("memory.max", "max\n"), ("memory.current", "100\n"), stat]);
        let stat = ("memory.stat", "active_file 1\ntotal_active_file 10\ntotal_inactive_file 10\n");
        write("memory/c", [("memory.limit_in_bytes", "50"), ("memory.usage_in_bytes", "40"), stat]);
        for (line, room) in [
            ("0::/a/b", Some(925)),
            ("0::/a", Some(925)),
            ("0::/", None),
            ("4:memory:/c", Some(30)),
            ("4:cpu,memory:/c/none", Some(30)),
            ("4:cpu:/c", None),
            ("nonsense", None),
            ("0::/../../etc", None),
        ] {
            assert_eq!(of_group(root.path(), line), room, "{line}");
        }
    }
}
