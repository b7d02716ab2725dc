//! `errorfile`: a file that holds a whole response, checked when the configuration is read so that nothing but its bytes
//! is needed later.

use std::sync::Arc;

use super::words::{is_token, wrong};
use crate::{diagnostics::Problem, line::Line, scope::Scope};

/// Statuses that have a page which `errorfile` and its siblings can replace.
pub(super) const STATUSES: [u16; 19] =
    [200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 421, 422, 425, 429, 500, 501, 502, 503, 504];

/// What is wrong with a file that should hold a response; HAProxy's message.
fn check(response: &[u8]) -> Result<(), String> {
    // An empty file is no response: the connection is closed without one.
    if response.is_empty() {
        return Ok(());
    }
    let unparsable = |offset: usize| format!("unable to parse headers (error offset: {offset})");
    let start = response.iter().position(|byte| !b"\r\n".contains(byte)).ok_or_else(|| unparsable(0))?;
    let mut offset = start;
    let mut lines = Vec::new();
    loop {
        let rest = response.get(offset..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| unparsable(response.len()))?;
        let line = rest.get(..length).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        offset += length + 1;
        if line.is_empty() {
            break;
        }
        lines.push((line, offset - length - 1));
    }
    let mut lines = lines.into_iter();
    let status = lines.next().and_then(|(line, _)| status_line(line)).ok_or_else(|| unparsable(start))??;
    if status < 200 && status != 101 {
        return Err(format!("invalid http status code for an error message ({status})"));
    }
    let mut content_length = None;
    let mut chunked = false;
    for (line, at) in lines {
        let (name, value) = header(line).ok_or_else(|| unparsable(at))?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let announced: u64 = value.parse().map_err(|_| unparsable(at))?;
                if content_length.is_some_and(|known| known != announced) {
                    return Err(unparsable(at));
                }
                content_length = Some(announced);
            }
            "transfer-encoding" => chunked |= value.to_ascii_lowercase().ends_with("chunked"),
            _ => {}
        }
    }
    let body = response.len().saturating_sub(offset);
    if status == 204 || status == 304 {
        return if body > 0 { Err("message payload not expected".to_owned()) } else { Ok(()) };
    }
    if chunked {
        return Err("chunk-encoded payload not supported".to_owned());
    }
    match content_length {
        Some(0) if body > 0 => Err("message payload not expected".to_owned()),
        Some(announced) if u64::try_from(body) != Ok(announced) => {
            Err(format!("payload size does not match the announced content-length ({body} != {announced})"))
        }
        _ => Ok(()),
    }
}

/// The status of a status line; none when it is no status line at all.
fn status_line(line: &[u8]) -> Option<Result<u16, String>> {
    let line = std::str::from_utf8(line).ok()?;
    let (version, rest) = line.split_once([' ', '\t'])?;
    let is_version = |byte: u8| byte.is_ascii_alphanumeric() || b"/.".contains(&byte);
    if !version.bytes().all(is_version) {
        return None;
    }
    let code = rest.trim_start_matches([' ', '\t']);
    let code = code.split([' ', '\t']).next().unwrap_or_default();
    let status: u16 = code.parse().ok()?;
    let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] = version.as_bytes() else {
        return Some(Err(format!("invalid http version ({version})")));
    };
    (major.is_ascii_digit() && minor.is_ascii_digit()).then_some(Ok(status))
}

/// Name and value of a header line.
fn header(line: &[u8]) -> Option<(&str, &str)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = std::str::from_utf8(line.get(..colon)?).ok()?;
    let value = line.get(colon + 1..)?;
    if !is_token(name) || value.iter().any(|byte| matches!(byte, 0 | b'\r')) {
        return None;
    }
    // Only framing headers are looked at, and those are ASCII.
    Some((name, std::str::from_utf8(value).unwrap_or_default().trim_matches([' ', '\t'])))
}

