//! `stick-table`.

use std::sync::Arc;

use stick::{
    ARRAY_LEN_MAX, DataType, Definition, KEY_LEN_DEFAULT, KEY_LEN_MAX, KeyType, Layout, ServerKey, StoreError,
};

use super::words::{leading_integer, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{ProxyIndex, StickTable, TableIndex},
    scope::{Scope, Section},
    table::{Group, Keyword, Sections},
    units::{self, TimeError, Unit},
};

/// Keywords of tables.
pub(super) const KEYWORDS: &[Keyword] = &[Keyword::new(
    Group::Proxy,
    "stick-table",
    "type { ip | ipv6 | integer | string [len <length>] | binary [len <length>] } size <size> [expire <time>] [nopurge] \
     [peers <section>] [srvkey { name | addr }] [store <data>[,<data>...]]...",
    "4.2",
)
.sections(Sections::FRONTEND_BACKEND)
.doc(
    "A table with counters, rates, tags and servers of clients, by address or any other key.",
    "stick-table type ip size 1m expire 10s store http_req_rate(10s)",
)
.line(stick_table)];

/// The index of the table that comes next.
fn next_index(scope: &Scope<'_>) -> TableIndex {
    TableIndex(u32::try_from(scope.state.stick_tables.len()).unwrap_or(u32::MAX))
}

fn stick_table(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = Arc::clone(&scope.proxy().proxy.name);
    refuse_known(scope, &name)?;
    let proxy = match scope.section {
        Section::Proxy(index) => u32::try_from(index).ok().map(ProxyIndex),
        _ => None,
    };
    let (definition, peers) = parse(scope, line, 1, name)?;
    let index = next_index(scope);
    scope.state.stick_tables.push(StickTable { definition, location: line.location(), proxy, peers });
    scope.proxy().proxy.stick_table = Some(index);
    Ok(())
}

/// `table` in the `peers` section of this name.
pub(crate) fn peers_table(scope: &mut Scope<'_>, line: &Line, peers: &Arc<str>) -> Result<(), Problem> {
    // As in HAProxy, which looks for the name without that of the section.
    refuse_known(scope, line.word(1))?;
    let name: Arc<str> = format!("{peers}/{}", line.word(1)).into();
    let (definition, _) = parse(scope, line, 2, name)?;
    let peers = Some(Arc::clone(peers));
    scope.state.stick_tables.push(StickTable { definition, location: line.location(), proxy: None, peers });
    Ok(())
}

fn refuse_known(scope: &Scope<'_>, name: &str) -> Result<(), Problem> {
    let Some(other) = scope.stick_table_named(name).and_then(|index| scope.stick_table(index)) else { return Ok(()) };
    let owner = other.proxy.and_then(|index| scope.state.proxies.get(index.0 as usize));
    let kind = owner.map_or("peers", |draft| draft.proxy.kind.word());
    let owner = owner.map_or_else(|| other.peers.clone().unwrap_or_default(), |draft| Arc::clone(&draft.proxy.name));
    let message = format!(
        "stick-table name '{name}' conflicts with table declared in {kind} '{owner}' at {}:{}.",
        other.location.file, other.location.line
    );
    Err(wrong(message, 0))
}

