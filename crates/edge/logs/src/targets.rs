//! The `log` lines of a proxy, ready to send to.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use haproxycfg::model::{Global, LogDestination, LogTarget};

use super::{
    line::Header,
    message::Form,
    output::{Output, Outputs},
};

/// Bytes that the name of the machine may have.
const HOSTNAME_BYTES_MAX: usize = 255;

/// What lines are tagged with unless `log-tag` says otherwise, whatever the program is called: rules of syslog that divert
/// HAProxy's lines, as Debian's package brings them, go on doing so.
const DEFAULT_TAG: &str = "haproxy";

/// Who logs, as the headers of lines say it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `log-tag`, or HAProxy's.
    pub tag: String,
    /// `log-send-hostname`.
    pub hostname: Option<String>,
    /// Process id.
    pub pid: u32,
}

impl Identity {
    /// What the `global` section says.
    #[must_use]
    pub fn new(global: &Global) -> Self {
        let hostname = global.log_send_hostname.as_deref().map(|given| match given {
            "" => system_hostname(),
            given => given.to_owned(),
        });
        let tag = global.log_tag.clone().unwrap_or_else(|| DEFAULT_TAG.to_owned());
        Self { tag, hostname, pid: std::process::id() }
    }
}

fn system_hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|letter| letter.is_ascii_graphic()).take(HOSTNAME_BYTES_MAX).collect()
}

/// Where lines of a proxy go. An empty one takes lines and does nothing.
#[derive(Debug, Default)]
pub struct LogTargets {
    targets: Box<[Target]>,
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) output: Arc<Output>,
    pub(super) header: Header,
    /// How it wants lines of others; bytes of a line are those without its end.
    pub(super) form: Form,
    level: u8,
    minlevel: u8,
    sample: Option<Sample>,
}

/// `sample`: some of each so many lines. The place in the count is shared by all workers.
#[derive(Debug)]
struct Sample {
    ranges: Vec<(u32, u32)>,
    size: u32,
    next: AtomicU32,
}

impl Sample {
    fn takes_next(&self) -> bool {
        let place = self.next.fetch_update(Relaxed, Relaxed, |next| Some((next + 1) % self.size)).unwrap_or(0) + 1;
        self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&place))
    }
}

impl LogTargets {
    /// Compiles `log` lines; `tag` is the proxy's own `log-tag`. Opens what is not open yet.
    #[must_use]
    pub fn new(lines: &[LogTarget], tag: Option<&str>, identity: &Identity, outputs: &Outputs) -> Self {
        let tag = tag.unwrap_or(&identity.tag);
        Self { targets: lines.iter().map(|line| Target::new(line, tag, identity, outputs)).collect() }
    }

    /// Whether nothing is logged at all: the text of a line need not be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The targets that take a line of `level`, each with the level to send it at. Counts the line for samples.
    pub(super) fn for_level(&self, level: u8) -> impl Iterator<Item = (&Target, u8)> {
        self.targets
            .iter()
            .filter(move |target| level <= target.level && target.sample.as_ref().is_none_or(Sample::takes_next))
            .map(move |target| (target, level.max(target.minlevel)))
    }
}

impl Target {
    fn new(line: &LogTarget, tag: &str, identity: &Identity, outputs: &Outputs) -> Self {
        // HAProxy counts the line end of lines to descriptors as part of the length.
        let end = usize::from(matches!(line.destination, LogDestination::Descriptor(_)));
        // The format of lines in a ring is the ring's.
        let ring = match &line.destination {
            LogDestination::Ring(name) => outputs.ring(name),
            _ => None,
        };
        let format = ring.as_ref().map_or(line.format, |ring| ring.settings().format);
        let bytes_max = ring.map_or(line.len.saturating_sub(end), |ring| line.len.max(ring.settings().maxlen));
        Self {
            output: outputs.open(&line.destination),
            header: Header::new(format, line.facility, identity.hostname.as_deref(), tag, identity.pid),
            form: Form { format, facility: line.facility, bytes_max },
            level: line.level,
            minlevel: line.minlevel,
            sample: line.sample.clone().filter(|(_, size)| *size > 0).map(|(ranges, size)| Sample {
                ranges,
                size,
                next: AtomicU32::new(0),
            }),
        }
    }
}
