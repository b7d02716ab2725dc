//! What commands ask of the process, and what it looks at now and then.

use std::sync::Arc;

use commands::{
    config::Settings,
    server::{Forward, Request},
};
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
        self.sockets.borrow_mut().end_late_handshakes(&mut self.shard.server, now);
        self.shard.measure_memory(now);
        let server = &mut self.shard.server;
        messages::set_level(server.settings().loglevel);
        for line in server.take_log_lines() {
            messages::say(line.level, &line.text);
        }
        self.oom_score.apply(server.settings());
        self.shard.tell_figures();
    }

    /// Ends as the setting of the signal says; without a word of it with a checkpoint, which `nosave` leaves out.
    pub(super) fn end_by(&mut self, signal: Ending) {
        let server = &mut self.shard.server;
        let words = match signal {
            Ending::Interrupt => &server.settings().shutdown_on_sigint,
            Ending::Terminate => &server.settings().shutdown_on_sigterm,
        };
        let (without_checkpoint, is_to_wait) = (words.has("nosave"), server.is_periodic_paused());
        let shutdown = server.shutdown_mut();
        shutdown.without_checkpoint = without_checkpoint;
        let waits = if is_to_wait { &mut shutdown.waits } else { &mut shutdown.is_asked };
        *waits = true;
    }

    /// Does what commands asked for.
    pub(super) fn fulfil_requests(&mut self, now: Millis) -> Result<(), StoreError> {
        while let Some(request) = self.shard.poll_request() {
            self.fulfil(request, now)?;
        }
        Ok(self.shard.fulfil_requests(now)?)
    }

    fn fulfil(&mut self, request: Request, now: Millis) -> Result<(), StoreError> {
        let waker = || Arc::clone(&self.waker);
        match request {
            Request::Listen => self.listen_elsewhere()?,
            Request::FollowSettings => self.follow_settings(),
            Request::AbortShutdown => {
                self.watch.forget();
                messages::notice("Shutdown manually aborted");
            }
            Request::Reload => self.reload(now)?,
            Request::Migrate(migration) => {
                let peer = self.security.of_migration(self.shard.server.settings());
                match &mut self.migrations {
                    Some(migrations) => migrations.send(migration, peer),
                    none => none.insert(Migrations::start(waker())?).send(migration, peer),
                }
            }
            Request::AskAgent(request) => {
                let link = self.agent_link.get_or_insert_with(|| AgentLink::new(waker()));
                link.send(request, self.shard.server.settings());
            }
            Request::AskMaster(forward) => self.ask_master(forward)?,
            Request::AskNodes(forward) => {
                let number = forward.number;
                if !self.nodes()?.ask(forward) {
                    let reason = "ERR the connections to other nodes are lost: restart this node";
                    self.shard.server.finish_forward(number, Err(reason.into()));
                }
            }
            Request::TellMasters(message) => self.nodes()?.publish(message),
            Request::LeaveNodes(session) => self.nodes()?.leave(session),
            Request::Replication(request) => self.replicator.ask(request),
            // The shard does these itself.
            Request::Save | Request::Checkpoint | Request::Load(_) | Request::Warm(_) => {}
        }
        Ok(())
    }

    /// Listens where a command has opened sockets.
    fn listen_elsewhere(&mut self) -> Result<(), StoreError> {
        let mut listening = self.listening.borrow_mut();
        if let Some(next) = listening.next_security.take() {
            self.security.set(next.0);
        }
        if let Some((opened, wanted)) = listening.next.take() {
            self.sockets.borrow_mut().listen_elsewhere(opened, &wanted)?;
            listening.open = wanted;
        }
        drop(listening);
        self.tell_place();
        Ok(())
    }

    fn follow_settings(&mut self) {
        self.oom_score.apply(self.shard.server.settings());
        if let Some(persistence) = self.shard.persistence() {
            persistence.follow_settings(self.shard.server.settings());
            opening::warn_of_little(self.shard.server.settings());
        }
    }

    /// Has a command sent to the master.
    fn ask_master(&mut self, forward: Forward) -> Result<(), StoreError> {
        let server = &self.shard.server;
        let Some(master) = server.replication().master() else {
            let reason = "TRYAGAIN this server has become a master: nothing has changed";
            self.shard.server.finish_forward(forward.number, Err(reason.into()));
            return Ok(());
        };
        let peer = self.security.of_replication(server.settings());
        let upstream = Upstream::new((master.host.clone(), master.port), server.settings(), peer);
        let new = || Forwarder::new(upstream.clone(), Arc::clone(&self.waker));
        let forwarder = self.forwarder.get_or_insert_with(new);
        forwarder.set_upstream(upstream);
        Ok(forwarder.send(forward)?)
    }

    /// What reaches other nodes, which knows the cluster as this node does.
    fn nodes(&mut self) -> Result<&mut OtherNodes, StoreError> {
        let server = &self.shard.server;
        let nodes = match &mut self.nodes {
            Some(nodes) => nodes,
            none => none.insert(OtherNodes::start(server.settings(), Arc::clone(&self.waker))?),
        };
        nodes.learn(server.known_cluster());
        Ok(nodes)
    }

    /// Takes what has become of what commands asked for before.
    pub(super) fn hear_answers(&mut self, now: Millis) {
        let server = &mut self.shard.server;
        if let Some(migrations) = &self.migrations {
            while let Some(migrated) = migrations.outcome() {
                server.finish_migration(&migrated, now);
            }
            server.set_migration_sockets(migrations.sockets());
        }
        server.look_for_master();
        if let Some(forwarder) = &mut self.forwarder {
            if server.replication().master().is_none() {
                forwarder.close();
            }
            while let Some((number, answer)) = forwarder.outcome() {
                server.finish_forward(number, answer);
            }
        }
        if let Some(nodes) = &mut self.nodes {
            nodes.learn(server.known_cluster());
            while let Some(answer) = nodes.answer() {
                server.finish_passed_on(answer.number, answer.reply, answer.is_bound);
            }
        }
        if let Some(link) = &self.agent_link {
            while let Some((number, answer)) = link.outcome() {
                server.finish_agent_request(number, answer);
            }
        }
    }

    /// Takes what the master and replicas have sent. Whether there is more.
    pub(super) fn replicate(&mut self, now: Millis) -> Result<bool, StoreError> {
        let mut sockets = self.sockets.borrow_mut();
        self.replicator.turn(&mut self.shard, &mut sockets, self.store_folder.as_ref(), now)
    }

    /// Closes log and tables and opens them again, while clients wait.
    fn reload(&mut self, now: Millis) -> Result<(), StoreError> {
        let Some(folder) = &self.store_folder else { return Ok(()) };
        let waker = &self.waker;
        let open = |settings: &Settings| opening::open(folder, ShardNumber::FIRST, settings, None, Arc::clone(waker));
        self.shard.reopen(now, open)
    }
}
