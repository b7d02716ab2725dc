//! Rings: log lines in memory, for `show events` and for servers that take them over TCP.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haproxycfg::model::{LogLineFormat, Ring};
use tokio::sync::Notify;

/// Bytes that HAProxy spends on a line beside its text, so that as many fit here.
const LINE_OVERHEAD: usize = 3;

/// A ring. Writers never wait: a line that has no room because a server has not taken the oldest ones yet is dropped and
/// counted, as in HAProxy.
#[derive(Debug)]
pub struct LogRing {
    settings: Ring,
    lines: Mutex<Lines>,
    written: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Arc<[u8]>>,
    /// Number of the first line that is there.
    first: u64,
    /// Bytes that all lines take.
    bytes: usize,
    /// Next lines of those that must not miss any.
    held_at: Vec<(u64, u64)>,
    next_reader: u64,
    /// Lines for which there was no room and that nobody was told of yet.
    dropped: u64,
}

impl Lines {
    /// Makes room by dropping the oldest lines, as far as nobody needs them.
    fn make_room(&mut self, wanted: usize, size: usize) -> bool {
        while self.bytes + wanted > size {
            let Some(oldest) = self.lines.front() else { return false };
            if self.held_at.iter().any(|(_, next)| *next <= self.first) {
                return false;
            }
            self.bytes -= oldest.len() + LINE_OVERHEAD;
            self.lines.pop_front();
            self.first += 1;
        }
        true
    }

    fn push(&mut self, line: &[u8], size: usize) -> bool {
        let wanted = line.len() + LINE_OVERHEAD;
        if wanted > size || !self.make_room(wanted, size) {
            return false;
        }
        self.bytes += wanted;
        self.lines.push_back(line.into());
        true
    }
}

impl LogRing {
    /// An empty ring.
    #[must_use]
    pub fn new(settings: Ring) -> Self {
        Self { settings, lines: Mutex::default(), written: Notify::new() }
    }

    /// What the configuration says of it.
    #[must_use]
    pub fn settings(&self) -> &Ring {
        &self.settings
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends lines; how many were dropped.
    pub(super) fn write<'a>(&self, new: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut lost = 0;
        let mut lines = self.lock();
        for line in new {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.get(..self.settings.maxlen).unwrap_or(line);
            if lines.dropped > 0 && !self.announce(&mut lines) || !lines.push(line, self.settings.size) {
                lines.dropped += 1;
                lost += 1;
            }
        }
        drop(lines);
        self.written.notify_waiters();
        lost
    }

    /// Says how many lines are missing at this place; false without room for that.
    fn announce(&self, lines: &mut Lines) -> bool {
        let count = lines.dropped;
        let text = format!("{count} event{} dropped", if count > 1 { "s" } else { "" });
        let text = match self.settings.format {
            LogLineFormat::Short | LogLineFormat::Priority => format!("<5>{text}"),
            _ => text,
        };
        if !lines.push(text.as_bytes(), self.settings.size) {
            return false;
        }
        lines.dropped = 0;
        true
    }

    /// Lines that are missing and that nobody was told of yet.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// The number of the next line that will be written.
    #[must_use]
    pub fn end(&self) -> u64 {
        let lines = self.lock();
        lines.first + lines.lines.len() as u64
    }

    /// The lines from `next` on, as far as they are still there, up to `bytes_max` and at least one; and the number of the
    /// line behind them.
    #[must_use]
    pub fn read(&self, next: u64, bytes_max: usize) -> (Vec<Arc<[u8]>>, u64) {
        let lines = self.lock();
        let skipped = usize::try_from(next.saturating_sub(lines.first)).unwrap_or(usize::MAX);
        let start = next.max(lines.first);
        let mut bytes = 0;
        let taken: Vec<Arc<[u8]>> = lines
            .lines
            .iter()
            .skip(skipped)
            .take_while(|line| {
                let fits = bytes == 0 || bytes + line.len() <= bytes_max;
                bytes += line.len();
                fits
            })
            .cloned()
            .collect();
        let end = start + taken.len() as u64;
        (taken, end)
    }

