//! Once it has seen its load, a farm allocates nothing: it is used under a lock that other workers wait for.

#![allow(clippy::panic, reason = "what does not happen fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

use balance::{
    Algorithm, Claim, Farm, FarmConfig, HashConfig, HashType, Pick, Request, Rng, ServerConfig, ServerId, UriOptions,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[expect(unsafe_code, reason = "an allocator can only be counted by being one")]
// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Requests come and go, now and then more than the servers take.
fn run(farm: &mut Farm<u32>, rng: &mut Rng, held: &mut VecDeque<ServerId>, waiting: &mut VecDeque<balance::Ticket>) {
    for _ in 0..20_000 {
        if held.len() + waiting.len() < 64 && !rng.next_u32().is_multiple_of(3) {
            let request = Request { key: Some(rng.next_u32()), ..Request::default() };
            farm.stream_enters();
            match farm.pick(&request, 0, || 0) {
                Pick::Assigned(server) => held.push_back(server),
                Pick::Queued(ticket) => waiting.push_back(ticket),
                other => panic!("{other:?}"),
            }
        } else if let Some(server) = held.pop_front() {
            farm.release(server, 0);
            farm.stream_leaves();
        }
        while farm.poll_wake().is_some() {
            for _ in 0..waiting.len() {
                let Some(ticket) = waiting.pop_front() else { break };
                match farm.claim(ticket) {
                    Claim::Granted { server, .. } => held.push_back(server),
                    _ => waiting.push_back(ticket),
                }
            }
        }
    }
}

#[test]
fn nothing_is_allocated_once_the_load_is_known() {
    let uri = Algorithm::Uri(UriOptions::default());
    for (algorithm, hash_type) in [
        (Algorithm::RoundRobin, HashType::MapBased),
        (Algorithm::StaticRr, HashType::MapBased),
        (Algorithm::LeastConn, HashType::MapBased),
        (Algorithm::First, HashType::MapBased),
        (Algorithm::Random { draws: 2 }, HashType::MapBased),
        (uri.clone(), HashType::MapBased),
        (uri, HashType::Consistent),
    ] {
        let hash = HashConfig { hash_type, ..HashConfig::default() };
        let config = FarmConfig { algorithm: algorithm.clone(), hash, fullconn: 50, ..FarmConfig::default() };
        let servers = (1..=20)
            .map(|number| ServerConfig { weight: number, maxconn: 3, minconn: 1, ..ServerConfig::default() })
            .collect();
        let mut farm = Farm::new(config, servers, 0);
        let mut rng = Rng::new(9);
        let (mut held, mut waiting) = (VecDeque::with_capacity(64), VecDeque::with_capacity(64));
        run(&mut farm, &mut rng, &mut held, &mut waiting);
        let before = ALLOCATIONS.get();
        run(&mut farm, &mut rng, &mut held, &mut waiting);
        assert_eq!(ALLOCATIONS.get() - before, 0, "{algorithm:?} {hash_type:?}");
        assert!(farm.backend_stats(0).queue_max > 0 || farm.servers().any(|id| farm.server_queued(id) > 0));
    }
}
