//! The numbers of files that backends answer with: one table for `show files` and for Prometheus. HAProxy has neither.

use std::fmt::Write as _;

use live::files::FileNumbers;

/// A number.
pub struct FileNumber {
    /// Its column in `show files`.
    pub name: &'static str,
    /// Its metric behind `tidegate_files_`.
    pub metric: &'static str,
    /// Whether it only grows.
    pub counter: bool,
    /// What it says.
    pub doc: &'static str,
    /// Itself.
    pub value: fn(&FileNumbers) -> u64,
}

const fn gauge(
    name: &'static str,
    metric: &'static str,
    doc: &'static str,
    value: fn(&FileNumbers) -> u64,
) -> FileNumber {
    FileNumber { name, metric, counter: false, doc, value }
}

const fn counter(
    name: &'static str,
    metric: &'static str,
    doc: &'static str,
    value: fn(&FileNumbers) -> u64,
) -> FileNumber {
    FileNumber { name, metric, counter: true, doc, value }
}

/// All of them in order.
pub const NUMBERS: &[FileNumber] = &[
    gauge("open", "open", "Files that are kept open", |it| it.open),
    gauge("open_max", "open_limit", "Files that may be kept open", |it| it.open_max),
    gauge("bytes", "memory_bytes", "Bytes of files that are kept in memory", |it| it.memory_bytes),
    gauge("bytes_max", "memory_limit_bytes", "Bytes of files that may be kept in memory", |it| it.memory_bytes_max),
    counter("hits", "hits_total", "Requests whose file was open and looked at lately", |it| it.hits),
    counter("revalidated", "revalidations_total", "Requests whose open file was looked at again", |it| {
        it.revalidations
    }),
    counter("misses", "misses_total", "Requests whose file was not open", |it| it.misses),
    counter("evicted", "evictions_total", "Files that were closed because others were asked for", |it| it.evictions),
    counter("disk_waits", "disk_waits_total", "Requests that waited for a disk thread", |it| it.waits),
];

/// `show files`: a line for each backend.
#[must_use]
pub fn show_files(backends: &[FileNumbers]) -> String {
    let mut out = "# backend".to_owned();
    for number in NUMBERS {
        let _ = write!(out, " {}", number.name);
    }
    out.push('\n');
    for backend in backends {
        out.push_str(&backend.backend);
        for number in NUMBERS {
            let _ = write!(out, " {}", (number.value)(backend));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_backend() {
        let site = FileNumbers { backend: "site".into(), open: 3, open_max: 1_024, hits: 7, ..FileNumbers::default() };
        assert_eq!(
            show_files(&[site]),
            "# backend open open_max bytes bytes_max hits revalidated misses evicted disk_waits\n\
             site 3 1024 0 0 7 0 0 0 0\n"
        );
    }
}
