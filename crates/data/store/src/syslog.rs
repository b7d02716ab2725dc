//! Messages to the machine's syslog (`syslog-enabled`), in the form of RFC 3164 that its socket is written in.

use std::{
    io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};

use commands::config::{LogLevel, Settings, SyslogFacility};

/// Where the machine listens for messages, unless the variable says otherwise (tests do).
const SOCKET: &str = "/dev/log";
const SOCKET_VARIABLE: &str = "TIDEGATE_SYSLOG_SOCKET";
/// What syslogs take of a message. What is longer is cut.
const MESSAGE_MAX: usize = 8192;

/// The machine's syslog.
#[derive(Debug)]
pub struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
    facility: u8,
    ident: String,
}

impl Syslog {
    /// As the settings say; nothing if they do not want it.
    ///
    /// # Errors
    ///
    /// There are no more descriptors.
    pub fn of(settings: &Settings) -> io::Result<Option<Self>> {
        if !settings.syslog_enabled.0 {
            return Ok(None);
        }
        let socket = UnixDatagram::unbound()?;
        // A syslog that hangs has nobody wait: the message is lost.
        socket.set_nonblocking(true)?;
        let path = std::env::var_os(SOCKET_VARIABLE).map_or_else(|| PathBuf::from(SOCKET), PathBuf::from);
        let ident = settings.syslog_ident.0.chars().filter(|letter| !letter.is_control()).collect();
        Ok(Some(Self { path, socket, facility: facility(settings.syslog_facility), ident }))
    }

    /// Where messages go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a message. `date` begins as `21 Nov 2026 15:04:05`.
    ///
    /// # Errors
    ///
    /// Nobody listens. Each message is sent anew, so a syslog that comes back gets the next one.
    pub fn send(&self, level: LogLevel, date: &str, text: &str) -> io::Result<()> {
        let mut line = self.line(level, date, text);
        line.truncate(line.floor_char_boundary(MESSAGE_MAX));
        self.socket.send_to(line.as_bytes(), &self.path).map(|_| ())
    }

    fn line(&self, level: LogLevel, date: &str, text: &str) -> String {
        let priority = self.facility << 3 | severity(level);
        let mut parts = date.split(' ');
        let mut next = || parts.next().unwrap_or_default();
        let (day, month, _, time) = (next(), next(), next(), next());
        let (time, day) = (time.split('.').next().unwrap_or_default(), day.trim_start_matches('0'));
        let text = text.replace(['\n', '\r', '\0'], " ");
        format!("<{priority}>{month} {day:>2} {time} {}[{}]: {text}", self.ident, std::process::id())
    }
}

/// As Redis has them.
fn severity(level: LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 7,
        LogLevel::Verbose => 6,
        LogLevel::Notice => 5,
        LogLevel::Warning => 4,
    }
}

fn facility(facility: SyslogFacility) -> u8 {
    match facility {
        SyslogFacility::User => 1,
        SyslogFacility::Local0 => 16,
        SyslogFacility::Local1 => 17,
        SyslogFacility::Local2 => 18,
        SyslogFacility::Local3 => 19,
        SyslogFacility::Local4 => 20,
        SyslogFacility::Local5 => 21,
        SyslogFacility::Local6 => 22,
        SyslogFacility::Local7 => 23,
    }
}

#[cfg(test)]
mod tests {
    use commands::config::{Flag, Text};

    use super::*;

    #[test]
    fn a_message_has_priority_date_name_and_number() {
        let settings = Settings {
            syslog_enabled: Flag(true),
            syslog_ident: Text("cache\n1".into()),
            syslog_facility: SyslogFacility::Local3,
            ..Settings::default()
        };
        let syslog = Syslog::of(&settings).unwrap().unwrap();
        let id = std::process::id();
        for (level, date, text, expected) in [
            (LogLevel::Debug, "01 Jan 1970 00:00:00.000", "a", format!("<159>Jan  1 00:00:00 cache1[{id}]: a")),
            (LogLevel::Verbose, "21 Nov 2026 15:48:53.730", "a", format!("<158>Nov 21 15:48:53 cache1[{id}]: a")),
            (LogLevel::Notice, "10 Nov 2026 15:48:53.730", "a\nb", format!("<157>Nov 10 15:48:53 cache1[{id}]: a b")),
            (LogLevel::Warning, "10 Nov 2026 15:48:53.730", "", format!("<156>Nov 10 15:48:53 cache1[{id}]: ")),
        ] {
            assert_eq!(syslog.line(level, date, text), expected);
        }
        assert!(Syslog::of(&Settings::default()).unwrap().is_none());
    }
}
