//! Arguments of `connect` and `send` of `http-check` and `tcp-check`, and of `option httpchk`.

use sample::{LogFormat, LogFormatOptions};

use super::{
    checks::PLACES,
    reply::literal,
    words::{around, header_name, is_token, leading_integer, wrong},
};
use crate::{
    address::{Accepts, Host, Port},
    diagnostics::Problem,
    line::Line,
    model::{CheckConnect, CheckPort, CheckSend, ServerAddress, ServerProtocol},
    scope::Scope,
};

/// A request of a check. What is missing comes from the request that it is merged with, or from defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct Send {
    pub(super) method: Option<String>,
    pub(super) uri: Option<LogFormat>,
    pub(super) version: Option<String>,
    pub(super) headers: Vec<(String, LogFormat)>,
    pub(super) body: Option<LogFormat>,
    /// Whether it comes from `option httpchk` alone.
    pub(super) from_option: bool,
}

impl Send {
    /// Takes over what another one says differently. Headers are replaced as a whole, by any.
    pub(super) fn overwrite(&mut self, new: Self) {
        self.method = new.method.or(self.method.take());
        self.uri = new.uri.or(self.uri.take());
        self.version = new.version.or(self.version.take());
        if !new.headers.is_empty() {
            self.headers = new.headers;
        }
        self.body = new.body.or(self.body.take());
    }
}

/// The argument of the word at `index`.
pub(super) fn argument<'l>(line: &'l Line, index: usize, what: &str) -> Result<&'l str, Problem> {
    match line.word(index + 1) {
        "" => Err(wrong(format!("'{}' expects {what} as argument", line.word(index)), index + 1)),
        word => Ok(word),
    }
}

