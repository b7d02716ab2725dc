//! What operators are told of files that are kept open.

use crate::{
    DEFAULTS, Files, get,
    support::{Edge, free_address},
};

/// Columns of the only line of `show files`.
fn columns<const COUNT: usize>(edge: &Edge, names: [&str; COUNT]) -> [u64; COUNT] {
    let shown = edge.command("show files");
    let mut lines = shown.lines().map(|line| line.trim_start_matches("# ").split(' ').collect::<Vec<_>>());
    let (titles, values) = (lines.next().unwrap(), lines.next().unwrap());
    names.map(|name| values[titles.iter().position(|title| *title == name).unwrap()].parse().unwrap())
}

#[test]
fn what_is_kept_open_is_counted() {
    let files = Files::new();
    for number in 0..10 {
        files.write(&format!("top/{number}"), "ten bytes.");
    }
    let (front, metrics) = (free_address(), free_address());
    let edge = Edge::start_single(&format!(
        "global\n nbthread 1\n stats socket %FOLDER%/stats level user\n{DEFAULTS}listen site\n bind {front}\n root {}\n open-file-cache max 4 memory 1m valid 1h\n\
         backend none\n server s {front}\n\
         frontend metrics\n bind {metrics}\n http-request use-service prometheus-exporter\n",
        files.top(),
    ));
    assert_eq!(columns(&edge, ["open", "hits", "misses", "evicted"]), [0, 0, 0, 0]);
    for _ in 0..3 {
        get(front, "/1");
    }
    assert_eq!(columns(&edge, ["open", "hits", "misses", "bytes"]), [1, 2, 1, 10]);
    for number in 0..10 {
        get(front, &format!("/{number}"));
    }
    let [open, evicted, misses, revalidated] = columns(&edge, ["open", "evicted", "misses", "revalidated"]);
    assert!(open <= 4 && open + evicted == misses, "{}", edge.command("show files"));
    assert_eq!((misses, revalidated), (10, 0));
    assert_eq!(columns(&edge, ["open_max", "bytes_max", "hits"]), [4, 1 << 20, 3]);
    assert!(edge.command("show files none").contains("No such backend with files."));
    let shown = get(metrics, "/metrics").text();
    assert!(shown.contains("\ntidegate_files_misses_total{proxy=\"site\"} 10\n"), "{shown}");
}
