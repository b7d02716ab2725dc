//! `show`, `new`, `set`, `commit`, `abort` and `del ssl cert`: certificates of listeners and servers change while these run.

use std::{fmt::Write as _, net::IpAddr};

use basics::calendar::Date;
use live::tls_store::{CertificateState, CommitError, ShownCertificate};
use tls::Certificate;

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};

pub(super) const NO_TLS: &str = "There is no TLS here.";

/// `new ssl cert`.
pub(super) fn new(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = line.word(3);
    if file.is_empty() {
        return Reply::error("'new ssl cert' expects a filename");
    }
    match edge.instance().tls.new_certificate(file) {
        Ok(()) => notice(format!("New empty certificate store '{file}'!")),
        Err(error) => Reply::error(error.to_string()),
    }
}

/// `set ssl cert`.
pub(super) fn set(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (file, Some(payload)) = (line.word(3), line.payload.as_deref().filter(|_| !line.word(3).is_empty())) else {
        return Reply::error("'set ssl cert expects a filename and a certificate as a payload");
    };
    match edge.instance().tls.set_certificate(file, payload) {
        Ok((name, true)) => notice(format!("Transaction created for certificate {name}!")),
        Ok((name, false)) => notice(format!("Transaction updated for certificate {name}!")),
        Err(error) => Reply::error(format!("{error}\nCan't update {file}!")),
    }
}

/// `commit ssl cert`.
pub(super) fn commit(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = line.word(3);
    if file.is_empty() {
        return Reply::error("'commit ssl cert expects a filename");
    }
    let instance = edge.instance();
    match instance.tls.commit_certificate(file) {
        Ok(places) => notice(format!("Committing {file}{}\nSuccess!", dots(places))),
        Err(CommitError::Failed(why)) => Reply::error(format!("Committing {file}.\n {why}\nFailed!")),
        Err(CommitError::Refused(why)) => Reply::error(format!("{why}\nCan't commit {file}!")),
    }
}

/// As HAProxy shows in how many places something is put: a dot each.
pub(super) fn dots(places: usize) -> String {
    /// So many at most: HAProxy writes them as it goes.
    const DOTS_MAX: usize = 10_000;
    ".".repeat(places.min(DOTS_MAX))
}

/// `abort ssl cert`.
pub(super) fn abort(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = line.word(3);
    if file.is_empty() {
        return Reply::error("'abort ssl cert' expects a filename");
    }
    match edge.instance().tls.abort_certificate(file) {
        Ok(()) => notice(format!("Transaction aborted for certificate '{file}'!")),
        Err(error) => Reply::error(error.to_string()),
    }
}

/// `del ssl cert`.
pub(super) fn delete(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = line.word(3);
    if file.is_empty() {
        return Reply::error("'del ssl cert' expects a certificate name");
    }
    let instance = edge.instance();
    match instance.tls.delete_certificate(file) {
        Ok(()) => notice(format!("Certificate '{file}' deleted!")),
        Err(error) => Reply::error(format!("Can't remove the certificate: {error}")),
    }
}

pub(super) fn notice(text: String) -> Reply {
    Reply::Said(Severity::Notice, text)
}

/// `show ssl cert`.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let instance = edge.instance();
    let wanted = line.word(3);
    if wanted.is_empty() {
        let (names, pending) = instance.tls.certificate_names();
        let mut text = String::new();
        if let Some(pending) = pending {
            let _ = writeln!(text, "# transaction\n*{pending}");
        }
        text += "# filename\n";
        for name in names {
            let _ = writeln!(text, "{name}");
        }
        return Reply::Text(text);
    }
    match instance.tls.certificate(wanted) {
        Some(shown) => Reply::Text(describe(wanted, &shown)),
        None => Reply::error("Can't display the certificate: Not found or the certificate is a bundle!"),
    }
}

fn describe(name: &str, shown: &ShownCertificate) -> String {
    let state = match shown.state {
        CertificateState::Empty => "Empty",
        CertificateState::Unused => "Unused",
        CertificateState::Used => "Used",
    };
    let mut text = format!("Filename: {name}\nStatus: {state}\n");
    let mut chain = shown.chain.iter().filter_map(|der| Certificate::read(der));
    if let Some(certificate) = chain.next() {
        text += &fields(&certificate);
    }
    for issuer in chain {
        let _ = write!(
            text,
            "Chain Subject: {}\nChain Issuer: {}\n",
            issuer.subject().one_line(),
            issuer.issuer().one_line()
        );
    }
    let _ = writeln!(text, "OCSP Response Key: {}", shown.ocsp_key);
    text
}

/// What a certificate says of itself.
pub(super) fn fields(certificate: &Certificate<'_>) -> String {
    let names = certificate.dns_names().map(|name| format!("DNS:{name}"));
    let addresses = certificate.addresses().filter_map(address).map(|address| format!("IP Address:{address}"));
    let names: Vec<String> = names.chain(addresses).collect();
    format!(
        "Serial: {}\nnotBefore: {}\nnotAfter: {}\nSubject Alternative Name: {}\nAlgorithm: {}\nSHA1 FingerPrint: {}\nSubject: {}\n\
         Issuer: {}\n",
        basics::hex::upper(certificate.serial()),
        date(certificate.begins_at()),
        date(certificate.ends_at()),
        names.join(", "),
        certificate.key_kind().unwrap_or_default(),
        basics::hex::upper(&certificate.sha1()),
        certificate.subject().one_line(),
        certificate.issuer().one_line(),
    )
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// As OpenSSL writes it: `Nov  8 17:10:22 2026 GMT`.
pub(super) fn date(seconds: Option<i64>) -> String {
    let Some(seconds) = seconds else { return String::new() };
    let date = Date::at(seconds);
    let Date { day, hour, minute, second, year, .. } = date;
    format!("{} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT", date.month_short())
}
