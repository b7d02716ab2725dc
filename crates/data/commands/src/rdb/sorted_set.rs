//! Sorted sets, in all their forms.

use std::collections::HashSet;

use super::{
    Building, RdbError, Reader, Writer,
    collections::pairs,
    form,
    listpack::{Builder, Element},
};
use crate::{
    Bytes, Value,
    value::{SortedSet, sorted_set::Member},
};

pub(super) fn encode(set: &SortedSet, writer: &mut Writer<'_>) {
    if let SortedSet::Small(members) = set {
        let mut builder = Builder::default();
        let mut text = Vec::new();
        for member in members {
            builder.push(&member.name);
            text.clear();
            resp::format_double(&mut text, member.score);
            builder.push(&text);
        }
        writer.byte(form::SORTED_SET_LISTPACK);
        writer.string(&builder.finish());
        return;
    }
    writer.byte(form::SORTED_SET_2);
    writer.count(set.len());
    // Redis writes the last one first, and reads faster what comes so.
    set.each(0..set.len(), true, |member| {
        writer.string(&member.name);
        writer.double(member.score);
    });
}

pub(super) fn decode(form: u8, reader: &mut Reader<'_>, building: &Building) -> Result<Value, RdbError> {
    let mut members = Vec::new();
    if matches!(form, form::SORTED_SET | form::SORTED_SET_2) {
        for _ in 0..reader.count()? {
            let name = Bytes::from_slice(&reader.string()?);
            let score = if form == form::SORTED_SET { reader.double_text()? } else { reader.double()? };
            members.push(Member { score, name });
        }
    } else {
        let packed = reader.string()?;
        for [name, score] in pairs(&packed, form == form::SORTED_SET_ZIPLIST)? {
            let score = match score {
                Element::Integer(number) => number as f64,
                Element::Text(text) => crate::number::parse_float(text).ok_or(RdbError::Format("score"))?,
            };
            members.push(Member { score, name: Bytes::from_slice(&name.text()) });
        }
    }
    if members.is_empty() {
        return Err(RdbError::Empty);
    }
    if members.iter().any(|member| member.score.is_nan()) {
        return Err(RdbError::Format("score"));
    }
    let mut names = HashSet::with_capacity(members.len());
    if !members.iter().all(|member| names.insert(member.name.as_slice())) {
        return Err(RdbError::Format("an element twice"));
    }
    drop(names);
    let set = SortedSet::from_members(building.seed, building.sorted_set, members);
    Ok(Value::SortedSet(Box::new(set)))
}
