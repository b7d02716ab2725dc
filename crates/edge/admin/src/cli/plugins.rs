//! `show plugins`: which plugins the program has, and which rules use them.

use std::fmt::Write as _;

use live::plugins::all_calls;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

pub(super) fn show(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error("Nothing runs.") };
    let (instance, host) = (edge.instance(), &edge.process.plugins);
    let mut out = String::new();
    for plugin in host.plugins.0 {
        let _ = writeln!(out, "plugin.{}: {}", plugin.name, plugin.answerer.about());
        for (call, location) in all_calls(&instance.config).filter(|(call, _)| *call.name == *plugin.name) {
            let arguments: String = call.arguments.iter().map(|argument| format!(" {argument}")).collect();
            let _ = writeln!(out, "  used by {}:{}{arguments}", location.file, location.line);
        }
    }
    if out.is_empty() {
        out.push_str("the program has no plugins\n");
    } else {
        let _ = writeln!(out, "requests that wait for a thread: {}", host.waiting());
    }
    Reply::Text(out)
}
