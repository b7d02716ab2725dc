//! TLS of `server` lines.

use std::sync::Arc;

use ::tls::{CipherList, ClientOptions, Curves, ServerVerification, Suites, Verify};
use sample::{Expression, Place, Places};

use super::{Side, argument, common, load, protocols};
use crate::{
    diagnostics::Problem,
    line::Line,
    model::ServerTls,
    scope::{Scope, ServerDraft},
};

/// A word of a `server` line.
pub fn word(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index;
    if !scope.in_proxy() {
        let message =
            format!("'{}' is not supported here yet: only servers of backends are spoken TLS with.", line.word(at));
        return Err(Problem::new(message).at(at));
    }
    let words = &mut draft.pending.tls;
    words.place.get_or_insert(at);
    match line.word(at) {
        "no-ssl" => words.is_on = false,
        "check-ssl" => words.of_server.check = true,
        "no-check-ssl" => words.of_server.check = false,
        "no-ssl-reuse" => words.of_server.no_reuse = true,
        "ssl-reuse" => words.of_server.no_reuse = false,
        "crt" => {
            let name = argument(line, index, "missing certificate file path")?;
            let path = match scope.state.tls.crt_base.as_deref() {
                Some(base) if !name.starts_with('/') => format!("{base}/{name}"),
                _ => name.to_owned(),
            };
            let loaded = match scope.state.tls.stores.named(name) {
                Some(loaded) => loaded.clone(),
                None => load::Loaded {
                    name: path.as_str().into(),
                    identity: load::certificate(scope, line, at + 1, &path)?,
                },
            };
            words.certificates.clear();
            words.certificates.extend(super::crt_list::of_files(vec![loaded]));
            return Ok(());
        }
        "verifyhost" => {
            words.of_server.verify_host = Some(argument(line, index, "missing hostname to verify against")?.to_owned());
            return Ok(());
        }
        "sni" => {
            argument(line, index, "missing sni expression")?;
            words.of_server.sni = Some(Arc::new(sni(scope, line, at + 1)?));
            return Ok(());
        }
        "check-sni" => {
            words.of_server.check_sni = Some(argument(line, index, "missing SNI")?.to_owned());
            return Ok(());
        }
        "check-alpn" => {
            let missing = "missing the comma-delimited ALPN protocol suite";
            let names = protocols(argument(line, index, missing)?).map_err(|problem| problem.at(at + 1))?;
            words.of_server.check_protocols = Some(names);
            return Ok(());
        }
        _ => {
            common(scope, line, index, words, Side::Server)?;
            return Ok(());
        }
    }
    *index += 1;
    Ok(())
}

/// The name that a server is asked for.
fn sni(scope: &mut Scope<'_>, line: &Line, at: usize) -> Result<Expression, Problem> {
    let parsed = scope.sample(line, at, |_, context| Expression::parse_text(line.bytes(at), context));
    let expression = parsed.map_err(|problem| {
        let message = format!("error detected while parsing sni expression : {}", problem.message);
        Problem { message, ..problem }
    })?;
    if !expression.places().intersects(Places::only(Place::ServerConnect)) {
        let message = format!(
            "error detected while parsing sni expression : fetch method '{}' extracts information from '{}', none of which is \
             available here",
            line.word(at),
            expression.sources().names()
        );
        return Err(Problem::new(message).at(at));
    }
    Ok(expression)
}

/// What the words of a line lead to; `None` without `ssl` and `check-ssl`.
pub fn finish(scope: &Scope<'_>, draft: &ServerDraft) -> Result<Option<Arc<ServerTls>>, Problem> {
    let (words, defaults) = (&draft.pending.tls, &scope.state.tls);
    let server = &draft.server;
    if !words.is_on && !words.of_server.check {
        return Ok(None);
    }
    let place = words.place.unwrap_or(0);
    let base = &defaults.server;
    let versions = words.versions(base).ok_or_else(|| words.no_version().at(place))?;
    let verifies = match words.verify.or(base.verify) {
        Some(verify) => verify != Verify::None,
        None => !defaults.servers_unverified,
    };
    let verification = match (&words.anchors, verifies) {
        (_, false) => ServerVerification::None,
        (Some(anchors), true) => ServerVerification::Required {
            anchors: anchors.clone(),
            revocation: words.revocation.clone().unwrap_or_default(),
            host: words.of_server.verify_host.clone(),
        },
        (None, true) => {
            let message = "verify is enabled by default but no CA file specified. If you're running on a LAN where you're \
                           certain to trust the server's certificate, please set an explicit 'verify none' statement on the \
                           'server' line, or use 'ssl-server-verify none' in the global section to disable server-side \
                           verifications by default.";
            let expected =
                "'ca-file <file>', or 'ca-file @system-ca' for servers with certificates of public authorities";
            return Err(Problem::new(message).at(place).expected(expected));
        }
    };
    let options = ClientOptions {
        versions,
        ciphers: words.ciphers.clone().or_else(|| base.ciphers.clone()).unwrap_or_else(CipherList::all),
        suites: words.suites.clone().or_else(|| base.suites.clone()).unwrap_or_else(Suites::all),
        curves: words.curves.clone().or_else(|| base.curves.clone()).unwrap_or_else(Curves::all),
        protocols: words.protocols.clone().unwrap_or_default(),
        verification,
        identity: words.certificates.first().map(|listed| Arc::clone(&listed.identity)),
        resumes: !words.of_server.no_reuse,
        tickets: words.tickets.or(base.tickets).unwrap_or(true),
    };
    ::tls::Connector::new(&options).map_err(|error| Problem::new(error.to_string()).at(place))?;
    // As in HAProxy, checks that go elsewhere are in the clear unless 'check-ssl' is there.
    let goes_elsewhere = server.check_port.is_some() || server.check_address.is_some();
    Ok(Some(Arc::new(ServerTls {
        fingerprint: options.fingerprint(),
        options: Arc::new(options),
        certificate: words.certificates.first().map(|listed| Arc::clone(&listed.name)),
        sni: words.of_server.sni.clone(),
        of_requests: words.is_on,
        of_checks: words.of_server.check || words.is_on && !goes_elsewhere,
        check_sni: words.of_server.check_sni.clone(),
        check_protocols: words.of_server.check_protocols.clone(),
    })))
}
