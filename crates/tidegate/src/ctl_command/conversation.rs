//! A conversation with a person: one connection with a prompt, which is opened again when the other side has ended it.

use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use super::{
    answer::Verdict,
    error::CtlError,
    place::{Connection, Place},
};

/// What each connection begins with: people think for longer than `stats timeout` waits.
const BEGINNING: &str = "set timeout cli 1d;prompt\n";
/// Bytes copied at a time.
const COPY_BYTES: usize = 16_384;

/// Talks until the person has had enough.
pub(super) fn hold(place: &Place) -> Result<Verdict, CtlError> {
    println!("Commands for {place}; `help` lists them, `quit` or Ctrl-D ends.");
    let mut link = Link::open(place)?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(CtlError::Input)?;
        if matches!(line.trim(), "quit" | "exit" | "q") {
            break;
        }
        if link.is_closed.load(SeqCst) {
            eprintln!("tidegate ctl: {place} had ended the conversation; this is a new one");
            link = Link::open(place)?;
        }
        if let Err(error) = link.stream.write_all(format!("{line}\n").as_bytes()) {
            eprintln!("tidegate ctl: {place}: {error}; type it again");
            link = Link::open(place)?;
        }
    }
    // What was asked last is still answered.
    let _ = link.stream.write_all(b"quit\n");
    let _ = link.answers.join();
    println!();
    Ok(Verdict::Fine)
}

/// A connection whose answers go to standard output as they come.
struct Link {
    stream: Box<dyn Connection>,
    is_closed: Arc<AtomicBool>,
    answers: JoinHandle<()>,
}

impl Link {
    fn open(place: &Place) -> Result<Self, CtlError> {
        let mut stream = place.connect()?;
        let failed = |source| CtlError::Connection { place: place.to_string(), source };
        stream.write_all(BEGINNING.as_bytes()).map_err(failed)?;
        let mut answers = stream.another().map_err(failed)?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let copying = move || {
            let mut buffer = vec![0; COPY_BYTES];
            // Whoever reads standard output may have gone.
            while let Ok(count @ 1..) = answers.read(&mut buffer) {
                let mut output = io::stdout().lock();
                if output.write_all(buffer.get(..count).unwrap_or_default()).and_then(|()| output.flush()).is_err() {
                    break;
                }
            }
            closed.store(true, SeqCst);
        };
        let answers = thread::Builder::new().name("answers".into()).spawn(copying).map_err(failed)?;
        Ok(Self { stream, is_closed, answers })
    }
}
