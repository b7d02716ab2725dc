//! Writing log formats.

use std::net::IpAddr;
use std::time::Duration;

use super::{Flags, Item, LogFormat, LogVariable};
use crate::bytes::Bytes;
use crate::context::{Address, Context, Direction, Options};
use crate::date::offset_text;
use crate::http_path;
use crate::log_fields::LogFields;
use crate::number::{ipv6_text, push_decimal, push_ipv4};
use basics::{Date, hex};

/// What stands for a request whose first line is not known.
const BAD_REQUEST: &[u8] = b"<BADREQ>";
/// What stands for a server when there is none.
const NO_SERVER: &str = "<NOSRV>";

impl LogFormat {
    /// Appends what the format gives for `context` to `output`.
    pub fn render(&self, context: &dyn Context, output: &mut Vec<u8>) {
        let fields = if self.items.iter().any(|item| matches!(item, Item::Variable(..))) {
            context.log_fields()
        } else {
            LogFields::default()
        };
        let mut last_is_space = true;
        for item in &self.items {
            let before = output.len();
            match item {
                Item::Separator => {
                    if !last_is_space {
                        output.push(b' ');
                        last_is_space = true;
                    }
                    continue;
                }
                Item::Text(text) => output.extend_from_slice(text),
                Item::Expression { expression, flags, request, response } => {
                    let side = |direction| expression.string(context, Options { direction, is_final: true });
                    let mut value = None;
                    if *request || !*response {
                        value = side(Direction::Request);
                    }
                    if value.is_none() && *response {
                        value = side(Direction::Response);
                    }
                    let value = value.as_deref().unwrap_or_default();
                    if self.http {
                        encode(value, b'%', needs_http_encoding, flags.escape, output);
                    } else {
                        text(value, *flags, output);
                    }
                }
                Item::Variable(variable, flags) => {
                    let mut writer = Writer { context, fields: &fields, flags: *flags, output: &mut *output };
                    writer.variable(*variable);
                    // Captured headers that were not declared write nothing, and the space before them stays the last.
                    if output.len() == before && is_optional(*variable) {
                        continue;
                    }
                }
            }
            last_is_space = false;
        }
    }

    /// What the format gives for `context`.
    #[must_use]
    pub fn to_vec(&self, context: &dyn Context) -> Vec<u8> {
        let mut output = Vec::with_capacity(self.text.len() * 2);
        self.render(context, &mut output);
        output
    }
}

fn is_optional(variable: LogVariable) -> bool {
    matches!(
        variable,
        LogVariable::RequestHeaders
            | LogVariable::RequestHeaderList
            | LogVariable::ResponseHeaders
            | LogVariable::ResponseHeaderList
    )
}

/// Writes text with quotes, escapes, or a dash for nothing, as the flags ask.
fn text(value: &[u8], flags: Flags, output: &mut Vec<u8>) {
    if flags.quote {
        output.push(b'"');
    }
    if !value.is_empty() {
        // Text ends at its first NUL.
        let end = memchr::memchr(0, value).unwrap_or(value.len());
        for byte in value.get(..end).unwrap_or_default() {
            if flags.escape && matches!(byte, b'"' | b'\\' | b']') {
                output.push(b'\\');
            }
            output.push(*byte);
        }
    } else if flags.mandatory && !flags.quote {
        output.push(b'-');
    }
    if flags.quote {
        output.push(b'"');
    }
}

fn needs_http_encoding(byte: u8) -> bool {
    matches!(byte, 0..=8 | 10..=31 | 127)
}

fn needs_url_encoding(byte: u8) -> bool {
    !(32..127).contains(&byte) || matches!(byte, b'"' | b'#')
}

fn needs_header_encoding(byte: u8) -> bool {
    needs_url_encoding(byte) || matches!(byte, b'{' | b'|' | b'}')
}

