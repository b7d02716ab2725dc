//! The few calls for which neither `rustix` nor `socket2` has a safe form. All `unsafe` of the crate is here.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Takes a descriptor over that was inherited over `exec` under the number `number`.
///
/// The descriptor is moved: a close-on-exec copy is returned and the number itself is closed. A descriptor that is
/// close-on-exec already is refused: it cannot have come over `exec`, so it belongs to an object of this program.
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    #[expect(unsafe_code, reason = "a number from the environment is all that is left of a descriptor after exec")]
    // SAFETY: the borrow is used for fcntl alone, which fails with EBADF when no such descriptor is open. Everything
    // that the standard library, tokio, rustix and socket2 open is close-on-exec, so a descriptor that is not, came
    // over exec and is owned by nobody until the line that takes it.
    unsafe {
        let borrowed = BorrowedFd::borrow_raw(number);
        if rustix::io::fcntl_getfd(borrowed)?.contains(rustix::io::FdFlags::CLOEXEC) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let copy = rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?;
        drop(OwnedFd::from_raw_fd(number));
        Ok(copy)
    }
}

/// A close-on-exec copy of the inherited descriptor `number`, which itself stays open but becomes close-on-exec, so
/// that no child process gets it by accident (except for the three standard ones, which are left alone).
pub fn copy_inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    #[expect(unsafe_code, reason = "a number from the configuration names the descriptor")]
    // SAFETY: the borrow lives for two fcntl calls, which fail with EBADF when no such descriptor is open and change
    // nothing that an owner in this process relies on.
    unsafe {
        let borrowed = BorrowedFd::borrow_raw(number);
        if number > 2 {
            rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?)
    }
}

fn set_int(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    #[expect(unsafe_code, reason = "neither rustix nor socket2 has these options")]
    // SAFETY: the pointer and length describe `value`, which outlives the call; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `TCP_FASTOPEN`: how many connections may wait in the state where data came with the SYN.
pub fn set_tcp_fast_open(socket: BorrowedFd<'_>, queue: u32) -> io::Result<()> {
    let queue = libc::c_int::try_from(queue).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue)
}

/// `TCP_FASTOPEN_CONNECT`: the connection begins with the first data that is written, where the server allows that.
pub fn set_tcp_fast_open_connect(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// `TCP_DEFER_ACCEPT`: a connection is accepted only when its first data is there, or after `seconds`.
pub fn set_tcp_defer_accept(socket: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    let seconds = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// `TCP_REPAIR`: a socket that is closed in this state vanishes without a word to the other end. Needs a privilege.
pub fn set_tcp_repair(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1)
}

/// What the system knows of a TCP connection.
pub fn tcp_information(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    #[expect(unsafe_code, reason = "neither rustix nor socket2 asks for this")]
    // SAFETY: all zero is a value of this structure of numbers; pointer and length describe it, it outlives the call, and
    // the kernel writes no more than that length.
    unsafe {
        let mut information: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut information).cast(),
            &raw mut length,
        );
        if result == 0 { Ok(information) } else { Err(io::Error::last_os_error()) }
    }
}

fn change_signal_mask(how: libc::c_int, signals: &[i32]) -> io::Result<()> {
    #[expect(unsafe_code, reason = "neither the standard library nor rustix changes the mask")]
    // SAFETY: the set is initialized by sigemptyset before anything reads it, and the calls touch nothing else.
    let result = unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// Holds these signals back for the calling thread; they wait.
pub fn block_signals(signals: &[i32]) -> io::Result<()> {
    change_signal_mask(libc::SIG_BLOCK, signals)
}

/// Lets these signals through again.
pub fn unblock_signals(signals: &[i32]) -> io::Result<()> {
    change_signal_mask(libc::SIG_UNBLOCK, signals)
}

/// Becomes another program. Returns only on failure.
///
/// Unlike the standard library's `exec` this leaves the signal mask alone, so that a signal which arrives while no
/// handler is installed waits instead of ending the process.
pub fn exec(program: &Path, arguments: &[OsString], environment: &[(OsString, OsString)]) -> io::Error {
    let strings = || -> io::Result<(CString, Vec<CString>, Vec<CString>)> {
        let program = CString::new(program.as_os_str().as_bytes())?;
        let arguments = arguments.iter().map(|argument| CString::new(argument.as_bytes())).collect::<Result<_, _>>()?;
        let environment = environment
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<_, _>>()?;
        Ok((program, arguments, environment))
    };
    let (program, arguments, environment) = match strings() {
        Ok(strings) => strings,
        Err(error) => return error,
    };
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(&arguments), pointers(&environment));
    #[expect(unsafe_code, reason = "the standard library's exec resets the signal mask")]
    // SAFETY: both arrays are of pointers to strings that live to the end of this function, and end with null.
    unsafe {
        libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    }
    io::Error::last_os_error()
}

/// Has tokio wait for a descriptor. Must be called inside a runtime.
pub fn register(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(unsafe_code, reason = "the safe forms are deprecated, as they take types that only pretend to own")]
    // SAFETY: an OwnedFd names the same open descriptor for as long as it lives, and the AsyncFd owns it.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(registered?)
}

/// Drops pages of the program's file that this process has mapped and not written. They are read again when needed.
///
/// `range` must be of a private, read-only mapping of a file in which nothing was relocated: what was would be lost.
pub(crate) fn forget_pages(range: std::ops::Range<usize>) {
    #[expect(unsafe_code, reason = "a range of addresses is all that names a mapping")]
    // SAFETY: the caller says that the pages are the file's own, so that what is read after it is what was read before.
    // A range that is not mapped is an error and changes nothing.
    let _ = unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
}
