//! Members within a shape.

use std::{borrow::Cow, cmp::Ordering, collections::VecDeque};

use keyspace::{
    Failure, Value, number,
    value::{
        Kind as _, SortedSet,
        sorted_set::{Building, Member, OrderBound, Ranks},
    },
};
use resp::Reply;

use crate::{
    Context,
    groups::sorted_sets,
    runs::Runs,
    server::{Progress, Work},
    words::Words,
};

use super::{
    area::{Area, Shape},
    cell::Point,
    meters_of, point, write_distance, write_point,
};

/// Which command asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// GEORADIUS
    Radius { may_store: bool },
    /// GEORADIUSBYMEMBER
    Member { may_store: bool },
    /// GEOSEARCH
    Search,
    /// GEOSEARCHSTORE
    SearchStore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    None,
    Ascending,
    Descending,
}

/// What is asked for.
#[derive(Debug)]
struct Query {
    center: Option<Point>,
    shape: Option<Shape>,
    /// The meters of the unit of lengths.
    unit: f64,
    /// `FROMMEMBER`, even of a key that is not there.
    from_member: bool,
    /// `FROMLONLAT`
    from_point: bool,
    sort: Sort,
    /// 0: all.
    count: usize,
    /// As many as there are first, not the nearest.
    any: bool,
    with_distance: bool,
    with_hash: bool,
    with_point: bool,
    /// The place of the key to store in among the words.
    store: Option<usize>,
    store_distance: bool,
}

/// A length of some unit, and that unit.
fn length(text: &[u8], message: &'static str) -> Result<f64, Failure> {
    number::parse_float(text).ok_or(Failure::text(message))
}

fn circle(radius: &[u8], unit: &[u8]) -> Result<(Shape, f64), Failure> {
    let radius = length(radius, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Failure::text("ERR radius cannot be negative"));
    }
    let unit = meters_of(unit)?;
    Ok((Shape::Circle { radius: radius * unit }, unit))
}

fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(Shape, f64), Failure> {
    let width = length(width, "ERR need numeric width")?;
    let height = length(height, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Failure::text("ERR height or width cannot be negative"));
    }
    let unit = meters_of(unit)?;
    Ok((Shape::Box { width: width * unit, height: height * unit }, unit))
}

/// The place of a member of a set that is there.
fn place_of(set: &SortedSet, name: &[u8]) -> Result<Point, Failure> {
    let missing = Failure::text("ERR could not decode requested zset member");
    set.score(name).map(Point::of_score).ok_or(missing)
}

fn parse(words: Words<'_>, source: Source, set: Option<&SortedSet>) -> Result<Query, Failure> {
    let mut query = Query {
        center: None,
        shape: None,
        unit: 1.0,
        from_member: false,
        from_point: false,
        sort: Sort::None,
        count: 0,
        any: false,
        with_distance: false,
        with_hash: false,
        with_point: false,
        store: (source == Source::SearchStore).then_some(1),
        store_distance: false,
    };
    let mut at = match source {
        Source::Radius { .. } => {
            query.center = Some(point(words.at(2), words.at(3))?);
            let (shape, unit) = circle(words.at(4), words.at(5))?;
            (query.shape, query.unit) = (Some(shape), unit);
            6
        }
        Source::Member { .. } => {
            if let Some(set) = set {
                query.center = Some(place_of(set, words.at(2))?);
                let (shape, unit) = circle(words.at(3), words.at(4))?;
                (query.shape, query.unit) = (Some(shape), unit);
            }
            5
        }
        Source::Search => 2,
        Source::SearchStore => 3,
    };
    while at < words.len() {
        at += option(&mut query, words, at, source, set)?;
    }
    check(&query, words, source)?;
    Ok(query)
}

