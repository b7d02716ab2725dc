//! Records to transactions, and transactions to groups.
//!
//! A transaction begins with the first record of its number and is complete with `End`. `Link` in one and `Begin` in the other say which
//! gave rise to which. A group is complete when its first transaction and all that it gave rise to are.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use telemetry::{query::Entry, vsl::VslTag};
use vsm::reader::Record;

/// Records of a transaction that are kept, at most; the others are lost, and the group says so.
const RECORDS_MAX: usize = 100_000;

/// What is shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    Session,
    Request,
    Vxid,
    Raw,
}

impl Grouping {
    pub(crate) fn named(word: &str) -> Option<Self> {
        match word {
            "session" => Some(Self::Session),
            "request" => Some(Self::Request),
            "vxid" => Some(Self::Vxid),
            "raw" => Some(Self::Raw),
            _ => None,
        }
    }
}

/// What a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unknown,
    Session,
    Request,
    Fetch,
    Raw,
}

impl Kind {
    fn named(word: &str) -> Self {
        match word {
            "sess" => Self::Session,
            "req" => Self::Request,
            "bereq" => Self::Fetch,
            _ => Self::Unknown,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Session => "sess",
            Self::Request => "req",
            Self::Fetch => "bereq",
            Self::Unknown | Self::Raw => "unknown",
        }
    }

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Unknown => "<< Unknown  >>",
            Self::Session => "<< Session  >>",
            Self::Request => "<< Request  >>",
            Self::Fetch => "<< BeReq    >>",
            Self::Raw => "<< Record   >>",
        }
    }
}

/// A transaction of a group.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// How deep it is: 1 for the group's first, 0 for a record on its own.
    pub(crate) level: u32,
    pub(crate) vxid: u32,
    pub(crate) kind: Kind,
    pub(crate) is_esi: bool,
    pub(crate) records: Vec<Record>,
}

/// Transactions that belong together, those that gave rise to others first.
pub(crate) type Group = Vec<Transaction>;

/// A group as queries see it.
pub(crate) fn entries(group: &[Transaction]) -> Vec<Entry<'_>> {
    let of = |transaction: &'_ Transaction| (transaction.level, u64::from(transaction.vxid));
    group
        .iter()
        .flat_map(|transaction| {
            let (level, number) = of(transaction);
            transaction.records.iter().map(move |record| Entry {
                level,
                transaction: number,
                tag: u16::from(record.tag),
                text: &record.text,
            })
        })
        .collect()
}

/// A transaction that is not complete, or waits for others.
#[derive(Debug)]
struct Pending {
    kind: Kind,
    reason: String,
    parent: Option<u32>,
    children: Vec<u32>,
    records: Vec<Record>,
    has_begun: bool,
    has_ended: bool,
    since: Instant,
}

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Transactions at once.
    pub(crate) transactions_max: usize,
    /// How long one may take.
    pub(crate) timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { transactions_max: 1000, timeout: Duration::from_secs(120) }
    }
}

/// Makes groups of records.
#[derive(Debug)]
pub(crate) struct Grouper {
    grouping: Grouping,
    limits: Limits,
    pending: HashMap<u32, Pending>,
    /// Numbers by age; some are complete already.
    by_age: VecDeque<u32>,
}

impl Grouper {
    pub(crate) fn new(grouping: Grouping, limits: Limits) -> Self {
        Self { grouping, limits, pending: HashMap::new(), by_age: VecDeque::new() }
    }

    /// Takes a record, and gives the groups that are complete now.
    pub(crate) fn push(&mut self, record: Record, now: Instant) -> Vec<Group> {
        if self.grouping == Grouping::Raw {
            let (vxid, records) = (record.vxid, vec![record]);
            return vec![vec![Transaction { level: 0, vxid, kind: Kind::Raw, is_esi: false, records }]];
        }
        if record.vxid == 0 {
            return Vec::new();
        }
        let vxid = record.vxid;
        let tag = record.known_tag();
        let text = String::from_utf8_lossy(&record.text).into_owned();
        let pending = self.entry(vxid, now);
        if pending.has_ended {
            return Vec::new();
        }
        if pending.records.len() < RECORDS_MAX {
            pending.records.push(record);
        }
        match tag {
            Some(VslTag::Begin) if !pending.has_begun => self.begin(vxid, &text, now),
            Some(VslTag::Link) => self.link(vxid, &text, now),
            Some(VslTag::End) => {
                pending.has_ended = true;
                return self.complete(vxid).into_iter().collect();
            }
            _ => {}
        }
        self.expire(now)
    }

    fn entry(&mut self, vxid: u32, now: Instant) -> &mut Pending {
        self.pending.entry(vxid).or_insert_with(|| {
            self.by_age.push_back(vxid);
            Pending {
                kind: Kind::Unknown,
                reason: String::new(),
                parent: None,
                children: Vec::new(),
                records: Vec::new(),
                has_begun: false,
                has_ended: false,
                since: now,
            }
        })
    }

