//! A payload of `DUMP` that is read in steps: first its checksum, then element by element, or node by node.

use super::{
    collections, crc64, decode_value,
    payload::{FOOTER_LEN, is_footer},
    queue::RecordReader,
    sorted_set,
    stream::NodeReader,
};
use crate::{
    Value,
    value::{
        Hash, Kind as _, List, Set,
        sorted_set::{Building as Order, SmallLimits},
    },
};
use crate::{
    encoding::{RdbError, Reader, form},
    value::ValueLimits,
};

/// How far it has come.
#[derive(Debug)]
pub struct Restoring {
    limits: ValueLimits,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// So many bytes have been summed up to that.
    Sum(usize, u64),
    /// Elements are read.
    Read(Reading),
    /// Members of a sorted set are put in order.
    Order(Order, SmallLimits),
    Done(Option<Value>),
}

/// A value of many elements.
#[derive(Debug)]
struct Reading {
    form: u8,
    /// Where the next element begins, and how many there are still.
    at: usize,
    left: usize,
    made: Made,
}

#[derive(Debug)]
enum Made {
    List(List),
    Set(Set),
    Hash(Hash),
    /// With whether a small one could not hold it as it is.
    Ordered(Order, bool),
    Stream(NodeReader),
    Queue(RecordReader),
}

/// Bytes are summed and read so much faster than an element is put.
const BYTES_AS_ONE: usize = 64;

/// About how many elements a payload is worth.
pub fn weight(payload: &[u8]) -> usize {
    payload.len() / BYTES_AS_ONE
}

impl Restoring {
    /// Nothing has been read.
    pub fn new(limits: ValueLimits) -> Self {
        Self { limits, phase: Phase::Sum(0, 0) }
    }

    /// Goes on. Returns the value when all was read.
    ///
    /// # Errors
    ///
    /// [`RdbError::Footer`] if version or checksum are wrong, any other if the value is.
    pub fn go_on(&mut self, payload: &[u8], budget: usize) -> Result<Option<Value>, RdbError> {
        let body = payload.get(..payload.len().saturating_sub(FOOTER_LEN)).unwrap_or_default();
        match &mut self.phase {
            Phase::Sum(at, sum) => {
                let covered = payload.get(..payload.len().saturating_sub(8)).unwrap_or_default();
                let to = covered.len().min(at.saturating_add(budget.saturating_mul(BYTES_AS_ONE)));
                *sum = crc64::continued(*sum, covered.get(*at..to).unwrap_or_default());
                *at = to;
                if to == covered.len() {
                    if !is_footer(payload, *sum) {
                        return Err(RdbError::Footer);
                    }
                    self.phase = Reading::begin(body, &self.limits)?;
                }
            }
            Phase::Read(reading) => {
                if let Some(next) = reading.go_on(body, &self.limits, budget)? {
                    self.phase = next;
                }
            }
            Phase::Order(order, limits) => {
                if order.sort(budget) {
                    let set = std::mem::replace(order, Order::new(0)).finish(*limits);
                    self.phase = Phase::Done(Some(set.into_value()));
                }
            }
            Phase::Done(_) => {}
        }
        Ok(if let Phase::Done(value) = &mut self.phase { value.take() } else { None })
    }
}

impl Reading {
    fn begin(body: &[u8], limits: &ValueLimits) -> Result<Phase, RdbError> {
        let mut reader = Reader::new(body);
        let form = reader.byte()?;
        let len = reader.len();
        let made = match form {
            form::LIST | form::LIST_QUICKLIST | form::LIST_QUICKLIST_2 => Made::List(List::new()),
            form::SET => Made::Set(Set::new(limits.seed)),
            form::HASH => Made::Hash(Hash::new(limits.seed)),
            form::SORTED_SET | form::SORTED_SET_2 => Made::Ordered(Order::new(limits.seed), false),
            form::STREAM_1 | form::STREAM_2 | form::STREAM_3 => Made::Stream(NodeReader::new(len)),
            form::QUEUE => {
                let made = Made::Queue(RecordReader::new(&mut reader)?);
                // Its end is marked.
                return Ok(Phase::Read(Self { form, at: body.len() - reader.len(), left: usize::MAX, made }));
            }
            _ => return decode_value(body, limits).map(|value| Phase::Done(Some(value))),
        };
        let left = reader.count()?;
        if left == 0 && !matches!(made, Made::Stream(_)) {
            return Err(RdbError::Empty);
        }
        Ok(Phase::Read(Self { form, at: body.len() - reader.len(), left, made }))
    }

    /// Reads some more. Returns what comes next when that was all.
    fn go_on(&mut self, body: &[u8], limits: &ValueLimits, budget: usize) -> Result<Option<Phase>, RdbError> {
        let mut reader = Reader::new(body.get(self.at..).unwrap_or_default());
        let enough = reader.len().saturating_sub(budget.saturating_mul(BYTES_AS_ONE));
        for _ in 0..budget.min(self.left) {
            match &mut self.made {
                Made::List(list) => collections::decode_elements(self.form, &mut reader, limits, list)?,
                Made::Set(set) => collections::decode_member(&mut reader, limits, set)?,
                Made::Hash(hash) => collections::decode_field(&mut reader, limits, hash)?,
                Made::Ordered(order, is_large) => {
                    let (member, before) = (sorted_set::decode_member(self.form, &mut reader)?, order.len());
                    if member.score.is_nan() {
                        return Err(RdbError::Format("score"));
                    }
                    *is_large |= member.score == 0.0 && member.score.is_sign_negative();
                    order.put(&member.name, member.score, |_, score| score);
                    if order.len() == before {
                        return Err(collections::TWICE);
                    }
                }
                Made::Stream(nodes) => nodes.next(&mut reader)?,
                Made::Queue(records) => {
                    if !records.next(&mut reader)? {
                        self.left = 1;
                    }
                }
            }
            self.left -= 1;
            if self.left == 0 {
                break;
            }
            // Nodes are long.
            if reader.len() < enough {
                break;
            }
        }
        self.at = body.len() - reader.len();
        if self.left > 0 {
            return Ok(None);
        }
        let value = match std::mem::replace(&mut self.made, Made::List(List::new())) {
            Made::List(list) if list.is_empty() => return Err(RdbError::Empty),
            Made::List(list) => list.into_value(),
            Made::Set(set) => set.into_value(),
            Made::Hash(hash) => hash.into_value(),
            Made::Stream(nodes) => nodes.finish(self.form, &mut reader)?,
            Made::Queue(records) => records.finish(),
            Made::Ordered(order, is_large) => {
                let limits = limits.sorted_set;
                let limits = SmallLimits { members: if is_large { 0 } else { limits.members }, ..limits };
                return if reader.is_empty() { Ok(Some(Phase::Order(order, limits))) } else { Err(RdbError::Surplus) };
            }
        };
        if reader.is_empty() { Ok(Some(Phase::Done(Some(value)))) } else { Err(RdbError::Surplus) }
    }
}
