//! What the page draws, as JSON.

use std::path::Path;

use commands::server::Visitor;
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value as Reply};
use serde_json::{Map, Value, json};

use crate::{folder::ShardFolder, running::disk_bytes, status::Info};

use super::{
    requests::{NoAnswer, Questions},
    samples::SLOTS,
};

/// What is asked of the loop.
const QUESTIONS: &[&[&[u8]]] = &[&[b"INFO", b"everything"], &[b"SLOWLOG", b"GET", b"20"], &[b"CLIENT", b"LIST"]];
/// So many clients are shown, those that take the most memory.
const CLIENTS_MAX: usize = 20;
/// Words of a slow command are cut here.
const WORDS_LEN_MAX: usize = 200;

/// A reply out of its bytes.
pub fn reply(bytes: &[u8]) -> Reply {
    match ReplyParser::new().parse(bytes, &ReplyLimits::default()) {
        Ok(ReplyProgress::Complete { value, .. }) => value,
        _ => Reply::Null,
    }
}

fn text(value: &Reply) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

/// What `INFO` says.
pub fn info(bytes: &[u8]) -> Info {
    Info::parse(&text(&reply(bytes)))
}

/// All that the page shows, over so many seconds.
///
/// # Errors
///
/// The visitor may not know it, or the loop does not answer.
pub fn live(questions: &Questions, visitor: Visitor, folder: Option<&Path>, window: i64) -> Result<Value, NoAnswer> {
    let replies = questions.ask(visitor, QUESTIONS)?;
    let part = |index: usize| replies.get(index).map(Vec::as_slice).unwrap_or_default();
    let info = info(part(0));
    let step = (window / SLOTS as i64).max(1);
    let (end, points) = questions.with_samples(|samples| {
        // A step ends where the clock says, so that what was drawn stays as it was.
        let end = samples.end();
        let end = end + (step - end.rem_euclid(step)) % step;
        (end, samples.points(end, step))
    });
    let databases: Vec<Value> = info
        .databases()
        .into_iter()
        .map(|(db, keys, expires)| json!({ "db": db, "keys": keys, "expires": expires }))
        .collect();
    let disk = folder.map(|folder| {
        let shard = ShardFolder::first(folder);
        json!({ "tables": disk_bytes(&shard.tables()), "log": disk_bytes(&shard.log()) })
    });
    Ok(json!({
        "window": window,
        "step": step,
        "end": end,
        "points": points,
        "info": info.json(),
        "commands": commands(&info),
        "databases": databases,
        "disk": disk,
        "folder": folder.map(|folder| folder.display().to_string()),
        "slow": slow(&reply(part(1))),
        "clients": clients(&text(&reply(part(2)))),
    }))
}

/// What each command has cost: `cmdstat_get:calls=1,usec=2,...`.
fn commands(info: &Info) -> Vec<Value> {
    let mut found: Vec<Map<String, Value>> = info
        .fields()
        .filter_map(|(name, value)| {
            let mut fields: Map<String, Value> = value
                .split(',')
                .filter_map(|part| {
                    let (name, number) = part.split_once('=')?;
                    Some((name.to_owned(), number.parse::<f64>().ok()?.into()))
                })
                .collect();
            fields.insert("name".into(), name.strip_prefix("cmdstat_")?.into());
            Some(fields)
        })
        .collect();
    let time = |fields: &Map<String, Value>| fields.get("usec").and_then(Value::as_f64).unwrap_or(0.0);
    found.sort_by(|one, other| time(other).total_cmp(&time(one)));
    found.into_iter().map(Value::Object).collect()
}

/// The slow commands, the last one first.
fn slow(reply: &Reply) -> Vec<Value> {
    let entries = reply.as_slice().unwrap_or_default();
    let entry = |entry: &Reply| {
        let [id, at, time, words, address, name] = entry.as_slice()? else { return None };
        let words: Vec<String> = words.as_slice()?.iter().map(text).collect();
        let mut words = words.join(" ");
        if words.len() > WORDS_LEN_MAX {
            words = words.chars().take(WORDS_LEN_MAX).chain("…".chars()).collect();
        }
        let number = |value: &Reply| if let Reply::Integer(number) = value { *number } else { 0 };
        Some(json!({
            "id": number(id), "at": number(at), "time": number(time), "words": words, "address": text(address), "name": text(name),
        }))
    };
    entries.iter().filter_map(entry).collect()
}

/// The clients that take the most memory: `id=1 addr=... name=... ...`, a line each.
fn clients(text: &str) -> Vec<Value> {
    let mut found: Vec<Map<String, Value>> = text
        .lines()
        .map(|line| {
            line.split(' ')
                .filter_map(|part| part.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.parse::<i64>().map_or_else(|_| value.into(), Value::from)))
                .collect()
        })
        // Who looks is none of them.
        .filter(|fields: &Map<String, Value>| fields.get("id").is_some_and(|id| *id != 0))
        .collect();
    let memory = |fields: &Map<String, Value>| fields.get("tot-mem").and_then(Value::as_i64).unwrap_or(0);
    found.sort_by_key(|fields| -memory(fields));
    found.truncate(CLIENTS_MAX);
    found.into_iter().map(Value::Object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_apart() {
        let info = Info::parse(
            "cmdstat_get:calls=2,usec=5,usec_per_call=2.50,rejected_calls=0,failed_calls=1\r\n\
             cmdstat_set:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\r\nother:calls=1\r\n",
        );
        let commands = commands(&info);
        assert_eq!(commands.len(), 2);
        assert_eq!((&commands[0]["name"], &commands[1]["usec_per_call"]), (&json!("set"), &json!(2.5)));
        let found = clients("id=0 addr= tot-mem=9\nid=7 addr=127.0.0.1:1 name= tot-mem=5 cmd=get\nid=8 tot-mem=6\n");
        assert_eq!(found.len(), 2);
        assert_eq!((&found[0]["id"], &found[1]["cmd"]), (&json!(8), &json!("get")));
        let entry =
            b"*1\r\n*6\r\n:3\r\n:100\r\n:2500\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n$11\r\n127.0.0.1:1\r\n$0\r\n\r\n";
        let slow = slow(&reply(entry));
        assert_eq!((&slow[0]["words"], &slow[0]["time"]), (&json!("DEL k"), &json!(2500)));
    }
}
