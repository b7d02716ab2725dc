//! The store alone, as `tidegate store` runs it: what is quick to build while one works on the data crates.
//!
//! `cargo run -p store --example store -- --port 6379 --dir /tmp/data`

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: store::allocator::Counting = store::allocator::Counting;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // Whoever develops wants to look inside.
    let has_file = words.first().is_some_and(|word| !word.starts_with('-'));
    if !has_file && !words.iter().any(|word| word == "--enable-debug-command") {
        // In front: behind them, it would be the value of a name that has none.
        words.splice(..0, ["--enable-debug-command", "yes"].map(str::to_owned));
    }
    store::command::run(&words, store::command::Manner::Tidegate)
}
