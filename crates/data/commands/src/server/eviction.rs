//! Keys that are removed because memory is full, as `maxmemory-policy` says.

use keyspace::{Keys, MaxmemoryPolicy, changes::EventClass};

use super::Server;

/// How often keys are drawn from the tables for one that may go.
const DRAWS: usize = 16;

impl Server {
    /// Removes the key that the policy finds least worth keeping. Nothing if there is none that it lets go. Whoever is to know of
    /// it is told by [`tell_evicted`](Self::tell_evicted).
    ///
    /// Returns how many bytes were taken for what is to be told, by `memory_used`: with long names it may be as much as became
    /// free. It is gone at the end of the turn, and no more keys should go for that.
    pub fn evict(&mut self, memory_used: &dyn Fn() -> usize) -> Option<usize> {
        let policy = self.shared.settings.maxmemory_policy;
        if policy == MaxmemoryPolicy::NoEviction || self.keeps_keys() {
            return None;
        }
        self.watch_changes();
        let samples = usize::try_from(self.shared.settings.maxmemory_samples.0).unwrap_or(1);
        let (db, key) = self.keyspace.least_worth_keeping(policy, &mut self.shared.random, samples)?;
        self.evict_key(db, &key, memory_used)
    }

    /// Removes a key because the tables take too much of the disk: of some that are drawn, in memory or not, one that is not in
    /// memory before all others, for it was not used for longest. Returns false if there is none that the policy lets go.
    pub fn evict_from_disk(&mut self) -> bool {
        let policy = self.shared.settings.maxmemory_policy;
        if policy == MaxmemoryPolicy::NoEviction || self.keeps_keys() {
            return false;
        }
        self.watch_changes();
        let samples = usize::try_from(self.shared.settings.maxmemory_samples.0).unwrap_or(1);
        let occupied: Vec<usize> = (0..self.keyspace.len())
            .filter(|db| self.keyspace.database(*db).is_some_and(|one| !one.is_empty()))
            .collect();
        for _ in 0..DRAWS {
            let random = &mut self.shared.random;
            let Some(db) = occupied.get(random.below(occupied.len().max(1) as u64) as usize) else { return false };
            let mut keys = Keys::new(&mut self.keyspace, *db, self.now, &mut self.changes);
            let Ok(Some(key)) = keys.least_worth_its_place(policy, random, samples) else {
                self.keyspace.forgive();
                continue;
            };
            return self.evict_key(*db, &key, &|| 0).is_some();
        }
        false
    }

    fn evict_key(&mut self, db: usize, key: &[u8], memory_used: &dyn Fn() -> usize) -> Option<usize> {
        if self.keyspace.busy.has(key) {
            self.finish_tasks();
        }
        let now = self.now;
        let mut keys = self.keys(db, now);
        if !matches!(keys.remove(key), Ok(true)) {
            return None;
        }
        let without = memory_used();
        keys.touched(key);
        keys.notify(EventClass::EVICTED, "evicted", key);
        self.keyspace.evicted += 1;
        self.effects.push(db, [b"DEL".as_slice(), key].into_iter());
        Some(memory_used().saturating_sub(without))
    }

    /// Tells of keys that were removed, when there is room: what is told takes some, and more keys would go for that.
    pub fn tell_evicted(&mut self) {
        self.after_command();
    }

    /// Brings about as many keys into memory that nobody asks for ([`Keys::bring`]). Returns whether there are more.
    pub fn bring_keys(&mut self, at_most: usize) -> bool {
        let now = self.now;
        self.watch_changes();
        // What cannot be read stays where it is: whoever asks for it is told.
        let more = self.keys(0, now).bring(at_most).unwrap_or(false);
        self.keyspace.forgive();
        self.after_command();
        more
    }
}

#[cfg(test)]
mod tests {
    use crate::{Server, config::Settings};
    use keyspace::{MaxmemoryPolicy, Millis};

    fn ask(server: &mut Server, id: crate::SessionId, now: Millis, command: &str) -> String {
        server.input(id).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
        server.tick(now);
        server.run(id, now);
        String::from_utf8(std::mem::take(server.output(id).unwrap().0)).unwrap()
    }

    /// Which of three keys is left when two have gone: `old` and `new` were used in this order, `ttl` expires.
    fn left(policy: MaxmemoryPolicy) -> Vec<&'static str> {
        let settings = Settings { maxmemory_policy: policy, ..Settings::default() };
        let start = 1_700_000_000_000;
        let mut server = Server::new(settings, 1, 1, start, None, std::rc::Rc::new(|| 0));
        let id = server.connect(String::new(), String::new(), start);
        ask(&mut server, id, start, "SET old x");
        ask(&mut server, id, start + 60_000, "SET ttl x EX 1000000");
        ask(&mut server, id, start + 120_000, "SET new x");
        while server.keyspace.database(0).unwrap().len() > 1 && server.evict(&|| 0).is_some() {}
        let there = |name: &&str| ask(&mut server, id, start + 120_000, &format!("EXISTS {name}")) == ":1\r\n";
        ["old", "ttl", "new"].into_iter().filter(there).collect()
    }

    #[test]
    fn each_policy_lets_its_keys_go() {
        assert_eq!(left(MaxmemoryPolicy::AllkeysLru), ["new"]);
        assert_eq!(left(MaxmemoryPolicy::NoEviction), ["old", "ttl", "new"]);
        for policy in [MaxmemoryPolicy::VolatileLru, MaxmemoryPolicy::VolatileRandom, MaxmemoryPolicy::VolatileTtl] {
            assert_eq!(left(policy), ["old", "new"], "{policy:?}");
        }
        assert_eq!(left(MaxmemoryPolicy::AllkeysRandom).len(), 1);
    }

    #[test]
    fn what_was_removed_is_in_the_log() {
        let settings = Settings { maxmemory_policy: MaxmemoryPolicy::AllkeysLru, ..Settings::default() };
        let mut server = Server::new(settings, 1, 1, 0, None, std::rc::Rc::new(|| 0));
        let id = server.connect(String::new(), String::new(), 0);
        ask(&mut server, id, 0, "SET key x");
        server.effects().clear();
        assert!(server.evict(&|| 0).is_some());
        assert!(String::from_utf8_lossy(server.effects().bytes()).ends_with("$3\r\nDEL\r\n$3\r\nkey\r\n"));
        server.shared.condition.memory_full = true;
        assert!(ask(&mut server, id, 0, "SET key x").starts_with("-OOM command not allowed"));
        assert_eq!(ask(&mut server, id, 0, "GET key"), "$-1\r\n");
    }
}
