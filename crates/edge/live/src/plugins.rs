//! The plugins of the program, and the threads that run them.

use std::{
    os::unix::net::UnixStream,
    sync::{Arc, OnceLock},
};

use haproxycfg::model::{Config, HttpAction, PluginCall, Proxy, Service, Tune};
use http::Limits;
use plugin::{Outcome, Plugins};
use runtime::log::{Level, write};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::files::{Busy, DiskThreads};

/// What the process has of plugins.
#[derive(Debug, Default)]
pub struct PluginHost {
    /// All that the program has.
    pub plugins: Plugins,
    threads: OnceLock<DiskThreads>,
}

impl PluginHost {
    /// Of these plugins; no thread is started before one is used.
    #[must_use]
    pub fn new(plugins: Plugins) -> Self {
        Self { plugins, threads: OnceLock::new() }
    }

    /// Has a plugin serve the one request that comes on a socket, on a thread of its kind.
    ///
    /// # Errors
    /// When too many requests wait already, or the program has no such plugin.
    pub fn serve(&self, call: &Arc<PluginCall>, socket: UnixStream, limits: Limits, tune: &Tune) -> Result<(), Busy> {
        let (lane, plugin) = self.plugins.named(&call.name).ok_or(Busy)?;
        let threads = self.threads.get_or_init(|| DiskThreads::named("plugin", tune.plugin_threads, tune.plugin_queue));
        let (call, mut socket) = (Arc::clone(call), socket);
        threads.spawn(u64::try_from(lane).unwrap_or(u64::MAX), move || {
            // NOTE: who has left while the request waited needs no answer.
            if !has_left(&socket) {
                let outcome = plugin::serve(&mut socket, plugin.answerer, &call.arguments, &limits);
                complain(&call.name, &outcome);
            }
        })
    }

    /// Requests that wait for a thread now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.threads.get().map_or(0, DiskThreads::waiting)
    }
}

fn has_left(socket: &UnixStream) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    let found = poll(&mut polled, Some(&Timespec::default()));
    found.is_ok() && polled.iter().any(|one| one.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

fn complain(name: &str, outcome: &Outcome) {
    match outcome {
        Outcome::Answered | Outcome::CutOff => {}
        Outcome::Panicked(words) => write(Level::Alert, format_args!("plugin.{name} panicked: {words}")),
        Outcome::Unusable(problem) => {
            write(Level::Alert, format_args!("plugin.{name} has given no answer that can be sent: {problem}"));
        }
    }
}

/// The rules of a proxy by which plugins answer.
pub fn calls(proxy: &Proxy) -> impl Iterator<Item = (&Arc<PluginCall>, &haproxycfg::model::Location)> {
    proxy.http_request.iter().filter_map(|rule| match &rule.action {
        HttpAction::UseService(Service::Plugin(call)) => Some((call, &rule.location)),
        _ => None,
    })
}

/// The rules of all proxies by which plugins answer.
pub fn all_calls(config: &Config) -> impl Iterator<Item = (&Arc<PluginCall>, &haproxycfg::model::Location)> {
    config.proxies.iter().flat_map(|proxy| calls(proxy))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        sync::{Mutex, PoisonError},
    };

    use plugin::{Answer, Answerer, Plugin, Request};

    use super::*;

    /// Waits until it may go on, or panics.
    struct Sample;

    static GATE: Mutex<()> = Mutex::new(());

    impl Answerer for Sample {
        fn about(&self) -> &'static str {
            "for tests"
        }

        fn answer(&self, request: &mut Request<'_>) -> Answer {
            assert!(request.path() != b"/panic", "it was asked to");
            drop(GATE.lock().unwrap_or_else(PoisonError::into_inner));
            Answer::new(200).text("fine")
        }
    }

    const PLUGINS: Plugins = Plugins(&[Plugin { name: "sample", answerer: &Sample }]);

    fn ask(host: &PluginHost, path: &str) -> Result<UnixStream, Busy> {
        let tune = Tune { plugin_threads: 1, plugin_queue: 2, ..Tune::default() };
        let (mut near, far) = UnixStream::pair().unwrap();
        write!(near, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let call = Arc::new(PluginCall { name: "sample".into(), arguments: Vec::new() });
        host.serve(&call, far, Limits::default(), &tune).map(|()| near)
    }

    fn told(mut near: UnixStream) -> String {
        let mut text = String::new();
        near.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_panic_harms_nobody_and_the_queue_has_an_end() {
        let host = PluginHost::new(PLUGINS);
        assert!(told(ask(&host, "/panic").unwrap()).starts_with("HTTP/1.1 500 "));
        let gate = GATE.lock().unwrap();
        let first = ask(&host, "/").unwrap();
        while host.waiting() > 0 {
            std::thread::yield_now();
        }
        let (second, third) = (ask(&host, "/").unwrap(), ask(&host, "/").unwrap());
        assert!(ask(&host, "/").is_err());
        drop(gate);
        for one in [first, second, third] {
            assert!(told(one).ends_with("\r\n\r\nfine"));
        }
    }
}
