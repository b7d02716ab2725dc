//! The configuration of the edge that varnishd's options stand for: one frontend, whose programs come from the manager.

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf};

use varnishcli::{Param, Parameters};

use crate::backends::{milliseconds, quoted};

/// What a buffer has room for at least.
const HEAD_BYTES_MIN: u64 = 15 << 10;

/// What may be added to a head here.
const REWRITTEN_BYTES_MAX: u64 = 1 << 10;

/// Where HTTP is listened for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Its name.
    pub name: String,
    /// Where.
    pub place: Place,
    /// Whether connections begin with a PROXY header.
    pub is_proxy: bool,
}

/// An address, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address.
    Inet(SocketAddr),
    /// A socket in the file system, and what is said of its rights: `mode 777`.
    Path {
        /// The path.
        path: String,
        /// Words of `bind`.
        rights: Vec<(String, String)>,
    },
}

/// What the edge is made of.
#[derive(Clone, Debug, Default)]
pub struct Frontend {
    /// `-a`
    pub listen: Vec<Listen>,
    /// `-s`
    pub storages: Vec<String>,
    /// `-i`
    pub identity: Option<String>,
    /// `-j`: whom the worker becomes when it has its sockets, a user and a group.
    pub becomes: Option<(u32, u32)>,
    /// `-n`: where the log and the counters are published.
    pub workdir: PathBuf,
}

/// Writes it.
#[must_use]
pub fn configuration(frontend: &Frontend, parameters: &Parameters) -> String {
    let mut text = String::from("# What varnishd's options stand for.\nglobal\n");
    let _ = write!(text, "    varnish-workdir {}", quoted(&frontend.workdir.to_string_lossy()));
    // NOTE: what stays as it is as long as the worker lives. The mask is told like other parameters.
    for parameter in [Param::vsl_space, Param::vsl_buffer, Param::vsl_reclen] {
        let _ = write!(text, " param {}={}", parameter.name(), parameters.bytes(parameter));
    }
    // A buffer has the largest head that there may be, and what is added to it.
    let head = parameters.bytes(Param::http_req_size).max(parameters.bytes(Param::http_resp_size)).max(HEAD_BYTES_MIN);
    let _ =
        write!(text, "\n    tune.bufsize {}\n    tune.maxrewrite {REWRITTEN_BYTES_MAX}", head + REWRITTEN_BYTES_MAX);
    if let Some((user, group)) = frontend.becomes {
        let _ = write!(text, "\n    uid {user}\n    gid {group}");
    }
    text.push_str("\n\ndefaults\n    mode http\n");
    let time = |parameter| milliseconds(parameters.number(parameter));
    let _ = writeln!(text, "    timeout client {}", time(Param::send_timeout));
    let _ = writeln!(text, "    timeout http-keep-alive {}", time(Param::timeout_idle));
    let _ = writeln!(text, "    timeout http-request {}", time(Param::timeout_idle));
    let _ = writeln!(text, "    timeout connect {}", time(Param::connect_timeout));
    let _ = writeln!(text, "    timeout server {}\n", time(Param::first_byte_timeout));
    text.push_str("frontend varnish\n");
    for listen in &frontend.listen {
        let proxy = if listen.is_proxy { " accept-proxy" } else { "" };
        let mut address = match &listen.place {
            Place::Inet(address) => address.to_string(),
            Place::Path { path, .. } => quoted(path),
        };
        if let Place::Path { rights, .. } = &listen.place {
            rights.iter().for_each(|(word, value)| address.push_str(&format!(" {word} {}", quoted(value))));
        }
        let _ = writeln!(text, "    bind {address} name {}{proxy}", quoted(&listen.name));
    }
    text.push_str("    vcl managed");
    for storage in &frontend.storages {
        let _ = write!(text, " storage {}", quoted(storage));
    }
    if let Some(identity) = &frontend.identity {
        let _ = write!(text, " identity {}", quoted(identity));
    }
    text.push('\n');
    text
}