/// Takes an option; returns how many words it has.
fn option(
    query: &mut Query,
    words: Words<'_>,
    at: usize,
    source: Source,
    set: Option<&SortedSet>,
) -> Result<usize, Failure> {
    let more = words.len() - 1 - at;
    let searches = matches!(source, Source::Search | Source::SearchStore);
    let may_store = matches!(source, Source::Radius { may_store: true } | Source::Member { may_store: true });
    let (is_circle, is_box) =
        (matches!(query.shape, Some(Shape::Circle { .. })), matches!(query.shape, Some(Shape::Box { .. })));
    if words.is(at, "WITHDIST") {
        query.with_distance = true;
    } else if words.is(at, "WITHHASH") {
        query.with_hash = true;
    } else if words.is(at, "WITHCOORD") {
        query.with_point = true;
    } else if words.is(at, "ANY") {
        query.any = true;
    } else if words.is(at, "ASC") {
        query.sort = Sort::Ascending;
    } else if words.is(at, "DESC") {
        query.sort = Sort::Descending;
    } else if words.is(at, "COUNT") && more >= 1 {
        let count = words.integer(at + 1)?;
        if count <= 0 {
            return Err(Failure::text("ERR COUNT must be > 0"));
        }
        query.count = usize::try_from(count).unwrap_or(usize::MAX);
        return Ok(2);
    } else if may_store && more >= 1 && (words.is(at, "STORE") || words.is(at, "STOREDIST")) {
        query.store = Some(at + 1);
        query.store_distance = words.is(at, "STOREDIST");
        return Ok(2);
    } else if source == Source::SearchStore && words.is(at, "STOREDIST") {
        query.store_distance = true;
    } else if searches && more >= 1 && words.is(at, "FROMMEMBER") && !query.from_point {
        if let Some(set) = set {
            query.center = Some(place_of(set, words.at(at + 1))?);
        }
        query.from_member = true;
        return Ok(2);
    } else if searches && more >= 2 && words.is(at, "FROMLONLAT") && !query.from_member {
        query.center = Some(point(words.at(at + 1), words.at(at + 2))?);
        query.from_point = true;
        return Ok(3);
    } else if searches && more >= 2 && words.is(at, "BYRADIUS") && !is_box {
        let (shape, unit) = circle(words.at(at + 1), words.at(at + 2))?;
        (query.shape, query.unit) = (Some(shape), unit);
        return Ok(3);
    } else if searches && more >= 3 && words.is(at, "BYBOX") && !is_circle {
        let (shape, unit) = rectangle(words.at(at + 1), words.at(at + 2), words.at(at + 3))?;
        (query.shape, query.unit) = (Some(shape), unit);
        return Ok(4);
    } else {
        return Err(Failure::Syntax);
    }
    Ok(1)
}

fn check(query: &Query, words: Words<'_>, source: Source) -> Result<(), Failure> {
    if query.store.is_some() && (query.with_distance || query.with_hash || query.with_point) {
        let what = if source == Source::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
        let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
        return Err(Failure::owned(text));
    }
    if matches!(source, Source::Search | Source::SearchStore) {
        let name: Cow<'_, str> = String::from_utf8_lossy(words.at(0));
        let missing = if !(query.from_member || query.from_point) {
            Some("FROMMEMBER or FROMLONLAT")
        } else if query.shape.is_none() {
            Some("BYRADIUS and BYBOX")
        } else {
            None
        };
        if let Some(options) = missing {
            return Err(Failure::owned(format!("ERR exactly one of {options} can be specified for {name}")));
        }
    }
    if query.any && query.count == 0 {
        return Err(Failure::text("ERR the ANY argument requires COUNT argument"));
    }
    Ok(())
}

/// A member that was found.
#[derive(Debug)]
struct Hit {
    member: Member,
    point: Point,
    /// In meters.
    distance: f64,
}

impl Sort {
    fn compare(self, one: &Hit, other: &Hit) -> Ordering {
        match self {
            Self::None => Ordering::Equal,
            Self::Ascending => one.distance.total_cmp(&other.distance),
            Self::Descending => other.distance.total_cmp(&one.distance),
        }
    }
}

/// Searches, and answers or stores.
pub(super) fn search(context: &mut Context<'_>, source: Source) -> Result<(), Failure> {
    let words = context.words;
    let key_at = if source == Source::SearchStore { 2 } else { 1 };
    let set = context.keys.get::<SortedSet>(words.at(key_at))?;
    let mut query = parse(words, source, set)?;
    if query.sort == Sort::None && query.count > 0 && !query.any {
        query.sort = Sort::Ascending;
    }
    let mut area = None;
    let mut left = VecDeque::new();
    if let (Some(set), Some(center), Some(shape)) = (set, query.center, query.shape) {
        let searched = Area { center, shape };
        let ranks = |(min, max)| set.rank_of(&OrderBound::BeforeScore(min))..set.rank_of(&OrderBound::BeforeScore(max));
        left = searched.cells().into_iter().map(|cell| ranks(cell.scores())).collect();
        area = Some(searched);
    }
    let elements = left.iter().map(ExactSizeIterator::len).sum();
    let searches = matches!(source, Source::Search | Source::SearchStore);
    let event = if searches { "geosearchstore" } else { "georadiusstore" };
    let building = Building::new(context.keys.seed());
    let hits = Runs::default();
    let work = Searching { query, key_at, event, area, left, found: 0, hits, phase: Phase::Find, building };
    context.work_on(elements, work)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Members within the area are found.
    Find,
    /// So many of them have still to be given, or stored.
    Give(usize),
    /// Those that are stored are put in order.
    Order,
    /// What nobody wants is freed.
    Leave,
}

