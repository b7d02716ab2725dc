//! `DEBUG`: what tests need to look inside.

use crate::{
    Context, Failure, Value, digest, rdb,
    table::{Categories, Command, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("DEBUG", -2, debug)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
    .group("server", Categories::empty())
    .docs("1.0.0", "depends on the subcommand", "Looks inside, for tests.")];

fn debug(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.is(1, "SET-ACTIVE-EXPIRE") && words.len() == 3 {
        context.shared.active_expiry = words.integer(2)? != 0;
    } else if words.is(1, "SLEEP") && words.len() == 3 {
        let seconds = crate::number::float(words.at(2))?;
        context.shared.sleep_us += (seconds.max(0.0) * 1e6) as u64;
    } else if words.is(1, "DIGEST") && words.len() == 2 {
        let digest = digest::of_all(&mut context.keys)?;
        context.reply.simple(&digest.hex());
        return Ok(());
    } else if words.is(1, "DIGEST-VALUE") {
        let digests = words.from(2).iter().map(|key| digest::of_key(&mut context.keys, key));
        let digests = digests.collect::<Result<Vec<_>, _>>()?;
        context.reply.array(digests.len());
        digests.iter().for_each(|digest| context.reply.simple(&digest.hex()));
        return Ok(());
    } else if words.is(1, "OBJECT") && words.len() == 3 {
        return object(context);
    } else if ["JMAP", "RELOAD", "LOADAOF", "QUICKLIST-PACKED-THRESHOLD", "REPLYBUFFER", "LISTPACK-ENTRIES"]
        .iter()
        .any(|name| words.is(1, name))
    {
        // What these change in Redis is not there, or needs no such switch.
    } else {
        return Err(Failure::text(
            "ERR DEBUG has no such subcommand here: DIGEST, DIGEST-VALUE, OBJECT, SLEEP, SET-ACTIVE-EXPIRE, RELOAD are there",
        ));
    }
    context.reply.ok();
    Ok(())
}

/// What a value is like inside, as one line. It has no address here, and none is shared.
fn object(context: &mut Context<'_>) -> Result<(), Failure> {
    let clock = context.keys.space().usage.seconds();
    let limit = context.shared.settings.list_max_listpack_size.0;
    let entry = context.keys.peek(context.words.at(2))?.ok_or(Failure::NoSuchKey)?;
    let value = entry.value.as_ref().ok_or(Failure::NoSuchKey)?;
    let mut bytes = Vec::new();
    rdb::encode_value(value, &mut bytes);
    let mut text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        super::keys::encoding_of(value),
        bytes.len().saturating_sub(1),
        entry.touched,
        clock.saturating_sub(entry.touched)
    );
    if let Value::List(list) = value {
        let nodes = list.nodes().len();
        let size: usize = list.nodes().map(crate::value::packed::Packed::size).sum();
        text += &format!(
            " ql_nodes:{nodes} ql_avg_node:{:.2} ql_listpack_max:{limit} ql_compressed:0 ql_uncompressed_size:{size}",
            list.len() as f64 / nodes.max(1) as f64
        );
    }
    context.reply.simple(&text);
    Ok(())
}
