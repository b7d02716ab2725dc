//! Names of a queue's records: a letter, and what orders the records of that letter. Numbers are big endian.

use crate::MessageId;

/// What never changes of a message.
pub const BODY: u8 = b'b';
/// What changes of a message; one that was never given and waits for nothing has no such record.
pub const STATE: u8 = b'i';
/// Messages that are ready.
pub const READY: u8 = b'r';
/// Messages that wait for a time.
pub const DELAYED: u8 = b'd';
/// Messages that are reserved, by when that ends.
pub const RESERVED: u8 = b'v';
/// Dead messages.
pub const DEAD: u8 = b'x';
/// Messages that expire, by when.
pub const EXPIRY: u8 = b'e';
/// Groups.
pub const GROUP: u8 = b'h';
/// Messages of groups that are not reserved.
pub const MEMBER: u8 = b'g';
/// De-duplication ids.
pub const ID: u8 = b'u';
/// The same by when they are forgotten.
pub const FORGET: u8 = b't';

/// A record of a message.
pub fn of_message(letter: u8, id: MessageId) -> Vec<u8> {
    let mut name = vec![letter];
    name.extend(id.0.to_be_bytes());
    name
}

/// A message at a time.
pub fn at_time(letter: u8, at: u64, id: MessageId) -> Vec<u8> {
    let mut name = vec![letter];
    name.extend(at.to_be_bytes());
    name.extend(id.0.to_be_bytes());
    name
}

/// A time, with nothing behind it.
pub fn time(letter: u8, at: u64) -> Vec<u8> {
    let mut name = vec![letter];
    name.extend(at.to_be_bytes());
    name
}

/// The time and the message of a name.
pub fn split_time(name: &[u8]) -> Option<(u64, MessageId)> {
    let (at, id) = name.get(1..)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*at), MessageId(u64::from_be_bytes(id.try_into().ok()?))))
}

/// A message that is ready.
pub fn ready(priority: u32, class: u8, id: MessageId) -> Vec<u8> {
    let mut name = vec![READY];
    name.extend(priority.to_be_bytes());
    name.push(class);
    name.extend(id.0.to_be_bytes());
    name
}

/// Priority, class and message of the name of one that is ready.
pub fn split_ready(name: &[u8]) -> Option<(u32, u8, MessageId)> {
    let (priority, rest) = name.get(1..)?.split_first_chunk()?;
    let (class, id) = rest.split_first()?;
    Some((u32::from_be_bytes(*priority), *class, MessageId(u64::from_be_bytes(id.try_into().ok()?))))
}

/// The message of a name whose end it is.
pub fn message(name: &[u8]) -> Option<MessageId> {
    name.last_chunk().map(|id| MessageId(u64::from_be_bytes(*id)))
}

/// A group.
pub fn group(group: &[u8]) -> Vec<u8> {
    [&[GROUP], group].concat()
}

/// A member of a group.
pub fn member(group: &[u8], id: MessageId) -> Vec<u8> {
    let mut name = members(group);
    name.extend(id.0.to_be_bytes());
    name
}

/// What the names of all members of a group begin with.
pub fn members(group: &[u8]) -> Vec<u8> {
    let mut name = vec![MEMBER];
    name.extend((group.len() as u16).to_be_bytes());
    name.extend_from_slice(group);
    name
}

/// A de-duplication id.
pub fn deduplication(id: &[u8]) -> Vec<u8> {
    [&[ID], id].concat()
}

/// A de-duplication id at the time when it is forgotten.
pub fn forget(at: u64, id: &[u8]) -> Vec<u8> {
    [&time(FORGET, at), id].concat()
}

/// The time of a name that begins with one.
pub fn split_any_time(name: &[u8]) -> Option<u64> {
    name.get(1..)?.first_chunk().map(|at| u64::from_be_bytes(*at))
}
