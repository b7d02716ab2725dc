//! Where lines and records go: the standard output, or a file that may be opened again.

use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
};

/// An output.
pub(crate) struct Output {
    path: Option<String>,
    file: Box<dyn Write>,
    /// What a new file begins with.
    head: &'static [u8],
}

impl Output {
    /// The standard output, or a file that is written anew unless `appends`.
    pub(crate) fn open(path: Option<&str>, appends: bool, head: &'static [u8]) -> Result<Self, String> {
        let path = path.filter(|path| *path != "-").map(str::to_owned);
        let mut output = Self { path, file: Box::new(BufWriter::new(io::stdout())), head };
        output.begin(appends)?;
        Ok(output)
    }

    /// Opens the file again, after it was moved away.
    pub(crate) fn reopen(&mut self) -> Result<(), String> {
        if self.path.is_some() { self.begin(true) } else { Ok(()) }
    }

    fn begin(&mut self, appends: bool) -> Result<(), String> {
        let mut is_new = true;
        if let Some(path) = &self.path {
            let describe = |error: io::Error| format!("cannot write {path}: {error}");
            let mut options = OpenOptions::new();
            options.create(true).write(true).append(appends).truncate(!appends);
            let file = options.open(path).map_err(describe)?;
            is_new = file.metadata().map_err(describe)?.len() == 0;
            self.file = Box::new(BufWriter::new(file));
        }
        if is_new {
            self.file.write_all(self.head).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
