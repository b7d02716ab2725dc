//! What agents say of servers.

use super::*;

fn with_agent(is_checked: bool, config: FarmConfig) -> Farm<u32> {
    let agent = Some(CheckConfig { inter_ms: 2_000, rise: 1, fall: 1, ..CheckConfig::default() });
    let check = if is_checked { checked(1, 1) } else { None };
    farm(config, vec![ServerConfig { check, agent, weight: 100, ..server("s1") }])
}

/// The agent says this.
fn agent_says(farm: &mut Farm<u32>, line: &str, now_ms: u64) {
    assert!(farm.check_begin(FIRST, CheckKind::Agent, now_ms));
    let report = match AgentLine::read(line.as_bytes(), true) {
        AgentLine::Reply(reply) => AgentReport::Reply(reply),
        AgentLine::Wait | AgentLine::Incomplete => AgentReport::Incomplete,
    };
    farm.agent_end(FIRST, report, now_ms + 3);
}

#[test]
fn an_agent_has_a_duration_before_it_was_asked() {
    let farm = with_agent(true, FarmConfig::default());
    let stats = farm.server_stats(ServerId::new(0), 0).unwrap();
    assert_eq!(stats.agent.unwrap().duration_ms, Some(0));
    assert_eq!(stats.check.unwrap().duration_ms, None);
}

#[test]
fn agents_set_health_state_weight_and_limit() {
    for (line, status, agent, messages_expected) in [
        ("up\n", "no check", "L7OK via agent : up", &[][..]),
        ("75%\n", "no check", "CHECKED ", &[]),
        (
            "down # fire\n",
            "DOWN (agent)",
            "L7STS via agent : down (fire)",
            &[
                "Server bk/s1 is DOWN, reason: Layer7 wrong status, code: 0, info: \"via agent : down (fire)\", check \
                 duration: 3ms. 0 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 remaining in queue.",
                "backend bk has no server available!",
            ],
        ),
        ("stopped\n", "DOWN (agent)", "L7STS via agent : stopped", &["is DOWN", "no server"]),
        ("Fail,\t\n", "DOWN (agent)", "L7STS via agent : Fail", &["is DOWN", "no server"]),
        ("drain\n", "DRAIN (agent)", "CHECKED ", &["enters drain state", "no server"]),
        ("maint\n", "MAINT", "CHECKED ", &["is going DOWN for maintenance", "no server"]),
        ("maxconn:30 up\n", "no check", "L7OK via agent : up", &[]),
        ("maxconn:x\n", "no check", "CHECKED agent warns : maxconn string empty or preceded by garbage", &[]),
        ("what 50%\n", "no check", "CHECKED agent reports an error : what", &[]),
        ("what up # fine\n", "no check", "L7OK via agent : up (what)", &[]),
        ("up 5%x\n", "no check", "L7OK via agent : up (Trailing garbage in weight string)", &[]),
        ("what fail # fire\n", "DOWN (agent)", "L7STS via agent : fail (fire)", &["is DOWN", "no server"]),
        ("nothing", "no check", "INI Ignoring incomplete line from agent", &[]),
    ] {
        let mut farm = with_agent(false, FarmConfig::default());
        agent_says(&mut farm, line, 0);
        let stats = farm.server_stats(FIRST, 10).unwrap();
        let view = stats.agent.unwrap();
        assert_eq!(stats.status.to_string(), status, "{line:?}");
        assert_eq!(format!("{} {}", view.status.info(), view.info), agent, "{line:?}");
        let said = messages(&mut farm);
        assert_eq!(said.len(), messages_expected.len(), "{line:?}: {said:?}");
        for (said, expected) in said.iter().zip(messages_expected) {
            assert!(said.contains(expected), "{line:?}: {said}");
        }
    }
    let mut farm = with_agent(false, FarmConfig::default());
    agent_says(&mut farm, "50% maxconn:7 ready\n", 0);
    let stats = farm.server_stats(FIRST, 0).unwrap();
    assert_eq!((stats.user_weight, stats.maxconn), (50, 7));
    let static_farm = FarmConfig { algorithm: Algorithm::Source, ..FarmConfig::default() };
    let mut farm = with_agent(false, static_farm);
    agent_says(&mut farm, "50%\n", 0);
    let view = farm.server_stats(FIRST, 0).unwrap().agent.unwrap();
    assert_eq!(
        view.info,
        "agent warns : Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n"
    );
}

