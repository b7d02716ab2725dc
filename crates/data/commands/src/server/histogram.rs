//! How long something took how often: microseconds in buckets that grow with what they count, each a sixteenth of its octave
//! wide, so that a percentile is right to 6%.

const PER_OCTAVE_BITS: u32 = 4;
const PER_OCTAVE: usize = 1 << PER_OCTAVE_BITS;
/// Up to 2^31 microseconds, half an hour; what took longer counts as that.
const OCTAVES: usize = 31;
const BUCKETS: usize = PER_OCTAVE * (OCTAVES - PER_OCTAVE_BITS as usize + 1);

/// Counts by time.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: [u32; BUCKETS],
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }
}

/// The bucket of a time.
fn bucket(time_us: u64) -> usize {
    let time = time_us.min((1 << OCTAVES) - 1);
    if time < PER_OCTAVE as u64 {
        return time as usize;
    }
    let octave = 63 - time.leading_zeros();
    let within = (time >> (octave - PER_OCTAVE_BITS)) as usize & (PER_OCTAVE - 1);
    (octave - PER_OCTAVE_BITS + 1) as usize * PER_OCTAVE + within
}

/// The largest time of a bucket.
fn most(bucket: usize) -> u64 {
    if bucket < PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / PER_OCTAVE - 1;
    (((PER_OCTAVE + bucket % PER_OCTAVE + 1) as u64) << shift) - 1
}

impl Histogram {
    /// Counts one.
    pub fn record(&mut self, time_us: u64) {
        if let Some(count) = self.counts.get_mut(bucket(time_us)) {
            *count = count.saturating_add(1);
        }
        self.total += 1;
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The time, in microseconds, that so many of a hundred did not exceed.
    pub fn percentile(&self, percentile: f64) -> u64 {
        let wanted = ((percentile / 100.0 * self.total as f64).round() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return most(bucket);
            }
        }
        0
    }

    /// How many took at most 1, 2, 4, ... microseconds, as far as buckets tell: from the first bound that some did not exceed to the first that none did.
    pub fn by_powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut powers = Vec::new();
        let mut counts = self.counts.iter().enumerate().peekable();
        let mut seen = 0;
        for octave in 0..=OCTAVES {
            let bound = 1 << octave;
            while let Some((_, count)) = counts.next_if(|(bucket, _)| most(*bucket) <= bound) {
                seen += u64::from(*count);
            }
            if seen > 0 {
                powers.push((bound, seen));
            }
            if seen >= self.total {
                break;
            }
        }
        powers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_within_its_bucket_and_buckets_follow_one_another() {
        for time in (0..5000).chain([1 << 20, (1 << 31) - 1, u64::MAX]) {
            let found = bucket(time);
            assert!(found < BUCKETS, "{time}");
            assert!(most(found) >= time.min((1 << 31) - 1), "{time}");
            assert!(found == 0 || most(found - 1) < time, "{time}");
            assert!(most(found) as f64 <= time as f64 * 1.07 + 1.0, "{time}");
        }
    }

    #[test]
    fn percentiles_and_powers() {
        let mut times = Histogram::default();
        assert_eq!((times.percentile(50.0), times.by_powers_of_two()), (0, vec![]));
        for time in 1..=100 {
            times.record(time);
        }
        assert_eq!(times.percentile(0.0), 1);
        assert!((50..=53).contains(&times.percentile(50.0)));
        assert!((99..=103).contains(&times.percentile(99.0)));
        assert_eq!(
            times.by_powers_of_two(),
            [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 31), (64, 63), (128, 100)]
        );
    }
}
