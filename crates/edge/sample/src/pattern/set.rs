//! The patterns that stand in an ACL, compiled for its matching method.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use memchr::memmem;

use super::index::{Bits, PrefixIndex};
use super::parse::{IntegerRange, Network, integer_range, network};
use super::{DIR_DELIMITERS, DOM_DELIMITERS, MatchMethod};
use crate::number;
use crate::value::Value;
use pcre::Regex;

/// From this many patterns on, look-ups go through an index.
const INDEX_FROM: usize = 5;

/// Keys up to this length are lowered on the stack.
const STACK_KEY_BYTES: usize = 256;

/// A compiled list of patterns, which never changes. [`PatternSet::find`] answers with the number of a pattern that matches:
/// of several, whichever is found most easily.
#[derive(Clone, Debug)]
pub(crate) struct PatternSet {
    ignore_case: bool,
    method: MatchMethod,
    patterns: Patterns,
}

#[derive(Clone, Debug)]
enum Patterns {
    /// One string.
    Word(Box<[u8]>),
    /// Strings compared one by one; lower case if case is ignored.
    Words(Vec<Box<[u8]>>),
    /// Whole strings by hash.
    Hash(HashMap<Box<[u8]>, u32>),
    /// Prefixes.
    Prefixes(PrefixIndex<Box<[u8]>>),
    /// Suffixes, reversed; only where it does not matter which one matches.
    Suffixes(PrefixIndex<Box<[u8]>>),
    /// Substrings with their searchers.
    Substrings(Vec<memmem::Finder<'static>>),
    Integers(Vec<IntegerRange>),
    Networks {
        v4: PrefixIndex<Bits>,
        v6: PrefixIndex<Bits>,
        masked: Vec<(u32, u32, u32)>,
    },
    Expressions(Vec<Regex>),
    /// No pattern matters.
    None,
}

/// What compiling patterns may need.
pub(crate) struct PatternOptions<'a> {
    pub(crate) method: MatchMethod,
    pub(crate) ignore_case: bool,
    pub(crate) resolve: &'a dyn Fn(&str) -> Option<IpAddr>,
}

impl PatternSet {
    /// Compiles `words`.
    ///
    /// # Errors
    /// The number of the pattern at fault and what is wrong with it.
    pub(crate) fn compile(words: &[&[u8]], options: &PatternOptions<'_>) -> Result<Self, (usize, String)> {
        let patterns = match options.method {
            MatchMethod::Found | MatchMethod::Bool => Patterns::None,
            MatchMethod::Int | MatchMethod::Len => Patterns::Integers(each(words, |word| integer_range(word, false))?),
            MatchMethod::Version => Patterns::Integers(each(words, |word| integer_range(word, true))?),
            MatchMethod::Ip => networks(words, options.resolve)?,
            MatchMethod::Bin => strings(each(words, number::parse_hexadecimal)?, options),
            MatchMethod::Reg | MatchMethod::Regm => Patterns::Expressions(each(words, |word| {
                Regex::new(word, options.ignore_case)
                    .map_err(|reason| format!("regex '{}' is invalid (error={reason})", String::from_utf8_lossy(word)))
            })?),
            MatchMethod::Str
            | MatchMethod::Beg
            | MatchMethod::End
            | MatchMethod::Sub
            | MatchMethod::Dir
            | MatchMethod::Dom
            | MatchMethod::Method
            | MatchMethod::Group => strings(words.iter().map(|word| word.to_vec()).collect(), options),
        };
        Ok(PatternSet { ignore_case: options.ignore_case, method: options.method, patterns })
    }

    /// Takes integer patterns that were read already, with their operators.
    pub(crate) fn integers(method: MatchMethod, ranges: Vec<IntegerRange>) -> Self {
        PatternSet { ignore_case: false, method, patterns: Patterns::Integers(ranges) }
    }

