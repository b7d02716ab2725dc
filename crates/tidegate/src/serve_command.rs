//! `tidegate serve DIR`: a folder as a web site. The options stand for a haproxy.cfg, which `--print` shows; the edge runs that text as it
//! runs any other.

use std::{fmt::Write as _, io::Write as _, path::PathBuf, process::ExitCode};

use crate::edge_command::{self, Configuration};

/// Where it listens unless it is told: nobody but this machine sees a folder by accident.
const LISTEN: &str = "127.0.0.1:8080";
/// Types that are compressed on the fly. Others are compressed already, or do not become smaller.
const COMPRESSED: &str = "text/html text/css text/plain text/csv text/xml text/markdown text/javascript application/javascript \
                          application/json application/manifest+json application/xml application/wasm image/svg+xml";

/// The options.
#[derive(Debug, clap::Args)]
pub struct ServeArguments {
    /// The folder.
    #[arg(default_value = ".", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
    /// Where to listen: a port, or an address and a port; may be given several times.
    #[arg(long, short, default_value = LISTEN, value_name = "ADDRESS:PORT")]
    listen: Vec<String>,
    /// Answer what is not there with the index page, which looks at the path itself (a single-page application).
    #[arg(long)]
    spa: bool,
    /// Let pages of all other sites read the files.
    #[arg(long)]
    cors: bool,
    /// Ask for user and password, which stand in this file (as htpasswd makes it).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    auth: Option<PathBuf>,
    /// Let browsers keep files for so long without asking, pages excepted: 1h, 30d. They ask each time otherwise.
    #[arg(long, value_name = "TIME")]
    cache: Option<String>,
    /// Show no listings of folders without an index page.
    #[arg(long)]
    no_listing: bool,
    /// Serve names that begin with a dot, too.
    #[arg(long)]
    hidden: bool,
    /// Write the access log there, as nginx and Apache write it: a file, `-` for standard output, or off. Standard output unless
    /// `--quiet` is given.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Print the equivalent haproxy.cfg, and end.
    #[arg(long)]
    print: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    quiet: bool,
}

/// Where the access log goes.
enum AccessLog {
    Nowhere,
    StandardOutput,
    File(String),
}

/// Why the options stand for nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ServeError {
    /// `DIR`.
    #[error("'{0}' is no folder: {1}")]
    Folder(String, String),
    /// A path that no configuration can hold.
    #[error("'{0}' cannot stand in a configuration: it is not UTF-8, or has a line break")]
    Path(String),
    /// `--listen`.
    #[error("{0}")]
    Listen(String),
    /// Somebody else listens there.
    #[error("somebody listens at {0} already: take another port, as in --listen 127.0.0.1:8081")]
    Taken(String),
    /// `--cache`.
    #[error("option '--cache': {0}")]
    Cache(String),
}

