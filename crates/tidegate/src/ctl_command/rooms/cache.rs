//! A cache that varnishd runs, Tidegate's or Varnish's, by its management protocol.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    time::Duration,
};

use varnishtools::{management::Client, overview::Overview};

use super::{
    super::{answer::Verdict, error::CtlError, words::Word},
    Rest, Room, Usage,
};
use crate::style::{columns, lasting, size};

/// How long to wait for a reply.
const PATIENCE: Duration = Duration::from_secs(3);

/// An instance, by its name or its working directory.
pub struct Cache {
    name: Option<String>,
    /// Kept from one command to the next.
    client: Option<Client>,
}

impl Cache {
    /// None: the one that has no name.
    pub fn new(name: Option<String>) -> Self {
        Self { name, client: None }
    }

    /// The reply, by the connection that there is, or by a new one if that has ended meanwhile.
    fn ask(&mut self, command: &str) -> Result<varnishcli::Reply, CtlError> {
        let failed = |error: varnishtools::management::ManagementError| CtlError::Unreachable(error.to_string());
        if let Some(client) = &mut self.client {
            if let Ok(reply) = client.ask(command) {
                return Ok(reply);
            }
            self.client = None;
        }
        let mut client = Client::of(self.name.as_deref(), PATIENCE).map_err(failed)?;
        let reply = client.ask(command).map_err(failed)?;
        self.client = Some(client);
        Ok(reply)
    }

    fn text(&mut self, command: &str) -> Result<String, CtlError> {
        let reply = self.ask(command)?;
        Ok(format!("{}\n", String::from_utf8_lossy(&reply.text).trim_end()))
    }

    fn overview(&self) -> Result<Overview, CtlError> {
        Overview::of(self.name.as_deref()).map_err(|error| CtlError::Unreachable(error.to_string()))
    }
}

impl Room for Cache {
    fn send(&mut self, command: &str) -> Result<Verdict, CtlError> {
        let reply = self.ask(command)?;
        let mut text = reply.text.clone();
        if text.last().is_some_and(|last| *last != b'\n') {
            text.push(b'\n');
        }
        if reply.is_ok() {
            io::stdout().write_all(&text).and_then(|()| io::stdout().flush()).map_err(CtlError::Output)?;
            return Ok(Verdict::Fine);
        }
        io::stderr().write_all(&text).map_err(CtlError::Output)?;
        Ok(Verdict::Refused)
    }

    fn tell(&mut self, word: Word) -> Result<String, CtlError> {
        Ok(match word {
            Word::Uptime => {
                let about = self.overview()?;
                let mut out = format!("{}, up {}\n", about.folder, lasting(about.manager_uptime_s));
                let _ = writeln!(out, "  worker        up {}", lasting(about.worker_uptime_s));
                let _ = writeln!(out, "  requests      {}", about.requests);
                out
            }
            Word::Workers => {
                let about = self.overview()?;
                let state = about.worker.as_deref().unwrap_or("does not tell its state").to_owned();
                let rows = [
                    ["PROCESS", "STATE", "UP", "THREADS"].map(str::to_owned),
                    ["worker".to_owned(), state, lasting(about.worker_uptime_s), about.threads.to_string()],
                ];
                columns(&rows)
            }
            Word::Connections => {
                let about = self.overview()?;
                format!("{} connections so far, {} refused\n", about.sessions, about.refused_sessions)
            }
            Word::Memory => {
                let about = self.overview()?;
                let mut rows = vec![["STORAGE", "USED", "FREE"].map(str::to_owned)];
                rows.extend(about.storages.iter().map(|storage| {
                    let free = if storage.free == 0 { "no bound".to_owned() } else { size(storage.free) };
                    [storage.name.clone(), size(storage.used), free]
                }));
                format!("{} objects; {} removed for want of room\n\n{}", about.objects, about.evicted, columns(&rows))
            }
            Word::Routes => self.text("vcl.list")?,
            Word::Servers => self.text("backend.list")?,
            Word::Plugins => {
                let names = vcl::reference::module_names();
                format!("modules of VCL, built in: {}\n", names.join(", "))
            }
        })
    }

    fn usages(&mut self) -> Vec<Usage> {
        let all = varnishcli::command::ALL.iter().filter(|command| !command.is_debug);
        all.map(|command| Usage::new(command.syntax, command.help)).collect()
    }

    fn names(&mut self, placeholder: &str) -> Vec<String> {
        // What stands in the last or the first column of a list.
        let (command, is_last) = match placeholder {
            "<configname>" | "<configname|label>" | "<label>" => ("vcl.list", true),
            "<backend_pattern>" => ("backend.list", false),
            "<param>" => ("param.show", false),
            _ => return Vec::new(),
        };
        let text = self.text(command).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['B', ' ']));
        let word = |line: &str| {
            let mut words = line.split_whitespace();
            if is_last { words.next_back() } else { words.next() }.map(str::to_owned)
        };
        lines.filter_map(word).collect()
    }

    fn rest_of(&self, line: &str, _: bool) -> Rest {
        varnishtools::management::text_end(line).map_or(Rest::None, Rest::UntilWord)
    }
}
