//! `--from example.com`: HTTPS with a certificate that comes by itself, and a redirect to it.

use std::{fmt::Write as _, path::Path};

use super::quick_start::{QuickStart, check_port};

/// The authority unless `--directory` says otherwise, and what `staging` stands for.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
/// The folder of certificates, for root.
const ROOTS_FOLDER: &str = "/var/lib/tidegate/certificates";

/// What is wrong with the options of a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// A name of `--from`.
    #[error("option '--from': '{0}': {1}")]
    Name(String, String),
    /// Names at several ports.
    #[error("option '--from': all names are served at one port, as '{0}' is")]
    Ports(String),
    /// A word that a haproxy.cfg would take for more.
    #[error("option '{0}': '{1}' must have no blanks, quotes, \\, # or $")]
    Word(&'static str, String),
    /// `--directory`.
    #[error("option '--directory': '{0}' is no URL; write one, or staging")]
    Directory(String),
    /// `--email`.
    #[error("option '--email': '{0}' is no mail address")]
    Email(String),
    /// An option that nobody needs.
    #[error("option '{0}' goes with the name of a site, as in --from example.com: there is no certificate to come")]
    NoSite(&'static str),
    /// There is no home.
    #[error("option '--folder' is missing: where certificates are kept, as there is no HOME")]
    NoFolder,
}

/// A site with a certificate that comes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    names: Vec<String>,
    port: u16,
    email: Option<String>,
    directory: String,
    directory_ca: Option<String>,
    folder: String,
    has_ipv6: bool,
    /// The port is to be had for UDP, too: HTTP/3 is offered.
    has_quic: bool,
}

impl Site {
    /// Whether a word of `--from` is the name of a site, rather than an address.
    pub fn is_name(word: &str) -> bool {
        let bare = word.trim_end_matches('/');
        word.starts_with("https://")
            || !bare.contains([':', '[', '/']) && bare.chars().any(|letter| letter.is_alphabetic() || letter == '*')
    }

