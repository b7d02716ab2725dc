use std::fmt::Write as _;

use tokio::time::{advance, sleep};

use super::*;
use crate::test_instance::{configuration, instance};

const BACKENDS: usize = 20;
const SERVERS: usize = 10;
const INTERVAL_MS: u64 = 2_000;
const SLOT_MS: u64 = 100;

/// Two hundred servers; asking one takes no time, since there is nothing where they should be.
fn servers(global: &str) -> Arc<Instance> {
    let mut text = format!("global\n{global}\ndefaults\n mode tcp\n timeout connect 1s\n timeout server 1s\n");
    for backend in 0..BACKENDS {
        let _ = writeln!(text, "backend b{backend}\n default-server check inter {INTERVAL_MS}");
        for server in 0..SERVERS {
            let _ = writeln!(text, " server s{server} unix@/nonexistent/tidegate");
        }
    }
    let (_, instance, _) = instance(configuration(&text), 1);
    instance
}

/// How many checks are due in each slot of time from now on.
fn slots(instance: &Instance) -> Vec<usize> {
    let now_ms = now_ms(&instance.process);
    let mut slots = vec![0; usize::try_from(2 * INTERVAL_MS / SLOT_MS).unwrap()];
    for (proxy, server, kind) in checked(instance) {
        let due_ms = proxy.farm().check_due_ms(id(&server), kind).expect("none is under way");
        slots[usize::try_from(due_ms.saturating_sub(now_ms) / SLOT_MS).unwrap()] += 1;
    }
    slots
}

fn play<F: Future>(instance: &Arc<Instance>, story: impl FnOnce() -> F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build_local(Default::default()).unwrap();
    runtime.block_on(async {
        prepare(instance);
        let board = CheckBoard::new();
        let _checks = start(instance, &board, None, 0, 1);
        story().await
    })
}

/// As many as there are in a slot if all are spread evenly over an interval.
const EVEN: usize = BACKENDS * SERVERS * SLOT_MS as usize / INTERVAL_MS as usize;

#[test]
fn checks_stay_spread_over_their_interval() {
    let instance = servers("");
    play(&instance, async || {
        for _ in 0..4 {
            sleep(Duration::from_millis(7 * INTERVAL_MS + 333)).await;
            let slots = slots(&instance);
            let (now, later) = slots.split_at(slots.len() / 2);
            assert!(now.iter().all(|count| count.abs_diff(EVEN) <= 2), "{now:?}");
            assert_eq!(later.iter().sum::<usize>(), 0, "{later:?}");
        }
    });
}

#[test]
fn checks_that_were_held_up_together_go_back_to_their_places() {
    let instance = servers("");
    play(&instance, async || {
        for _ in 0..3 {
            sleep(Duration::from_millis(3 * INTERVAL_MS)).await;
            // The process does not run for a while; then all are due at once.
            advance(Duration::from_millis(2 * INTERVAL_MS + 777)).await;
            sleep(Duration::from_millis(1)).await;
            let slots = slots(&instance);
            assert!(slots.iter().all(|count| *count <= EVEN + 2), "{slots:?}");
        }
    });
}

#[test]
fn spread_checks_moves_each_by_itself() {
    let instance = servers("spread-checks 50");
    play(&instance, async || {
        for _ in 0..4 {
            sleep(Duration::from_millis(7 * INTERVAL_MS)).await;
            let slots = slots(&instance);
            assert!(slots.iter().all(|count| *count <= 2 * EVEN), "{slots:?}");
        }
        let slots = slots(&instance);
        let beyond: usize = slots[slots.len() / 2..].iter().sum();
        assert!(beyond > 0, "some are put off: {slots:?}");
    });
}
