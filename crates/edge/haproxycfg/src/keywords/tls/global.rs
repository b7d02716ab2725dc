//! TLS in the `global` section.

use super::{Side, TlsWords, bind::only_of_bind, ciphers, common, curves, load::Extra, suites};
use crate::{args, diagnostics::Problem, line::Line, scope::Scope, units::Unit};

/// `ca-base`, `crt-base`.
pub fn base(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let path = args::required(line, 1, "a directory path as an argument.")?.to_owned();
    let defaults = &mut scope.state.tls;
    match line.word(0) {
        "ca-base" => defaults.ca_base = Some(path),
        _ => defaults.crt_base = Some(path),
    }
    Ok(())
}

/// `httpclient.ssl.ca-file`.
pub fn client_anchors(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let name = args::required(line, 1, "a filename.")?;
    scope.state.acme.anchors = Some(super::load::anchors(scope, line, name, 0)?);
    Ok(())
}

/// `httpclient.ssl.verify`.
pub fn client_verify(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let is_none = match line.word(1) {
        "none" => true,
        "" | "required" => false,
        word => {
            let message = format!("'httpclient.ssl.verify' expects 'none' or 'required' as argument, not '{word}'.");
            return Err(Problem::new(message).at(1).nearest(word, ["none", "required"]));
        }
    };
    scope.state.acme.is_unverified = is_none;
    Ok(())
}

/// `ssl-default-bind-ciphers` and the other lists.
pub fn list(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let keyword = line.word(0);
    let what =
        if keyword.ends_with("curves") { "a curves suite as an argument." } else { "a cipher suite as an argument." };
    let text = args::required(line, 1, what)?;
    let mut read = TlsWords::default();
    match keyword.rsplit('-').next() {
        Some("ciphers") => read.ciphers = Some(ciphers(scope, line, text, 0)?),
        Some("ciphersuites") => read.suites = Some(suites(scope, line, text, 0)?),
        _ => read.curves = Some(curves(scope, line, text, 0)?),
    }
    let defaults = &mut scope.state.tls;
    let words = if keyword.starts_with("ssl-default-bind") { &mut defaults.bind } else { &mut defaults.server };
    words.ciphers = read.ciphers.or_else(|| words.ciphers.take());
    words.suites = read.suites.or_else(|| words.suites.take());
    words.curves = read.curves.or_else(|| words.curves.take());
    Ok(())
}

/// `ssl-default-bind-options`, `ssl-default-server-options`.
pub fn options(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    /// What may stand there, besides versions.
    const WORDS: &[&str] = &[
        "ssl-min-ver",
        "ssl-max-ver",
        "no-tls-tickets",
        "prefer-client-ciphers",
        "no-sslv3",
        "no-tlsv10",
        "no-tlsv11",
        "no-tlsv12",
        "no-tlsv13",
        "force-sslv3",
        "force-tlsv10",
        "force-tlsv11",
        "force-tlsv12",
        "force-tlsv13",
    ];
    let keyword = line.word(0);
    args::required(line, 1, "an argument.")?;
    let is_bind = keyword == "ssl-default-bind-options";
    let defaults = &mut scope.state.tls;
    let mut words = std::mem::take(if is_bind { &mut defaults.bind } else { &mut defaults.server });
    let (mut index, mut outcome) = (1, Ok(()));
    while outcome.is_ok() && !line.word(index).is_empty() {
        let word = line.word(index);
        let is_allowed = WORDS.contains(&word) && (is_bind || word != "prefer-client-ciphers");
        outcome = if !is_allowed {
            let message = format!("'{keyword}' : unknown option '{word}'.");
            Err(Problem::new(message).at(index).nearest(word, WORDS.iter().copied()))
        } else if is_bind && only_of_bind(scope, line, &mut index, &mut words)? {
            Ok(())
        } else {
            let side = if is_bind { Side::Bind } else { Side::Server };
            common(scope, line, &mut index, &mut words, side).map(drop)
        };
    }
    let defaults = &mut scope.state.tls;
    *(if is_bind { &mut defaults.bind } else { &mut defaults.server }) = words;
    outcome
}

/// `ssl-server-verify`.
pub fn server_verify(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::as_declared(scope, line, "[none|required]")?;
    scope.state.tls.servers_unverified = line.word(1) == "none";
    Ok(())
}

/// `ssl-load-extra-del-ext`.
pub fn removes_extension(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 0)?;
    scope.state.tls.removes_extension = true;
    Ok(())
}

/// `ssl-load-extra-files`.
pub fn extra_files(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "an argument.")?;
    let mut extra = Extra { bundle: false, sctl: false, ocsp: false, issuer: false, key: false };
    for (index, word) in line.texts_from(1).enumerate() {
        match word {
            "bundle" => extra.bundle = true,
            "sctl" => extra.sctl = true,
            "ocsp" => extra.ocsp = true,
            "issuer" => extra.issuer = true,
            "key" => extra.key = true,
            "none" => {}
            "all" => extra = Extra::default(),
            _ => {
                let message = format!("'ssl-load-extra-files' : '{word}' unknown type of extra files");
                let known = ["bundle", "sctl", "ocsp", "issuer", "key", "none", "all"];
                return Err(Problem::new(message).at(index + 1).nearest(word, known));
            }
        }
    }
    scope.state.tls.extra = extra;
    Ok(())
}

/// `tune.ssl.cachesize`.
pub fn cache_size(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let most = usize::try_from(i32::MAX).unwrap_or(usize::MAX);
    scope.state.global.tls.cached_sessions_max = args::lenient(scope, line, 1, 0..=most)?;
    Ok(())
}

/// `tune.ssl.capture-buffer-size`, and the former `tune.ssl.capture-cipherlist-size`: bytes of what a client offers.
pub fn capture_size(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    /// What a ClientHello can have of it at most.
    const MOST: usize = 1 << 16;
    args::no_more(line, 1)?;
    scope.state.global.tls.keeps.hello = args::lenient(scope, line, 1, 0..=MOST)?;
    Ok(())
}

/// `tune.ssl.keylog`: whether secrets of connections are kept while these last.
pub fn keylog(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    match line.word(1) {
        word @ ("on" | "off") => {
            scope.state.global.tls.keeps.secrets = word == "on";
            Ok(())
        }
        word => {
            let message = format!("'tune.ssl.keylog' expects either 'on' or 'off' but got '{word}'.");
            Err(Problem::new(message).at(1))
        }
    }
}

/// `tune.ssl.lifetime`: seconds unless it says otherwise.
pub fn lifetime(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    args::required(line, 1, "ssl sessions <lifetime> in seconds as argument.")?;
    scope.state.global.tls.lifetime = args::time(scope, line, 1, Unit::Second)?;
    Ok(())
}
