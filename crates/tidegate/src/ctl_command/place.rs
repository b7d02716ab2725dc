//! Which stats socket is meant, and how it is reached.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use clap::Args;
use edge::role::{EdgeOptions, read};
use runtime::{abstract_address, process::run_file::RunFile};

use super::error::CtlError;
use crate::masters;

/// Names the stats socket, for all commands of a shell.
const VARIABLE: &str = "TIDEGATE_STATS_SOCKET";
/// What to do about an edge without a stats socket.
const HOW_TO: &str =
    "add `stats socket /run/tidegate/stats mode 660 level admin` to the section `global`, and `tidegate reload`";

/// Which stats socket is meant.
#[derive(Args, Clone, Debug, Default)]
pub struct WhichSocket {
    /// The stats socket: a path, abns@NAME, or HOST:PORT.
    #[arg(long, short, group = "place")]
    socket: Option<String>,
    /// The configuration whose stats socket is meant.
    #[arg(long = "config", short = 'f', value_name = "FILE", group = "place")]
    configuration: Vec<PathBuf>,
    /// The process number of the master whose stats socket is meant, if several run.
    #[arg(long, group = "place")]
    pid: Option<u32>,
}

/// A stats socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its path.
    Unix(PathBuf),
    /// Its name.
    Abstract(String),
    /// By TCP: host and port.
    Inet(String),
}

/// A connection to it.
pub trait Connection: Read + Write + Send {
    /// Another handle of the same connection.
    fn another(&self) -> io::Result<Box<dyn Connection>>;

    /// Ends it, for whoever reads from another handle too.
    fn shut(&self);
}

