//! A file as a slice of atomic words. All `unsafe` of the crate is here.

use std::{
    fs::File,
    io,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64},
};

use rustix::mm::{MapFlags, ProtFlags};

/// A shared mapping of a whole file. It is looked at as words of 4 or of 8 bytes; whoever has one uses the same size for the same place
/// always.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
}

#[expect(unsafe_code, reason = "the mapping is a raw pointer")]
// SAFETY: the mapping belongs to this value alone, stays until it is dropped, and is reached only through atomics.
unsafe impl Send for Memory {}
#[expect(unsafe_code, reason = "the mapping is a raw pointer")]
// SAFETY: as above; atomics may be shared.
unsafe impl Sync for Memory {}

impl Memory {
    /// Gives a new file `bytes` bytes, with room on its disk, because a write to a page for which there is none kills the process.
    pub(crate) fn create(file: &File, bytes: usize) -> io::Result<Self> {
        let length = bytes as u64;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, length) {
            Err(rustix::io::Errno::OPNOTSUPP) => rustix::fs::ftruncate(file, length)?,
            other => other?,
        }
        Self::map(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// An existing file, to read. Only relaxed and acquiring loads are allowed on it.
    ///
    /// IMPORTANT: whoever writes such files never makes them shorter; it removes them, which leaves the mapping whole.
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(file, bytes, ProtFlags::READ)
    }

    fn map(file: &File, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "no safe form of a shared mapping exists")]
        // SAFETY: the kernel chooses the place, so no other memory is touched.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// The file as words of 4 bytes; a rest that is less than one is left out.
    pub(crate) fn words(&self) -> &[AtomicU32] {
        #[expect(unsafe_code, reason = "a mapping is known only by address and length")]
        // SAFETY: the mapping has that many bytes, begins at a page, lives as long as `self`, and any bytes are a valid word.
        unsafe {
            std::slice::from_raw_parts(self.base.cast().as_ptr(), self.bytes / size_of::<AtomicU32>())
        }
    }

    /// Copies bytes to the word at a place, and to those behind it. What does not fit is left out.
    ///
    /// IMPORTANT: no other thread may look at these words until a word before them has been stored with `Release`.
    pub(crate) fn copy_in(&self, place: usize, bytes: &[u8]) {
        let room = self.words().get(place..).unwrap_or_default();
        let count = bytes.len().min(size_of_val(room));
        #[expect(unsafe_code, reason = "word by word it would cost several times as much")]
        // SAFETY: the words of `room` may be written through a shared reference, as they are atomic; they have at least `count`
        // bytes, and the caller sees to it that no other thread of this process looks at them meanwhile.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.as_ptr().cast_mut().cast(), count);
        }
    }

    /// The file as words of 8 bytes; a rest that is less than one is left out.
    pub(crate) fn doubles(&self) -> &[AtomicU64] {
        #[expect(unsafe_code, reason = "a mapping is known only by address and length")]
        // SAFETY: as in `words`; a page is aligned for 8 bytes too.
        unsafe {
            std::slice::from_raw_parts(self.base.cast().as_ptr(), self.bytes / size_of::<AtomicU64>())
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "undoes `map`")]
        // SAFETY: the mapping was made by `map` with this length, and no slice of it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
