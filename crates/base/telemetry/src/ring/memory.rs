//! A memory file as a slice of atomic words. All `unsafe` of the crate is here.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::AtomicU64,
};

use rustix::{
    fs::{MemfdFlags, SealFlags},
    mm::{MapFlags, ProtFlags},
};

use super::layout::WORD;

/// A shared mapping of a whole file.
#[derive(Debug)]
pub(super) struct Memory {
    file: OwnedFd,
    base: NonNull<AtomicU64>,
    words: usize,
}

#[expect(unsafe_code, reason = "the mapping is a raw pointer")]
// SAFETY: the mapping belongs to this value alone, stays until it is dropped, and is reached only through atomics.
unsafe impl Send for Memory {}
#[expect(unsafe_code, reason = "the mapping is a raw pointer")]
// SAFETY: as above; atomics may be shared.
unsafe impl Sync for Memory {}

impl Memory {
    /// A new anonymous file called `name` in `/proc/<pid>/fd`, of `bytes` zero bytes.
    ///
    /// The file is sealed against shrinking, because touching a mapped page that is gone kills the process.
    pub(super) fn anonymous(name: &str, bytes: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Grows an empty file to `bytes` zero bytes.
    pub(super) fn of_new_file(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        rustix::fs::ftruncate(&file, bytes as u64)?;
        Self::map(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// An existing file, to read.
    pub(super) fn open(file: OwnedFd) -> io::Result<Self> {
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if bytes < WORD {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(file, bytes, ProtFlags::READ)
    }

    /// A second mapping of a writer's ring that can be written to.
    #[cfg(test)]
    pub(super) fn map_for_test(writer: &super::RingWriter) -> Self {
        let file = rustix::io::dup(writer).unwrap();
        let bytes = rustix::fs::fstat(&file).unwrap().st_size as usize;
        Self::map(file, bytes, ProtFlags::READ | ProtFlags::WRITE).unwrap()
    }

    fn map(file: OwnedFd, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "no safe form of a shared mapping exists")]
        // SAFETY: the kernel chooses the place, so no other memory is touched. The mapping is at least `bytes` long, and
        // pages are aligned far beyond a word.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, base, words: bytes / WORD })
    }

    /// Every word of the file. In a mapping to read, only relaxed loads are allowed.
    pub(super) fn words(&self) -> &[AtomicU64] {
        #[expect(unsafe_code, reason = "a mapping is known only by address and length")]
        // SAFETY: the mapping has `words` aligned words and lives as long as `self`; whatever anyone else writes there
        // is a valid `AtomicU64`.
        unsafe {
            std::slice::from_raw_parts(self.base.as_ptr(), self.words)
        }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "undoes `map`")]
        // SAFETY: the mapping was made by `map` with this length (the kernel rounds both to pages alike), and no slice of
        // it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.words * WORD) };
    }
}
