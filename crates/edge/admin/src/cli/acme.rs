//! `acme status`, `acme renew`: certificates that come by themselves.

use std::fmt::Write as _;

use ::acme::{State, Status, dates};

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};

/// `acme renew`.
pub(super) fn renew(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let name = line.word(2);
    if name.is_empty() {
        return Reply::error("'acme renew' expects the name of a certificate, as 'acme status' has it");
    }
    match context.control.renew_certificate(name) {
        Ok(()) => Reply::Said(Severity::Info, format!("'{name}' is asked for; 'acme status' tells how far it is.")),
        Err(why) => Reply::error(why.to_string()),
    }
}

/// `acme status`, with HAProxy's columns and two more at the end.
pub(super) fn status(_: &mut Session, context: &Context<'_>, _: &Line) -> Reply {
    Reply::Text(table(&context.control.certificates(), ::acme::now()))
}

fn table(certificates: &[Status], now: i64) -> String {
    let mut out = String::from(
        "# certificate\tsection\tstate\texpiration date (UTC)\texpires in\tscheduled date (UTC)\tscheduled in\tfailures\tlast failure\n",
    );
    for status in certificates {
        let date = |time: Option<i64>| time.map_or_else(|| "-".to_owned(), dates::to_iso8601);
        let left = |time: Option<i64>| time.map_or_else(|| "-".to_owned(), |time| dates::lasting(time - now));
        let scheduled = status.scheduled.filter(|_| status.state != State::Stopped).map(|time| time.max(now));
        let _ = writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            status.name,
            status.section,
            status.state.word(),
            date(status.ends),
            left(status.ends),
            date(scheduled),
            left(scheduled),
            status.failures,
            status.error.as_deref().unwrap_or("-"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_certificate() {
        let status = Status {
            name: "foobar.pem".into(),
            section: "LE".into(),
            names: vec!["foobar.example".to_owned()],
            state: State::Scheduled,
            ends: Some(1_754_308_254),
            scheduled: Some(1_753_660_255),
            lifetime: Some(90 * 86_400),
            failures: 0,
            failed: 0,
            renewed: 1,
            error: None,
        };
        let temporary = Status {
            ends: None,
            state: State::Running,
            scheduled: Some(0),
            failures: 2,
            error: Some("no".to_owned()),
            ..status.clone()
        };
        let text = table(&[status, temporary], 1_746_535_781);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "foobar.pem\tLE\tScheduled\t2025-08-04T11:50:54Z\t89d 23h01m13s\t2025-07-27T23:50:55Z\t82d 11h01m14s\t0\t-",
                "foobar.pem\tLE\tRunning\t-\t-\t2025-05-06T12:49:41Z\t0d 0h00m00s\t2\tno",
            ]
        );
    }
}
