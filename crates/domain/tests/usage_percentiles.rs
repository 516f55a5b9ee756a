//! Compares percentiles that are merged from as many parts as a month has hours with the exact ones, for a million
//! random durations.

use gantry_domain::usage::histogram::Histogram;

/// Returns pseudo-random numbers from 0 to 1 (splitmix64, Steele et al. 2014).
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Makes a duration from a uniformly distributed number.
type Shape = fn(f64) -> f64;

#[test]
fn percentiles_of_a_million_are_within_one_percent_of_the_exact_ones() {
    const N: usize = 1_000_000;
    const PARTS: usize = 720;
    let shapes: [(&str, Shape); 3] = [
        ("even", |it| it * 60_000.0),
        ("exponential", |it| -1_500.0 * (1.0 - it).ln()),
        // The durations range from a millisecond to half an hour; each order of magnitude is equally frequent.
        ("log-even", |it| 10_f64.powf(it * 6.25)),
    ];
    for (shape, of) in shapes {
        let mut state = 42;
        let mut values: Vec<i64> = (0..N).map(|_| of(unit(&mut state)) as i64).collect();
        let mut whole = Histogram::default();
        for part in values.chunks(N.div_ceil(PARTS)) {
            let mut hour = Histogram::default();
            for value in part {
                hour.record(*value);
            }
            let mut packed = Vec::new();
            hour.pack(&mut packed);
            whole.merge_packed(&packed).unwrap();
        }
        values.sort_unstable();
        assert_eq!(whole.samples(), N as u64);
        for p in [0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0] {
            let exact = values[((N as f64 * p).ceil() as usize).max(1) - 1];
            let found = whole.percentile(p).unwrap();
            assert!((found - exact).abs() as f64 <= exact as f64 * 0.01, "{shape} {p}: {found}, not {exact}");
        }
    }
}