    /// Waits until there is a line with this number.
    pub async fn wait(&self, number: u64) {
        loop {
            let written = self.written.notified();
            if self.end() > number {
                return;
            }
            written.await;
        }
    }

    /// Whether someone who must not miss a line has not taken all of them.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let end = self.end();
        self.lock().held_at.iter().any(|(_, next)| *next < end)
    }

    /// Someone who must not miss a line, from the oldest on.
    #[must_use]
    pub fn attach(self: &Arc<Self>) -> Reader {
        let mut lines = self.lock();
        let id = lines.next_reader;
        lines.next_reader += 1;
        let next = lines.first;
        lines.held_at.push((id, next));
        drop(lines);
        Reader { ring: Arc::clone(self), id, next }
    }
}

/// Someone who must not miss a line: what it has not taken yet stays in the ring.
#[derive(Debug)]
pub struct Reader {
    ring: Arc<LogRing>,
    id: u64,
    next: u64,
}

impl Reader {
    /// The next lines, once there are any. They count as taken with [`Reader::took`].
    pub async fn lines(&self, bytes_max: usize) -> (Vec<Arc<[u8]>>, u64) {
        self.ring.wait(self.next).await;
        self.ring.read(self.next, bytes_max)
    }

    /// The lines before number `next` are not needed any more.
    pub fn took(&mut self, next: u64) {
        self.next = next;
        let mut lines = self.ring.lock();
        if let Some((_, place)) = lines.held_at.iter_mut().find(|(id, _)| *id == self.id) {
            *place = next;
        }
    }

    /// Whether all lines have been taken.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next >= self.ring.end()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ring.lock().held_at.retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(size: usize, maxlen: usize) -> Arc<LogRing> {
        Arc::new(LogRing::new(Ring {
            name: "r".into(),
            description: "r".to_owned(),
            format: LogLineFormat::Raw,
            maxlen,
            size,
            servers: Vec::new(),
            timeout_connect: None,
            timeout_server: None,
        }))
    }

    fn all(ring: &LogRing) -> Vec<String> {
        ring.read(0, usize::MAX).0.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn the_newest_lines_are_kept() {
        let ring = ring(30, 5);
        for number in 0..9 {
            assert_eq!(ring.write([format!("line {number}\n").as_bytes()].into_iter()), 0);
        }
        assert_eq!(all(&ring), ["line ", "line ", "line "], "cut at maxlen, and as many as fit");
        assert_eq!((ring.end(), ring.dropped()), (9, 0));
        assert_eq!(ring.read(7, 1).1, 8, "one at least");
        assert_eq!(ring.read(9, 100).0.len(), 0);
    }

    #[test]
    fn what_is_held_is_not_overwritten() {
        let ring = ring(30, 100);
        let mut reader = ring.attach();
        assert_eq!(ring.write([&b"one\n"[..], b"two\n", b"three\n", b"four\n", b"five\n", b"six\n"].into_iter()), 2);
        assert_eq!((all(&ring), ring.dropped()), (["one", "two", "three", "four"].map(str::to_owned).to_vec(), 2));
        let (lines, next) = ring.read(0, 100);
        assert_eq!((lines.len(), next), (4, 4));
        reader.took(next);
        assert!(reader.is_done());
        ring.write([&b"7\n"[..]].into_iter());
        assert_eq!(all(&ring), ["four", "2 events dropped", "7"], "the reader hears of what it missed");
        drop(reader);
        ring.write(std::iter::repeat_n(&b"later\n"[..], 9));
        assert_eq!((all(&ring).len(), ring.dropped()), (3, 0));
        assert_eq!(ring.write([&[b'x'; 40][..]].into_iter()), 1, "longer than the ring");
    }

    #[tokio::test]
    async fn readers_wait() {
        let ring = ring(1_000, 100);
        let reader = ring.attach();
        let writer = Arc::clone(&ring);
        tokio::spawn(async move { writer.write([&b"hello\n"[..]].into_iter()) });
        assert_eq!(&*reader.lines(100).await.0[0], b"hello");
    }
}