    /// The site that the options ask for, if they name one.
    pub fn of(options: &QuickStart) -> Result<Option<Self>, SiteError> {
        let words: Vec<&String> = options.from.iter().filter(|word| Self::is_name(word)).collect();
        let Some(first) = words.first() else { return without_site(options) };
        let mut names = Vec::new();
        let mut ports = Vec::new();
        for word in &words {
            let (name, port) = name_and_port(word)?;
            if !names.contains(&name) {
                names.push(name);
            }
            ports.push(port);
        }
        let port = ports.first().copied().unwrap_or(443);
        if ports.iter().any(|other| *other != port) {
            return Err(SiteError::Ports((*first).clone()));
        }
        let plain = |option: &'static str, value: &str| {
            let is_plain = |letter: char| letter.is_ascii_graphic() && !"\"'\\#$".contains(letter);
            if value.chars().all(is_plain) && !value.is_empty() {
                return Ok(value.to_owned());
            }
            Err(SiteError::Word(option, value.to_owned()))
        };
        let directory = match options.directory.as_deref() {
            None => LETS_ENCRYPT.to_owned(),
            Some("staging") => STAGING.to_owned(),
            Some(url) if url.starts_with("https://") || url.starts_with("http://") => plain("--directory", url)?,
            Some(url) => return Err(SiteError::Directory(url.to_owned())),
        };
        let email = match options.email.as_deref() {
            Some(email) if !email.contains('@') => return Err(SiteError::Email(email.to_owned())),
            Some(email) => Some(plain("--email", email)?),
            None => None,
        };
        let absolute =
            |path: &str| std::path::absolute(path).map_or_else(|_| path.to_owned(), |it| it.display().to_string());
        let folder = options.folder.clone().map_or_else(own_folder, Ok)?;
        let directory_ca =
            options.directory_ca.as_deref().map(|file| plain("--directory-ca", &absolute(file))).transpose()?;
        let has_ipv6 = std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.is_empty());
        let folder = plain("--folder", &absolute(&folder))?;
        let has_quic = takes_datagrams(port);
        Ok(Some(Self { names, port, email, directory, directory_ca, folder, has_ipv6, has_quic }))
    }

    /// Where it listens in the clear unless the options say otherwise.
    pub fn plain_binds(&self) -> Vec<String> {
        vec![self.bind(80)]
    }

    /// All addresses of the machine.
    fn bind(&self, port: u16) -> String {
        if self.has_ipv6 { format!("[::]:{port} v4v6") } else { format!(":{port}") }
    }

    /// The lines about HTTP/3.
    fn quic(&self) -> String {
        if !self.has_quic {
            return String::new();
        }
        let (port, file) = (self.port, self.file());
        let mut lines = format!(
            "    # HTTP/3, which is experimental: browsers that read alt-svc take it for what they ask next.\n    \
             bind quic4@:{port} ssl crt {file} alpn h3\n"
        );
        if self.has_ipv6 {
            let _ = writeln!(lines, "    bind quic6@[::]:{port} v6only ssl crt {file} alpn h3");
        }
        let _ = writeln!(lines, "    http-response add-header alt-svc 'h3=\":{port}\"; ma=3600'");
        lines
    }

    fn file(&self) -> String {
        format!("{}/{}.pem", self.folder, self.names.first().map_or("site", String::as_str))
    }

    /// The sections before the frontend.
    pub fn sections(&self) -> String {
        let mut text =
            String::from("global\n    # HAProxy from 3.2 on takes 'acme' below this line; it keeps no files.\n");
        text.push_str("    expose-experimental-directives\n");
        if let Some(file) = &self.directory_ca {
            let _ = writeln!(text, "    httpclient.ssl.ca-file {file}");
        }
        let _ = write!(
            text,
            "\nacme auto\n    # Asks for the certificate when it starts, and again when two thirds of its life are over or the authority says so.\n    \
             directory {}\n    account-key {}/account.key\n    challenge http-01\n",
            self.directory, self.folder
        );
        if let Some(email) = &self.email {
            let _ = writeln!(text, "    contact {email}");
        }
        let _ =
            write!(text, "\ncrt-store\n    load crt {} acme auto domains {}\n\n", self.file(), self.names.join(","));
        text
    }

    /// The lines of the frontend.
    pub fn frontend(&self) -> String {
        let to = match self.port {
            443 => "http-request redirect scheme https code 308 unless { ssl_fc }".to_owned(),
            port => format!(
                "http-request redirect location https://%[req.hdr(host),field(1,:)]:{port}%[pathq] code 308 unless {{ ssl_fc }}"
            ),
        };
        let quic = self.quic();
        format!(
            "    bind {} ssl crt {} alpn h2,http/1.1\n{quic}    {to}\n    # The application learns that its visitor came by HTTPS.\n    \
             http-request set-header X-Forwarded-Proto https\n    # Browsers come by HTTPS from the first request on, for a year.\n    \
             http-response set-header Strict-Transport-Security max-age=31536000\n",
            self.bind(self.port),
            self.file()
        )
    }

    /// Where people find it.
    pub fn urls(&self) -> Vec<String> {
        let port = if self.port == 443 { String::new() } else { format!(":{}", self.port) };
        self.names.iter().map(|name| format!("https://{name}{port}/")).collect()
    }

    /// What is said of the certificate when it serves, and of names that lead nowhere.
    pub fn greeting(&self) -> String {
        let authority =
            self.directory.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
        let file = self.file();
        let is_there = std::path::Path::new(&file).exists();
        let mut text = if is_there {
            format!("The certificate in {file} is served, and renewed in time by {authority}.\n")
        } else {
            let folder = &self.folder;
            format!("The certificate comes from {authority} and is kept in {folder}: messages tell when it is there.\n")
        };
        let until_then = if is_there { "cannot be renewed" } else { "is asked for again" };
        for name in &self.names {
            use std::net::ToSocketAddrs as _;
            if (name.as_str(), 80).to_socket_addrs().map_or(0, Iterator::count) == 0 {
                let _ = writeln!(
                    text,
                    "{name} has no address yet: give it an A or AAAA record with this machine's public address. The certificate \
                     {until_then} until then."
                );
            }
        }
        text
    }
}

/// Nobody needs what goes with a certificate.
fn without_site(options: &QuickStart) -> Result<Option<Site>, SiteError> {
    let given = [
        ("--email", &options.email),
        ("--directory", &options.directory),
        ("--directory-ca", &options.directory_ca),
        ("--folder", &options.folder),
    ];
    match given.iter().find(|(_, value)| value.is_some()) {
        Some((option, _)) => Err(SiteError::NoSite(option)),
        None => Ok(None),
    }
}

/// `example.com`, `https://example.com:8443/`.
fn name_and_port(word: &str) -> Result<(String, u16), SiteError> {
    let wrong = |why: &str| SiteError::Name(word.to_owned(), why.to_owned());
    let bare = word.strip_prefix("https://").unwrap_or(word).trim_end_matches('/');
    let (name, port) = match bare.rsplit_once(':') {
        None => (bare, "443"),
        Some((name, port)) => (name, port),
    };
    check_port(port).map_err(|why| wrong(&why))?;
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if name.starts_with("*.") {
        return Err(wrong("a wildcard is proven by a record of DNS: take --print, and see 'challenge dns-01'"));
    }
    if !name.is_ascii() {
        return Err(wrong("write the name as DNS has it (xn--...)"));
    }
    if !name.split('.').all(is_label) || name.len() > 253 {
        return Err(wrong("that is no name of a site; write for instance example.com"));
    }
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let last = name.rsplit('.').next().unwrap_or_default();
    if is_address || !name.contains('.') || ["local", "localhost", "internal", "lan", "home"].contains(&last) {
        return Err(wrong("no authority gives certificates for it; serve it without TLS, as in --from :80"));
    }
    Ok((name.to_ascii_lowercase(), port.parse().unwrap_or(443)))
}

