//! The system's allocator, with an account of what it has given out: the store's `maxmemory` is measured by it.
//!
//! Each thread counts for itself and tells the others only when its count has moved far enough, so that an allocation costs
//! an addition and no shared cache line.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicIsize, Ordering},
};

/// How far a thread's count may be from what others know.
const SLACK: isize = 64 * 1024;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static UNTOLD: Cell<isize> = const { Cell::new(0) };
}

/// How many bytes are allocated, up to a slack for each thread.
pub fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed).max(0).unsigned_abs()
}

fn count(bytes: isize) {
    // A thread that is ending counts no more: the difference is small, and it must not allocate here.
    let _ = UNTOLD.try_with(|untold| {
        let sum = untold.get() + bytes;
        if sum.abs() < SLACK {
            untold.set(sum);
        } else {
            untold.set(0);
            ALLOCATED.fetch_add(sum, Ordering::Relaxed);
        }
    });
}

/// The allocator: a program makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

#[expect(unsafe_code, reason = "the trait is unsafe; all that is done here is to count and to pass on")]
// SAFETY: every call goes to the system's allocator with the arguments that it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
