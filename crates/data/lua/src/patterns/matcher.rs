//! Matches patterns as Lua 5.1 has them, one place of a text at a time.
//!
//! What may still be tried stands on a stack of its own and not on the machine's, and each byte that is looked at is counted:
//! a pattern that goes back again and again can be ended, and needs no more memory than it has parts. Errors of a pattern are
//! found when they are reached, as in Lua: a pattern that fails before its error fails.

use std::{cell::Cell, ops::Range};

/// Captures of a pattern at most.
pub const CAPTURES_MAX: usize = 32;
/// Bytes that are looked at between two looks at the clock.
pub const STEPS_MAX: usize = 1 << 20;
/// What may still be tried at most.
const PENDING_MAX: usize = 200_000;

/// Why a match was not brought to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed<E> {
    /// The pattern is none.
    Wrong(&'static str),
    /// It was ended.
    Ended(E),
}

/// Counts what is done, over many matches, and asks each now and then whether to go on.
pub struct Work<'a, E> {
    /// How much was done since it was asked last.
    pub done: &'a Cell<usize>,
    /// Says that it is to end.
    pub look: &'a dyn Fn() -> Result<(), E>,
}

impl<E> Work<'_, E> {
    /// Notes that so many bytes are looked at.
    pub fn spend(&self, steps: usize) -> Result<(), Failed<E>> {
        let done = self.done.get().saturating_add(steps);
        if done < STEPS_MAX {
            self.done.set(done);
            return Ok(());
        }
        self.done.set(0);
        (self.look)().map_err(Failed::Ended)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Its end was not reached yet.
    Open,
    /// It is the place alone.
    Position,
    Len(usize),
}

#[derive(Debug, Clone, Copy)]
struct Capture {
    start: usize,
    extent: Extent,
}

/// What a capture has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Captured {
    /// A part of the text.
    Text(Range<usize>),
    /// A place in it, counted from 1.
    Position(usize),
}

/// What is to be tried, or taken back, when what follows does not match.
#[derive(Debug, Clone, Copy)]
enum Pending {
    /// To go on there.
    Retry { at: usize, pattern: usize },
    /// As many as there are, then one less.
    Greedy { start: usize, count: usize, next: usize },
    /// As few as there may be, then one more.
    Lazy { at: usize, item: usize, end: usize },
    /// A capture that was begun.
    Begun,
    /// A capture that was ended.
    Closed(usize),
}

enum Step {
    On(usize, usize),
    Found(usize),
    Back,
}

/// A pattern and a text.
pub struct Matcher<'a, E> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    pending: Vec<Pending>,
    work: Work<'a, E>,
}

impl<'a, E> Matcher<'a, E> {
    /// A pattern without its anchor. It ends at its first zero byte, as C's strings do.
    pub fn new(text: &'a [u8], pattern: &'a [u8], work: Work<'a, E>) -> Self {
        let captures = [Capture { start: 0, extent: Extent::Open }; CAPTURES_MAX];
        Self { text, pattern: until_zero(pattern), captures, level: 0, pending: Vec::new(), work }
    }

    /// Matches at a place of the text, and gives where the match ends.
    pub fn match_at(&mut self, start: usize) -> Result<Option<usize>, Failed<E>> {
        self.level = 0;
        self.pending.clear();
        let (mut at, mut pattern) = (start, 0);
        loop {
            match self.step(at, pattern)? {
                Step::On(next, rest) => (at, pattern) = (next, rest),
                Step::Found(end) => return Ok(Some(end)),
                Step::Back => match self.go_back()? {
                    Some(found) => (at, pattern) = found,
                    None => return Ok(None),
                },
            }
        }
    }

