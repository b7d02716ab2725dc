//! The meta-variables of a request (RFC 3875 section 4.1), as HAProxy 2.6 makes them.

use std::{borrow::Cow, net::SocketAddr};

use crate::script::Script;

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// REQUEST_METHOD.
    pub method: &'a [u8],
    /// REQUEST_URI.
    pub uri: &'a [u8],
    /// QUERY_STRING.
    pub query: Option<&'a [u8]>,
    /// SERVER_PROTOCOL.
    pub protocol: &'a [u8],
    /// CONTENT_LENGTH; none if nobody knows it.
    pub content_length: Option<u64>,
    /// The address that the request came from.
    pub remote: Option<SocketAddr>,
    /// The address that it came to.
    pub local: Option<SocketAddr>,
    /// HTTPS.
    pub is_secure: bool,
    /// DOCUMENT_ROOT, in front of all paths of programs.
    pub docroot: &'a [u8],
    /// SERVER_SOFTWARE.
    pub software: &'a [u8],
}

/// A variable that a configuration sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Its name, as [`variable_name`] makes it.
    pub name: Vec<u8>,
    /// Its value, which is not empty.
    pub value: Vec<u8>,
}

/// The variables of a request.
#[derive(Debug)]
pub struct Variables<'a, F> {
    /// What is known of it.
    pub facts: Facts<'a>,
    /// Which program answers it.
    pub script: &'a Script,
    /// The fields of its head that the program may see.
    pub fields: F,
    /// What the configuration says instead.
    pub overrides: &'a [Override],
}

/// Fields that programs do not see unless a configuration says so. `Proxy` would become `HTTP_PROXY`, which clients of HTTP within
/// programs take for their proxy (httpoxy, CVE-2016-5385).
const HIDDEN: [&[u8]; 10] = [
    b"connection",
    b"keep-alive",
    b"authorization",
    b"proxy",
    b"proxy-authorization",
    b"proxy-authenticate",
    b"te",
    b"trailers",
    b"transfer-encoding",
    b"upgrade",
];

/// Whether programs do not see a field unless a configuration says so.
#[must_use]
pub fn is_hidden(name: &[u8]) -> bool {
    HIDDEN.iter().any(|hidden| hidden.eq_ignore_ascii_case(name))
}

/// The name of a variable: capitals, digits and underscores, which stand for all else.
#[must_use]
pub fn variable_name(name: &[u8]) -> Vec<u8> {
    name.iter().copied().map(variable_byte).collect()
}

fn variable_byte(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() } else { b'_' }
}

impl<'a, F: Iterator<Item = (&'a [u8], &'a [u8])> + Clone> Variables<'a, F> {
    /// Gives each variable with its value to `take`, once. Variables without a value are left out, but for QUERY_STRING.
    pub fn for_each(&self, mut take: impl FnMut(&[u8], &[u8])) {
        for Override { name, value } in self.overrides {
            take(name, value);
        }
        self.each_field(&mut take);
        let Facts { method, uri, query, protocol, content_length, remote, local, is_secure, docroot, software } =
            self.facts;
        let mut put = |name: &str, value: &[u8]| {
            if !value.is_empty() && !self.is_overridden(name.as_bytes()) {
                take(name.as_bytes(), value);
            }
        };
        let script = self.overridden(b"SCRIPT_NAME").unwrap_or(&self.script.name);
        // As in HAProxy, a program that the configuration names has no rest of a path that is not named too.
        let path_info = match self.is_overridden(b"SCRIPT_NAME") {
            true => self.overridden(b"PATH_INFO").unwrap_or_default(),
            false => self.overridden(b"PATH_INFO").unwrap_or(&self.script.path_info),
        };
        let docroot = self.overridden(b"DOCUMENT_ROOT").unwrap_or(docroot);
        put("GATEWAY_INTERFACE", b"CGI/1.1");
        put("DOCUMENT_ROOT", docroot);
        put("SCRIPT_NAME", script);
        put("PATH_INFO", path_info);
        put("REQUEST_URI", uri);
        put("REQUEST_METHOD", method);
        put("SERVER_PROTOCOL", protocol);
        let host = self.fields.clone().find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
        match (host, local) {
            (Some((_, host)), _) if !host.is_empty() => put("SERVER_NAME", host),
            (_, Some(local)) => put("SERVER_NAME", local.ip().to_string().as_bytes()),
            _ => {}
        }
        put("SERVER_PORT", local.map_or(0, |local| local.port()).to_string().as_bytes());
        if let Some(remote) = remote {
            put("REMOTE_ADDR", remote.ip().to_string().as_bytes());
        }
        put("REMOTE_PORT", remote.map_or(0, |remote| remote.port()).to_string().as_bytes());
        if !script.is_empty() {
            put("SCRIPT_FILENAME", &[docroot, script].concat());
        }
        if !path_info.is_empty() && !docroot.is_empty() {
            put("PATH_TRANSLATED", &[docroot, path_info].concat());
        }
        if let Some(length) = content_length {
            put("CONTENT_LENGTH", length.to_string().as_bytes());
        }
        put("SERVER_SOFTWARE", software);
        if is_secure {
            put("HTTPS", b"on");
        }
        // RFC 3875 section 4.1.7: it is there even if it is empty.
        if !self.is_overridden(b"QUERY_STRING") {
            take(b"QUERY_STRING", query.unwrap_or_default());
        }
    }

    /// Each field as a variable. What has several values becomes one with all of them (RFC 3875 section 4.1.18): a program that sees
    /// only one must not see another one than the rules in front of it.
    fn each_field(&self, take: &mut impl FnMut(&[u8], &[u8])) {
        let mut fields: Vec<(&[u8], &[u8])> = self.fields.clone().collect();
        // Those that become one variable stand beside each other then, in the order in which they came.
        fields.sort_by(|(one, _), (other, _)| variable_bytes(one).cmp(variable_bytes(other)));
        let mut name = Vec::new();
        for same in fields.chunk_by(|(one, _), (other, _)| variable_bytes(one).eq(variable_bytes(other))) {
            let Some(((field, value), more)) = same.split_first() else { continue };
            name.clear();
            if field.eq_ignore_ascii_case(b"content-length") {
                continue;
            }
            if !field.eq_ignore_ascii_case(b"content-type") {
                name.extend_from_slice(b"HTTP_");
            }
            name.extend(variable_bytes(field));
            if self.is_overridden(&name) {
                continue;
            }
            let mut value = Cow::Borrowed(*value);
            let separator: &[u8] = if field.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
            for (_, more) in more {
                value.to_mut().extend_from_slice(separator);
                value.to_mut().extend_from_slice(more);
            }
            take(&name, &value);
        }
    }

    fn overridden(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.overrides.iter().find(|other| other.name == name).map(|other| &*other.value)
    }

    fn is_overridden(&self, name: &[u8]) -> bool {
        self.overridden(name).is_some()
    }
}

/// The name of the variable that a field becomes, without what stands in front of it.
fn variable_bytes(field: &[u8]) -> impl Iterator<Item = u8> {
    field.iter().copied().map(variable_byte)
}
