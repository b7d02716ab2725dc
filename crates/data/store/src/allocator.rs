//! The program's allocator: jemalloc, with an account of what it has given out: the store's `maxmemory` is measured by it.
//!
//! Each thread counts for itself and tells the others only when its count has moved far enough, so that an allocation costs
//! an addition and no shared cache line.
//!
//! What is free goes back to the machine within a second or two, on a thread of the allocator's own. The C library's allocator
//! kept what a burst once took, in an arena for each thread: after values had become smaller, four to eight times what was in
//! use. docs/dependencies.md has the figures.

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    ffi::{CStr, c_char, c_void},
    mem::size_of,
    ptr,
    sync::atomic::{AtomicIsize, Ordering},
};

use tikv_jemallocator::Jemalloc;

/// How far a thread's count may be from what others know.
const SLACK: isize = 16 * 1024;

/// What jemalloc is told when it starts. Free pages are kept for a second and not marked as free meanwhile: that saves the kernel's
/// work for what comes and goes, and no more. Few arenas: a free place in one is of no use to another. No thread of its own: the
/// edge changes its user, and forks, while it is alone ([`give_back_in_background`]).
#[expect(unsafe_code, reason = "it is found by its name")]
// SAFETY: nothing else has that name; jemalloc reads it as a string that ends with a zero, which it does.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: Configuration =
    Configuration(c"narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0,max_background_threads:1".as_ptr());

/// A pointer to a constant.
#[repr(transparent)]
struct Configuration(*const c_char);

#[expect(unsafe_code, reason = "a pointer may not be shared unless somebody says so")]
// SAFETY: it points to a constant.
unsafe impl Sync for Configuration {}

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static UNTOLD: Cell<isize> = const { Cell::new(0) };
}

/// How many bytes are allocated: exact for what this thread has allocated, up to a slack for each other one.
pub fn allocated() -> usize {
    let own = UNTOLD.try_with(Cell::get).unwrap_or(0);
    (ALLOCATED.load(Ordering::Relaxed) + own).max(0).unsigned_abs()
}

/// What the allocator says of itself, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Places that were given out, as large as they are.
    pub allocated: u64,
    /// Pages with such places.
    pub active: u64,
    /// Pages that the machine holds: those, free ones that were not given back yet, and its own records.
    pub resident: u64,
}

/// Asks the allocator about itself.
pub fn figures() -> Figures {
    // Its figures are those of the last time that somebody told it to add them up.
    let mut epoch = 1_u64;
    control(c"epoch", Some(&mut epoch), true);
    let ask = |name| {
        let mut bytes = 0_usize;
        control(name, Some(&mut bytes), false);
        bytes as u64
    };
    Figures { allocated: ask(c"stats.allocated"), active: ask(c"stats.active"), resident: ask(c"stats.resident") }
}

/// Starts a thread that gives free pages back, though nothing is allocated any more.
pub fn give_back_in_background() {
    control(c"background_thread", Some(&mut true), true);
}

/// Gives all free pages back to the machine.
pub fn purge() {
    // The number stands for all arenas.
    control::<u64>(c"arena.4096.purge", None, false);
}

/// Which one it is.
pub fn version() -> String {
    let mut text: *const c_char = ptr::null();
    control(c"version", Some(&mut text), false);
    if text.is_null() {
        return "jemalloc".into();
    }
    #[expect(unsafe_code, reason = "it is a C string")]
    // SAFETY: what the allocator gives as its version is a constant that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    format!("jemalloc-{}", text.split('-').next().unwrap_or_default())
}

/// Reads a value of the allocator's by its name, or sets it, or has something done.
fn control<T>(name: &CStr, value: Option<&mut T>, is_set: bool) {
    let mut len = size_of::<T>();
    let value = value.map_or(ptr::null_mut(), ptr::from_mut).cast::<c_void>();
    let (old, old_len, new, new_len) = match (value.is_null(), is_set) {
        (true, _) => (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0),
        (false, true) => (ptr::null_mut(), ptr::null_mut(), value, len),
        (false, false) => (value, &raw mut len, ptr::null_mut(), 0),
    };
    #[expect(unsafe_code, reason = "the allocator is a C library")]
    // SAFETY: the name ends with a zero; the pointers are null or point to as many bytes as are said, which live longer. Which
    // names go with which types, those who call know; a length that does not fit is refused and nothing written.
    let _ = unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), old, old_len, new, new_len) };
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
// SAFETY: every call goes to jemalloc with the arguments that it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are those that `Jemalloc` asks for.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { Jemalloc.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { Jemalloc.realloc(pointer, layout, new_size) }
    }
}
