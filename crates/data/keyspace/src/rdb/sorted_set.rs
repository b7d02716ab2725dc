//! Sorted sets, in all their forms.

use std::collections::HashSet;

use super::{collections::pairs, listpack::Element};
use crate::{
    Bytes, Value,
    value::{SortedSet, sorted_set::Member},
};
use crate::{
    encoding::{RdbError, Reader, form},
    value::ValueLimits,
};

/// A member with its score.
pub(super) fn decode_member(form: u8, reader: &mut Reader<'_>) -> Result<Member, RdbError> {
    let name = Bytes::from_slice(&reader.string()?);
    let score = if form == form::SORTED_SET { reader.double_text()? } else { reader.double()? };
    Ok(Member { score, name })
}

pub(super) fn decode(form: u8, reader: &mut Reader<'_>, limits: &ValueLimits) -> Result<Value, RdbError> {
    let mut members = Vec::new();
    if matches!(form, form::SORTED_SET | form::SORTED_SET_2) {
        for _ in 0..reader.count()? {
            members.push(decode_member(form, reader)?);
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
    let mut small = limits.sorted_set;
    if members.iter().any(|member| member.score == 0.0 && member.score.is_sign_negative()) {
        // A small one would not keep the sign.
        small.members = 0;
    }
    let set = SortedSet::from_members(limits.seed, small, members);
    Ok(Value::SortedSet(Box::new(set)))
}
