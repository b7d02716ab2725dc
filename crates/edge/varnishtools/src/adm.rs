//! `varnishadm`.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    process::ExitCode,
    time::Duration,
};

use varnishcli::{Reply, ReplyReader, Status, auth};

use crate::{
    VERSION,
    options::{self, Specification},
    source::{attach, folder, with_causes},
};

const TOOL: &str = "varnishadm";
/// How long to wait for a reply, unless -t says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);
const CANNOT_CONNECT: u8 = 2;

const OPTIONS: &[Specification] = &[
    ('h', "", "This help"),
    ('n', "name", "The instance: a name, or the path of its working directory"),
    ('p', "", "Print replies as they arrive, with status and length"),
    ('S', "file", "The secret; with -T"),
    ('T', "address:port", "The address at which the instance listens for commands"),
    ('t', "seconds", "How long to wait for a reply"),
    ('V', "", "The version"),
];

/// Sends commands to an instance.
#[must_use]
pub fn varnishadm(words: &[String]) -> ExitCode {
    match run(words) {
        Ok(code) => code,
        Err((code, message)) => {
            eprintln!("{message}");
            ExitCode::from(code)
        }
    }
}

/// An exit code, and what is said.
pub(crate) type Failure = (u8, String);

/// A stream of either kind.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn run(words: &[String]) -> Result<ExitCode, Failure> {
    let usage = |message: String| (1, format!("{TOOL}: {message}"));
    let parsed = options::parse(words, OPTIONS).map_err(usage)?;
    let (mut name, mut secret, mut address, mut is_plain, mut timeout) = (None, None, None, false, TIMEOUT);
    for (option, value) in &parsed.options {
        match option {
            'h' => {
                print!("{}", options::usage(TOOL, " [command ...]", OPTIONS));
                return Ok(ExitCode::SUCCESS);
            }
            'V' => {
                println!("{TOOL} ({VERSION})");
                return Ok(ExitCode::SUCCESS);
            }
            'n' => name = Some(value.as_str()),
            'p' => is_plain = true,
            'S' => secret = Some(value.clone()),
            'T' => address = Some(value.clone()),
            _ => {
                let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                timeout = seconds
                    .filter(|time| !time.is_zero())
                    .ok_or_else(|| usage(format!("-t: Invalid argument: {value}")))?;
            }
        }
    }
    let mut client = match (address, name, secret) {
        (Some(_), Some(_), _) | (None, _, Some(_)) => {
            return Err(usage("-n stands alone; -S goes with -T".to_owned()));
        }
        (Some(address), None, secret) => Client::connect(&address, secret.as_deref(), timeout)?,
        (None, name, None) => connect_by_name(name, timeout)?,
    };
    client.is_plain = is_plain;
    if !parsed.rest.is_empty() {
        return client.once(&parsed.rest.join(" "));
    }
    match io::stdin().is_terminal() && !is_plain {
        true => client.interactive(),
        false => client.pass(),
    }
}

/// The texts of an instance's answers to commands.
///
/// # Errors
/// It takes no commands, does not answer, or refuses one.
pub(crate) fn answers(name: Option<&str>, timeout: Duration, commands: &[&str]) -> Result<Vec<String>, Failure> {
    let mut client = connect_by_name(name, timeout)?;
    let mut answers = Vec::new();
    for command in commands {
        client.send(&format!("{command}\n"))?;
        let reply = client.reply()?;
        answers.push(String::from_utf8_lossy(&reply.text).into_owned());
    }
    Ok(answers)
}

