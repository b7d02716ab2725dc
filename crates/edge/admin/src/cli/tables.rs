//! `show table`, `set table` and `clear table`.

use std::{fmt::Write as _, sync::Arc};

use haproxycfg::model::CliLevel;
use stick::{DataType, Definition, Entry, Handle, Key, KeyType, Kind, Reading, Removal, Snapshot, Table};

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// Most conditions of one command.
const FILTERS_MAX: usize = 4;
/// A part of an answer is this long at most, and a line more.
const PART_LEN: usize = 65_536;
/// Entries that are looked at for one part of an answer.
const PART_ENTRIES: usize = 4_096;

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
    Below,
    Above,
}

impl Operator {
    fn find(word: &str) -> Option<Self> {
        Some(match word {
            "eq" => Self::Equal,
            "ne" => Self::NotEqual,
            "le" => Self::AtMost,
            "ge" => Self::AtLeast,
            "lt" => Self::Below,
            "gt" => Self::Above,
            _ => return None,
        })
    }

    fn holds(self, data: i64, value: i64) -> bool {
        match self {
            Self::Equal => data == value,
            Self::NotEqual => data != value,
            Self::AtMost => data <= value,
            Self::AtLeast => data >= value,
            Self::Below => data < value,
            Self::Above => data > value,
        }
    }
}

/// A condition on what an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter {
    data: DataType,
    operator: Operator,
    value: i64,
}

/// Entries of a table that are to be shown or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    table: String,
    filters: Vec<Filter>,
    clears: bool,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Show,
    Set,
    Clear,
}

pub(super) fn show(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    run(session, context, line, Action::Show)
}

pub(super) fn set(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    run(session, context, line, Action::Set)
}

pub(super) fn clear(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    run(session, context, line, Action::Clear)
}

fn usage(action: Action) -> Reply {
    Reply::error(match action {
        Action::Show => "Optional argument only supports \"data.<store_data_type>\" <operator> <value> and key <key>",
        Action::Clear => {
            "Required arguments: <table> \"data.<store_data_type>\" <operator> <value> or <table> key <key>"
        }
        Action::Set => "Required arguments: <table> key <key> [data.<store_data_type> <value>]*",
    })
}

fn run(session: &Session, context: &Context<'_>, line: &Line, action: Action) -> Reply {
    let tables = context.control.tables();
    let name = line.word(2);
    if name.is_empty() {
        if action != Action::Show {
            return usage(action);
        }
        return Reply::Text(tables.listed().fold(String::new(), |mut out, table| {
            write_head(&mut out, table);
            out
        }));
    }
    let Some(table) = tables.named(name) else { return Reply::error("No such table") };
    let may_see = session.level() >= CliLevel::Operator;
    let mut filters = Vec::new();
    match line.word(3) {
        "key" => return one(context, line, action, table, may_see),
        word if word.starts_with("data.") => {
            if action == Action::Set {
                return Reply::error("content-based lookup is only supported with the \"show\" and \"clear\" actions");
            }
            match read_filters(line, table.definition()) {
                Ok(found) => filters = found,
                Err(message) => return Reply::error(message),
            }
        }
        "" => {}
        _ => return usage(action),
    }
    match action {
        Action::Show if !may_see => {
            let mut out = String::new();
            write_head(&mut out, table);
            out.push_str("# contents not dumped due to insufficient privileges\n");
            Reply::Text(out)
        }
        // As in HAProxy nothing is set without a key, and nobody is told.
        Action::Set => Reply::Done,
        Action::Clear if !may_see => Reply::Done,
        _ => Reply::Entries(Entries { table: name.to_owned(), filters, clears: action == Action::Clear }),
    }
}

