//! What is wrong on purpose is found: in what stores and proxies do, and in what is decided, by giving a decision what it must not rely on
//! or by carrying out what it has not said.

use super::{FAULTS_MS, Kinds, World};

/// What can be wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A store that hears of any change of the cluster lets all commands go on that wait, and says that they wait.
    ChangesEndPauses,
    /// A store says that its log ends where it ended some time ago, and that its pauses count from there.
    EarlyEnd,
    /// A store takes what fills slots from whoever sends it, whenever it comes.
    AnyMover,
    /// A process that was just started says that it serves: nobody has told it whose acknowledgements it needs.
    SaysItServes,
    /// A process that was just started does not know which leader its predecessor has heard last.
    ForgetsTerm,
    /// A voter that was just started takes it that what it gave before is over.
    ForgetsVotes,
    /// What servers say counts as of the time when it has come, not when they were asked.
    AnswersCountLate,
    /// A proxy says that it has done its orders while requests of before are under way.
    ProxySaysDoneAtOnce,
    /// Slots and masters change as soon as any proxy has answered, whatever it has done.
    HoldsAreDoneAtOnce,
    /// A proxy that does not answer is not waited for.
    SilentProxyIsForgotten,
    /// A proxy that was stopped passes on what it finds then, whatever was ordered meanwhile.
    ProxyBelievesLateAnswers,
    /// An agent that begins takes it that no proxy has a lease of the one before.
    AgentForgetsLeases,
    /// Any replica of a Redis may take its place, whether it was in sync or not.
    PromotesAnybody,
    /// A host begins by any record whose epoch is not before its own.
    EpochsTellHistories,
    /// A host votes by records that its disk does not have.
    VotesWithoutDisk,
    /// What was to be removed is removed once more, some time later.
    ClearsAgainLater,
    /// A replica copies whatever its master has.
    CopiesWhatHasLost,
    /// A new process of a master serves though one of those in sync has more.
    ServesWithLess,
    /// An agent that was just started does not know what its host has written down of how far servers were.
    ForgetsHeights,
    /// A store obeys, and gives its log, whoever has come to it by a name.
    TakesWhatIsMeantForOthers,
}

/// Runs worlds until one of them finds it, which finds nothing if nothing is wrong.
fn is_found(planted: Planted, kinds: Kinds, seeds: u64) {
    let is_about = planted;
    let fails = |seed: u64, planted: Option<Planted>| {
        let mut world = World { planted, ..World::new(seed, kinds) };
        world.histories.is_on = matches!(is_about, Planted::EpochsTellHistories | Planted::VotesWithoutDisk);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run_until(FAULTS_MS))).is_err()
    };
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=seeds).find(|seed| fails(*seed, Some(planted)));
    let fails_without = found.is_some_and(|seed| fails(seed, None));
    let _ = std::panic::take_hook();
    assert!(found.is_some(), "{planted:?} is not found in {seeds} seeds");
    assert!(!fails_without, "{planted:?}: seed {found:?} finds something else");
    eprintln!("{planted:?} is found with seed {found:?}");
}

#[test]
fn a_pause_that_ends_with_any_change_of_the_cluster_is_found() {
    is_found(Planted::ChangesEndPauses, Kinds::Stores, 1_000);
}

#[test]
fn a_log_that_is_longer_than_it_is_said_to_be_is_found() {
    is_found(Planted::EarlyEnd, Kinds::Stores, 1_000);
}

#[test]
fn what_fills_slots_too_late_is_found() {
    is_found(Planted::AnyMover, Kinds::Stores, 1_000);
}

#[test]
#[ignore = "some 250 seeds: make test-hosts"]
fn a_copy_to_a_process_that_waits_for_no_replica_is_found() {
    is_found(Planted::SaysItServes, Kinds::Stores, 1_000);
}

/// A store that was restarted, an agent that does not know yet that it leads no more, and a master that it names as it was then.
#[test]
#[ignore = "some 240 seeds: make test-hosts"]
fn a_restarted_store_that_follows_a_leader_of_the_past_is_found() {
    is_found(Planted::ForgetsTerm, Kinds::Stores, 5_000);
}

#[test]
#[ignore = "hundreds of seeds: make test-hosts"]
fn a_voter_that_forgets_what_it_gave_is_found() {
    is_found(Planted::ForgetsVotes, Kinds::Stores, 1_000);
}

#[test]
#[ignore = "some 200 seeds: make test-hosts"]
fn an_answer_of_before_that_counts_as_one_of_now_is_found() {
    is_found(Planted::AnswersCountLate, Kinds::Stores, 1_000);
}

#[test]
#[ignore = "hundreds of seeds: make test-hosts"]
fn a_proxy_that_does_not_wait_for_its_answers_is_found() {
    is_found(Planted::ProxySaysDoneAtOnce, Kinds::Mixed, 1_000);
}

#[test]
#[ignore = "a thousand seeds and more: make test-hosts"]
fn a_change_before_all_proxies_have_agreed_is_found() {
    is_found(Planted::HoldsAreDoneAtOnce, Kinds::Mixed, 5_000);
}

#[test]
fn a_silent_proxy_that_nobody_waits_for_is_found() {
    is_found(Planted::SilentProxyIsForgotten, Kinds::Mixed, 1_000);
}

#[test]
#[ignore = "a thousand seeds and more: make test-hosts"]
fn a_proxy_that_passes_on_what_it_finds_too_late_is_found() {
    is_found(Planted::ProxyBelievesLateAnswers, Kinds::Mixed, 5_000);
}

#[test]
#[ignore = "a thousand seeds and more: make test-hosts"]
fn a_new_agent_that_does_not_wait_for_leases_of_the_one_before_is_found() {
    is_found(Planted::AgentForgetsLeases, Kinds::Mixed, 5_000);
}

#[test]
fn a_redis_that_was_not_in_sync_and_is_promoted_is_found() {
    is_found(Planted::PromotesAnybody, Kinds::Mixed, 1_000);
}

#[test]
#[ignore = "some 120 seeds: make test-hosts"]
fn a_removal_of_slots_that_have_come_back_is_found() {
    is_found(Planted::ClearsAgainLater, Kinds::Mixed, 1_000);
}

#[test]
#[ignore = "hundreds of seeds: make test-hosts"]
fn a_coordinator_that_was_set_back_and_goes_on_is_found() {
    is_found(Planted::EpochsTellHistories, Kinds::Stores, 1_000);
}

#[test]
#[ignore = "hundreds of seeds: make test-hosts"]
fn a_vote_by_what_the_disk_does_not_have_is_found() {
    is_found(Planted::VotesWithoutDisk, Kinds::Stores, 2_000);
}
