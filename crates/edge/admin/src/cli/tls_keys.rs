//! Keys of tickets, OCSP responses and what does the cryptography: `show tls-keys`, `set ssl tls-key`, `show` and
//! `set ssl ocsp-response`, `show ssl providers`.

use std::{fmt::Write as _, sync::Arc};

use tls::{CertificateId, OcspResponse, OcspStatus, Responder, TicketKeys};

use super::{
    certificates::{NO_TLS, date},
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// The file that an id names: `#` and its number, or its path.
fn found<'a>(all: &'a [Arc<TicketKeys>], id: &str) -> Option<(usize, &'a Arc<TicketKeys>)> {
    let is_it = |(number, keys): &(usize, &Arc<TicketKeys>)| match id.strip_prefix('#') {
        Some(wanted) => wanted.parse() == Ok(*number),
        None => **keys.name() == *id,
    };
    all.iter().enumerate().find(is_it)
}

/// `show tls-keys`.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let all = edge.instance().tls.ticket_keys();
    let id = line.word(2);
    if id.is_empty() {
        let mut text = "# id (file)\n".to_owned();
        for (number, keys) in all.iter().enumerate() {
            let _ = writeln!(text, "{number} ({})", keys.name());
        }
        return Reply::Text(text);
    }
    let wanted = match (id, found(&all, id)) {
        ("*", _) => all.iter().enumerate().collect(),
        (_, Some(one)) => vec![one],
        (_, None) => return Reply::error("'show tls-keys' unable to locate referenced filename"),
    };
    let mut text = "# id secret\n".to_owned();
    for (number, keys) in wanted {
        let _ = writeln!(text, "# {number} ({})", keys.name());
        for (place, secret) in keys.shown().iter().enumerate() {
            let _ = writeln!(text, "{number}.{place} {secret}");
        }
    }
    Reply::Text(text)
}

/// `set ssl tls-key`.
pub(super) fn rotate(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (id, key) = (line.word(3), line.word(4));
    if id.is_empty() || key.is_empty() {
        return Reply::error("'set ssl tls-key' expects a filename and the new TLS key in base64 encoding.");
    }
    let all = edge.instance().tls.ticket_keys();
    match found(&all, id).map(|(_, keys)| keys.rotate(key)) {
        None => Reply::error("'set ssl tls-key' unable to locate referenced filename"),
        Some(Ok(())) => Reply::info("TLS ticket key updated!"),
        Some(Err(error)) => Reply::error(error.to_string()),
    }
}

/// `set ssl ocsp-response`.
pub(super) fn set_response(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let given = line.payload.as_deref().unwrap_or_else(|| line.word(3));
    if given.is_empty() {
        return Reply::error("'set ssl ocsp-response' expects response in base64 encoding.");
    }
    let Some(der) = tls::from_base64(given) else {
        return Reply::error("'set ssl ocsp-response' received invalid base64 encoded response.");
    };
    let instance = edge.instance();
    match instance.tls.set_response(&der) {
        Ok(()) => Reply::info("OCSP Response updated!"),
        Err(error) => Reply::error(format!("{error}.")),
    }
}

/// `show ssl ocsp-response`.
pub(super) fn responses(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let all = edge.instance().tls.responses();
    let wanted = line.word(3);
    if !wanted.is_empty() {
        let wanted = wanted.to_ascii_lowercase();
        let found = all.into_iter().find(|(id, _)| id.hex() == wanted);
        return match found {
            None => Reply::error("Certificate ID does not match any certificate."),
            Some((_, None)) => Reply::Text(String::new()),
            Some((_, Some(response))) => Reply::Text(describe(&response)),
        };
    }
    let mut text = String::new();
    for id in all.keys() {
        if text.is_empty() {
            text += "# Certificate IDs\n";
        }
        let _ = write!(text, "Certificate ID key : {}\n{}", id.hex(), parts(id, 1, ""));
    }
    Reply::Text(text)
}

/// The parts of an identifier, as OpenSSL prints them.
fn parts(id: &CertificateId, indent: usize, algorithm: &str) -> String {
    let Some([name, key, serial]) = id.parts() else { return String::new() };
    let (outer, inner) = (" ".repeat(indent), " ".repeat(indent + 2));
    let hex = basics::hex::upper;
    let serial = match serial {
        [0, rest @ ..] if !rest.is_empty() => rest,
        serial => serial,
    };
    format!(
        "{outer}Certificate ID:\n{algorithm}{inner}Issuer Name Hash: {}\n{inner}Issuer Key Hash: {}\n{inner}Serial Number: {}\n",
        hex(name),
        hex(key),
        hex(serial)
    )
}

/// A response, as OpenSSL prints it, but for its signature and certificates.
fn describe(response: &OcspResponse) -> String {
    let responder = match &response.responder {
        Responder::Name(name) => {
            tls::DistinguishedName::of(name).one_line().trim_start_matches('/').replace('/', ", ").replace('=', " = ")
        }
        Responder::Key(key) => basics::hex::upper(key),
    };
    let status = match response.status {
        OcspStatus::Good => "good",
        OcspStatus::Revoked => "revoked",
        OcspStatus::Unknown => "unknown",
    };
    format!(
        "OCSP Response Data:\n    OCSP Response Status: successful (0x0)\n    Response Type: Basic OCSP Response\n    Version: 1 (0x0)\n    \
         Responder Id: {responder}\n    Produced At: {}\n    Responses:\n{}    Cert Status: {status}\n    This Update: {}\n    \
         Next Update: {}\n",
        date(Some(response.produced_at)),
        parts(&response.id, 4, "      Hash Algorithm: sha1\n"),
        date(Some(response.begins_at)),
        date(response.ends_at),
    )
}

/// `show ssl providers`.
pub(super) fn providers(_: &mut Session, _: &Context<'_>, _: &Line) -> Reply {
    Reply::Text("Loaded providers : \n\t- aws-lc\n".to_owned())
}
