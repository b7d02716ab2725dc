use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use haproxycfg::model::{Config, LogDestination, Server, ServerAddress};
use logs::AdminLog;
use net::Target;

use super::*;
use crate::{
    Instance, Process, Shared,
    side_by_side::{PATIENCE, receive, syslog},
    test_instance::{configuration, instance},
};

/// Names and what they resolve to at the moment.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<BTreeMap<String, Vec<IpAddr>>>>);

impl Names {
    fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), addresses);
    }
}

impl Lookup for Names {
    fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.lock().unwrap().get(host).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn parse(text: &str) -> Config {
    let text = format!("defaults\n  mode http\n  timeout connect 5s\n  timeout server 5s\n  timeout client 5s\n{text}");
    configuration(&text)
}

fn unknown(_: &str, _: &Server) -> Option<Known> {
    None
}

fn said(config: &mut Config, lookup: &dyn Lookup) -> Vec<String> {
    settle(config, lookup, &unknown).iter().map(haproxycfg::diagnostics::Diagnostic::one_line).collect()
}

/// The lines are those of Debian's haproxy for the same configuration.
#[test]
fn servers_begin_as_init_addr_says() {
    let names = Names::default();
    names.set("good", &["::1", "192.0.2.1"]);
    let mut config = parse(
        "backend l\n  server s nohost:80\n  server t nohost2:80 init-addr none\n  server u nohost2:80 init-addr \
         libc,none\n  server v nohost2:80 init-addr libc,127.0.0.9\n  server w nohost2:80 init-addr last\n  \
         server x good:80\n  server y ipv4@good:80\n  server z 192.0.2.9:80\n",
    );
    assert_eq!(
        said(&mut config, &names),
        [
            "config : [t.cfg:7] : 'server l/s' : could not resolve address 'nohost'.",
            "config : [t.cfg:9] : 'server l/u' : could not resolve address 'nohost2', disabling server.",
            "config : [t.cfg:10] : 'server l/v' : could not resolve address 'nohost2', falling back to configured address.",
            "config : [t.cfg:11] : 'server l/w' : no method found to resolve address 'nohost2'.",
            "config : Failed to initialize server(s) addr.",
        ]
    );
    let address = |place: usize| config.proxies[0].servers[place].address.clone();
    let ip = |text: &str| ServerAddress::Ip(text.parse().unwrap());
    assert_eq!(address(1), ServerAddress::Unresolved);
    assert_eq!(address(2), ServerAddress::Unresolved);
    assert_eq!(address(3), ip("127.0.0.9"));
    assert_eq!(address(5), ip("::1"));
    assert_eq!(address(6), ip("192.0.2.1"));
    assert_eq!(address(7), ip("192.0.2.9"));
}

#[test]
fn answers_travel_with_the_configuration() {
    let names = Names::default();
    names.set("web", &["192.0.2.1", "192.0.2.2"]);
    names.set("logger", &["192.0.2.5"]);
    let text = "backend b\n  log logger:5140 local0\n  server s web:80\n  server t nohost:80 init-addr none\n";
    let recorded = Recorded::of(&parse(text), &names);
    assert_eq!(recorded.0.keys().collect::<Vec<_>>(), ["logger", "web"]);
    let shipped: Recorded = serde_json::from_slice(&serde_json::to_vec(&recorded).unwrap()).unwrap();
    assert_eq!(shipped, recorded);
    let mut config = parse(text);
    assert!(said(&mut config, &shipped).is_empty());
    assert_eq!(config.proxies[0].logs[0].destination, LogDestination::Udp("192.0.2.5:5140".parse().unwrap()));
    assert_eq!(config.proxies[0].servers[0].address, ServerAddress::Ip("192.0.2.1".parse().unwrap()));

    // At a reload a server stays where it is as long as its name has that address.
    let mut again = parse(text);
    let known = |address: &str| Some(Known { address: Some(address.parse().unwrap()), ..Known::default() });
    let current = |backend: &str, server: &Server| {
        assert_eq!(backend, "b");
        (&*server.name == "s").then(|| known("192.0.2.2")).flatten()
    };
    assert!(settle(&mut again, &shipped, &current).is_empty());
    assert_eq!(again.proxies[0].servers[0].address, ServerAddress::Ip("192.0.2.2".parse().unwrap()));
    let gone = |_: &str, _: &Server| known("192.0.2.77");
    assert!(settle(&mut again, &shipped, &gone).is_empty());
    assert_eq!(again.proxies[0].servers[0].address, ServerAddress::Ip("192.0.2.1".parse().unwrap()));

    let mut unknown_logger = parse("backend b\n  log nowhere local0\n");
    assert_eq!(said(&mut unknown_logger, &shipped), ["config : 'log' : could not resolve address 'nowhere'."]);
}

fn run(text: &str, names: &Names) -> (Arc<Instance>, Arc<Process>, Arc<AdminLog>) {
    let mut config = parse(text);
    assert!(said(&mut config, names).is_empty());
    let (process, instance, outputs) = instance(config, 1);
    mark_unresolved(&instance);
    (instance, process, Arc::new(AdminLog::new(outputs, false)))
}

#[test]
fn servers_follow_their_names() {
    let (log_socket, log_port) = syslog();
    let names = Names::default();
    names.set("web", &["192.0.2.1", "192.0.2.2"]);
    let (instance, _, log) = run(
        &format!(
            "backend b\n  log 127.0.0.1:{log_port} format priority local0\n  server s web:8080\n  server t late:81 init-addr \
             none\n  server fixed 192.0.2.9:80\n"
        ),
        &names,
    );
    let proxy = instance.backend("b").unwrap();
    let target = |place: usize| proxy.servers[place].target();
    let inet = |text: &str| Target::Inet(text.parse().unwrap());
    let status = |place: usize| {
        let farm = proxy.farm();
        farm.server_stats(balance::ServerId::new(place), 0).unwrap().status.to_string()
    };
    let epoch = |place: usize| proxy.servers[place].target_epoch.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((target(0), target(1)), (inet("192.0.2.1:8080"), Target::Unresolved));
    assert_eq!(status(1), "MAINT (resolution)");

    // Nothing new; another order; no answer: the server stays.
    look_again(&instance, &log, &names);
    names.set("web", &["192.0.2.2", "192.0.2.1"]);
    look_again(&instance, &log, &names);
    names.0.lock().unwrap().remove("web");
    look_again(&instance, &log, &names);
    assert_eq!((target(0), epoch(0)), (inet("192.0.2.1:8080"), 0));

    names.set("web", &["192.0.2.3", "192.0.2.2"]);
    look_again(&instance, &log, &names);
    assert_eq!((target(0), epoch(0)), (inet("192.0.2.3:8080"), 1));
    assert_eq!(receive(&log_socket), "<133>b/s changed its IP from 192.0.2.1 to 192.0.2.3 by libc.\n");

    names.set("late", &["2001:db8::7"]);
    look_again(&instance, &log, &names);
    assert_eq!(target(1), inet("[2001:db8::7]:81"));
    assert_eq!(receive(&log_socket), "<133>b/t changed its IP from (none) to 2001:db8::7 by libc.\n");
    assert_eq!(status(1), "no check");
    assert_eq!((target(2), epoch(2)), (inet("192.0.2.9:80"), 0));
}

#[test]
fn the_thread_looks_again_until_it_is_dropped() {
    let names = Names::default();
    names.set("web", &["192.0.2.1"]);
    let (instance, process, log) = run("backend b\n  server s web:80\n", &names);
    let shared = Arc::new(Shared::new(process, Arc::default(), Arc::clone(&instance)));
    let watch = Watch::start(Arc::clone(&shared), log, Arc::new(names.clone()), Duration::from_millis(5)).unwrap();
    names.set("web", &["192.0.2.2"]);
    let patience = Instant::now() + PATIENCE;
    let server = &instance.proxies[0].servers[0];
    while server.target() != Target::Inet("192.0.2.2:80".parse().unwrap()) {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(watch);
    // The thread lets go of what it held.
    while Arc::strong_count(&shared) > 1 {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_system_knows_localhost() {
    let addresses = SystemLookup.lookup("localhost").unwrap();
    assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    assert!(SystemLookup.lookup("no-such-host.invalid").is_err());
}