/// A log-format string of a check.
pub(super) fn format(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<LogFormat, Problem> {
    let text = line.word(index);
    scope
        .log_format_with(line, index, line.bytes(index), PLACES, LogFormatOptions::PLAIN)
        .map_err(|problem| around(problem, |error| format!("'{text}' invalid log-format string ({error})")))
}

/// `connect`, and its comment.
pub(super) fn connect(scope: &mut Scope<'_>, line: &Line) -> Result<(CheckConnect, Option<String>), Problem> {
    let mut connect = CheckConnect::default();
    let mut comment = None;
    let mut index = 2;
    while !line.word(index).is_empty() {
        let word = line.word(index);
        match word {
            "default" => connect.default = true,
            "send-proxy" => connect.send_proxy = true,
            "linger" => connect.linger = true,
            "port" => {
                connect.port = Some(check_port(scope, line, index)?);
                index += 1;
            }
            "addr" => {
                let (address, port) = check_address(scope, line, index)?;
                connect.address = Some(address);
                // `port` says more, wherever it stands.
                if connect.port.is_none() {
                    connect.port = port.map(CheckPort::Fixed);
                }
                index += 1;
            }
            "comment" => {
                comment = Some(argument(line, index, "a string")?.to_owned());
                index += 1;
            }
            "ssl" | "sni" | "alpn" => {
                return Err(not_yet(word, index, "'connect default' of a server with 'check-ssl' speaks TLS"));
            }
            "via-socks4" => connect.via_socks4 = true,
            "proto" => {
                connect.protocol = Some(check_protocol(line, index)?);
                index += 1;
            }
            _ => {
                let known = ["comment", "port", "addr", "send-proxy", "via-socks4", "linger", "default"];
                return Err(wrong(
                    format!(
                        "expects 'comment', 'port', 'addr', 'send-proxy', 'ssl', 'sni', 'alpn' or 'via-socks4', \
                         'linger', 'default' but got '{word}' as argument"
                    ),
                    index,
                )
                .nearest(word, known));
            }
        }
        index += 1;
    }
    Ok((connect, comment))
}

fn not_yet(word: &str, index: usize, why: &str) -> Problem {
    wrong(format!("'{word}' is not supported yet: {why}"), index)
}

fn check_port(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<CheckPort, Problem> {
    let word = argument(line, index, "a port number or a sample expression")?;
    let (number, rest) = leading_integer(word, false);
    if !rest.is_empty() {
        let mut at = index + 1;
        let context = |error: &str| format!("error detected while parsing port expression : {error}");
        let expression = scope.expr(line, &mut at, PLACES).map_err(|problem| around(problem, context))?;
        return match at {
            _ if at == index + 2 => Ok(CheckPort::Expression(expression)),
            _ => Err(wrong("the port's expression must be one word".to_owned(), at)),
        };
    }
    let port = u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| {
        wrong(format!("expects a valid TCP port (from range 1 to 65535) or a sample expression, got {word}"), index + 1)
            .expected("a port from 1 to 65535")
    })?;
    Ok(CheckPort::Fixed(port))
}

fn check_address(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<(ServerAddress, Option<u16>), Problem> {
    let text = argument(line, index, "<ipv4|ipv6>")?;
    let problem = |message: String| {
        wrong(format!("'addr' : {message}"), index + 1).expected("an IPv4 or IPv6 address, with or without a port")
    };
    let parsed = scope.address(text, Accepts::SOURCE).map_err(problem)?;
    let address = match parsed.host {
        Host::Ip(ip) => ServerAddress::Ip(ip),
        Host::Unix(path) => ServerAddress::Unix(path),
        Host::Abstract(name) => ServerAddress::Abstract(name),
        Host::Name(..) | Host::Descriptor(_) => {
            return Err(problem(format!("invalid address: '{text}' in '{text}'")));
        }
    };
    let port = match parsed.port {
        Port::Range(port @ 1.., _) => Some(port),
        _ => None,
    };
    Ok((address, port))
}

/// `proto`: one of those that the kind of check can speak.
fn check_protocol(line: &Line, index: usize) -> Result<ServerProtocol, Problem> {
    let word = argument(line, index, "a MUX protocol")?;
    let (keyword, at) = (line.word(0), index + 1);
    match (keyword, word) {
        ("http-check", "h1") => Ok(ServerProtocol::Http1),
        ("http-check", "h2") => Ok(ServerProtocol::Http2),
        ("tcp-check", "none") => Ok(ServerProtocol::None),
        ("http-check", "fcgi") => Ok(ServerProtocol::Fcgi),
        (_, "h1" | "h2" | "fcgi" | "none") => {
            Err(wrong(format!("'proto' : invalid MUX protocol '{word}' for {keyword}"), at))
        }
        _ => Err(wrong(format!("'proto' : unknown MUX protocol '{word}'"), at)),
    }
}

/// `tcp-check send` and its like, and the comment.
pub(super) fn send_data(scope: &mut Scope<'_>, line: &Line) -> Result<(CheckSend, Option<String>), Problem> {
    let keyword = line.word(1);
    argument(line, 1, if keyword == "send-binary" { "a binary string" } else { "a string" })?;
    let mut comment = None;
    let mut index = 3;
    while !line.word(index).is_empty() {
        let word = line.word(index);
        if word != "comment" {
            return Err(wrong(format!("expects 'comment' but got '{word}' as argument"), index)
                .expected("one text, spaces escaped or quoted"));
        }
        comment = Some(argument(line, index, "a string")?.to_owned());
        index += 2;
    }
    let send = match keyword {
        "send" => CheckSend::Bytes(line.bytes(2).to_vec()),
        "send-lf" => CheckSend::Format(format(scope, line, 2)?),
        "send-binary" => {
            let bytes = sample::parse_hexadecimal(line.bytes(2)).map_err(|error| {
                wrong(format!("'{}' invalid binary string ({error})", line.word(2)), 2)
                    .expected("pairs of hexadecimal digits")
            })?;
            CheckSend::Bytes(bytes)
        }
        _ => CheckSend::HexFormat(format(scope, line, 2)?),
    };
    Ok((send, comment))
}

/// `http-check send`, and its comment.
pub(super) fn send_http(scope: &mut Scope<'_>, line: &Line) -> Result<(Send, Option<String>), Problem> {
    let mut send = Send::default();
    let mut comment = None;
    let mut index = 2;
    while !line.word(index).is_empty() {
        let word = line.word(index);
        match word {
            "meth" => send.method = Some(method(line, index)?),
            "uri" => {
                uri(argument(line, index, "a string")?, index + 1)?;
                send.uri = Some(literal(scope, line, index + 1, line.bytes(index + 1), PLACES)?);
            }
            "uri-lf" => {
                argument(line, index, "a string")?;
                send.uri = Some(format(scope, line, index + 1)?);
            }
            "ver" => send.version = Some(version(argument(line, index, "a string")?, index + 1)?),
            "body" => {
                argument(line, index, "a string")?;
                send.body = Some(literal(scope, line, index + 1, line.bytes(index + 1), PLACES)?);
            }
            "body-lf" => {
                argument(line, index, "a string")?;
                send.body = Some(format(scope, line, index + 1)?);
            }
            "comment" => comment = Some(argument(line, index, "a string")?.to_owned()),
            "hdr" => {
                header(scope, line, index, &mut send)?;
                index += 1;
            }
            _ => {
                let known = ["comment", "meth", "uri", "uri-lf", "ver", "hdr", "body", "body-lf"];
                return Err(wrong(
                    format!(
                        "expects 'comment', 'meth', 'uri', 'uri-lf', 'ver', 'hdr', 'body' or 'body-lf' but got \
                         '{word}' as argument"
                    ),
                    index,
                )
                .nearest(word, known));
            }
        }
        index += 2;
    }
    Ok((send, comment))
}

fn method(line: &Line, index: usize) -> Result<String, Problem> {
    let word = argument(line, index, "a string")?;
    if !is_token(word) {
        return Err(wrong(format!("'{word}' is not a method"), index + 1).expected("a method, as in GET"));
    }
    Ok(word.to_owned())
}

/// What would end the request line early cannot stand in it.
fn uri(text: &str, index: usize) -> Result<&str, Problem> {
    if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
        return Err(wrong(format!("'{}' is not a URI", text.escape_default()), index).expected("a URI, as in /health"));
    }
    Ok(text)
}

fn version(text: &str, index: usize) -> Result<String, Problem> {
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.".contains(&byte)) {
        return Err(
            wrong(format!("'{}' is not a version", text.escape_default()), index).expected("HTTP/1.0 or HTTP/1.1")
        );
    }
    Ok(text.to_owned())
}

