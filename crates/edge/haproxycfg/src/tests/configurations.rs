//! Whole configurations of the kinds that people have.

use super::*;
use crate::model::{
    Algorithm, BackendTarget, BindAddress, ConnectionMode, Identity, LogDestination, Mode, ServerAddress, ServerPort,
};

/// What a distribution installs: everything loads, and what has no effect is said.
const DISTRIBUTION: &str = "\
global
\tlog /dev/log\tlocal0
\tlog /dev/log\tlocal1 notice
\tchroot /var/lib/haproxy
\tstats socket /run/haproxy/admin.sock mode 660 level admin
\tstats timeout 30s
\tuser haproxy
\tgroup haproxy
\tdaemon

\t# where certificates are
\tca-base /etc/ssl/certs
\tcrt-base /etc/ssl/private
        ssl-default-bind-ciphers ECDHE-RSA-AES128-GCM-SHA256
        ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
        ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets

defaults
\tlog\tglobal
\tmode\thttp
\toption\thttplog
\toption\tdontlognull
        timeout connect 5000
        timeout client  50000
        timeout server  50000
\terrorfile 503 /etc/haproxy/errors/503.http
";

fn with_pages() -> Bundle {
    Bundle::default()
        .with("/etc/haproxy/errors/503.http", b"HTTP/1.0 503 Service Unavailable\r\n\r\n<h1>back soon</h1>\n")
}

#[test]
fn what_a_distribution_installs_loads() {
    let parsed = read_with(DISTRIBUTION, with_pages(), &[]);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
    let warnings = messages(&parsed, Severity::Warning);
    assert_eq!(warnings, Vec::<String>::new());
    // The statistics socket is something to listen on.
    assert_eq!(parsed.verdict(), Verdict::Valid);
    let global = parsed.config.unwrap().global;
    assert!(global.daemon);
    assert_eq!(global.user.map(|(user, _)| user), Some(Identity::Name("haproxy".to_owned())));
    assert_eq!(global.logs.len(), 2);
    assert_eq!(global.logs[0].destination, LogDestination::Unix("/dev/log".to_owned()));
    assert_eq!(global.stats_sockets[0].bind.unix.mode, Some(0o660));
    assert_eq!(global.stats_sockets[0].level, crate::model::CliLevel::Admin);
    assert_eq!(global.stats_timeout, Some(std::time::Duration::from_secs(30)));
}

#[test]
fn the_installed_file_itself_loads() {
    let path = std::path::Path::new("/etc/haproxy/haproxy.cfg");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: {} is not there", path.display());
        return;
    };
    let mut files = Bundle::default();
    for status in [400, 403, 408, 500, 502, 503, 504] {
        let page = format!("/etc/haproxy/errors/{status}.http");
        files = files.with(&page, &std::fs::read(&page).unwrap_or_default());
    }
    let parsed = read_with(&text, files, &[]);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
}

#[test]
fn certificates_are_read_below_the_base() {
    let text = format!("{DISTRIBUTION}frontend www\n\tbind :443 ssl crt site.pem\n");
    let parsed = read_with(&text, with_pages(), &[]);
    let alerts = messages(&parsed, Severity::Alert);
    let place = "parsing [t.cfg:28] : 'bind :443' in section 'frontend'";
    let file = "'/etc/ssl/private/site.pem' : No such file or directory.";
    assert_eq!(alerts, [format!("{place} : unable to stat SSL certificate from file {file}")]);
    let files = with_pages().with("/etc/ssl/private/site.pem", super::tls::site("www.example.com").as_bytes());
    let parsed = read_with(&text, files, &[]);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
    let config = parsed.config.unwrap();
    let tls = config.proxies[0].binds[0].tls.clone().unwrap();
    let options = &tls.entries[0].options;
    assert_eq!((options.tickets, options.versions.tls12, tls.strict_sni), (false, true, false));
    assert_eq!(tls.entries[0].identity.names()[0], "www.example.com");
}

/// A farm of web servers with its statistics, in spellings of long ago.
const FARM: &str = "\
global
    log /dev/log local0
    log 127.0.0.1 local1 notice
    maxconn 4096
    user haproxy
    group haproxy
    daemon

defaults
    log global
    mode http
    option httplog
    option dontlognull
    retries 3
    option redispatch
    maxconn 2000
    contimeout 5000
    clitimeout 50000
    srvtimeout 50000

listen farm 0.0.0.0:80
    mode http
    stats enable
    stats uri /haproxy?stats
    balance roundrobin
    option httpclose
    option forwardfor
    cookie SERVERNAME insert indirect nocache
    server web01 192.0.2.1:80 cookie w1 check
    server web02 192.0.2.2:80 cookie w2 check
";

