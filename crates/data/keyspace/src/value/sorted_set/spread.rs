//! A sorted set whose members are records: by name, with their scores, and in order, with nothing, in counted parts.

use std::{cell::OnceCell, ops::Bound};

use resp::Reply;

use crate::{
    Bytes,
    elements::{Elements, Span, Writer},
    value::{Form, Named, Portions, directory::Directory, named, portions::Rest},
};

use super::{Member, OrderBound, Ranks};

/// What the records of the order begin with; score and name follow.
const LETTER: u8 = b's';
/// All records of the order.
pub(in crate::value) const ORDER: (&[u8], &[u8]) = (&[LETTER], &[LETTER + 1]);
/// The letter and the score.
const PREFIX_LEN: usize = 9;
/// A part with more members is divided.
const PART_LEN_MAX: usize = 512;
/// The value of a record whose score is minus zero, which has the same place as zero.
const MINUS: &[u8] = b"-";

/// Members by name and in order.
#[derive(Debug, Clone)]
pub struct Spread {
    names: Named,
    /// The parts of the order, as soon as somebody needed them.
    parts: OnceCell<Directory>,
}

/// A score as bytes that sort as scores do.
fn ordered(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn score_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

fn record(ordered: u64, name: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(PREFIX_LEN + name.len() + 1);
    record.push(LETTER);
    record.extend_from_slice(&ordered.to_be_bytes());
    record.extend_from_slice(name);
    record
}

/// A member from its record in the order.
pub(in crate::value) fn member(record: &[u8], value: &[u8]) -> Option<Member> {
    let (prefix, name) = record.split_first_chunk::<PREFIX_LEN>()?;
    let score = score_of(prefix.last_chunk().map_or(0, |score| u64::from_be_bytes(*score)));
    let score = if value == MINUS { -score } else { score };
    Some(Member { score, name: Bytes::from_slice(name) })
}

/// Writes a member from its record in the order.
pub(in crate::value) fn write_record(record: &[u8], value: &[u8], reply: &mut Reply<'_>, with_score: bool) {
    if let Some(member) = member(record, value) {
        member.reply(reply, with_score);
    }
}

/// What a member's record by name has.
pub(in crate::value) fn score_in(value: &[u8]) -> Option<f64> {
    value.first_chunk().map(|bits| f64::from_bits(u64::from_be_bytes(*bits)))
}

/// Records of the order from one on.
fn upwards(from: &[u8]) -> Span<'_> {
    Span { from: Bound::Included(from), to: Bound::Excluded(&[LETTER + 1]), backwards: false }
}

/// Puts and deletes the records of a member whose score changes, which it may have had or may have. `changed` is called with what
/// parts begin, or began, with whose own records are to be [written](Directory::write).
pub(in crate::value) fn move_records(
    parts: &mut Directory,
    writer: &impl Writer,
    (hash, name): (u64, &[u8]),
    from: Option<f64>,
    to: Option<f64>,
    mut changed: impl FnMut(&[u8]),
) {
    if from.map(f64::to_bits) == to.map(f64::to_bits) {
        return;
    }
    if let Some(score) = from {
        leave(parts, writer, score, name, &mut changed);
    }
    match to {
        Some(score) => {
            writer.put(&named::record(hash, name), &score.to_bits().to_be_bytes());
            enter(parts, writer, score, name, &mut changed);
        }
        None => writer.delete(&named::record(hash, name)),
    }
}

/// Puts a member into the order.
fn enter(parts: &mut Directory, writer: &impl Writer, score: f64, name: &[u8], changed: &mut impl FnMut(&[u8])) {
    let record = record(ordered(score), name);
    let is_minus = score == 0.0 && score.is_sign_negative();
    writer.put(&record, if is_minus { MINUS } else { b"" });
    if parts.len() == 0 {
        parts.insert(0, &record, 1);
        return changed(&record);
    }
    let (index, _) = parts.find(&record);
    if let Some(begin) = parts.begin(index) {
        changed(begin);
        if *record < *begin {
            // The first part begins with what is there, so that nobody looks for the first member among what is gone.
            parts.set_begin(index, &record);
            changed(&record);
        }
    }
    parts.set_count(index, parts.count_of(index) + 1);
    if parts.count_of(index) > PART_LEN_MAX {
        divide(parts, index, writer, changed);
    }
}

