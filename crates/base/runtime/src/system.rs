//! The few calls for which neither `rustix` nor `socket2` has a safe form. All `unsafe` of the crate is here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

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

/// `TCP_DEFER_ACCEPT`: a connection is accepted only when its first data is there, or after `seconds`.
pub fn set_tcp_defer_accept(socket: BorrowedFd<'_>, seconds: u32) -> io::Result<()> {
    let seconds = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}
