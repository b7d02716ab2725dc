//! Words about TLS, of `bind` and `server` lines, of lists of certificates and of the defaults in `global`.

pub mod bind;
mod crt_list;
pub mod global;
pub mod lines;
mod load;
pub mod server;
pub mod store;

use std::sync::Arc;

pub use self::load::system_anchors;

use ::tls::{
    CipherList, Curves, Identity, IgnoredErrors, OptionsError, RevocationLists, Suites, TicketKeys, TrustAnchors,
    UnknownNames, Verify, Version, Versions,
};

use crate::{
    diagnostics::Problem,
    line::Line,
    model::{CertificateList, LineOptions, TlsFiles},
    scope::Scope,
};

/// Whose words they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those of a `bind` line or a list of certificates.
    Bind,
    /// Those of a `server` line.
    Server,
}

/// What the words of a line say.
#[derive(Clone, Debug, Default)]
pub struct TlsWords {
    /// `ssl`.
    pub is_on: bool,
    /// Where a word of TLS stands, if there is any.
    pub place: Option<usize>,
    /// `ssl-min-ver`.
    pub min: Option<Version>,
    /// `ssl-max-ver`.
    pub max: Option<Version>,
    /// `no-tlsv12` and the like.
    pub without: Vec<Version>,
    /// `ciphers`.
    pub ciphers: Option<CipherList>,
    /// `ciphersuites`.
    pub suites: Option<Suites>,
    /// `curves`, `ecdhe`.
    pub curves: Option<Curves>,
    /// `alpn`, or `npn`.
    pub protocols: Option<Vec<Vec<u8>>>,
    /// `verify`.
    pub verify: Option<Verify>,
    /// `ca-file`.
    pub anchors: Option<TrustAnchors>,
    /// `ca-verify-file`.
    pub anchors_unannounced: Option<TrustAnchors>,
    /// `crl-file`.
    pub revocation: Option<RevocationLists>,
    /// `crt-ignore-err`.
    pub ignored: IgnoredErrors,
    /// `ca-ignore-err`.
    pub ignored_of_issuers: IgnoredErrors,
    /// `no-ca-names`.
    pub no_ca_names: bool,
    /// `no-tls-tickets`.
    pub tickets: Option<bool>,
    /// `tls-ticket-keys`.
    pub ticket_keys: Option<Arc<TicketKeys>>,
    /// `prefer-client-ciphers`.
    pub prefers_client_order: bool,
    /// `strict-sni`.
    pub strict_sni: bool,
    /// `crt`, `crt-list`.
    pub certificates: Vec<Listed>,
    /// Lists, and folders of certificates.
    pub lists: Vec<Arc<CertificateList>>,
    /// What only servers have.
    pub of_server: OfServer,
}

/// What only the words of servers say.
#[derive(Clone, Debug, Default)]
pub struct OfServer {
    /// `sni`.
    pub sni: Option<Arc<sample::Expression>>,
    /// `verifyhost`.
    pub verify_host: Option<String>,
    /// `check-ssl`.
    pub check: bool,
    /// `check-sni`.
    pub check_sni: Option<String>,
    /// `check-alpn`.
    pub check_protocols: Option<Vec<Vec<u8>>>,
    /// `no-ssl-reuse`.
    pub no_reuse: bool,
}

/// A certificate that a line names.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What configurations call it.
    pub name: Arc<str>,
    /// The certificate.
    pub identity: Arc<Identity>,
    /// Names that it is for, instead of its own.
    pub filters: Vec<String>,
    /// Options of its line in a list.
    pub options: Option<Arc<LineOptions>>,
    /// The list and the line of it that it comes of.
    pub line: Option<(Arc<str>, u32)>,
}

/// What `global` says of all lines.
#[derive(Debug, Default)]
pub struct Defaults {
    /// `ssl-default-bind-*`.
    pub bind: TlsWords,
    /// `ssl-default-server-*`.
    pub server: TlsWords,
    /// `ca-base`.
    pub ca_base: Option<String>,
    /// `crt-base`.
    pub crt_base: Option<String>,
    /// `ssl-server-verify none`.
    pub servers_unverified: bool,
    /// `ssl-load-extra-del-ext`.
    pub removes_extension: bool,
    /// `ssl-load-extra-files`: those that are looked for.
    pub extra: load::Extra,
    /// `crt-store` sections.
    pub stores: store::Stores,
    /// Files that were read so far.
    pub files: TlsFiles,
    /// What is read is a command at run time: as in HAProxy, it names what is known, and no file is read.
    pub is_running: bool,
}

/// The argument of the word at `index`; moves the index past both.
fn argument<'a>(line: &'a Line, index: &mut usize, missing: &str) -> Result<&'a str, Problem> {
    let word = *index;
    *index += 2;
    match line.word(word + 1) {
        "" => Err(Problem::new(format!("'{}' : {missing}", line.word(word))).at(word)),
        value => Ok(value),
    }
}

