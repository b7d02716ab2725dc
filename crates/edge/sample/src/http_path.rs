//! Parts of a request's target.

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `*`
    Asterisk,
    /// `/path`
    Origin,
    /// `http://host/path`
    Absolute,
    /// `host:port`
    Authority,
}

fn form(uri: &[u8]) -> Option<Form> {
    match uri.first()? {
        b'/' => Some(Form::Origin),
        b'*' => Some(Form::Asterisk),
        b'a'..=b'z' | b'A'..=b'Z' => {
            // A scheme is followed by a colon and two slashes; otherwise this is a host and a port.
            let scheme = uri.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
            match uri.get(scheme..) {
                Some(rest) if rest.starts_with(b"://") => Some(Form::Absolute),
                _ => Some(Form::Authority),
            }
        }
        _ => Some(Form::Authority),
    }
}

/// The path and the query of a target.
pub(crate) fn path_and_query(uri: &[u8]) -> Option<&[u8]> {
    match form(uri)? {
        Form::Origin => Some(uri),
        Form::Asterisk | Form::Authority => None,
        Form::Absolute => {
            let start = memchr::memmem::find(uri, b"://")? + 3;
            let rest = uri.get(start..)?;
            let path = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'))?;
            rest.get(path..).filter(|rest| rest.first() == Some(&b'/'))
        }
    }
}

/// The path of a target.
pub(crate) fn path(uri: &[u8]) -> Option<&[u8]> {
    let whole = path_and_query(uri)?;
    whole.get(..memchr::memchr(b'?', whole).unwrap_or(whole.len()))
}

/// The query of a target, without its question mark.
pub(crate) fn query(uri: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b'?', uri)?;
    uri.get(start + 1..)
}
