//! Lines of lists of certificates that come at run time, and what is kept of a configuration to read them with.

use std::{fmt::Write as _, sync::Arc};

use ::tls::{CipherList, ClientVerification, Curves, ServerOptions, Suites, TrustAnchors, Verify};

use super::{Defaults, Listed, TlsWords, crt_list, load};
use crate::{
    diagnostics::{Diagnostics, Problem},
    keywords::bind::quic,
    line::Line,
    model::{CertificateLine, CertificateList, LineError, LineOptions, ListReader, TlsFiles},
    scope::{Scope, State},
    source::NoFiles,
};

/// What the words of a `bind` line and the defaults of `global` say, for lines of its lists.
#[derive(Clone, Debug, Default)]
pub struct BindWords {
    words: TlsWords,
    defaults: TlsWords,
    ca_base: Option<Arc<str>>,
    crt_base: Option<Arc<str>>,
    /// The line listens for QUIC.
    is_quic: bool,
}

/// The options of a line of a list, whose words have been read.
pub(super) fn options_of(words: TlsWords, line: &Line) -> LineOptions {
    /// Words without an argument.
    const ALONE: &[&str] = &["allow-0rtt", "no-ca-names"];
    let (mut given, mut index) = (Vec::new(), 0);
    while !line.word(index).is_empty() {
        let word = line.word(index);
        index += 1;
        let value = if ALONE.contains(&word) { "" } else { line.word(index) };
        index += usize::from(!value.is_empty());
        given.push((word, value));
    }
    LineOptions { shown: shown(&given), read: Arc::new(words) }
}

/// As `show ssl crt-list` has them: in an order of its own, with the last value that was given.
fn shown(given: &[(&str, &str)]) -> String {
    const ORDER: &[&str] = &[
        "npn",
        "alpn",
        "verify",
        "no-ca-names",
        "allow-0rtt",
        "ca-file",
        "crl-file",
        "ciphers",
        "ciphersuites",
        "curves",
        "ecdhe",
        "ssl-min-ver",
        "ssl-max-ver",
    ];
    let mut shown = String::new();
    for word in ORDER {
        let Some((_, value)) = given.iter().rev().find(|(given, _)| given == word) else { continue };
        let before = if shown.is_empty() { "" } else { " " };
        let _ = match *value {
            "" => write!(shown, "{before}{word}"),
            value => write!(shown, "{before}{word} {value}"),
        };
    }
    shown
}

/// A list of what a line of `bind` has taken of it; says to each certificate which line of it that is.
pub(super) fn list(name: Arc<str>, is_folder: bool, line_count: u32, listed: &mut [Listed]) -> Arc<CertificateList> {
    let mut lines = Vec::with_capacity(listed.len());
    for one in listed {
        let number = one.line.as_ref().map_or(0, |(_, number)| *number);
        one.line = Some((Arc::clone(&name), number));
        lines.push(CertificateLine {
            number,
            certificate: Arc::clone(&one.name),
            options: one.options.clone(),
            filters: one.filters.clone(),
        });
    }
    Arc::new(CertificateList { name, is_folder, line_count, lines })
}

impl BindWords {
    pub(super) fn new(words: &TlsWords, defaults: &Defaults) -> Self {
        Self {
            words: TlsWords { certificates: Vec::new(), lists: Vec::new(), ..words.clone() },
            defaults: defaults.bind.clone(),
            ca_base: defaults.ca_base.as_deref().map(Arc::from),
            crt_base: defaults.crt_base.as_deref().map(Arc::from),
            is_quic: false,
        }
    }

    /// The options of a certificate: those of its line, and of the `bind` line for what that does not say.
    pub(super) fn of(&self, line: Option<&LineOptions>) -> Result<ServerOptions, Problem> {
        let own = line.and_then(|line| line.read.downcast_ref::<TlsWords>());
        let options = match own {
            None => options(&self.words, &self.defaults),
            Some(own) => options(&own.over(&self.words), &self.defaults),
        }?;
        if self.is_quic { quic::options(&options) } else { Ok(options) }
    }
}

impl ListReader for BindWords {
    fn options(&self, line: Option<&LineOptions>) -> Result<ServerOptions, LineError> {
        self.of(line).map_err(|problem| LineError(problem.message))
    }

