//! What a log needs of a disk, and the disks there are: the machine's own ([`RealDisk`]), one in memory that can tell what a
//! crash would have left of it ([`MemoryDisk`]), and one that fails when told to ([`FailingDisk`]).

mod failing;
mod memory;
mod real;

use std::{io, path::Path};

pub use failing::{FailingDisk, Faults};
pub use memory::{Crash, MemoryDisk};
pub use real::RealDisk;

/// Files in folders.
pub trait Disk: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Makes a folder, unless it is there.
    ///
    /// # Errors
    ///
    /// The system's, as with all others.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a folder, in any order.
    ///
    /// # Errors
    ///
    /// The folder is not there.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// It is not there.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens a file for reading alone.
    ///
    /// # Errors
    ///
    /// It is not there.
    fn open_to_read(&self, path: &Path) -> io::Result<Self::File> {
        self.open(path)
    }

    /// Makes an empty file, in place of one that is there.
    ///
    /// # Errors
    ///
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Gives a file another name, in place of a file that has it.
    ///
    /// # Errors
    ///
    /// It is not there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// It is not there.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes what was done to the names in a folder durable.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file. Threads may share it.
#[expect(clippy::len_without_is_empty, reason = "nobody asks a file whether it is empty")]
pub trait DiskFile: std::fmt::Debug + Send + Sync + 'static {
    /// Bytes in it.
    ///
    /// # Errors
    ///
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// Reads some bytes; 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes some bytes: maybe not all of them.
    ///
    /// # Errors
    ///
    /// The disk is full, or broken.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Makes what was written durable, and the file's length.
    ///
    /// # Errors
    ///
    /// The disk's. What was written since the last sync may be lost then.
    fn sync(&self) -> io::Result<()>;

    /// Whether the file has another name besides, so that somebody counts on what is in it.
    ///
    /// # Errors
    ///
    /// The system's.
    fn has_other_names(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Reserves room for so many bytes in all; the file is that long then.
    ///
    /// # Errors
    ///
    /// There is not that much room.
    fn preallocate(&self, len: u64) -> io::Result<()>;

    /// Reads until `bytes` is full or the file ends; how many there were.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn read_full_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, position + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// The disk is full, or broken; some of them may have been written.
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match self.write_at(rest, position + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