/// Whether a port is to be had for UDP. One that another process of this program has is.
fn takes_datagrams(port: u16) -> bool {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, port);
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| sockopt::set_socket_reuseport(&socket, true).and_then(|()| bind(&socket, &address)))
        .is_ok()
}

/// Where certificates are kept.
fn own_folder() -> Result<String, SiteError> {
    if rustix::process::geteuid().is_root() {
        return Ok(ROOTS_FOLDER.to_owned());
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let data = variable("STATE_DIRECTORY").map(|folders| folders.split(':').next().unwrap_or_default().to_owned());
    let data = data.or_else(|| variable("XDG_DATA_HOME").map(|folder| format!("{folder}/tidegate")));
    let data = data.or_else(|| variable("HOME").map(|folder| format!("{folder}/.local/share/tidegate")));
    data.map(|folder| Path::new(&folder).join("certificates").display().to_string()).ok_or(SiteError::NoFolder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(from: &[&str]) -> QuickStart {
        QuickStart {
            from: from.iter().map(|word| (*word).to_owned()).collect(),
            to: vec!["127.0.0.1:9001".to_owned()],
            folder: Some("/srv/certificates".to_owned()),
            ..QuickStart::default()
        }
    }

    #[test]
    fn names_are_sites_and_addresses_are_not() {
        for (word, is_name) in [
            ("example.com", true),
            ("https://example.com:8443", true),
            ("*.example.com", true),
            ("80", false),
            (":80", false),
            ("example.com:80", false),
            ("[::1]:80", false),
            ("http://example.com", false),
        ] {
            assert_eq!(Site::is_name(word), is_name, "{word}");
        }
    }

    #[test]
    fn it_stands_for_a_configuration_that_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        for from in [&["example.com", "www.example.com"][..], &["https://example.com:8443", ":8080"]] {
            let mut options = quick(from);
            options.folder = Some(folder.path().display().to_string());
            options.email = Some("ops@example.com".to_owned());
            let configuration = options.configuration().unwrap();
            let given = edge::role::Given { name: "x".to_owned(), text: configuration.text.clone() };
            let edge =
                edge::role::EdgeOptions { sources: vec!["x".to_owned()], given: Some(given), ..Default::default() };
            let (parsed, _) = edge::role::read(&edge);
            assert_eq!(edge::role::render(&parsed), "", "{}", configuration.text);
            let config = parsed.config.unwrap();
            let certificate = &config.acme_certificates[0];
            assert_eq!(certificate.section.contact.as_deref(), Some("ops@example.com"));
            assert_eq!(certificate.domains[0], "example.com");
            assert!(configuration.greeting.contains("https://example.com"), "{}", configuration.greeting);
            let offers = configuration.text.contains("bind quic4@:");
            assert_eq!(offers, configuration.text.contains("alt-svc"), "{}", configuration.text);
        }
    }

    #[test]
    fn it_says_what_is_wrong() {
        for (from, expected) in [
            ("localhost.localdomain.local", "no authority gives certificates for it"),
            ("https://192.0.2.1", "no authority gives certificates for it"),
            ("*.example.com", "a wildcard is proven by a record of DNS"),
            ("bücher.example", "write the name as DNS has it"),
            ("exa_mple.com", "that is no name of a site"),
            ("https://example.com:x", "'x' is no port"),
        ] {
            let error = Site::of(&quick(&[from])).unwrap_err().to_string();
            assert!(error.contains(expected), "{from}: {error}");
        }
        assert!(
            Site::of(&quick(&[":80"]))
                .unwrap_err()
                .to_string()
                .contains("option '--folder' goes with the name of a site")
        );
        let wrong = QuickStart { email: Some("ops".to_owned()), ..quick(&["example.com"]) };
        assert!(Site::of(&wrong).unwrap_err().to_string().contains("is no mail address"));
        let wrong = QuickStart { directory: Some("letsencrypt".to_owned()), ..quick(&["example.com"]) };
        assert!(Site::of(&wrong).unwrap_err().to_string().contains("write one, or staging"));
    }
}
