//! `tidegate edge --from :80 --to app:8080`: a load balancer for those who have no configuration yet. The options stand for a
//! haproxy.cfg, which `--print` shows; the edge runs that text as it runs any other.

use std::fmt::Write as _;

use super::https_start::Site;

/// How messages and `tidegate status` call the configuration.
pub const NAME: &str = "<command line>";
/// Where the statistics are unless `--stats` says otherwise: where HAProxy's users look for them.
const STATS_ADDRESS: &str = "127.0.0.1:8404";
/// What `--stats` takes for no statistics.
const NO_STATS: &str = "none";

/// What is said for a server that speaks TLS.
const NO_TLS: &str = "servers are spoken with in plain HTTP here; for TLS take --print and add 'ssl verify required ca-file @system-ca' to the server";

/// The options.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QuickStart {
    /// `--from`: where to listen.
    pub from: Vec<String>,
    /// `--to`: the servers.
    pub to: Vec<String>,
    /// `--health`: a path that answers well as long as a server is well.
    pub health: Option<String>,
    /// `--stats`: where the statistics are.
    pub stats: Option<String>,
    /// `--email`: whom the authority of certificates writes to.
    pub email: Option<String>,
    /// `--directory`: the authority.
    pub directory: Option<String>,
    /// `--directory-ca`: whom the authority itself is verified by.
    pub directory_ca: Option<String>,
    /// `--folder`: where certificates and keys are kept.
    pub folder: Option<String>,
    /// `--print`: show the configuration and end.
    pub print: bool,
}

/// What the options stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// A haproxy.cfg.
    pub text: String,
    /// What is said when it serves.
    pub greeting: String,
    /// The options as somebody may have written them.
    pub options: String,
}

impl QuickStart {
    /// Whether one of its options was given.
    pub fn is_asked_for(&self) -> bool {
        *self != Self::default()
    }

    /// The configuration; an error says which option is wrong, and how to write it.
    pub fn configuration(&self) -> Result<Configuration, String> {
        if self.from.is_empty() {
            return Err("option '--from' is missing: the address to listen on, as in --from :80".to_owned());
        }
        if self.to.is_empty() {
            return Err("option '--to' is missing: the servers to pass requests on to, as in --to app:8080".to_owned());
        }
        let site = Site::of(self).map_err(|error| error.to_string())?;
        let plain = self.from.iter().filter(|word| !Site::is_name(word));
        let mut binds = plain.map(|word| bind_address(word, "--from")).collect::<Result<Vec<_>, _>>()?;
        if let Some(site) = site.as_ref().filter(|_| binds.is_empty()) {
            binds.extend(site.plain_binds());
        }
        let servers = self.to.iter().map(|word| server_address(word)).collect::<Result<Vec<_>, _>>()?;
        let health = self.health.as_deref().map(health_path).transpose()?;
        let stats = match self.stats.as_deref() {
            Some(NO_STATS) => None,
            given => Some(bind_address(given.unwrap_or(STATS_ADDRESS), "--stats")?),
        };
        let options = self.options();
        let listening = Listening { binds: &binds, site: site.as_ref(), stats: stats.as_deref() };
        let text = text(&options, &listening, &servers, health);
        let greeting = greeting(&options, &listening, &servers);
        Ok(Configuration { text, greeting, options })
    }

    fn options(&self) -> String {
        let mut text = format!("--from {} --to {}", self.from.join(" "), self.to.join(" "));
        for (option, value) in [
            ("--health", &self.health),
            ("--stats", &self.stats),
            ("--email", &self.email),
            ("--directory", &self.directory),
            ("--directory-ca", &self.directory_ca),
            ("--folder", &self.folder),
        ] {
            if let Some(value) = value {
                let _ = write!(text, " {option} {value}");
            }
        }
        text
    }
}

/// Where it listens.
struct Listening<'a> {
    binds: &'a [String],
    site: Option<&'a Site>,
    stats: Option<&'a str>,
}

