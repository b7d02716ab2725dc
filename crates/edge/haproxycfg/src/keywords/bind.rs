//! `bind` lines and `stats socket`.

pub mod quic;

use crate::{
    address::{Accepts, Host, Port},
    args,
    diagnostics::Problem,
    keywords::{
        global::THREADS_MAX,
        tls::{self, TlsWords},
    },
    line::Line,
    model::{AcceptMode, Bind, BindAddress, BindProtocol, CliLevel, Identity, Location, SeverityOutput},
    scope::Scope,
    table::{Group, Parse},
    units::Unit,
};

/// Most listening sockets of a configuration, address ranges expanded.
pub const LISTENERS_MAX: usize = 100_000;

/// A line while its words are read. They hold for each of its addresses.
#[derive(Debug, Default)]
pub struct BindDraft {
    /// What the addresses have in common.
    pub bind: Bind,
    /// How many addresses there are.
    pub count: usize,
    /// Whether `accept` or `shards` was there.
    pub is_accept_chosen: bool,
    /// `expose-fd listeners`.
    pub expose_fd_listeners: bool,
    /// `severity-output`.
    pub severity: SeverityOutput,
    /// Whether `thread` named a group, which all or none of them do.
    pub names_thread_group: Option<bool>,
    /// Words about TLS.
    pub tls: TlsWords,
}

/// A line of listening sockets.
#[derive(Debug)]
pub struct ParsedBinds {
    /// The sockets.
    pub binds: Vec<Bind>,
    /// `expose-fd listeners`.
    pub expose_fd_listeners: bool,
    /// `severity-output`.
    pub severity: SeverityOutput,
}

/// `bind`.
pub fn bind(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        let message = "'bind' expects {<path>|[addr1]:port1[-end1]}{,[addr]:port[-end]}... as arguments.";
        return Err(Problem::new(message).at(1).expected("an address, as :80, 127.0.0.1:8080 or /run/web.sock"));
    }
    let parsed = parse(scope, line, 1)?;
    scope.proxy().proxy.binds.extend(parsed.binds);
    Ok(())
}

