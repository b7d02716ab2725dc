//! `show resolvers`, and `show stat domain resolvers`.

use std::fmt::Write as _;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};
use crate::stats::value::write_json_string;

pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let mut sections = context.control.resolvers();
    if sections.is_empty() {
        return Reply::Text("No resolvers found\n".to_owned());
    }
    let wanted = line.word(2);
    if !wanted.is_empty() {
        sections.retain(|section| *section.name == *wanted);
        if sections.is_empty() {
            return Reply::error("Can't find that resolvers section");
        }
    }
    let mut out = String::new();
    for section in sections {
        let _ = writeln!(out, "Resolvers section {}", section.name);
        for (name, counters) in section.nameservers {
            let _ = writeln!(out, " nameserver {name}:");
            for (word, value) in numbers(&counters) {
                let word = if word == "send_error" { "snd_error" } else { word };
                let _ = writeln!(out, "  {:<12} {value}", format!("{word}:"));
            }
        }
    }
    Reply::Text(out)
}

fn numbers(counters: &dns::Counters) -> [(&'static str, u64); 15] {
    [
        ("sent", counters.sent),
        ("send_error", counters.send_error),
        ("valid", counters.valid),
        ("update", counters.update),
        ("cname", counters.cname),
        ("cname_error", counters.cname_error),
        ("any_err", counters.any_err),
        ("nx", counters.nx),
        ("timeout", counters.timeout),
        ("refused", counters.refused),
        ("other", counters.other),
        ("invalid", counters.invalid),
        ("too_big", counters.too_big),
        ("truncated", counters.truncated),
        ("outdated", counters.outdated),
    ]
}

/// `show stat domain resolvers`, in the three forms of statistics. NOTE: HAProxy forgets the commas between the rows of its
/// JSON, which nobody can read then.
pub(super) fn statistics(context: &Context<'_>, line: &Line) -> Reply {
    let form = line.rest(4).filter(|word| matches!(*word, "typed" | "json")).last();
    let sections = context.control.resolvers();
    let rows = sections
        .iter()
        .flat_map(|section| section.nameservers.iter().map(move |(name, counters)| (&section.name, name, counters)));
    let mut out = String::new();
    let mut is_first = true;
    for (section, name, counters) in rows {
        let numbers = numbers(counters);
        match form {
            Some("typed") => {
                let _ = writeln!(out, "N.0.id:CGP:str:{name}\nN.1.pid:CGP:str:{section}");
                for (place, (word, value)) in (2..).zip(numbers) {
                    let _ = writeln!(out, "N.{place}.{word}:MGP:u64:{value}");
                }
            }
            Some(_) => {
                out.push_str(if std::mem::take(&mut is_first) { "[[" } else { ",[" });
                write_json_field(&mut out, 0, "id", "Config", "str", |out| write_json_string(out, name));
                out.push(',');
                write_json_field(&mut out, 1, "pid", "Config", "str", |out| write_json_string(out, section));
                for (place, (word, value)) in (2..).zip(numbers) {
                    out.push(',');
                    write_json_field(&mut out, place, word, "Metric", "u64", |out| {
                        let _ = write!(out, "{value}");
                    });
                }
                out.push(']');
            }
            None => {
                if std::mem::take(&mut is_first) {
                    out.push_str("# id,pid,");
                    out.extend(numbers.iter().flat_map(|(word, _)| [word, ","]));
                    out.push('\n');
                }
                let _ = write!(out, "{name},{section},");
                out.extend(numbers.iter().map(|(_, value)| format!("{value},")));
                out.push('\n');
            }
        }
    }
    if form == Some("json") {
        out.push_str(if is_first { "[]\n" } else { "]\n" });
    }
    Reply::Text(out)
}

fn write_json_field(
    out: &mut String,
    place: usize,
    name: &str,
    origin: &str,
    kind: &str,
    value: impl FnOnce(&mut String),
) {
    let _ = write!(
        out,
        r#"{{"field":{{"pos":{place},"name":"{name}"}},"tags":{{"origin":"{origin}","nature":"Gauge","scope":"Process"}},"value":{{"type":"{kind}","value":"#
    );
    value(out);
    out.push_str("}}");
}
