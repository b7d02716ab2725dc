//! Real configurations and what becomes of them when hands slip: each is read in memory and steps that its size bounds.
//! Steps are counted in allocations, which every word, line and message costs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[allow(dead_code, reason = "the other half is for fuzz_smoke")]
#[path = "../../../../fuzz/src/configuration.rs"]
mod configuration;
mod mutation;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    path::Path,
};

use self::mutation::{Random, mutate, mutate_lines};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[expect(unsafe_code, reason = "an allocator can only be counted by being one")]
// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        HELD.set(HELD.get().wrapping_add(layout.size()));
        MOST.set(MOST.get().max(HELD.get()));
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get().saturating_sub(layout.size()));
        // SAFETY: as above; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations and bytes that anything may take, whatever its size.
const ALLOCATIONS_FREE: usize = 40_000;
const BYTES_FREE: usize = 8 << 20;
/// And what each byte of the text may take more. A rejected word costs a message with its line, and it is read twice.
const ALLOCATIONS_PER_BYTE: usize = 12;
const BYTES_PER_BYTE: usize = 2_000;

/// The configurations of `scenarios/configurations`.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/configurations");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<_> = paths.iter().filter_map(|path| std::fs::read(path.join("haproxy.cfg")).ok()).collect();
    assert!(seeds.len() >= 25, "{}", seeds.len());
    seeds
}

/// Allocations and the most bytes held while a text is read.
fn cost(text: &[u8]) -> (usize, usize) {
    let (allocations, held) = (ALLOCATIONS.get(), HELD.get());
    MOST.set(held);
    configuration::configuration(text);
    (ALLOCATIONS.get() - allocations, MOST.get().saturating_sub(held))
}

/// How many texts are tried; `FUZZ_ROUNDS` in the environment asks for more.
const ROUNDS: usize = 600;

#[test]
fn slips_of_the_hand_stay_within_bounds() {
    let seeds = seeds();
    let mut random = Random(0x6a1d_e5ee);
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    // What is made once for the process is not for this text.
    cost(&seeds[0]);
    for round in 0..rounds {
        let seed = random.0;
        let other = &seeds[random.below(seeds.len())];
        let mut text = mutate_lines(&mut random, &seeds[round % seeds.len()], other);
        if random.below(2) == 0 {
            mutate(&mut random, &mut text, other);
        }
        let show = || format!("round {round}, seed {seed:#x}:\n{}", String::from_utf8_lossy(&text));
        let Ok((allocations, bytes)) = std::panic::catch_unwind(|| cost(&text)) else { panic!("{}", show()) };
        assert!(allocations <= ALLOCATIONS_FREE + ALLOCATIONS_PER_BYTE * text.len(), "{allocations} in {}", show());
        assert!(bytes <= BYTES_FREE + BYTES_PER_BYTE * text.len(), "{bytes} bytes in {}", show());
    }
}

#[test]
fn steps_grow_with_the_size_alone() {
    let all = seeds().concat();
    // Sections with the same name are an error each, so that diagnostics are a part of it: reading gives up after many.
    let (once, _) = cost(&all);
    let (more, _) = cost(&all.repeat(4));
    assert!(more <= once * 5, "{once} allocations for one, {more} for four");
}