    fn line(&self, files: TlsFiles, text: &str) -> Result<CertificateLine, LineError> {
        let mut state = State::default();
        state.tls.files = files;
        state.tls.is_running = true;
        state.tls.ca_base = self.ca_base.as_deref().map(str::to_owned);
        let mut diagnostics = Diagnostics::default();
        let mut scope = Scope::new(&mut state, &mut diagnostics, &NoFiles);
        let read = crt_list::line(&mut scope, "CLI", 1, text).map_err(|problem| {
            match problem.message.starts_with("unknown ssl keyword") {
                true => LineError(format!("parsing [CLI:1]: {}", problem.message)),
                false => LineError(problem.message),
            }
        })?;
        let missing = || LineError("expects a certificate, options in brackets, and names, in this order".to_owned());
        let (_, read) = read.ok_or_else(missing)?;
        if read.comes_by_itself() {
            let message =
                "'acme' stands in the list's file alone: certificates that come by themselves begin with a reload";
            return Err(LineError(message.to_owned()));
        }
        Ok(CertificateLine {
            number: 0,
            certificate: self.certificate_path(&read.certificate).into(),
            options: read.options,
            filters: read.filters,
        })
    }

    fn certificate_path(&self, name: &str) -> String {
        load::below(self.crt_base.as_deref(), name)
    }

    fn of_quic(&self) -> Arc<dyn ListReader> {
        Arc::new(Self { is_quic: true, ..self.clone() })
    }
}

impl TlsWords {
    /// These words of a list's line, with those of the `bind` line for what they do not say.
    fn over(&self, line: &Self) -> Self {
        let own = self.clone();
        Self {
            min: own.min.or(line.min),
            max: own.max.or(line.max),
            ciphers: own.ciphers.or_else(|| line.ciphers.clone()),
            suites: own.suites.or_else(|| line.suites.clone()),
            curves: own.curves.or_else(|| line.curves.clone()),
            protocols: own.protocols.or_else(|| line.protocols.clone()),
            verify: own.verify.or(line.verify),
            anchors: own.anchors.or_else(|| line.anchors.clone()),
            anchors_unannounced: own.anchors_unannounced.or_else(|| line.anchors_unannounced.clone()),
            revocation: own.revocation.or_else(|| line.revocation.clone()),
            no_ca_names: own.no_ca_names || line.no_ca_names,
            ..line.clone()
        }
    }
}

fn options(words: &TlsWords, base: &TlsWords) -> Result<ServerOptions, Problem> {
    let versions = words.versions(base).ok_or_else(|| words.no_version())?;
    let verify = words.verify.unwrap_or(Verify::None);
    let announced = words.anchors.clone().unwrap_or_default();
    let anchors = words.anchors_unannounced.clone().or_else(|| words.anchors.clone());
    if verify != Verify::None && anchors.is_none() {
        let problem = Problem::new("verify is enabled but no CA file specified");
        return Err(problem.expected("'ca-file' with the certificates of those who make certificates for clients"));
    }
    let options = ServerOptions {
        versions,
        ciphers: words.ciphers.clone().or_else(|| base.ciphers.clone()).unwrap_or_else(CipherList::all),
        suites: words.suites.clone().or_else(|| base.suites.clone()).unwrap_or_else(Suites::all),
        curves: words.curves.clone().or_else(|| base.curves.clone()).unwrap_or_else(Curves::all),
        protocols: words.protocols.clone().unwrap_or_default(),
        clients: ClientVerification {
            verify,
            anchors: anchors.unwrap_or_default(),
            announced: if words.no_ca_names { TrustAnchors::default() } else { announced },
            revocation: words.revocation.clone().unwrap_or_default(),
            ignored: words.ignored.clone(),
            ignored_of_issuers: words.ignored_of_issuers.clone(),
        },
        resumes: true,
        tickets: words.tickets.or(base.tickets).unwrap_or(true),
        ticket_keys: words.ticket_keys.clone(),
        prefers_client_order: words.prefers_client_order || base.prefers_client_order,
    };
    options.check().map_err(|error| Problem::new(error.to_string()))?;
    Ok(options)
}
