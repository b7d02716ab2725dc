//! The `global` section.

use super::{Group, Keyword};
use crate::keywords::{acme, global, quic, tls::global as secure, tune};

const DH: &str = "keys are exchanged by elliptic curves alone";
const LUA: &str = "there is no Lua here, so nothing depends on it";
const ZLIB: &str = "compression does not use zlib";
const POLLER: &str = "the runtime polls with epoll and needs no choice";
const QUIC: &str = "QUIC is not spoken with servers";
const DEVICES: &str = "device detection is a commercial library that HAProxy has to be built with";

const fn global(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Global, name, arguments, "3.1")
}

const fn tune(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Global, name, arguments, "3.2")
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    global("51degrees-cache-size", "<number>")
        .doc("Entries of the cache of 51Degrees.", "51degrees-cache-size 0")
        .not_yet(DEVICES),
    global("51degrees-data-file", "<path>")
        .doc("Data of 51Degrees.", "51degrees-data-file /etc/51d.dat")
        .not_yet(DEVICES),
    global("51degrees-property-name-list", "<name>...")
        .doc("Properties of 51Degrees.", "51degrees-property-name-list IsMobile")
        .not_yet(DEVICES),
    global("51degrees-property-separator", "<char>")
        .doc("Separator of the properties of 51Degrees.", "51degrees-property-separator ,")
        .not_yet(DEVICES),
    Keyword::new(Group::Global, "acme.scheduler", "{ auto | off }", "3.2:3.1")
        .doc(
            "Whether certificates of 'acme' sections come and are renewed by themselves ('auto', the default) or by command alone.",
            "acme.scheduler auto",
        )
        .line(acme::scheduler),
    global("ca-base", "<dir>").doc("Directory of relative paths of CA files.", "ca-base /etc/ssl/certs").line(secure::base),
    global("chroot", "<dir>")
        .doc("Directory that the process locks itself into after start.", "chroot /var/lib/haproxy")
        .line(global::path),
    global("close-spread-time", "<time>")
        .doc("Spreads the closing of idle connections over this time at a soft stop.", "close-spread-time 10s")
        .harmless("idle connections are closed at once when it stops"),
    global("cluster-secret", "<secret>")
        .doc(
            "Secret that QUIC's tokens are made of, so that other processes and machines know them too; without it \
             each process has its own (experimental).",
            "cluster-secret s3cr3t",
        )
        .line(quic::cluster_secret),
    global("cpu-map", "[auto:]<process>[/<thread>] <cpu>...")
        .doc("Binds workers to cores.", "cpu-map auto:1/1-4 0-3")
        .line(global::cpu_map),
    global("crt-base", "<dir>")
        .doc("Directory of relative paths of certificates.", "crt-base /etc/ssl/private")
        .line(secure::base),
    global("daemon", "").doc("Goes to the background after start.", "daemon").line(global::daemon),
    global("default-path", "{ current | config | parent | origin <path> }")
        .doc("What relative paths in the configuration are relative to.", "default-path config")
        .line(global::default_path),
    global("description", "<text>")
        .doc("Text about this instance for the statistics page.", "description front door of shop")
        .line(global::description),
    global("deviceatlas-json-file", "<path>")
        .doc("Data of DeviceAtlas.", "deviceatlas-json-file /etc/da.json")
        .not_yet(DEVICES),
    global("deviceatlas-log-level", "<value>")
        .doc("Log level of DeviceAtlas.", "deviceatlas-log-level 1")
        .not_yet(DEVICES),
    global("deviceatlas-properties-cookie", "<name>")
        .doc("Cookie of DeviceAtlas.", "deviceatlas-properties-cookie DAPROPS")
        .not_yet(DEVICES),
    global("deviceatlas-separator", "<char>")
        .doc("Separator of properties of DeviceAtlas.", "deviceatlas-separator |")
        .not_yet(DEVICES),
    global("expose-experimental-directives", "")
        .doc("Allows keywords that HAProxy calls experimental, below it.", "expose-experimental-directives")
        .line(global::expose_experimental_directives),
    global("external-check", "").doc("Allows checks by external programs.", "external-check").line(global::switch),
    global("fd-hard-limit", "<number>")
        .doc("Most descriptors that the automatic limit may be.", "fd-hard-limit 50000")
        .harmless("the limit of descriptors is that of ulimit-n, or the system's"),
    global("gid", "<number>").doc("Group that the process changes to, by number.", "gid 99").line(global::identity),
    global("grace", "<time>")
        .doc("Goes on accepting for this time after a soft stop was asked for.", "grace 10s")
        .line(global::time),
    global("group", "<name>")
        .doc("Group that the process changes to, by name.", "group haproxy")
        .line(global::identity),
    global("h1-accept-payload-with-any-method", "")
        .doc("Accepts bodies of HTTP/1.0 requests whose method has none.", "h1-accept-payload-with-any-method")
        .not_yet("such requests are refused, since servers disagree about them"),
    global("h1-case-adjust", "<from> <to>")
        .doc(
            "Writes a header's name in this case where 'option h1-case-adjust-bogus-*' asks for it.",
            "h1-case-adjust content-length Content-Length",
        )
        .line(global::case_adjust),
    global("h1-case-adjust-file", "<file>")
        .doc("The same for each line of a file.", "h1-case-adjust-file /etc/haproxy/headers")
        .line(global::case_adjust),
    global("h2-workaround-bogus-websocket-clients", "")
        .doc("Does not offer WebSockets over HTTP/2 to clients.", "h2-workaround-bogus-websocket-clients")
        .negatable()
        .line(global::switch),
    global("hard-stop-after", "<time>")
        .doc("Ends connections that are still there this long after a soft stop was asked for.", "hard-stop-after 30s")
        .line(global::time),
    global("httpclient.resolvers.id", "<id>")
        .doc("Resolvers of the HTTP client of Lua.", "httpclient.resolvers.id default")
        .harmless(LUA),
    global("httpclient.resolvers.prefer", "<ipv4|ipv6>")
        .doc("Address family of the HTTP client of Lua.", "httpclient.resolvers.prefer ipv4")
        .harmless(LUA),
    global("httpclient.ssl.ca-file", "<file>")
        .doc("Whom the authorities of 'acme' sections are verified by.", "httpclient.ssl.ca-file @system-ca")
        .line(secure::client_anchors),
    global("httpclient.ssl.verify", "[none|required]")
        .doc("Whether the certificates of the authorities of 'acme' sections are verified.", "httpclient.ssl.verify required")
        .line(secure::client_verify),
    global("insecure-fork-wanted", "")
        .doc("Lets workers start processes.", "insecure-fork-wanted")
        .negatable()
        .line(global::switch),
    global("insecure-setuid-wanted", "")
        .doc("Lets started processes gain rights.", "insecure-setuid-wanted")
        .negatable()
        .line(global::switch),
    global("issuers-chain-path", "<dir>")
        .doc("Directory of certificates of issuers.", "issuers-chain-path /etc/ssl/issuers")
        .not_yet("chains are not looked up; put the issuers' certificates behind the certificate in its file"),
    global("localpeer", "<name>")
        .doc("Name of this instance among its peers.", "localpeer front1")
        .line(global::localpeer),
    global("lua-load", "<file> [<arg>...]")
        .doc("Loads a Lua program.", "lua-load /etc/haproxy/hello.lua")
        .not_yet("there is no Lua here"),
    global("lua-load-per-thread", "<file> [<arg>...]")
        .doc("Loads a Lua program into each thread.", "lua-load-per-thread /etc/haproxy/hello.lua")
        .not_yet("there is no Lua here"),
    global("lua-prepend-path", "<string> [<type>]")
        .doc("Where Lua looks for modules.", "lua-prepend-path /usr/share/haproxy-lua/?.lua")
        .not_yet("there is no Lua here"),
    global("master-worker", "[no-exit-on-failure]")
        .doc("A master process keeps the sockets and starts the worker, again if it dies. A program that fails ends them all, unless told otherwise.", "master-worker")
        .line(global::master_worker),
    global("mworker-max-reloads", "<number>")
        .doc("Reloads that a worker may outlive.", "mworker-max-reloads 3")
        .harmless("a reload swaps the configuration inside the worker, so none is outlived"),
    global("nbproc", "<number>")
        .doc("Processes; HAProxy removed it in 2.5. Here it stands for as many workers.", "nbproc 2")
        .line(global::nbproc)
        .deprecated(
            "the 'nbproc' directive is deprecated: there is one process, and it has as many workers. Use \
             'nbthread'. HAProxy does not support it any more since 2.5.",
        ),
    global("nbthread", "<number>")
        .doc("Workers of the process; one for each usable core otherwise.", "nbthread 4")
        .line(global::nbthread),
    global("node", "<name>").doc("Name of this instance for the statistics page.", "node front1").line(global::node),
    global("no-memory-trimming", "")
        .doc("Keeps what a rush of connections left behind, rather than giving it back.", "no-memory-trimming")
        .line(global::switch),
    global("numa-cpu-mapping", "")
        .doc("Keeps all threads on one NUMA node.", "numa-cpu-mapping")
        .negatable()
        .harmless("workers are bound by cpu-map only"),
    global("pidfile", "<path>")
        .doc("File that the process writes its number to.", "pidfile /run/haproxy.pid")
        .line(global::path),
    global("pp2-never-send-local", "")
        .doc("Checks never send LOCAL in the PROXY protocol.", "pp2-never-send-local")
        .line(global::switch),
    global("presetenv", "<name> <value>")
        .doc("Sets an environment variable unless it is there.", "presetenv PORT 8080")
        .line(global::environment),
    global("resetenv", "[<name>...]")
        .doc("Removes all environment variables but these.", "resetenv PATH")
        .line(global::environment),
    global("server-state-base", "<dir>")
        .doc("Directory of relative paths of server state files.", "server-state-base /var/lib/haproxy/state")
        .line(global::path),
    global("server-state-file", "<file>")
        .doc("File that states of servers are loaded from.", "server-state-file global")
        .line(global::path),
    global("set-dumpable", "")
        .doc("Lets the system write a core file when the process dies.", "set-dumpable")
        .negatable()
        .line(global::switch),
    global("setenv", "<name> <value>")
        .doc("Sets an environment variable.", "setenv PORT 8080")
        .line(global::environment),
    global("ssl-default-bind-ciphers", "<ciphers>")
        .doc("Ciphers of bind lines up to TLS 1.2.", "ssl-default-bind-ciphers ECDHE+AESGCM")
        .line(secure::list),
    global("ssl-default-bind-ciphersuites", "<ciphersuites>")
        .doc("Cipher suites of bind lines from TLS 1.3.", "ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256")
        .line(secure::list),
    global("ssl-default-bind-curves", "<curves>")
        .doc("Curves of bind lines.", "ssl-default-bind-curves X25519:P-256")
        .line(secure::list),
    global("ssl-default-bind-options", "<option>...")
        .doc("TLS options of bind lines.", "ssl-default-bind-options ssl-min-ver TLSv1.2")
        .line(secure::options),
    global("ssl-default-server-ciphers", "<ciphers>")
        .doc("Ciphers of server lines up to TLS 1.2.", "ssl-default-server-ciphers ECDHE+AESGCM")
        .line(secure::list),
    global("ssl-default-server-ciphersuites", "<ciphersuites>")
        .doc("Cipher suites of server lines from TLS 1.3.", "ssl-default-server-ciphersuites TLS_AES_128_GCM_SHA256")
        .line(secure::list),
    global("ssl-default-server-options", "<option>...")
        .doc("TLS options of server lines.", "ssl-default-server-options ssl-min-ver TLSv1.2")
        .line(secure::options),
    global("ssl-dh-param-file", "<file>")
        .doc("Diffie-Hellman parameters.", "ssl-dh-param-file /etc/ssl/dh.pem")
        .harmless(DH),
    global("ssl-engine", "<name> [algo <list>]").doc("OpenSSL engine.", "ssl-engine rdrand").not_yet("there is no OpenSSL in this program; leave it out"),
    global("ssl-load-extra-del-ext", "")
        .doc("Removes the extension before looking for files beside a certificate.", "ssl-load-extra-del-ext")
        .line(secure::removes_extension),
    global("ssl-load-extra-files", "<type>...")
        .doc("Which files beside a certificate are loaded.", "ssl-load-extra-files bundle")
        .line(secure::extra_files),
    global("ssl-mode-async", "").doc("Asynchronous TLS engines.", "ssl-mode-async").not_yet("there is no OpenSSL in this program; leave it out"),
    global("ssl-propquery", "<query>")
        .doc("Property query of OpenSSL providers.", "ssl-propquery provider=default")
        .not_yet("there is no OpenSSL in this program; leave it out"),
    global("ssl-provider", "<name>").doc("OpenSSL provider.", "ssl-provider default").not_yet("there is no OpenSSL in this program; leave it out"),
    global("ssl-provider-path", "<path>")
        .doc("Directory of OpenSSL providers.", "ssl-provider-path /usr/lib/ssl-modules")
        .not_yet("there is no OpenSSL in this program; leave it out"),
    global("ssl-server-verify", "[none|required]")
        .doc("Whether certificates of servers are verified.", "ssl-server-verify required")
        .line(secure::server_verify),
    global("ssl-skip-self-issued-ca", "")
        .doc("Does not send the certificate of a self-issued CA.", "ssl-skip-self-issued-ca")
        .harmless("a chain is sent as it stands in its file; leave the root out of it"),
    global("stats", "{ socket | timeout | maxconn } ...")
        .doc("The statistics socket.", "stats socket /run/haproxy/admin.sock mode 660 level admin")
        .line(global::stats),
    global("strict-limits", "")
        .doc("Refuses to start when system limits cannot be raised as needed.", "strict-limits")
        .negatable()
        .line(global::switch),
    global("thread-group", "<group> [<thread-range>]")
        .doc("Threads of a group.", "thread-group 1 1-4")
        .not_yet("workers are not grouped"),
    global("thread-groups", "<number>")
        .doc("Groups of threads; only one.", "thread-groups 1")
        .line(global::thread_groups),
    global("uid", "<number>").doc("User that the process changes to, by number.", "uid 99").line(global::identity),
    global("ulimit-n", "<number>").doc("Most descriptors of the process.", "ulimit-n 65536").line(global::number),
    global(
        "unix-bind",
        "[ prefix <prefix> ] [ mode <mode> ] [ user <user> | uid <uid> ] [ group <group> | gid <gid> \
             ]",
    )
    .doc("What unix sockets of bind lines have unless they say otherwise.", "unix-bind mode 770 group www")
    .line(global::unix_bind),
    global("unsetenv", "<name>...")
        .doc("Removes environment variables.", "unsetenv HTTP_PROXY")
        .line(global::environment),
    global("user", "<name>").doc("User that the process changes to, by name.", "user haproxy").line(global::identity),
    global("wurfl-cache-size", "<size>").doc("Entries of the cache of WURFL.", "wurfl-cache-size 0").not_yet(DEVICES),
    global("wurfl-data-file", "<path>").doc("Data of WURFL.", "wurfl-data-file /etc/wurfl.zip").not_yet(DEVICES),
    global("wurfl-information-list", "<capability>...")
        .doc("Capabilities of WURFL.", "wurfl-information-list wurfl_id")
        .not_yet(DEVICES),
    global("wurfl-information-list-separator", "<char>")
        .doc("Separator of capabilities of WURFL.", "wurfl-information-list-separator ,")
        .not_yet(DEVICES),
    global("wurfl-patch-file", "<path>...")
        .doc("Patches of WURFL.", "wurfl-patch-file /etc/patch.xml")
        .not_yet(DEVICES),
    tune("busy-polling", "").doc("Never sleeps while waiting for events.", "busy-polling").negatable().harmless(POLLER),
    tune("max-spread-checks", "<time>")
        .doc("Longest time between the first and the last check at start.", "max-spread-checks 10s")
        .line(global::time),
    tune("maxconn", "<number>").doc("Connections of the whole process.", "maxconn 20000").line(global::number),
    tune("maxconnrate", "<number>")
        .doc("New connections a second of the whole process.", "maxconnrate 1000")
        .line(global::number),
    tune("maxpipes", "<number>")
        .doc("Most pipes for splicing.", "maxpipes 100")
        .harmless("each spliced body uses one pipe and gives it back"),
    tune("maxsessrate", "<number>")
        .doc("New sessions a second of the whole process.", "maxsessrate 1000")
        .line(global::number),
    tune("maxsslconn", "<number>")
        .doc(
            "Connections of the whole process over which TLS is spoken, with clients and with servers. One more is closed before its handshake.",
            "maxsslconn 1000",
        )
        .line(global::number),
    tune("maxsslrate", "<number>")
        .doc(
            "Clients a second of the whole process that begin to speak TLS. More than these wait to be accepted.",
            "maxsslrate 1000",
        )
        .line(global::number),
    tune("noepoll", "").doc("Does not use epoll.", "noepoll").harmless(POLLER),
    tune("noevports", "").doc("Does not use event ports.", "noevports").harmless(POLLER),
    tune("nogetaddrinfo", "")
        .doc("Resolves names by gethostbyname.", "nogetaddrinfo")
        .harmless("names are always resolved by the system's resolver"),
    tune("nokqueue", "").doc("Does not use kqueue.", "nokqueue").harmless(POLLER),
    tune("nopoll", "").doc("Does not use poll.", "nopoll").harmless(POLLER),
    tune("noreuseport", "")
        .doc("Workers share one socket for each bind instead of having one each by SO_REUSEPORT.", "noreuseport")
        .line(global::noreuseport),
    tune("nosplice", "").doc("Never splices.", "nosplice").line(global::nosplice),
    tune("profiling.memory", "{ on | off }")
        .doc("Counts allocations.", "profiling.memory off")
        .harmless("the profile is that of the system's tools"),
    tune("profiling.tasks", "{ auto | on | off }")
        .doc("Measures tasks.", "profiling.tasks auto")
        .harmless("the profile is that of the system's tools"),
    tune("spread-checks", "<0..50>")
        .doc("Random part of the interval between checks, percent.", "spread-checks 5")
        .line(global::number),
    tune("tune.buffers.limit", "<number>")
        .doc("Most buffers of the process.", "tune.buffers.limit 1000")
        .harmless("each connection has a bounded number of buffers"),
    tune("tune.buffers.reserve", "<number>")
        .doc("Buffers kept for emergencies.", "tune.buffers.reserve 2")
        .harmless("each connection has a bounded number of buffers"),
    tune("tune.bufsize", "<bytes>")
        .doc("Size of a buffer, which the headers of a message must fit into.", "tune.bufsize 16384")
        .line(tune::number),
    tune("tune.chksize", "<bytes>")
        .doc("Size of the buffer of checks.", "tune.chksize 16384")
        .removed("option 'tune.chksize' is not supported any more (tune.bufsize is used instead)."),
    tune("tune.fail-alloc", "<percent>")
        .doc("Lets allocations fail, for tests of HAProxy itself.", "tune.fail-alloc 0")
        .not_yet("it is for tests of HAProxy itself"),
    tune("tune.fd.edge-triggered", "{ on | off }")
        .doc("Edge-triggered polling.", "tune.fd.edge-triggered on")
        .harmless(POLLER)
        .experimental(),
    tune("tune.h2.header-table-size", "<number>")
        .doc("Table of HPACK, bytes.", "tune.h2.header-table-size 4096")
        .line(tune::http2),
    tune("tune.h2.initial-window-size", "<number>")
        .doc("Window of HTTP/2 streams, bytes.", "tune.h2.initial-window-size 65535")
        .line(tune::http2),
    tune("tune.h2.max-concurrent-streams", "<number>")
        .doc("Streams of an HTTP/2 connection.", "tune.h2.max-concurrent-streams 100")
        .line(tune::http2),
    tune("tune.h2.max-frame-size", "<number>")
        .doc("Frames of HTTP/2, bytes.", "tune.h2.max-frame-size 16384")
        .line(tune::http2),
    tune("tune.http.cookielen", "<bytes>")
        .doc("Captured part of a cookie.", "tune.http.cookielen 63")
        .line(tune::number),
    tune("tune.http.logurilen", "<bytes>").doc("Logged part of a URI.", "tune.http.logurilen 1024").line(tune::number),
    tune("tune.http.maxhdr", "<1..32767>")
        .doc("Most header fields of a message.", "tune.http.maxhdr 101")
        .line(tune::number),
    tune("tune.idle-pool.shared", "{ on | off }")
        .doc("Workers may use each other's idle connections to servers.", "tune.idle-pool.shared on")
        .line(tune::idle_pool_shared),
    tune("tune.idletimer", "<time>")
        .doc("Time without data after which a stream is idle.", "tune.idletimer 1s")
        .line(tune::idletimer)
        .without_effect("nothing depends on how long a stream was idle"),
    tune("tune.listener.multi-queue", "{ on | off }")
        .doc("Spreads accepted connections over threads.", "tune.listener.multi-queue on")
        .harmless("the 'accept' word of a bind line chooses how connections are spread"),
    tune("tune.log-file.bufsize", "<bytes>")
        .doc("Bytes of lines that may wait for a file of logs (log file@/path).", "tune.log-file.bufsize 4194304")
        .line(tune::number),
    tune("tune.lua.forced-yield", "<number>")
        .doc("Instructions after which Lua yields.", "tune.lua.forced-yield 10000")
        .harmless(LUA),
    tune("tune.lua.maxmem", "<megabytes>").doc("Memory of Lua.", "tune.lua.maxmem 100").harmless(LUA),
    tune("tune.lua.service-timeout", "<time>")
        .doc("Longest run of a Lua service.", "tune.lua.service-timeout 4s")
        .harmless(LUA),
    tune("tune.lua.session-timeout", "<time>")
        .doc("Longest run of a Lua action.", "tune.lua.session-timeout 4s")
        .harmless(LUA),
    tune("tune.lua.task-timeout", "<time>").doc("Longest run of a Lua task.", "tune.lua.task-timeout 4s").harmless(LUA),
    tune("tune.maxaccept", "<number>")
        .doc("Connections accepted in a row; -1 is no limit.", "tune.maxaccept 64")
        .line(tune::maxaccept),
    tune("tune.maxpollevents", "<number>")
        .doc("Events taken from the poller at once.", "tune.maxpollevents 200")
        .harmless(POLLER),
    tune("tune.maxrewrite", "<bytes>")
        .doc("Part of a buffer kept free for rewriting headers.", "tune.maxrewrite 1024")
        .line(tune::number),
    tune("tune.pattern.cache-size", "<number>")
        .doc("Entries of the cache of pattern lookups.", "tune.pattern.cache-size 10000")
        .harmless("patterns are looked up without a cache"),
    tune("tune.peers.max-updates-at-once", "<number>")
        .doc("Updates sent to a peer in a row; HAProxy 2.8's.", "tune.peers.max-updates-at-once 200")
        .line(tune::peers_updates),
    tune("tune.pipesize", "<bytes>")
        .doc("Size of pipes for splicing; 0 is the system's.", "tune.pipesize 0")
        .line(tune::number),
    tune("tune.pool-high-fd-ratio", "<percent>")
        .doc(
            "Percent of the descriptors in use above which an idle connection to a server is closed for each that is opened to it.",
            "tune.pool-high-fd-ratio 25",
        )
        .line(tune::pool_fd_ratio),
    tune("tune.pool-low-fd-ratio", "<percent>")
        .doc(
            "Percent of the descriptors in use from which on connections to servers are closed rather than kept idle.",
            "tune.pool-low-fd-ratio 20",
        )
        .line(tune::pool_fd_ratio),
    tune("tune.quic.backend.max-idle-timeou", "<time>")
        .doc(
            "Idle time of QUIC connections to servers (HAProxy 2.6 spells it so).",
            "tune.quic.backend.max-idle-timeou 30s",
        )
        .harmless(QUIC),
    tune("tune.quic.frontend.conn-tx-buffers.limit", "<number>")
        .doc(
            "Buffers (tune.bufsize) that may wait on a QUIC connection until the client has acknowledged them (experimental).",
            "tune.quic.frontend.conn-tx-buffers.limit 30",
        )
        .line(quic::tune),
    tune("tune.quic.frontend.max-idle-timeout", "<time>")
        .doc(
            "How long a QUIC connection may be silent (experimental).",
            "tune.quic.frontend.max-idle-timeout 30s",
        )
        .line(quic::tune),
    tune("tune.quic.frontend.max-streams-bidi", "<number>")
        .doc(
            "Requests at a time on a QUIC connection (experimental).",
            "tune.quic.frontend.max-streams-bidi 100",
        )
        .line(quic::tune),
    tune("tune.quic.retry-threshold", "<number>")
        .doc(
            "Unfinished QUIC handshakes of a worker from which on clients have to prove their addresses (experimental).",
            "tune.quic.retry-threshold 100",
        )
        .line(quic::tune),
    tune("tune.rcvbuf.client", "<bytes>")
        .doc("Receive buffer of client sockets; 0 is the system's.", "tune.rcvbuf.client 65536")
        .line(tune::socket_buffer),
    tune("tune.rcvbuf.server", "<bytes>")
        .doc("Receive buffer of server sockets; 0 is the system's.", "tune.rcvbuf.server 65536")
        .line(tune::socket_buffer),
    tune("tune.recv_enough", "<bytes>")
        .doc("Bytes after which reading pauses.", "tune.recv_enough 10136")
        .harmless("reading is bounded by tune.bufsize"),
    Keyword::new(Group::Global, "tune.disk-threads", "<number>", "")
        .doc(
            "Threads that wait for disks when files are served (16). They start as they are needed; a disk that answers slowly gets \
             at most three quarters of them.",
            "tune.disk-threads 32",
        )
        .line(tune::disk_threads),
    Keyword::new(Group::Global, "tune.plugin-threads", "<number>", "")
        .doc(
            "Threads that run plugins (16). They start as they are needed; one plugin gets at most three quarters of them. A reload does not \
             change it.",
            "tune.plugin-threads 32",
        )
        .line(tune::plugin_threads),
    Keyword::new(Group::Global, "tune.plugin-queue", "<number>", "")
        .doc(
            "Requests that wait for a thread of plugins (1024); those beyond get 503. A reload does not change it.",
            "tune.plugin-queue 100",
        )
        .line(tune::plugin_queue),
    Keyword::new(Group::Global, "tune.external-checks", "<number>", "")
        .doc(
            "Programs of external checks that run at a time; the others wait. Tidegate's own.",
            "tune.external-checks 20",
        )
        .line(tune::external_checks),
    Keyword::new(Group::Global, "tune.ring.size", "<size>", "")
        .doc(
            "Bytes of the ring of transaction records of each worker, from which logs and statistics are \
             read; 0 turns it off.",
            "tune.ring.size 256k",
        )
        .line(tune::size),
    tune("tune.runqueue-depth", "<number>")
        .doc("Tasks run before polling again.", "tune.runqueue-depth 200")
        .harmless(POLLER),
    tune("tune.sched.low-latency", "{ on | off }")
        .doc("Prefers short latency in the scheduler.", "tune.sched.low-latency off")
        .harmless(POLLER),
    tune("tune.sndbuf.client", "<bytes>")
        .doc("Send buffer of client sockets; 0 is the system's.", "tune.sndbuf.client 65536")
        .line(tune::socket_buffer),
    tune("tune.sndbuf.server", "<bytes>")
        .doc("Send buffer of server sockets; 0 is the system's.", "tune.sndbuf.server 65536")
        .line(tune::socket_buffer),
    Keyword::new(Group::Global, "tune.splice.min", "<size>", "")
        .doc(
            "Bytes of a body from which it is spliced rather than copied; 0 turns splicing off.",
            "tune.splice.min 64k",
        )
        .line(tune::size),
    tune("tune.ssl.cachesize", "<number>")
        .doc("Entries of the cache of TLS sessions.", "tune.ssl.cachesize 20000")
        .line(secure::cache_size),
    tune("tune.ssl.capture-buffer-size", "<bytes>")
        .doc("Bytes that are kept of what a client offers in its ClientHello, for `ssl_fc_cipherlist_*` and the like.", "tune.ssl.capture-buffer-size 512")
        .line(secure::capture_size),
    tune("tune.ssl.capture-cipherlist-size", "<bytes>")
        .doc("The former name of `tune.ssl.capture-buffer-size`.", "tune.ssl.capture-cipherlist-size 512")
        .deprecated("'tune.ssl.capture-cipherlist-size' is deprecated and will be removed in version 2.7. Please use 'tune.ssl.capture-buffer-size' instead.")
        .line(secure::capture_size),
    tune("tune.ssl.default-dh-param", "<bits>")
        .doc("Bits of the default Diffie-Hellman parameters.", "tune.ssl.default-dh-param 2048")
        .harmless(DH),
    tune("tune.ssl.force-private-cache", "")
        .doc("A cache of TLS sessions for each process.", "tune.ssl.force-private-cache")
        .harmless("there is one process, whose workers share sessions"),
    tune("tune.ssl.hard-maxrecord", "<bytes>").doc("Largest TLS record.", "tune.ssl.hard-maxrecord 0").harmless("records are as long as what is at hand, 16 KiB at most"),
    tune("tune.ssl.keylog", "{ on | off }").doc("Keeps the secrets of clients' TLS connections while these last, for `ssl_fc_client_random` and the other fetches of a key log.", "tune.ssl.keylog on").line(secure::keylog),
    tune("tune.ssl.lifetime", "<time>").doc("Age of TLS sessions.", "tune.ssl.lifetime 300s").line(secure::lifetime),
    tune("tune.ssl.maxrecord", "<bytes>")
        .doc("Largest TLS record at the beginning of a transfer.", "tune.ssl.maxrecord 0")
        .harmless("records are as long as what is at hand, 16 KiB at most"),
    tune("tune.ssl.ssl-ctx-cache-size", "<number>")
        .doc("Entries of the cache of generated certificates.", "tune.ssl.ssl-ctx-cache-size 1000")
        .harmless("certificates are not made on the way yet"),
    Keyword::new(Group::Global, "tune.stick-table.handover", "<size>", "")
        .doc(
            "Bytes of stick tables that a worker process hands over to the one that takes its place; 0 is nothing.",
            "tune.stick-table.handover 64m",
        )
        .line(tune::size),
    tune("tune.vars.check-max-size", "<bytes>")
        .doc("Memory of the variables of a check.", "tune.vars.check-max-size 1024")
        .line(tune::vars_max_size)
        .without_effect("variables of a check live no longer than the check"),
    tune("tune.vars.global-max-size", "<bytes>")
        .doc("Memory of all variables.", "tune.vars.global-max-size 10485760")
        .line(tune::vars_max_size),
    tune("tune.vars.proc-max-size", "<bytes>")
        .doc("Memory of the variables of the process.", "tune.vars.proc-max-size 1048576")
        .line(tune::vars_max_size),
    tune("tune.vars.reqres-max-size", "<bytes>")
        .doc("Memory of the variables of a request or response.", "tune.vars.reqres-max-size 1024")
        .line(tune::vars_max_size),
    tune("tune.vars.sess-max-size", "<bytes>")
        .doc("Memory of the variables of a session.", "tune.vars.sess-max-size 1024")
        .line(tune::vars_max_size),
    tune("tune.vars.txn-max-size", "<bytes>")
        .doc("Memory of the variables of a transaction.", "tune.vars.txn-max-size 1024")
        .line(tune::vars_max_size),
    tune("tune.zlib.memlevel", "<1..9>").doc("Memory of zlib.", "tune.zlib.memlevel 8").harmless(ZLIB),
    tune("tune.zlib.windowsize", "<8..15>").doc("Window of zlib.", "tune.zlib.windowsize 15").harmless(ZLIB),
    Keyword::new(Group::Global, "quiet", "", "3.3").doc("Prints nothing while starting.", "quiet").line(global::switch),
    Keyword::new(Group::Global, "zero-warning", "", "3.3")
        .doc("Refuses to start when there is any warning.", "zero-warning")
        .line(global::switch),
    Keyword::new(Group::GlobalStats, "bind-process", "<process>...", "9.3")
        .doc("Processes that serve the statistics socket; there is one.", "stats bind-process all")
        .harmless("there is one process"),
    Keyword::new(Group::GlobalStats, "maxconn", "<number>", "3.1")
        .doc("Connections to the statistics socket.", "stats maxconn 10")
        .line(global::stats_maxconn),
    Keyword::new(Group::GlobalStats, "socket", "<address> [<param>...]", "3.1")
        .doc(
            "Listens for commands; words are those of bind lines, with 'level' and 'expose-fd'.",
            "stats socket /run/haproxy/admin.sock mode 660 level admin",
        )
        .line(global::stats_socket),
    Keyword::new(Group::GlobalStats, "timeout", "<time>", "3.1")
        .doc("Time without a command after which the statistics socket closes a connection.", "stats timeout 30s")
        .line(global::stats_timeout),
];