/// A search, as far as it has come.
#[derive(Debug)]
struct Searching {
    query: Query,
    /// The place of the key among the words.
    key_at: usize,
    event: &'static str,
    area: Option<Area>,
    /// The members that have not been looked at.
    left: VecDeque<Ranks>,
    found: usize,
    hits: Runs<Hit>,
    phase: Phase,
    /// What is stored.
    building: Building,
}

impl Searching {
    /// Returns whether all were found.
    fn find(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        let at_most = if self.query.any { self.query.count } else { usize::MAX };
        let (Some(area), Some(ranks)) = (&self.area, self.left.front_mut()) else { return Ok(true) };
        let to = ranks.end.min(ranks.start.saturating_add(budget));
        let mut hits = Vec::new();
        let found = &mut self.found;
        if let Some(set) = context.keys.look::<SortedSet>(context.words.at(self.key_at))? {
            set.each_while(ranks.start..to, |member| {
                let point = Point::of_score(member.score);
                if let Some(distance) = area.distance(point) {
                    hits.push(Hit { member: member.clone(), point, distance });
                    *found += 1;
                }
                *found < at_most
            });
        }
        ranks.start = to;
        if ranks.start >= ranks.end {
            self.left.pop_front();
        }
        let sort = self.query.sort;
        self.hits.add(hits, |one, other| sort.compare(one, other));
        Ok(self.left.is_empty() || self.found >= at_most)
    }

    /// Gives or stores some. Returns how many are left.
    fn give(&mut self, reply: &mut Reply<'_>, count: usize, budget: usize) -> usize {
        let query = &self.query;
        let parts = [query.with_distance, query.with_hash, query.with_point].into_iter().filter(|with| *with).count();
        let mut left = count;
        for _ in 0..budget.min(count) {
            let Some(hit) = self.hits.next(|one, other| query.sort.compare(one, other)) else { return 0 };
            left -= 1;
            if query.store.is_some() {
                let score = if query.store_distance { hit.distance / query.unit } else { hit.member.score };
                self.building.put(&hit.member.name, score, |_, score| score);
                continue;
            }
            if parts > 0 {
                reply.array(parts + 1);
            }
            reply.bulk(&hit.member.name);
            if query.with_distance {
                write_distance(reply, hit.distance / query.unit);
            }
            if query.with_hash {
                reply.integer(hit.member.score as i64);
            }
            if query.with_point {
                write_point(reply, hit.point);
            }
        }
        left
    }
}

impl Work for Searching {
    fn appends(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        match self.phase {
            Phase::Find => {
                if self.find(context, budget)? {
                    let count = if self.query.count > 0 { self.query.count.min(self.found) } else { self.found };
                    if self.query.store.is_none() {
                        context.reply.array(count);
                    }
                    self.phase = Phase::Give(count);
                }
            }
            Phase::Give(count) => {
                self.phase = match (self.give(&mut context.reply, count, budget), self.query.store) {
                    (0, None) => Phase::Leave,
                    (0, Some(_)) => Phase::Order,
                    (left, _) => Phase::Give(left),
                };
            }
            Phase::Order => {
                if self.building.sort(budget) {
                    let building = std::mem::replace(&mut self.building, Building::new(0));
                    let set = building.finish(sorted_sets::limits(context));
                    let target = context.words.at(self.query.store.unwrap_or_default());
                    let count = sorted_sets::store_set(context, target, set, self.event)?;
                    context.reply.count(count);
                    self.phase = Phase::Leave;
                }
            }
            Phase::Leave => {}
        }
        Ok(Progress::over_if(self.phase == Phase::Leave && !self.hits.shed()))
    }

    fn remains(&mut self) -> Vec<Value> {
        vec![std::mem::replace(&mut self.building, Building::new(0)).into_unordered().into_value()]
    }
}
