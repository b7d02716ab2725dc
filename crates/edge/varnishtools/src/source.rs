//! Where records come from: a running instance, or a file that `varnishlog -w` wrote.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use vsm::reader::{LogEvent, LogReader, Reader, Record, Start};

/// What a file of records begins with.
pub(crate) const FILE_MARKER: [u8; 4] = *b"VSL\0";
/// How long to wait for more, and how often to look whether the worker is another one.
const PAUSE: Duration = Duration::from_millis(10);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What comes next.
#[derive(Debug)]
pub(crate) enum Event {
    Record(Record),
    /// Nothing more for now.
    Idle,
    /// Records were lost, or the worker is another one; why.
    Gap(&'static str),
    /// There is no more.
    End,
}

pub(crate) enum Source {
    File(BufReader<Box<dyn Read>>),
    Instance(Box<Instance>),
}

pub(crate) struct Instance {
    reader: Reader,
    log: Option<LogReader>,
    start: Start,
    /// End at the end of what is there.
    stops: bool,
    looked: Instant,
}

impl Source {
    /// A file; `-` is the standard input.
    pub(crate) fn file(path: &str) -> Result<Self, String> {
        let input: Box<dyn Read> = match path {
            "-" => Box::new(io::stdin()),
            _ => Box::new(File::open(path).map_err(|error| format!("cannot open {path}: {error}"))?),
        };
        let mut input = BufReader::new(input);
        let mut marker = [0; FILE_MARKER.len()];
        match input.read_exact(&mut marker) {
            Ok(()) if marker == FILE_MARKER => Ok(Self::File(input)),
            _ => Err(format!("{path} is no file that varnishlog -w wrote")),
        }
    }

    /// The instance in that folder; waits for it as long as `patience` says.
    pub(crate) fn instance(path: &Path, start: Start, stops: bool, patience: Option<Duration>) -> Result<Self, String> {
        let reader = attach(path, patience)?;
        Ok(Self::Instance(Box::new(Instance { reader, log: None, start, stops, looked: Instant::now() })))
    }

    pub(crate) fn next(&mut self) -> Result<Event, String> {
        match self {
            Self::File(input) => read_record(input).map_err(|error| format!("cannot read the file: {error}")),
            Self::Instance(instance) => instance.next(),
        }
    }
}

/// Attaches to the instance in that folder; waits for it as long as `patience` says, or for ever.
pub(crate) fn attach(path: &Path, patience: Option<Duration>) -> Result<Reader, String> {
    let begin = Instant::now();
    loop {
        match Reader::attach(path) {
            Ok(reader) => return Ok(reader),
            Err(error) if patience.is_some_and(|patience| begin.elapsed() >= patience) => {
                return Err(with_causes(&error));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(250)),
        }
    }
}

/// The folder that `-n` means.
pub(crate) fn folder(name: Option<&str>) -> PathBuf {
    vsm::instance_path(name.unwrap_or_default())
}

pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl Instance {
    fn next(&mut self) -> Result<Event, String> {
        let Some(log) = &mut self.log else { return self.open() };
        match log.next() {
            LogEvent::Record(record) => return Ok(Event::Record(record)),
            LogEvent::Overrun => return Ok(Event::Gap("overrun")),
            LogEvent::Damaged => return Err("the log is damaged".to_owned()),
            LogEvent::Nothing => {}
        }
        if self.stops {
            return Ok(Event::End);
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            // An index that cannot be read now is being written anew.
            if self.reader.refresh().is_err() || !log.is_current(&self.reader) {
                self.log = None;
                self.start = Start::Oldest;
                return Ok(Event::Gap("abandoned"));
            }
        }
        std::thread::sleep(PAUSE);
        Ok(Event::Idle)
    }

    fn open(&mut self) -> Result<Event, String> {
        let _ = self.reader.refresh();
        match LogReader::open(&self.reader, self.start) {
            Ok(Some(log)) => self.log = Some(log),
            // The worker is not started yet.
            Ok(None) if self.stops => return Err("there is no log: is the worker started?".to_owned()),
            Ok(None) | Err(vsm::VsmError::Io { .. }) => std::thread::sleep(PAUSE * 10),
            Err(error) => return Err(with_causes(&error)),
        }
        Ok(Event::Idle)
    }
}

/// The next record of a file; batches bring none of their own.
fn read_record(input: &mut impl Read) -> io::Result<Event> {
    const BATCH: u8 = 255;
    loop {
        let mut head = [0; 8];
        match input.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Event::End),
            other => other?,
        }
        let Some(record) = Record::from_head(head) else { return Err(io::ErrorKind::InvalidData.into()) };
        let (record, bytes) = record;
        if record.tag == BATCH {
            continue;
        }
        let mut text = vec![0; bytes.next_multiple_of(4)];
        input.read_exact(&mut text)?;
        text.truncate(bytes);
        return Ok(Event::Record(record.with_text(text)));
    }
}
