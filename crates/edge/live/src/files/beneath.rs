//! Opening a file beneath a folder, wherever its name leads.
//!
//! The kernel sees to it that the way stays beneath the folder (`openat2`, Linux 5.6). Where it has no such call, or a sandbox refuses
//! it, the way is walked name by name, and links are read and walked as well.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use haproxycfg::model::Symlinks;
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat, openat2, readlinkat},
    io::Errno,
};

/// Links that are followed on one way, as in the kernel.
const LINKS_MAX: usize = 40;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAs {
    /// To read it. NOTE: what is no regular file is not waited for: a pipe opens at once.
    File,
    /// To see what it is.
    Look,
    /// To list it.
    Folder,
}

impl OpenAs {
    fn flags(self) -> OFlags {
        OFlags::CLOEXEC
            | match self {
                Self::File => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Self::Look => OFlags::PATH,
                Self::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
            }
    }
}

/// Whether a disk may be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// No: what is not in memory is `AGAIN`.
    None,
    /// Yes.
    Disk,
}

/// The kernel has no `openat2`, or a sandbox refuses it.
static WALKS: AtomicBool = AtomicBool::new(false);
/// The kernel's `openat2` cannot promise not to wait (before Linux 5.12).
static ALWAYS_WAITS: AtomicBool = AtomicBool::new(false);

/// Opens what `name` leads to beneath `folder`. It is relative, and has no `..`.
///
/// # Errors
/// The system's. `AGAIN` where a disk would have to be waited for; `XDEV` where the way leads out of the folder, `LOOP` where links are not
/// followed.
pub fn open(
    folder: BorrowedFd<'_>,
    name: &[u8],
    (what, links): (OpenAs, Symlinks),
    patience: Patience,
) -> Result<OwnedFd, Errno> {
    if WALKS.load(Relaxed) {
        return if patience == Patience::None { Err(Errno::AGAIN) } else { walk(folder, name, what, links) };
    }
    let mut resolve = ResolveFlags::NO_MAGICLINKS;
    match links {
        Symlinks::Within => resolve |= ResolveFlags::BENEATH,
        Symlinks::Deny => resolve |= ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Symlinks::Follow => {}
    }
    if patience == Patience::None {
        if ALWAYS_WAITS.load(Relaxed) {
            return Err(Errno::AGAIN);
        }
        resolve |= ResolveFlags::CACHED;
    }
    match openat2(folder, name, what.flags(), Mode::empty(), resolve) {
        Err(Errno::INVAL) if patience == Patience::None => {
            ALWAYS_WAITS.store(true, Relaxed);
            Err(Errno::AGAIN)
        }
        // NOTE: old sandboxes refuse calls that they do not know as forbidden. Whether it is that shows with a call that may not fail so.
        Err(Errno::NOSYS) => {
            WALKS.store(true, Relaxed);
            open(folder, name, (what, links), patience)
        }
        Err(Errno::PERM) if !is_available(folder) => {
            WALKS.store(true, Relaxed);
            open(folder, name, (what, links), patience)
        }
        // An absolute link may lead back into the folder.
        Err(Errno::XDEV) if patience == Patience::None => Err(Errno::AGAIN),
        Err(Errno::XDEV) if links == Symlinks::Within => open_within(folder, name, what),
        // The kernel could not be sure of `..` in a link, because something was renamed meanwhile.
        Err(Errno::AGAIN) if patience == Patience::Disk => openat2(folder, name, what.flags(), Mode::empty(), resolve),
        opened => opened,
    }
}

