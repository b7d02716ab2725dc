//! varnishd's options (varnishd(1)).

use std::path::{Path, PathBuf};

use varnishcli::Parameters;
use varnishd::{
    Frontend, Listen, Place,
    manager::{self, Clients, Reservation, Secret, Text, addresses},
};

pub const USAGE: &str = "\
Usage: varnishd [options]

Basic options:
  -a [<name>=]address[:port][,proto]  the address for HTTP (default: :80); proto is HTTP or PROXY
  -a [<name>=]/path[,proto]           a socket in the file system; also user=, group=, mode=
  -b [addr[:port]]                    the only backend, with the built-in program
  -b none                             no backend
  -f vclfile                          the VCL program; may be repeated: the last one is active
  -n dir                              the working directory, or a name below /var/lib/varnish

  -b and -f exclude each other; -f '' starts an instance that gets its program later.

Management:
  -d                                  standard input takes commands; the worker waits for 'start'
  -I clifile                          commands to run first
  -M address:port                     connect to this address, and take commands from there
  -S secretfile                       secret of varnishadm (default: made for this instance); none: no secret
  -T address:port                     the address for varnishadm (default: localhost:0); none: no address

More:
  -s [name=]malloc[,size]             a storage for objects, in memory; may be repeated
  -s [name=]file,path,size            a storage for objects, in a file; may be repeated
  -p param=value                      sets a parameter
  -r param[,param...]                 parameters that nobody can change
  -t ttl                              default_ttl
  -l size                             the size of the log in shared memory
  -i identity                         server.identity
  -F                                  stays in the foreground
  -P file                             writes the process' number there
  -C                                  checks the program and ends
  -V                                  prints the version
  --print                             prints the equivalent configuration of the edge
";

/// What the command line says.
#[derive(Debug)]
pub struct VarnishOptions {
    pub manager: manager::Options,
    pub prints_configuration: bool,
    pub warnings: Vec<String>,
}

#[derive(Debug)]
pub enum Parsed {
    Run(Box<VarnishOptions>),
    Version,
    Usage,
}

/// The options as they are read, before anything is looked up.
#[derive(Debug, Default)]
struct Said {
    listen: Vec<String>,
    backend: Option<String>,
    programs: Vec<String>,
    storages: Vec<String>,
    parameters: Parameters,
    protected: Vec<String>,
    identity: Option<String>,
    becomes: Option<(u32, u32)>,
    folder: String,
    clients: Clients,
    takes_clients: Option<String>,
    pidfile: Option<PathBuf>,
    stays: bool,
    only_compiles: bool,
    prints_configuration: bool,
    warnings: Vec<String>,
}

/// Reads the words behind the command.
pub fn parse(words: &[String]) -> Result<Parsed, String> {
    let mut said = Said::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--help" {
            return Ok(Parsed::Usage);
        }
        if word == "--print" {
            said.prints_configuration = true;
            continue;
        }
        let Some(mut letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(format!("Too many arguments ({word}...)"));
        };
        while !letters.is_empty() {
            let (letter, attached) = letters.split_at(letters.chars().next().map_or(0, char::len_utf8));
            if takes_value(letter) {
                let value = if attached.is_empty() { words.next().map(String::as_str) } else { Some(attached) };
                let value = value.ok_or_else(|| format!("option -{letter} requires an argument"))?;
                set(&mut said, letter, value)?;
                break;
            }
            match letter {
                "F" => said.stays = true,
                "C" => said.only_compiles = true,
                "d" => said.clients.terminal = true,
                "V" => return Ok(Parsed::Version),
                "?" => return Ok(Parsed::Usage),
                _ => return Err(format!("unknown option {word}")),
            }
            letters = attached;
        }
    }
    check(&said)?;
    finish(said).map(|options| Parsed::Run(Box::new(options)))
}

fn takes_value(letter: &str) -> bool {
    matches!(
        letter,
        "a" | "b"
            | "f"
            | "n"
            | "s"
            | "p"
            | "t"
            | "i"
            | "P"
            | "T"
            | "S"
            | "M"
            | "l"
            | "j"
            | "r"
            | "I"
            | "x"
            | "W"
            | "E"
            | "h"
    )
}