fn header(scope: &mut Scope<'_>, line: &Line, index: usize, send: &mut Send) -> Result<(), Problem> {
    let name = line.word(index + 1);
    if name.is_empty() || line.word(index + 2).is_empty() {
        return Err(wrong("'hdr' expects <name> and <value> as arguments", line.len().min(index + 2)));
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if is("host") && send.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case("host")) {
        return Err(wrong(format!("'{name}' header already defined"), index + 1).expected("one Host header"));
    }
    if is("content-length") || is("transfer-encoding") {
        // The check frames its body itself.
        return Ok(());
    }
    let name = header_name(scope, line, index + 1)?;
    let value = format(scope, line, index + 2)?;
    send.headers.push((name, value));
    Ok(())
}

/// The request of `option httpchk [[<method>] <uri> [<version>]]`.
///
/// Headers and a body may hide behind the version, as in `HTTP/1.1\r\nHost:\ www`, which is deprecated.
pub(super) fn request_of_option(scope: &mut Scope<'_>, line: &Line) -> Result<Send, Problem> {
    let mut send = Send { from_option: true, ..Send::default() };
    let (method_word, uri_word) = if line.word(3).is_empty() { (0, 2) } else { (2, 3) };
    if method_word > 0 {
        send.method = Some(method(line, method_word - 1)?);
    }
    let text = line.word(uri_word);
    if !text.is_empty() {
        uri(text, uri_word)?;
        send.uri = Some(literal(scope, line, uri_word, line.bytes(uri_word), PLACES)?);
    }
    let text = line.word(4);
    if text.is_empty() {
        return Ok(send);
    }
    let (head, body) = match text.split_once("\r\n\r\n") {
        Some((head, body)) => (head, Some(body)),
        None => (text, None),
    };
    let (version_text, headers) = match head.split_once("\r\n") {
        Some((version, headers)) => (version, Some(headers)),
        None => (head, None),
    };
    if headers.is_some() || body.is_some() {
        let message = "'option httpchk' : hiding headers or body at the end of the version string is deprecated. \
                       Please, consider to use 'http-check send' directive instead.";
        scope.warn(line, wrong(message, 4));
    }
    send.version = Some(version(version_text, 4)?);
    for field in headers.unwrap_or_default().split("\r\n").filter(|field| !field.is_empty()) {
        let parts = field.split_once(':').filter(|(name, _)| is_token(name));
        let Some((name, value)) = parts else {
            return Err(wrong(format!("unable to parse the request '{}'", field.escape_default()), 4)
                .expected("headers as <name>: <value>, separated by \\r\\n"));
        };
        let value = value.trim_matches([' ', '\t']);
        let value = scope.log_format_with(line, 4, value.as_bytes(), PLACES, LogFormatOptions::PLAIN)?;
        send.headers.push((name.to_owned(), value));
    }
    if let Some(body) = body {
        send.body = Some(literal(scope, line, 4, body.as_bytes(), PLACES)?);
    }
    Ok(send)
}
