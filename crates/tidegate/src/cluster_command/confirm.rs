//! A plan is shown to whoever sits at a terminal before it is carried out.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use super::CommandError;

/// Whether only the plan is wanted.
#[derive(Args, Debug, Clone, Copy)]
pub struct DryRun {
    /// Show what would be done, and change nothing.
    #[arg(long = "dry-run")]
    pub is_dry: bool,
}

/// Whether a plan is carried out without a question.
#[derive(Args, Debug, Clone, Copy)]
pub struct Consent {
    /// Do it without asking. Without a terminal, the command never asks.
    #[arg(long, short)]
    yes: bool,
    /// Show what would be done, and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
}

impl Consent {
    /// Shows a plan and asks, where there is somebody to ask.
    pub fn given(self, plan: &str, is_for_programs: bool) -> Result<bool, CommandError> {
        if !is_for_programs {
            eprintln!("{}", plan.trim_end());
        }
        if self.yes || is_for_programs || !std::io::stdin().is_terminal() {
            return Ok(true);
        }
        eprint!("Do that? [y/N] ");
        let _ = std::io::stderr().flush();
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(CommandError::Terminal)?;
        Ok(matches!(line.trim(), "y" | "Y" | "yes"))
    }
}
