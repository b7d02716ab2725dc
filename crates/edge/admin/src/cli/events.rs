//! `show events`: rings, and what is in them.

use std::{fmt::Write as _, sync::Arc};

use haproxycfg::model::CliLevel;
use logs::LogRing;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};

/// Bytes of lines that are written at a time.
const PART_BYTES_MAX: usize = 16 * 1024;

/// The lines of a ring.
#[derive(Clone, Debug)]
pub struct Events {
    ring: Arc<LogRing>,
    /// Number of the first line that is wanted.
    next: u64,
    /// Whether lines that are still to come are wanted too.
    waits: bool,
}

impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ring, &other.ring) && (self.next, self.waits) == (other.next, other.waits)
    }
}

impl Eq for Events {}

pub(super) fn show(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let name = line.word(2);
    if name.is_empty() {
        return Reply::Unended(Severity::Warning, list(&context.rings));
    }
    if session.level() < CliLevel::Operator {
        return Reply::error("Permission denied");
    }
    let known = if name == "buf0" {
        context.buffer.as_ref()
    } else {
        context.rings.iter().find(|ring| &*ring.settings().name == name)
    };
    let Some(ring) = known else {
        return match name {
            "stdout" | "stderr" => Reply::Unended(Severity::Notice, "Nothing to report for this sink".to_owned()),
            // Nothing was written there yet.
            "buf0" => Reply::Done,
            _ => Reply::Unended(Severity::Error, "No such event sink".to_owned()),
        };
    };
    let (mut waits, mut only_new) = (false, false);
    for index in 3.. {
        match line.word(index) {
            "" => break,
            "-w" => waits = true,
            "-n" => only_new = true,
            "-nw" | "-wn" => (waits, only_new) = (true, true),
            _ => return Reply::Unended(Severity::Error, "unknown option".to_owned()),
        }
    }
    let next = if only_new { ring.end() } else { 0 };
    Reply::Events(Events { ring: Arc::clone(ring), next, waits })
}

fn list(rings: &[Arc<LogRing>]) -> String {
    let mut text = "Supported events sinks are listed below. Add -w(wait), -n(new). Any key to stop\n".to_owned();
    for (name, description) in [
        ("stdout", "type=fd, 0 dropped, standard output (fd#1)"),
        ("stderr", "type=fd, 0 dropped, standard output (fd#2)"),
        ("buf0", "type=buffer, 0 dropped, in-memory ring buffer"),
    ] {
        let _ = writeln!(text, "    {name:<10} : {description}");
    }
    for ring in rings {
        let settings = ring.settings();
        let _ = writeln!(
            text,
            "    {:<10} : type=buffer, {} dropped, {}",
            settings.name,
            ring.dropped(),
            settings.description
        );
    }
    text
}

impl Events {
    /// Writes the lines; when it waits for more, until the other side says anything or leaves.
    ///
    /// # Errors
    /// The connection's.
    pub(super) async fn write_to<S>(mut self, stream: &mut S) -> std::io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut bytes = Vec::new();
        loop {
            let (lines, next) = self.ring.read(self.next, PART_BYTES_MAX);
            self.next = next;
            if !lines.is_empty() {
                bytes.clear();
                for line in &lines {
                    bytes.extend_from_slice(line);
                    bytes.push(b'\n');
                }
                stream.write_all(&bytes).await?;
                continue;
            }
            if !self.waits {
                return Ok(());
            }
            stream.flush().await?;
            let mut key = [0; 256];
            tokio::select! {
                () = self.ring.wait(next) => {}
                _ = stream.read(&mut key) => return Ok(()),
            }
        }
    }
}