/// Divides a part.
fn divide(parts: &mut Directory, index: usize, writer: &impl Writer, changed: &mut impl FnMut(&[u8])) {
    let count = parts.count_of(index);
    // Whoever adds in order leaves full parts behind.
    let stay = if index + 1 == parts.len() { count * 3 / 4 } else { count / 2 };
    let Some(begin) = parts.begin(index) else { return };
    let mut passed = 0;
    let mut middle = None;
    writer.scan_from(begin, &mut |record| {
        passed += 1;
        if passed > stay {
            middle = Some(record.to_vec());
        }
        middle.is_none()
    });
    if let Some(middle) = middle {
        parts.set_count(index, stay);
        parts.insert(index + 1, &middle, count - stay);
        changed(&middle);
    }
}

/// Takes a member out of the order.
fn leave(parts: &mut Directory, writer: &impl Writer, score: f64, name: &[u8], changed: &mut impl FnMut(&[u8])) {
    let record = record(ordered(score), name);
    writer.delete(&record);
    let (index, _) = parts.find(&record);
    if let Some(begin) = parts.begin(index) {
        changed(begin);
    }
    match parts.count_of(index) {
        0 | 1 => parts.remove(index),
        count => parts.set_count(index, count - 1),
    }
}

impl Spread {
    /// That of so many members, which are there.
    pub(in crate::value) fn new(elements: Elements, len: usize, seed: u64) -> Self {
        Self { names: Named::new(elements, len, seed), parts: OnceCell::new() }
    }

    /// The same with its parts.
    pub(super) fn with_parts(elements: Elements, len: usize, seed: u64, parts: Directory) -> Self {
        Self { names: Named::new(elements, len, seed), parts: OnceCell::from(parts) }
    }

    /// The parts, if they were needed so far, for another who has the records then.
    pub(in crate::value) fn take_parts(&mut self) -> Option<Directory> {
        self.parts.take()
    }

    /// Members by name.
    pub(in crate::value) fn names(&self) -> &Named {
        &self.names
    }

    /// The same to be changed as a whole.
    pub(in crate::value) fn names_mut(&mut self) -> &mut Named {
        &mut self.names
    }

    fn elements(&self) -> &Elements {
        self.names.elements()
    }

    /// The parts; nothing if they cannot be read.
    fn parts(&self) -> Option<&Directory> {
        if self.parts.get().is_none() {
            let _ = self.parts.set(Directory::read(self.elements())?);
        }
        self.parts.get()
    }

    /// The parts, to be changed; nothing if anything could not be read.
    fn parts_mut(&mut self) -> Option<&mut Directory> {
        self.parts()?;
        if self.elements().has_failed() { None } else { self.parts.get_mut() }
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// A member's score.
    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        score_in(&self.names.get(name)?)
    }

    /// Puts a member that is not there.
    pub(super) fn insert_new(&mut self, member: &Member) {
        if self.parts_mut().is_none() {
            return;
        }
        self.names.insert_new(&member.name, &member.score.to_bits().to_be_bytes());
        self.insert_in_order(member);
    }

    fn insert_in_order(&mut self, member: &Member) {
        let elements = self.names.elements();
        let Some(parts) = self.parts.get_mut() else { return };
        let mut changed = Vec::new();
        enter(parts, elements, member.score, &member.name, &mut |begin| changed.push(begin.to_vec()));
        changed.iter().for_each(|begin| parts.write(begin, elements));
    }

    fn remove_in_order(&mut self, score: f64, name: &[u8]) {
        let elements = self.names.elements();
        let Some(parts) = self.parts.get_mut() else { return };
        let mut changed = Vec::new();
        leave(parts, elements, score, name, &mut |begin| changed.push(begin.to_vec()));
        changed.iter().for_each(|begin| parts.write(begin, elements));
    }

    /// Gives a member that is there another score.
    pub(super) fn change_score(&mut self, name: &[u8], score: f64) {
        if self.parts_mut().is_none() {
            return;
        }
        let former = self.names.insert(name, &score.to_bits().to_be_bytes());
        let Some(former) = former.and_then(|value| score_in(&value)) else { return };
        self.remove_in_order(former, name);
        self.insert_in_order(&Member { score, name: Bytes::from_slice(name) });
    }

