//! What the worker threads do: `show activity`, `show threads`, `show tasks`, and what there is of profiling and tracing.
//!
//! HAProxy shows its own scheduler there. Here that is tokio's, of which these numbers are known; what is not known is left
//! out rather than made up.

use std::fmt::Write as _;

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};
use crate::stats::control::ThreadView;

/// `name: total [ thread thread ]`, or the number alone if there is one thread.
fn total(out: &mut String, name: &str, threads: &[ThreadView], value: fn(&ThreadView) -> u64) {
    let values: Vec<u64> = threads.iter().map(value).collect();
    let sum: u64 = values.iter().sum();
    let _ = match &values[..] {
        [_] => writeln!(out, "{name}: {sum}"),
        values => {
            let each: String = values.iter().map(|value| format!("{value} ")).collect();
            writeln!(out, "{name}: {sum} [ {each}]")
        }
    };
}

/// `name: mean [ thread thread ]` of a sum and a count.
fn average(out: &mut String, name: &str, threads: &[ThreadView], value: fn(&ThreadView) -> (u64, u64)) {
    let mean = |(sum, count): (u64, u64)| sum / count.max(1);
    let all = threads.iter().map(value).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let _ = match threads {
        [_] => writeln!(out, "{name}: {}", mean(all)),
        threads => {
            let each: String = threads.iter().map(|thread| format!("{} ", mean(value(thread)))).collect();
            writeln!(out, "{name}: {} [ {each}]", mean(all))
        }
    };
}

pub(super) fn activity(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let threads = context.control.threads();
    let process = context.control.process();
    let mut out = format!("thread_id: 1 (1..{})\n", threads.len());
    let _ = writeln!(out, "date_now: {}.{:06}", context.now.as_secs(), context.now.subsec_micros());
    total(&mut out, "loops", &threads, |thread| thread.parks);
    total(&mut out, "tasks", &threads, |thread| thread.tasks);
    total(&mut out, "rq_depth", &threads, |thread| thread.ready);
    total(&mut out, "busy_ms", &threads, |thread| thread.busy_ms);
    // Memory and buffers are the system's: nobody waits for them.
    total(&mut out, "pool_fail", &threads, |_| 0);
    total(&mut out, "buf_wait", &threads, |_| 0);
    average(&mut out, "avg_loop_us", &threads, |thread| (thread.busy_ms.saturating_mul(1_000), thread.parks));
    total(&mut out, "accepted", &threads, |thread| thread.accepted);
    total(&mut out, "fd_takeover", &threads, |thread| thread.taken_over);
    total(&mut out, "conn", &threads, |thread| thread.open);
    total(&mut out, "requests", &threads, |thread| thread.requests);
    total(&mut out, "bytes_out", &threads, |thread| thread.bytes_out);
    if let Some(idle) = process.idle_percent {
        let _ = writeln!(out, "idle_pct: {idle}");
    }
    Reply::Text(out)
}

pub(super) fn threads(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let mut out = String::new();
    for (index, thread) in context.control.threads().iter().enumerate() {
        let _ = writeln!(
            out,
            "  Thread {} : act={} wq={} rq={} conn={}\n             cpu_ns: busy={}",
            index + 1,
            u8::from(thread.ready > 0),
            thread.tasks,
            thread.ready,
            thread.open,
            thread.busy_ms.saturating_mul(1_000_000),
        );
    }
    Reply::Text(out)
}

pub(super) fn tasks(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    let threads = context.control.threads();
    let ready: u64 = threads.iter().map(|thread| thread.ready).sum();
    Reply::Text(format!(
        "Running tasks: {ready} ({} threads)\n  function                     places     %    lat_tot   lat_avg\n",
        threads.len()
    ))
}

const NO_TASK_PROFILE: &str = "'set profiling tasks' has no meaning here: tasks are the runtime's. Use the system's profiler \
    (perf), or 'tidegate log' for what requests take.";

pub(super) fn set_profiling(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    match (line.word(2), line.word(3)) {
        ("memory", _) => Reply::error("Memory profiling not compiled in."),
        ("tasks", "off") => Reply::Done,
        ("tasks", "on" | "auto") => Reply::error(NO_TASK_PROFILE),
        ("tasks", _) => Reply::error("Expects 'on', 'auto', or 'off'."),
        _ => Reply::error("Expects either 'tasks' or 'memory'."),
    }
}

pub(super) fn show_profiling(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    let state = "Per-task CPU profiling              : off           # set profiling tasks {on|auto|off}\n\
        Memory usage profiling              : off           # set profiling memory {on|off}\n";
    match line.word(2) {
        "memory" => Reply::Text(String::new()),
        "tasks" => Reply::Text("Tasks activity:\n".to_owned()),
        _ => Reply::Text(state.to_owned()),
    }
}

const SOURCES: &str = "Supported trace sources and states (.=stopped, w=waiting, R=running) :\n";

/// There are no sources: what workers do is recorded all the time.
pub(super) fn trace(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    match line.word(1) {
        "" => Reply::Said(
            Severity::Warning,
            format!("{SOURCES} [.] 0          : not a source, will immediately stop all traces"),
        ),
        "0" => Reply::Unended(Severity::Notice, "All traces now stopped".to_owned()),
        _ => no_source(),
    }
}

pub(super) fn show_trace(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    if line.word(2).is_empty() { Reply::Text(SOURCES.to_owned()) } else { no_source() }
}

fn no_source() -> Reply {
    Reply::error("No such trace source: there are none. 'tidegate log' shows what workers do.")
}
