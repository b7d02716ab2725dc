//! The command line.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

const HELP: &str = "\
usage: tidegate-min [DIR] [option...]

Serves a folder as a web site. DIR is the current folder unless it is named.

  --listen ADDRESS:PORT   where to listen (127.0.0.1:8080)
  --index NAME            the file that stands for a folder (index.html)
  --spa                   answer with the index of DIR where there is no file, for applications in the browser
  --no-listing            do not list folders
  --hidden                serve names that begin with a dot
  --connections NUMBER    connections at a time (1024); others wait
  --help, --version";

/// Bounds the memory: a connection takes at most some 20 kB.
const CONNECTIONS_MAX: usize = 100_000;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Say this.
    Say(String),
    /// Serve.
    Serve(Options),
}

/// What to serve.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder.
    pub folder: PathBuf,
    /// Where to listen.
    pub address: SocketAddr,
    /// The name of the file that stands for a folder.
    pub index: String,
    /// The index of the root answers what is not there.
    pub is_application: bool,
    /// Folders are listed.
    pub lists: bool,
    /// Names that begin with a dot are served.
    pub shows_hidden: bool,
    /// Connections at a time.
    pub connections_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: ".".into(),
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            index: "index.html".to_owned(),
            is_application: false,
            lists: true,
            shows_hidden: false,
            connections_max: 1_024,
        }
    }
}

/// What is wrong with the words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

/// Reads the words behind the program's name.
///
/// # Errors
/// What is wrong with them.
pub fn read(words: impl Iterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut options = Options::default();
    let mut has_folder = false;
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        let (name, joined) = match text.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (text.as_str(), None),
        };
        let mut value = || {
            let next = joined.clone().or_else(|| words.next().map(|word| word.to_string_lossy().into_owned()));
            next.filter(|value| !value.is_empty()).ok_or_else(|| UsageError(format!("{name} needs a value")))
        };
        match name {
            "--help" | "-h" => return Ok(Command::Say(HELP.to_owned())),
            "--version" | "-v" | "-V" => {
                return Ok(Command::Say(format!("tidegate-min {}", env!("CARGO_PKG_VERSION"))));
            }
            "--listen" => {
                let value = value()?;
                // `:8080` and `8080` are all addresses.
                let whole = match value.strip_prefix(':').unwrap_or(&value).parse::<u16>() {
                    Ok(port) => format!("0.0.0.0:{port}"),
                    Err(_) => value.clone(),
                };
                options.address = whole.parse().map_err(|_| {
                    UsageError(format!("--listen {value}: not an address and a port, as 127.0.0.1:8080"))
                })?;
            }
            "--index" => {
                let value = value()?;
                if value.contains('/') || value.starts_with('.') {
                    return Err(UsageError(format!("--index {value}: not the name of a file")));
                }
                options.index = value;
            }
            "--connections" => {
                let value = value()?;
                let number = value.parse().ok().filter(|number| (1..=CONNECTIONS_MAX).contains(number));
                options.connections_max = number.ok_or_else(|| {
                    UsageError(format!("--connections {value}: not a number from 1 to {CONNECTIONS_MAX}"))
                })?;
            }
            "--spa" => options.is_application = true,
            "--no-listing" => options.lists = false,
            "--hidden" => options.shows_hidden = true,
            _ if text.starts_with('-') && text != "-" => return Err(UsageError(format!("unknown option {text}"))),
            _ if has_folder => return Err(UsageError(format!("one folder is served, '{text}' is one too many"))),
            _ => {
                options.folder = word.into();
                has_folder = true;
            }
        }
    }
    Ok(Command::Serve(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str) -> Result<Command, UsageError> {
        read(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn words_are_read_or_refused() {
        let Ok(Command::Serve(options)) = told("/srv --listen=:80 --index a.html --spa --connections 5") else {
            panic!("it serves")
        };
        let expected = Options {
            folder: "/srv".into(),
            address: SocketAddr::from(([0, 0, 0, 0], 80)),
            index: "a.html".into(),
            is_application: true,
            connections_max: 5,
            ..Options::default()
        };
        assert_eq!(options, expected);
        for (words, expected) in [
            ("a b", "one folder is served, 'b' is one too many"),
            ("--listen", "--listen needs a value"),
            ("--listen x", "--listen x: not an address and a port, as 127.0.0.1:8080"),
            ("--index ../x", "--index ../x: not the name of a file"),
            ("--connections 0", "--connections 0: not a number from 1 to 100000"),
            ("--tls", "unknown option --tls"),
        ] {
            assert_eq!(told(words), Err(UsageError(expected.to_owned())), "{words}");
        }
    }
}
