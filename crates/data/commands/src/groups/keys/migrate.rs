//! MIGRATE: keys go to another server, by `RESTORE` there.
//!
//! Redis does nothing else meanwhile. Here the client alone waits: the values leave as they are now, somebody else sends them
//! ([`Migration`]), and a key is removed when the other server has it, unless it has changed since.

use keyspace::{Bytes, Failure, NEVER, Value, digest, rdb};

use crate::{
    Context,
    server::{Credentials, Migration, Parcel},
};

/// Where options begin.
const FIRST_OPTION: usize = 6;
/// How long the other server may take for an answer if nobody says.
const TIMEOUT_MS: i64 = 1000;

#[derive(Default)]
struct Options<'a> {
    copy: bool,
    replace: bool,
    credentials: Option<Credentials>,
    keys: Vec<&'a [u8]>,
}

fn options<'a>(context: &Context<'a>) -> Result<Options<'a>, Failure> {
    let words = context.words;
    let mut options = Options { keys: vec![words.at(3)], ..Options::default() };
    let mut at = FIRST_OPTION;
    while at < words.len() {
        let behind = words.len() - at - 1;
        if words.is(at, "COPY") {
            options.copy = true;
        } else if words.is(at, "REPLACE") {
            options.replace = true;
        } else if words.is(at, "AUTH") && behind >= 1 {
            options.credentials = Some(Credentials { user: None, password: Bytes::from_slice(words.at(at + 1)) });
            at += 1;
        } else if words.is(at, "AUTH2") && behind >= 2 {
            let (user, password) = (Bytes::from_slice(words.at(at + 1)), Bytes::from_slice(words.at(at + 2)));
            options.credentials = Some(Credentials { user: Some(user), password });
            at += 2;
        } else if words.is(at, "KEYS") {
            if !words.at(3).is_empty() {
                return Err(Failure::text(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            options.keys = words.from(at + 1).to_vec();
            break;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// The one key, or those behind `KEYS` if that is empty. What stands there for a password is no such word.
pub(super) fn places(words: &[&[u8]], places: &mut Vec<usize>) {
    const ONE: usize = 3;
    match words.get(ONE) {
        Some(key) if !key.is_empty() => places.push(ONE),
        _ => {
            let mut at = FIRST_OPTION;
            while let Some(word) = words.get(at) {
                let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
                if is(b"KEYS") {
                    places.extend(at + 1..words.len());
                    return;
                }
                at += if is(b"AUTH2") { 3 } else { 1 + usize::from(is(b"AUTH")) };
            }
        }
    }
}

/// The places of the name and the password for the other server.
pub(super) fn secrets(words: &[&[u8]], places: &mut Vec<usize>) {
    for (name, count) in [(&b"AUTH"[..], 1), (b"AUTH2", 2)] {
        if let Some(place) = words.iter().skip(FIRST_OPTION).position(|word| word.eq_ignore_ascii_case(name)) {
            let behind = FIRST_OPTION + place + 1;
            places.extend(behind..behind + count);
        }
    }
}

pub(super) fn migrate(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let options = options(context)?;
    let timeout_ms = words.integer(5)?;
    let db = words.integer(4)?;
    let now = context.now();
    let mut parcels = Vec::new();
    for key in options.keys {
        let twice = parcels.iter().any(|parcel: &Parcel| parcel.key.as_slice() == key);
        let Some(entry) = context.keys.peek(key)?.filter(|_| !twice) else { continue };
        let Some(value) = &entry.value else { continue };
        let expire_at = entry.expire_at;
        let mut payload = Vec::new();
        rdb::encode_payload(value, &mut payload);
        let ttl = if expire_at == NEVER { 0 } else { expire_at.saturating_sub(now).max(1) };
        let is_stream = matches!(value, Value::Stream(_));
        let digest = digest::of_key(&mut context.keys, key)?;
        parcels.push(Parcel { key: Bytes::from_slice(key), payload, ttl, expire_at, digest, is_stream });
    }
    if parcels.is_empty() {
        context.reply.simple("NOKEY");
        return Ok(());
    }
    if context.session.deny_blocking {
        return Err(Failure::text(
            "ERR MIGRATE in a transaction or a script would have everybody wait for another server",
        ));
    }
    context.session.block(
        words.0,
        Vec::new(),
        None,
        b"-IOERR error or timeout reading from target instance\r\n".to_vec(),
    );
    let migration = Migration {
        number: 0,
        host: String::from_utf8_lossy(words.at(1)).into_owned(),
        port: String::from_utf8_lossy(words.at(2)).into_owned(),
        db,
        timeout_ms: (if timeout_ms <= 0 { TIMEOUT_MS } else { timeout_ms }).unsigned_abs(),
        credentials: options.credentials,
        copy: options.copy,
        replace: options.replace,
        parcels,
    };
    context.shared.begin_migration(context.session, migration);
    Ok(())
}
