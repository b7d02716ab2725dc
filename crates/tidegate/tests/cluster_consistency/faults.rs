//! What goes wrong while clients work: one thing after the other, chosen by a seed.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::support::{self, cluster::Cluster};
use rustix::process::Signal;

/// Numbers that depend on a seed alone.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// Processes of a role: who they are.
fn servers(cluster: &Cluster, role: &str) -> Vec<(u64, String, u32)> {
    let Some(status) = cluster.try_status() else { return Vec::new() };
    let mut found = Vec::new();
    for group in status["groups"].as_array().into_iter().flatten() {
        for server in group["servers"].as_array().into_iter().flatten() {
            if server["role"] == role
                && let (Some(id), Some(pid)) = (group["id"].as_u64(), server["pid"].as_u64())
            {
                found.push((id, server["address"].as_str().unwrap_or_default().to_owned(), pid as u32));
            }
        }
    }
    found
}

fn one_of(dice: &mut Dice, servers: &[(u64, String, u32)]) -> Option<(u64, String, u32)> {
    servers.get(dice.below(servers.len().max(1) as u64) as usize).cloned()
}

/// A process that stands still for a while, and goes on in any case.
fn freeze(pid: u32, how_long: Duration) {
    support::signal_process(pid, Signal::STOP);
    thread::sleep(how_long);
    support::signal_process(pid, Signal::CONT);
}

/// Does one thing wrong; says what.
fn do_wrong(cluster: &mut Cluster, dice: &mut Dice) -> String {
    let role = if dice.below(4) == 0 { "replica" } else { "master" };
    let Some((group, address, pid)) = one_of(dice, &servers(cluster, role)) else { return "nothing".into() };
    match dice.below(6) {
        0 | 1 => {
            support::signal_process(pid, Signal::KILL);
            format!("the {role} {address} is killed")
        }
        2 => {
            let how_long = Duration::from_millis(100 + dice.below(4_000));
            freeze(pid, how_long);
            format!("the {role} {address} stood still for {how_long:?}")
        }
        3 => {
            let replicas = servers(cluster, "replica");
            let Some((_, replica, _)) = replicas.iter().find(|(of, ..)| *of == group) else { return "nothing".into() };
            let output = cluster.command(&["server", "promote", &group.to_string(), replica, "--yes"]);
            format!("{replica} is promoted: {}", if output.status.success() { "done" } else { "refused" })
        }
        4 => {
            let agent = cluster.agent.id();
            if dice.below(2) == 0 {
                let how_long = Duration::from_millis(100 + dice.below(3_000));
                freeze(agent, how_long);
                return format!("the agent stood still for {how_long:?}");
            }
            // The processes that it has started go on.
            cluster.agent.kill().unwrap();
            cluster.agent.wait().unwrap();
            thread::sleep(Duration::from_millis(dice.below(2_000)));
            cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
            "the agent is killed, and another one started".into()
        }
        _ => {
            let groups = cluster.try_status().and_then(|status| status["groups"].as_array().map(Vec::len)).unwrap_or(1);
            let (first, to) = (dice.below(16_000), 1 + dice.below(groups as u64));
            let (last, to) = ((first + dice.below(3_000)).min(16_383).to_string(), to.to_string());
            let first = first.to_string();
            let output = cluster.command(&["slot", "migrate", &first, &last, &to, "--yes"]);
            let outcome = if output.status.success() { "done" } else { "not done" };
            if dice.below(4) == 0 {
                cluster.command(&["slot", "cancel"]);
            }
            format!("slots {first} to {last} are moved to group {to}: {outcome}")
        }
    }
}

/// Does things wrong until the time is over; says what.
pub fn go_wrong(cluster: &mut Cluster, seed: u64, how_long: Duration) -> Vec<String> {
    let (mut dice, began, mut done) = (Dice::new(seed), Instant::now(), Vec::new());
    while began.elapsed() < how_long {
        thread::sleep(Duration::from_millis(200 + dice.below(2_500)));
        let at = began.elapsed();
        let what = do_wrong(cluster, &mut dice);
        done.push(format!("{:.1} s: {what}", at.as_secs_f64()));
    }
    done
}