/// Reads the addresses at `index` and the words after them.
pub fn parse(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<ParsedBinds, Problem> {
    let is_stats = line.word(0) == "stats";
    let addresses = addresses(scope, line, index, !is_stats)?;
    let mut draft = BindDraft::default();
    draft.bind.location = line.location();
    draft.count = addresses.len();
    if !is_stats {
        draft.bind.unix = scope.state.global.unix_bind.clone();
        draft.bind.unix.prefix = None;
    }
    if scope.state.simple.is_without_reuseport {
        draft.bind.accept = AcceptMode::Shared;
    }
    words(scope, line, index + 1, &mut draft)?;
    let tls = tls::bind::finish(scope, line, &draft.tls).map_err(|problem| in_bind(scope, line, problem))?;
    let over_quic = if addresses.iter().any(is_quic) {
        quic::check(scope, line, &draft)
            .and_then(|()| quic::tls(tls.as_deref()))
            .map_err(|problem| in_bind(scope, line, problem.at(index)))?
    } else {
        None
    };
    let binds = addresses.into_iter().map(|address| {
        let tls = if is_quic(&address) { over_quic.clone() } else { tls.clone() };
        Bind { address, tls, ..draft.bind.clone() }
    });
    let binds = binds.collect();
    Ok(ParsedBinds { binds, expose_fd_listeners: draft.expose_fd_listeners, severity: draft.severity })
}

/// Reads the one address of a line that may have no more.
pub(crate) fn single(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<BindAddress, Problem> {
    let mut found = addresses(scope, line, index, true)?;
    match (found.pop(), found.is_empty()) {
        (Some(address), true) => Ok(address),
        _ => {
            let message = format!("'{} {}' : only one address is possible.", line.word(0), line.word(1));
            Err(Problem::new(message).at(index))
        }
    }
}

/// Reads the words of a line from one on.
pub(crate) fn words(
    scope: &mut Scope<'_>,
    line: &Line,
    mut position: usize,
    draft: &mut BindDraft,
) -> Result<(), Problem> {
    let is_stats = line.word(0) == "stats";
    while !line.word(position).is_empty() {
        let word = position;
        let keyword = scope.lookup(line, word, Group::Bind)?;
        match keyword.parse {
            Parse::Bind(parser) => parser(scope, line, &mut position, draft).map_err(|problem| {
                let message = if is_stats {
                    format!("'stats socket' : {}", problem.message)
                } else {
                    in_bind(scope, line, problem.clone()).message
                };
                let word = problem.word.unwrap_or(word);
                Problem { message, ..problem.at(word) }
            })?,
            // A word without effect may have arguments, as its place in the table says.
            _ => position += 1 + keyword.arguments.split_ascii_whitespace().count(),
        }
    }
    Ok(())
}

fn is_quic(address: &BindAddress) -> bool {
    matches!(address, BindAddress::Quic(_))
}

fn in_bind(scope: &Scope<'_>, line: &Line, problem: Problem) -> Problem {
    let section = scope.section_word();
    Problem { message: format!("'bind {}' in section '{section}' : {}", line.word(1), problem.message), ..problem }
}

fn addresses(scope: &mut Scope<'_>, line: &Line, index: usize, prefixed: bool) -> Result<Vec<BindAddress>, Problem> {
    let mut addresses = Vec::new();
    let accepts = Accepts { quic: scope.in_proxy(), ..Accepts::BIND };
    let (mut offset, mut counted) = (0, 0);
    for text in line.word(index).split(',') {
        let range = offset..offset + text.len();
        offset = range.end + 1;
        // HAProxy stops at the end, so that one comma too many is nothing.
        if text.is_empty() && offset > line.word(index).len() && !addresses.is_empty() {
            break;
        }
        let problem = |message: String| {
            Problem::new(format!("'{}' : {message}", line.word(index.saturating_sub(1)))).within(
                line,
                index,
                range.clone(),
            )
        };
        let address = scope.address(text, accepts).map_err(problem)?;
        match (address.host, address.port) {
            (Host::Ip(ip), Port::Range(low, high)) => {
                let kind = if address.quic { BindAddress::Quic } else { BindAddress::Inet };
                addresses.extend((low..=high).map(|port| kind((ip, port).into())));
            }
            (Host::Unix(path), _) => {
                let prefix = scope.state.global.unix_bind.prefix.as_deref().filter(|_| prefixed);
                addresses.push(BindAddress::Unix(format!("{}{path}", prefix.unwrap_or_default())));
            }
            (Host::Abstract(name), _) => addresses.push(BindAddress::Abstract(name)),
            (Host::Descriptor(number), _) => addresses.push(BindAddress::Descriptor(number)),
            (Host::Ip(_) | Host::Name(..), _) => return Err(problem(format!("invalid address: '{text}'"))),
        }
        count_listeners(scope, addresses.len() - counted).map_err(problem)?;
        counted = addresses.len();
    }
    Ok(addresses)
}

/// Counts addresses to listen on.
///
/// # Errors
/// When there are too many.
pub(crate) fn count_listeners(scope: &mut Scope<'_>, more: usize) -> Result<(), String> {
    scope.state.simple.listeners += more;
    if scope.state.simple.listeners > LISTENERS_MAX {
        return Err(format!("too many listening addresses (maximum is {LISTENERS_MAX} in all)"));
    }
    Ok(())
}

/// The argument of the word at `index`; moves the index past both.
fn argument<'a>(line: &'a Line, index: &mut usize, missing: &str) -> Result<&'a str, Problem> {
    let word = *index;
    *index += 2;
    match line.word(word + 1) {
        "" => Err(Problem::new(format!("'{}' : {missing}", line.word(word))).at(word)),
        value => Ok(value),
    }
}

