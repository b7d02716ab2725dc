//! Standard output, standard error and other descriptors: pipes, files, terminals, stream sockets.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    io::{Errno, FdFlags},
    net::SendFlags,
};

use super::loss::Loss;

/// Bytes that a pipe takes all or none of (`PIPE_BUF`), so that lines of several processes do not mix.
const PIPE_ATOMIC_BYTES: usize = 4096;

/// A copy of a descriptor, written to without waiting.
#[derive(Debug)]
pub(super) struct Descriptor {
    file: Option<OwnedFd>,
    kind: Kind,
    /// What is left of a line of which a pipe or socket took only a part: it goes first, or the line would be broken.
    rest: Mutex<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pipe,
    Socket,
    Other,
}

impl Descriptor {
    /// A copy of descriptor `number`; without one of that number, every line fails.
    pub(super) fn copy(number: i32) -> Self {
        let opened = match number {
            0 => open(rustix::stdio::stdin(), number),
            1 => open(rustix::stdio::stdout(), number),
            2 => open(rustix::stdio::stderr(), number),
            number if number < 0 => Err(Errno::BADF.into()),
            number => {
                #[expect(unsafe_code, reason = "a number in the configuration is all that names the descriptor")]
                // SAFETY: the borrow lasts for the calls of `open`, which copy the descriptor or fail with EBADF and
                // change nothing that another owner relies on.
                let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
                open(borrowed, number)
            }
        };
        match opened {
            Ok((file, kind)) => Self { file: Some(file), kind, rest: Mutex::default() },
            Err(_) => Self { file: None, kind: Kind::Other, rest: Mutex::default() },
        }
    }

    /// Writes lines that lie one behind the other in `bytes` and end at `ends`.
    pub(super) fn write(&self, bytes: &[u8], ends: &[usize]) -> Loss {
        let mut loss = Loss::default();
        let Some(file) = &self.file else {
            loss.fail(ends.len() as u64, Errno::BADF.into());
            return loss;
        };
        // NOTE: held over a system call, but one that does not wait.
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if !rest.is_empty() {
            match self.write_some(file.as_fd(), &rest) {
                Ok(count) => {
                    let left = rest.get(count..).unwrap_or_default().to_vec();
                    *rest = left;
                }
                Err(Errno::AGAIN) => {}
                Err(_) => rest.clear(),
            }
            if !rest.is_empty() {
                loss.dropped += ends.len() as u64;
                return loss;
            }
        }
        let (mut start, mut line) = (0, 0);
        while let Some(mut end) = ends.get(line).copied() {
            let mut next = line + 1;
            while let Some(further) = ends.get(next).copied()
                && (self.kind != Kind::Pipe || further - start <= PIPE_ATOMIC_BYTES)
            {
                end = further;
                next += 1;
            }
            match self.write_some(file.as_fd(), bytes.get(start..end).unwrap_or_default()) {
                Ok(count) if count == end - start => {}
                Ok(count) => {
                    // The line that was begun is kept to be finished; those behind it have no room.
                    let stop = start + count;
                    let broken = ends.iter().position(|end| *end > stop).unwrap_or(ends.len());
                    let began = broken.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
                    let whole = if stop > began {
                        rest.extend_from_slice(
                            ends.get(broken).and_then(|end| bytes.get(stop..*end)).unwrap_or_default(),
                        );
                        broken + 1
                    } else {
                        broken
                    };
                    loss.dropped += ends.len().saturating_sub(whole) as u64;
                    return loss;
                }
                Err(Errno::AGAIN) => {
                    loss.dropped += (ends.len() - line) as u64;
                    return loss;
                }
                Err(error) => {
                    loss.fail((ends.len() - line) as u64, error.into());
                    return loss;
                }
            }
            start = end;
            line = next;
        }
        loss
    }

    fn write_some(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        match self.kind {
            Kind::Socket => rustix::net::send(file, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Kind::Pipe | Kind::Other => rustix::io::retry_on_intr(|| rustix::io::write(file, bytes)),
        }
    }
}

/// Makes a copy that does not wait, without making the original one not wait: it is shared with whoever else has it, such
/// as the shell that started this process.
fn open(original: BorrowedFd<'_>, number: i32) -> io::Result<(OwnedFd, Kind)> {
    let copy = rustix::io::fcntl_dupfd_cloexec(original, 3)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&copy)?.st_mode) {
        FileType::Socket => Ok((copy, Kind::Socket)),
        kind @ (FileType::Fifo | FileType::CharacterDevice) => {
            let output = if kind == FileType::Fifo { Kind::Pipe } else { Kind::Other };
            // Opened anew, a pipe or terminal has flags of its own. A file would have a position of its own too, and
            // overwrite what others write.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
            match rustix::fs::open(format!("/proc/self/fd/{number}"), flags, Mode::empty()) {
                Ok(own) => Ok((own, output)),
                // Another user's, or no /proc: what HAProxy does.
                Err(_) => {
                    if output == Kind::Pipe {
                        let flags = rustix::fs::fcntl_getfl(&copy)?;
                        rustix::fs::fcntl_setfl(&copy, flags | OFlags::NONBLOCK)?;
                    }
                    Ok((copy, output))
                }
            }
        }
        _ => {
            debug_assert!(rustix::io::fcntl_getfd(&copy).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC)));
            Ok((copy, Kind::Other))
        }
    }
}
