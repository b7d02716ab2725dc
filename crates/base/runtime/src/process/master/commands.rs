//! What a master's control sockets are asked, and its answers.

use super::{Control, Input, Master};
use crate::listen::{SocketTable, begin};
use crate::log;
use crate::process::control::{self, Asked, Reply};
use crate::process::machine::{Event, RequestId, SIGTERM};
use crate::process::role::{MasterStatus, Role};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tokio::sync::mpsc;

impl<R: Role> Master<R> {
    pub(super) fn open_control(&mut self) -> io::Result<()> {
        match control::listen_by_pid() {
            Ok(socket) => self.control.push(Control { socket, open_to_all: false }),
            // Another master with our number, in another process name space but in our network name space.
            Err(error) => log::warning!("no control socket by process number: {error}"),
        }
        for spec in &self.options.control {
            let mut table = SocketTable::default();
            let added = table
                .prepare(std::slice::from_ref(spec), 1, &mut |_| None)
                .and_then(|prepared| table.commit(prepared))
                .map_err(io::Error::other)?;
            for (_, socket) in table.iter().filter(|(key, _)| added.contains(key)) {
                begin(spec, socket)?;
                self.control.push(Control { socket: socket.try_clone()?, open_to_all: true });
            }
        }
        Ok(())
    }

    pub(super) fn serve_control(&mut self) -> io::Result<()> {
        let (sender, mut asked) = mpsc::unbounded_channel();
        for control in &self.control {
            let (socket, open_to_all) = (control.socket.try_clone()?, control.open_to_all);
            let (gate, sender) = (Rc::clone(&self.gate), sender.clone());
            tokio::task::spawn_local(async move {
                if let Err(error) = control::serve(socket, open_to_all, gate, sender).await {
                    log::alert!("the control socket cannot be served: {error}");
                }
            });
        }
        let input = self.input.clone();
        tokio::task::spawn_local(async move {
            while let Some(asked) = asked.recv().await {
                if input.send(Input::Asked(asked)).is_err() {
                    break;
                }
            }
        });
        Ok(())
    }

    pub(super) fn asked(&mut self, asked: Asked) {
        let Asked { line, client } = asked;
        let text = match line.as_str() {
            "reload" => {
                let request = Some(self.remember(client));
                return self.tell(Event::Reload { request });
            }
            "upgrade" => {
                let request = Some(self.remember(client));
                return self.tell(Event::Upgrade { request });
            }
            "drain" => {
                control::answer(client, &Reply { success: true, text: "ending when all connections have".into() });
                return self.tell(Event::Drain);
            }
            "stop" => {
                control::answer(client, &Reply { success: true, text: "ending now".into() });
                return self.tell(Event::Stop { signal: SIGTERM });
            }
            "status" => serde_json::to_string(&self.status()).unwrap_or_default() + "\n",
            "show proc" => show_processes(&self.status()),
            other => match self.role.command(other, &self.status()) {
                Some(text) => text,
                None => HELP.to_owned(),
            },
        };
        if let Err(error) = control::answer_plain(client, &text) {
            log::warning!("cannot answer on the control socket: {error}");
        }
    }

    fn remember(&mut self, client: OwnedFd) -> RequestId {
        let request = self.next_request;
        self.next_request += 1;
        self.requests.insert(request, client);
        request
    }
}

const HELP: &str = "\
The following commands are valid at this level:
  drain     : end when all connections have
  reload    : read the configuration again
  show proc : show the processes
  status    : the same for programs, as JSON
  stop      : end now
  upgrade   : replace the program by the one on disk
";

/// HAProxy's table of processes.
fn show_processes(status: &MasterStatus) -> String {
    use std::fmt::Write as _;
    let uptime = |seconds: u64| {
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        format!("{}d{:02}h{minutes:02}m{seconds:02}s", hours / 24, hours % 24)
    };
    let mut text = String::new();
    let mut line = |pid: &dyn std::fmt::Display, kind: &str, reloads: u64, time: String| {
        let _ = writeln!(text, "{pid:<15} {kind:<15} {reloads:<15} {time:<15}");
    };
    line(&status.pid, "master", status.reloads, uptime(status.uptime_s));
    let mut workers = status.workers.iter();
    let mut rows = Vec::new();
    if let Some(worker) = workers.next() {
        rows.push(("# workers", worker));
    }
    rows.extend(workers.map(|worker| ("# old workers", worker)));
    let mut heading = "";
    let mut table = format!("{:<15} {:<15} {:<15} {:<15}\n", "#<PID>", "<type>", "<reloads>", "<uptime>") + &text;
    for (section, worker) in rows {
        if section != heading {
            heading = section;
            table.push_str(section);
            table.push('\n');
        }
        let _ = writeln!(
            table,
            "{:<15} {:<15} {:<15} {:<15}",
            worker.pid,
            "worker",
            worker.reloads,
            uptime(worker.uptime_s)
        );
    }
    table
}