    /// The patterns as they are compared, if they are kept as words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        match &self.patterns {
            Patterns::Word(word) => std::slice::from_ref(word),
            Patterns::Words(words) => words.as_slice(),
            _ => &[],
        }
        .iter()
        .map(|word| &**word)
    }

    /// The number of the pattern that `value`, of the type that the method takes, matches.
    pub(crate) fn find(&self, value: &Value<'_>) -> Option<u32> {
        match value {
            Value::Sint(value) => self.find_integer(*value),
            Value::Bool(value) => self.find_integer(i64::from(*value)),
            Value::Ipv4(address) => self.find_address(IpAddr::V4(*address)),
            Value::Ipv6(address) => self.find_address(IpAddr::V6(*address)),
            Value::Str(bytes) | Value::Bin(bytes) | Value::Meth(bytes) => self.find_bytes(bytes),
        }
    }

    /// The number of the pattern that `value` is in.
    pub(crate) fn find_integer(&self, value: i64) -> Option<u32> {
        let Patterns::Integers(ranges) = &self.patterns else { return None };
        (0u32..).zip(ranges).find(|(_, range)| range.contains(value)).map(|(number, _)| number)
    }

    /// The number of the pattern that `bytes` match.
    pub(crate) fn find_bytes(&self, bytes: &[u8]) -> Option<u32> {
        match &self.patterns {
            Patterns::Word(word) => self.word_matches(word, bytes).then_some(0),
            Patterns::Words(words) => {
                (0u32..).zip(words).find(|(_, word)| self.word_matches(word, bytes)).map(|(number, _)| number)
            }
            Patterns::Hash(index) => self.folded(bytes, |key| index.get(key).copied()),
            Patterns::Prefixes(index) => self.folded(bytes, |key| index.find(key)),
            Patterns::Suffixes(index) => {
                let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
                self.folded(&reversed, |key| index.find(key))
            }
            Patterns::Substrings(finders) => self.folded(bytes, |key| {
                (0u32..).zip(finders).find(|(_, finder)| finder.find(key).is_some()).map(|(number, _)| number)
            }),
            Patterns::Integers(_) => self.find_integer(i64::try_from(bytes.len()).unwrap_or(i64::MAX)),
            Patterns::Expressions(expressions) => {
                (0u32..).zip(expressions).find(|(_, regex)| regex.is_match(bytes)).map(|(number, _)| number)
            }
            Patterns::Networks { .. } | Patterns::None => None,
        }
    }

    /// Calls `action` with `bytes`, in lower case if case is ignored.
    fn folded<T>(&self, bytes: &[u8], action: impl FnOnce(&[u8]) -> T) -> T {
        if !self.ignore_case {
            return action(bytes);
        }
        let mut stack = [0u8; STACK_KEY_BYTES];
        match stack.get_mut(..bytes.len()) {
            Some(key) => {
                key.copy_from_slice(bytes);
                key.make_ascii_lowercase();
                action(key)
            }
            None => action(&bytes.to_ascii_lowercase()),
        }
    }

    fn word_matches(&self, word: &[u8], bytes: &[u8]) -> bool {
        let equal = |part: &[u8]| {
            if self.ignore_case {
                part.eq_ignore_ascii_case(word)
            } else {
                // Strings that differ mostly differ in their last byte, even where they start alike.
                part.last() == word.last() && part == word
            }
        };
        match self.method {
            MatchMethod::Beg => bytes.get(..word.len()).is_some_and(equal),
            MatchMethod::End => {
                bytes.len().checked_sub(word.len()).and_then(|start| bytes.get(start..)).is_some_and(equal)
            }
            // Letter case is never ignored in methods that everyone knows.
            MatchMethod::Method => bytes == word || (!is_known_method(bytes) && equal(bytes)),
            MatchMethod::Dir => has_part(bytes, word, DIR_DELIMITERS, self.ignore_case),
            MatchMethod::Dom => has_part(bytes, word, DOM_DELIMITERS, self.ignore_case),
            _ => equal(bytes),
        }
    }

    fn find_address(&self, address: IpAddr) -> Option<u32> {
        let Patterns::Networks { v4, v6, masked } = &self.patterns else { return None };
        let (embedded, whole) = match address {
            IpAddr::V4(address) => (Some(u32::from(address)), u128::from(address.to_ipv6_mapped())),
            IpAddr::V6(address) => (embedded_v4(address), u128::from(address)),
        };
        let as_v4 = || v4.find(Bits::v4(embedded?, 32));
        let as_v6 = || if v6.is_empty() { None } else { v6.find(Bits::v6(whole, 128)) };
        let found = if address.is_ipv4() { as_v4().or_else(as_v6) } else { as_v6().or_else(as_v4) };
        found.or_else(|| {
            let embedded = embedded?;
            masked.iter().find(|(network, mask, _)| embedded & mask == *network).map(|(_, _, number)| *number)
        })
    }
}

pub(super) fn is_known_method(method: &[u8]) -> bool {
    matches!(method, b"OPTIONS" | b"GET" | b"HEAD" | b"POST" | b"PUT" | b"DELETE" | b"TRACE" | b"CONNECT")
}

/// The IPv4 address in an IPv4-mapped, IPv4-compatible or 6to4 address.
pub(super) fn embedded_v4(address: Ipv6Addr) -> Option<u32> {
    let value = u128::from(address);
    let (high, middle) = (value >> 64, (value >> 32) & 0xffff_ffff);
    if high == 0 && (middle == 0 || middle == 0xffff) {
        return u32::try_from(value & 0xffff_ffff).ok();
    }
    if value >> 112 == 0x2002 {
        return u32::try_from((value >> 80) & 0xffff_ffff).ok();
    }
    None
}

