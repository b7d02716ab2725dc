//! What the model says for what the text says.

use std::{fmt::Write as _, time::Duration};

use balance::{HashFunction, Observe, OnError, RetryOn};

use super::*;
use crate::model::{
    AcceptMode, Algorithm, BindAddress, HttpReuse, InitAddr, ProxyIndex, SendProxy, ServerIndex, ServerPort, UseSource,
};

#[test]
fn defaults_are_inherited_by_the_side_that_uses_them() {
    let config = config(
        "\
defaults base
  mode http
  maxconn 100
  timeout client 1s
  timeout connect 2s
  timeout server 3s
  timeout tarpit 4s
  balance leastconn
  default-server check inter 7s weight 9
  retries 5
  option dontlognull
  default_backend b
  disabled
defaults other from base
  enabled
  timeout client 10s
frontend f from other
  bind :80
backend b from other
  default-server rise 4
  server s 192.0.2.1:80 weight 3
listen plain from base
  bind :81
",
    );
    let frontend = proxy(&config, "f");
    assert_eq!(frontend.timeouts.client, Some(Duration::from_secs(10)));
    assert_eq!(frontend.timeouts.server, None);
    assert_eq!(frontend.maxconn, Some(100));
    assert_eq!(frontend.balance.algorithm, Algorithm::RoundRobin);
    assert!(frontend.options.dontlognull && !frontend.disabled);
    assert_eq!(frontend.default_backend, Some(ProxyIndex(1)));
    let backend = proxy(&config, "b");
    assert_eq!(backend.timeouts.client, None);
    assert_eq!(backend.timeouts.server, Some(Duration::from_secs(3)));
    assert_eq!(backend.timeouts.tarpit, Some(Duration::from_secs(4)));
    assert_eq!((backend.maxconn, backend.retries), (None, 5));
    assert_eq!(backend.balance.algorithm, Algorithm::LeastConnections);
    assert_eq!(backend.default_backend, None);
    let server = server(&config, "b", "s");
    assert_eq!((server.weight, server.rise, server.inter), (3, 4, Duration::from_secs(7)));
    assert!(server.check);
    assert!(proxy(&config, "plain").disabled);
}

#[test]
fn a_section_without_defaults_has_haproxys() {
    let config = config("listen a\n  bind :80\n");
    let proxy = proxy(&config, "a");
    assert_eq!((proxy.retries, proxy.max_session_srv_conns, proxy.maxconn), (3, 5, None));
    assert_eq!(proxy.http_reuse, HttpReuse::Never, "only in HTTP mode");
    assert_eq!(config.global.node.as_deref(), Some("front1"));
    assert!(config.global.strict_limits);
}

#[test]
fn numbers_of_proxies_and_servers() {
    let config = config(
        "listen a\n  id 2\nlisten b\nlisten c\n  disabled\nlisten d\nbackend e\n  server s1 192.0.2.1:1\n  server s2 \
         192.0.2.1:1 id 1\n  server s3 192.0.2.1:1\n  server s2 192.0.2.1:1 id 9\n",
    );
    let ids: Vec<u32> = config.proxies.iter().map(|proxy| proxy.id).collect();
    assert_eq!(ids, [2, 3, 4, 5, 6]);
    let ids: Vec<u32> = proxy(&config, "e").servers.iter().map(|server| server.id).collect();
    // A server with its own number shifts those after it all the same.
    assert_eq!(ids, [2, 1, 4, 9]);
}

#[test]
fn binds() {
    let config = config(
        "\
global
  unix-bind prefix /run/ mode 600 user www
listen a
  bind 192.0.2.1:80-82,[::1]:90 name web maxconn 10 backlog 20 interface eth0 transparent tfo defer-accept mss 1400 tcp-ut 5s nice 3 accept dispatch accept-proxy v6only
  bind /x/web.sock mode 660
  bind unix@web.sock group 5
  bind abns@web shards 1
  bind fd@3 thread 1-2
  bind :99 id 7 shards by-thread
",
    );
    let binds = &proxy(&config, "a").binds;
    let addresses: Vec<&BindAddress> = binds.iter().map(|bind| &bind.address).collect();
    let inet = |text: &str| BindAddress::Inet(text.parse().unwrap());
    assert_eq!(
        addresses[..4],
        [&inet("192.0.2.1:80"), &inet("192.0.2.1:81"), &inet("192.0.2.1:82"), &inet("[::1]:90")]
    );
    for bind in &binds[..4] {
        assert_eq!((bind.name.as_deref(), bind.maxconn, bind.backlog), (Some("web"), Some(10), Some(20)));
        assert_eq!((bind.interface.as_deref(), bind.mss), (Some("eth0"), Some(1400)));
        assert_eq!(bind.tcp_user_timeout, Some(Duration::from_secs(5)));
        assert!(bind.transparent && bind.tfo && bind.defer_accept && bind.accept_proxy);
        assert_eq!((bind.accept, bind.v6only), (AcceptMode::Dispatch, Some(true)));
        assert_eq!(bind.location.line, 4);
    }
    assert_eq!(binds[4].address, BindAddress::Unix("/run//x/web.sock".to_owned()));
    assert_eq!((binds[4].unix.mode, &binds[4].unix.prefix), (Some(0o660), &None));
    assert_eq!(binds[5].address, BindAddress::Unix("/run/web.sock".to_owned()));
    assert_eq!(binds[5].unix.mode, Some(0o600));
    assert_eq!((&binds[6].address, binds[6].accept), (&BindAddress::Abstract("web".to_owned()), AcceptMode::Shared));
    assert_eq!((&binds[7].address, &binds[7].threads), (&BindAddress::Descriptor(3), &vec![1, 2]));
    assert_eq!((binds[8].id, binds[8].accept), (Some(7), AcceptMode::Reuseport));
}

