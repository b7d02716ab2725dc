//! What an instance of varnishd is doing, in a few figures: those of its counters, and of its backends by its management protocol.

use std::time::Duration;

use serde_json::json;
use vsm::reader::CounterReader;

use crate::{
    management::{Client, ManagementError},
    source::{attach, folder},
};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// An instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Its working directory.
    pub folder: String,
    /// What the manager says of its worker: `running`. Nothing if it does not answer.
    pub worker: Option<String>,
    /// Seconds since the manager and the worker were started.
    pub manager_uptime_s: u64,
    /// See `manager_uptime_s`.
    pub worker_uptime_s: u64,
    /// Threads of the worker.
    pub threads: u64,
    /// Connections of clients that were taken, and those that were not.
    pub sessions: u64,
    /// See `sessions`.
    pub refused_sessions: u64,
    /// Requests of clients, as far as they were understood.
    pub requests: u64,
    /// Requests that the cache answered, those that it had nothing for, and those that went past it.
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// See `hits`.
    pub passes: u64,
    /// Objects in the cache, how many had to go for others, and how many expired.
    pub objects: u64,
    /// See `objects`.
    pub evicted: u64,
    /// See `objects`.
    pub expired: u64,
    /// Where objects are.
    pub storages: Vec<Storage>,
    /// Fetches that failed.
    pub failed_fetches: u64,
    /// Where objects come from.
    pub backends: Vec<Backend>,
    /// Why the manager does not say how worker and backends are.
    pub problem: Option<String>,
}

/// Why nothing can be told of an instance.
#[derive(Debug, thiserror::Error)]
pub enum OverviewError {
    /// There is none of that name, or it cannot be read.
    #[error("{0}")]
    NotFound(String),
}

/// A storage, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Its name: `s0`, `Transient`.
    pub name: String,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that are free; 0 without a bound too.
    pub free: u64,
}

/// A backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backend {
    /// Its name, with that of its program: `boot.default`.
    pub name: String,
    /// Who decides about its health: `probe`, `healthy`, `sick`.
    pub admin: String,
    /// Good ones among the last probes, and how many count; 0 of 0 without a probe.
    pub good_probes: u64,
    /// See `good_probes`.
    pub probes: u64,
    /// `healthy` or `sick`.
    pub health: String,
    /// When that changed, in seconds since 1970.
    pub changed: f64,
}

/// What the manager says of its worker and of backends.
fn answers(name: Option<&str>) -> Result<Vec<String>, ManagementError> {
    let mut client = Client::of(name, PATIENCE)?;
    let mut ask = |command| client.ask(command).map(|reply| String::from_utf8_lossy(&reply.text).into_owned());
    Ok(vec![ask("status -j")?, ask("backend.list -j")?])
}

impl Overview {
    /// Of an instance, by its name or its working directory.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be read.
    pub fn of(name: Option<&str>) -> Result<Self, OverviewError> {
        let place = folder(name);
        let reader = attach(&place, Some(Duration::ZERO)).map_err(OverviewError::NotFound)?;
        let mut counters = CounterReader::default();
        counters.refresh(&reader);
        let mut this = Self { folder: place.display().to_string(), ..Self::default() };
        for counter in counters.values() {
            this.take(&counter.name, counter.value);
        }
        this.storages.sort_by(|one, other| one.name.cmp(&other.name));
        match answers(name) {
            Ok(answers) => this.take_answers(&answers),
            Err(problem) => this.problem = Some(problem.to_string()),
        }
        Ok(this)
    }

    fn take(&mut self, name: &str, value: u64) {
        let field = match name {
            "MGT.uptime" => &mut self.manager_uptime_s,
            "MAIN.uptime" => &mut self.worker_uptime_s,
            "MAIN.threads" => &mut self.threads,
            "MAIN.sess_conn" => &mut self.sessions,
            "MAIN.sess_drop" => &mut self.refused_sessions,
            "MAIN.client_req" => &mut self.requests,
            "MAIN.cache_hit" => &mut self.hits,
            "MAIN.cache_miss" => &mut self.misses,
            "MAIN.s_pass" => &mut self.passes,
            "MAIN.n_object" => &mut self.objects,
            "MAIN.n_lru_nuked" => &mut self.evicted,
            "MAIN.n_expired" => &mut self.expired,
            "MAIN.fetch_failed" => &mut self.failed_fetches,
            // `SMA.s0.g_bytes`, `SMF.disk.g_space`
            _ => {
                let mut parts = name.split('.');
                let (Some("SMA" | "SMF" | "SMU" | "MSE"), Some(storage), Some(what), None) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                else {
                    return;
                };
                let storage = self.storage(storage);
                match what {
                    "g_bytes" => &mut storage.used,
                    "g_space" => &mut storage.free,
                    _ => return,
                }
            }
        };
        *field = value;
    }

