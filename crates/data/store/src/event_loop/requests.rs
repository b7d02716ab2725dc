//! What commands ask of the process, and what it looks at now and then.

use std::sync::Arc;

use commands::config::Settings;
use keyspace::Millis;

use crate::{
    StoreError,
    agent_link::AgentLink,
    folder::ShardNumber,
    forward::{Forwarder, Upstream},
    messages,
    migrate::Migrations,
    opening,
    other_nodes::OtherNodes,
    signals::Ending,
};

use super::EventLoop;

impl EventLoop {
    /// What is looked at now and then: figures for those who ask, and settings that the process follows.
    pub(super) fn look_around(&mut self, now: Millis) {
        self.shard.measure_memory(now);
        let shared = &mut self.shard.server.shared;
        messages::set_level(shared.settings.loglevel);
        for line in shared.log.lines.drain(..) {
            messages::say(line.level, &line.text);
        }
        self.oom_score.apply(&shared.settings);
        self.shard.tell_figures();
    }

    /// Ends as the setting of the signal says; without a word of it with a checkpoint, which `nosave` leaves out.
    pub(super) fn end_by(&mut self, signal: Ending) {
        let shared = &mut self.shard.server.shared;
        let words = match signal {
            Ending::Interrupt => &shared.settings.shutdown_on_sigint,
            Ending::Terminate => &shared.settings.shutdown_on_sigterm,
        };
        shared.requests.shutdown_without_checkpoint = words.has("nosave");
        let waits =
            if shared.debug.periodic_paused { &mut shared.shutdown.waits } else { &mut shared.shutdown.is_asked };
        *waits = true;
    }

    /// Does what commands asked for.
    pub(super) fn fulfil_requests(&mut self, now: Millis) -> Result<(), StoreError> {
        let requests = self.shard.server.shared.requests;
        if requests.listen {
            self.shard.server.shared.requests.listen = false;
            let mut listening = self.listening.borrow_mut();
            if let Some((opened, wanted)) = listening.next.take() {
                self.sockets.borrow_mut().listen_elsewhere(opened, &wanted)?;
                listening.open = wanted;
            }
            drop(listening);
            self.tell_place();
        }
        if std::mem::take(&mut self.shard.server.shared.requests.settings) {
            self.oom_score.apply(&self.shard.server.shared.settings);
            if let Some(persistence) = self.shard.persistence() {
                persistence.follow_settings(&self.shard.server.shared.settings);
                opening::warn_of_little(&self.shard.server.shared.settings);
            }
        }
        if std::mem::take(&mut self.shard.server.shared.requests.shutdown_aborted) {
            self.watch.forget();
            messages::notice("Shutdown manually aborted");
        }
        if std::mem::take(&mut self.shard.server.shared.requests.reload) {
            self.reload(now)?;
        }
        Ok(self.shard.fulfil_requests(now)?)
    }

    /// Takes what the master and replicas have sent. Whether there is more.
    pub(super) fn replicate(&mut self, now: Millis) -> Result<bool, StoreError> {
        let mut sockets = self.sockets.borrow_mut();
        self.replicator.turn(&mut self.shard, &mut sockets, self.store_folder.as_ref(), now)
    }

    /// Has keys sent to other servers, and removes those that arrived.
    pub(super) fn migrate(&mut self, now: Millis) -> Result<(), StoreError> {
        if !self.shard.server.shared.migrations.queue.is_empty() && self.migrations.is_none() {
            self.migrations = Some(Migrations::start(Arc::clone(&self.waker))?);
        }
        let Some(migrations) = &self.migrations else { return Ok(()) };
        for migration in self.shard.server.shared.migrations.queue.drain(..) {
            migrations.send(migration);
        }
        while let Some(migrated) = migrations.outcome() {
            self.shard.server.finish_migration(&migrated, now);
        }
        self.shard.server.shared.migrations.sockets = migrations.sockets();
        Ok(())
    }

    /// Has commands passed on to the cluster's agent, and answers those that have been.
    pub(super) fn ask_agent(&mut self) {
        let shared = &mut self.shard.server.shared;
        if !shared.agent.queue.is_empty() {
            let link = self.agent_link.get_or_insert_with(|| AgentLink::new(Arc::clone(&self.waker)));
            for request in std::mem::take(&mut shared.agent.queue) {
                link.send(request, &shared.settings);
            }
        }
        let Some(link) = &self.agent_link else { return };
        while let Some((number, answer)) = link.outcome() {
            self.shard.server.finish_agent_request(number, answer);
        }
    }

    /// Has commands sent to the master, and answers those whose answers have come.
    pub(super) fn forward(&mut self) -> Result<(), StoreError> {
        self.shard.server.look_for_master();
        let shared = &mut self.shard.server.shared;
        if !shared.forwards.queue.is_empty() {
            let Some(master) = shared.replication.master() else {
                for forward in std::mem::take(&mut shared.forwards.queue) {
                    let reason = "TRYAGAIN this server has become a master: nothing has changed";
                    self.shard.server.finish_forward(forward.number, Err(reason.into()));
                }
                return Ok(());
            };
            let upstream = Upstream::new((master.host.clone(), master.port), &shared.settings);
            let forwarder =
                self.forwarder.get_or_insert_with(|| Forwarder::new(upstream.clone(), Arc::clone(&self.waker)));
            forwarder.set_upstream(upstream);
            for forward in shared.forwards.queue.drain(..) {
                forwarder.send(forward)?;
            }
        }
        let Some(forwarder) = &mut self.forwarder else { return Ok(()) };
        if shared.replication.master().is_none() {
            forwarder.close();
        }
        while let Some((number, answer)) = forwarder.outcome() {
            self.shard.server.finish_forward(number, answer);
        }
        Ok(())
    }

    /// Has commands run by other nodes of the cluster, and answers those whose answers have come.
    pub(super) fn pass_on(&mut self) -> Result<(), StoreError> {
        let server = &mut self.shard.server;
        if server.shared.forwards.has_passed_on() {
            let forwards = &mut server.shared.forwards;
            let (asked, left) = (std::mem::take(&mut forwards.to_nodes), std::mem::take(&mut forwards.left));
            let messages = std::mem::take(&mut forwards.messages);
            let nodes = match &mut self.nodes {
                Some(nodes) => nodes,
                none => none.insert(OtherNodes::start(&server.shared.settings, Arc::clone(&self.waker))?),
            };
            nodes.learn(server.known_cluster());
            left.into_iter().for_each(|session| nodes.leave(session));
            messages.into_iter().for_each(|message| nodes.publish(message));
            for forward in asked {
                let number = forward.number;
                if !nodes.ask(forward) {
                    let reason = "ERR the connections to other nodes are lost: restart this node";
                    server.finish_forward(number, Err(reason.into()));
                }
            }
        }
        let Some(nodes) = &mut self.nodes else { return Ok(()) };
        nodes.learn(server.known_cluster());
        while let Some(answer) = nodes.answer() {
            server.finish_passed_on(answer.number, answer.reply, answer.is_bound);
        }
        Ok(())
    }

    /// Closes log and tables and opens them again, while clients wait.
    fn reload(&mut self, now: Millis) -> Result<(), StoreError> {
        let Some(folder) = &self.store_folder else { return Ok(()) };
        let waker = &self.waker;
        let open = |settings: &Settings| opening::open(folder, ShardNumber::FIRST, settings, None, Arc::clone(waker));
        self.shard.reopen(now, open)
    }
}