/// Reads the arguments of a table from the word at `index` on; also the section of its peers.
fn parse(
    scope: &mut Scope<'_>,
    line: &Line,
    mut index: usize,
    name: Arc<str>,
) -> Result<(Definition, Option<Arc<str>>), Problem> {
    let keyword = line.word(0);
    let mut size = 0;
    let (mut expire_ms, mut nopurge, mut server_key) = (0, false, ServerKey::Name);
    let mut key: Option<(KeyType, usize)> = None;
    let mut peers = None;
    let mut layout = Layout::default();
    while !line.word(index).is_empty() {
        let word = line.word(index);
        let value = line.word(index + 1);
        if value.is_empty() && matches!(word, "size" | "peers" | "expire") {
            return Err(wrong(format!("{keyword}: missing argument after '{word}'."), index + 1));
        }
        match word {
            "size" => {
                let read = units::size(value).map_err(|offset| unexpected(keyword, line, index + 1, offset))?;
                size = u32::try_from(read).unwrap_or(u32::MAX);
                index += 2;
            }
            "peers" => {
                peers = Some(value.into());
                index += 2;
            }
            "expire" => {
                expire_ms = milliseconds(scope, line, index + 1)?;
                index += 2;
            }
            "nopurge" => {
                nopurge = true;
                index += 1;
            }
            "type" => {
                index += 1;
                key = Some(key_type(line, &mut index)?);
            }
            "store" => {
                store(scope, line, index + 1, &mut layout)?;
                index += 2;
            }
            "srvkey" => {
                server_key = match value {
                    "name" => ServerKey::Name,
                    "addr" => ServerKey::Address,
                    _ => {
                        return Err(wrong(format!("{keyword} : unknown server key type '{value}'."), index + 1)
                            .expected("name or addr")
                            .nearest(value, ["name", "addr"]));
                    }
                };
                index += 2;
            }
            _ => {
                let known = ["type", "size", "expire", "nopurge", "peers", "srvkey", "store"];
                return Err(wrong(format!("{keyword}: unknown argument '{word}'."), index)
                    .expected("type, size, expire, nopurge, peers, srvkey or store")
                    .nearest(word, known));
            }
        }
    }
    if size == 0 {
        return Err(wrong(format!("{keyword}: missing size."), line.len()).expected("size <entries>, as size 100k"));
    }
    let Some((key, key_len)) = key else {
        return Err(wrong(format!("{keyword}: missing type."), line.len()).expected("type <type>, as type ip"));
    };
    Ok((Definition { name, key, key_len, size, expire_ms, nopurge, server_key, layout }, peers))
}

fn unexpected(keyword: &str, line: &Line, index: usize, offset: usize) -> Problem {
    let word = line.word(index);
    let argument = line.word(index.saturating_sub(1));
    let message = match word.get(offset..).and_then(|rest| rest.chars().next()) {
        Some(character) => format!("{keyword}: unexpected character '{character}' in argument of '{argument}'."),
        None => format!("{keyword}: unexpected end of the argument of '{argument}'."),
    };
    wrong(message, index).within(line, index, offset..offset + 1)
}

