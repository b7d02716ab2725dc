//! The store alone, as `tidegate store` runs it: what is quick to build while one works on the data crates.
//!
//! `cargo run -p store --example store -- --port 6379 --dir /tmp/data`

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: store::allocator::Counting = store::allocator::Counting;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    store::command::run(&words)
}
