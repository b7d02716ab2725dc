//! What a queue counts. All of it is bounded, and follows from the commands alone.

use std::collections::BTreeMap;

use crate::{
    codec::{Malformed, Reader, put_number, put_string},
    limits::{CONSUMER_LEN_MAX, CONSUMERS_MAX, REASON_LEN_MAX, REASONS_MAX, cut},
};

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What has happened since the queue was made.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// The figures with their names.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($name: reader.count()?),* })
            }
        }
    };
}

totals! {
    /// Messages that came.
    published,
    /// Messages that had come before, as their ids say.
    duplicates,
    /// Deliveries.
    delivered,
    /// Messages that were done.
    deleted,
    /// Messages that were given back.
    released,
    /// Reservations that ran out.
    timed_out,
    /// Messages that died.
    died,
    /// Dead messages that live again.
    redriven,
    /// Messages that nobody wanted in time.
    expired,
    /// Messages that made room for others.
    dropped,
    /// Messages that were removed without having been done: by id, by a purge, by a move to another queue.
    removed,
}

impl Totals {
    fn encode(&self, out: &mut Vec<u8>) {
        self.named().into_iter().for_each(|(_, number)| put_number(out, number));
    }
}

/// How many times of a span count for a rate.
const SPANS: usize = 6;
/// How long a span is.
const SPAN_MS: u64 = 10_000;

/// How many messages came and went in the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// The number of the last span.
    span: u64,
    /// When the first message came or went.
    begin: u64,
    came: [u64; SPANS + 1],
    went: [u64; SPANS + 1],
}

impl Rates {
    fn at(&mut self, now: u64) -> usize {
        let span = now / SPAN_MS;
        if self.begin == 0 {
            (self.begin, self.span) = (now, span);
        }
        let passed = span.saturating_sub(self.span).min(SPANS as u64 + 1);
        for number in 1..=passed {
            let place = (self.span.wrapping_add(number) % (SPANS as u64 + 1)) as usize;
            [&mut self.came, &mut self.went].into_iter().for_each(|counts| {
                if let Some(count) = counts.get_mut(place) {
                    *count = 0;
                }
            });
        }
        self.span = self.span.max(span);
        (self.span % (SPANS as u64 + 1)) as usize
    }

    pub(crate) fn came(&mut self, now: u64, count: u64) {
        let place = self.at(now);
        self.came.get_mut(place).into_iter().for_each(|sum| *sum += count);
    }

    pub(crate) fn went(&mut self, now: u64, count: u64) {
        let place = self.at(now);
        self.went.get_mut(place).into_iter().for_each(|sum| *sum += count);
    }

    /// How many came and went, in a thousand seconds at the rate of the last minute.
    pub fn per_1000_s(mut self, now: u64) -> (u64, u64) {
        self.at(now);
        // What has begun of the present span, and the whole ones before it.
        let window = (now % SPAN_MS + SPANS as u64 * SPAN_MS).min(now.saturating_sub(self.begin)).max(1000);
        let rate =
            |counts: [u64; SPANS + 1]| (u128::from(counts.iter().sum::<u64>()) * 1_000_000 / u128::from(window)) as u64;
        (rate(self.came), rate(self.went))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        [self.span, self.begin]
            .into_iter()
            .chain(self.came)
            .chain(self.went)
            .for_each(|number| put_number(out, number));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut rates = Self { span: reader.number()?, begin: reader.number()?, ..Self::default() };
        for count in rates.came.iter_mut().chain(&mut rates.went) {
            *count = reader.count()?;
        }
        Ok(rates)
    }
}

/// How many buckets of times there are; the last one has all that are longer: 2^30 ms are twelve days.
pub const BUCKETS: usize = 32;

/// How long messages waited before they were given first, by powers of two of milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    counts: [u64; BUCKETS],
}

impl Waits {
    pub(crate) fn record(&mut self, ms: u64) {
        let bucket = (u64::BITS - ms.leading_zeros()) as usize;
        self.counts.get_mut(bucket.min(BUCKETS - 1)).into_iter().for_each(|count| *count += 1);
    }