#[test]
fn a_farm_in_old_spellings() {
    let parsed = read(FARM);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
    assert_eq!(
        messages(&parsed, Severity::Warning),
        [
            "parsing [t.cfg:17] : the 'contimeout' directive is now deprecated in favor of 'timeout connect', and will \
             not be supported in future versions.",
            "parsing [t.cfg:18] : the 'clitimeout' directive is now deprecated in favor of 'timeout client', and will \
             not be supported in future versions.",
            "parsing [t.cfg:19] : the 'srvtimeout' directive is now deprecated in favor of 'timeout server', and will \
             not be supported in future versions.",
            "parsing [t.cfg:21] : an address on this line is deprecated: please use the 'bind' keyword for listening \
             addresses.",
        ]
    );
    let config = parsed.config.unwrap();
    assert_eq!(config.global.maxconn, Some(4096));
    let farm = proxy(&config, "farm");
    assert_eq!(farm.binds[0].address, BindAddress::Inet("0.0.0.0:80".parse().unwrap()));
    assert_eq!(farm.maxconn, Some(2000));
    assert_eq!(farm.mode, Mode::Http);
    assert_eq!(farm.connection_mode, ConnectionMode::Close);
    assert_eq!(farm.options.redispatch, -1);
    assert_eq!(farm.retries, 3);
    assert!(farm.options.dontlognull);
    assert_eq!(farm.options.forwardfor.as_ref().unwrap().header, "x-forwarded-for");
    assert_eq!(farm.timeouts.connect, Some(std::time::Duration::from_secs(5)));
    assert_eq!(farm.timeouts.client, Some(std::time::Duration::from_secs(50)));
    assert_eq!(farm.timeouts.queue, farm.timeouts.connect);
    assert_eq!(farm.stats.as_ref().unwrap().uri, "/haproxy?stats");
    assert_eq!(farm.cookie.as_ref().unwrap().name, b"SERVERNAME");
    assert_eq!(farm.logs.len(), 2);
    assert!(farm.log_format.is_some());
    let web02 = server(&config, "farm", "web02");
    assert_eq!((web02.id, web02.check, web02.cookie.as_deref()), (2, true, Some(&b"w2"[..])));
    assert_eq!(web02.port, ServerPort::Fixed(80));
    assert_eq!(web02.address, ServerAddress::Ip("192.0.2.2".parse().unwrap()));
}

/// A database whose writes go to one node and whose reads go to all the others, by method.
const READS_AND_WRITES: &str = "\
global
    maxconn 4096
    nbproc 2

defaults
    mode http
    clitimeout 150000
    srvtimeout 30000
    contimeout 4000
    balance roundrobin
    stats enable
    stats uri /haproxy?stats

frontend documents
    bind localhost:8080
    acl writes method POST DELETE PUT
    use_backend primary if writes
    default_backend replicas

backend primary
    server node1 node1:5984 weight 1 maxconn 512 check

backend replicas
    server node2 node2:5984 weight 1 maxconn 512 check
    server node3 node3:5984 weight 1 maxconn 512 check
";

#[test]
fn reads_and_writes_by_method() {
    let parsed = read(READS_AND_WRITES);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
    let warnings = messages(&parsed, Severity::Warning);
    assert_eq!(warnings.len(), 4, "{warnings:#?}");
    assert!(warnings[0].contains("'nbproc'"));
    let config = parsed.config.unwrap();
    assert_eq!(config.global.nbthread, Some(2));
    let documents = proxy(&config, "documents");
    assert_eq!(documents.binds[0].address, BindAddress::Inet("127.0.0.1:8080".parse().unwrap()));
    assert_eq!(documents.default_backend.map(|index| index.0), Some(2));
    assert!(matches!(documents.use_backend[0].target, BackendTarget::Static(index) if index.0 == 1));
    assert!(documents.use_backend[0].condition.is_some());
    assert_eq!(documents.stats.as_ref().unwrap().uri, "/haproxy?stats");
    let replicas = proxy(&config, "replicas");
    assert_eq!(replicas.balance.algorithm, Algorithm::RoundRobin);
    let node3 = server(&config, "replicas", "node3");
    assert_eq!(node3.fqdn.as_deref(), Some("node3"));
    assert_eq!(node3.address, ServerAddress::Unresolved);
    assert_eq!((node3.maxconn, node3.minconn), (512, 512));
    assert_eq!(proxy(&config, "documents").id, 1);
    assert_eq!(replicas.id, 3);
}

#[test]
fn folders_environment_and_conditions_steer_what_is_read() {
    let files = Bundle::default()
        .with("conf.d/10-global.cfg", b"global\n  default-path config\n  presetenv PORT 8080\n")
        .with("conf.d/20-web.cfg", b"defaults\n  mode http\n  timeout client 1s\nfrontend web\n  bind \"127.0.0.1:${PORT}\"\n  acl blocked src -f blocked.lst\n  .if defined(MAINTENANCE)\n  http-request deny\n  .else\n  http-request deny if blocked\n  .endif\n")
        .with("conf.d/blocked.lst", b"192.0.2.0/24\n")
        .with_directory("conf.d", &["20-web.cfg", "10-global.cfg", "blocked.lst"]);
    let read = |environment: &[(&str, &str)]| {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let parsed = parse(&["conf.d".to_owned()], &files, environment, &options());
        assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
        parsed.config.unwrap()
    };
    let config = read(&[]);
    let web = proxy(&config, "web");
    assert_eq!(web.binds[0].address, BindAddress::Inet("127.0.0.1:8080".parse().unwrap()));
    assert!(web.http_request[0].condition.is_some());
    assert_eq!(config.global.environment["HAPROXY_CFGFILES"], "conf.d/10-global.cfg;conf.d/20-web.cfg");
    let config = read(&[("PORT", "9090"), ("MAINTENANCE", "1")]);
    let web = proxy(&config, "web");
    assert_eq!(web.binds[0].address, BindAddress::Inet("127.0.0.1:9090".parse().unwrap()));
    assert!(web.http_request[0].condition.is_none());
}

