//! A server in a test, asked by several clients.

use crate::{
    Server, SessionId,
    config::{Allowed, Settings},
};

/// A server without a clock, with clients that ask it.
pub(crate) struct Shard(pub(crate) Server);

impl Shard {
    pub(crate) fn new() -> Self {
        let settings = Settings { enable_debug_command: Allowed::Yes, ..Settings::default() };
        Self(Server::new(settings, 1, 1, 1000, None, std::rc::Rc::new(|| 0)))
    }

    /// Another client.
    pub(crate) fn client(&mut self) -> SessionId {
        self.0.connect(String::new(), String::new(), 1000)
    }

    /// Sends a command at the time 1000; gives the reply with blanks for line ends.
    pub(crate) fn ask(&mut self, client: SessionId, command: &str) -> String {
        self.0.input(client).expect("it is connected").extend_from_slice(format!("{command}\r\n").as_bytes());
        self.0.run(client, 1000);
        self.output(client)
    }

    /// What a client was sent since.
    pub(crate) fn output(&mut self, client: SessionId) -> String {
        let (output, _) = self.0.output(client).expect("it is connected");
        String::from_utf8(std::mem::take(output)).expect("it is text").replace("\r\n", " ")
    }

    /// The commands in the log since it was asked last.
    pub(crate) fn log(&mut self) -> Vec<String> {
        let bytes = String::from_utf8(self.0.effects().bytes().to_vec()).expect("it is text");
        self.0.effects().clear();
        let mut lines = bytes.split("\r\n");
        let mut commands = Vec::new();
        while let Some(count) = lines.next().and_then(|line| line.strip_prefix('*')) {
            let count: usize = count.parse().expect("a number");
            let words: Vec<_> = (0..count).filter_map(|_| lines.nth(1)).collect();
            commands.push(words.join(" "));
        }
        commands.retain(|command| !command.starts_with("SELECT"));
        commands
    }
}
