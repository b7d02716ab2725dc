//! A checkpoint whose tables do not come to an end: it is told of, now and then.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod simulated;

use commands::config::Fsync;
use simulated::{BEGIN, Disks, Machine};

#[test]
fn a_checkpoint_that_waits_for_long_is_told_of() {
    let mut machine = Machine::start(Disks::new(), 1, BEGIN, Fsync::EverySecond);
    machine.settle();
    machine.run(&["SET", "key", "value"]);
    machine.persistence().press();
    let mut told = Vec::new();
    for second in 1..400 {
        machine.begin_turn(1_000);
        machine.end_turn();
        // The log is synced; nobody writes the tables.
        machine.persistence().workers_mut().sync_now();
        let messages = machine.world.take_messages();
        if messages.iter().any(|(_, text)| text.contains("has waited for the tables")) {
            told.push(second);
        }
    }
    assert_eq!(told.len(), 3, "after a minute, two and four: {told:?}");
    assert!((60..70).contains(&told[0]), "{told:?}");
    while machine.persistence().workers_mut().do_job() {
        machine.begin_turn(1_000);
        machine.end_turn();
    }
    assert!(machine.persistence().figures().checkpoints > 0, "nothing was given up");
}
