//! Runs one command so many times, without sockets, log and tables: `run_command COUNT WORD...`, for callgrind and perf.
//!
//! With two counts the difference is what the commands cost: `valgrind --tool=callgrind target/quick/examples/run_command 20000 GET key`.
//! The key `key` holds a short text, `list`, `hash` and `set` hold some elements.

#![expect(clippy::expect_used, reason = "a tool for those who change the code")]

use std::rc::Rc;

use commands::{Server, config::Settings};

const NOW: i64 = 1_700_000_000_000;
/// Commands of one buffer, as a client with a pipeline sends them.
const PIPELINE: usize = 16;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().and_then(|count| count.parse().ok()).expect("run_command COUNT WORD...");
    let words: Vec<String> = arguments.collect();
    let mut server = Server::new(Settings::default(), 7, 7, NOW, None, Rc::new(|| 0));
    let session = server.connect(String::new(), String::new(), NOW);
    let mut run = |commands: &[u8]| {
        server.input(session).expect("it is connected").extend_from_slice(commands);
        server.run(session, NOW);
        let len = server.effects().len();
        server.effects().clear();
        let (output, _) = server.output(session).expect("it is connected");
        assert!(!output.starts_with(b"-"), "{}", output.escape_ascii());
        output.clear();
        len
    };
    run(b"SET key some-text\r\nRPUSH list a b c\r\nHSET hash a 1 b 2\r\nSADD set a b c\r\n");
    let mut command = Vec::new();
    resp::encode_command(&mut command, &words);
    let commands = command.repeat(PIPELINE);
    let effects: usize = (0..count / PIPELINE).map(|_| run(&commands)).sum();
    println!("{count} times: {effects} bytes of effects");
}