/// Writes bytes, those for which `needs` answers true as `mark` and two hexadecimal digits.
fn encode(value: &[u8], mark: u8, needs: fn(u8) -> bool, escape: bool, output: &mut Vec<u8>) {
    output.reserve(value.len());
    for byte in value {
        if needs(*byte) {
            let [high, low] = hex::upper_digits(*byte);
            output.extend_from_slice(&[mark, high, low]);
            continue;
        }
        if escape && matches!(byte, b'"' | b'\\' | b']') {
            output.push(b'\\');
        }
        output.push(*byte);
    }
}

struct Writer<'a, 'f> {
    context: &'a dyn Context,
    fields: &'f LogFields<'a>,
    flags: Flags,
    output: &'f mut Vec<u8>,
}

impl<'a> Writer<'a, '_> {
    fn variable(&mut self, variable: LogVariable) {
        let fields = self.fields;
        match variable {
            LogVariable::Options => {}
            LogVariable::BytesOut => self.totalled(signed(fields.bytes_out)),
            LogVariable::BodyBytesOut => self.totalled(signed(fields.body_bytes_out)),
            LogVariable::BytesIn => self.integer(signed(fields.bytes_in)),
            LogVariable::ClientCookie => self.text(fields.client_cookie.unwrap_or_default()),
            LogVariable::ServerCookie => self.text(fields.server_cookie.unwrap_or_default()),
            LogVariable::Hostname => self.text(self.context.process().hostname.as_bytes()),
            LogVariable::UniqueId => {
                let id = self.context.unique_id();
                self.text(id.as_deref().unwrap_or_default());
            }
            // Without an answer HTTP has none, and what is not HTTP has zero.
            LogVariable::Status
                if fields.status == 0
                    && fields.session
                    && self.context.frontend().is_some_and(|frontend| frontend.http) =>
            {
                self.integer(-1);
            }
            LogVariable::Status => self.integer(i64::from(fields.status)),
            LogVariable::Termination => self.raw(fields.termination.get(..2).unwrap_or_default()),
            LogVariable::TerminationCookie => self.raw(&fields.termination),
            LogVariable::ActiveConnections => self.integer(i64::from(fields.active_connections)),
            LogVariable::FrontendConnections => self.integer(i64::from(fields.frontend_connections)),
            LogVariable::BackendConnections => self.integer(i64::from(fields.backend_connections)),
            LogVariable::ServerConnections => self.integer(i64::from(fields.server_connections)),
            LogVariable::Retries => {
                if fields.redispatched {
                    self.output.push(b'+');
                }
                self.integer(i64::from(fields.retries));
            }
            LogVariable::ServerQueue => self.integer(i64::from(fields.server_queue)),
            LogVariable::BackendQueue => self.integer(i64::from(fields.backend_queue)),
            LogVariable::RequestCounter => self.counter(fields.request_counter),
            LogVariable::LogCounter => self.counter(fields.log_counter),
            LogVariable::Pid => self.counter(u64::from(self.context.process().pid)),
            LogVariable::Server => self.text(fields.server.unwrap_or(NO_SERVER).as_bytes()),
            LogVariable::Cipher => self.text(fields.cipher.unwrap_or_default().as_bytes()),
            LogVariable::TlsVersion => self.text(fields.tls_version.unwrap_or_default().as_bytes()),
            LogVariable::Frontend => {
                let name = self.frontend();
                self.text(name.as_bytes());
            }
            LogVariable::FrontendTransport => self.frontend_transport(),
            LogVariable::Backend => {
                let name = self.context.backend().map_or_else(|| self.frontend(), |backend| backend.name);
                self.text(name.as_bytes());
            }
            LogVariable::RequestHeaders
            | LogVariable::RequestHeaderList
            | LogVariable::ResponseHeaders
            | LogVariable::ResponseHeaderList => self.captures(variable),
            LogVariable::Request
            | LogVariable::Method
            | LogVariable::Path
            | LogVariable::PathOnly
            | LogVariable::Query
            | LogVariable::Uri
            | LogVariable::Version => self.request_part(variable),
            LogVariable::ClientIp
            | LogVariable::ClientPort
            | LogVariable::FrontendIp
            | LogVariable::FrontendPort
            | LogVariable::BackendIp
            | LogVariable::BackendPort
            | LogVariable::ServerIp
            | LogVariable::ServerPort => self.address(variable),
            LogVariable::Date
            | LogVariable::DateUtc
            | LogVariable::DateLocal
            | LogVariable::RequestDate
            | LogVariable::RequestDateUtc
            | LogVariable::RequestDateLocal
            | LogVariable::RequestDateIso
            | LogVariable::Timestamp
            | LogVariable::Milliseconds => self.date(variable),
            LogVariable::ActiveTime
            | LogVariable::ConnectTime
            | LogVariable::HandshakeTime
            | LogVariable::IdleTime
            | LogVariable::AcceptToRequestTime
            | LogVariable::ResponseTime
            | LogVariable::RequestTime
            | LogVariable::DataTime
            | LogVariable::TotalTime
            | LogVariable::UserTime
            | LogVariable::QueueTime => self.timer(variable),
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    fn text(&mut self, value: &[u8]) {
        text(value, self.flags, self.output);
    }

    fn integer(&mut self, value: i64) {
        push_decimal(value, 1, self.output);
    }

    /// A number that is final only at the end: with a plus sign before it when the line is written earlier.
    fn totalled(&mut self, value: i64) {
        if self.fields.partial {
            self.output.push(b'+');
        }
        self.integer(value);
    }

    fn counter(&mut self, value: u64) {
        if self.flags.hexadecimal {
            self.raw(format!("{:04X}", value & 0xffff_ffff).as_bytes());
        } else {
            self.integer(signed(value));
        }
    }

    fn frontend(&self) -> &'a str {
        self.context.frontend().map_or("", |frontend| frontend.name)
    }

    fn frontend_transport(&mut self) {
        let context = self.context;
        let name = context.frontend().map_or("", |frontend| frontend.name);
        let quote = self.flags.quote;
        if quote {
            self.output.push(b'"');
        }
        self.raw(name.as_bytes());
        if context.client().is_some_and(|client| client.encrypted) {
            self.output.push(b'~');
        }
        if quote {
            self.output.push(b'"');
        }
    }

    fn captures(&mut self, variable: LogVariable) {
        let (is_request, is_list) = match variable {
            LogVariable::RequestHeaders => (true, false),
            LogVariable::RequestHeaderList => (true, true),
            LogVariable::ResponseHeaders => (false, false),
            _ => (false, true),
        };
        let count = if is_request { self.fields.request_captures } else { self.fields.response_captures };
        if count == 0 {
            return;
        }
        let quote = self.flags.quote;
        if !is_list {
            self.raw(if quote { b"\"{" } else { b"{" });
        }
        for slot in 0..count {
            if slot > 0 {
                self.output.push(if is_list { b' ' } else { b'|' });
            }
            if is_list && quote {
                self.output.push(b'"');
            }
            let context = self.context;
            let value = if is_request { context.request_capture(slot) } else { context.response_capture(slot) };
            match value {
                Some(value) => encode(&value, b'#', needs_header_encoding, self.flags.escape, self.output),
                None if is_list && !quote => self.output.push(b'-'),
                None => {}
            }
            if is_list && quote {
                self.output.push(b'"');
            }
        }
        if !is_list {
            self.raw(if quote { b"}\"" } else { b"}" });
        }
    }

    fn request_part(&mut self, variable: LogVariable) {
        let context = self.context;
        let line: Option<Bytes<'_>> = context.request_line();
        let part = request_part(line.as_deref(), variable);
        if self.flags.quote {
            self.output.push(b'"');
        }
        encode(part, b'#', needs_url_encoding, self.flags.escape, self.output);
        if self.flags.quote {
            self.output.push(b'"');
        }
    }

    fn address(&mut self, variable: LogVariable) {
        let context = self.context;
        let connection = match variable {
            LogVariable::ClientIp | LogVariable::ClientPort | LogVariable::FrontendIp | LogVariable::FrontendPort => {
                context.client()
            }
            _ => context.upstream(),
        };
        let address = connection.and_then(|connection| match variable {
            LogVariable::ClientIp | LogVariable::ClientPort | LogVariable::BackendIp | LogVariable::BackendPort => {
                connection.source
            }
            _ => connection.destination,
        });
        let is_port = matches!(
            variable,
            LogVariable::ClientPort | LogVariable::FrontendPort | LogVariable::BackendPort | LogVariable::ServerPort
        );
        match address {
            None => self.text(b""),
            // A unix socket has no port: the number of its listener stands for it.
            Some(Address::Unix) if is_port => {
                let id = context.listener().map_or(0, |listener| listener.id);
                self.integer(i64::from(id));
            }
            Some(Address::Unix) => self.text(b"unix"),
            Some(Address::Inet(address)) if is_port && self.flags.hexadecimal => {
                self.raw(format!("{:04X}", address.port()).as_bytes());
            }
            Some(Address::Inet(address)) if is_port => self.integer(i64::from(address.port())),
            Some(Address::Inet(address)) => self.ip(address.ip()),
        }
    }

    fn ip(&mut self, address: IpAddr) {
        match (address, self.flags.hexadecimal) {
            (IpAddr::V4(address), true) => self.raw(format!("{:08X}", u32::from(address)).as_bytes()),
            (IpAddr::V6(address), true) => self.raw(format!("{:032X}", u128::from(address)).as_bytes()),
            (IpAddr::V4(address), false) if !self.flags.quote => push_ipv4(address, self.output),
            (IpAddr::V4(address), false) => self.text(address.to_string().as_bytes()),
            (IpAddr::V6(address), false) => self.text(ipv6_text(address).as_bytes()),
        }
    }

    fn date(&mut self, variable: LogVariable) {
        let fields = self.fields;
        let mut date = fields.accept_date;
        if matches!(
            variable,
            LogVariable::RequestDate
                | LogVariable::RequestDateUtc
                | LogVariable::RequestDateLocal
                | LogVariable::RequestDateIso
        ) && fields.idle_ms >= 0
        {
            let later = u64::try_from(fields.idle_ms + fields.handshake_ms).unwrap_or(0);
            date += Duration::from_millis(later);
        }
        let seconds = signed(date.as_secs());
        let milliseconds = i64::from(date.subsec_millis());
        match variable {
            LogVariable::Date | LogVariable::RequestDate => {
                let offset = self.context.local_offset(seconds);
                calendar(seconds.saturating_add(i64::from(offset)), self.output);
                self.output.push(b'.');
                push_decimal(milliseconds, 3, self.output);
            }
            LogVariable::DateUtc | LogVariable::RequestDateUtc => {
                calendar(seconds, self.output);
                self.raw(b" +0000");
            }
            LogVariable::DateLocal | LogVariable::RequestDateLocal => {
                let offset = self.context.local_offset(seconds);
                calendar(seconds.saturating_add(i64::from(offset)), self.output);
                self.output.push(b' ');
                self.raw(offset_text(offset).as_bytes());
            }
            LogVariable::RequestDateIso => {
                let date = Date::at(seconds);
                let text = format!(
                    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{milliseconds:03}Z",
                    date.year, date.month, date.day, date.hour, date.minute, date.second
                );
                self.raw(text.as_bytes());
            }
            LogVariable::Timestamp if self.flags.hexadecimal => {
                self.raw(format!("{:04X}", seconds & 0xffff_ffff).as_bytes());
            }
            LogVariable::Timestamp => self.integer(seconds),
            _ if self.flags.hexadecimal => self.raw(format!("{milliseconds:02X}").as_bytes()),
            _ => push_decimal(milliseconds, 3, self.output),
        }
    }

    fn timer(&mut self, variable: LogVariable) {
        let fields = self.fields;
        let since = |moment: i64, before: i64| if moment >= 0 { moment - before } else { -1 };
        let idle = fields.idle_ms.max(0);
        let before_request = if fields.idle_ms >= 0 { fields.idle_ms + fields.handshake_ms } else { 0 };
        let value = match variable {
            LogVariable::HandshakeTime => fields.handshake_ms,
            LogVariable::IdleTime => fields.idle_ms,
            LogVariable::RequestTime => since(fields.request_ms, fields.idle_ms + fields.handshake_ms),
            LogVariable::AcceptToRequestTime => fields.request_ms,
            LogVariable::QueueTime => since(fields.queue_ms, fields.request_ms),
            LogVariable::ConnectTime => since(fields.connect_ms, fields.queue_ms),
            LogVariable::ResponseTime => since(fields.data_ms, fields.connect_ms),
            LogVariable::DataTime if self.context.backend().is_some_and(|backend| backend.http) => {
                if fields.data_ms >= 0 { fields.close_ms - fields.data_ms } else { -1 }
            }
            LogVariable::DataTime if fields.connect_ms >= 0 => fields.close_ms - fields.connect_ms,
            LogVariable::DataTime => -1,
            LogVariable::ActiveTime => return self.totalled(fields.close_ms - before_request),
            LogVariable::UserTime => return self.totalled(fields.close_ms - idle),
            _ => return self.totalled(fields.close_ms),
        };
        self.integer(value);
    }
}