    /// The first match from a place on.
    pub fn first(&mut self, from: usize, anchored: bool) -> Result<Option<Range<usize>>, Failed<E>> {
        for start in from..=self.text.len() {
            self.work.spend(1)?;
            if let Some(end) = self.match_at(start)? {
                return Ok(Some(start..end));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    /// How many captures the match has; the whole counts as one if it is `wanted` and there is none.
    pub fn captures_len(&self, wanted: bool) -> usize {
        if self.level == 0 && wanted { 1 } else { self.level }
    }

    /// One of them.
    pub fn capture(&self, index: usize, whole: &Range<usize>) -> Result<Captured, Failed<E>> {
        match self.captures.get(..self.level).and_then(|captures| captures.get(index)) {
            None if index == 0 => Ok(Captured::Text(whole.clone())),
            None => Err(Failed::Wrong("invalid capture index")),
            Some(capture) => match capture.extent {
                Extent::Open => Err(Failed::Wrong("unfinished capture")),
                Extent::Position => Ok(Captured::Position(capture.start + 1)),
                Extent::Len(len) => Ok(Captured::Text(capture.start..capture.start + len)),
            },
        }
    }

    fn sign(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    fn push(&mut self, pending: Pending) -> Result<(), Failed<E>> {
        if self.pending.len() >= PENDING_MAX {
            return Err(Failed::Wrong("pattern too complex"));
        }
        self.pending.push(pending);
        Ok(())
    }

    /// The last that may be tried yet.
    fn go_back(&mut self) -> Result<Option<(usize, usize)>, Failed<E>> {
        while let Some(pending) = self.pending.pop() {
            match pending {
                Pending::Begun => self.level -= 1,
                Pending::Closed(index) => {
                    if let Some(capture) = self.captures.get_mut(index) {
                        capture.extent = Extent::Open;
                    }
                }
                Pending::Retry { at, pattern } => return Ok(Some((at, pattern))),
                Pending::Greedy { start, count, next } => {
                    self.work.spend(1)?;
                    let count = count - 1;
                    if count > 0 {
                        self.pending.push(Pending::Greedy { start, count, next });
                    }
                    return Ok(Some((start + count, next)));
                }
                Pending::Lazy { at, item, end } => {
                    if self.matches_one(at, item, end)? {
                        self.pending.push(Pending::Lazy { at: at + 1, item, end });
                        return Ok(Some((at + 1, end + 1)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Goes on by one part of the pattern.
    fn step(&mut self, at: usize, pattern: usize) -> Result<Step, Failed<E>> {
        self.work.spend(1)?;
        match (self.sign(pattern), self.sign(pattern + 1)) {
            (0, _) => Ok(Step::Found(at)),
            (b'(', b')') => self.begin(at, pattern + 2, Extent::Position),
            (b'(', _) => self.begin(at, pattern + 1, Extent::Open),
            (b')', _) => self.close(at, pattern + 1),
            (b'%', b'b') => self.balanced(at, pattern + 2),
            (b'%', b'f') => self.frontier(at, pattern + 2),
            (b'%', digit) if digit.is_ascii_digit() => self.same_again(at, digit, pattern + 2),
            (b'$', 0) => Ok(if at == self.text.len() { Step::Found(at) } else { Step::Back }),
            _ => self.item(at, pattern),
        }
    }

    fn begin(&mut self, at: usize, pattern: usize, extent: Extent) -> Result<Step, Failed<E>> {
        let Some(capture) = self.captures.get_mut(self.level) else { return Err(Failed::Wrong("too many captures")) };
        *capture = Capture { start: at, extent };
        self.level += 1;
        self.push(Pending::Begun)?;
        Ok(Step::On(at, pattern))
    }

    fn close(&mut self, at: usize, pattern: usize) -> Result<Step, Failed<E>> {
        let mut begun = self.captures.iter_mut().take(self.level).enumerate().rev();
        let open = begun.find(|(_, capture)| capture.extent == Extent::Open);
        let Some((index, capture)) = open else { return Err(Failed::Wrong("invalid pattern capture")) };
        capture.extent = Extent::Len(at - capture.start);
        self.push(Pending::Closed(index))?;
        Ok(Step::On(at, pattern))
    }

    /// `%b()`: from one byte to the other that belongs to it.
    fn balanced(&mut self, at: usize, pattern: usize) -> Result<Step, Failed<E>> {
        let (begin, end) = (self.sign(pattern), self.sign(pattern + 1));
        if begin == 0 || end == 0 {
            return Err(Failed::Wrong("unbalanced pattern"));
        }
        if self.text.get(at) != Some(&begin) {
            return Ok(Step::Back);
        }
        let mut depth = 1_usize;
        let rest = self.text.get(at + 1..).unwrap_or_default();
        for (index, byte) in rest.iter().enumerate() {
            if *byte == end {
                depth -= 1;
                if depth == 0 {
                    self.work.spend(index)?;
                    return Ok(Step::On(at + index + 2, pattern + 2));
                }
            } else if *byte == begin {
                depth += 1;
            }
        }
        self.work.spend(rest.len())?;
        Ok(Step::Back)
    }

    /// `%f[set]`: where the set begins.
    fn frontier(&mut self, at: usize, pattern: usize) -> Result<Step, Failed<E>> {
        if self.sign(pattern) != b'[' {
            return Err(Failed::Wrong("missing '[' after '%f' in pattern"));
        }
        let end = self.item_end(pattern)?;
        let before = at.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or(0);
        let here = self.text.get(at).copied().unwrap_or(0);
        let begins = !self.is_in_set(before, pattern, end - 1) && self.is_in_set(here, pattern, end - 1);
        Ok(if begins { Step::On(at, end) } else { Step::Back })
    }

    /// `%1`: what a capture has, once more.
    fn same_again(&mut self, at: usize, digit: u8, pattern: usize) -> Result<Step, Failed<E>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures.get(..self.level)?.get(index));
        match capture.map(|capture| (capture.start, capture.extent)) {
            None | Some((_, Extent::Open)) => Err(Failed::Wrong("invalid capture index")),
            // A place has no text that could stand there again.
            Some((_, Extent::Position)) => Ok(Step::Back),
            Some((start, Extent::Len(len))) => {
                self.work.spend(len)?;
                let first = self.text.get(start..start + len).unwrap_or_default();
                let again = self.text.get(at..).is_some_and(|rest| rest.starts_with(first));
                Ok(if again { Step::On(at + len, pattern) } else { Step::Back })
            }
        }
    }

    /// One of a class of bytes, and how often.
    fn item(&mut self, at: usize, item: usize) -> Result<Step, Failed<E>> {
        let end = self.item_end(item)?;
        match self.sign(end) {
            b'?' => {
                if !self.matches_one(at, item, end)? {
                    return Ok(Step::On(at, end + 1));
                }
                self.push(Pending::Retry { at, pattern: end + 1 })?;
                Ok(Step::On(at + 1, end + 1))
            }
            b'*' => self.greedy(at, item, end),
            b'+' if self.matches_one(at, item, end)? => self.greedy(at + 1, item, end),
            b'+' => Ok(Step::Back),
            b'-' => {
                self.push(Pending::Lazy { at, item, end })?;
                Ok(Step::On(at, end + 1))
            }
            _ => Ok(if self.matches_one(at, item, end)? { Step::On(at + 1, end) } else { Step::Back }),
        }
    }

    fn greedy(&mut self, start: usize, item: usize, end: usize) -> Result<Step, Failed<E>> {
        let mut count = 0;
        while self.matches_one(start + count, item, end)? {
            count += 1;
        }
        if count > 0 {
            self.push(Pending::Greedy { start, count, next: end + 1 })?;
        }
        Ok(Step::On(start + count, end + 1))
    }

    /// Where a class of bytes ends that begins here.
    fn item_end(&self, item: usize) -> Result<usize, Failed<E>> {
        match self.sign(item) {
            b'%' if self.sign(item + 1) == 0 => Err(Failed::Wrong("malformed pattern (ends with '%')")),
            b'%' => Ok(item + 2),
            b'[' => {
                let mut at = item + 1 + usize::from(self.sign(item + 1) == b'^');
                // The first one is a member, whatever it is.
                loop {
                    match self.sign(at) {
                        0 => return Err(Failed::Wrong("malformed pattern (missing ']')")),
                        b'%' if self.sign(at + 1) != 0 => at += 2,
                        _ => at += 1,
                    }
                    if self.sign(at) == b']' {
                        self.work.spend(at - item)?;
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    fn matches_one(&self, at: usize, item: usize, end: usize) -> Result<bool, Failed<E>> {
        let Some(byte) = self.text.get(at).copied() else { return Ok(false) };
        self.work.spend(end - item)?;
        Ok(match self.sign(item) {
            b'.' => true,
            b'%' => is_of_class(byte, self.sign(item + 1)),
            b'[' => self.is_in_set(byte, item, end - 1),
            literal => literal == byte,
        })
    }

    /// Whether a byte is in the set between two brackets.
    fn is_in_set(&self, byte: u8, open: usize, close: usize) -> bool {
        let inverted = self.sign(open + 1) == b'^';
        let mut at = open + 1 + usize::from(inverted);
        while at < close {
            let sign = self.sign(at);
            if sign == b'%' {
                if is_of_class(byte, self.sign(at + 1)) {
                    return !inverted;
                }
                at += 2;
            } else if self.sign(at + 1) == b'-' && at + 2 < close {
                if (sign..=self.sign(at + 2)).contains(&byte) {
                    return !inverted;
                }
                at += 3;
            } else {
                if sign == byte {
                    return !inverted;
                }
                at += 1;
            }
        }
        inverted
    }
}

/// What stands in front of the first zero byte.
pub fn until_zero(text: &[u8]) -> &[u8] {
    memchr::memchr(0, text).and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The classes of letters with `%` in front; a capital is all that its small letter is not.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}
