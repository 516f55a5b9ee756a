//! The buckets of log-linear histograms.
//!
//! The scheme is that of `HdrHistogram` (Gil Tene, <https://hdrhistogram.org>; the error bound is derived there as
//! "value quantisation"): each power of two is cut into the same number of buckets of equal width.

/// Buckets of which each power of two has `2^PRECISION`. Values below `2^(PRECISION + 1)` are exact; the middle of any
/// other value's bucket is off by at most `1 / 2^(PRECISION + 1)`.
#[derive(Debug)]
pub struct LogLinear<const PRECISION: u32>;

impl<const PRECISION: u32> LogLinear<PRECISION> {
    const PER_OCTAVE: usize = 1 << PRECISION;

    /// Returns the bucket of a value.
    pub const fn bucket(value: u64) -> usize {
        let shift = (value | 1).ilog2().saturating_sub(PRECISION);
        ((shift as usize) << PRECISION) + (value >> shift) as usize
    }

    /// Returns the least value of a bucket.
    pub const fn start(bucket: usize) -> u64 {
        if bucket < 2 * Self::PER_OCTAVE {
            return bucket as u64;
        }
        let shift = bucket / Self::PER_OCTAVE - 1;
        ((Self::PER_OCTAVE + bucket % Self::PER_OCTAVE) as u64) << shift
    }

    /// Returns the middle of a bucket.
    pub const fn middle(bucket: usize) -> u64 {
        u64::midpoint(Self::start(bucket), Self::start(bucket + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_gaps<const PRECISION: u32>() {
        let mut last = 0;
        for value in 0..1_000_000 {
            let now = LogLinear::<PRECISION>::bucket(value);
            assert!(now == last || now == last + 1, "{value}");
            if now > last {
                assert_eq!(LogLinear::<PRECISION>::start(now), value);
            }
            let off = LogLinear::<PRECISION>::middle(now).abs_diff(value);
            assert!(off << (PRECISION + 1) <= value, "{value}: {off}");
            last = now;
        }
    }

    #[test]
    fn buckets_cover_everything_without_gaps() {
        without_gaps::<3>();
        without_gaps::<6>();
    }
}
