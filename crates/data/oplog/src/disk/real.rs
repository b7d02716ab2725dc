//! The machine's file system.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt as _, OpenOptionsExt},
    path::Path,
};

use super::{Disk, DiskFile};

/// Who may read a log: the user it belongs to, for it has all the data.
const MODE: u32 = 0o600;

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(MODE).open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn has_other_names(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() > 1)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // Not every file system can; then the file is as long all the same, and room turns out to be there or not.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.set_len(len),
            Err(error) => Err(error.into()),
        }
    }
}
