//! Whoever reads standard output may have seen enough and gone (`tidegate version | true`): the program ends then as one that SIGPIPE
//! ends, and says nothing of it.
//!
//! Rust ignores that signal, so a server that writes to a client which has gone lives on. What `println!` makes of a closed pipe is a panic; it
//! is told from others by its words.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook},
    process::ExitCode,
};

/// The code of a program that SIGPIPE has ended, as shells tell it.
const ENDED_BY_PIPE: u8 = 128 + 13;

/// Runs a command that prints.
pub fn run(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let hook = take_hook();
    set_hook(Box::new(move |information| {
        if !is_closed_output(information.payload()) {
            hook(information);
        }
    }));
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(code) => code,
        Err(payload) if is_closed_output(&*payload) => ExitCode::from(ENDED_BY_PIPE),
        Err(payload) => resume_unwind(payload),
    }
}

fn is_closed_output(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.contains("Broken pipe"))
}