    /// The buckets that are not empty: each has times of less than so many milliseconds, and not those of the one before it.
    pub fn each(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| (1 << bucket, *count))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let used = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        put_number(out, used as u64);
        self.counts.iter().take(used).for_each(|count| put_number(out, *count));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (mut waits, used) = (Self::default(), reader.number()?);
        if used > BUCKETS as u64 {
            return Err(Malformed("the histogram of times"));
        }
        for count in waits.counts.iter_mut().take(used as usize) {
            *count = reader.count()?;
        }
        Ok(waits)
    }
}

/// What is known of a consumer that said its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumer {
    /// When it was given something last.
    pub seen: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Messages that were done.
    pub deleted: u64,
}

/// All that a queue counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// What has happened.
    pub totals: Totals,
    /// How many messages came and went in the last minute.
    pub rates: Rates,
    /// How long messages waited.
    pub waits: Waits,
    consumers: BTreeMap<Vec<u8>, Consumer>,
    reasons: BTreeMap<Vec<u8>, u64>,
}

impl Statistics {
    /// Consumers by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&[u8], Consumer)> {
        self.consumers.iter().map(|(name, consumer)| (name.as_slice(), *consumer))
    }

    /// How many messages died of which reason; an empty one stands for all that there was no room for.
    pub fn reasons(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        self.reasons.iter().map(|(reason, count)| (reason.as_slice(), *count))
    }

    /// Forgets who took messages.
    pub(crate) fn forget_consumers(&mut self) {
        self.consumers.clear();
    }

    pub(crate) fn consumer(&mut self, name: &[u8]) -> Option<&mut Consumer> {
        let name = cut(name, CONSUMER_LEN_MAX);
        if name.is_empty() {
            return None;
        }
        if !self.consumers.contains_key(name) && self.consumers.len() >= CONSUMERS_MAX {
            let silent = self.consumers.iter().min_by_key(|(_, consumer)| consumer.seen).map(|(name, _)| name.clone());
            if let Some(name) = silent {
                self.consumers.remove(&name);
            }
        }
        Some(self.consumers.entry(name.to_vec()).or_default())
    }

    pub(crate) fn count_reason(&mut self, reason: &[u8]) {
        let is_known = self.reasons.contains_key(reason) || self.reasons.len() < REASONS_MAX;
        *self.reasons.entry(if is_known { reason.to_vec() } else { Vec::new() }).or_default() += 1;
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.totals.encode(out);
        self.rates.encode(out);
        self.waits.encode(out);
        put_number(out, self.consumers.len() as u64);
        for (name, consumer) in &self.consumers {
            put_string(out, name);
            [consumer.seen, consumer.delivered, consumer.deleted]
                .into_iter()
                .for_each(|number| put_number(out, number));
        }
        put_number(out, self.reasons.len() as u64);
        for (reason, count) in &self.reasons {
            put_string(out, reason);
            put_number(out, *count);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut statistics = Self {
            totals: Totals::decode(reader)?,
            rates: Rates::decode(reader)?,
            waits: Waits::decode(reader)?,
            ..Self::default()
        };
        let consumers = reader.number()?;
        if consumers > CONSUMERS_MAX as u64 {
            return Err(Malformed("there are too many consumers"));
        }
        for _ in 0..consumers {
            let name = reader.string(CONSUMER_LEN_MAX)?.to_vec();
            let consumer = Consumer { seen: reader.number()?, delivered: reader.count()?, deleted: reader.count()? };
            statistics.consumers.insert(name, consumer);
        }
        let reasons = reader.number()?;
        // One more stands for all others.
        if reasons > REASONS_MAX as u64 + 1 {
            return Err(Malformed("there are too many reasons"));
        }
        for _ in 0..reasons {
            let reason = reader.string(REASON_LEN_MAX)?.to_vec();
            statistics.reasons.insert(reason, reader.count()?);
        }
        Ok(statistics)
    }
}
