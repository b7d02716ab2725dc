//! `tidegate cluster rescue`: a cluster whose coordinator is gone is made anew of what the folders of its hosts know.

use std::{
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
    thread,
    time::Duration,
};

use agent::{AgentError, Options, copies, http, identity::Identity, names, options::Folder, secrets::Secret};
use clap::Args;
use serde_json::{Value, json};

use super::{CommandError, at, show};

/// How often an agent is looked for that was just started.
const LOOK_EACH: Duration = Duration::from_millis(50);

/// Options of `tidegate cluster rescue`.
#[derive(Args, Debug)]
pub struct RescueArguments {
    /// The cluster's folder.
    #[arg(long, default_value = "tidegate-cluster")]
    dir: PathBuf,
    /// A record that was kept elsewhere: a `record.json`, or the description of a `cluster backup` (cluster/NAME.json in the archive). It counts if
    /// it is later than what the folders have.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The words that the command asks for, for scripts.
    #[arg(long, value_name = "WORDS")]
    words: Option<String>,
    /// Show what would be done, and change nothing.
    #[arg(long, conflicts_with = "words")]
    dry_run: bool,
    /// Print JSON, for other programs.
    #[arg(long)]
    json: bool,
}

/// Rescues a cluster.
pub fn rescue(arguments: &RescueArguments) -> Result<String, CommandError> {
    let record = arguments.record.as_ref().map(kept).transpose()?;
    let dir = std::path::absolute(&arguments.dir).map_err(CommandError::Dir)?;
    let ask = |agreed: Option<(&str, &Value)>| {
        let (words, gist) = agreed.unzip();
        http::ask(&dir, "POST", "/api/rescue", &json!({ "record": record, "words": words, "gist": gist }))
    };
    match ask(None) {
        Ok(plan) => decide(arguments, &plan, ask),
        // A cluster of one machine needs no agent for that but this one.
        Err(AgentError::NotRunning { .. }) => {
            let copy = copies::read(&Folder::new(dir.clone()))?;
            if copy.as_ref().is_some_and(|copy| !copy.cluster.hosts.is_empty()) {
                return Err(CommandError::RescueWithoutAgents(dir));
            }
            alone(dir.clone(), || {
                let plan = ask(None)?;
                decide(arguments, &plan, ask)
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// A record in a file of its own, or in the description of a backup.
fn kept(path: &PathBuf) -> Result<String, CommandError> {
    let failed = |source| CommandError::Record { path: path.clone(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let whole: Value = serde_json::from_str(&text)?;
    let kept = whole.get("record").unwrap_or(&whole);
    if kept.get("cluster").is_none() {
        return Err(CommandError::NoRecord(path.clone()));
    }
    Ok(kept.to_string())
}

/// Does something while an agent of this process waits for a rescue.
fn alone<T>(dir: PathBuf, act: impl FnOnce() -> Result<T, CommandError>) -> Result<T, CommandError> {
    let folder = Folder::new(dir);
    let program = std::env::current_exe().map_err(CommandError::Program)?;
    let secret = match std::fs::read_to_string(folder.proxies_secret()) {
        Ok(text) => Secret::with_password(text.lines().next().unwrap_or_default(), false)?,
        // Without a password, a machine that others reach had its stores open to all: else nobody could ask them.
        Err(_) => {
            let known = Identity::read(&folder)?.and_then(|identity| names::resolved(&identity.address).ok());
            Secret { password: None, is_open: known.is_some_and(|address| !address.is_loopback()) }
        }
    };
    let socket = folder.socket();
    let _ = std::fs::remove_file(&socket);
    let options = Options { program, secret, is_rescue: true, ..Options::of(folder) };
    thread::scope(|scope| {
        let agent = scope.spawn(move || agent::run(options, None, None, |_| {}));
        while !socket.exists() {
            if agent.is_finished() {
                let ended = agent.join().unwrap_or(Ok(()));
                return Err(ended.err().map_or(CommandError::NoRescue, Into::into));
            }
            thread::sleep(LOOK_EACH);
        }
        let done = act();
        if !agent.is_finished() {
            // What it has started ends with it.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
        }
        let ended = agent.join().unwrap_or(Ok(()));
        let _ = std::fs::remove_file(&socket);
        let done = done?;
        ended?;
        Ok(done)
    })
}

fn decide(
    arguments: &RescueArguments,
    plan: &Value,
    ask: impl Fn(Option<(&str, &Value)>) -> Result<Value, AgentError>,
) -> Result<String, CommandError> {
    let words = at(plan, "words").as_str().unwrap_or_default().to_owned();
    let shown = if arguments.json { plan.to_string() } else { show::rescue(plan) };
    if arguments.dry_run {
        return Ok(shown);
    }
    eprintln!("{}", shown.trim_end());
    let said = match &arguments.words {
        Some(said) => said.clone(),
        None if std::io::stdin().is_terminal() => {
            eprint!("Type '{words}' to do that: ");
            let _ = std::io::stderr().flush();
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map_err(CommandError::Terminal)?;
            line
        }
        None => return Err(CommandError::WordsNeeded(words)),
    };
    let done = ask(Some((said.trim(), at(plan, "gist"))))?;
    if arguments.json {
        return Ok(done.to_string());
    }
    Ok(format!(
        "done: the cluster has a coordinator again. Agents that wait go on by themselves; otherwise `tidegate cluster up --dir {}`",
        arguments.dir.display()
    ))
}