fn read_filters(line: &Line, definition: &Definition) -> Result<Vec<Filter>, String> {
    let mut filters = Vec::new();
    let mut at = 3;
    while filters.len() < FILTERS_MAX && (filters.is_empty() || !line.word(at).is_empty()) {
        let number = filters.len() + 1;
        // Whatever the five characters before it are.
        let name = line.word(at).get(5..).unwrap_or_default();
        let data = DataType::find(name).ok_or_else(|| format!("Filter entry #{number}: Unknown data type"))?;
        if !definition.layout.stores(data) {
            return Err(format!("Filter entry #{number}: Data type not stored in this table"));
        }
        let operator = Operator::find(line.word(at + 1)).ok_or_else(|| {
            format!("Filter entry #{number}: Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"")
        })?;
        let value = integer(line.word(at + 2))
            .ok_or_else(|| format!("Filter entry #{number}: Require a valid integer value to compare against"))?;
        filters.push(Filter { data, operator, value });
        at += 3;
    }
    if !line.word(at).is_empty() {
        return Err(format!(
            "Detected extra data in filter, {}th word of input, after '{}'",
            at + 1,
            line.word(at - 1)
        ));
    }
    Ok(filters)
}

/// Digits, with a minus before them or not.
fn integer(text: &str) -> Option<i64> {
    if text.starts_with('+') {
        return None;
    }
    // As in HAProxy a minus alone is zero.
    if text == "-" { Some(0) } else { text.parse().ok() }
}

/// What the commands do with one key.
fn one(context: &Context<'_>, line: &Line, action: Action, table: &Table, may: bool) -> Reply {
    let text = line.word(4);
    if text.is_empty() {
        return Reply::error("Key value expected");
    }
    let definition = table.definition();
    let key = match definition.key {
        KeyType::Ip => Some(Key::ip(lenient_ipv4(text).into())),
        KeyType::Ipv6 => text.parse().ok().map(Key::ipv6),
        KeyType::Integer => lenient_integer(text).map(Key::integer),
        KeyType::String => Some(Key::text(text.as_bytes(), definition.key_len)),
        KeyType::Binary => {
            let what = match action {
                Action::Show => "Showing keys from",
                Action::Clear => "Removing keys from",
                Action::Set => "Inserting keys into",
            };
            return Reply::error(format!(
                "{what} tables of type other than ip, ipv6, string and integer is not supported"
            ));
        }
    };
    let Some(key) = key else { return Reply::error("Invalid key") };
    if !may {
        return Reply::error("Permission denied");
    }
    let now = context.control.now_ms();
    match action {
        Action::Show => {
            let Some(handle) = table.handle(key.bytes()) else { return Reply::Done };
            let mut lines = String::new();
            let found = table.find(key.bytes(), now, |entry| {
                write_entry(&mut lines, definition, handle, key.bytes(), entry);
            });
            if found.is_none() {
                return Reply::Done;
            }
            let mut out = String::new();
            write_head(&mut out, table);
            Reply::Text(out + &lines)
        }
        Action::Clear => match table.remove(key.bytes(), now, |_| false) {
            Removal::InUse => Reply::error("Entry currently in use, cannot remove"),
            Removal::Absent | Removal::Removed => Reply::Done,
        },
        Action::Set => {
            let set = table.find_or_make(key.bytes(), now, |entry| {
                let outcome = set_data(line, definition, entry);
                entry.touch();
                outcome
            });
            match set {
                None => Reply::error("Unable to allocate a new entry"),
                Some(Err(message)) => Reply::error(message),
                Some(Ok(())) => Reply::Done,
            }
        }
    }
}

/// Sets what the words behind the key say, up to the first that is wrong.
fn set_data(line: &Line, definition: &Definition, entry: &mut Entry<'_>) -> Result<(), &'static str> {
    let mut at = 5;
    while !line.word(at).is_empty() {
        let Some(name) = line.word(at).strip_prefix("data.") else {
            return Err("\"data.<type>\" followed by a value expected");
        };
        let data = DataType::find(name).ok_or("Unknown data type")?;
        if !definition.layout.stores(data) {
            return Err("Data type not stored in this table");
        }
        let value = integer(line.word(at + 1)).ok_or("Require a valid integer value to store")?;
        entry.set(data, 0, value);
        at += 2;
    }
    Ok(())
}

/// An address as HAProxy reads it here: numbers between dots, as far as there are any.
fn lenient_ipv4(text: &str) -> u32 {
    let mut address = 0;
    for (part, shift) in text.split('.').zip([24, 16, 8, 0]) {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number: u32 = part.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0);
        address |= number.checked_shl(shift).unwrap_or(0);
        if digits == 0 || digits < part.len() {
            break;
        }
    }
    address
}

/// An integer as C reads it, behind blanks and up to what is no digit.
fn lenient_integer(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

fn write_head(out: &mut String, table: &Table) {
    let definition = table.definition();
    let _ = writeln!(
        out,
        "# table: {}, type: {}, size:{}, used:{}",
        definition.name,
        definition.key.name(),
        // As in HAProxy.
        definition.size.cast_signed(),
        table.len()
    );
}

/// A dump that goes on, part by part.
pub(super) struct Dump {
    table: Arc<Table>,
    keys: Snapshot,
    request: Entries,
    begun: bool,
}

impl Dump {
    /// Begins; nothing when the table has gone meanwhile.
    pub(super) fn begin(request: Entries, context: &Context<'_>) -> Option<Self> {
        let table = Arc::clone(context.control.tables().named(&request.table)?);
        table.purge(context.control.now_ms());
        Some(Self { keys: table.keys(), table, request, begun: false })
    }

    /// The next part; none when all was said.
    pub(super) fn part(&mut self, context: &Context<'_>) -> Option<String> {
        let mut out = String::new();
        let now = context.control.now_ms();
        if !self.begun {
            self.begun = true;
            if !self.request.clears {
                write_head(&mut out, &self.table);
            }
        }
        let definition = self.table.definition();
        let mut is_over = false;
        for _ in 0..PART_ENTRIES {
            if out.len() >= PART_LEN {
                break;
            }
            let Some(key) = self.keys.next_key() else {
                is_over = true;
                break;
            };
            let filters = &self.request.filters;
            if self.request.clears {
                self.table.remove(key, now, |entry| !passes(filters, entry));
            } else if let Some(handle) = self.table.handle(key) {
                self.table.find(key, now, |entry| {
                    if passes(filters, entry) {
                        write_entry(&mut out, definition, handle, key, entry);
                    }
                });
            }
        }
        if is_over && out.is_empty() { None } else { Some(out) }
    }
}

fn passes(filters: &[Filter], entry: &mut Entry<'_>) -> bool {
    filters.iter().all(|filter| {
        let data = match entry.read(filter.data, 0) {
            Some(Reading::Number(number)) => number,
            Some(Reading::Long(number)) => number.cast_signed(),
            Some(Reading::Word(_)) | None => 0,
        };
        filter.operator.holds(data, filter.value)
    })
}

fn write_entry(out: &mut String, definition: &Definition, handle: Handle, key: &[u8], entry: &mut Entry<'_>) {
    let _ = write!(out, "{:#x}: key=", handle.number() * 64 + 64);
    write_key(out, definition.key, key);
    let _ = write!(out, " use={} exp={}", entry.references(), entry.remaining_ms());
    let layout = &definition.layout;
    for data in layout.types() {
        let name = data.name();
        for index in 0..layout.len(data) {
            out.push(' ');
            if data.is_array() {
                // The index stands before what follows the first part of the name.
                let (first, rest) = name.split_once('_').map_or((name, None), |(first, rest)| (first, Some(rest)));
                let _ = write!(out, "{first}{index}");
                if let Some(rest) = rest {
                    let _ = write!(out, "_{rest}");
                }
            } else {
                out.push_str(name);
            }
            if data.kind() == Kind::Rate {
                let _ = write!(out, "({})", layout.period_ms(data));
            }
            out.push('=');
            let _ = match entry.read(data, index) {
                Some(Reading::Number(number)) => write!(out, "{number}"),
                Some(Reading::Long(number)) => write!(out, "{number}"),
                Some(Reading::Word(Some(word))) => write!(out, "{word}"),
                Some(Reading::Word(None)) => write!(out, "-"),
                None => Ok(()),
            };
        }
    }
    out.push('\n');
}

fn write_key(out: &mut String, key_type: KeyType, key: &[u8]) {
    match (key_type, key) {
        (KeyType::Ip, [a, b, c, d]) => {
            let _ = write!(out, "{a}.{b}.{c}.{d}");
        }
        (KeyType::Ipv6, key) => {
            let octets: [u8; 16] = key.try_into().unwrap_or_default();
            let _ = write!(out, "{}", std::net::Ipv6Addr::from(octets));
        }
        (KeyType::Integer, key) => {
            let _ = write!(out, "{}", u32::from_ne_bytes(key.try_into().unwrap_or_default()));
        }
        (KeyType::String, key) => key.iter().for_each(|byte| write_escaped(out, *byte)),
        (KeyType::Ip | KeyType::Binary, key) => {
            for byte in key {
                let _ = write!(out, "{byte:02X}");
            }
        }
    }
}

/// Keys are shown as words: what would end them stands behind a backslash.
fn write_escaped(out: &mut String, byte: u8) {
    match byte {
        b'\\' | b' ' | b'=' => {
            out.push('\\');
            out.push(char::from(byte));
        }
        b'\t' => out.push_str("\\t"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        0x1b => out.push_str("\\e"),
        0x21..=0x7e => out.push(char::from(byte)),
        _ => {
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}