/// The response in the file that the word at `index` names.
pub(super) fn load(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<Arc<[u8]>, Problem> {
    let path = line.word(index);
    let mut response =
        scope.read(path).map_err(|error| wrong(format!("error opening file '{path}' : {error}."), index))?;
    let most = scope.state.global.tune.bufsize;
    if response.len() > most {
        let message = format!("custom error message file '{path}' larger than {most} bytes. Truncating.");
        scope.warn(line, wrong(message, index));
        response = response.get(..most).unwrap_or_default().into();
    }
    check(&response).map_err(|message| {
        wrong(format!("'{path}': {message}"), index)
            .expected("a whole response: status line, headers, an empty line, and a body as long as announced")
    })?;
    Ok(on_the_wire(&response))
}

/// The response with its head's lines ended as HTTP ends them: editors leave a bare LF, and perhaps lines before it.
fn on_the_wire(response: &[u8]) -> Arc<[u8]> {
    let start = response.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(response.len());
    let mut rest = response.get(start..).unwrap_or_default();
    let mut out = Vec::with_capacity(response.len() + 16);
    while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
        let line = rest.get(..length).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
        rest = rest.get(length + 1..).unwrap_or_default();
        if line.is_empty() {
            break;
        }
    }
    out.extend_from_slice(rest);
    out.into()
}

/// The status that the word at `index` names, if its page can be replaced.
pub(super) fn status(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<u16, Problem> {
    let value = super::words::lenient_integer(scope, line, index);
    handled(value).ok_or_else(|| wrong(format!("status code '{value}' not handled."), index).expected(statuses_text()))
}

/// The status, if its page can be replaced.
pub(super) fn handled(status: i64) -> Option<u16> {
    u16::try_from(status).ok().filter(|status| STATUSES.contains(status))
}

/// The statuses for a message.
pub(super) fn statuses_text() -> String {
    let statuses: Vec<String> = STATUSES.iter().map(u16::to_string).collect();
    format!("one of {}", statuses.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{check, on_the_wire};

    #[test]
    fn lines_end_as_on_the_wire() {
        for (file, expected) in [
            ("", ""),
            ("HTTP/1.1 503 x\nA: b\n\nbody\n", "HTTP/1.1 503 x\r\nA: b\r\n\r\nbody\n"),
            ("\r\n\nHTTP/1.1 503 x\r\n\r\n\nb", "HTTP/1.1 503 x\r\n\r\n\nb"),
        ] {
            assert_eq!(&*on_the_wire(file.as_bytes()), expected.as_bytes(), "{file:?}");
        }
    }

    #[test]
    fn responses() {
        for (response, expected) in [
            ("", Ok(())),
            ("HTTP/1.0 503 Gone fishing\r\nContent-Type: text/html\r\n\r\n<html>", Ok(())),
            ("HTTP/1.1 503 x\nA: b\n\nbody", Ok(())),
            ("\r\nHTTP/1.1 200\r\n\r\n", Ok(())),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Ok(())),
            ("HTTP/1.1 101 Switching\r\n\r\n", Ok(())),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
                Err("payload size does not match the announced content-length (3 != 4)"),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nabc", Err("message payload not expected")),
            ("HTTP/1.1 204 No\r\n\r\nabc", Err("message payload not expected")),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                Err("chunk-encoded payload not supported"),
            ),
            ("HTTP/1.1 103 Early\r\n\r\n", Err("invalid http status code for an error message (103)")),
            ("HTTP/2 200 OK\r\n\r\n", Err("invalid http version (HTTP/2)")),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Err("unable to parse headers (error offset: 17)")),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", Err("unable to parse headers (error offset: 23)")),
            ("<html>hello</html>\n\n", Err("unable to parse headers (error offset: 0)")),
            ("\r\n\r\n", Err("unable to parse headers (error offset: 0)")),
        ] {
            assert_eq!(check(response.as_bytes()), expected.map_err(str::to_owned), "{response:?}");
        }
    }
}
