//! `show resolvers`.

use std::fmt::Write as _;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

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
            for (word, value) in [
                ("sent", counters.sent),
                ("snd_error", counters.send_error),
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
            ] {
                let _ = writeln!(out, "  {:<12} {value}", format!("{word}:"));
            }
        }
    }
    Reply::Text(out)
}
