//! Durations as a log-linear histogram, from which percentiles over any set of requests are computed.
//!
//! Each power of two has 64 buckets ([`LogLinear`]), so that values below 128 ms are exact and any other is off by at most
//! half a bucket, 1/128 = 0.8 %. Histograms of parts add up to the histogram of the whole, in any order: percentiles of a
//! month come from those of its hours, with the same error.

use super::varint;
use crate::log_linear::LogLinear;

type Buckets = LogLinear<6>;

/// Number of buckets: one more than the index of the bucket for `i64::MAX`.
const N_BUCKETS: usize = Buckets::bucket(i64::MAX as u64) + 1;

/// Bounds of [`Histogram::spread`] in milliseconds: five to each power of ten, in the ratios of the series R5 (ISO 3).
const BOUNDS: [i64; 26] = [
    0, 10, 16, 25, 40, 63, 100, 160, 250, 400, 630, 1_000, 1_600, 2_500, 4_000, 6_300, 10_000, 16_000,
    25_000, 40_000, 63_000, 100_000, 160_000, 250_000, 400_000, 630_000,
];

/// Returns the bucket for a value; negative values count as zero.
fn bucket(value: i64) -> usize {
    Buckets::bucket(value.max(0) as u64)
}

/// Returns the middle of a bucket.
fn middle(bucket: usize) -> i64 {
    Buckets::middle(bucket) as i64
}

/// How many durations lie between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The least duration, in milliseconds.
    pub from: i64,
    /// The bound above, which no longer belongs to it; `None` for the last span.
    pub to: Option<i64>,
    pub count: u64,
}

