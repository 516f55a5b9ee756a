//! The regression set of facts/docker-and-faults §4.3, and random interleavings against a model.

use proptest::prelude::*;

use super::*;

const COOLDOWN: Duration = Duration::from_secs(30);

fn breaker() -> (Arc<Breaker>, Instant) {
    (Arc::new(Breaker::default()), Instant::now())
}

fn fail(breaker: &Arc<Breaker>, n: usize, now: Instant) {
    (0..n).for_each(|_| breaker.enter(now).unwrap().finish(Verdict::Failure, now));
}

#[test]
fn five_failures_in_a_row_open_it_and_fewer_do_not() {
    let (breaker, now) = breaker();
    fail(&breaker, 4, now);
    breaker.enter(now).unwrap().finish(Verdict::Success, now);
    fail(&breaker, 4, now);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
    fail(&breaker, 1, now);
    let open = breaker.enter(now + Duration::from_secs(1)).unwrap_err();
    assert_eq!(open.retry_in, Duration::from_secs(29));
    assert_eq!(breaker.snapshot(now).opened, 1);
}

#[test]
fn a_hundred_successes_never_open_it() {
    let (breaker, now) = breaker();
    (0..100).for_each(|_| breaker.enter(now).unwrap().finish(Verdict::Success, now));
    assert_eq!(breaker.snapshot(now).failures, 0);
}

#[test]
fn exactly_one_trial_after_the_pause() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    assert!(breaker.enter(now + Duration::from_millis(29_999)).is_err());
    let later = now + COOLDOWN;
    let trial = breaker.enter(later).unwrap();
    assert!(breaker.enter(later).is_err());
    assert_eq!(breaker.snapshot(later).state, State::HalfOpen);
    trial.finish(Verdict::Failure, later);
    assert!(breaker.enter(later + COOLDOWN / 2).is_err());
    let trial = breaker.enter(later + COOLDOWN).unwrap();
    trial.finish(Verdict::Success, later + COOLDOWN);
    assert_eq!(breaker.snapshot(later).state, State::Closed);
    fail(&breaker, 4, later);
    assert!(breaker.enter(later).is_ok(), "it counts from zero again");
}

#[test]
fn a_cancelled_trial_lets_the_next_one_try() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    // Dropping takes the time of the real clock, which must not lie before the end of the pause.
    let past = now.checked_sub(COOLDOWN).unwrap();
    let breaker_past = Arc::new(Breaker::default());
    fail(&breaker_past, 5, past);
    drop(breaker_past.enter(now).unwrap());
    assert!(breaker_past.enter(Instant::now()).is_ok());
    assert!(breaker.enter(now).is_err());
}

#[test]
fn results_of_an_older_time_change_nothing() {
    let (breaker, now) = breaker();
    let (late_good, late_bad) = (breaker.enter(now).unwrap(), breaker.enter(now).unwrap());
    fail(&breaker, 5, now);
    late_good.finish(Verdict::Success, now);
    assert_eq!(breaker.snapshot(now).state, State::Open);
    let trial = breaker.enter(now + COOLDOWN).unwrap();
    late_bad.finish(Verdict::Failure, now + COOLDOWN);
    assert_eq!(breaker.snapshot(now).state, State::HalfOpen);
    trial.finish(Verdict::Success, now + COOLDOWN);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
}

#[test]
fn probes_count_but_do_not_shorten_the_pause() {
    let (breaker, now) = breaker();
    (0..5).for_each(|_| breaker.record(Verdict::Failure, now));
    breaker.record(Verdict::Success, now + COOLDOWN / 2);
    assert_eq!(breaker.snapshot(now).state, State::Open);
    breaker.record(Verdict::Failure, now + COOLDOWN);
    assert!(breaker.enter(now + COOLDOWN).is_err());
    breaker.record(Verdict::Success, now + 2 * COOLDOWN);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
}

#[test]
fn threads_get_one_trial_between_them() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    let passes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| breaker.enter(now + COOLDOWN).ok())).collect();
        threads.into_iter().filter_map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(passes.len(), 1);
}

proptest! {
    /// Whatever happens in whatever order: never two trials, nothing passes during a pause, and it opens only after
    /// five failures of its present epoch.
    #[test]
    fn invariants_hold_in_any_order(steps in prop::collection::vec((0..5_u8, 0..6_usize), 0..200)) {
        let (breaker, mut now) = breaker();
        let mut running = Vec::new();
        let mut failures_since_closed = 0_u32;
        for (action, n) in steps {
            let before = breaker.snapshot(now);
            match action {
                0 | 1 => match breaker.enter(now) {
                    Ok(pass) => {
                        let due = before.retry_in == Some(Duration::ZERO);
                        prop_assert!(before.state == State::Closed || (before.state == State::Open && due));
                        running.push(pass);
                    }
                    Err(_) => prop_assert!(before.state != State::Closed),
                },
                2 if !running.is_empty() => {
                    running.swap_remove(n % running.len()).finish(Verdict::Failure, now);
                    failures_since_closed += 1;
                }
                3 if !running.is_empty() => running.swap_remove(n % running.len()).finish(Verdict::Success, now),
                4 => now += Duration::from_secs(n as u64 * 7),
                _ => {}
            }
            let after = breaker.snapshot(now);
            if before.state == State::Closed && after.state == State::Open {
                prop_assert!(failures_since_closed >= 5);
            }
            if after.opened != before.opened {
                failures_since_closed = 0;
            }
        }
    }
}

#[test]
fn a_probe_decides_in_place_of_a_trial_that_takes_long() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    let trial = breaker.enter(now + COOLDOWN).unwrap();
    breaker.record(Verdict::Success, now + COOLDOWN);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
    let other = breaker.enter(now + COOLDOWN).unwrap();
    trial.finish(Verdict::Failure, now + COOLDOWN);
    assert_eq!(breaker.snapshot(now).failures, 0, "its result comes too late");
    other.finish(Verdict::Success, now + COOLDOWN);

    fail(&breaker, 5, now);
    let trial = breaker.enter(now + COOLDOWN).unwrap();
    breaker.record(Verdict::Failure, now + COOLDOWN);
    assert!(breaker.enter(now + COOLDOWN + COOLDOWN / 2).is_err(), "a bad probe opens it for another pause");
    drop(trial);
    assert!(breaker.enter(now + COOLDOWN + COOLDOWN / 2).is_err());
}
