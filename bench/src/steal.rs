//! The time that the host took: a virtual machine's CPUs stand still while the host runs somebody else, and what a program
//! does then says nothing about the program.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::procfs::TICKS_PER_S;

/// Long enough for 50 ticks of `/proc/stat` on two CPUs.
const SLICE: Duration = Duration::from_millis(250);
/// A slice counts as stolen if the host took more than this share of all CPUs.
const MOST: f64 = 0.02;

/// Watches what is stolen until [`Watch::end`].
pub(crate) struct Watch {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Stolen>,
}

/// The slices in which the host took too much, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Stolen(Vec<(Instant, Instant)>);

impl Watch {
    pub(crate) fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut stolen = Stolen::default();
            let mut before = (Instant::now(), ticks());
            while !told.load(Relaxed) {
                std::thread::sleep(SLICE);
                let now = (Instant::now(), ticks());
                stolen.look(before, now);
                before = now;
            }
            stolen
        });
        Self { ends, thread }
    }

    /// Waits for the end of the slice that has begun, at most a quarter of a second.
    pub(crate) async fn end(self) -> Result<Stolen> {
        self.ends.store(true, Relaxed);
        let waits = tokio::task::spawn_blocking(|| self.thread.join());
        waits.await?.ok().context("the watch over stolen time died")
    }
}

impl Stolen {
    /// Notes a slice; times are with the ticks stolen so far and the number of CPUs.
    fn look(&mut self, (from, before): (Instant, (u64, u32)), (to, (now, cpus)): (Instant, (u64, u32))) {
        let all = (to - from).as_secs_f64() * TICKS_PER_S as f64 * f64::from(cpus);
        if now.saturating_sub(before.0) as f64 > all * MOST {
            self.0.push((from, to));
        }
    }

    /// Whether a part of the time is in a stolen slice.
    pub(crate) fn has(&self, from: Instant, to: Instant) -> bool {
        let first = self.0.partition_point(|it| it.1 <= from);
        self.0.get(first).is_some_and(|it| it.0 < to)
    }

    /// Returns the share of the time that is in stolen slices.
    pub(crate) fn share(&self, from: Instant, to: Instant) -> f64 {
        let within = |it: &(Instant, Instant)| it.1.min(to).saturating_duration_since(it.0.max(from));
        let stolen: Duration = self.0.iter().map(within).sum();
        stolen.as_secs_f64() / (to - from).as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Measures what the host takes from a moment on.
pub(crate) struct Clock {
    since: Instant,
    before: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), before: ticks().0 }
    }

    /// Returns the share of all CPUs' time that was stolen since the start.
    pub(crate) fn steal(&self) -> f64 {
        let (now, cpus) = ticks();
        let all = self.since.elapsed().as_secs_f64() * TICKS_PER_S as f64 * f64::from(cpus);
        now.saturating_sub(self.before) as f64 / all.max(1.0)
    }
}

/// Ticks stolen from all CPUs since the start of the machine, and the number of CPUs; nothing is stolen where nobody tells.
fn ticks() -> (u64, u32) {
    parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn parse(stat: &str) -> (u64, u32) {
    let mut lines = stat.lines().take_while(|it| it.starts_with("cpu"));
    let all = lines.next().unwrap_or_default();
    let stolen = all.split_whitespace().nth(8).and_then(|it| it.parse().ok()).unwrap_or(0);
    (stolen, lines.count().max(1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_time_of_all_cpus() {
        let stat =
            "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 30 9 10\ncpu1 1 2 3 4 5 6 7 50 9 10\nintr 5\n";
        assert_eq!(parse(stat), (80, 2));
        assert_eq!(parse(""), (0, 1));
    }

    #[test]
    fn what_overlaps_a_slice_with_too_much_of_it_is_found() {
        let at = |n: u32| Instant::now() + Duration::from_hours(1) * n;
        let (zero, one, two, three) = (at(0), at(1), at(2), at(3));
        let mut stolen = Stolen::default();
        // Two CPUs have 720,000 ticks an hour.
        stolen.look((zero, (0, 2)), (one, (14_000, 2)));
        stolen.look((one, (14_000, 2)), (two, (30_000, 2)));
        stolen.look((two, (30_000, 2)), (three, (30_000, 2)));
        let minutes = |n: u64| Duration::from_mins(n);
        assert!(!stolen.has(zero, one) && stolen.has(zero, one + minutes(1)));
        assert!(stolen.has(one + minutes(5), one + minutes(6)) && stolen.has(one + minutes(59), three));
        assert!(!stolen.has(two, three) && !stolen.has(two + minutes(1), three));
        assert!((stolen.share(zero, three) - 1.0 / 3.0).abs() < 0.001);
        assert!(stolen.share(two, three).abs() < f64::EPSILON);
    }
}
