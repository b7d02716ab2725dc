//! Lists, sets and hashes, in all their forms.

use super::{
    listpack::{self, Builder, Element},
    ziplist,
};
use crate::{
    Value,
    value::{Hash, List, Set, list::End, packed::Packed, set::Member},
};
use crate::{
    encoding::{RdbError, Reader, Writer, form},
    value::ValueLimits,
};

/// How a node of a quicklist holds its elements.
pub(super) mod container {
    /// One element, as it is.
    pub const PLAIN: u64 = 1;
    /// A listpack.
    pub const PACKED: u64 = 2;
}

pub(super) const TWICE: RdbError = RdbError::Format("an element twice");

/// A node of a list.
pub(super) fn encode_node(node: &Packed, writer: &mut Writer<'_>) {
    let mut builder = Builder::default();
    node.iter().for_each(|element| builder.push(element));
    writer.number(container::PACKED);
    writer.string(&builder.finish());
}

pub(super) fn decode_list(form: u8, reader: &mut Reader<'_>, limits: &ValueLimits) -> Result<Value, RdbError> {
    let mut list = List::new();
    if form == form::LIST_ZIPLIST {
        push_ziplist(&reader.string()?, &mut |element| list.push(End::Tail, element, limits.list))?;
    } else {
        for _ in 0..reader.count()? {
            decode_elements(form, reader, limits, &mut list)?;
        }
    }
    if list.is_empty() { Err(RdbError::Empty) } else { Ok(Value::List(Box::new(list))) }
}

/// One element of a list, or those of a node.
pub(super) fn decode_elements(
    form: u8,
    reader: &mut Reader<'_>,
    limits: &ValueLimits,
    list: &mut List,
) -> Result<(), RdbError> {
    let mut push = |element: &[u8]| list.push(End::Tail, element, limits.list);
    match form {
        form::LIST => push(&reader.string()?),
        form::LIST_QUICKLIST => push_ziplist(&reader.string()?, &mut push)?,
        _ => match reader.number()? {
            container::PLAIN => push(&reader.string()?),
            container::PACKED => {
                for element in listpack::elements(&reader.string()?)? {
                    push(&element?.text());
                }
            }
            _ => return Err(RdbError::Format("node of a list")),
        },
    }
    Ok(())
}

fn push_ziplist(bytes: &[u8], push: &mut impl FnMut(&[u8])) -> Result<(), RdbError> {
    ziplist::ziplist(bytes)?.into_iter().for_each(|element| push(&element.text()));
    Ok(())
}

pub(super) fn decode_set(form: u8, reader: &mut Reader<'_>, limits: &ValueLimits) -> Result<Value, RdbError> {
    let mut set = Set::new(limits.seed);
    let mut add = |member: Member<'_>| {
        if set.add_member(member, limits.integers_max) { Ok(()) } else { Err(TWICE) }
    };
    match form {
        form::SET => {
            for _ in 0..reader.count()? {
                decode_member(reader, limits, &mut set)?;
            }
        }
        form::SET_INTEGERS => {
            for member in ziplist::integers(&reader.string()?)? {
                add(Member::Integer(member))?;
            }
        }
        _ => {
            for element in listpack::elements(&reader.string()?)? {
                add(Member::Text(&element?.text()))?;
            }
        }
    }
    if set.is_empty() { Err(RdbError::Empty) } else { Ok(Value::Set(Box::new(set))) }
}

/// A member of a set.
pub(super) fn decode_member(reader: &mut Reader<'_>, limits: &ValueLimits, set: &mut Set) -> Result<(), RdbError> {
    if set.add_member(Member::Text(&reader.string()?), limits.integers_max) { Ok(()) } else { Err(TWICE) }
}

/// A field of a hash with its value.
pub(super) fn decode_field(reader: &mut Reader<'_>, limits: &ValueLimits, hash: &mut Hash) -> Result<(), RdbError> {
    let name = reader.string()?;
    if hash.set(&name, &reader.string()?, limits.hash) { Ok(()) } else { Err(TWICE) }
}

pub(super) fn decode_hash(form: u8, reader: &mut Reader<'_>, limits: &ValueLimits) -> Result<Value, RdbError> {
    let mut hash = Hash::new(limits.seed);
    let mut set = |name: &[u8], value: &[u8]| {
        if hash.set(name, value, limits.hash) { Ok(()) } else { Err(TWICE) }
    };
    match form {
        form::HASH => {
            for _ in 0..reader.count()? {
                decode_field(reader, limits, &mut hash)?;
            }
        }
        form::HASH_ZIPMAP => {
            for (name, value) in ziplist::zipmap(&reader.string()?)? {
                set(name, value)?;
            }
        }
        _ => {
            let packed = reader.string()?;
            for [name, value] in pairs(&packed, form == form::HASH_ZIPLIST)? {
                set(&name.text(), &value.text())?;
            }
        }
    }
    if hash.is_empty() { Err(RdbError::Empty) } else { Ok(Value::Hash(Box::new(hash))) }
}

/// The elements of a ziplist or a listpack, two by two.
pub(super) fn pairs(packed: &[u8], is_ziplist: bool) -> Result<Vec<[Element<'_>; 2]>, RdbError> {
    let elements = if is_ziplist {
        ziplist::ziplist(packed)?
    } else {
        listpack::elements(packed)?.collect::<Result<Vec<_>, _>>()?
    };
    match elements.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.to_vec()),
        _ => Err(RdbError::Format("a pair of one")),
    }
}