/// The file. HAProxy 2.6 takes it, too, and 3.2 where certificates come by themselves.
fn text(options: &str, listening: &Listening<'_>, servers: &[String], health: Option<&str>) -> String {
    let site = listening.site;
    let taken = if site.is_some() { "" } else { ", and so does HAProxy 2.6" };
    let before = site.map_or_else(String::new, Site::sections);
    let mut text = format!(
        "\
# What `tidegate edge {options}` stands for.
# `tidegate edge -f FILE` runs it{taken}.
{before}defaults
    mode http
    # Servers learn the client's address by X-Forwarded-For.
    option forwardfor
    timeout connect 5s
    timeout client 1m
    timeout server 1m
    timeout http-request 10s
    timeout http-keep-alive 10s
    timeout queue 30s
    # WebSockets, and what else goes both ways for long.
    timeout tunnel 1h
    # A request whose server takes no connection is tried again, at last with another server.
    retries 3
    option redispatch

frontend web
"
    );
    for bind in listening.binds {
        let _ = writeln!(text, "    bind {bind}");
    }
    if let Some(site) = site {
        text.push_str(&site.frontend());
    }
    text.push_str("    default_backend app\n\nbackend app\n    balance roundrobin\n");
    match health {
        Some(path) => {
            let _ = writeln!(
                text,
                "    # A server is well when it answers this with 2xx or 3xx.\n    option httpchk GET {path}"
            );
        }
        None => text.push_str("    # A server is well when it takes connections; --health /PATH asks it more.\n"),
    }
    text.push_str("    default-server check inter 2s fall 3 rise 2\n");
    for (number, server) in (1..).zip(servers) {
        let _ = writeln!(text, "    server s{number} {server}");
    }
    if let Some(stats) = listening.stats {
        let _ =
            write!(text, "\nlisten stats\n    bind {stats}\n    stats enable\n    stats uri /\n    stats refresh 5s\n");
    }
    text
}

fn greeting(options: &str, listening: &Listening<'_>, servers: &[String]) -> String {
    let urls: Vec<String> = match listening.site {
        Some(site) => site.urls(),
        None => listening.binds.iter().map(|bind| url(bind)).collect(),
    };
    let mut text = format!("Listening on {} for {}.\n", urls.join(", "), servers.join(", "));
    if let Some(site) = listening.site {
        text.push_str(&site.greeting());
    }
    if let Some(stats) = listening.stats {
        let _ = writeln!(text, "Statistics: {}", url(stats));
    }
    text.push_str(
        "Requests as they end: tidegate log. All processes: tidegate status. The end: Ctrl-C, or tidegate stop.\n",
    );
    let _ = writeln!(text, "As a haproxy.cfg, to go on from: tidegate edge {options} --print");
    text
}

/// An address of a `bind` line as people open it.
pub fn url(bind: &str) -> String {
    match bind.rsplit_once(':') {
        Some(("" | "*", port)) => format!("http://0.0.0.0:{port}/ (all IPv4 addresses of this machine)"),
        _ => format!("http://{bind}/"),
    }
}

/// `80`, `:80`, `127.0.0.1:80`, `[::]:80` as HAProxy's `bind` takes it.
pub fn bind_address(word: &str, option: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("option '{option}': '{word}' is no address to listen on: {why}");
    let bare = word.strip_prefix("http://").unwrap_or(word).trim_end_matches('/');
    let (host, port) = bare.rsplit_once(':').unwrap_or(("", bare));
    check_port(port).map_err(|why| wrong(&format!("{why}; write for instance :80, 127.0.0.1:8080 or [::]:80")))?;
    check_host(host, true).map_err(|why| wrong(&why))?;
    Ok(format!("{host}:{port}"))
}

/// `8080`, `app:8080`, `http://app:8080/`, `/run/app.sock` as HAProxy's `server` takes it.
fn server_address(word: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("option '--to': '{word}' is no server: {why}");
    if word.starts_with("https://") {
        return Err(wrong(NO_TLS));
    }
    if let Some(path) = word.strip_prefix("unix@").or(Some(word)).filter(|path| path.starts_with('/')) {
        let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-@:".contains(letter));
        return if is_plain {
            Ok(format!("unix@{path}"))
        } else {
            Err(wrong("the path of a unix socket may have letters, digits and / . _ - @ : here"))
        };
    }
    let bare = word.strip_prefix("http://").unwrap_or(word).trim_end_matches('/');
    if bare.contains('/') {
        return Err(wrong("requests keep their own path; write the address alone, as in app:8080"));
    }
    let (host, port) = bare.rsplit_once(':').unwrap_or(("", bare));
    check_port(port).map_err(|why| wrong(&format!("{why}; write for instance app:8080 or 8080")))?;
    check_host(host, false).map_err(|why| wrong(&why))?;
    Ok(if host.is_empty() { format!("127.0.0.1:{port}") } else { format!("{host}:{port}") })
}

pub(super) fn check_port(port: &str) -> Result<(), String> {
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(1..) if is_number => Ok(()),
        _ if port.is_empty() => Err("there is no port".to_owned()),
        _ => Err(format!("'{port}' is no port")),
    }
}

