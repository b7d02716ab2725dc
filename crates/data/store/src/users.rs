//! The file of users (`aclfile`).

use std::{fs, path::PathBuf};

use commands::{acl::UserFile, config::Settings};

use crate::replace::replace;

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
}

impl UserFile for Users {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| error.to_string())
    }

    fn write(&self, text: &[u8]) -> Result<(), String> {
        replace(&self.path, text).map_err(|error| error.to_string())
    }
}