    /// Removes a member and gives its score.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        self.parts_mut()?;
        let score = score_in(&self.names.remove(name)?)?;
        self.remove_in_order(score, name);
        Some(score)
    }

    /// Removes members by rank and hands them out.
    pub(super) fn remove_ranks(&mut self, ranks: Ranks, mut removed: impl FnMut(Member)) {
        if self.parts_mut().is_none() {
            return;
        }
        let mut members = Vec::new();
        self.each_while(ranks, |member| {
            members.push(member.clone());
            true
        });
        if self.elements().has_failed() {
            return;
        }
        for member in members {
            self.names.remove(&member.name);
            self.remove_in_order(member.score, &member.name);
            removed(member);
        }
    }

    /// A member's rank, and its score.
    pub(super) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(name)?;
        Some((self.rank_of(&OrderBound::Before(score, name)), score))
    }

    /// The score of the first member.
    fn first_score(&self) -> Option<f64> {
        self.at(0).map(|member| member.score)
    }

    /// How many members are in front of a place.
    pub(super) fn rank_of(&self, place: &OrderBound<'_>) -> usize {
        let bound = match place {
            OrderBound::BeforeScore(score) => record(ordered(*score), b""),
            OrderBound::AfterScore(score) => record(ordered(*score) + 1, b""),
            OrderBound::Before(score, name) => record(ordered(*score), name),
            OrderBound::BeforeName(name) => record(self.first_score().map_or(0, ordered), name),
            OrderBound::AfterName(name) => {
                let mut record = record(self.first_score().map_or(0, ordered), name);
                record.push(0);
                record
            }
        };
        let Some(parts) = self.parts() else { return 0 };
        let (index, mut before) = parts.find(&bound);
        let Some(begin) = parts.begin(index) else { return 0 };
        self.elements().scan(upwards(begin), &mut |record, _| {
            let is_before = *record < *bound;
            before += usize::from(is_before);
            is_before
        });
        before
    }

    /// The record of a rank.
    fn record_at(&self, rank: usize) -> Option<(Vec<u8>, Member)> {
        let parts = self.parts()?;
        let (index, mut within) = parts.of_number(rank)?;
        let mut found = None;
        self.elements().scan(upwards(parts.begin(index)?), &mut |record, value| {
            if within == 0 {
                found = member(record, value).map(|member| (record.to_vec(), member));
                return false;
            }
            within -= 1;
            true
        });
        found
    }

    /// The member of a rank.
    pub(super) fn at(&self, rank: usize) -> Option<Member> {
        self.record_at(rank).map(|(_, member)| member)
    }

    /// The members of some ranks, to be given in portions.
    pub(super) fn portions(&self, ranks: Ranks, backwards: bool, with_scores: bool) -> Option<Portions> {
        let left = ranks.len();
        let first = if backwards { ranks.end.checked_sub(1)? } else { ranks.start };
        let first = Bound::Included(self.record_at(first)?.0);
        let (from, to) =
            if backwards { (Bound::Included(vec![LETTER]), first) } else { (first, Bound::Excluded(vec![LETTER + 1])) };
        Some(Portions::new(self.elements(), Form::Members { with_scores }, Rest { from, to, backwards, left }))
    }

    /// Calls with the members of some ranks in order until that says no.
    pub(super) fn each_while(&self, ranks: Ranks, mut each: impl FnMut(&Member) -> bool) {
        let mut left = ranks.len();
        let found = self.parts().and_then(|parts| {
            let (index, within) = parts.of_number(ranks.start).filter(|_| left > 0)?;
            Some((parts.begin(index)?, within))
        });
        let Some((begin, mut skipped)) = found else { return };
        self.elements().scan(upwards(begin), &mut |record, value| {
            if skipped > 0 {
                skipped -= 1;
                return true;
            }
            left -= 1;
            member(record, value).is_none_or(|member| each(&member)) && left > 0
        });
    }

    /// Calls with the members of some ranks, from the last to the first.
    pub(super) fn each_down(&self, ranks: Ranks, mut each: impl FnMut(&Member)) {
        let mut left = ranks.len();
        let last = ranks.end.checked_sub(1).filter(|_| left > 0);
        let Some((last, _)) = last.and_then(|last| self.record_at(last.min(self.len().saturating_sub(1)))) else {
            return;
        };
        let span = Span { from: Bound::Included(&[LETTER]), to: Bound::Included(&last), backwards: true };
        self.elements().scan(span, &mut |record, value| {
            left -= 1;
            if let Some(member) = member(record, value) {
                each(&member);
            }
            left > 0
        });
    }

    /// Gives about `count` members from a cursor on; returns the cursor to go on with, nothing at the end.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&Member)) -> Option<u64> {
        self.names.scan(cursor, count, |name, value| {
            each(&Member { score: score_in(value).unwrap_or_default(), name: Bytes::from_slice(name) });
        })
    }
}
