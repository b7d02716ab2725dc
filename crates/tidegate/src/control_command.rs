//! `tidegate reload`, `upgrade`, `drain` and `stop`: telling a running master.

use std::process::ExitCode;

use crate::masters::{Which, ask};

/// Sends a command and prints the answer.
pub fn run(which: &Which, command: &str) -> ExitCode {
    let asked = which.target(command).and_then(|target| ask(&target, command));
    match asked {
        Ok(reply) if reply.success => {
            println!("{}", reply.text);
            ExitCode::SUCCESS
        }
        Ok(reply) => {
            eprintln!("{}", reply.text);
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("tidegate {command}: {message}");
            ExitCode::FAILURE
        }
    }
}