/// Finds address and secret in what the instance publishes.
fn connect_by_name(name: Option<&str>, timeout: Duration) -> Result<Client, Failure> {
    let cannot = |message: String| (CANNOT_CONNECT, message);
    let reader = attach(&folder(name), Some(timeout)).map_err(cannot)?;
    let text = |ident: &str| reader.text("Arg", ident).map_err(|error| cannot(with_causes(&error)));
    let addresses =
        text("-T")?.ok_or_else(|| cannot("No -T in shared memory: the instance takes no commands".to_owned()))?;
    let secret = text("-S")?;
    let mut failure = cannot("No -T in shared memory".to_owned());
    for address in addresses.lines().filter(|address| !address.is_empty()) {
        match Client::connect(address, secret.as_deref(), timeout) {
            Ok(client) => return Ok(client),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

struct Client {
    stream: Box<dyn Stream>,
    replies: ReplyReader,
    is_plain: bool,
}

impl Client {
    /// `host:port`, `host port` or a path; says who it is.
    fn connect(address: &str, secret: Option<&str>, timeout: Duration) -> Result<Self, Failure> {
        let cannot = |message: String| (CANNOT_CONNECT, message);
        let failed = |error: io::Error| cannot(format!("Connection failed ({address}): {error}"));
        let stream: Box<dyn Stream> = if address.starts_with('/') {
            let stream = UnixStream::connect(address).map_err(failed)?;
            stream.set_read_timeout(Some(timeout)).map_err(failed)?;
            Box::new(stream)
        } else {
            let stream = connect(address, timeout).map_err(failed)?;
            stream.set_read_timeout(Some(timeout)).map_err(failed)?;
            Box::new(stream)
        };
        let mut client = Self { stream, replies: ReplyReader::default(), is_plain: false };
        let mut reply = client.reply()?;
        if reply.status == Status::Authentication as u16 {
            let path = secret.ok_or_else(|| cannot("Authentication required".to_owned()))?;
            let secret = fs::read(path).map_err(|error| cannot(format!("Cannot open \"{path}\": {error}")))?;
            let challenge =
                auth::challenge_in(&reply.text).ok_or_else(|| cannot("no challenge from the server".to_owned()))?;
            client.send(&format!("auth {}\n", auth::response(&challenge, &secret)))?;
            reply = client.reply()?;
        }
        if !reply.is_ok() {
            return Err(cannot(format!("Rejected {}\n{}", reply.status, String::from_utf8_lossy(&reply.text))));
        }
        client.send("ping\n")?;
        let pong = client.reply()?;
        match pong.is_ok() && pong.text.starts_with(b"PONG") {
            true => Ok(client),
            false => Err(cannot("No pong received from server".to_owned())),
        }
    }

    fn send(&mut self, text: &str) -> Result<(), Failure> {
        self.stream.write_all(text.as_bytes()).map_err(|error| (1, format!("cannot send: {error}")))
    }

    fn reply(&mut self) -> Result<Reply, Failure> {
        let broken = |message: String| (1, format!("CLI communication error: {message}"));
        let mut buffer = vec![0; 16 * 1024];
        loop {
            if let Some(reply) = self.replies.next().map_err(|message| broken(message.to_owned()))? {
                return Ok(reply);
            }
            let count = self.stream.read(&mut buffer).map_err(|error| broken(error.to_string()))?;
            if count == 0 {
                return Err(broken("the server has closed the connection".to_owned()));
            }
            self.replies.push(buffer.get(..count).unwrap_or_default());
        }
    }

    /// Prints a reply, with its status if `shows_status`.
    fn print(&self, reply: &Reply, shows_status: bool) -> Result<(), Failure> {
        let mut output = io::stdout().lock();
        let mut text = Vec::new();
        if self.is_plain {
            text.extend(format!("{:<3} {:<8}\n", reply.status, reply.text.len()).bytes());
            text.extend(&reply.text);
        } else {
            if shows_status {
                text.extend(format!("{}\n", reply.status).bytes());
            }
            text.extend(&reply.text);
            text.push(b'\n');
            if reply.status == Status::Truncated as u16 {
                text.extend(b"[response was truncated]\n");
            }
        }
        output.write_all(&text).and_then(|()| output.flush()).map_err(|error| (1, format!("cannot write: {error}")))
    }

    fn once(&mut self, command: &str) -> Result<ExitCode, Failure> {
        self.send(&format!("{command}\n"))?;
        let reply = self.reply()?;
        self.print(&reply, false)?;
        match reply.is_ok() {
            true => Ok(ExitCode::SUCCESS),
            false if self.is_plain => Ok(ExitCode::FAILURE),
            false => Err((1, format!("Command failed with error code {}", reply.status))),
        }
    }

    fn interactive(&mut self) -> Result<ExitCode, Failure> {
        self.send("banner\n")?;
        let banner = self.reply()?;
        self.print(&banner, true)?;
        self.lines(true)
    }

    fn pass(&mut self) -> Result<ExitCode, Failure> {
        self.lines(false)
    }

    /// Commands of the standard input, one after the other. A text that `<<` begins goes out as a whole.
    fn lines(&mut self, is_interactive: bool) -> Result<ExitCode, Failure> {
        let mut input = io::stdin().lock();
        loop {
            if is_interactive {
                print!("varnish> ");
                // The prompt is only for the eye.
                let _ = io::stdout().flush();
            }
            let mut line = String::new();
            let read = |input: &mut io::StdinLock<'_>, line: &mut String| {
                input.read_line(line).map_err(|error| (1, format!("cannot read the input: {error}")))
            };
            if read(&mut input, &mut line)? == 0 {
                return Ok(ExitCode::SUCCESS);
            }
            if line.trim().is_empty() {
                continue;
            }
            let end = text_end(&line);
            while let Some(end) = &end {
                let before = line.len();
                let is_over = read(&mut input, &mut line)? == 0;
                if is_over || line.get(before..).is_some_and(|line| line.trim_end().ends_with(end.as_str())) {
                    break;
                }
            }
            if !line.ends_with('\n') {
                line.push('\n');
            }
            self.send(&line)?;
            let reply = self.reply()?;
            self.print(&reply, is_interactive)?;
            if reply.status == Status::Close as u16 {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// The word that ends a text, if the line begins one: `vcl.inline a << END`.
fn text_end(line: &str) -> Option<String> {
    let words = varnishcli::words(line.trim_end().as_bytes(), None).ok()?;
    match words.as_slice() {
        [.., arrows, end] if arrows == b"<<" && !end.is_empty() => Some(String::from_utf8_lossy(end).into_owned()),
        _ => None,
    }
}

/// Connects to `host:port`, `[host]:port`, `:port` or `host port`.
fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let (host, port) = address.rsplit_once([':', ' ']).unwrap_or((address, "6082"));
    let host = host.trim_matches(['[', ']']);
    let host = if host.is_empty() { "localhost" } else { host };
    let port: u16 =
        port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("'{port}' is no port")))?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "no address has this name");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
