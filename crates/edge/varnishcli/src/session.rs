//! A client of the management protocol.

use std::time::SystemTime;

use crate::{
    CHALLENGE_BYTES, Instance, LineReader, Param, Reply, Status, auth,
    commands::{self, Access},
};

/// A client, from its first byte to its last.
#[derive(Debug)]
pub struct Session {
    lines: LineReader,
    /// What it has to answer before it may do anything.
    challenge: Option<[u8; CHALLENGE_BYTES]>,
    is_closed: bool,
}

/// What is to be done for a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// What it is to be sent.
    pub bytes: Vec<u8>,
    /// Whether its connection is to be closed then.
    pub closes: bool,
}

impl Session {
    /// A client that may do everything, and the greeting to send.
    pub fn open(instance: &mut dyn Instance) -> (Self, Vec<u8>) {
        let greeting = Reply::new(Status::Ok, commands::banner(instance));
        (Self { lines: LineReader::default(), challenge: None, is_closed: false }, greeting.to_bytes())
    }

    /// A client that has to know the secret, and the challenge to send.
    pub fn challenged(challenge: [u8; CHALLENGE_BYTES], _instance: &mut dyn Instance) -> (Self, Vec<u8>) {
        let text = [&challenge[..], b"\n\nAuthentication required.\n"].concat();
        let greeting = Reply::new(Status::Authentication, text);
        (Self { lines: LineReader::default(), challenge: Some(challenge), is_closed: false }, greeting.to_bytes())
    }

    /// Bytes came.
    pub fn receive(&mut self, bytes: &[u8], instance: &mut dyn Instance, now: SystemTime) -> Output {
        let mut output = Output { bytes: Vec::new(), closes: self.is_closed };
        if self.is_closed {
            return output;
        }
        self.lines.push(bytes);
        while let Some(line) = self.lines.next(self.challenge.is_none()) {
            let mut reply = match line {
                Ok(words) => {
                    let words: Vec<String> =
                        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                    self.run(&words, instance, now)
                }
                Err(error) => Reply::new(Status::Syntax, format!("Syntax Error: {error}\n")),
            };
            reply.limit(usize::try_from(instance.parameters().bytes(Param::cli_limit)).unwrap_or(usize::MAX));
            output.bytes.extend(reply.to_bytes());
            // Strangers have no second chance.
            if reply.status == Status::Close as u16 || self.challenge.is_some() && !reply.is_ok() {
                self.is_closed = true;
                output.closes = true;
                break;
            }
        }
        output
    }

    fn run(&mut self, words: &[String], instance: &mut dyn Instance, now: SystemTime) -> Reply {
        let access = if self.challenge.is_some() { Access::Stranger } else { Access::Full };
        match (words, self.challenge) {
            ([command, response], Some(challenge)) if command == "auth" => {
                let Some(secret) = instance.secret() else {
                    return Reply::new(Status::Cannot, "Cannot open secret file\n");
                };
                if !auth::is_same(&auth::response(&challenge, &secret), response) {
                    return Reply::new(Status::Close, "");
                }
                self.challenge = None;
                Reply::new(Status::Ok, commands::banner(instance))
            }
            _ => commands::run(words, access, instance, now),
        }
    }
}
