//! The command line: what `tidegate store` does with its words.

use std::{error::Error as _, process::ExitCode};

use crate::{StoreError, allocator, options};

/// Runs a store as the words say, until it ends. They are `[redis.conf] [--setting value ...]`, as redis-server takes them.
pub fn run(words: &[String]) -> ExitCode {
    match options::read(words).and_then(|start| crate::run(start, allocator::allocated)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate store: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn with_causes(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