fn is_available(folder: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(folder, c".", flags, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

/// Opens what an absolute link leads to, if that is beneath the folder. The way is found out first, and then gone without any link.
fn open_within(folder: BorrowedFd<'_>, name: &[u8], what: OpenAs) -> Result<OwnedFd, Errno> {
    use std::os::unix::ffi::OsStrExt as _;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(folder, name, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    let (top, place) = (place_of(folder)?, place_of(found.as_fd())?);
    let below = place.strip_prefix(&top).map_err(|_| Errno::XDEV)?;
    let below = below.as_os_str().as_bytes();
    let below = if below.is_empty() { b"." } else { below };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(folder, below, what.flags(), Mode::empty(), resolve)
}

/// Where an open file is, by the kernel.
fn place_of(file: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Errno::XDEV)
}

/// Opens a file name by name.
fn walk(folder: BorrowedFd<'_>, name: &[u8], what: OpenAs, links: Symlinks) -> Result<OwnedFd, Errno> {
    if links == Symlinks::Follow {
        return openat(folder, name, what.flags(), Mode::empty());
    }
    let parts = |name: &[u8]| -> VecDeque<Vec<u8>> {
        let names = name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        names.map(<[u8]>::to_vec).collect()
    };
    let mut ahead = parts(name);
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut followed = 0;
    while let Some(part) = ahead.pop_front() {
        if part == b".." {
            if way.pop().is_none() {
                return Err(Errno::XDEV);
            }
            continue;
        }
        let here = way.last().map_or(folder, AsFd::as_fd);
        let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(here, part.as_slice(), step, Mode::empty())?;
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&entry)?.st_mode);
        if kind == rustix::fs::FileType::Symlink {
            followed += 1;
            if links == Symlinks::Deny || followed > LINKS_MAX {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(&entry, c"", Vec::new())?;
            let target = target.as_bytes();
            if target.starts_with(b"/") {
                return Err(Errno::XDEV);
            }
            let mut longer = parts(target);
            longer.append(&mut ahead);
            ahead = longer;
        } else if ahead.is_empty() {
            let last = what.flags() | OFlags::NOFOLLOW;
            return openat(here, part.as_slice(), last, Mode::empty());
        } else {
            way.push(entry);
        }
    }
    let here = way.last().map_or(folder, AsFd::as_fd);
    openat(here, c".", what.flags(), Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::CWD;

    use super::*;

    /// What a way comes to: the text of the file, or the error.
    fn outcomes(
        names: &[&str],
        links: Symlinks,
        open: impl Fn(BorrowedFd<'_>, &[u8], Symlinks) -> Result<OwnedFd, Errno>,
    ) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(place.path().join("other")).unwrap();
        for (name, text) in [("top/a/file", "file"), ("top/a/b/deep", "deep"), ("other/secret", "secret")] {
            fs::write(place.path().join(name), text).unwrap();
        }
        for (name, target) in [
            ("near", "a/file"),
            ("folder", "a/b"),
            ("a/b/up", "../file"),
            ("out", "../other/secret"),
            ("outer", "../other"),
            ("round", "round"),
            ("back", "../top/a/file"),
        ] {
            symlink(target, top.join(name)).unwrap();
        }
        symlink("/etc/passwd", top.join("absolute")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &top, flags, Mode::empty()).unwrap();
        let outcome = |name: &&str| match open(folder.as_fd(), name.as_bytes(), links) {
            Ok(file) => std::io::read_to_string(fs::File::from(file)).unwrap_or_else(|_| "folder".to_owned()),
            Err(error) => name_of(error).to_owned(),
        };
        names.iter().map(outcome).collect()
    }

    fn name_of(error: Errno) -> &'static str {
        match error {
            Errno::XDEV => "XDEV",
            Errno::LOOP => "LOOP",
            Errno::NOENT => "NOENT",
            Errno::NOTDIR => "NOTDIR",
            _ => "another error",
        }
    }

    #[test]
    fn no_way_leads_out() {
        let names = [
            "a/file",
            "near",
            "folder/deep",
            "a/b/up",
            "out",
            "outer/secret",
            "absolute",
            "round",
            "back",
            "a",
            "none",
            "a/file/x",
        ];
        let within =
            ["file", "file", "deep", "file", "XDEV", "XDEV", "XDEV", "LOOP", "XDEV", "folder", "NOENT", "NOTDIR"];
        let denied =
            ["file", "LOOP", "LOOP", "LOOP", "LOOP", "LOOP", "LOOP", "LOOP", "LOOP", "folder", "NOENT", "NOTDIR"];
        for (links, expected) in [(Symlinks::Within, within), (Symlinks::Deny, denied)] {
            let by_kernel = outcomes(&names, links, |folder, name, links| {
                super::open(folder, name, (OpenAs::File, links), Patience::Disk)
            });
            let walked = outcomes(&names, links, |folder, name, links| walk(folder, name, OpenAs::File, links));
            assert_eq!(walked, expected, "{links:?}");
            // Where the kernel has the call, a link may lead out and back again.
            let expected = expected.map(|outcome| if outcome == "XDEV" { "XDEV or back" } else { outcome });
            let is_back =
                |place: usize, outcome: &str| outcome == "XDEV" || names[place] == "back" && outcome == "file";
            let by_kernel = by_kernel.iter().enumerate();
            let by_kernel: Vec<_> = by_kernel
                .map(|(place, outcome)| if is_back(place, outcome) { "XDEV or back" } else { outcome })
                .collect();
            assert_eq!(by_kernel, expected, "{links:?}");
        }
    }

    #[test]
    fn links_are_followed_anywhere_where_that_is_said() {
        for open in [
            &(|folder: BorrowedFd<'_>, name: &[u8], links| {
                super::open(folder, name, (OpenAs::File, links), Patience::Disk)
            }) as &dyn Fn(BorrowedFd<'_>, &[u8], Symlinks) -> Result<OwnedFd, Errno>,
            &|folder, name, links| walk(folder, name, OpenAs::File, links),
        ] {
            let outcomes =
                outcomes(&["out", "outer/secret"], Symlinks::Follow, |folder, name, links| open(folder, name, links));
            assert_eq!(outcomes, ["secret", "secret"]);
        }
    }

    #[test]
    fn an_absolute_link_may_lead_back() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "file").unwrap();
        symlink(place.path().join("file"), place.path().join("link")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, place.path(), flags, Mode::empty()).unwrap();
        let file = open(folder.as_fd(), b"link", (OpenAs::File, Symlinks::Within), Patience::Disk).unwrap();
        assert_eq!(std::io::read_to_string(fs::File::from(file)).unwrap(), "file");
    }
}
