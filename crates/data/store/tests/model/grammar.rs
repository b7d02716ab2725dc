//! Commands at random, by templates.
//!
//! ```text
//! [a|b c|]   one of these, maybe nothing        {...}   one to four times
//! $s $l $h $e $z $g $p $x   a key that holds a string, list, hash, set, sorted set, places, HyperLogLog, stream
//! $y   a key that holds a sorted set of one score: of others, ranges of names are not defined
//! $a   any key
//! @v value   @m element   @i integer   @f float   @n index   @c small count   @o offset   @d database
//! @N the next id of a stream   @I an id that may be there   @S bound of scores   @L bound of names   @G longitude latitude
//! ```

use super::random::Random;

/// How replies are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// They are the same.
    Exact,
    /// They have the same elements, in any order.
    Unordered,
    /// They are integers that differ by some seconds or milliseconds at most.
    Near,
    /// Both are errors, or none.
    Kind,
}

/// How many keys of a kind share a slot.
const SHARING_MAX: usize = 50;

use Compare::{Exact, Kind, Near, Unordered};

/// How often it comes, how its replies are compared, what it is.
type Template = (usize, Compare, &'static str);

pub const TEMPLATES: &[Template] = &[
    // Strings.
    (8, Exact, "SET $s @v[||||| EX 1000| PX 1000000| KEEPTTL| NX| XX| GET| EXAT 99999999999| XX GET]"),
    (2, Exact, "SET $a @v"),
    (2, Exact, "GET $s"),
    (1, Exact, "GETDEL $s"),
    (1, Exact, "GETEX $s[| EX 1000| PERSIST| PXAT 1]"),
    (1, Exact, "GETSET $s @v"),
    (2, Exact, "APPEND $s @v"),
    (2, Exact, "[INCR|DECR] $s"),
    (2, Exact, "[INCRBY|DECRBY] $s @i"),
    (1, Exact, "INCRBYFLOAT $s @f"),
    (1, Exact, "[MSET|MSETNX] {$s @v}"),
    (1, Exact, "MGET {$a}"),
    (1, Exact, "SETNX $s @v"),
    (1, Exact, "[SETEX $s 100000|PSETEX $s 100000000] @v"),
    (2, Exact, "SETRANGE $s @o @v"),
    (1, Exact, "[GETRANGE|SUBSTR] $s @n @n"),
    (1, Exact, "STRLEN $s"),
    (1, Exact, "LCS $s $s[| LEN| IDX| IDX MINMATCHLEN 2 WITHMATCHLEN]"),
    (2, Exact, "SETBIT $s @o [0|1]"),
    (1, Exact, "GETBIT $s @o"),
    (1, Exact, "BITCOUNT $s[| @n @n| @n @n BIT| @n @n BYTE]"),
    (1, Exact, "BITPOS $s [0|1][| @n| @n @n| @n @n BIT]"),
    (1, Exact, "BITOP [AND|OR|XOR] $s {$s}"),
    (1, Exact, "BITOP NOT $s $s"),
    (2, Exact, "BITFIELD $s {[OVERFLOW [WRAP|SAT|FAIL] |][SET|INCRBY] [u4|i8|u17|i33|i64|u63] [#1|@o] @i}"),
    (1, Exact, "BITFIELD_RO $s {GET [u4|i8|i64] [#0|@o]}"),
    // Lists.
    (6, Exact, "[LPUSH|RPUSH] $l {@m}"),
    (1, Exact, "[LPUSHX|RPUSHX] $l {@m}"),
    (3, Exact, "[LPOP|RPOP] $l[|| @c]"),
    (2, Exact, "LRANGE $l @n @n"),
    (1, Exact, "LINDEX $l @n"),
    (2, Exact, "LSET $l @n @m"),
    (2, Exact, "LINSERT $l [BEFORE|AFTER] @m @m"),
    (2, Exact, "LREM $l [0|1|-1|2|-3] @m"),
    (2, Exact, "LTRIM $l @n @n"),
    (2, Exact, "LMOVE $l $l [LEFT|RIGHT] [LEFT|RIGHT]"),
    (1, Exact, "RPOPLPUSH $l $l"),
    (1, Exact, "LPOS $l @m[| RANK -1| COUNT 0| RANK 2 COUNT 2| MAXLEN 5]"),
    (1, Exact, "LMPOP 2 $l $l [LEFT|RIGHT][| COUNT @c]"),
    (1, Exact, "[BLPOP|BRPOP] $l $l 0.005"),
    (1, Exact, "BLMOVE $l $l [LEFT|RIGHT] [LEFT|RIGHT] 0.005"),
    (1, Exact, "BLMPOP 0.005 2 $l $l [LEFT|RIGHT] COUNT @c"),
    (1, Exact, "LLEN $l"),
    // Hashes.
    (6, Exact, "[HSET|HMSET] $h {@m @v}"),
    (2, Exact, "HDEL $h {@m}"),
    (1, Exact, "[HGET|HEXISTS|HSTRLEN] $h @m"),
    (1, Exact, "HMGET $h {@m}"),
    (1, Unordered, "[HGETALL|HKEYS|HVALS] $h"),
    (1, Exact, "HLEN $h"),
    (2, Exact, "HINCRBY $h @m @i"),
    (1, Exact, "HINCRBYFLOAT $h @m @f"),
    (1, Exact, "HSETNX $h @m @v"),
    (1, Kind, "HRANDFIELD $h[| @c| -3 WITHVALUES]"),
    // Sets.
    (6, Exact, "SADD $e {@m}"),
    (2, Exact, "SREM $e {@m}"),
    (1, Unordered, "SMEMBERS $e"),
    (1, Exact, "SCARD $e"),
    (1, Exact, "[SISMEMBER $e @m|SMISMEMBER $e {@m}]"),
    (1, Exact, "SMOVE $e $e @m"),
    (1, Unordered, "[SINTER|SUNION|SDIFF] {$e}"),
    (2, Exact, "[SINTERSTORE|SUNIONSTORE|SDIFFSTORE] $e {$e}"),
    (1, Exact, "SINTERCARD 2 $e $e[| LIMIT 3]"),
    (1, Kind, "SRANDMEMBER $e[| @c| -3]"),
    // Sorted sets.
    (6, Exact, "ZADD $z[|||| NX| XX| GT| LT| CH| XX GT CH] {@f @m}"),
    (2, Exact, "ZADD $y {0 @m}"),
    (1, Exact, "ZADD $z[| NX| XX| GT] INCR @f @m"),
    (1, Exact, "ZINCRBY $z @f @m"),
    (2, Exact, "ZREM $z {@m}"),
    (2, Exact, "ZRANGE $z @n @n[| REV][| WITHSCORES]"),
    (1, Exact, "ZRANGE $z @S @S BYSCORE[| LIMIT 1 3][| WITHSCORES]"),
    (1, Exact, "ZRANGE $y @L @L BYLEX"),
    (1, Exact, "ZREVRANGE $z @n @n"),
    (1, Exact, "[ZRANGEBYSCORE|ZREVRANGEBYSCORE] $z @S @S[| WITHSCORES| LIMIT 1 2]"),
    (1, Exact, "[ZRANGEBYLEX|ZREVRANGEBYLEX] $y @L @L[| LIMIT 1 2]"),
    (2, Exact, "ZRANGESTORE $z $z [@n @n|@S @S BYSCORE|@n @n REV]"),
    (1, Exact, "[ZRANK|ZREVRANK|ZSCORE] $z @m"),
    (1, Exact, "ZMSCORE $z {@m}"),
    (1, Exact, "ZCARD $z"),
    (1, Exact, "[ZCOUNT $z @S @S|ZLEXCOUNT $y @L @L]"),
    (1, Exact, "[ZREMRANGEBYSCORE $z @S @S|ZREMRANGEBYRANK $z @n @n|ZREMRANGEBYLEX $y @L @L]"),
    (1, Exact, "[ZUNION|ZINTER] 2 $z [$z|$e][| WEIGHTS 2 0.5][| AGGREGATE [MIN|MAX|SUM]][| WITHSCORES]"),
    (2, Exact, "[ZUNIONSTORE|ZINTERSTORE] $z 2 $z [$z|$e][| WEIGHTS 2 -1][| AGGREGATE [MIN|MAX|SUM]]"),
    (1, Exact, "ZDIFFSTORE $z 2 $z $z"),
    (1, Exact, "ZINTERCARD 2 $z $z[| LIMIT 2]"),
    (2, Exact, "[ZPOPMIN|ZPOPMAX] $z[| @c]"),
    (1, Exact, "[BZPOPMIN|BZPOPMAX] $z $z 0.005"),
    (1, Exact, "ZMPOP 2 $z $z [MIN|MAX] COUNT @c"),
    // Places.
    (3, Exact, "GEOADD $g[| NX| XX CH] {@G @m}"),
    (1, Exact, "GEODIST $g @m @m[| km| mi]"),
    (1, Exact, "[GEOPOS|GEOHASH] $g {@m}"),
    (1, Unordered, "GEOSEARCH $g FROMLONLAT @G BYRADIUS 3000 km"),
    (1, Exact, "GEOSEARCH $g FROMLONLAT @G BYBOX 4000 4000 km ASC WITHCOORD WITHDIST WITHHASH"),
    (1, Exact, "GEOSEARCHSTORE $g $g FROMLONLAT @G BYRADIUS 5000 km ASC[| COUNT 2| STOREDIST]"),
    // HyperLogLogs.
    (3, Exact, "PFADD $p {@m}"),
    (1, Exact, "PFCOUNT {$p}"),
    (1, Exact, "PFMERGE $p {$p}"),
    // Streams.
    (6, Exact, "XADD $x[|| NOMKSTREAM| MAXLEN 20| MAXLEN ~ 20| MINID @I] @N {@m @v}"),
    (1, Exact, "XLEN $x"),
    (1, Exact, "[XRANGE $x - +|XREVRANGE $x + -|XRANGE $x @I +|XRANGE $x @I @I COUNT 3]"),
    (1, Exact, "XDEL $x {@I}"),
    (1, Exact, "XTRIM $x [MAXLEN @c|MINID @I|MAXLEN ~ 10]"),
    (1, Exact, "XREAD COUNT 3 STREAMS $x $x @I @I"),
    (2, Exact, "XGROUP CREATE $x [g1|g2] [0|$|@I][| MKSTREAM]"),
    (
        1,
        Exact,
        "XGROUP [DESTROY $x [g1|g2]|SETID $x g1 @I|CREATECONSUMER $x [g1|g2] [c1|c2]|DELCONSUMER $x g1 [c1|c2]]",
    ),
    (4, Exact, "XREADGROUP GROUP [g1|g2] [c1|c2][| COUNT 2][| NOACK] STREAMS $x [>|>|>|0]"),
    (2, Exact, "XACK $x [g1|g2] {@I}"),
    (1, Exact, "XPENDING $x [g1|g2]"),
    (1, Exact, "XCLAIM $x [g1|g2] [c1|c2] 0 {@I}[| JUSTID| FORCE]"),
    (1, Exact, "XAUTOCLAIM $x [g1|g2] [c1|c2] 0 @I[| COUNT 2][| JUSTID]"),
    (1, Exact, "XSETID $x @N"),
    // Keys.
    (3, Exact, "[DEL|UNLINK] {$a}"),
    (1, Exact, "[EXISTS|TOUCH] {$a}"),
    (1, Exact, "TYPE $a"),
    (3, Exact, "[EXPIRE $a 1000|PEXPIRE $a 1000000|EXPIREAT $a 99999999999][| NX| XX| GT| LT]"),
    (1, Exact, "[EXPIRE $a -1|PEXPIREAT $a 1]"),
    (1, Exact, "PERSIST $a"),
    (1, Near, "[TTL|PTTL|EXPIRETIME|PEXPIRETIME] $a"),
    (2, Exact, "[RENAME|RENAMENX] $a $a"),
    (2, Exact, "COPY $a $a[| REPLACE][| DB @d]"),
    (1, Exact, "[RENAME|COPY|RENAMENX] $y $y"),
    (1, Exact, "[DEL $y|MOVE $y @d|EXPIRE $y -1]"),
    (1, Exact, "MOVE $a @d"),
    (1, Unordered, "KEYS [*|s*|?1]"),
    (1, Exact, "DBSIZE"),
    (1, Exact, "SORT $l ALPHA[| DESC][| LIMIT 1 3][| STORE $l]"),
    (1, Exact, "SORT $e ALPHA GET # GET s*[| STORE $l]"),
    // Scripts.
    (2, Exact, "EVAL return{redis.call('INCR',KEYS[1]),redis.call('RPUSH',KEYS[2],ARGV[1])} 2 $s $l @v"),
    (
        1,
        Exact,
        "EVAL redis.call('DEL',KEYS[1]);redis.call('HSET',KEYS[1],ARGV[1],ARGV[2]);return{redis.call('TYPE',KEYS[1])['ok'],#KEYS} 1 $a @m @v",
    ),
    (
        1,
        Exact,
        "EVAL return{redis.pcall('ZADD',KEYS[1],ARGV[1],ARGV[2]),redis.call('SET',KEYS[2],ARGV[2],'PX',1000000)} 2 $z $s @i @m",
    ),
];

/// Makes commands.
#[derive(Debug)]
pub struct Generator {
    pub random: Random,
    /// The next id of a stream.
    next_id: u64,
    weights: usize,
    /// How many keys of each kind there are.
    keys: usize,
}

impl Generator {
    /// One whose keys are so few that commands meet the same ones again and again.
    pub fn new(seed: u64) -> Self {
        Self::of_keys(seed, 6)
    }

    /// One with so many keys of each kind, and as many that share slots.
    pub fn of_keys(seed: u64, keys: usize) -> Self {
        let weights = TEMPLATES.iter().map(|template| template.0).sum();
        Self { random: Random(seed), next_id: 1, weights, keys }
    }

    /// A command, and how its replies are compared.
    pub fn command(&mut self) -> (Compare, Vec<Vec<u8>>) {
        let mut left = self.random.below(self.weights);
        for (weight, compare, template) in TEMPLATES {
            if left < *weight {
                let mut out = Out::default();
                self.expand(template.as_bytes(), &mut out);
                return (*compare, out.finish());
            }
            left -= weight;
        }
        unreachable!("the weights are those of the table")
    }

    fn expand(&mut self, mut template: &[u8], out: &mut Out) {
        while let Some((first, rest)) = template.split_first() {
            template = rest;
            match first {
                b'[' if !is_script(out) => {
                    let (inner, after) = bracketed(rest, b'[', b']');
                    let choices = alternatives(inner);
                    let choice = *self.random.pick(&choices);
                    self.expand(choice, out);
                    template = after;
                }
                b'{' if !is_script(out) => {
                    let (inner, after) = bracketed(rest, b'{', b'}');
                    let times = if self.random.one_in(12) { 20 } else { 1 + self.random.below(4) };
                    for _ in 0..times {
                        self.expand(inner, out);
                        out.end_word();
                    }
                    template = after;
                }
                b'$' | b'@' if rest.first().is_some_and(u8::is_ascii_alphabetic) => {
                    let word = if *first == b'$' { self.key(rest[0]) } else { self.word(rest[0]) };
                    // A place is two words.
                    for (index, part) in word.into_iter().enumerate() {
                        if index > 0 {
                            out.end_word();
                        }
                        out.push(&part);
                    }
                    template = &rest[1..];
                }
                b' ' => out.end_word(),
                byte => out.push(&[*byte]),
            }
        }
    }

    fn key(&mut self, kind: u8) -> Vec<Vec<u8>> {
        const KINDS: &[u8] = b"slhezgpx";
        // Now and then the wrong one.
        let kind = if kind == b'a' || kind != b'y' && self.random.one_in(40) { *self.random.pick(KINDS) } else { kind };
        let number = self.random.below(self.keys);
        // Those of a tag are in one slot, where one that goes has others take its place.
        let tag = if self.random.one_in(3) { format!("{{t{}}}", number / SHARING_MAX) } else { String::new() };
        let mut key = format!("{}{tag}{number}", char::from(kind)).into_bytes();
        if self.random.one_in(60) {
            key.resize(9000, b'k');
        }
        vec![key]
    }

    fn word(&mut self, kind: u8) -> Vec<Vec<u8>> {
        let random = &mut self.random;
        let text = match kind {
            b'v' => return vec![self.value()],
            b'm' => match random.below(40) {
                0 => "m".repeat(70),
                1 => "m".repeat(300),
                2 => String::new(),
                3..12 => random.below(60).to_string(),
                12 => "12345678901".into(),
                13 => format!("field-{}", random.below(2000)),
                _ => format!("m{}", random.below(30)),
            },
            b'i' => {
                (*random.pick(&["0", "1", "-1", "7", "100", "-3000", "4294967296", "9223372036854775807", "x"])).into()
            }
            b'f' => {
                const SOME: &[&str] = &[
                    "0",
                    "1",
                    "-1",
                    "1.5",
                    "3",
                    "3.0",
                    "-0.25",
                    "1e10",
                    "17179869184",
                    "0.1",
                    "inf",
                    "-inf",
                    "2",
                    "5",
                ];
                if random.one_in(3) {
                    (random.below(100) as f64 / 8.0).to_string()
                } else {
                    (*random.pick(SOME)).into()
                }
            }
            b'n' => (random.below(24) as i64 - 12).to_string(),
            b'c' => (*random.pick(&["0", "1", "2", "3", "5", "100"])).into(),
            b'o' => random.below(if random.clone().one_in(20) { 100_000 } else { 100 }).to_string(),
            b'd' => random.below(3).to_string(),
            b'N' => {
                self.next_id += 1;
                if random.one_in(20) { "1-1".into() } else { format!("{}-{}", self.next_id, random.below(2)) }
            }
            b'I' => {
                let back = random.below(60) as u64;
                if random.one_in(10) {
                    "0".into()
                } else {
                    format!("{}-{}", self.next_id.saturating_sub(back), random.below(2))
                }
            }
            b'S' => (*random.pick(&["-inf", "+inf", "0", "(1", "1.5", "5", "(3", "10"])).into(),
            b'L' => (*random.pick(&["-", "+", "[m1", "(m2", "[m3", "[a"])).into(),
            b'G' => {
                let place = [random.below(360) as i64 - 180, random.below(170) as i64 - 85];
                return place.iter().map(|degrees| format!("{}", *degrees as f64 / 1.25).into_bytes()).collect();
            }
            other => unreachable!("there is no @{}", char::from(other)),
        };
        vec![text.into_bytes()]
    }

    fn value(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        match random.below(40) {
            0 => Vec::new(),
            1..8 => (random.below(2000) as i64 - 500).to_string().into_bytes(),
            8 => b"3.25".to_vec(),
            9 => vec![0, 255, b'\r', b'\n', b'"'],
            10 | 11 => vec![b'a' + random.below(20) as u8; 45 + random.below(40)],
            12 => vec![b'b'; 5_000],
            13 => (0..20_000u32).flat_map(u32::to_le_bytes).collect(),
            _ => format!("value-{}", random.below(1000)).into_bytes(),
        }
    }
}

/// What a script says is no template.
fn is_script(out: &Out) -> bool {
    out.words.len() == 1 && out.words[0] == b"EVAL"
}

/// What is within brackets, and what follows.
fn bracketed(text: &[u8], open: u8, close: u8) -> (&[u8], &[u8]) {
    let mut depth = 1;
    for (index, byte) in text.iter().enumerate() {
        depth += i32::from(*byte == open) - i32::from(*byte == close);
        if depth == 0 {
            return (&text[..index], &text[index + 1..]);
        }
    }
    unreachable!("a bracket is open in {}", text.escape_ascii())
}

fn alternatives(text: &[u8]) -> Vec<&[u8]> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b'|' if depth == 0 => {
                found.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

#[derive(Debug, Default)]
struct Out {
    words: Vec<Vec<u8>>,
    word: Option<Vec<u8>>,
}

impl Out {
    fn push(&mut self, bytes: &[u8]) {
        self.word.get_or_insert_default().extend_from_slice(bytes);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        self.end_word();
        self.words
    }
}