fn set(said: &mut Said, letter: &str, value: &str) -> Result<(), String> {
    match letter {
        "a" => said.listen.push(value.to_owned()),
        "b" => said.backend = Some(value.to_owned()),
        "f" => said.programs.push(value.to_owned()),
        "s" => said.storages.push(value.to_owned()),
        "p" => {
            let (name, value) = value.split_once('=').ok_or_else(|| format!("\tNo '=' in -p {value}"))?;
            said.parameters.set(name, value).map_err(|error| error.to_string())?;
        }
        "t" => said.parameters.set("default_ttl", value).map_err(|error| error.to_string())?,
        "r" => said.protected.extend(value.split(',').map(str::to_owned)),
        "i" => said.identity = Some(value.to_owned()),
        "P" => said.pidfile = Some(std::path::absolute(value).unwrap_or_else(|_| value.into())),
        "n" => value.clone_into(&mut said.folder),
        "T" => said.takes_clients = Some(value.to_owned()),
        "M" => said.clients.call.push(value.to_owned()),
        "S" if value == "none" => said.clients.secret = Secret::None,
        "S" => said.clients.secret = Secret::File(value.into()),
        "I" => said.clients.commands = Some(value.into()),
        "l" => {
            // Behind the log's size: that of Varnish's counters, and whether memory is locked.
            let space = value.split(',').next().unwrap_or_default();
            said.parameters.set("vsl_space", space).map_err(|error| error.to_string())?;
        }
        "W" => {}
        "h" if ["critbit", "classic", "simple_list"].contains(&value.split(',').next().unwrap_or_default()) => {
            said.warnings.push(format!("-h {value} has no effect: there is one kind of index"));
        }
        "h" => return Err(format!("Unknown hash method \"{value}\"")),
        "j" => said.becomes = jail(value)?,
        "x" => return Err(format!("-x {value} is not there: `tidegate explain` says what words mean")),
        "E" => return Err(format!("-E {value}: extensions are programs of C, which Tidegate does not run")),
        other => return Err(format!("-{other} is not there yet")),
    }
    Ok(())
}

fn check(said: &Said) -> Result<(), String> {
    let has_program = said.backend.is_some() || !said.programs.is_empty();
    if said.backend.is_some() && !said.programs.is_empty() {
        return Err("Only one of -b or -f can be specified".to_owned());
    }
    if said.clients.terminal && said.stays {
        return Err("Only one of -d or -F can be specified".to_owned());
    }
    if said.only_compiles && !has_program {
        return Err("-C needs either -b <backend> or -f <vcl_file>".to_owned());
    }
    if said.only_compiles && said.clients.terminal {
        return Err("-d makes no sense with -C".to_owned());
    }
    if said.only_compiles && said.stays {
        return Err("-F makes no sense with -C".to_owned());
    }
    if !said.clients.terminal && !has_program {
        return Err("Neither -b nor -f given. (use -f '' to override)".to_owned());
    }
    Ok(())
}

fn finish(said: Said) -> Result<VarnishOptions, String> {
    let Said { mut parameters, mut clients, .. } = said;
    for name in &said.protected {
        parameters.protect(name).map_err(|error| error.to_string())?;
    }
    clients.listen = match said.takes_clients.as_deref() {
        None => Some("localhost:0".to_owned()),
        Some("none" | "") => None,
        Some(word) => Some(word.to_owned()),
    };
    let mut listen = Vec::new();
    let mut reservations = Vec::new();
    if !said.only_compiles && !said.prints_configuration && (manager::is_detached() || said.stays || clients.terminal) {
        let words = if said.listen.is_empty() { vec![":80".to_owned()] } else { said.listen };
        for (place, word) in words.iter().enumerate() {
            listen_at(word, place, &mut listen, &mut reservations)?;
        }
    } else if !said.only_compiles {
        // NOTE: who only compiles a program may do so beside an instance that has these ports.
        for (place, word) in said.listen.iter().enumerate() {
            listen_at(word, place, &mut listen, &mut Vec::new())?;
        }
    }
    let folder = vsm::instance_path(&said.folder);
    let frontend = Frontend {
        listen,
        storages: named_storages(&said.storages)?,
        identity: said.identity,
        becomes: said.becomes,
        workdir: folder.clone(),
    };
    let manager = manager::Options {
        folder,
        programs: programs(said.backend.as_deref(), &said.programs)?,
        frontend,
        reservations,
        parameters,
        only_compiles: said.only_compiles,
        is_foreground: said.stays || clients.terminal,
        clients,
        pidfile: said.pidfile,
        identity: identity(&said.storages),
    };
    Ok(VarnishOptions { manager, prints_configuration: said.prints_configuration, warnings: said.warnings })
}

/// Each `-s` with its name: those without one are s0, s1 and so on.
fn named_storages(said: &[String]) -> Result<Vec<String>, String> {
    let mut named: Vec<(String, String)> = Vec::new();
    let mut unnamed = 0;
    for storage in said {
        let (name, rest) = match storage.split_once('=') {
            Some((name, rest)) if !name.contains(',') => (name.to_owned(), rest),
            _ => {
                unnamed += 1;
                (format!("s{}", unnamed - 1), storage.as_str())
            }
        };
        if named.iter().any(|(known, _)| *known == name) {
            return Err(format!("(-s {storage}) '{name}' is already defined"));
        }
        named.push((name, rest.to_owned()));
    }
    Ok(named.into_iter().map(|(name, rest)| format!("{name}={rest}")).collect())
}

