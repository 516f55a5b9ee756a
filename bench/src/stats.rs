//! Percentiles and medians of what was measured. Pure; knows nothing about HTTP.

use serde::Serialize;

/// The value at quantile `q` (0–1) of ascending `sorted`, by nearest rank; 0 when there is nothing.
///
/// Nearest rank never invents a value between two samples, which matters for a p99 of few of them.
pub(crate) fn percentile(sorted: &[u32], q: f64) -> u32 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

/// The median of the finite values; `None` when there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|it| it.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some(f64::midpoint(values[middle - 1], upper)) }
}

/// The median of some values, and the least and the largest of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// `None` when there is no finite value.
pub(crate) fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.into_iter().filter(|it| it.is_finite()).collect();
    Some(Spread {
        median: median(values.iter().copied())?,
        least: values.iter().copied().reduce(f64::min)?,
        most: values.iter().copied().reduce(f64::max)?,
    })
}

/// `of / to`, unless one is missing or the divisor is not positive: a difference lost in noise has no ratio.
pub(crate) fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    let (of, to) = (of?, to?);
    (to > 0.0).then(|| of / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 0.50), 50);
        assert_eq!(percentile(&hundred, 0.99), 99);
        assert_eq!(percentile(&hundred, 1.0), 100);
        assert_eq!(percentile(&hundred, 0.0), 1);
        assert_eq!(percentile(&[7], 0.99), 7);
        assert_eq!(percentile(&[1, 9], 0.5), 1);
        assert_eq!(percentile(&[1, 9], 0.51), 9);
        assert_eq!(percentile(&[], 0.5), 0);
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 5.0]), Some(5.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn a_spread_has_the_ends_and_the_middle() {
        assert_eq!(spread([2.0, 9.0, 1.0]), Some(Spread { median: 2.0, least: 1.0, most: 9.0 }));
        assert_eq!(spread([f64::NAN]), None);
    }

    #[test]
    fn ratio_needs_both_and_a_positive_divisor() {
        assert_eq!(ratio(Some(3.0), Some(2.0)), Some(1.5));
        assert_eq!(ratio(Some(3.0), Some(0.0)), None);
        assert_eq!(ratio(Some(3.0), Some(-1.0)), None);
        assert_eq!(ratio(None, Some(1.0)), None);
    }
}