/// Serves.
pub fn run(arguments: &ServeArguments) -> ExitCode {
    let configuration = match arguments.configuration() {
        Ok(configuration) => configuration,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.print {
        // Whoever reads it may have seen enough.
        let _ = std::io::stdout().write_all(configuration.text.as_bytes());
        return ExitCode::SUCCESS;
    }
    // Processes that this one starts have the sockets.
    if runtime::process::is_first()
        && let Err(error) = arguments.check_ports()
    {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    edge_command::run_configuration(configuration, arguments.quiet)
}

impl ServeArguments {
    fn configuration(&self) -> Result<Configuration, ServeError> {
        let folder = absolute(&self.folder)?;
        let told = |error: std::io::Error| {
            let text = error.to_string();
            ServeError::Folder(folder.clone(), text.split(" (os error").next().unwrap_or(&text).to_owned())
        };
        if !std::fs::metadata(&folder).map_err(told)?.is_dir() {
            return Err(ServeError::Folder(folder, "it is a file; name the folder that it is in".to_owned()));
        }
        let bind = |word: &String| edge_command::bind_address(word, "--listen").map_err(ServeError::Listen);
        let binds = self.listen.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let options = self.options(&folder);
        let text = self.text(&options, &folder, &binds)?;
        let urls: Vec<String> = binds.iter().map(|bind| edge_command::url(bind)).collect();
        let greeting = format!(
            "Serving {folder} at {}.\nThe end: Ctrl-C, or tidegate stop. What happens in each request: tidegate log.\n\
             As a haproxy.cfg, to go on from: tidegate {options} --print\n",
            urls.join(", ")
        );
        Ok(Configuration { text, greeting, options })
    }

    fn access_log(&self) -> Result<AccessLog, ServeError> {
        match self.log.as_deref() {
            None if self.quiet => Ok(AccessLog::Nowhere),
            Some(word) if word.as_os_str() == "off" => Ok(AccessLog::Nowhere),
            None => Ok(AccessLog::StandardOutput),
            Some(word) if word.as_os_str() == "-" => Ok(AccessLog::StandardOutput),
            Some(path) => absolute(path).map(AccessLog::File),
        }
    }

    /// Whether nobody listens there: two that listen at one address would share its clients.
    fn check_ports(&self) -> Result<(), ServeError> {
        for word in &self.listen {
            let bind = edge_command::bind_address(word, "--listen").map_err(ServeError::Listen)?;
            let address = match bind.split_once(':') {
                Some(("" | "*", port)) => format!("0.0.0.0:{port}"),
                _ => bind.clone(),
            };
            if let Err(error) = std::net::TcpListener::bind(&address)
                && error.kind() == std::io::ErrorKind::AddrInUse
            {
                return Err(ServeError::Taken(bind));
            }
        }
        Ok(())
    }

    /// The options as somebody may have written them.
    fn options(&self, folder: &str) -> String {
        let mut text = format!("serve {}", quoted(folder));
        for listen in self.listen.iter().filter(|listen| *listen != LISTEN) {
            let _ = write!(text, " --listen {listen}");
        }
        for (option, is_given) in
            [("--spa", self.spa), ("--cors", self.cors), ("--no-listing", self.no_listing), ("--hidden", self.hidden)]
        {
            if is_given {
                let _ = write!(text, " {option}");
            }
        }
        if let Some(file) = &self.auth {
            let _ = write!(text, " --auth {}", quoted(&file.to_string_lossy()));
        }
        if let Some(time) = &self.cache {
            let _ = write!(text, " --cache {time}");
        }
        if let Some(log) = &self.log {
            let _ = write!(text, " --log {}", quoted(&log.to_string_lossy()));
        }
        text
    }

    fn text(&self, options: &str, folder: &str, binds: &[String]) -> Result<String, ServeError> {
        let mut text = format!(
            "# What `tidegate {options}` stands for.\n# `tidegate edge -f FILE` runs it.\ndefaults\n    mode http\n    \
             timeout connect 5s\n    timeout client 1m\n    timeout server 1m\n    timeout http-request 10s\n    \
             timeout http-keep-alive 1m\n\n"
        );
        if let Some(file) = &self.auth {
            let _ = write!(text, "userlist users\n    htpasswd {}\n\n", quoted(&absolute(file)?));
        }
        text.push_str("listen files\n");
        for bind in binds {
            let _ = writeln!(text, "    bind {bind}");
        }
        let target = match self.access_log()? {
            AccessLog::Nowhere => None,
            AccessLog::StandardOutput => Some("stdout format raw local0".to_owned()),
            AccessLog::File(path) => Some(format!("{} local0", quoted(&format!("file@{path}")))),
        };
        if let Some(target) = target {
            let _ = writeln!(
                text,
                "    # Lines as nginx and Apache write them.\n    log {target}\n    option httplog combined"
            );
        }
        if self.cors {
            text.push_str(
                "    # Pages of all sites may read what is here.\n    http-request return status 204 hdr access-control-allow-methods \
                 \"GET, HEAD, OPTIONS\" hdr access-control-allow-headers * hdr access-control-max-age 86400 if METH_OPTIONS \
                 { req.hdr(access-control-request-method) -m found }\n    http-after-response set-header access-control-allow-origin *\n",
            );
        }
        if self.auth.is_some() {
            text.push_str("    http-request auth realm files unless { http_auth(users) }\n");
        }
        let _ = write!(text, "    root {}\n    index index.html index.htm\n", quoted(folder));
        if self.hidden {
            text.push_str("    hidden-files allow\n");
        }
        if !self.no_listing {
            text.push_str("    # Folders without an index page show what is in them.\n    autoindex on\n");
        }
        if self.spa {
            text.push_str("    # The page looks at the path itself.\n    try-files $uri $uri/ /index.html\n");
        }
        match &self.cache {
            Some(time) => {
                let words: Vec<&str> = time.split_whitespace().collect();
                web::Expires::parse(&words).map_err(|error| ServeError::Cache(error.to_string()))?;
                let _ = write!(
                    text,
                    "    # Browsers keep files, and ask for pages each time.\n    expires epoch if {{ path_end / .html .htm }}\n    \
                     expires {time}\n"
                );
            }
            None => text.push_str(
                "    # Browsers keep files, and ask each time whether they have changed.\n    expires epoch\n",
            ),
        }
        let _ = write!(
            text,
            "    # Of FILE, FILE.br, FILE.zst and FILE.gz the one that the client likes best.\n    precompressed br zstd gzip\n    \
             compression algo zstd br gzip\n    compression type {COMPRESSED}\n"
        );
        Ok(text)
    }
}

/// A path from the root on.
fn absolute(path: &std::path::Path) -> Result<String, ServeError> {
    let wrong = || ServeError::Path(path.to_string_lossy().into_owned());
    let path = std::path::absolute(path).map_err(|_| wrong())?;
    let text = path.to_str().filter(|text| !text.contains(['\n', '\r', '\0'])).ok_or_else(wrong)?;
    // `.` at the end is nothing that somebody wants to read.
    Ok(text.strip_suffix("/.").filter(|text| !text.is_empty()).unwrap_or(text).to_owned())
}

/// A word as a haproxy.cfg and a shell take it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-@:+,".contains(letter);
    if word.chars().all(is_plain) && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArguments,
    }

    fn configuration(words: &[&str]) -> Result<Configuration, ServeError> {
        let words = [&["serve"], words].concat();
        Line::parse_from(words).serve.configuration()
    }

    #[test]
    fn what_it_stands_for_is_valid_and_says_nothing_doubtful() {
        let place = tempfile::tempdir().unwrap();
        let odd = place.path().join("it's a folder");
        std::fs::create_dir(&odd).unwrap();
        let users = place.path().join("users");
        std::fs::write(&users, "u:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n").unwrap();
        let (odd, users) = (odd.to_str().unwrap(), users.to_str().unwrap());
        for words in [
            &[odd][..],
            &[
                odd,
                "--spa",
                "--cors",
                "--no-listing",
                "--hidden",
                "--cache",
                "1h",
                "--listen",
                ":8081",
                "--listen",
                "[::1]:8082",
            ],
            &[odd, "--auth", users, "--quiet"],
            &[odd, "--log", users],
            &[odd, "--log", "off"],
            &[odd, "--log", "-", "--quiet"],
        ] {
            let configuration = configuration(words).unwrap();
            let given = edge::role::Given { name: "x".to_owned(), text: configuration.text.clone() };
            let edge =
                edge::role::EdgeOptions { sources: vec!["x".to_owned()], given: Some(given), ..Default::default() };
            let (parsed, _) = edge::role::read(&edge);
            assert_eq!(edge::role::render(&parsed), "", "{}", configuration.text);
            assert!(parsed.config.is_some());
        }
    }

    #[test]
    fn it_says_what_is_wrong() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (folder, file) = (place.path().to_str().unwrap(), file.to_str().unwrap());
        for (words, expected) in [
            (&["/no/such/folder"][..], "'/no/such/folder' is no folder: No such file or directory"),
            (&[file], "it is a file; name the folder that it is in"),
            (&[folder, "--listen", "here"], "option '--listen': 'here' is no address to listen on"),
            (&[folder, "--cache", "soon"], "option '--cache': 'soon' is no time"),
        ] {
            let error = configuration(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