#[test]
fn servers() {
    let config = config(
        "\
backend b
  mode http
  server a 192.0.2.1 weight 5 backup disabled check port 8080 addr 192.0.2.2 inter 1s fastinter 500 downinter 3s rise 4 fall 5 maxconn 9 maxqueue 8 slowstart 1500ms cookie ck redir http://x observe layer7 on-error mark-down error-limit 3 on-marked-down shutdown-sessions on-marked-up shutdown-backup-sessions send-proxy send-proxy-v2 check-send-proxy pool-max-conn 7 pool-purge-delay 9s pool-low-conn 2 max-reuse 6 init-addr none,192.0.2.9 resolve-prefer ipv4 tcp-ut 4s tfo non-stick
  server b name.example:+10 source 192.0.2.3:1000-2000 interface eth1 usesrc clientip track a
  server c ipv4@name.example:80 minconn 5
",
    );
    let a = server(&config, "b", "a");
    assert_eq!((a.weight, a.rise, a.fall, a.maxconn, a.maxqueue, a.error_limit), (5, 4, 5, 9, 8, 3));
    assert_eq!((a.port, a.check_port), (ServerPort::Same, Some(8080)));
    assert_eq!(
        (a.inter, a.fastinter, a.downinter),
        (Duration::from_secs(1), Some(Duration::from_millis(500)), Some(Duration::from_secs(3)))
    );
    assert_eq!(a.slowstart, Duration::from_secs(2));
    assert!(a.backup && a.disabled && a.check && a.check_send_proxy && a.tfo && a.prefer_ipv4);
    assert!(a.on_marked_down_shutdown_sessions && a.on_marked_up_shutdown_backup_sessions);
    assert_eq!((a.observe, a.on_error, a.send_proxy), (Observe::Layer7, OnError::MarkDown, Some(SendProxy::V2)));
    assert_eq!((a.pool_max_conn, a.pool_purge_delay, a.pool_low_conn, a.max_reuse), (7, Duration::from_secs(9), 2, 6));
    assert_eq!(a.init_addr, [InitAddr::None, InitAddr::Ip("192.0.2.9".parse().unwrap())]);
    let b = server(&config, "b", "b");
    assert_eq!(
        (b.fqdn.as_deref(), b.port, b.track),
        (Some("name.example"), ServerPort::Offset(10), Some((ProxyIndex(0), ServerIndex(0))))
    );
    let source = b.source.as_ref().unwrap();
    assert_eq!(
        (source.ports, source.interface.as_deref(), &source.usesrc),
        (Some((1000, 2000)), Some("eth1"), &Some(UseSource::ClientIp))
    );
    let c = server(&config, "b", "c");
    assert_eq!((c.maxconn, c.minconn, c.prefer_ipv4), (5, 5, true));
}

#[test]
fn tracking() {
    let text = |servers: &str| format!("backend web\n  server a 192.0.2.1:80 check\nbackend api\n{servers}");
    let config = config(&text("  server a 192.0.2.1:81 track web/a\n  server b 192.0.2.1:82 track a\n"));
    assert_eq!(server(&config, "api", "a").track, Some((ProxyIndex(0), ServerIndex(0))));
    assert_eq!(server(&config, "api", "b").track, Some((ProxyIndex(1), ServerIndex(0))));
    check_errors(
        &text("  server a 192.0.2.1:81 track b\n  server b 192.0.2.1:82 track a\n  server c 192.0.2.1:83 track b\n"),
        &[
            "[t.cfg:4] : 'server api/a' : unable to track api/b as it belongs to a tracking chain looping back to api/b.",
            "[t.cfg:5] : 'server api/b' : unable to track api/a as it belongs to a tracking chain looping back to api/a.",
        ],
    );
}