/// A word that both sides have; `false` for another one.
pub fn common(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    words: &mut TlsWords,
    side: Side,
) -> Result<bool, Problem> {
    let at = *index;
    words.place.get_or_insert(at);
    match line.word(at) {
        "ssl" => words.is_on = true,
        "alpn" | "npn" => {
            let missing = "missing the comma-delimited ALPN protocol suite";
            let is_npn = line.word(at) == "npn";
            let missing = if is_npn { "missing the comma-delimited NPN protocol suite" } else { missing };
            let protocols = protocols(argument(line, index, missing)?).map_err(|problem| problem.at(at + 1))?;
            if is_npn {
                let message =
                    "'npn' is deprecated and no client knows it any more: its protocols are negotiated by ALPN.";
                scope.warn(line, Problem::new(message).at(at).expected(format!("alpn {}", line.word(at + 1))));
            }
            words.protocols = Some(protocols).filter(|protocols| !protocols.is_empty());
            return Ok(true);
        }
        "ca-file" => {
            words.anchors = Some(load::anchors(scope, line, argument(line, index, "missing CAfile path")?, at)?);
            return Ok(true);
        }
        "crl-file" => {
            words.revocation = Some(load::revocation(scope, line, argument(line, index, "missing CRLfile path")?, at)?);
            return Ok(true);
        }
        "ciphers" => {
            let text = argument(line, index, "missing cipher suite")?;
            words.ciphers = Some(ciphers(scope, line, text, at)?);
            return Ok(true);
        }
        "ciphersuites" => {
            let text = argument(line, index, "missing cipher suite")?;
            words.suites = Some(suites(scope, line, text, at)?);
            return Ok(true);
        }
        "curves" | "ecdhe" => {
            let text = argument(line, index, "missing curve suite")?;
            words.curves = Some(curves(scope, line, text, at)?);
            return Ok(true);
        }
        "ssl-min-ver" | "ssl-max-ver" => {
            bounds(scope, line, index, words)?;
            return Ok(true);
        }
        "force-sslv3" | "force-tlsv10" | "force-tlsv11" | "force-tlsv12" | "force-tlsv13" => {
            let only = version_of(line.word(at));
            (words.min, words.max) = (Some(only), Some(only));
        }
        "no-sslv3" | "no-tlsv10" | "no-tlsv11" | "no-tlsv12" | "no-tlsv13" => {
            words.without.push(version_of(line.word(at)));
        }
        "no-tls-tickets" => words.tickets = Some(false),
        "tls-tickets" => words.tickets = Some(true),
        // The table of keywords says that it has no effect.
        "allow-0rtt" => {}
        "verify" => {
            words.verify = Some(verify(line, index, side)?);
            return Ok(true);
        }
        _ => return Ok(false),
    }
    *index += 1;
    Ok(true)
}

/// `ssl-min-ver`, `ssl-max-ver`.
fn bounds(scope: &mut Scope<'_>, line: &Line, index: &mut usize, words: &mut TlsWords) -> Result<(), Problem> {
    let at = *index;
    let name = argument(line, index, "unknown ssl/tls version")?;
    let known = ["SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
    let unknown = || Problem::new(format!("'{name}' : unknown ssl/tls version")).at(at + 1).nearest(name, known);
    let version = Version::named(name).ok_or_else(unknown)?;
    if line.word(at) == "ssl-max-ver" {
        words.max = Some(version);
        return Ok(());
    }
    if !version.is_there() {
        scope.warn(line, not_there(line.word(at), version).at(at + 1).expected("ssl-min-ver TLSv1.2"));
    }
    words.min = Some(version);
    Ok(())
}

/// `verify`.
fn verify(line: &Line, index: &mut usize, side: Side) -> Result<Verify, Problem> {
    let at = *index;
    let value = argument(line, index, "missing verify method")?;
    let (known, listed): (&[&str], _) = match side {
        Side::Bind => (&["none", "optional", "required"], "'none', 'optional', and 'required'"),
        Side::Server => (&["none", "required"], "'none' and 'required'"),
    };
    match value {
        "none" => Ok(Verify::None),
        "optional" if side == Side::Bind => Ok(Verify::Optional),
        "required" => Ok(Verify::Required),
        _ => {
            let message = format!("'verify' : unknown verify method '{value}', only {listed} are supported");
            Err(Problem::new(message).at(at + 1).nearest(value, known.iter().copied()))
        }
    }
}

fn version_of(word: &str) -> Version {
    match word.trim_start_matches("force-").trim_start_matches("no-") {
        "sslv3" => Version::Ssl3,
        "tlsv10" => Version::Tls10,
        "tlsv11" => Version::Tls11,
        "tlsv12" => Version::Tls12,
        _ => Version::Tls13,
    }
}

fn not_there(word: &str, version: Version) -> Problem {
    let name = version.name();
    Problem::new(format!(
        "'{word}' : {name} is never spoken: it is broken, and left out on purpose. TLS begins with TLSv1.2."
    ))
}

/// Protocols between commas.
fn protocols(text: &str) -> Result<Vec<Vec<u8>>, Problem> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let protocols: Vec<Vec<u8>> = text.split(',').map(|name| name.as_bytes().to_vec()).collect();
    match protocols.iter().all(|name| (1..=255).contains(&name.len())) {
        true => Ok(protocols),
        false => {
            Err(Problem::new("'alpn' : ALPN protocol name too long or empty").expected("names as in 'h2,http/1.1'"))
        }
    }
}