/// The lines of the banner about machine and program.
fn identity(storages: &[String]) -> Vec<String> {
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut kinds = String::new();
    for storage in storages {
        let kind = storage.split_once('=').map_or(storage.as_str(), |(_, kind)| kind);
        kinds.push_str(&format!(",-s{}", kind.split(',').next().unwrap_or_default()));
    }
    let machine = [system.sysname(), system.release(), system.machine()].map(word).join(",");
    vec![
        format!("{machine},-jnone{kinds},-sdefault,-hcritbit"),
        format!("varnish-7.1.1 revision tidegate-{}", env!("CARGO_PKG_VERSION")),
    ]
}

/// `-j`: whom the worker becomes when it has its sockets, a user and a group by their numbers; what it names must be there.
fn jail(text: &str) -> Result<Option<(u32, u32)>, String> {
    let mut parts = text.split(',');
    let has_rights = match parts.next() {
        Some("none") => true,
        Some("unix" | "solaris" | "linux") => false,
        other => return Err(format!("Unknown jail method \"{}\"", other.unwrap_or_default())),
    };
    let (mut user, mut work_user) = (None, None);
    for part in parts {
        match part.split_once('=') {
            Some(("user", name)) => user = Some(numbers_of(name)?),
            Some(("workuser", name)) => work_user = Some(numbers_of(name)?),
            Some(("ccgroup", name)) => {
                let group = runtime::process::group_id(name).ok().flatten();
                group.ok_or_else(|| format!("Unix jail: {name} group not found"))?;
            }
            _ => return Err(format!("Unix jail: unknown sub-argument '{part}'")),
        }
    }
    // NOTE: only root can become somebody else; whoever else starts it has no more rights than it needs.
    let is_root = rustix::process::geteuid().is_root();
    let named = work_user.or(user).or_else(|| numbers_of("vcache").ok());
    Ok(named.filter(|_| is_root && !has_rights))
}

/// A user and its group.
fn numbers_of(name: &str) -> Result<(u32, u32), String> {
    let (user, group) = (runtime::process::user_id(name), runtime::process::user_group_id(name));
    let both = user.ok().flatten().zip(group.ok().flatten());
    both.ok_or_else(|| format!("Unix jail: {name} user not found"))
}

/// The programs with their names.
fn programs(backend: Option<&str>, files: &[String]) -> Result<Vec<(String, Text)>, String> {
    if let Some(backend) = backend {
        let text = match backend {
            "none" | "None" => "vcl 4.1;\n\nbackend default none;\n".to_owned(),
            path if path.starts_with('/') => format!("vcl 4.1;\n\nbackend default {{\n    .path = \"{path}\";\n}}\n"),
            word => {
                let (host, port) = host_and_port(word);
                format!("vcl 4.1;\n\nbackend default {{\n    .host = \"{host}\";\n    .port = \"{port}\";\n}}\n")
            }
        };
        return Ok(vec![("boot".to_owned(), Text::Given("<-b>".to_owned(), text))]);
    }
    let files: Vec<&String> = files.iter().filter(|file| !file.is_empty()).collect();
    let last = files.len().saturating_sub(1);
    files
        .into_iter()
        .enumerate()
        .map(|(place, file)| {
            let name = if place == last { "boot".to_owned() } else { format!("boot{place}") };
            let path = Path::new(file);
            // What is not here is looked for along vcl_path.
            let path =
                if path.exists() { std::path::absolute(path).unwrap_or_else(|_| path.into()) } else { path.into() };
            Ok((name, Text::File(path.to_string_lossy().into_owned())))
        })
        .collect()
}

