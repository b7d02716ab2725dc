//! The master's decisions, as tables: what happens on the left, what is done about it on the right.

use super::event::SIGINT;
use super::*;

/// One action as a short text.
fn short(action: &Action) -> Option<String> {
    Some(match action {
        Action::Prepare => "prepare".into(),
        Action::Spawn { worker, generation } => format!("spawn {worker} g{generation}"),
        Action::Load { worker, generation } => format!("load {worker} g{generation}"),
        Action::Adopt { generation } => format!("adopt g{generation}"),
        Action::Discard { generation } => format!("discard g{generation}"),
        Action::TellDrain { worker, reason } => format!("drain {worker} {reason:?}"),
        Action::Kill { pid, signal } => format!("kill {pid} {signal}"),
        Action::StartProgram { program, generation, index } => format!("program {program} g{generation} {index}"),
        Action::Probe => "probe".into(),
        Action::Exec { requests } => format!("exec {requests:?}"),
        Action::Answer { requests, .. } if requests.is_empty() => return None,
        Action::Answer { requests, result: Ok(_) } => format!("ok {requests:?}"),
        Action::Answer { requests, result: Err(text) } => format!("refuse {requests:?} {text}"),
        Action::CloseSockets => "close sockets".into(),
        Action::Notify(notice) => format!("{notice:?}"),
        Action::SetTimer { timer: Timer::Started(_) | Timer::Loaded(_) | Timer::Switched(_), .. } => return None,
        Action::SetTimer { timer, after } => format!("{timer:?} in {}", after.as_millis()),
        Action::Log(..) => return None,
        Action::Exit { code } => format!("exit {code}"),
    })
}

struct Table {
    machine: Machine,
    now: Duration,
}

impl Table {
    fn new() -> Self {
        Self { machine: Machine::new(), now: Duration::from_secs(1) }
    }

