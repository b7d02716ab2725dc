//! The file of users (`aclfile`).

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::PathBuf,
};

use commands::{acl::UserFile, config::Settings};

/// The file that `aclfile` names: relative to the folder of the data, if there is one.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
}

impl Users {
    /// The file of the settings, if they name one.
    pub fn of(settings: &Settings) -> Option<Box<dyn UserFile>> {
        let name = &settings.aclfile.0;
        let path = PathBuf::from(&settings.dir.0).join(name);
        (!name.is_empty()).then(|| Box::new(Self { path }) as Box<dyn UserFile>)
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".tmp-{}", std::process::id()));
        let temporary = PathBuf::from(name);
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

impl UserFile for Users {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| error.to_string())
    }

    fn write(&self, text: &[u8]) -> Result<(), String> {
        self.replace(text).map_err(|error| error.to_string())
    }
}