/// Tells which names of a list have nothing behind them.
fn tell_unknown(scope: &mut Scope<'_>, line: &Line, at: usize, unknown: &UnknownNames, what: &str) {
    if !unknown.0.is_empty() {
        let names = unknown.0.join(", ");
        scope.warn(line, Problem::new(format!("'{}' : left out, as {what}: {names}.", line.word(at))).at(at + 1));
    }
}

fn ciphers(scope: &mut Scope<'_>, line: &Line, text: &str, at: usize) -> Result<CipherList, Problem> {
    let (list, unknown) = CipherList::parse(text).map_err(|_: OptionsError| {
        let message = format!("'{}' : unable to set SSL cipher list to '{text}'", line.word(at));
        Problem::new(message).at(at + 1).expected(
            "ciphers of ECDHE with AES-GCM or ChaCha20 (no others are spoken), as 'ECDHE+AESGCM:ECDHE+CHACHA20'",
        )
    })?;
    tell_unknown(scope, line, at, &unknown, "only ECDHE with AES-GCM or ChaCha20 is spoken");
    Ok(list)
}

fn suites(scope: &mut Scope<'_>, line: &Line, text: &str, at: usize) -> Result<Suites, Problem> {
    let (list, unknown) = Suites::parse(text).map_err(|_: OptionsError| {
        let message = format!("'{}' : unable to set TLS 1.3 cipher suites to '{text}'", line.word(at));
        Problem::new(message).at(at + 1).expected(
            "of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, with ':' between them",
        )
    })?;
    tell_unknown(scope, line, at, &unknown, "only AES-GCM and ChaCha20 are spoken");
    Ok(list)
}

fn curves(scope: &mut Scope<'_>, line: &Line, text: &str, at: usize) -> Result<Curves, Problem> {
    let (list, unknown) = Curves::parse(text).map_err(|_: OptionsError| {
        let message = format!("'{}' : unable to set SSL curves list to '{text}'", line.word(at));
        Problem::new(message).at(at + 1).expected("of X25519, P-256, P-384, X25519MLKEM768, with ':' between them")
    })?;
    tell_unknown(scope, line, at, &unknown, "only X25519, P-256, P-384 and X25519MLKEM768 are there");
    Ok(list)
}

/// `all`, or numbers of OpenSSL's errors between commas.
fn ignored(line: &Line, index: &mut usize) -> Result<IgnoredErrors, Problem> {
    /// OpenSSL's highest, as HAProxy has it.
    const CODE_MAX: u8 = 94;
    let at = *index;
    let text = argument(line, index, "missing error IDs list")?;
    if text == "all" {
        return Ok(IgnoredErrors::All);
    }
    let mut codes = Vec::new();
    for id in text.split(',') {
        let code = id.parse().ok().filter(|code| (1..=CODE_MAX).contains(code)).ok_or_else(|| {
            let shown = id.parse::<u32>().unwrap_or(0);
            let message =
                format!("'{}' : ID '{shown}' out of range (1..{CODE_MAX}) in error IDs list '{text}'", line.word(at));
            Problem::new(message).at(at + 1)
        })?;
        codes.push(code);
    }
    Ok(IgnoredErrors::Some(codes))
}

impl TlsWords {
    /// The versions that are left; `None` for none.
    fn versions(&self, defaults: &Self) -> Option<Versions> {
        // As in HAProxy, what a line says of least and most takes the place of what `global` says of it.
        let min = self.min.or(defaults.min).unwrap_or(Version::Ssl3);
        let max = self.max.or(defaults.max).unwrap_or(Version::Tls13);
        let is_left = |version: Version| {
            (min..=max).contains(&version) && !self.without.contains(&version) && !defaults.without.contains(&version)
        };
        let versions = Versions { tls12: is_left(Version::Tls12), tls13: is_left(Version::Tls13) };
        (versions.tls12 || versions.tls13).then_some(versions)
    }

    /// What is told when none is left.
    fn no_version(&self) -> Problem {
        let problem = Problem::new("all SSL/TLS versions are disabled");
        match self.max.filter(|max| !max.is_there()) {
            Some(max) => {
                let expected = format!("TLSv1.2 or TLSv1.3: {} is never spoken, as it is broken", max.name());
                problem.expected(expected)
            }
            None => problem.expected("TLSv1.2 or TLSv1.3 to be left"),
        }
    }
}