    fn begin(&mut self, vxid: u32, text: &str, now: Instant) {
        let Some((kind, parent, reason)) = parse_link(text) else { return };
        let grouping = self.grouping;
        let pending = self.entry(vxid, now);
        pending.has_begun = true;
        pending.kind = kind;
        pending.reason = reason.to_owned();
        let is_first = match grouping {
            Grouping::Session => false,
            Grouping::Request => kind == Kind::Request && reason == "rxreq",
            Grouping::Vxid | Grouping::Raw => true,
        };
        if parent != 0 && !is_first && pending.parent.is_none() {
            self.set_parent(parent, vxid, now);
        }
    }

    fn link(&mut self, vxid: u32, text: &str, now: Instant) {
        let Some((kind, child, reason)) = parse_link(text) else { return };
        let own = self.pending.get(&vxid).map_or(Kind::Unknown, |pending| pending.kind);
        let is_ignored = self.grouping == Grouping::Vxid || self.grouping == Grouping::Request && own == Kind::Session;
        if child == 0 || is_ignored {
            return;
        }
        let pending = self.entry(child, now);
        if pending.parent.is_none() && !pending.has_ended {
            (pending.kind, pending.reason) = (kind, reason.to_owned());
            self.set_parent(vxid, child, now);
        }
    }

    fn set_parent(&mut self, parent: u32, child: u32, now: Instant) {
        // Nobody is its own forefather, whatever the records say.
        let mut above = Some(parent);
        while let Some(number) = above {
            if number == child {
                return;
            }
            above = self.pending.get(&number).and_then(|pending| pending.parent);
        }
        let forefather = self.entry(parent, now);
        if forefather.has_ended {
            return;
        }
        forefather.children.push(child);
        self.entry(child, now).parent = Some(parent);
    }

    /// The group that `vxid` belongs to, if all of it has ended.
    fn complete(&mut self, vxid: u32) -> Option<Group> {
        let mut root = vxid;
        while let Some(parent) = self.pending.get(&root).and_then(|pending| pending.parent) {
            root = parent;
        }
        let mut all = vec![root];
        let mut at = 0;
        while let Some(number) = all.get(at) {
            let pending = self.pending.get(number)?;
            if !pending.has_ended {
                return None;
            }
            all.extend(pending.children.iter().copied());
            at += 1;
        }
        self.take(root)
    }

    /// Takes the group with that first transaction, whether it has ended or not.
    fn take(&mut self, root: u32) -> Option<Group> {
        let mut group = Vec::new();
        let mut numbers = VecDeque::from([(root, 1)]);
        while let Some((vxid, level)) = numbers.pop_front() {
            let Some(pending) = self.pending.remove(&vxid) else { continue };
            for child in &pending.children {
                // A restart is the same request once more.
                let is_restart = self.pending.get(child).is_some_and(|child| child.reason == "restart");
                numbers.push_back((*child, if is_restart { level } else { level + 1 }));
            }
            let is_esi = pending.reason == "esi";
            group.push(Transaction { level, vxid, kind: pending.kind, is_esi, records: pending.records });
        }
        while self.by_age.front().is_some_and(|oldest| !self.pending.contains_key(oldest)) {
            self.by_age.pop_front();
        }
        let kind = group.first()?.kind;
        let is_wanted = match self.grouping {
            Grouping::Session => kind == Kind::Session,
            Grouping::Request => kind == Kind::Request,
            Grouping::Vxid | Grouping::Raw => true,
        };
        is_wanted.then_some(group)
    }

    /// Groups that have taken too long, or for which there is no room.
    fn expire(&mut self, now: Instant) -> Vec<Group> {
        let mut groups = Vec::new();
        while let Some(oldest) = self.by_age.front().copied() {
            let Some(pending) = self.pending.get(&oldest) else {
                self.by_age.pop_front();
                continue;
            };
            let reason = if now.saturating_duration_since(pending.since) > self.limits.timeout {
                "timeout"
            } else if self.pending.len() > self.limits.transactions_max {
                "store overflow"
            } else {
                break;
            };
            groups.extend(self.force(oldest, reason));
        }
        groups
    }

    /// Takes the group of a transaction, and has those that did not end say why they do now.
    fn force(&mut self, vxid: u32, reason: &str) -> Option<Group> {
        let mut root = vxid;
        while let Some(parent) = self.pending.get(&root).and_then(|pending| pending.parent) {
            root = parent;
        }
        let mut numbers = vec![root];
        while let Some(number) = numbers.pop() {
            let Some(pending) = self.pending.get_mut(&number) else { continue };
            numbers.extend(pending.children.iter().copied());
            let like = pending.records.first().cloned();
            let record = |tag: VslTag, text: String| Record {
                tag: tag.number(),
                vxid: number,
                is_client: like.as_ref().is_some_and(|record| record.is_client),
                is_backend: like.as_ref().is_some_and(|record| record.is_backend),
                text: text.into_bytes(),
            };
            if pending.has_ended {
                continue;
            }
            if !pending.has_begun {
                pending.records.push(record(VslTag::Begin, format!("{} 0 synth", pending.kind.word())));
            }
            pending.records.push(record(VslTag::VSL, reason.to_owned()));
            pending.records.push(record(VslTag::End, "synth".to_owned()));
            pending.has_ended = true;
        }
        self.take(root)
    }