fn each<T>(words: &[&[u8]], read: impl Fn(&[u8]) -> Result<T, String>) -> Result<Vec<T>, (usize, String)> {
    words.iter().enumerate().map(|(number, word)| read(word).map_err(|reason| (number, reason))).collect()
}

/// Compiles strings, indexed when there are many.
fn strings(words: Vec<Vec<u8>>, options: &PatternOptions<'_>) -> Patterns {
    let folded = || {
        (0u32..).zip(&words).map(|(number, word)| {
            let word = if options.ignore_case { word.to_ascii_lowercase() } else { word.clone() };
            (word.into_boxed_slice(), number)
        })
    };
    let many = words.len() >= INDEX_FROM;
    match options.method {
        MatchMethod::Str | MatchMethod::Bin if many => {
            let mut index = HashMap::with_capacity(words.len());
            for (word, number) in folded() {
                index.entry(word).or_insert(number);
            }
            Patterns::Hash(index)
        }
        MatchMethod::Beg if many => Patterns::Prefixes(PrefixIndex::new(folded())),
        MatchMethod::End if many => Patterns::Suffixes(PrefixIndex::new(folded().map(|(word, number)| {
            let reversed: Vec<u8> = word.iter().rev().copied().collect();
            (reversed.into_boxed_slice(), number)
        }))),
        MatchMethod::Sub => {
            Patterns::Substrings(folded().map(|(word, _)| memmem::Finder::new(&word).into_owned()).collect())
        }
        MatchMethod::Dir => listed(words.iter().map(|word| Box::from(trim(word, DIR_DELIMITERS))).collect()),
        MatchMethod::Dom => listed(words.iter().map(|word| Box::from(trim(word, DOM_DELIMITERS))).collect()),
        _ => listed(words.into_iter().map(Vec::into_boxed_slice).collect()),
    }
}

fn listed(mut words: Vec<Box<[u8]>>) -> Patterns {
    match words.pop() {
        Some(word) if words.is_empty() => Patterns::Word(word),
        Some(word) => {
            words.push(word);
            Patterns::Words(words)
        }
        None => Patterns::None,
    }
}

fn networks(words: &[&[u8]], resolve: &dyn Fn(&str) -> Option<IpAddr>) -> Result<Patterns, (usize, String)> {
    let read = each(words, |word| network(word, resolve))?;
    let (mut v4, mut v6, mut masked) = (Vec::new(), Vec::new(), Vec::new());
    for (number, network) in (0u32..).zip(read) {
        match network {
            Network::V4 { address, mask } if mask.leading_ones() + mask.trailing_zeros() >= 32 => {
                v4.push((Bits::v4(address, mask.leading_ones()), number));
            }
            // A mask with holes is no prefix.
            Network::V4 { address, mask } => masked.push((address, mask, number)),
            Network::V6 { address, bits } => v6.push((Bits::v6(address, bits), number)),
        }
    }
    Ok(Patterns::Networks { v4: PrefixIndex::new(v4.into_iter()), v6: PrefixIndex::new(v6.into_iter()), masked })
}

/// `word` without delimiters around it.
pub(super) fn trim<'a>(word: &'a [u8], delimiters: &[u8]) -> &'a [u8] {
    let start = word.iter().take_while(|byte| delimiters.contains(byte)).count();
    let word = word.get(start..).unwrap_or_default();
    let end = word.len() - word.iter().rev().take_while(|byte| delimiters.contains(byte)).count();
    word.get(..end).unwrap_or_default()
}

/// Whether `word` stands in `bytes` between delimiters or the ends.
fn has_part(bytes: &[u8], word: &[u8], delimiters: &[u8], ignore_case: bool) -> bool {
    let mut rest = bytes;
    loop {
        let start = rest.iter().take_while(|byte| delimiters.contains(byte)).count();
        rest = rest.get(start..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let Some(tail) = rest.get(word.len()..) else { return false };
        let head = rest.get(..word.len()).unwrap_or_default();
        let equal = if ignore_case { head.eq_ignore_ascii_case(word) } else { head == word };
        // A word without characters is between no delimiters at all.
        if equal && !word.is_empty() && tail.first().is_none_or(|byte| delimiters.contains(byte)) {
            return true;
        }
        let end = rest.iter().take_while(|byte| !delimiters.contains(byte)).count();
        rest = rest.get(end..).unwrap_or_default();
    }
}
