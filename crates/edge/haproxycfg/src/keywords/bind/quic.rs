//! `bind quic4@...` and `bind quic6@...`: HTTP/3.

use std::sync::Arc;

use super::BindDraft;
use crate::{
    diagnostics::Problem,
    line::Line,
    model::{AcceptMode, BindTls},
    scope::Scope,
};
use ::tls::{Entry, ServerOptions};

/// What is spoken over QUIC.
const HTTP_3: &[u8] = b"h3";

/// Whether the words of a line go together with QUIC. Those about TCP have no effect.
pub fn check(scope: &mut Scope<'_>, line: &Line, draft: &BindDraft) -> Result<(), Problem> {
    let bind = &draft.bind;
    let problem = |message: &str| Err(Problem::new(message));
    if bind.accept_proxy || bind.netscaler_magic.is_some() {
        return problem("QUIC has no room for a header in front of it ('accept-proxy', 'accept-netscaler-cip')");
    }
    if bind.protocol.is_some() {
        return problem("'proto' is not possible with QUIC, over which HTTP/3 is spoken");
    }
    let about_tcp = [
        ("backlog", bind.backlog.is_some()),
        ("defer-accept", bind.defer_accept),
        ("mss", bind.mss.is_some()),
        ("tcp-ut", bind.tcp_user_timeout.is_some()),
        ("tfo", bind.tfo),
    ];
    for (word, _) in about_tcp.iter().filter(|(_, is_there)| *is_there) {
        let at = (2..line.len()).find(|index| line.word(*index) == *word).unwrap_or(1);
        scope.warn(line, Problem::new(format!("'{word}' has no effect on QUIC, which is UDP.")).at(at));
    }
    if draft.is_accept_chosen && bind.accept != AcceptMode::Reuseport {
        let at = (2..line.len()).find(|index| matches!(line.word(*index), "accept" | "shards")).unwrap_or(1);
        scope.warn(line, Problem::new("QUIC has a socket for each worker, whatever this says.").at(at));
    }
    Ok(())
}

/// TLS as QUIC has it: TLS 1.3 alone, and the protocol of HTTP/3.
pub fn tls(of_line: Option<&BindTls>) -> Result<Option<Arc<BindTls>>, Problem> {
    let Some(tls) = of_line else {
        let problem = Problem::new("QUIC is always encrypted: 'ssl' is missing");
        return Err(problem.expected("'ssl crt' and the path of a file with certificate and key"));
    };
    let mut known: Vec<(Arc<ServerOptions>, Arc<ServerOptions>)> = Vec::new();
    let mut entries = Vec::with_capacity(tls.entries.len());
    for entry in &tls.entries {
        let found = known.iter().find(|(of_line, _)| Arc::ptr_eq(of_line, &entry.options));
        let options = match found {
            Some((_, options)) => Arc::clone(options),
            None => {
                let options = Arc::new(options(&entry.options)?);
                known.push((Arc::clone(&entry.options), Arc::clone(&options)));
                options
            }
        };
        entries.push(Entry { options, ..entry.clone() });
    }
    Ok(Some(Arc::new(BindTls { entries, reader: tls.reader.of_quic(), ..BindTls::clone(tls) })))
}

/// Options of a certificate as QUIC has them.
pub fn options(of_line: &ServerOptions) -> Result<ServerOptions, Problem> {
    if !of_line.versions.tls13 {
        return Err(Problem::new("QUIC needs TLS 1.3, which this line does not allow"));
    }
    if !of_line.protocols.is_empty() && !of_line.protocols.iter().any(|protocol| protocol == HTTP_3) {
        return Err(Problem::new("'alpn' has no protocol that is spoken over QUIC").expected("'alpn h3'"));
    }
    let mut options = ServerOptions { protocols: vec![HTTP_3.to_vec()], ..of_line.clone() };
    options.versions.tls12 = false;
    Ok(options)
}
