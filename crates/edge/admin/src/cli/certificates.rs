//! `show ssl cert`, `set ssl cert`, `commit ssl cert`, `abort ssl cert`: certificates of listeners are replaced while these run.

use std::{fmt::Write as _, net::IpAddr};

use basics::calendar::Date;
use live::certificates::ChangeError;
use tls::Certificate;

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};

const NO_TLS: &str = "There is no TLS here.";

/// `set ssl cert`.
pub(super) fn set(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (file, Some(payload)) = (line.word(3), line.payload.as_deref().filter(|_| !line.word(3).is_empty())) else {
        return Reply::error("'set ssl cert expects a filename and a certificate as a payload");
    };
    match edge.process.transaction.set(&edge.instance().certificates(), file, payload) {
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
    match edge.process.transaction.commit(file, |identity| {
        edge.instance().replace_certificate(&edge.process, file, identity);
    }) {
        Ok(()) => notice(format!("Committing {file}.\nSuccess!")),
        Err(error @ ChangeError::None) => Reply::error(format!("{error} !\nCan't commit {file}!")),
        Err(error) => Reply::error(format!("{error}\nCan't commit {file}!")),
    }
}

/// `abort ssl cert`.
pub(super) fn abort(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = line.word(3);
    if file.is_empty() {
        return Reply::error("'abort ssl cert' expects a filename");
    }
    match edge.process.transaction.abort(file) {
        Ok(()) => notice(format!("Transaction aborted for certificate '{file}'!")),
        Err(ChangeError::Other { ongoing, wanted }) => Reply::error(format!(
            "The ongoing transaction is about '{ongoing}' but you are trying to abort a transaction for '{wanted}'"
        )),
        Err(error) => Reply::error(error.to_string()),
    }
}

fn notice(text: String) -> Reply {
    Reply::Said(Severity::Notice, text)
}

/// `show ssl cert`.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (certificates, pending) = (edge.instance().certificates(), edge.process.transaction.pending());
    let wanted = line.word(3);
    if wanted.is_empty() {
        let mut text = String::new();
        if let Some(pending) = pending {
            let _ = writeln!(text, "# transaction\n*{}", pending.name);
        }
        text += "# filename\n";
        for name in certificates.keys() {
            let _ = writeln!(text, "{name}");
        }
        return Reply::Text(text);
    }
    let described = match wanted.strip_prefix('*') {
        Some(name) => pending.filter(|pending| *pending.name == *name).map(|pending| (pending.chain, "Unused")),
        None => certificates.get(wanted).map(|found| (found.chain().map(<[u8]>::to_vec).collect(), "Used")),
    };
    match described {
        Some((chain, status)) => Reply::Text(describe(wanted, status, &chain)),
        None => Reply::error("Can't display the certificate: Not found or the certificate is a bundle!"),
    }
}

fn describe(name: &str, status: &str, chain: &[Vec<u8>]) -> String {
    let mut text = format!("Filename: {name}\nStatus: {status}\n");
    let mut chain = chain.iter().filter_map(|der| Certificate::read(der));
    if let Some(certificate) = chain.next() {
        let names = certificate.dns_names().map(|name| format!("DNS:{name}"));
        let addresses = certificate.addresses().filter_map(address).map(|address| format!("IP Address:{address}"));
        let names: Vec<String> = names.chain(addresses).collect();
        let _ = write!(
            text,
            "Serial: {}\nnotBefore: {}\nnotAfter: {}\nSubject Alternative Name: {}\nAlgorithm: {}\nSHA1 FingerPrint: {}\nSubject: {}\nIssuer: \
             {}\n",
            basics::hex::upper(certificate.serial()),
            date(certificate.begins_at()),
            date(certificate.ends_at()),
            names.join(", "),
            certificate.key_kind().unwrap_or_default(),
            basics::hex::upper(&certificate.sha1()),
            certificate.subject().one_line(),
            certificate.issuer().one_line(),
        );
    }
    for issuer in chain {
        let _ = write!(
            text,
            "Chain Subject: {}\nChain Issuer: {}\n",
            issuer.subject().one_line(),
            issuer.issuer().one_line()
        );
    }
    text + "OCSP Response Key: \n"
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// As OpenSSL writes it: `Nov  8 17:10:22 2026 GMT`.
fn date(seconds: Option<i64>) -> String {
    let Some(seconds) = seconds else { return String::new() };
    let date = Date::at(seconds);
    let Date { day, hour, minute, second, year, .. } = date;
    format!("{} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT", date.month_short())
}
