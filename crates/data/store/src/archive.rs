//! Where backups are kept: a folder, or whatever else can hold named files (the crate `s3`).

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

/// Holds files by names such as `files/0a1b`. What was put is there for good once the call has returned, whole or not at all.
pub trait Archive {
    /// What to call it in messages.
    fn name(&self) -> String;

    /// Puts a file of so many bytes, in place of one of that name.
    ///
    /// # Errors
    ///
    /// Those of the archive, and of `content`.
    fn put(&self, name: &str, content: &mut dyn Read, len: u64) -> io::Result<()>;

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It is not there ([`io::ErrorKind::NotFound`]), or cannot be read.
    fn get(&self, name: &str) -> io::Result<Box<dyn Read + '_>>;

    /// The names that begin with a folder's, and how long the files are.
    ///
    /// # Errors
    ///
    /// Those of the archive.
    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>>;

    /// Removes a file. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// Those of the archive.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A folder of the machine.
#[derive(Debug, Clone)]
pub struct FolderArchive(pub PathBuf);

impl Archive for FolderArchive {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn put(&self, name: &str, content: &mut dyn Read, _len: u64) -> io::Result<()> {
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        fs::create_dir_all(folder)?;
        let unready = path.with_extension("new");
        let mut file = File::create(&unready)?;
        io::copy(content, &mut file)?;
        file.flush()?;
        file.sync_all()?;
        fs::rename(&unready, &path)?;
        sync_folder(folder)
    }

    fn get(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self.0.join(name))?))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let entries = match fs::read_dir(self.0.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && !name.ends_with(".new")
            {
                found.push((format!("{folder}/{name}"), entry.metadata()?.len()));
            }
        }
        Ok(found)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Makes what was done to the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