fn milliseconds(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<u32, Problem> {
    let (keyword, word) = (line.word(0), line.word(index));
    if let Err(TimeError::Unexpected(offset)) = units::time(word, Unit::Millisecond) {
        return Err(unexpected(keyword, line, index, offset));
    }
    let time = args::time(scope, line, index, Unit::Millisecond)
        .map_err(|problem| super::words::around(problem, |error| format!("{keyword}: {error}.")))?;
    Ok(u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
}

fn key_type(line: &Line, index: &mut usize) -> Result<(KeyType, usize), Problem> {
    let keyword = line.word(0);
    let word = line.word(*index);
    let unknown = |index: usize| {
        wrong(format!("{keyword}: unknown type '{}'.", line.word(index)), index)
            .expected("ip, ipv6, integer, string or binary")
            .nearest(line.word(index), KeyType::ALL.map(KeyType::name))
    };
    let key = KeyType::ALL.into_iter().find(|key| key.name() == word).ok_or_else(|| unknown(*index))?;
    *index += 1;
    if let Some(len) = key.fixed_len() {
        return Ok((key, len));
    }
    if line.word(*index) != "len" {
        // HAProxy counts the end of a string.
        return Ok((key, KEY_LEN_DEFAULT - usize::from(key == KeyType::String)));
    }
    *index += 1;
    let len = usize::try_from(leading_integer(line.word(*index), false).0).unwrap_or(0);
    if len == 0 {
        return Err(unknown(*index));
    }
    if len > KEY_LEN_MAX {
        let message = format!("{keyword}: length '{}' of keys is above {KEY_LEN_MAX}.", line.word(*index));
        return Err(wrong(message, *index).expected(format!("1 to {KEY_LEN_MAX}")));
    }
    *index += 1;
    Ok((key, len))
}

/// The types of a list such as `gpc0,conn_rate(10s),gpc(3)`, with their arguments.
fn store(scope: &mut Scope<'_>, line: &Line, index: usize, layout: &mut Layout) -> Result<(), Problem> {
    let keyword = line.word(0);
    let mut rest = line.word(index);
    while !rest.is_empty() {
        let name_end = rest.find([',', '(']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(name_end);
        let mut arguments = None;
        rest = match behind.strip_prefix('(') {
            Some(inside) => {
                let Some((inside, behind)) = inside.split_once(')') else {
                    let message = format!("{keyword}: missing closing parenthesis after store option '{name}'.");
                    return Err(wrong(message, index));
                };
                arguments = Some(inside);
                behind.split_once(',').map_or("", |(_, rest)| rest)
            }
            None => behind.strip_prefix(',').unwrap_or_default(),
        };
        store_one(scope, line, index, layout, name, arguments)?;
    }
    let overridden = [
        (DataType::Gpt, &[DataType::Gpt0][..], "gpt0"),
        (DataType::Gpc, &[DataType::Gpc0, DataType::Gpc1][..], "gpc[0/1]"),
        (DataType::GpcRate, &[DataType::Gpc0Rate, DataType::Gpc1Rate][..], "gpc[0/1]_rate"),
    ];
    for (array, single, words) in overridden {
        if layout.stores(array) && single.iter().any(|data| layout.stores(*data)) {
            let message = format!(
                "{keyword}: simultaneous usage of '{0}' and '{words}' in a same table is not permitted as '{0}' \
                 overrides '{words}'.",
                array.name()
            );
            return Err(wrong(message, index));
        }
    }
    Ok(())
}

fn store_one(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    layout: &mut Layout,
    name: &str,
    arguments: Option<&str>,
) -> Result<(), Problem> {
    let keyword = line.word(0);
    let Some(data) = DataType::find(name) else {
        return Err(wrong(format!("{keyword}: unknown store option '{name}'."), index)
            .nearest(name, DataType::ALL.map(DataType::name)));
    };
    let mut arguments = arguments.map(|inside| inside.splitn(2, ',')).into_iter().flatten();
    let mut elements = None;
    if data.is_array() {
        // As C reads it: what is no number is zero, which is no size.
        elements = arguments.next().map(|text| u32::try_from(leading_integer(text, false).0).unwrap_or(u32::MAX));
    }
    let period = match arguments.next() {
        None => None,
        Some(text) if data.kind() == stick::Kind::Rate => {
            let time = units::time(text, Unit::Millisecond).ok().filter(|time| time.ignored_from.is_none());
            let time = time.filter(|time| !time.value.is_zero());
            let Some(time) = time else {
                let message = format!("{keyword}: error when processing store option '{name}'.");
                return Err(wrong(message, index).expected("a period above zero, as 10s"));
            };
            Some(u32::try_from(time.value.as_millis()).unwrap_or(u32::MAX))
        }
        // What it is does not matter: there should be nothing.
        Some(_) => Some(0),
    };
    match layout.store(data, elements, period) {
        Ok(()) => Ok(()),
        Err(StoreError::Exists) => {
            let message = format!("{keyword}: store option '{name}' already enabled, ignored.");
            scope.warn(line, wrong(message, index));
            Ok(())
        }
        Err(StoreError::MissingArgument) => {
            Err(wrong(format!("{keyword}: missing argument to store option '{name}'."), index)
                .expected(if data.is_array() { "a number of elements" } else { "a period, as in conn_rate(10s)" }))
        }
        Err(StoreError::UnexpectedArgument) => {
            Err(wrong(format!("{keyword}: unexpected argument to store option '{name}'."), index))
        }
        Err(StoreError::ArrayLen) => {
            let message =
                format!("{keyword}: array size is out of allowed range (1-{ARRAY_LEN_MAX}) for store option '{name}'.");
            Err(wrong(message, index))
        }
    }
}
