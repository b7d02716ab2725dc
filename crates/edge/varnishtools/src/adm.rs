//! `varnishadm`.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use varnishcli::{Reply, Status};

use crate::{
    VERSION,
    management::{Client, ManagementError, text_end},
    options::{self, Specification},
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
type Failure = (u8, String);

impl From<ManagementError> for Failure {
    fn from(error: ManagementError) -> Self {
        let code = if matches!(error, ManagementError::NotConnected(_)) { CANNOT_CONNECT } else { 1 };
        (code, error.to_string())
    }
}

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
    let client = match (address, name, secret) {
        (Some(_), Some(_), _) | (None, _, Some(_)) => {
            return Err(usage("-n stands alone; -S goes with -T".to_owned()));
        }
        (Some(address), None, secret) => Client::connect(&address, secret.as_deref(), timeout)?,
        (None, name, None) => Client::of(name, timeout)?,
    };
    let mut tool = Tool { client, is_plain };
    if !parsed.rest.is_empty() {
        return tool.once(&parsed.rest.join(" "));
    }
    match io::stdin().is_terminal() && !is_plain {
        true => tool.interactive(),
        false => tool.pass(),
    }
}

/// A client whose replies are printed.
struct Tool {
    client: Client,
    is_plain: bool,
}

impl Tool {
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
        let reply = self.client.ask(command)?;
        self.print(&reply, false)?;
        match reply.is_ok() {
            true => Ok(ExitCode::SUCCESS),
            false if self.is_plain => Ok(ExitCode::FAILURE),
            false => Err((1, format!("Command failed with error code {}", reply.status))),
        }
    }

    fn interactive(&mut self) -> Result<ExitCode, Failure> {
        let banner = self.client.ask("banner")?;
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
            let reply = self.client.ask(line.strip_suffix('\n').unwrap_or(&line))?;
            self.print(&reply, is_interactive)?;
            if reply.status == Status::Close as u16 {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}