    /// All groups that are there, complete or not.
    pub(crate) fn flush(&mut self, reason: &str) -> Vec<Group> {
        let mut groups = Vec::new();
        while let Some(oldest) = self.by_age.pop_front() {
            if self.pending.contains_key(&oldest) {
                groups.extend(self.force(oldest, reason));
            }
        }
        groups
    }
}

/// `req 32770 rxreq`.
fn parse_link(text: &str) -> Option<(Kind, u32, &str)> {
    let mut words = text.split_ascii_whitespace();
    Some((Kind::named(words.next()?), words.next()?.parse().ok()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn record(tag: VslTag, vxid: u32, text: &str) -> Record {
        Record { tag: tag.number(), vxid, is_client: true, is_backend: false, text: text.as_bytes().to_vec() }
    }

    fn groups(grouping: Grouping, records: &[(VslTag, u32, &str)]) -> Vec<Vec<(u32, u32)>> {
        let mut grouper = Grouper::new(grouping, Limits::default());
        let now = Instant::now();
        let pushed = records.iter().flat_map(|(tag, vxid, text)| grouper.push(record(*tag, *vxid, text), now));
        let shape = |group: Group| group.iter().map(|transaction| (transaction.level, transaction.vxid)).collect();
        pushed.map(shape).collect()
    }

    #[test]
    fn groups_are_those_of_varnish() {
        use VslTag::{Begin, End, Link, ReqURL, VSL};
        let records = [
            (Begin, 1, "sess 0 HTTP/1"),
            (Link, 1, "req 2 rxreq"),
            (Begin, 3, "bereq 2 fetch"),
            (End, 3, ""),
            (Begin, 2, "req 1 rxreq"),
            (ReqURL, 2, "/"),
            (Link, 2, "bereq 3 fetch"),
            (Link, 2, "req 4 restart"),
            (End, 2, ""),
            (Begin, 4, "req 2 restart"),
            (VSL, 0, "of nobody"),
            (End, 4, ""),
            (End, 1, ""),
        ];
        assert_eq!(groups(Grouping::Vxid, &records), [[(1, 3)], [(1, 2)], [(1, 4)], [(1, 1)]]);
        assert_eq!(groups(Grouping::Request, &records), [[(1, 2), (2, 3), (1, 4)]]);
        assert_eq!(groups(Grouping::Session, &records), [[(1, 1), (2, 2), (3, 3), (2, 4)]]);
        assert_eq!(groups(Grouping::Raw, &records).len(), records.len());
    }

    #[test]
    fn what_takes_too_long_is_shown_as_it_is() {
        let mut grouper = Grouper::new(Grouping::Vxid, Limits { transactions_max: 2, timeout: Duration::from_secs(1) });
        let start = Instant::now();
        assert!(grouper.push(record(VslTag::Begin, 1, "sess 0 HTTP/1"), start).is_empty());
        let late = grouper.push(record(VslTag::ReqURL, 2, "/"), start + Duration::from_secs(2));
        let tags: Vec<u8> = late[0][0].records.iter().map(|record| record.tag).collect();
        assert_eq!(tags, [VslTag::Begin, VslTag::VSL, VslTag::End].map(VslTag::number));
        let now = start + Duration::from_secs(2);
        assert!(grouper.push(record(VslTag::ReqURL, 3, "/"), now).is_empty());
        assert_eq!(grouper.push(record(VslTag::ReqURL, 4, "/"), now)[0][0].vxid, 2);
        assert_eq!(grouper.flush("flush").len(), 2);
    }

    proptest! {
        /// Any records come out again once at most, and nothing is left.
        #[test]
        fn any_records_are_survived(records in vec((0_usize..4, 0_u32..6, 0_u32..6, 0_usize..4), 0..60), grouping in 0_usize..3) {
            let kinds = ["sess", "req", "bereq", "x"];
            let grouping = [Grouping::Session, Grouping::Request, Grouping::Vxid][grouping];
            let mut grouper = Grouper::new(grouping, Limits { transactions_max: 4, ..Limits::default() });
            let now = Instant::now();
            let mut count = 0;
            for (tag, vxid, other, kind) in &records {
                let tag = [VslTag::Begin, VslTag::Link, VslTag::End, VslTag::ReqURL][*tag];
                let text = format!("{} {other} {}", kinds[*kind], ["rxreq", "fetch", "restart", "esi"][*kind]);
                for group in grouper.push(record(tag, *vxid, &text), now) {
                    count += group.iter().flat_map(|transaction| &transaction.records).filter(|record| record.text != b"synth").count();
                }
            }
            grouper.flush("flush");
            prop_assert!(grouper.pending.is_empty() && grouper.by_age.is_empty());
            prop_assert!(count <= 3 * records.len() + 60);
        }
    }
}
