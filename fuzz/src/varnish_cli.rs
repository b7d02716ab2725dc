//! Varnish's management protocol: command lines, replies, parameters.

use varnishcli::{LineReader, Parameters, ReplyReader, quoted, words};

/// The bytes are lines of a client, a reply of a server, and `name value` of a parameter.
pub fn varnish_cli(data: &[u8]) {
    let mut whole = LineReader::default();
    whole.push(data);
    let commands: Vec<_> = std::iter::from_fn(|| whole.next(true)).collect();
    let mut pieces = LineReader::default();
    let mut again = Vec::new();
    for byte in data {
        pieces.push(&[*byte]);
        again.extend(std::iter::from_fn(|| pieces.next(true)));
    }
    assert_eq!(commands, again, "pieces make no difference");
    for command in commands.into_iter().flatten() {
        let line = command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        assert_eq!(words(line.as_bytes(), None), Ok(command));
    }
    let mut replies = ReplyReader::default();
    replies.push(data);
    while let Ok(Some(reply)) = replies.next() {
        assert!(reply.text.len() <= data.len());
    }
    let text = String::from_utf8_lossy(data);
    let (name, value) = text.split_once(' ').unwrap_or((&text, ""));
    let mut parameters = Parameters::default();
    if parameters.set(name, value).is_ok() {
        let _ = (parameters.text(name), parameters.json(name), parameters.bounds(name));
    }
}