fn number<T>(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, Problem>
where
    T: TryFrom<i64> + PartialOrd + std::fmt::Display,
{
    let word = *index;
    let value = argument(line, index, "missing value")?.to_owned();
    let keyword = line.word(word);
    let (least, most) = (range.start(), range.end());
    let message = format!("'{keyword}' : invalid value {value}, allowed range is {least}..{most}");
    args::lenient(scope, line, word + 1, range).map_err(|problem| Problem { message, ..problem })
}

/// Words that are on when they are there.
pub fn flag(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let bind = &mut draft.bind;
    match line.word(*index) {
        "accept-proxy" => bind.accept_proxy = true,
        "defer-accept" => bind.defer_accept = true,
        "quic-force-retry" => bind.quic_force_retry = true,
        "tfo" => bind.tfo = true,
        "transparent" => bind.transparent = true,
        "v4v6" => bind.v6only = Some(false),
        _ => bind.v6only = Some(true),
    }
    *index += 1;
    Ok(())
}

/// Tidegate's `accept`.
pub fn accept(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    let modes = "'reuseport', 'shared' and 'dispatch'";
    draft.bind.accept = match argument(line, index, "missing mode, 'reuseport', 'shared' or 'dispatch'")? {
        "reuseport" => AcceptMode::Reuseport,
        "shared" => AcceptMode::Shared,
        "dispatch" => AcceptMode::Dispatch,
        value => {
            return Err(Problem::new(format!("'accept' only supports {modes} (got '{value}')"))
                .at(word + 1)
                .nearest(value, ["reuseport", "shared", "dispatch"]));
        }
    };
    draft.is_accept_chosen = true;
    Ok(())
}

/// `shards`: one socket for all workers, or one for each.
pub fn shards(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let shards = if line.word(*index + 1) == "by-thread" {
        *index += 2;
        THREADS_MAX
    } else {
        number(scope, line, index, 1..=THREADS_MAX)?
    };
    if !draft.is_accept_chosen {
        draft.bind.accept = if shards == 1 { AcceptMode::Shared } else { AcceptMode::Reuseport };
        draft.is_accept_chosen = true;
    }
    Ok(())
}

/// `maxconn`, `backlog`, `nice`, `mss`.
pub fn numeric(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    match line.word(word) {
        // 0 is as if it had not been said.
        "maxconn" => {
            let value = number(scope, line, index, 0..=i32::MAX.unsigned_abs())?;
            draft.bind.maxconn = Some(value).filter(|value| *value > 0);
        }
        "backlog" => {
            let value = number(scope, line, index, 0..=i32::MAX.unsigned_abs())?;
            draft.bind.backlog = Some(value).filter(|value| *value > 0);
        }
        "nice" => {
            number(scope, line, index, -1024..=1024_i32)?;
        }
        _ => {
            let value = number(scope, line, index, -65_535..=65_535_i32)?;
            if value == 0 {
                let message = "'mss' : expects an MSS with and absolute value between 1 and 65535";
                return Err(Problem::new(message).at(word + 1));
            }
            draft.bind.mss = Some(value.unsigned_abs());
        }
    }
    Ok(())
}

/// `id`.
pub fn id(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    if draft.count > 1 {
        return Err(Problem::new("'id' can only be used with a single socket").at(word));
    }
    let value = argument(line, index, "expects an integer argument")?;
    let Ok(number) = value.parse::<i32>() else {
        return Err(Problem::new(format!("'id' : expects an integer argument, found '{value}'")).at(word + 1));
    };
    let Some(number) = u32::try_from(number).ok().filter(|number| *number > 0) else {
        return Err(Problem::new("'id' : custom id has to be > 0").at(word + 1));
    };
    if let Some(Location { file, line: at }) = scope.proxy().simple.bind_ids.get(&number) {
        return Err(Problem::new(format!("'id' : custom id {number} already used at {file}:{at}")).at(word + 1));
    }
    scope.proxy().simple.bind_ids.insert(number, line.location());
    draft.bind.id = Some(number);
    Ok(())
}

/// `name`, `interface`.
pub fn text(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    match line.word(*index) {
        "name" => draft.bind.name = Some(argument(line, index, "missing name")?.to_owned()),
        "namespace" => draft.bind.namespace = Some(argument(line, index, "missing namespace id")?.to_owned()),
        _ => draft.bind.interface = Some(argument(line, index, "missing interface name")?.to_owned()),
    }
    Ok(())
}

/// `accept-netscaler-cip`.
pub fn netscaler(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    let value = argument(line, index, "missing value")?;
    let message = format!("'accept-netscaler-cip' : invalid value {value}, must be >= 0");
    let magic = args::lenient(scope, line, word + 1, 1..=u32::MAX).map_err(|problem| Problem { message, ..problem })?;
    draft.bind.netscaler_magic = Some(magic);
    Ok(())
}

/// `tcp-ut`.
pub fn tcp_user_timeout(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    draft: &mut BindDraft,
) -> Result<(), Problem> {
    let word = *index;
    argument(line, index, "missing TCP User Timeout value")?;
    draft.bind.tcp_user_timeout = Some(args::time(scope, line, word + 1, Unit::Millisecond)?);
    Ok(())
}

/// `mode`, `user`, `uid`, `group`, `gid`.
pub fn unix(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    let keyword = line.word(word);
    let value = argument(line, index, "missing value")?;
    let numeric = || {
        value.parse().map(Identity::Number).map_err(|_| {
            Problem::new(format!("'{keyword}' : '{value}' is not a number")).at(word + 1).expected("a number")
        })
    };
    let unix = &mut draft.bind.unix;
    match keyword {
        "mode" => {
            let mode = u32::from_str_radix(value, 8).map_err(|_| {
                Problem::new(format!("'mode' : missing or invalid mode '{value}' (octal integer expected)"))
                    .at(word + 1)
            })?;
            unix.mode = Some(mode);
        }
        "user" => unix.user = Some(Identity::Name(value.to_owned())),
        "uid" => unix.user = Some(numeric()?),
        "group" => unix.group = Some(Identity::Name(value.to_owned())),
        _ => unix.group = Some(numeric()?),
    }
    Ok(())
}

/// `level`.
pub fn level(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    draft.bind.level = Some(match argument(line, index, "missing level")? {
        "user" => CliLevel::User,
        "operator" => CliLevel::Operator,
        "admin" => CliLevel::Admin,
        value => {
            let message = format!("'level' only supports 'user', 'operator', and 'admin' (got '{value}')");
            return Err(Problem::new(message).at(word + 1).nearest(value, ["user", "operator", "admin"]));
        }
    });
    Ok(())
}

/// `severity-output`.
pub fn severity_output(
    _: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    draft: &mut BindDraft,
) -> Result<(), Problem> {
    let word = *index;
    let value = argument(line, index, "missing severity format")?;
    draft.severity = SeverityOutput::named(value).ok_or_else(|| {
        let message = format!("'severity-output' only supports 'none', 'number', and 'string' (got '{value}')");
        Problem::new(message).at(word + 1).nearest(value, ["none", "number", "string"])
    })?;
    Ok(())
}

/// `expose-fd`.
pub fn expose_fd(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    match argument(line, index, "missing fd type")? {
        "listeners" => draft.expose_fd_listeners = true,
        value => {
            let message = format!("'expose-fd' only supports 'listeners' (got '{value}')");
            return Err(Problem::new(message).at(word + 1));
        }
    }
    Ok(())
}

/// `thread`.
pub fn thread(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    let value = argument(line, index, "missing thread range")?;
    let (group, threads) = value.split_once('/').map_or((None, value), |(group, threads)| (Some(group), threads));
    if group.is_some_and(|group| group != "1") {
        let message = format!("'{value}' thread-group number must be between 1 and 1");
        return Err(Problem::new(message).at(word + 1));
    }
    if *draft.names_thread_group.get_or_insert(group.is_some()) != group.is_some() {
        return Err(Problem::new(format!("'{value}' multiple thread-groups are not supported")).at(word + 1));
    }
    add_threads(draft, threads).map_err(|message| Problem::new(format!("'{threads}' : {message}")).at(word + 1))
}

fn add_threads(draft: &mut BindDraft, threads: &str) -> Result<(), String> {
    let numbers = args::number_set(threads, THREADS_MAX)?;
    draft.bind.threads.extend(numbers);
    draft.bind.threads.sort_unstable();
    draft.bind.threads.dedup();
    Ok(())
}

/// `process`, the old word for `thread`.
pub fn process(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    let value = argument(line, index, "missing process range")?;
    let (process, threads) = value.split_once('/').map_or((value, None), |(process, threads)| (process, Some(threads)));
    let wrong = |message: String| Problem::new(format!("'process' : {message}")).at(word + 1);
    args::number_set(process, 1).map_err(wrong)?;
    let mut message = format!("'process {value}' on 'bind' lines is deprecated and will be removed in 2.7.");
    if let Some(threads) = threads {
        draft.names_thread_group.get_or_insert(false);
        add_threads(draft, threads).map_err(wrong)?;
        message.push_str(&format!(" Please use 'thread {threads}' instead."));
    }
    scope.warn(line, Problem::new(message).at(word));
    Ok(())
}

/// `proto`.
pub fn proto(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut BindDraft) -> Result<(), Problem> {
    let word = *index;
    draft.bind.protocol = match argument(line, index, "missing value")? {
        "h1" => Some(BindProtocol::Http1),
        "h2" => Some(BindProtocol::Http2),
        "none" => None,
        value => return Err(Problem::new(format!("'proto' :  unknown MUX protocol '{value}'")).at(word + 1)),
    };
    Ok(())
}