/// One `-a`.
fn listen_at(
    word: &str,
    place: usize,
    listen: &mut Vec<Listen>,
    reservations: &mut Vec<Reservation>,
) -> Result<(), String> {
    let (name, rest) = match word.split_once('=') {
        Some((name, rest)) if !name.contains([':', '/', ',']) => (name.to_owned(), rest),
        _ => (format!("a{place}"), word),
    };
    let mut parts = rest.split(',');
    let address = parts.next().unwrap_or_default();
    let (mut is_proxy, mut rights) = (false, Vec::new());
    let is_path = address.starts_with(['/', '@']);
    for part in parts {
        match (part, part.split_once('=')) {
            ("HTTP", _) => is_proxy = false,
            ("PROXY", _) => is_proxy = true,
            (_, Some((right @ ("user" | "group" | "mode"), value))) if is_path => {
                check_right(word, right, value, &rights)?;
                rights.push((right.to_owned(), value.to_owned()));
            }
            (_, Some((right @ ("user" | "group" | "mode"), _))) => {
                return Err(format!("Invalid sub-arg {right} for IP addresses in -a {word}"));
            }
            (other, _) => return Err(format!("Too many sub-arguments, or an unknown one, in -a {word}: '{other}'")),
        }
    }
    if is_path {
        let path = address.to_owned();
        listen.push(Listen { name, place: Place::Path { path, rights }, is_proxy });
        return Ok(());
    }
    let mut found = false;
    let mut failure = None;
    for address in addresses(address, Some("80")).map_err(|why| format!("Could not resolve -a argument: {why}"))? {
        match Reservation::new(address) {
            Ok(reservation) => {
                found = true;
                listen.push(Listen { name: name.clone(), place: Place::Inet(reservation.address), is_proxy });
                reservations.push(reservation);
            }
            Err(why) => failure = failure.or(Some(why)),
        }
    }
    match failure {
        Some(why) if !found => Err(why),
        _ => Ok(()),
    }
}

/// Whether a right of a socket is said once, and names what is there.
fn check_right(word: &str, right: &str, value: &str, rights: &[(String, String)]) -> Result<(), String> {
    if rights.iter().any(|(known, _)| known == right) {
        return Err(format!("Too many {right} sub-args in -a {word}"));
    }
    match right {
        "user" => runtime::process::user_id(value).map(drop).map_err(|_| format!("Unknown user {value} in -a {word}")),
        "group" => {
            runtime::process::group_id(value).map(drop).map_err(|_| format!("Unknown group {value} in -a {word}"))
        }
        _ if value.is_empty() => Err(format!("Empty mode sub-arg in -a {word}")),
        _ => match u32::from_str_radix(value, 8) {
            Ok(mode) if mode <= 0o777 => Ok(()),
            Ok(_) => Err(format!("Mode sub-arg {value} out of range in -a {word}")),
            Err(_) => Err(format!("Invalid mode sub-arg {value} in -a {word}")),
        },
    }
}

fn host_and_port(text: &str) -> (String, String) {
    let (host, port) = text.rsplit_once(':').filter(|(host, _)| !host.ends_with(':')).unwrap_or((text, "80"));
    (host.trim_matches(['[', ']']).to_owned(), port.to_owned())
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
        let text = "-f /etc/a.vcl -a 127.0.0.1:0 -a api=127.0.0.1:0,PROXY -a /tmp/x,mode=777 -smalloc,256m \
                    -p default_ttl=60 -t 9 -FP /run/v.pid -T none -S /etc/secret -M 127.0.0.1:9 -n /tmp/x";
        let options = run(text).unwrap().manager;
        assert_eq!(options.programs.len(), 1);
        assert_eq!(options.programs[0].0, "boot");
        let names: Vec<&str> = options.frontend.listen.iter().map(|listen| listen.name.as_str()).collect();
        assert_eq!(names, ["a0", "api", "a2"]);
        assert!(options.frontend.listen[1].is_proxy);
        assert!(matches!(&options.frontend.listen[0].place, Place::Inet(address) if address.port() != 0));
        let rights = vec![("mode".to_owned(), "777".to_owned())];
        assert_eq!(options.frontend.listen[2].place, Place::Path { path: "/tmp/x".to_owned(), rights });
        assert_eq!(options.frontend.storages, ["s0=malloc,256m"]);
        assert_eq!(options.parameters.text("default_ttl"), "9.000");
        assert!(options.is_foreground && options.pidfile.is_some());
        assert_eq!(options.clients.listen, None);
        assert_eq!(options.clients.secret, Secret::File("/etc/secret".into()));
        assert_eq!(options.folder, Path::new("/tmp/x"));
        let several = run("-f a.vcl -f b.vcl -f c.vcl -C").unwrap().manager;
        let names: Vec<&str> = several.programs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["boot0", "boot1", "boot"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "Neither -b nor -f"),
            ("-b a -f b", "Only one of -b or -f"),
            ("-d -F -f b", "Only one of -d or -F"),
            ("-C", "-C needs either"),
            ("-f a -Z", "unknown option -Z"),
            ("-f", "requires an argument"),
            ("-f a b", "Too many arguments (b...)"),
            ("-f a -p default_ttl", "No '='"),
            ("-f a -p nothing=1", "Unknown parameter"),
            ("-f a -a 127.0.0.1:0,mode=777", "Invalid sub-arg mode"),
            ("-f a -s malloc,1m -s s0=malloc,2m", "(-s s0=malloc,2m) 's0' is already defined"),
            ("-f a -h bucket", "Unknown hash method"),
        ] {
            let message = run(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
