//! A cluster of stores, whose agent takes the words of `tidegate cluster`.

use std::{path::PathBuf, process::ExitCode};

use clap::CommandFactory as _;

use super::{
    super::{answer::Verdict, error::CtlError, words::Word},
    Room, Usage,
};
use crate::cluster_command;

/// The agent of a folder.
pub struct Agent {
    folder: Option<PathBuf>,
}

impl Agent {
    /// None: the folder that `tidegate cluster` takes without one.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    fn words(&self, command: &str) -> Vec<String> {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let names_one = words.iter().any(|word| word.starts_with("--dir") || word.starts_with("--coordinator"));
        let is_help = words.iter().any(|word| matches!(word.as_str(), "--help" | "-h" | "help"));
        if let Some(folder) = self.folder.as_ref().filter(|_| !names_one && !is_help) {
            words.extend(["--dir".to_owned(), folder.display().to_string()]);
        }
        words
    }
}

impl Room for Agent {
    fn send(&mut self, command: &str) -> Result<Verdict, CtlError> {
        let is_fine = cluster_command::run_words(&self.words(command)) == ExitCode::SUCCESS;
        Ok(if is_fine { Verdict::Fine } else { Verdict::Refused })
    }

    fn tell(&mut self, word: Word) -> Result<String, CtlError> {
        let command = match word {
            Word::Workers | Word::Servers => "server list",
            Word::Routes => "slot info",
            Word::Uptime => "status",
            Word::Connections | Word::Memory | Word::Plugins => {
                return Err(CtlError::Refused(format!(
                    "an agent does not tell `{}`: ask a server of its cluster, `store {}`",
                    word.name(),
                    word.name()
                )));
            }
        };
        cluster_command::say_words(&self.words(command)).map_err(|error| CtlError::Refused(error.to_string()))
    }

    fn usages(&mut self) -> Vec<Usage> {
        let mut all = Vec::new();
        let tree = cluster_command::Alone::command();
        for command in tree.get_subcommands().filter(|command| command.get_name() != "help") {
            let doc = |command: &clap::Command| command.get_about().map(ToString::to_string).unwrap_or_default();
            let below: Vec<&clap::Command> = command.get_subcommands().collect();
            if below.is_empty() {
                all.push(Usage::new(command.get_name(), doc(command)));
            }
            for one in below.into_iter().filter(|one| one.get_name() != "help") {
                all.push(Usage::new(format!("{} {}", command.get_name(), one.get_name()), doc(one)));
            }
        }
        all
    }
}