    fn storage(&mut self, name: &str) -> &mut Storage {
        let at = self.storages.iter().position(|storage| storage.name == name);
        let at = at.unwrap_or(self.storages.len());
        if at == self.storages.len() {
            self.storages.push(Storage { name: name.to_owned(), ..Storage::default() });
        }
        #[expect(clippy::indexing_slicing, reason = "it was found there, or pushed there just now")]
        &mut self.storages[at]
    }

    /// `[2, ["status", "-j"], 1795916447.5, "running"]`, and an object of backends in the same place.
    fn take_answers(&mut self, answers: &[String]) {
        let last = |at: usize| {
            let answer: serde_json::Value = serde_json::from_str(answers.get(at)?).ok()?;
            answer.as_array()?.last().cloned()
        };
        self.worker = last(0).and_then(|state| state.as_str().map(str::to_owned));
        let backends = last(1).and_then(|backends| backends.as_object().cloned()).unwrap_or_default();
        for (name, is) in backends {
            let text =
                |pointer: &str| is.pointer(pointer).and_then(|text| text.as_str()).unwrap_or_default().to_owned();
            let number = |pointer: &str| is.pointer(pointer).and_then(serde_json::Value::as_u64).unwrap_or(0);
            if text("/type") != "backend" {
                continue;
            }
            self.backends.push(Backend {
                name,
                admin: text("/admin_health"),
                good_probes: number("/probe_message/0"),
                probes: number("/probe_message/1"),
                health: text("/probe_message/2"),
                changed: is.pointer("/last_change").and_then(serde_json::Value::as_f64).unwrap_or(0.0),
            });
        }
    }

    /// All of it, for programs.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let storage = |one: &Storage| json!({"name": one.name, "used": one.used, "free": one.free});
        let backend = |one: &Backend| {
            json!({
                "name": one.name, "admin": one.admin, "good_probes": one.good_probes, "probes": one.probes,
                "health": one.health, "changed": one.changed,
            })
        };
        json!({
            "folder": self.folder,
            "worker": self.worker,
            "manager_uptime_s": self.manager_uptime_s,
            "worker_uptime_s": self.worker_uptime_s,
            "threads": self.threads,
            "sessions": self.sessions,
            "refused_sessions": self.refused_sessions,
            "requests": self.requests,
            "hits": self.hits,
            "misses": self.misses,
            "passes": self.passes,
            "hit_rate": self.hit_rate(),
            "objects": self.objects,
            "evicted": self.evicted,
            "expired": self.expired,
            "failed_fetches": self.failed_fetches,
            "storages": self.storages.iter().map(storage).collect::<Vec<_>>(),
            "backends": self.backends.iter().map(backend).collect::<Vec<_>>(),
            "problem": self.problem,
        })
    }

    /// The share of the requests that were looked up which the cache answered; nothing before the first one.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        let looked_up = self.hits + self.misses;
        (looked_up > 0).then(|| self.hits as f64 / looked_up as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_answers_become_figures() {
        let mut overview = Overview::default();
        for (name, value) in [
            ("MAIN.cache_hit", 3),
            ("MAIN.cache_miss", 1),
            ("SMA.s0.g_bytes", 584),
            ("SMA.s0.g_space", 16_776_632),
            ("SMF.disk.g_bytes", 7),
            ("SMA.s0.c_req", 9),
            ("VBE.boot.default.req", 1),
        ] {
            overview.take(name, value);
        }
        let backends = r#"[3, ["backend.list", "-j"], 1.5, {
            "boot.d": {"type": "director", "admin_health": "probe", "probe_message": [1, 2, "healthy"], "last_change": 2},
            "boot.b": {"type": "backend", "admin_health": "probe", "probe_message": [2, 8, "sick"], "last_change": 1.25}}]"#;
        overview.take_answers(&[r#"[2, ["status", "-j"], 1.5, "running"]"#.to_owned(), backends.to_owned()]);
        assert_eq!(overview.hit_rate(), Some(0.75));
        let storage = |name: &str, used, free| Storage { name: name.to_owned(), used, free };
        assert_eq!(overview.storages, [storage("s0", 584, 16_776_632), storage("disk", 7, 0)]);
        assert_eq!(overview.worker.as_deref(), Some("running"));
        let sick = Backend {
            name: "boot.b".into(),
            admin: "probe".into(),
            good_probes: 2,
            probes: 8,
            health: "sick".into(),
            changed: 1.25,
        };
        assert_eq!(overview.backends, [sick]);
        assert_eq!(Overview::default().hit_rate(), None);
        assert_eq!(overview.json()["backends"][0]["health"], "sick");
    }
}