#[test]
fn the_worker_reads_what_the_master_recorded() {
    let files = with_pages().with("t.cfg", format!("{DISTRIBUTION}frontend www\n  bind :80\n").as_bytes());
    let recorder = crate::source::Recorder::new(&files);
    let sources = ["t.cfg".to_owned()];
    let first = parse(&sources, &recorder, BTreeMap::new(), &options());
    let bundle = Bundle::from_bytes(&recorder.into_bundle().to_bytes()).unwrap();
    assert_eq!(bundle.paths().collect::<Vec<_>>(), ["/etc/haproxy/errors/503.http", "/etc/resolv.conf", "t.cfg"]);
    let second = parse(&sources, &bundle, BTreeMap::new(), &options());
    assert_eq!(format!("{:?}", first.config), format!("{:?}", second.config));
    assert_eq!(first.verdict(), Verdict::Valid);
}

#[test]
fn the_stats_socket_takes_a_number() {
    let numbers = |text: &str| config(text).proxies.iter().map(|proxy| proxy.id).collect::<Vec<_>>();
    let proxies = "backend a\nbackend b\nid 3\nbackend c\n";
    for stats in ["stats socket /run/s.sock", "stats timeout 3s", "stats maxconn 3"] {
        assert_eq!(numbers(&format!("global\n{stats}\nstats timeout 9s\n{proxies}")), [2, 3, 4], "{stats}");
        assert_eq!(numbers(&format!("{proxies}global\n{stats}\nbackend d\n")), [1, 3, 4, 6], "{stats}");
    }
    assert_eq!(numbers(proxies), [1, 3, 4]);
}

const NAMED: &str = "\
resolvers dns
\tnameserver one ns.internal:53
defaults
\tmode http
\ttimeout connect 1s
\ttimeout client 1s
\ttimeout server 1s
frontend web
\tbind web.internal:8080
\tbind ipv6@web.internal:8081
backend app
\tsource web.internal
\toption httpchk
\thttp-check connect addr check.internal port 80
\tserver a 192.0.2.1:80 check addr check.internal socks4 web.internal:1080 agent-check agent-port 5 agent-addr check.internal
backend direct
\tdispatch web.internal:80
";

#[test]
fn names_that_are_looked_up_once_are_known_when_the_file_is_read() {
    let address = |text: &str| text.parse().unwrap();
    let files = Bundle::default()
        .with("a.cfg", NAMED.as_bytes())
        .with_host("web.internal", &[address("192.0.2.9"), address("2001:db8::9")])
        .with_host("check.internal", &[address("192.0.2.8")])
        .with_host("ns.internal", &[address("192.0.2.53")]);
    let read = |files: &Bundle| parse(&["a.cfg".to_owned()], files, std::collections::BTreeMap::new(), &options());
    let parsed = read(&files);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new());
    let config = parsed.config.unwrap();
    let binds: Vec<String> = proxy(&config, "web").binds.iter().map(|bind| bind.address.written()).collect();
    assert_eq!(binds, ["192.0.2.9:8080", "[2001:db8::9]:8081"]);
    let app = proxy(&config, "app");
    assert_eq!(app.source.as_ref().unwrap().address, "192.0.2.9:0".parse().unwrap());
    let server = &app.servers[0];
    assert_eq!(server.check_address, Some(ServerAddress::Ip(address("192.0.2.8"))));
    assert_eq!((server.agent_address, server.socks4), (Some(address("192.0.2.8")), "192.0.2.9:1080".parse().ok()));
    let section = config.resolvers.iter().find(|section| &*section.name == "dns").unwrap();
    assert_eq!(section.nameservers[0].address, "192.0.2.53:53".parse().unwrap());
    assert_eq!(proxy(&config, "direct").dispatch, "192.0.2.9:80".parse().ok());
    // Without anybody who knows them, each is an error.
    let alerts = messages(&read(&Bundle::default().with("a.cfg", NAMED.as_bytes())), Severity::Alert);
    for text in [
        "'nameserver one' : invalid address: 'ns.internal' in 'ns.internal:53'",
        "'bind' : invalid address: 'web.internal' in 'web.internal:8080'",
        "'http-check connect' : 'addr' : invalid address: 'check.internal' in 'check.internal'",
        "'addr' : invalid address: 'check.internal' in 'check.internal'",
        "'dispatch' : invalid address: 'web.internal' in 'web.internal:80'",
    ] {
        assert!(alerts.iter().any(|alert| alert.contains(text)), "{text}: {alerts:#?}");
    }
}
