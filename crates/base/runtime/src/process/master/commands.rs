//! What a master's control sockets are asked, and its answers.

use super::{Control, Input, Master};
use crate::listen::{SocketTable, begin};
use crate::log;
use crate::process::channel::{Descriptor, Outgoing};
use crate::process::control::{self, Reply};
use crate::process::conversation::Order;
use crate::process::machine::{Event, RequestId, SIGTERM};
use crate::process::message::ToWorker;
use crate::process::role::Role;
use crate::process::talk::ConversationRequest;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;

impl<R: Role> Master<R> {
    pub(super) fn open_control(&mut self) -> io::Result<()> {
        match control::listen_by_pid() {
            Ok(socket) => self.control.push(Control { name: String::new(), socket, open_to_all: false }),
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
                let (name, socket) = (spec.name.clone(), socket.try_clone()?);
                self.control.push(Control { name, socket, open_to_all: true });
            }
        }
        Ok(())
    }

    pub(super) fn serve_control(&mut self) -> io::Result<()> {
        let (sender, mut asked) = mpsc::unbounded_channel();
        for control in &self.control {
            let (socket, open_to_all) = (control.socket.try_clone()?, control.open_to_all);
            let (gate, sender, role) = (Rc::clone(&self.gate), sender.clone(), Rc::clone(&self.role));
            let name = control.name.clone();
            tokio::task::spawn_local(async move {
                let begin = || role.conversation(&name);
                if let Err(error) = control::serve(socket, open_to_all, gate, sender, begin).await {
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

    pub(super) fn asked(&mut self, asked: ConversationRequest) {
        match asked {
            // Whoever asked may have gone.
            ConversationRequest::Status(answer) => drop(answer.send(self.status())),
            ConversationRequest::Talk { pid, socket } => self.talk(pid, socket),
            ConversationRequest::Order { order, client } => self.order(order, client),
        }
    }

    /// Passes a socket on to the worker with this number. One that is gone does not answer: its client hears the end.
    fn talk(&self, pid: u32, socket: OwnedFd) {
        let Some((worker, link)) = self.links.iter().find(|(_, link)| link.pid == pid) else { return };
        let socket: Arc<dyn Descriptor> = Arc::new(socket);
        let sent = Outgoing::new(&ToWorker::Talk, vec![socket]).and_then(|outgoing| link.channel.post(outgoing));
        if let Err(error) = sent {
            log::warning!("cannot talk with worker ({pid}): {error}");
        }
        self.flush(*worker);
    }

    fn order(&mut self, order: Order, client: OwnedFd) {
        match order {
            Order::Reload => {
                let request = Some(self.remember(client));
                self.tell(Event::Reload { request });
            }
            Order::Upgrade => {
                let request = Some(self.remember(client));
                self.tell(Event::Upgrade { request });
            }
            Order::Drain => {
                control::answer(client, &Reply { success: true, text: "ending when all connections have".into() });
                self.tell(Event::Drain);
            }
            Order::Stop => {
                control::answer(client, &Reply { success: true, text: "ending now".into() });
                self.tell(Event::Stop { signal: SIGTERM });
            }
        }
    }

    fn remember(&mut self, client: OwnedFd) -> RequestId {
        let request = self.next_request;
        self.next_request += 1;
        self.requests.insert(request, client);
        request
    }
}
