//! Geo: sorted sets whose scores are places.

mod area;
mod cell;
mod search;

#[cfg(test)]
mod tests;

use keyspace::{Failure, number, value::SortedSet};

use crate::{
    Context,
    server::{Command, Wide},
    table::{Access, Begin, Categories, Find, Flags, KeySpec, Replies},
};

use super::sorted_sets::change::{AddOptions, put};
use cell::{ALL_LATITUDES, Cell, LATITUDES, LONGITUDES, Point, STEP_MAX};
use search::Source;

const GROUP: &str = "geo";
const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];

const fn reading(command: Command) -> Command {
    command.flags(Flags::READONLY).keys(READS).group(GROUP, Categories::GEO)
}

const fn stored(keyword: &'static str, from: isize) -> KeySpec {
    KeySpec {
        begin: Begin::Keyword(keyword, from),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        access: Access::OW.union(Access::UPDATE),
    }
}

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("GEOADD", -5, geoadd)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::GEO)
        .docs("3.2.0", "O(log(N)) for each member", "Adds members at longitudes and latitudes.").syntax("key#0 [condition<NX|XX>@6.2.0] [change=CH@6.2.0] longitude_latitude_member{longitude:double latitude:double member}..."),
    reading(Command::new("GEODIST", -4, geodist)).docs("3.2.0", "O(1)", "Returns the distance between two members.").syntax("key#0 member1 member2 [unit<M|KM|FT|MI>]"),
    reading(Command::new("GEOHASH", -2, geohash)).wide(Wide::new(1, Replies::Joined)).docs("3.2.0", "O(1) for each member", "Returns the geohashes of members.").syntax("key#0 member..."),
    reading(Command::new("GEOPOS", -2, geopos)).wide(Wide::new(1, Replies::Joined)).docs(
        "3.2.0",
        "O(1) for each member",
        "Returns the longitudes and latitudes of members.",
    ).syntax("key#0 member..."),
    Command::new("GEORADIUS", -6, |context| search::search(context, Source::Radius { may_store: true }))
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[READ, stored("STORE", 6), stored("STOREDIST", 6)])
        .key_places(|words, places| places_of_radius(words, 5, places))
        .group(GROUP, Categories::GEO)
        .docs("3.2.0", SEARCH, "Returns the members within a distance of a point.").syntax("key#0 longitude:double latitude:double radius:double unit<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count{COUNT/count:integer [ANY@6.2.0]}] [order<ASC|DESC>] [STORE/key#1] [STOREDIST/key#2]"),
    Command::new("GEORADIUSBYMEMBER", -5, |context| search::search(context, Source::Member { may_store: true }))
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[READ, stored("STORE", 5), stored("STOREDIST", 5)])
        .key_places(|words, places| places_of_radius(words, 5, places))
        .group(GROUP, Categories::GEO)
        .docs("3.2.0", SEARCH, "Returns the members within a distance of a member.").syntax("key#0 member radius:double unit<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count{COUNT/count:integer [ANY]}] [order<ASC|DESC>] [STORE/key#1] [STOREDIST/key#2]"),
    reading(Command::new("GEORADIUSBYMEMBER_RO", -5, |context| {
        search::search(context, Source::Member { may_store: false })
    }))
    .docs("3.2.10", SEARCH, "Returns the members within a distance of a member.").syntax("key#0 member radius:double unit<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count{COUNT/count:integer [ANY]}] [order<ASC|DESC>]"),
    reading(Command::new("GEORADIUS_RO", -6, |context| search::search(context, Source::Radius { may_store: false })))
        .docs("3.2.10", SEARCH, "Returns the members within a distance of a point.").syntax("key#0 longitude:double latitude:double radius:double unit<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count{COUNT/count:integer [ANY@6.2.0]}] [order<ASC|DESC>]"),
    reading(Command::new("GEOSEARCH", -7, |context| search::search(context, Source::Search))).docs(
        "6.2.0",
        SEARCH,
        "Returns the members within a circle or a box.",
    ).syntax("key#0 from<FROMMEMBER/member|FROMLONLAT/longitude_latitude{longitude:double latitude:double}> by<circle{BYRADIUS/radius:double unit<M|KM|FT|MI>}|box{BYBOX/width:double height:double unit<M|KM|FT|MI>}> [order<ASC|DESC>] [count{COUNT/count:integer [ANY]}] [WITHCOORD] [WITHDIST] [WITHHASH]"),
    Command::new("GEOSEARCHSTORE", -8, |context| search::search(context, Source::SearchStore))
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::OW.union(Access::UPDATE)), KeySpec::one(2, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::GEO)
        .docs("6.2.0", SEARCH, "Stores the members within a circle or a box in another key.").syntax("destination#0 source#1 from<FROMMEMBER/member|FROMLONLAT/longitude_latitude{longitude:double latitude:double}> by<circle{BYRADIUS/radius:double unit<M|KM|FT|MI>}|box{BYBOX/width:double height:double unit<M|KM|FT|MI>}> [order<ASC|DESC>] [count{COUNT/count:integer [ANY]}] [STOREDIST]"),
];