/// A name or an address, and nothing that means more in a haproxy.cfg.
fn check_host(host: &str, any: bool) -> Result<(), String> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_plain = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_".contains(letter)),
    };
    match is_plain || any && host == "*" {
        true => Ok(()),
        false if host.contains(':') => Err(format!("an IPv6 address stands in brackets: [{host}]")),
        false => Err(format!("'{host}' is no name or address")),
    }
}

fn health_path(path: &str) -> Result<&str, String> {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !"\"'\\#$".contains(letter);
    if path.starts_with('/') && path.chars().all(is_plain) {
        return Ok(path);
    }
    Err(format!("option '--health': '{path}' is no path; it begins with / and has no blanks, quotes, \\, # or $"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(from: &[&str], to: &[&str]) -> QuickStart {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        QuickStart { from: words(from), to: words(to), ..QuickStart::default() }
    }

    #[test]
    fn what_it_stands_for_is_valid_and_says_nothing_doubtful() {
        let plain =
            quick(&[":8080", "[::1]:8081"], &["127.0.0.1:9001", "http://127.0.0.2:9002/", "/run/app.sock", "9003"]);
        let full = QuickStart {
            health: Some("/health?x=1".to_owned()),
            stats: Some(NO_STATS.to_owned()),
            ..quick(&["80"], &["[2001:db8::1]:80"])
        };
        for (options, expected) in [
            (
                &plain,
                [
                    "bind :8080",
                    "bind [::1]:8081",
                    "server s2 127.0.0.2:9002",
                    "server s3 unix@/run/app.sock",
                    "server s4 127.0.0.1:9003",
                    "bind 127.0.0.1:8404",
                ]
                .as_slice(),
            ),
            (&full, ["bind :80", "option httpchk GET /health?x=1", "server s1 [2001:db8::1]:80"].as_slice()),
        ] {
            let configuration = options.configuration().unwrap();
            for line in expected {
                assert!(
                    configuration.text.lines().any(|there| there.trim() == *line),
                    "{line}: {}",
                    configuration.text
                );
            }
            let given = edge::role::Given { name: NAME.to_owned(), text: configuration.text };
            let edge =
                edge::role::EdgeOptions { sources: vec![NAME.to_owned()], given: Some(given), ..Default::default() };
            let (parsed, _) = edge::role::read(&edge);
            assert_eq!(edge::role::render(&parsed), "");
            assert!(parsed.config.is_some());
        }
        assert!(!full.configuration().unwrap().text.contains("stats enable"));
    }

    #[test]
    fn it_says_where_it_listens() {
        let configuration = quick(&[":80"], &["app:8080"]).configuration().unwrap();
        assert_eq!(
            configuration.greeting,
            "Listening on http://0.0.0.0:80/ (all IPv4 addresses of this machine) for app:8080.\n\
             Statistics: http://127.0.0.1:8404/\n\
             Requests as they end: tidegate log. All processes: tidegate status. The end: Ctrl-C, or tidegate stop.\n\
             As a haproxy.cfg, to go on from: tidegate edge --from :80 --to app:8080 --print\n"
        );
    }

    #[test]
    fn it_says_what_is_wrong() {
        for (from, to, expected) in [
            ("", ":80", "option '--from' is missing"),
            (":80", "", "option '--to' is missing"),
            (
                ":http",
                "app:80",
                "option '--from': ':http' is no address to listen on: 'http' is no port; write for instance :80",
            ),
            ("::1:80", "app:80", "an IPv6 address stands in brackets: [::1]"),
            ("a b:80", "app:80", "'a b' is no name or address"),
            ("https://localhost", "app:80", "no authority gives certificates for it"),
            (":80", "app", "option '--to': 'app' is no server: 'app' is no port; write for instance app:8080"),
            (":80", "app:", "there is no port"),
            (":80", "app:0", "'0' is no port"),
            (":80", "app:+1", "'+1' is no port"),
            (":80", "app:70000", "'70000' is no port"),
            (":80", "https://app", "servers are spoken with in plain HTTP here"),
            (":80", "http://app:80/shop", "requests keep their own path"),
            (":80", "a\n:80", "is no name or address"),
            (":80", "/run/a b", "the path of a unix socket"),
        ] {
            let words = |word: &str| if word.is_empty() { Vec::new() } else { vec![word.to_owned()] };
            let options = QuickStart { from: words(from), to: words(to), ..QuickStart::default() };
            let error = options.configuration().unwrap_err();
            assert!(error.contains(expected), "{from} {to}: {error}");
        }
        let health = QuickStart { health: Some("health".to_owned()), ..quick(&["80"], &["81"]) };
        assert!(health.configuration().unwrap_err().contains("it begins with /"));
    }
}
