//! The life of the process, as others follow it: who supervises it, who called it with `daemonize`, and its file with its number.

use std::{
    fs,
    path::{Path, PathBuf},
};

use commands::config::{Settings, Text};

use crate::{
    daemon::Caller,
    messages,
    signals::Watch,
    stillness::Watchdog,
    supervisor::{Message, Patience, Supervisor},
};

/// The file of a process in the background that names none, as in Redis.
const PROCESS_FILE: &str = "/var/run/redis.pid";

/// Tells those who follow the process.
#[derive(Debug, Default)]
pub struct Life {
    supervisor: Supervisor,
    /// What is to be told of the supervisor.
    message: Option<Message>,
    caller: Option<Caller>,
    process_file: Option<ProcessFile>,
}

impl Life {
    /// The life of a process with these settings, and with this caller that waits for it.
    pub(crate) fn new(settings: &Settings, caller: Option<Caller>) -> Self {
        let (supervisor, message) = Supervisor::find(settings.supervised);
        Self { supervisor, message, caller, process_file: None }
    }

    /// Whether it is to go to the background: one that is supervised stays, as in Redis.
    pub(crate) fn wants_background(&self, settings: &Settings) -> bool {
        settings.daemonize.0 && !self.supervisor.is_there() && self.caller.is_none()
    }

    /// Messages have a place from now on.
    pub(crate) fn begin(&self) {
        if let Some((level, text)) = self.message {
            messages::say(level, text);
        }
    }

    /// Gives the settings the file that a process in the background has, if they name none.
    pub(crate) fn choose_process_file(&self, settings: &mut Settings) {
        if self.caller.is_some() && settings.pidfile.0.is_empty() {
            settings.pidfile = Text(PROCESS_FILE.into());
        }
    }

    /// Who supervises it.
    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// It reads what there is, as long as what this returns is there.
    pub(crate) fn starting(&self) -> Patience {
        self.supervisor.patience("The store reads its folder")
    }

    /// It has its sockets and its folder, so that it is the one whose number the file tells.
    pub(crate) fn write_process_file(&mut self, settings: &Settings, watch: &Watch) {
        self.process_file = ProcessFile::write(&settings.pidfile.0);
        watch.set_process_file(self.process_file.as_ref().map(|file| file.0.clone()));
    }

    /// It serves.
    pub(crate) fn serving(&mut self) {
        if let Some(caller) = self.caller.take() {
            caller.serving();
        }
        self.supervisor.ready();
    }

    /// It ends, as long as what this returns is there.
    pub(crate) fn ending(&self) -> (Patience, Watchdog) {
        const STATUS: &str = "The store brings what it has to the disk";
        self.supervisor.stopping(STATUS);
        let process_file = self.process_file.as_ref().map(|file| file.0.clone());
        let leave = move || {
            if let Some(path) = process_file.as_ref().filter(|path| ProcessFile::is_own(path)) {
                let _ = fs::remove_file(path);
            }
        };
        (self.supervisor.patience(STATUS), Watchdog::start(leave))
    }
}

/// A file with the number of the process, which is there as long as this.
#[derive(Debug)]
struct ProcessFile(PathBuf);

impl ProcessFile {
    /// Writes it, if there is to be one. Whoever cannot write it goes on without, as Redis does.
    fn write(path: &str) -> Option<Self> {
        let path = std::path::absolute(Some(path).filter(|path| !path.is_empty())?).ok()?;
        match fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                messages::warn(&format!("pidfile {} cannot be written: {error}", path.display()));
                None
            }
        }
    }

    /// Whether it tells this process' number, and not that of one that came later.
    fn is_own(path: &Path) -> bool {
        fs::read_to_string(path).is_ok_and(|text| text.trim() == std::process::id().to_string())
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        if Self::is_own(&self.0) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_process_is_removed_by_that_process_alone() {
        let path = std::env::temp_dir().join(format!("tidegate-pidfile-{}", std::process::id()));
        let name = path.display().to_string();
        drop(ProcessFile::write(&name).unwrap());
        assert!(!path.exists());
        let file = ProcessFile::write(&name).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists(), "another process has written it meanwhile");
        fs::remove_file(&path).unwrap();
        assert!(ProcessFile::write("").is_none());
        assert!(ProcessFile::write("/nowhere/at/all").is_none());
    }
}