impl Connection for UnixStream {
    fn another(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn shut(&self) {
        // It may have ended already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Connection for TcpStream {
    fn another(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn shut(&self) {
        // It may have ended already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "{}", path.display()),
            Self::Abstract(name) => write!(formatter, "abns@{name}"),
            Self::Inet(address) => formatter.write_str(address),
        }
    }
}

/// The one that is named, or that of the configuration, of the environment, or of the only master that runs.
pub(super) fn find(arguments: &WhichSocket) -> Result<Place, CtlError> {
    if let Some(written) = &arguments.socket {
        return Place::of(written);
    }
    if !arguments.configuration.is_empty() {
        return of_configuration(&arguments.configuration);
    }
    if let Some(written) = std::env::var(VARIABLE).ok().filter(|written| !written.is_empty() && arguments.pid.is_none())
    {
        return Place::of(&written);
    }
    let running = masters::running().map_err(CtlError::NoPlace)?;
    let chosen: Vec<&RunFile> =
        running.iter().filter(|master| arguments.pid.is_none_or(|pid| master.pid == pid)).collect();
    of_masters(&chosen, arguments.pid)
}

fn of_masters(masters: &[&RunFile], pid: Option<u32>) -> Result<Place, CtlError> {
    match masters {
        [] => Err(CtlError::NoPlace(match pid {
            Some(pid) => format!("process {pid} is no master of `tidegate edge` that runs"),
            None => format!(
                "no master of `tidegate edge` runs. Name the socket with --socket PATH or {VARIABLE}, or the configuration that has it \
                 with -f FILE.\nWhere a configuration has none, {HOW_TO}"
            ),
        })),
        [only] => match only.command_sockets.first() {
            Some(written) => Place::of(written),
            None => Err(CtlError::NoPlace(format!("master {} has no stats socket: {HOW_TO}", only.pid))),
        },
        several => {
            let one = |master: &&RunFile| {
                let socket = master.command_sockets.first().map_or("no stats socket", String::as_str);
                format!("  --pid {}  {}  {socket}", master.pid, master.configuration.join(" "))
            };
            let list: Vec<String> = several.iter().map(one).collect();
            Err(CtlError::NoPlace(format!("{} masters run; name one:\n{}", several.len(), list.join("\n"))))
        }
    }
}

/// The socket of a configuration where commands reach farthest.
fn of_configuration(files: &[PathBuf]) -> Result<Place, CtlError> {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let (parsed, _) =
        read(&EdgeOptions { sources: names.clone(), plugins: crate::plugins::PLUGINS, ..EdgeOptions::default() });
    let Some(config) = parsed.config else {
        return Err(CtlError::NoPlace(format!(
            "{} cannot be read: `tidegate edge -c -f {}` says why",
            names.join(" "),
            names.join(" -f ")
        )));
    };
    // Of several of the same level the first one.
    let socket = config.global.stats_sockets.iter().rev().max_by_key(|socket| socket.level);
    match socket {
        Some(socket) => Place::of(&socket.bind.address.written()),
        None => Err(CtlError::NoPlace(format!("{} has no stats socket: {HOW_TO}", names.join(" ")))),
    }
}

impl Place {
    /// As it is written: a path, `unix@PATH`, `abns@NAME`, `HOST:PORT`.
    fn of(written: &str) -> Result<Self, CtlError> {
        if let Some(name) = written.strip_prefix("abns@") {
            return Ok(Self::Abstract(name.to_owned()));
        }
        let path = written.strip_prefix("unix@").or_else(|| written.strip_prefix("UNIX-CONNECT:"));
        if let Some(path) = path {
            return Ok(Self::Unix(path.into()));
        }
        if written.starts_with("fd@") {
            return Err(CtlError::NoPlace(format!(
                "'{written}' is a descriptor of another process; name a path or an address with --socket"
            )));
        }
        let address = ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"].iter().find_map(|start| written.strip_prefix(start));
        let address = address.unwrap_or(written);
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if has_port && !Path::new(address).exists() {
            Ok(Self::Inet(address.to_owned()))
        } else {
            Ok(Self::Unix(address.into()))
        }
    }

    /// Opens a connection.
    pub(super) fn connect(&self) -> Result<Box<dyn Connection>, CtlError> {
        let opened: io::Result<Box<dyn Connection>> = match self {
            Self::Unix(path) => UnixStream::connect(path).map(|stream| Box::new(stream) as _),
            Self::Abstract(name) => connect_abstract(name).map(|stream| Box::new(stream) as _),
            Self::Inet(address) => connect_inet(address).map(|stream| Box::new(stream) as _),
        };
        opened.map_err(|error| {
            let advice = match (self, error.kind()) {
                (_, ErrorKind::NotFound) => {
                    ": there is no such socket; is the edge running? `tidegate status` shows it"
                }
                (_, ErrorKind::ConnectionRefused) => {
                    ": nobody listens there; is the edge running? `tidegate status` shows it"
                }
                (_, ErrorKind::PermissionDenied) => {
                    "; its `mode`, `user` and `group` in the configuration say who may use it: try `sudo`"
                }
                _ => "",
            };
            let error = if advice.starts_with(':') { String::new() } else { format!(": {error}") };
            CtlError::Unreachable(format!("{self}{error}{advice}"))
        })
    }

    /// Sends a text on a connection of its own, and has the answer read.
    pub(super) fn converse<T>(
        &self,
        text: &str,
        read: impl FnOnce(Box<dyn Connection>) -> io::Result<T>,
    ) -> Result<T, CtlError> {
        let mut stream = self.connect()?;
        // One that hangs up while it is spoken to may still have said why.
        let sent = stream.write_all(text.as_bytes());
        match (read(stream), sent) {
            (Ok(answer), _) => Ok(answer),
            (Err(error), _) if error.kind() == ErrorKind::BrokenPipe => Err(CtlError::Output(error)),
            (Err(source), _) => Err(CtlError::Connection { place: self.to_string(), source }),
        }
    }
}

fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    // As HAProxy's name, filled up; else as it is.
    UnixStream::connect_addr(&abstract_address(name)?)
}

/// One that listens at all addresses is reached at this machine's own.
fn connect_inet(address: &str) -> io::Result<TcpStream> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let port: u16 = port.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "the port is no number"))?;
    let host = host.trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        _ if host.is_empty() || host == "*" => TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
        Ok(ip) if ip.is_unspecified() && ip.is_ipv4() => TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
        Ok(ip) if ip.is_unspecified() => TcpStream::connect((Ipv6Addr::LOCALHOST, port)),
        Ok(ip) => TcpStream::connect(SocketAddr::new(ip, port)),
        Err(_) => {
            let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
            TcpStream::connect(found.as_slice())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let unix = |path: &str| Place::Unix(path.into());
        for (written, expected) in [
            ("/run/tidegate/stats", unix("/run/tidegate/stats")),
            ("unix@/run/s", unix("/run/s")),
            ("UNIX-CONNECT:/run/s", unix("/run/s")),
            ("stats", unix("stats")),
            ("abns@stats", Place::Abstract("stats".into())),
            ("127.0.0.1:9999", Place::Inet("127.0.0.1:9999".into())),
            ("ipv6@[::1]:9999", Place::Inet("[::1]:9999".into())),
        ] {
            assert_eq!(Place::of(written).unwrap(), expected, "{written}");
        }
        assert!(Place::of("fd@3").unwrap_err().to_string().contains("--socket"));
    }

    #[test]
    fn masters_are_chosen_or_listed() {
        let master = |pid: u32, sockets: &[&str]| RunFile {
            pid,
            started: 1,
            configuration: vec![format!("/etc/{pid}.cfg")],
            addresses: Vec::new(),
            command_sockets: sockets.iter().map(|socket| (*socket).to_owned()).collect(),
        };
        let (first, second) = (master(7, &["unix@/run/s", "unix@/run/user"]), master(8, &[]));
        assert_eq!(of_masters(&[&first], None).unwrap(), Place::Unix("/run/s".into()));
        assert!(
            of_masters(&[&second], None)
                .unwrap_err()
                .to_string()
                .starts_with("master 8 has no stats socket: add `stats socket")
        );
        let several = of_masters(&[&first, &second], None).unwrap_err().to_string();
        assert_eq!(
            several,
            "2 masters run; name one:\n  --pid 7  /etc/7.cfg  unix@/run/s\n  --pid 8  /etc/8.cfg  no stats socket"
        );
        assert!(of_masters(&[], None).unwrap_err().to_string().contains("--socket PATH"));
        assert!(of_masters(&[], Some(9)).unwrap_err().to_string().starts_with("process 9 is no master"));
    }
}
