//! The greeting: three lines from whoever connected, and a status from the other one.

/// What the protocol is called.
const PROTOCOL: &str = "HAProxyS";
/// The version that is spoken.
const VERSION: (u32, u32) = (2, 1);
/// The one before, without times in updates.
const OLD_MINOR: u32 = 0;
/// A greeting is no longer than this.
pub(crate) const LEN_MAX: usize = 4_096;

/// A status, as peers say it and as `show peers` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// No connection was tried yet.
    #[default]
    None,
    /// A connection is being opened.
    Connecting,
    /// It stands, and the other one has not answered yet.
    Connected,
    /// 200: all is well.
    Success,
    /// 300: there is a connection already.
    TryAgain,
    /// 501: this is not the protocol.
    Protocol,
    /// 502: not this version.
    Version,
    /// 503: another peer was meant.
    LocalName,
    /// 504: such a peer is not known.
    RemoteName,
    /// Something else.
    Other,
}

impl Status {
    /// Its number.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::None | Self::Other => 0,
            Self::Connecting => 100,
            Self::Connected => 110,
            Self::Success => 200,
            Self::TryAgain => 300,
            Self::Protocol => 501,
            Self::Version => 502,
            Self::LocalName => 503,
            Self::RemoteName => 504,
        }
    }

    /// As `show peers` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None | Self::Other => "NONE",
            Self::Connecting => "CONN",
            Self::Connected => "HSHK",
            Self::Success => "ESTA",
            Self::TryAgain => "RETR",
            Self::Protocol => "PROT",
            Self::Version => "VERS",
            Self::LocalName => "NAME",
            Self::RemoteName => "UNKN",
        }
    }

    pub(crate) fn line(self) -> Vec<u8> {
        format!("{}\n", self.code()).into_bytes()
    }
}

/// A greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who is meant.
    pub to: String,
    /// Who speaks.
    pub from: String,
    /// Whether it speaks the version before.
    pub is_old: bool,
}

impl Hello {
    /// Its lines. The process number is told and nobody looks at it.
    pub(crate) fn lines(&self, process: u32) -> Vec<u8> {
        let minor = if self.is_old { OLD_MINOR } else { VERSION.1 };
        format!("{PROTOCOL} {}.{minor}\n{}\n{} {process} 1\n", VERSION.0, self.to, self.from).into_bytes()
    }
}

/// The line that begins at `at`, and where the next one does.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = rest.get(..end)?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1))
}

fn version(line: &[u8]) -> Result<bool, Status> {
    let text = std::str::from_utf8(line).map_err(|_| Status::Protocol)?;
    let version = text.strip_prefix(PROTOCOL).and_then(|rest| rest.strip_prefix(' ')).ok_or(Status::Protocol)?;
    let (major, minor) = version.split_once('.').ok_or(Status::Version)?;
    let number = |text: &str| -> Result<u32, Status> {
        // A sign is no digit.
        Some(text)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or(Status::Version)
    };
    match (number(major)?, number(minor)?) {
        (major, minor) if major == VERSION.0 && minor <= VERSION.1 => Ok(minor == OLD_MINOR),
        _ => Err(Status::Version),
    }
}

/// Reads a greeting to `local` from the front of `bytes`, and tells how long it is; nothing while it is not whole.
///
/// # Errors
/// What to answer, as soon as a line is wrong.
pub fn parse_hello(bytes: &[u8], local: &str) -> Result<Option<(Hello, usize)>, Status> {
    let Some((first, at)) = line(bytes, 0) else { return Ok(None) };
    let is_old = version(first)?;
    let Some((second, at)) = line(bytes, at) else { return Ok(None) };
    if second != local.as_bytes() {
        return Err(Status::LocalName);
    }
    let Some((third, end)) = line(bytes, at) else { return Ok(None) };
    let third = std::str::from_utf8(third).map_err(|_| Status::RemoteName)?;
    let (from, _) = third.split_once(' ').ok_or(Status::Protocol)?;
    Ok(Some((Hello { to: local.to_owned(), from: from.to_owned(), is_old }, end)))
}

/// Reads a status from the front of `bytes`, and tells how long it is; nothing while it is not whole.
#[must_use]
pub fn parse_status(bytes: &[u8]) -> Option<(Status, usize)> {
    let (line, end) = line(bytes, 0)?;
    let number = std::str::from_utf8(line).ok().and_then(|text| text.trim_ascii().parse::<u32>().ok());
    let status = match number {
        Some(200) => Status::Success,
        Some(300) => Status::TryAgain,
        Some(501) => Status::Protocol,
        Some(502) => Status::Version,
        Some(503) => Status::LocalName,
        Some(504) => Status::RemoteName,
        _ => Status::Other,
    };
    Some((status, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings() {
        let hello = |is_old| Hello { to: "B".into(), from: "A".into(), is_old };
        for (text, expected) in [
            ("", Ok(None)),
            ("HAProxyS 2.1", Ok(None)),
            ("HAProxyS 2.1\nB\nA 7 1", Ok(None)),
            ("HAProxyS 2.1\nB\nA 7 1\nx", Ok(Some((hello(false), 21)))),
            ("HAProxyS 2.0\r\nB\r\nA 7 0\r\n", Ok(Some((hello(true), 24)))),
            ("HTTP/1.1\n", Err(Status::Protocol)),
            ("HAProxyS 2\n", Err(Status::Version)),
            ("HAProxyS 2.2\n", Err(Status::Version)),
            ("HAProxyS 1.0\n", Err(Status::Version)),
            ("HAProxyS 2.+1\n", Err(Status::Version)),
            ("HAProxyS 2.\n", Err(Status::Version)),
            ("HAProxyS 2.1\nC\n", Err(Status::LocalName)),
            ("HAProxyS 2.1\nB\nA\n", Err(Status::Protocol)),
        ] {
            assert_eq!(parse_hello(text.as_bytes(), "B"), expected, "{text:?}");
        }
        for is_old in [false, true] {
            let lines = hello(is_old).lines(5);
            assert_eq!(parse_hello(&lines, "B"), Ok(Some((hello(is_old), lines.len()))));
        }
    }

    #[test]
    fn statuses() {
        for status in [Status::Success, Status::TryAgain, Status::Version, Status::LocalName, Status::RemoteName] {
            assert_eq!(parse_status(&status.line()), Some((status, 4)));
        }
        assert_eq!(parse_status(b"200"), None);
        assert_eq!(parse_status(b"no\n"), Some((Status::Other, 3)));
    }
}
