//! varnishd's options (varnishd(1)).

use std::path::PathBuf;

pub const USAGE: &str = "\
Usage: varnishd [options]

Basic options:
  -a [<name>=]address[:port][,proto]  where HTTP is listened for (default: :80); proto is HTTP or PROXY
  -b [addr[:port]]                    the only backend, with the built-in program
  -f vclfile                          the program of VCL
  -n name                             the name of this instance

  -b and -f exclude each other.

More:
  -s [name=]malloc[,size]             where objects are kept; may be said several times
  -p param=value                      sets a parameter
  -t ttl                              default_ttl
  -i identity                         server.identity
  -F                                  stays in the foreground
  -P file                             writes the process' number there
  -C                                  checks the program and ends
  -V                                  prints the version
  --print                             prints the configuration of the edge that all this stands for
";

/// What the command line says.
#[derive(Debug, Default)]
pub struct VarnishOptions {
    pub listen: Vec<Listen>,
    pub backend: Option<(String, String)>,
    pub program: Option<String>,
    pub storages: Vec<String>,
    pub parameters: Vec<(String, String)>,
    pub identity: Option<String>,
    pub workdir: Option<String>,
    pub is_foreground: bool,
    pub pidfile: Option<PathBuf>,
    pub only_compiles: bool,
    pub prints_configuration: bool,
    pub warnings: Vec<String>,
}

/// `-a`
#[derive(Debug, PartialEq, Eq)]
pub struct Listen {
    pub name: Option<String>,
    pub address: String,
    pub is_proxy: bool,
}

#[derive(Debug)]
pub enum Parsed {
    Run(Box<VarnishOptions>),
    Version,
    Usage,
}

impl VarnishOptions {
    /// As `status` shows what runs.
    pub fn described(&self) -> String {
        match (&self.program, &self.backend) {
            (Some(program), _) => format!("varnishd -f {program}"),
            (None, Some((host, port))) => format!("varnishd -b {host}:{port}"),
            (None, None) => "varnishd".to_owned(),
        }
    }
}

/// Reads the words behind the command.
pub fn parse(words: &[String]) -> Result<Parsed, String> {
    let mut options = VarnishOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--print" {
            options.prints_configuration = true;
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(format!("Too many arguments ({word}...)"));
        };
        let (letter, attached) = letters.split_at(letters.chars().next().map_or(0, char::len_utf8));
        if takes_value(letter) {
            let value = if attached.is_empty() { words.next().map(String::as_str) } else { Some(attached) };
            let value = value.ok_or_else(|| format!("option -{letter} requires an argument"))?;
            set(&mut options, letter, value)?;
            continue;
        }
        match letters {
            "F" => options.is_foreground = true,
            "C" => options.only_compiles = true,
            "V" => return Ok(Parsed::Version),
            "?" | "h" => return Ok(Parsed::Usage),
            "d" => return Err("-d is not there yet: run it with -F".to_owned()),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if options.program.is_some() && options.backend.is_some() {
        return Err("Only one of -b or -f can be specified".to_owned());
    }
    if options.program.is_none() && options.backend.is_none() {
        return Err("Neither -b nor -f given: name a program of VCL by -f, or a backend by -b".to_owned());
    }
    if options.listen.is_empty() {
        options.listen.push(Listen { name: None, address: ":80".to_owned(), is_proxy: false });
    }
    Ok(Parsed::Run(Box::new(options)))
}

fn takes_value(letter: &str) -> bool {
    matches!(
        letter,
        "a" | "b" | "f" | "n" | "s" | "p" | "t" | "i" | "P" | "T" | "S" | "M" | "l" | "j" | "r" | "I" | "x" | "W" | "E"
    )
}

fn set(options: &mut VarnishOptions, letter: &str, value: &str) -> Result<(), String> {
    match letter {
        "a" => options.listen.push(listen(value)?),
        "b" => options.backend = Some(host_and_port(value)?),
        "f" if value.is_empty() => {
            return Err("-f without a file is for instances that -T or -M load: not there yet".to_owned());
        }
        "f" if options.program.is_some() => return Err("several programs (-f) are not there yet".to_owned()),
        "f" => options.program = Some(value.to_owned()),
        "s" => options.storages.push(value.to_owned()),
        "p" => {
            let (name, value) = value.split_once('=').ok_or_else(|| format!("\tNo '=' in -p {value}"))?;
            options.parameters.push((name.to_owned(), value.to_owned()));
        }
        "t" => options.parameters.push(("default_ttl".to_owned(), value.to_owned())),
        "i" => options.identity = Some(value.to_owned()),
        "P" => options.pidfile = Some(value.into()),
        "n" => options.workdir = Some(value.to_owned()),
        "l" => options.parameters.push(("vsl_space".to_owned(), value.to_owned())),
        "j" | "r" | "W" => options.warnings.push(format!("-{letter} {value} has no effect here")),
        other => return Err(format!("-{other} is not there yet")),
    }
    Ok(())
}

fn listen(text: &str) -> Result<Listen, String> {
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) if !name.contains([':', '/']) => (Some(name.to_owned()), rest),
        _ => (None, text),
    };
    let mut parts = rest.split(',');
    let address = parts.next().unwrap_or_default().to_owned();
    let mut is_proxy = false;
    for part in parts {
        match part {
            "HTTP" => {}
            "PROXY" => is_proxy = true,
            other => return Err(format!("Too many sub-arguments, or an unknown one, in -a {text}: '{other}'")),
        }
    }
    let address = if address.starts_with('/') || address.contains(':') { address } else { format!("{address}:80") };
    Ok(Listen { name, address, is_proxy })
}

fn host_and_port(text: &str) -> Result<(String, String), String> {
    if text.is_empty() || text == "none" {
        return Err("-b none is not there yet: name a backend".to_owned());
    }
    let (host, port) = text.rsplit_once(':').filter(|(host, _)| !host.ends_with(':')).unwrap_or((text, "80"));
    Ok((host.to_owned(), port.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<VarnishOptions, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        match parse(&words)? {
            Parsed::Run(options) => Ok(*options),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn options_are_varnishds() {
        let options = run(
            "-f /etc/a.vcl -a :6081 -a api=127.0.0.1:81,PROXY -smalloc,256m -p default_ttl=60 -t 9 -F -P /run/v.pid",
        )
        .unwrap();
        assert_eq!(options.program.as_deref(), Some("/etc/a.vcl"));
        let listen = |name: Option<&str>, address: &str, is_proxy| Listen {
            name: name.map(str::to_owned),
            address: address.to_owned(),
            is_proxy,
        };
        assert_eq!(options.listen, [listen(None, ":6081", false), listen(Some("api"), "127.0.0.1:81", true)]);
        assert_eq!(options.storages, ["malloc,256m"]);
        assert_eq!(options.parameters.len(), 2);
        assert!(options.is_foreground && options.pidfile.is_some());
        assert_eq!(run("-b localhost:8080").unwrap().backend, Some(("localhost".to_owned(), "8080".to_owned())));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "Neither -b nor -f"),
            ("-b a -f b", "Only one of -b or -f"),
            ("-f a -T :6082", "-T is not there yet"),
            ("-f a -Z", "unknown option -Z"),
            ("-f", "requires an argument"),
            ("-f a b", "Too many arguments (b...)"),
        ] {
            let message = run(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