/// A counter as an integer that has a sign.
fn signed(counter: u64) -> i64 {
    i64::try_from(counter).unwrap_or(i64::MAX)
}

/// `14/Nov/2023:22:13:20`
fn calendar(seconds: i64, output: &mut Vec<u8>) {
    let civil = Date::at(seconds);
    push_decimal(i64::from(civil.day), 2, output);
    output.push(b'/');
    output.extend_from_slice(civil.month_short().as_bytes());
    output.push(b'/');
    push_decimal(civil.year, 4, output);
    for part in [civil.hour, civil.minute, civil.second] {
        output.push(b':');
        push_decimal(i64::from(part), 2, output);
    }
}

/// A part of a request line such as `GET /path?query HTTP/1.1`, which may be malformed.
fn request_part(line: Option<&[u8]>, variable: LogVariable) -> &[u8] {
    let Some(line) = line else { return BAD_REQUEST };
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let word = |text: &[u8]| text.iter().position(is_blank).unwrap_or(text.len());
    let skip = |text: &[u8]| text.iter().take_while(|byte| is_blank(byte)).count();
    let method_end = word(line);
    let method = line.get(..method_end).unwrap_or_default();
    let after_method = line.get(method_end..).unwrap_or_default();
    if variable == LogVariable::Request {
        return line;
    }
    if variable == LogVariable::Query {
        let query = memchr::memchr(b'?', line).and_then(|start| line.get(start..)).unwrap_or_default();
        return query.get(..word(query)).unwrap_or_default();
    }
    if after_method.is_empty() {
        return BAD_REQUEST;
    }
    let target = after_method.get(skip(after_method)..).unwrap_or_default();
    let target_end = word(target);
    let uri = target.get(..target_end).unwrap_or_default();
    match variable {
        LogVariable::Method => method,
        LogVariable::Uri => uri,
        LogVariable::Path => uri.get(..memchr::memchr(b'?', uri).unwrap_or(uri.len())).unwrap_or_default(),
        LogVariable::PathOnly => http_path::path(uri).unwrap_or_default(),
        _ => {
            let rest = target.get(target_end..).unwrap_or_default();
            match rest.get(skip(rest)..).unwrap_or_default() {
                b"" => b"HTTP/0.9",
                version => version,
            }
        }
    }
}