    /// A master whose worker 1 (process 101) serves generation 1.
    fn serving() -> Self {
        let mut table = Self::new();
        table.machine.handle(table.now, Event::Start);
        table.machine.handle(table.now, Event::Prepared { generation: 1, replace: false, programs: Vec::new() });
        table.machine.handle(table.now, Event::Spawned { worker: 1, pid: 101 });
        table.machine.handle(table.now, Event::Ready { worker: 1, generation: 1 });
        table
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    #[track_caller]
    fn on(&mut self, event: Event, expected: &[&str]) -> &mut Self {
        let actions: Vec<String> = self.machine.handle(self.now, event).iter().filter_map(short).collect();
        assert_eq!(actions, expected);
        self
    }
}

fn spawned(worker: WorkerId) -> Event {
    Event::Spawned { worker, pid: 100 + worker }
}

fn ready(worker: WorkerId, generation: Generation) -> Event {
    Event::Ready { worker, generation }
}

fn prepared(generation: Generation) -> Event {
    Event::Prepared { generation, replace: false, programs: Vec::new() }
}

fn died(worker: WorkerId) -> Event {
    Event::Exited { worker, status: Status::Signal(SIGKILL) }
}

fn ended(worker: WorkerId) -> Event {
    Event::Exited { worker, status: Status::Code(0) }
}

fn reload(request: RequestId) -> Event {
    Event::Reload { request: Some(request) }
}

fn upgrade(request: RequestId) -> Event {
    Event::Upgrade { request: Some(request) }
}

fn refused(worker: WorkerId, generation: Generation) -> Event {
    Event::Refused { worker, generation, text: "no".into() }
}

#[test]
fn starts() {
    Table::new()
        .on(Event::Start, &["prepare"])
        .on(prepared(1), &["spawn 1 g1"])
        .on(spawned(1), &[])
        .on(ready(1, 1), &["adopt g1", "Ready"]);
}

#[test]
fn a_bad_first_configuration_ends_the_master() {
    Table::new()
        .on(Event::Start, &["prepare"])
        .on(Event::PrepareFailed { text: "bad".into() }, &["close sockets", "exit 1"]);
}

#[test]
fn a_first_worker_that_refuses_or_dies_ends_the_master() {
    for event in [refused(1, 1), died(1), Event::SpawnFailed { worker: 1, text: "no memory".into() }] {
        let mut table = Table::new();
        table.on(Event::Start, &["prepare"]).on(prepared(1), &["spawn 1 g1"]);
        table.on(event, &["discard g1", "close sockets", "exit 1"]);
    }
}

#[test]
fn reloads_inside_the_worker() {
    Table::serving()
        .on(reload(7), &["Reloading", "prepare"])
        .on(prepared(2), &["load 1 g2"])
        .on(ready(1, 2), &["adopt g2", "ok [7]", "Ready"]);
}

#[test]
fn a_reload_that_cannot_be_swapped_in_replaces_the_worker() {
    Table::serving()
        .on(reload(7), &["Reloading", "prepare"])
        .on(Event::Prepared { generation: 2, replace: true, programs: Vec::new() }, &["spawn 2 g2"])
        .on(spawned(2), &[])
        .on(ready(2, 2), &["adopt g2", "drain 1 Replaced"])
        .on(reload(8), &[])
        .on(Event::Closed { worker: 1 }, &["ok [7]", "Ready", "Reloading", "prepare"])
        .on(ended(1), &[]);
}

#[test]
fn a_reload_does_not_wait_for_a_former_worker_for_ever() {
    for event in [Event::Closed { worker: 1 }, ended(1), died(1), Event::Timer(Timer::Switched(1))] {
        let mut table = Table::serving();
        table
            .on(reload(7), &["Reloading", "prepare"])
            .on(Event::Prepared { generation: 2, replace: true, programs: Vec::new() }, &["spawn 2 g2"])
            .on(ready(2, 2), &["adopt g2", "drain 1 Replaced"])
            .on(Event::Closed { worker: 2 }, &[])
            .on(event, &["ok [7]", "Ready"])
            .on(Event::Timer(Timer::Switched(1)), &[]);
    }
}

#[test]
fn a_new_worker_that_dies_before_the_former_one_stops_is_started_again() {
    Table::serving()
        .on(reload(7), &["Reloading", "prepare"])
        .on(Event::Prepared { generation: 2, replace: true, programs: Vec::new() }, &["spawn 2 g2"])
        .on(ready(2, 2), &["adopt g2", "drain 1 Replaced"])
        .on(died(2), &["spawn 3 g2"])
        .on(Event::Closed { worker: 1 }, &["ok [7]", "Ready"])
        .on(ready(3, 2), &[]);
}

#[test]
fn a_failed_reload_changes_nothing() {
    let mut table = Table::serving();
    table
        .on(reload(7), &["Reloading", "prepare"])
        .on(Event::PrepareFailed { text: "bad".into() }, &["refuse [7] bad", "Ready"])
        .on(reload(8), &["Reloading", "prepare"])
        .on(prepared(2), &["load 1 g2"])
        .on(refused(1, 2), &["discard g2", "refuse [8] no", "Ready"]);
    let status = table.machine.status(1, table.now);
    assert_eq!((status.generation, status.reloads, status.failed_reloads), (1, 0, 2));
    assert_eq!(status.workers.first().map(|worker| worker.pid), Some(101));
}

#[test]
fn nobody_waits_for_ever_for_a_worker_that_hangs() {
    const STILL: &str = "the worker has not taken the new configuration yet: it may still do so";
    Table::serving()
        .on(reload(7), &["Reloading", "prepare"])
        .on(prepared(2), &["load 1 g2"])
        .on(reload(8), &[])
        .on(Event::Timer(Timer::Loaded(1)), &[&format!("refuse [7, 8] {STILL}")])
        .on(reload(9), &[&format!("refuse [9] {STILL}")])
        .on(ready(1, 2), &["adopt g2", "Ready"])
        .on(reload(10), &["Reloading", "prepare"])
        .on(prepared(3), &["load 1 g3"])
        .on(ready(1, 3), &["adopt g3", "ok [10]", "Ready"])
        .on(Event::Timer(Timer::Loaded(1)), &[]);
}

#[test]
fn requests_that_wait_are_served_together() {
    Table::serving()
        .on(reload(1), &["Reloading", "prepare"])
        .on(reload(2), &[])
        .on(Event::Reload { request: None }, &[])
        .on(reload(3), &[])
        .on(prepared(2), &["load 1 g2"])
        .on(ready(1, 2), &["adopt g2", "ok [1]", "Ready", "Reloading", "prepare"])
        .on(prepared(3), &["load 1 g3"])
        .on(ready(1, 3), &["adopt g3", "ok [2, 3]", "Ready"]);
}

#[test]
fn requests_that_wait_have_a_limit() {
    let mut table = Table::serving();
    table.on(reload(0), &["Reloading", "prepare"]);
    for request in 1..=WAITING_MAX as u64 {
        table.on(reload(request), &[]);
    }
    table.on(reload(999), &["refuse [999] too many requests are waiting"]);
}

#[test]
fn a_dead_worker_is_started_again_at_once_and_later_if_it_keeps_dying() {
    let mut table = Table::serving();
    table
        .on(died(1), &["spawn 2 g1"])
        .on(spawned(2), &[])
        .on(died(2), &["Restart in 100"])
        .on(Event::Timer(Timer::Restart), &["spawn 3 g1"])
        .on(died(3), &["Restart in 200"])
        .on(Event::Timer(Timer::Restart), &["spawn 4 g1"])
        .on(spawned(4), &[])
        .on(ready(4, 1), &[])
        .after(60)
        .on(died(4), &["spawn 5 g1"]);
    assert_eq!(table.machine.memory().worker_deaths, 4);
}

#[test]
fn the_back_off_has_an_upper_bound() {
    let mut table = Table::serving();
    table.on(died(1), &["spawn 2 g1"]);
    let mut last = Duration::ZERO;
    for worker in 2..100 {
        let actions = table.machine.handle(table.now, died(worker));
        for action in actions {
            if let Action::SetTimer { timer: Timer::Restart, after } = action {
                last = after;
            }
        }
        table.machine.handle(table.now, Event::Timer(Timer::Restart));
    }
    assert_eq!(last, BACK_OFF_MOST);
}

#[test]
fn a_worker_that_dies_over_a_reload_keeps_its_old_configuration() {
    Table::serving()
        .after(60)
        .on(reload(7), &["Reloading", "prepare"])
        .on(prepared(2), &["load 1 g2"])
        .on(
            died(1),
            &[
                "discard g2",
                "refuse [7] the worker was ended by signal 9 while it took the configuration",
                "Ready",
                "spawn 2 g1",
            ],
        )
        .on(spawned(2), &[])
        .on(ready(2, 1), &[]);
}

#[test]
fn a_reload_waits_for_a_worker_that_starts_again() {
    Table::serving()
        .on(died(1), &["spawn 2 g1"])
        .on(reload(7), &[])
        .on(ready(2, 1), &["Reloading", "prepare"])
        .on(prepared(2), &["load 2 g2"]);
}

#[test]
fn a_reload_ends_a_back_off() {
    Table::serving()
        .on(died(1), &["spawn 2 g1"])
        .on(died(2), &["Restart in 100"])
        .on(reload(7), &["Reloading", "prepare"])
        .on(prepared(2), &["spawn 3 g2"])
        .on(Event::Timer(Timer::Restart), &[])
        .on(ready(3, 2), &["adopt g2", "ok [7]", "Ready"]);
}

#[test]
fn a_failed_reload_in_a_back_off_goes_on_with_it() {
    let mut table = Table::serving();
    table
        .on(died(1), &["spawn 2 g1"])
        .on(died(2), &["Restart in 100"])
        .on(reload(7), &["Reloading", "prepare"])
        .on(prepared(2), &["spawn 3 g2"])
        .on(Event::Timer(Timer::Restart), &[])
        .on(refused(3, 2), &["discard g2", "refuse [7] no", "Ready", "Restart in 200"])
        .on(Event::Exited { worker: 3, status: Status::Code(1) }, &[])
        .on(Event::Timer(Timer::Restart), &["spawn 4 g1"]);
}

#[test]
fn a_current_worker_that_dies_while_its_successor_starts_is_not_started_again() {
    Table::serving()
        .on(reload(7), &["Reloading", "prepare"])
        .on(Event::Prepared { generation: 2, replace: true, programs: Vec::new() }, &["spawn 2 g2"])
        .on(died(1), &[])
        .on(ready(2, 2), &["adopt g2", "ok [7]", "Ready"]);
}

#[test]
fn a_worker_told_to_drain_by_someone_else_is_replaced() {
    Table::serving().on(Event::DrainsAlready { worker: 1 }, &["spawn 2 g1"]).on(ready(2, 1), &[]).on(ended(1), &[]);
}

#[test]
fn upgrades() {
    let mut old = Table::serving();
    old.on(upgrade(5), &["Reloading", "probe"]).on(Event::ProbePassed, &["exec [5]"]);
    let memory = old.machine.memory().clone();
    let mut new = Table { machine: Machine::resume(memory, vec![5]), now: old.now };
    new.on(Event::Start, &["prepare"])
        .on(prepared(2), &["spawn 2 g2"])
        .on(spawned(2), &[])
        .on(ready(2, 2), &["adopt g2", "drain 1 Replaced"])
        .on(Event::Closed { worker: 1 }, &["ok [5]", "Ready"])
        .on(ended(1), &[])
        .on(died(2), &["spawn 3 g2"]);
}

#[test]
fn an_upgrade_that_fails_early_or_late_leaves_the_old_worker() {
    let mut table = Table::serving();
    table
        .on(upgrade(5), &["Reloading", "probe"])
        .on(Event::ProbeFailed { text: "bad".into() }, &["refuse [5] bad", "Ready"])
        .on(upgrade(6), &["Reloading", "probe"])
        .on(Event::ProbePassed, &["exec [6]"])
        .on(Event::ExecFailed { text: "not found".into() }, &["refuse [6] not found", "Ready"]);
    for failure in [refused(2, 2), died(2)] {
        let memory = table.machine.memory().clone();
        let mut new = Table { machine: Machine::resume(memory, vec![5]), now: table.now };
        new.on(Event::Start, &["prepare"]).on(prepared(2), &["spawn 2 g2"]);
        let actions: Vec<String> = new.machine.handle(new.now, failure).iter().filter_map(short).collect();
        assert_eq!(actions.first().map(String::as_str), Some("discard g2"));
        assert!(actions.iter().any(|action| action.starts_with("refuse [5]")), "{actions:?}");
        new.on(reload(8), &["Reloading", "prepare"]).on(prepared(3), &["load 1 g3"]);
    }
    let memory = table.machine.memory().clone();
    let mut new = Table { machine: Machine::resume(memory, vec![5]), now: table.now };
    new.on(Event::Start, &["prepare"])
        .on(Event::PrepareFailed { text: "bad".into() }, &["refuse [5] bad", "Ready"])
        .on(died(1), &["spawn 2 g1"]);
}

#[test]
fn drains() {
    let mut table = Table::serving();
    table.machine.set_hard_stop_after(Some(Duration::from_secs(30)));
    table
        .on(reload(7), &["Reloading", "prepare"])
        .on(
            Event::Drain,
            &["Stopping", "refuse [7] the service is ending", "drain 1 Stop", "close sockets", "Kill in 35000"],
        )
        .on(prepared(2), &["discard g2"])
        .on(reload(8), &["refuse [8] the service is ending"])
        .on(Event::Drain, &[])
        .on(Event::Timer(Timer::Kill), &["kill 101 9"])
        .on(ended(1), &["exit 0"]);
}

#[test]
fn stops_with_the_exit_codes_of_haproxy() {
    for (signal, code) in [(SIGTERM, "exit 0"), (SIGINT, "exit 130")] {
        Table::serving()
            .on(Event::Stop { signal }, &["Stopping", &format!("kill 101 {signal}"), "close sockets", "Kill in 5000"])
            .on(Event::Stop { signal }, &[])
            .on(died(1), &[code]);
    }
}

#[test]
fn stops_while_draining_and_without_a_worker() {
    Table::serving()
        .on(Event::Drain, &["Stopping", "drain 1 Stop", "close sockets"])
        .on(Event::Stop { signal: SIGTERM }, &["Stopping", "kill 101 15", "close sockets", "Kill in 5000"])
        .on(died(1), &["exit 0"]);
    Table::serving()
        .on(died(1), &["spawn 2 g1"])
        .on(died(2), &["Restart in 100"])
        .on(Event::Stop { signal: SIGTERM }, &["Stopping", "close sockets", "Kill in 5000", "exit 0"]);
}

#[test]
fn a_worker_that_does_not_get_ready_is_killed() {
    Table::serving()
        .on(reload(7), &["Reloading", "prepare"])
        .on(Event::Prepared { generation: 2, replace: true, programs: Vec::new() }, &["spawn 2 g2"])
        .on(spawned(2), &[])
        .on(Event::Timer(Timer::Started(1)), &[])
        .on(Event::Timer(Timer::Started(2)), &["kill 102 9"]);
}

fn with_programs(generation: Generation, programs: &[(&str, bool)]) -> Event {
    let candidate = |(name, start_on_reload): &(&str, bool)| PlannedProgram {
        name: (*name).to_owned(),
        start_on_reload: *start_on_reload,
    };
    Event::Prepared { generation, replace: false, programs: programs.iter().map(candidate).collect() }
}

const PROGRAMS: &[(&str, bool)] = &[("again", true), ("kept", false)];

/// A master that serves with two programs, processes 201 and 202.
fn serving_with_programs() -> Table {
    let mut table = Table::new();
    table
        .on(Event::Start, &["prepare"])
        .on(with_programs(1, PROGRAMS), &["program 1 g1 0", "program 2 g1 1", "spawn 1 g1"])
        .on(Event::ProgramSpawned { program: 1, pid: 201 }, &[])
        .on(Event::ProgramSpawned { program: 2, pid: 202 }, &[])
        .on(spawned(1), &[])
        .on(ready(1, 1), &["adopt g1", "Ready"]);
    table
}

fn exited(pid: u32, code: i32) -> Event {
    Event::ProgramExited { pid, status: Status::Code(code) }
}

fn listed(table: &Table) -> Vec<String> {
    let mark = |is_old| if is_old { "old" } else { "" };
    let programs = table.machine.status(1, table.now).programs;
    programs.iter().map(|it| format!("{} {} {}{}", it.pid, it.name, it.reloads, mark(it.is_old))).collect()
}

#[test]
fn programs_are_started_anew_at_reloads_or_told() {
    let mut table = serving_with_programs();
    assert_eq!(listed(&table), ["201 again 0", "202 kept 0"]);
    table
        .on(reload(7), &["Reloading", "prepare"])
        .on(Event::PrepareFailed { text: "bad".into() }, &["refuse [7] bad", "Ready"])
        .on(reload(8), &["Reloading", "prepare"])
        .on(with_programs(2, PROGRAMS), &["load 1 g2"])
        .on(ready(1, 2), &["adopt g2", "program 3 g2 0", "kill 201 10", "kill 202 10", "ok [8]", "Ready"])
        .on(Event::ProgramSpawned { program: 3, pid: 203 }, &[]);
    assert_eq!(listed(&table), ["203 again 0", "201 again 1old", "202 kept 1old"]);
    // Who is old may fail.
    table
        .on(exited(201, 1), &[])
        .on(Event::Drain, &["Stopping", "drain 1 Stop", "kill 203 10", "kill 202 10", "close sockets"]);
    table.on(ended(1), &[]).on(exited(203, 0), &[]).on(exited(202, 0), &["exit 0"]);
}

#[test]
fn a_program_that_fails_ends_everything() {
    for (code, expected) in [(1, "exit 1"), (138, "exit 138")] {
        serving_with_programs()
            .on(exited(201, code), &["Stopping", "kill 101 15", "kill 202 15", "close sockets", "Kill in 5000"])
            .on(died(1), &[])
            .on(Event::ProgramExited { pid: 202, status: Status::Signal(SIGTERM) }, &[expected]);
    }
    let mut table = serving_with_programs();
    table.machine.set_exit_on_failure(false);
    table
        .on(exited(201, 3), &[])
        .on(exited(202, 0), &[])
        .on(died(1), &["spawn 2 g1"])
        .on(Event::Stop { signal: SIGTERM }, &["Stopping", "close sockets", "Kill in 5000"]);
    table.on(died(2), &["exit 3"]);
}

#[test]
fn a_start_that_fails_takes_its_programs_along() {
    let mut table = Table::new();
    table
        .on(Event::Start, &["prepare"])
        .on(with_programs(1, &[("one", true)]), &["program 1 g1 0", "spawn 1 g1"])
        .on(Event::ProgramSpawned { program: 1, pid: 201 }, &[])
        .on(refused(1, 1), &["discard g1", "close sockets", "kill 201 15", "exit 1"]);
}

#[test]
fn a_program_that_ends_well_or_on_purpose_ends_alone() {
    for (code, expected) in [(0, "exit 0"), (143, "exit 0"), (130, "exit 130")] {
        serving_with_programs()
            .on(exited(201, code), &[])
            .on(exited(202, 0), &[])
            .on(Event::Drain, &["Stopping", "drain 1 Stop", "close sockets"])
            .on(ended(1), &[expected]);
    }
    serving_with_programs().on(
        Event::ProgramNotSpawned { program: 2, text: "no memory".into() },
        &["Stopping", "kill 101 15", "kill 201 15", "close sockets", "Kill in 5000"],
    );
}

#[test]
fn programs_outlive_an_upgrade() {
    let mut old = serving_with_programs();
    old.on(upgrade(5), &["Reloading", "probe"]).on(Event::ProbePassed, &["exec [5]"]);
    let memory = serde_json::from_str(&serde_json::to_string(old.machine.memory()).unwrap()).unwrap();
    let mut new = Table { machine: Machine::resume(memory, vec![5]), now: old.now };
    new.on(Event::Start, &["prepare"])
        .on(with_programs(2, PROGRAMS), &["spawn 2 g2"])
        .on(spawned(2), &[])
        .on(ready(2, 2), &["adopt g2", "program 3 g2 0", "kill 201 10", "kill 202 10", "drain 1 Replaced"]);
    assert_eq!(listed(&new), ["0 again 0", "201 again 1old", "202 kept 1old"]);
}

#[test]
fn codes_have_the_names_that_haproxy_prints() {
    for (status, code, reason) in [
        (Status::Code(0), 0, "Exit"),
        (Status::Code(143), 143, "Terminated"),
        (Status::Signal(10), 138, "User defined signal 1"),
        (Status::Signal(9), 137, "Killed"),
        (Status::Signal(64), 192, "Unknown signal"),
    ] {
        assert_eq!((status.shell_code(), status.reason()), (code, reason));
    }
}