#[test]
fn balancing_and_retries() {
    let config = config(
        "\
backend a
  balance uri len 10 depth 3 whole path-only
  hash-type consistent
  hash-balance-factor 150
backend b
  balance hdr(Host) use_domain_only
  hash-type map-based crc32 avalanche
  retry-on conn-failure 503 conn-failure
backend c
  balance url_param id check_post
  retry-on all-retryable-errors
backend d
  balance random(5)
  retry-on none
",
    );
    let a = &proxy(&config, "a").balance;
    assert_eq!(a.algorithm, Algorithm::Uri { whole: true, len: 10, depth: 3, path_only: true });
    assert_eq!((a.consistent, a.function, a.avalanche, a.hash_balance_factor), (true, HashFunction::Sdbm, true, 150));
    let b = proxy(&config, "b");
    assert_eq!(b.balance.algorithm, Algorithm::Header { name: "Host".to_owned(), use_domain_only: true });
    assert_eq!((b.balance.consistent, b.balance.function, b.balance.avalanche), (false, HashFunction::Crc32, true));
    assert_eq!(Some(b.retry_on), RetryOn::DEFAULT.with_word("503"));
    assert_eq!(Some(proxy(&config, "c").retry_on), RetryOn::NONE.with_word("all-retryable-errors"));
    assert_eq!(proxy(&config, "d").balance.algorithm, Algorithm::Random { draws: 5 });
    assert_eq!((proxy(&config, "a").retry_on, proxy(&config, "d").retry_on), (RetryOn::DEFAULT, RetryOn::NONE));
}

#[test]
fn fullconn_is_a_tenth_of_what_may_come() {
    let config = config(
        "frontend a\n  bind :1\n  maxconn 100\n  use_backend c if { src 192.0.2.1 }\n  default_backend c\nfrontend b\n  \
         bind :2\n  use_backend c if { src 192.0.2.1 }\nbackend c\nbackend d\n  fullconn 7\nlisten e\n  bind :3\n  maxconn \
         55\n",
    );
    assert_eq!(config.fullconn(ProxyIndex(2), 2000), 210);
    assert_eq!(config.fullconn(ProxyIndex(3), 2000), 7);
    assert_eq!(config.fullconn(ProxyIndex(4), 2000), 6);
}

#[test]
fn the_command_line_wins() {
    let text = b"global\n  maxconn 10\n  localpeer file\nlisten a\n  bind :1\n".as_slice();
    let files = Bundle::default().with("t.cfg", text);
    let options = Options {
        hostname: "host".to_owned(),
        localpeer: Some("line".to_owned()),
        maxconn: Some(20),
        proxy_maxconn: Some(30),
        ..Options::default()
    };
    let parsed = parse(&["t.cfg".to_owned()], &files, BTreeMap::new(), &options);
    let config = parsed.config.unwrap();
    assert_eq!(config.global.maxconn, Some(20));
    assert_eq!(config.global.localpeer.as_deref(), Some("line"));
    assert_eq!(config.proxies[0].maxconn, Some(30));
}

#[test]
fn cores_of_workers() {
    for (text, expected) in [
        ("cpu-map 1 0-2", vec![(0, vec![0, 1, 2])]),
        ("cpu-map 1/1-3 0-2", vec![(1, vec![0, 1, 2]), (2, vec![0, 1, 2]), (3, vec![0, 1, 2])]),
        ("cpu-map auto:1/1-3 4 6 8", vec![(1, vec![4]), (2, vec![6]), (3, vec![8])]),
        ("cpu-map 1/2 5\n  cpu-map 1/2 6", vec![(2, vec![6])]),
        ("cpu-map 2 0", vec![]),
    ] {
        assert_eq!(config(&format!("global\n  {text}\n")).global.cpu_map, expected, "{text}");
    }
}

#[test]
fn too_much_is_refused() {
    let ranges = format!("listen a\n  bind {}\n", vec![":1-65535"; 40].join(","));
    let alerts = messages(&read(&ranges), Severity::Alert);
    assert!(alerts[0].contains("too many listening addresses"), "{alerts:?}");
    let line = format!("global\n  description {}\n", "x".repeat(crate::lexer::LINE_LEN_MAX));
    assert!(messages(&read(&line), Severity::Alert)[0].contains("line too long"));
    // A variable that is used often grows no further than a line may.
    let value = "y".repeat(200_000);
    let text = "global\n  description \"$V$V$V$V$V$V$V$V\"\n";
    let parsed = read_with(text, Bundle::default(), &[("V", &value)]);
    assert!(messages(&parsed, Severity::Alert)[0].contains("line too long after expansion"));
}

#[test]
fn large_configurations_are_read_in_one_go() {
    let mut text =
        String::from("defaults\n  mode http\n  timeout client 1s\n  timeout connect 1s\n  timeout server 1s\n");
    for number in 0..3000 {
        let _ = write!(
            text,
            "frontend f{number}\n  bind 127.0.0.1:{}\n  acl a path_beg /x{number}\n  use_backend b{number} if a\n  \
             default_backend b{number}\nbackend b{number}\n  server s1 192.0.2.1:80 check\n  server s2 192.0.2.2:80 track \
             s1\n",
            number + 1
        );
    }
    let _ = writeln!(text, "backend many");
    for number in 0..5000 {
        let _ = writeln!(text, "  server s{number} 192.0.2.1:80");
    }
    let config = config(&text);
    assert_eq!(config.proxies.len(), 6001);
    assert_eq!(config.proxies[6000].servers.len(), 5000);
}
