//! Answers: which are errors, and where they go.

use std::io::{self, BufRead as _, BufReader, Read, Write};

/// Whether all went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No answer was an error.
    Fine,
    /// One was.
    Refused,
}

impl Verdict {
    /// Of both.
    pub fn and(self, other: Self) -> Self {
        if self == Self::Refused { self } else { other }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Whether there was an answer, an empty one included.
    pub has_answered: bool,
    /// Whether any was an error.
    pub verdict: Verdict,
}

/// The least important severity that is an error; 4 is a warning.
const ERROR: u8 = b'3';
/// How answers to commands that nobody knows begin; that is no error by its severity.
const UNKNOWN: &[u8] = b"Unknown command";

/// Where answers go.
pub struct Output<O, E> {
    /// Whether answers begin with their severities: `[3]: `.
    has_severities: bool,
    /// Answers to the settings before all others, which are empty ones.
    settings: usize,
    out: O,
    errors: E,
}

impl<O: Write, E: Write> Output<O, E> {
    /// One that has written nothing.
    pub fn new(has_severities: bool, settings: usize, out: O, errors: E) -> Self {
        Self { has_severities, settings, out, errors }
    }

    /// Copies answers until the other side ends. Each answer ends with an empty line; that of the last one is left out, so that an answer that
    /// says nothing prints nothing.
    ///
    /// # Errors
    /// The stream's and the output's.
    pub fn copy(&mut self, stream: impl Read) -> io::Result<Told> {
        let mut reader = BufReader::new(stream);
        let mut told = Told { has_answered: false, verdict: Verdict::Fine };
        let (mut begins, mut is_error, mut empty_lines) = (true, false, 0_usize);
        let mut to_skip = self.settings;
        let mut line = Vec::new();
        loop {
            if reader.buffer().is_empty() {
                self.out.flush()?;
            }
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line == b"\n" {
                if to_skip > 0 {
                    to_skip -= 1;
                    continue;
                }
                told.has_answered = true;
                empty_lines += 1;
                begins = true;
                continue;
            }
            told.has_answered = true;
            let mut text = line.as_slice();
            if begins {
                let severity = self.severity(text);
                text = if severity.is_some() { text.get(SEVERITY_BYTES..).unwrap_or_default() } else { text };
                is_error = severity.is_some_and(|severity| severity <= ERROR) || text.starts_with(UNKNOWN);
            }
            if is_error {
                told.verdict = Verdict::Refused;
                self.errors.write_all(text)?;
            } else {
                self.out.write_all(&b"\n".repeat(empty_lines))?;
                self.out.write_all(text)?;
            }
            (begins, empty_lines) = (false, 0);
        }
        self.out.flush()?;
        Ok(told)
    }

    /// `[3]: `
    fn severity(&self, line: &[u8]) -> Option<u8> {
        match line {
            [b'[', digit @ b'0'..=b'7', b']', b':', b' ', ..] if self.has_severities => Some(*digit),
            _ => None,
        }
    }
}

/// Bytes of a severity before an answer.
const SEVERITY_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes to standard output, what to standard error, and the verdict.
    fn copied(answer: &str) -> (String, String, Verdict) {
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let told = Output::new(true, 1, &mut out, &mut errors).copy(answer.as_bytes()).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap(), told.verdict)
    }

    #[test]
    fn errors_are_told_from_other_answers() {
        for (answer, out, errors, verdict) in [
            ("\nName: x\nPid: 7\n\n", "Name: x\nPid: 7\n", "", Verdict::Fine),
            ("\n\n", "", "", Verdict::Fine),
            ("\n[3]: No such server.\n\n", "", "No such server.\n", Verdict::Refused),
            ("\n[6]: 50 (initial 100)\n\n", "50 (initial 100)\n", "", Verdict::Fine),
            ("\n[4]: beware\n\n", "beware\n", "", Verdict::Fine),
            ("\na\n\n[3]: no\nbecause\n\nb\n\n", "a\n\nb\n", "no\nbecause\n", Verdict::Refused),
            ("\nUnknown command: 'x'\n  help\n\n", "", "Unknown command: 'x'\n  help\n", Verdict::Refused),
            ("\n[6]: Unknown command: 'x'\n\n", "", "Unknown command: 'x'\n", Verdict::Refused),
            // A line in the middle is what it is.
            ("\nkey\n[3]: value\n\n", "key\n[3]: value\n", "", Verdict::Fine),
        ] {
            assert_eq!(copied(answer), (out.to_owned(), errors.to_owned(), verdict), "{answer:?}");
        }
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        assert!(!Output::new(true, 1, &mut out, &mut errors).copy(b"\n".as_slice()).unwrap().has_answered);
    }
}
