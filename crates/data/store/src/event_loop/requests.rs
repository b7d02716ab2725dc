//! What commands ask of the process, and what it looks at now and then.

use std::sync::Arc;

use commands::Millis;

use crate::{StoreError, folder::ShardNumber, messages, migrate::Migrations, opening, signals::Ending};

use super::EventLoop;

impl EventLoop {
    /// What is looked at now and then: figures for those who ask, and settings that the process follows.
    pub(super) fn look_around(&mut self, now: Millis) {
        let shared = &mut self.server.shared;
        let used = (self.memory_used)() as u64;
        shared.statistics.peak_memory = shared.statistics.peak_memory.max(used);
        self.overhead.tick(now, used, shared.settings.maxmemory.0);
        messages::set_level(shared.settings.loglevel);
        for line in shared.script_log.drain(..) {
            messages::say(line.level, &line.text);
        }
        self.oom_score.apply(&shared.settings);
        self.tell_figures();
    }

    fn tell_figures(&mut self) {
        let Some(persistence) = &self.persistence else { return };
        let figures = persistence.figures();
        let changes = self.server.changes();
        let shared = &mut self.server.shared;
        if figures.checkpoints != shared.persistence.checkpoints {
            shared.changes_at_checkpoint = changes;
        }
        shared.persistence = figures;
    }

    /// Ends as the setting of the signal says; without a word of it with a checkpoint, which `nosave` leaves out.
    pub(super) fn end_by(&mut self, signal: Ending) {
        let shared = &mut self.server.shared;
        let words = match signal {
            Ending::Interrupt => &shared.settings.shutdown_on_sigint,
            Ending::Terminate => &shared.settings.shutdown_on_sigterm,
        };
        shared.requests.shutdown_without_checkpoint = words.has("nosave");
        let waits = if shared.periodic_paused { &mut shared.shutdown_waits } else { &mut shared.shutdown };
        *waits = true;
    }

    /// Does what commands asked for.
    pub(super) fn fulfil_requests(&mut self, now: Millis) -> Result<(), StoreError> {
        let requests = self.server.shared.requests;
        if requests.listen {
            self.server.shared.requests.listen = false;
            let mut listening = self.listening.borrow_mut();
            if let Some((opened, wanted)) = listening.next.take() {
                self.sockets.borrow_mut().listen_elsewhere(opened, &wanted)?;
                listening.open = wanted;
            }
            drop(listening);
            self.tell_place();
        }
        if std::mem::take(&mut self.server.shared.requests.settings) {
            self.oom_score.apply(&self.server.shared.settings);
            if let Some(persistence) = &self.persistence {
                persistence.follow_settings(&self.server.shared.settings);
                opening::warn_of_little(&self.server.shared.settings);
            }
        }
        if std::mem::take(&mut self.server.shared.requests.shutdown_aborted) {
            self.watch.forget();
            messages::notice("Shutdown manually aborted");
        }
        if !requests.save && !requests.checkpoint && !requests.reload {
            return Ok(());
        }
        let requests = &mut self.server.shared.requests;
        let (save, reload) = (std::mem::take(&mut requests.save), std::mem::take(&mut requests.reload));
        requests.checkpoint = false;
        if let Some(persistence) = &mut self.persistence {
            if save {
                persistence.checkpoint_now(&mut self.server, now)?;
            } else if !reload {
                persistence.press();
            }
        }
        if reload {
            self.reload(now)?;
        }
        self.tell_figures();
        Ok(())
    }

    /// Has keys sent to other servers, and removes those that arrived.
    pub(super) fn migrate(&mut self, now: Millis) -> Result<(), StoreError> {
        if !self.server.shared.migrations.is_empty() && self.migrations.is_none() {
            self.migrations = Some(Migrations::start(Arc::clone(&self.waker))?);
        }
        let Some(migrations) = &self.migrations else { return Ok(()) };
        for migration in self.server.shared.migrations.drain(..) {
            migrations.send(migration);
        }
        while let Some(migrated) = migrations.outcome() {
            self.server.finish_migration(&migrated, now);
        }
        self.server.shared.migration_sockets = migrations.sockets();
        Ok(())
    }

    /// Closes log and tables and opens them again, while clients wait.
    fn reload(&mut self, now: Millis) -> Result<(), StoreError> {
        let (Some(mut persistence), Some(store)) = (self.persistence.take(), &self.store_folder) else { return Ok(()) };
        self.server.finish_replies();
        persistence.drain(&mut self.server, now);
        persistence.close(&mut self.server, now)?;
        self.server.forget_data();
        let settings = &self.server.shared.settings;
        let mut persistence = opening::open(store, ShardNumber::FIRST, settings, None, Arc::clone(&self.waker))?;
        let tables = persistence.tables();
        self.server.take_records(tables.key_seed(), Box::new(tables));
        persistence.recover(&mut self.server)?;
        self.server.set_now(now);
        self.persistence = Some(persistence);
        self.tell_place();
        Ok(())
    }
}