const READ: KeySpec = KeySpec::one(1, Access::RO.union(Access::ACCESS));
const SEARCH: &str = "O(N+log(M)), N: members in the cells around the shape, M: members";

/// The key that is read, and the last one of those that the result goes to.
fn places_of_radius(words: &[&[u8]], from: usize, places: &mut Vec<usize>) {
    places.push(1);
    let mut stored = None;
    let mut at = from;
    while let Some(word) = words.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if (is("STORE") || is("STOREDIST")) && at + 1 < words.len() {
            at += 1;
            stored = Some(at);
        }
        at += 1;
    }
    places.extend(stored);
}

/// A longitude and a latitude as two words.
fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, Failure> {
    let (longitude, latitude) = (number::float(longitude)?, number::float(latitude)?);
    if !LONGITUDES.contains(longitude) || !LATITUDES.contains(latitude) {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(Failure::owned(text));
    }
    Ok(Point { longitude, latitude })
}

/// How many meters a unit has.
fn meters_of(unit: &[u8]) -> Result<f64, Failure> {
    [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)]
        .into_iter()
        .find(|(name, _)| unit.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, meters)| meters)
        .ok_or(Failure::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// A distance with four digits behind the point.
fn write_distance(reply: &mut resp::Reply<'_>, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    let sign = if scaled < 0 { "-" } else { "" };
    let scaled = scaled.unsigned_abs();
    reply.bulk(format!("{sign}{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// A longitude and a latitude with as many digits as they have.
fn write_point(reply: &mut resp::Reply<'_>, point: Point) {
    reply.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        reply.double_text(if text == "-0" { b"0" } else { text.as_bytes() });
    }
}

fn geoadd(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let mut options = AddOptions::default();
    let mut at = 2;
    loop {
        if words.is(at, "NX") {
            options.only_new = true;
        } else if words.is(at, "XX") {
            options.only_present = true;
        } else if words.is(at, "CH") {
            options.count_changed = true;
        } else {
            break;
        }
        at += 1;
    }
    let triples = words.from(at);
    if triples.is_empty() || !triples.len().is_multiple_of(3) || options.only_new && options.only_present {
        return Err(Failure::Syntax);
    }
    let mut members = Vec::with_capacity(triples.len() / 3);
    for triple in triples.chunks_exact(3) {
        let [longitude, latitude, name] = triple else { continue };
        members.push((point(longitude, latitude)?.score(), *name));
    }
    // Scores are the same everywhere, degrees are rounded: the log has a ZADD, as in Redis.
    let mut log = super::sorted_sets::words(&[b"ZADD"]);
    log.extend(super::sorted_sets::words(words.0.get(1..at).unwrap_or_default()));
    for (score, name) in &members {
        log.extend(super::sorted_sets::words(&[itoa::Buffer::new().format(*score).as_bytes(), name]));
    }
    let members: Vec<(f64, &[u8])> = members.into_iter().map(|(score, name)| (score as f64, name)).collect();
    let outcome = put(context, words.at(1), &members, options, "zadd")?;
    if outcome.added + outcome.changed > 0 {
        context.keys.changes.propagate_instead(vec![log]);
    }
    context.reply.count(outcome.added + if options.count_changed { outcome.changed } else { 0 });
    Ok(())
}

fn geodist(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() > 5 {
        return Err(Failure::Syntax);
    }
    let unit = words.get(4).map_or(Ok(1.0), meters_of)?;
    let set = context.keys.get::<SortedSet>(words.at(1))?;
    let both = set.and_then(|set| Some((set.score(words.at(2))?, set.score(words.at(3))?)));
    match both {
        Some((one, other)) => {
            let distance = Point::of_score(one).distance(Point::of_score(other));
            write_distance(&mut context.reply, distance / unit);
        }
        None => context.reply.null(),
    }
    Ok(())
}

fn geohash(context: &mut Context<'_>) -> Result<(), Failure> {
    const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let names = context.words.from(2);
    let set = context.keys.get::<SortedSet>(context.words.at(1))?;
    context.reply.array(names.len());
    for name in names {
        let Some(score) = set.and_then(|set| set.score(name)) else {
            context.reply.null();
            continue;
        };
        // The grid of geohashes has all latitudes, and its letters five bits; there are two bits less than eleven have.
        let bits = Cell::of(Point::of_score(score), STEP_MAX, ALL_LATITUDES).bits;
        let letter = |index: u32| ALPHABET.get((bits >> (52 - (index + 1) * 5) & 31) as usize).copied().unwrap_or(b'0');
        let mut text: Vec<u8> = (0..10).map(letter).collect();
        text.push(b'0');
        context.reply.bulk(&text);
    }
    Ok(())
}

fn geopos(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    let set = context.keys.get::<SortedSet>(context.words.at(1))?;
    context.reply.array(names.len());
    for name in names {
        match set.and_then(|set| set.score(name)) {
            Some(score) => write_point(&mut context.reply, Point::of_score(score)),
            None => context.reply.null_array(),
        }
    }
    Ok(())
}