#[test]
fn agents_and_checks_must_agree() {
    let state = |farm: &Farm<u32>| farm.status(FIRST).unwrap().to_string();
    let mut farm = with_agent(true, FarmConfig::default());
    agent_says(&mut farm, "down\n", 0);
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 10);
    assert_eq!(state(&farm), "DOWN (agent)", "a check does not overrule the agent");
    agent_says(&mut farm, "up\n", 20);
    assert_eq!(state(&farm), "UP");
    check(&mut farm, FIRST, CheckStatus::Layer4Connection, 30);
    agent_says(&mut farm, "up\n", 40);
    assert_eq!(state(&farm), "DOWN", "nor the agent a check");
    check(&mut farm, FIRST, CheckStatus::Layer4Ok, 50);
    assert_eq!(state(&farm), "UP");
    // Silence says nothing, whatever was said before.
    assert!(farm.check_begin(FIRST, CheckKind::Agent, 60));
    farm.agent_end(FIRST, AgentReport::Failed(report(CheckStatus::Layer4Connection)), 61);
    assert_eq!(state(&farm), "UP");
    check(&mut farm, FIRST, CheckStatus::Layer7Conditional, 70);
    agent_says(&mut farm, "up\n", 80);
    assert_eq!(state(&farm), "NOLB", "nor does the agent end what a check asked for");
}

#[test]
fn agents_are_asked_in_maintenance_and_switched_off() {
    let mut farm = with_agent(true, FarmConfig::default());
    farm.schedule_check(FIRST, CheckKind::Agent, 0);
    farm.set_maint(FIRST, 0);
    agent_says(&mut farm, "ready\n", 1);
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "UP", "until the next check");
    assert_eq!(farm.check_due_ms(FIRST, CheckKind::Agent), Some(2_003), "it began 1 ms late and took 3 ms");
    // What comes after it was switched off counts for nothing.
    assert!(farm.check_begin(FIRST, CheckKind::Agent, 2_004));
    farm.set_check_enabled(FIRST, CheckKind::Agent, false).unwrap();
    let AgentLine::Reply(reply) = AgentLine::read(b"down\n", true) else { panic!() };
    farm.agent_end(FIRST, AgentReport::Reply(reply), 2_005);
    assert_ne!(farm.status(FIRST).unwrap().to_string(), "DOWN (agent)");
    assert!(!farm.check_begin(FIRST, CheckKind::Agent, 9_000));
    assert!(!farm.force_agent(FIRST, false, "changed from CLI", 9_000));
    farm.set_check_enabled(FIRST, CheckKind::Agent, true).unwrap();
    assert!(farm.force_agent(FIRST, false, "changed from CLI", 9_000));
    assert_eq!(farm.status(FIRST).unwrap().to_string(), "DOWN (agent)");
    // All that outlives a reload.
    let snapshot = farm.snapshot(FIRST, 9_000).unwrap();
    let mut next = with_agent(true, FarmConfig::default());
    next.restore(FIRST, &snapshot, 9_000);
    assert_eq!(next.status(FIRST).unwrap().to_string(), "DOWN (agent)");
    assert_eq!(next.snapshot(FIRST, 9_000).unwrap(), snapshot);
    let mut plain = farm_of_one();
    assert!(plain.set_check_enabled(FIRST, CheckKind::Agent, true).is_err());
    assert!(plain.set_check_enabled(FIRST, CheckKind::Agent, false).is_ok());
}

fn farm_of_one() -> Farm<u32> {
    farm(FarmConfig::default(), vec![server("s1")])
}

#[test]
fn agents_are_told_apart_in_the_log() {
    let mut farm = with_agent(false, FarmConfig { log_health_checks: true, ..FarmConfig::default() });
    agent_says(&mut farm, "up\n", 0);
    agent_says(&mut farm, "up\n", 3_000);
    assert!(farm.check_begin(FIRST, CheckKind::Agent, 6_000));
    farm.agent_end(FIRST, AgentReport::Failed(report(CheckStatus::Layer4Timeout)), 6_001);
    let said = messages(&mut farm);
    assert_eq!(
        said,
        [
            "Agent check for server bk/s1 succeeded, reason: Layer7 check passed, code: 0, info: \"via agent : up\", check \
         duration: 3ms, status: 1/1 UP.",
            "Agent check for server bk/s1 failed, reason: Layer4 timeout, check duration: 1ms, status: 1/1 UP.",
        ]
    );
}