/// How often each duration was seen. Values are exact below 128 ms and off by at most 0.8 % above.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket of the first count. Only the buckets between the lowest and the highest value are stored, because there
    /// are many histograms, each with a narrow range.
    first: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: i64) {
        self.record_n(value, 1);
    }

    /// Adds a value that was seen `n` times.
    pub fn record_n(&mut self, value: i64, n: u64) {
        if n > 0 {
            self.add(bucket(value), n);
        }
    }

    fn add(&mut self, bucket: usize, n: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(n);
    }

    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, n)| (self.first + at, *n))
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, n) in other.buckets() {
            self.add(bucket, n);
        }
    }

    /// Returns the number of values.
    pub fn samples(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Returns the value below or at which the share `p` (0 to 1) of all values lies (nearest rank: the `⌈p·n⌉`-th
    /// smallest). Returns `None` if there are no values.
    pub fn percentile(&self, p: f64) -> Option<i64> {
        let samples = self.samples();
        let rank = ((samples as f64 * p).ceil() as u64).clamp(1, samples.max(1));
        let mut seen = 0_u64;
        self.buckets().find_map(|(bucket, n)| {
            seen = seen.saturating_add(n);
            (seen >= rank).then(|| middle(bucket))
        })
    }

    /// Returns how the values are spread: every span from that of the lowest to that of the highest value. A value that is
    /// less than 0.8 % away from a bound may be counted on its other side. It is empty without values.
    pub fn spread(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = BOUNDS
            .iter()
            .enumerate()
            .map(|(at, from)| Span { from: *from, to: BOUNDS.get(at + 1).copied(), count: 0 })
            .collect();
        for (bucket, n) in self.buckets() {
            let at = BOUNDS.partition_point(|from| *from <= middle(bucket)) - 1;
            spans[at].count = spans[at].count.saturating_add(n);
        }
        let used = |span: &Span| span.count > 0;
        let end = spans.iter().rposition(used).map_or(0, |it| it + 1);
        spans.truncate(end);
        spans.drain(..spans.iter().position(used).unwrap_or(0));
        spans
    }

    /// Appends the packed form: the number of buckets in use, then for each its distance from the previous one and its
    /// count.
    pub fn pack(&self, out: &mut Vec<u8>) {
        varint::put(out, self.buckets().count() as u64);
        let mut last = 0;
        for (bucket, n) in self.buckets() {
            varint::put(out, (bucket - last) as u64);
            varint::put(out, n);
            last = bucket;
        }
    }

    /// Adds all values of a packed histogram. Returns `None` if the bytes are not a packed histogram; some values may
    /// have been added by then.
    pub fn merge_packed(&mut self, mut packed: &[u8]) -> Option<()> {
        let mut bucket = 0_usize;
        for _ in 0..varint::take(&mut packed)? {
            bucket = bucket.checked_add(usize::try_from(varint::take(&mut packed)?).ok()?)?;
            if bucket >= N_BUCKETS {
                return None;
            }
            self.add(bucket, varint::take(&mut packed)?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn of(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(*value);
        }
        histogram
    }

    fn merged(parts: &[&Histogram]) -> Histogram {
        let mut whole = Histogram::default();
        for part in parts {
            whole.merge(part);
        }
        whole
    }

    /// Generates durations of all sizes.
    fn durations() -> impl Strategy<Value = Vec<i64>> {
        let any_size = (0_u32..62).prop_flat_map(|bits| (1_i64 << bits)..(2_i64 << bits).max(2));
        vec(prop_oneof![any_size, -5..300_i64], 0..60)
    }

    /// Histograms are handled as in production: packed by the hour, and merged for an answer.
    #[test]
    fn a_million_random_durations_kept_in_hours_have_true_percentiles() {
        const N: usize = 1_000_000;
        const HOURS: usize = 720;
        let mut state = 1_u64;
        // This generator is splitmix64 (Steele et al. 2014), from 0 to 1.
        let mut unit = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let shapes: [fn(f64) -> f64; 3] = [
            |u| u * 100_000.0,
            // One distribution is exponential, and one has a long tail.
            |u| -2_000.0 * (1.0 - u).ln(),
            |u| 30.0 / (1.0 - u).powf(0.7),
        ];
        for shape in shapes {
            let mut values: Vec<i64> = (0..N).map(|_| shape(unit()) as i64).collect();
            let mut whole = Histogram::default();
            for hour in values.chunks(N.div_ceil(HOURS)) {
                let mut packed = Vec::new();
                of(hour).pack(&mut packed);
                whole.merge_packed(&packed).unwrap();
            }
            values.sort_unstable();
            for p in [0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
                let (exact, found) =
                    (values[(N as f64 * p).ceil() as usize - 1], whole.percentile(p).unwrap());
                assert!((found - exact).abs() as f64 <= exact as f64 * 0.01, "p{p}: {found} for {exact}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_percentile_is_within_one_percent(values in durations(), p in 0.0..=1.0_f64) {
            let mut sorted: Vec<_> = values.iter().map(|it| (*it).max(0)).collect();
            sorted.sort_unstable();
            let rank = ((sorted.len() as f64 * p).ceil() as usize).max(1);
            match (sorted.get(rank - 1), of(&values).percentile(p)) {
                (Some(exact), Some(found)) => {
                    prop_assert!((found - exact).abs() as f64 <= *exact as f64 * 0.01, "{found} for {exact}");
                }
                (exact, found) => prop_assert!(exact.is_none() && found.is_none()),
            }
        }

        #[test]
        fn parts_add_up_in_any_order(a in durations(), b in durations(), c in durations()) {
            let whole = of(&[a.clone(), b.clone(), c.clone()].concat());
            let (a, b, c) = (of(&a), of(&b), of(&c));
            prop_assert_eq!(&merged(&[&merged(&[&a, &b]), &c]), &whole);
            prop_assert_eq!(&merged(&[&c, &merged(&[&b, &a])]), &whole);
        }

        #[test]
        fn the_spread_has_every_value_in_its_span(values in durations()) {
            let spread = of(&values).spread();
            prop_assert_eq!(spread.iter().map(|it| it.count).sum::<u64>(), values.len() as u64);
            prop_assert!(spread.first().is_none_or(|it| it.count > 0) && spread.last().is_none_or(|it| it.count > 0));
            prop_assert!(spread.windows(2).all(|it| it[0].to == Some(it[1].from)));
            for Span { from, to, count } in spread {
                let (from, to) = (from as f64, to.map_or(f64::INFINITY, |it| it as f64));
                let within = |share: f64| {
                    let span = from * (1.0 + share)..to * (1.0 - share);
                    values.iter().filter(|it| span.contains(&((**it).max(0) as f64))).count() as u64
                };
                prop_assert!((within(0.01)..=within(-0.01)).contains(&count), "{from} to {to}: {count}");
            }
        }

        #[test]
        fn packing_loses_nothing(a in durations(), b in durations()) {
            let mut packed = Vec::new();
            of(&a).pack(&mut packed);
            let mut read = of(&b);
            read.merge_packed(&packed).unwrap();
            prop_assert_eq!(read, of(&[a, b].concat()));
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_panics(bytes: Vec<u8>) {
            Histogram::default().merge_packed(&bytes);
        }
    }
}
