//! Scripts that hold anything.

use std::{cell::Cell, rc::Rc};

use commands::{Server, SessionId, config::Settings};

const NOW: i64 = 1_700_000_000_000;
/// What a script sees that nobody has tampered with.
const CANARY: &str = "local names = {} for name in pairs(_G) do names[#names + 1] = name end table.sort(names) \
                      return table.concat(names, ' ') .. #string.rep('ab', 3) .. ('x'):upper() .. type(redis.call) .. \
                      tostring(rawget(_G, 'x')) .. redis.call('PING').ok .. cjson.encode({1}) .. ('ab'):find('b')";

struct Shard {
    server: Server,
    session: SessionId,
    untouched: Vec<u8>,
}

impl Shard {
    fn new() -> Self {
        // Each look at the clock finds that much time has passed: what does not end soon is ended.
        let clock = Cell::new(0_u64);
        let stopwatch = move || clock.replace(clock.get() + 60_000_000);
        let mut server = Server::new(Settings::default(), 7, 7, NOW, None, Rc::new(stopwatch));
        server.set_while_busy(Rc::new(Server::kill_script));
        let session = server.connect(String::new(), String::new(), NOW);
        let mut shard = Self { server, session, untouched: Vec::new() };
        shard.untouched = shard.ask(&[b"EVAL", CANARY.as_bytes(), b"0"]);
        assert!(shard.untouched.starts_with(b"$"), "{}", shard.untouched.escape_ascii());
        shard
    }

    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        resp::encode_command(self.server.input(self.session).expect("it is connected"), words);
        self.server.run(self.session, NOW);
        self.server.effects().clear();
        std::mem::take(self.server.output(self.session).expect("it is connected").0)
    }
}

thread_local! {
    static SHARD: std::cell::RefCell<Option<Shard>> = const { std::cell::RefCell::new(None) };
}

/// A script is answered with something, and the next one finds everything as it was.
pub fn source(data: &[u8]) {
    SHARD.with_borrow_mut(|shard| {
        let shard = shard.get_or_insert_with(Shard::new);
        let reply = shard.ask(&[b"EVAL", data, b"1", b"key", b"argument"]);
        assert!(!reply.is_empty(), "no reply");
        shard.ask(&[b"SCRIPT", b"FLUSH"]);
        shard.ask(&[b"FLUSHALL"]);
        let after = shard.ask(&[b"EVAL", CANARY.as_bytes(), b"0"]);
        assert_eq!(after.escape_ascii().to_string(), shard.untouched.escape_ascii().to_string());
    });
}
