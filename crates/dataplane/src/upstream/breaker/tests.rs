//! The regression set of facts/docker-and-faults §4.3, and random interleavings against a model.

use gantry_domain::{KeyId, OrgId, UserId};
use proptest::prelude::*;

use super::*;

const A: CallerId = caller(1);
const B: CallerId = caller(2);
const COOLDOWN: Duration = Duration::from_secs(30);

const fn caller(user: i64) -> CallerId {
    CallerId { key: Some(KeyId(user)), user: Some(UserId(user)), org: Some(OrgId(1)) }
}

fn breaker() -> (Arc<Breaker>, Instant) {
    (Arc::new(Breaker::default()), Instant::now())
}

fn fail(breaker: &Arc<Breaker>, n: usize, now: Instant) {
    (0..n).for_each(|_| breaker.enter(A, now).unwrap().finish(Verdict::Failure, now));
}

#[test]
fn five_failures_in_a_row_open_it_and_fewer_do_not() {
    let (breaker, now) = breaker();
    fail(&breaker, 4, now);
    breaker.enter(A, now).unwrap().finish(Verdict::Success, now);
    fail(&breaker, 4, now);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
    fail(&breaker, 1, now);
    let open = breaker.enter(A, now + Duration::from_secs(1)).unwrap_err();
    assert_eq!(open.retry_in, Duration::from_secs(29));
    assert_eq!(breaker.snapshot(now).opened, 1);
}

#[test]
fn a_hundred_successes_never_open_it() {
    let (breaker, now) = breaker();
    (0..100).for_each(|_| breaker.enter(A, now).unwrap().finish(Verdict::Success, now));
    assert_eq!(breaker.snapshot(now).failures, 0);
}

#[test]
fn exactly_one_trial_after_the_pause() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    assert!(breaker.enter(A, now + Duration::from_millis(29_999)).is_err());
    let later = now + COOLDOWN;
    let trial = breaker.enter(A, later).unwrap();
    assert!(breaker.enter(A, later).is_err());
    assert_eq!(breaker.snapshot(later).state, State::HalfOpen);
    trial.finish(Verdict::Failure, later);
    assert!(breaker.enter(A, later + COOLDOWN / 2).is_err());
    let trial = breaker.enter(A, later + COOLDOWN).unwrap();
    trial.finish(Verdict::Success, later + COOLDOWN);
    assert_eq!(breaker.snapshot(later).state, State::Closed);
    fail(&breaker, 4, later);
    assert!(breaker.enter(A, later).is_ok(), "it counts from zero again");
}

#[test]
fn a_cancelled_trial_lets_the_next_one_try() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    // Dropping takes the time of the real clock, which must not lie before the end of the pause.
    let past = now.checked_sub(COOLDOWN).unwrap();
    let breaker_past = Arc::new(Breaker::default());
    fail(&breaker_past, 5, past);
    drop(breaker_past.enter(A, now).unwrap());
    assert!(breaker_past.enter(A, Instant::now()).is_ok());
    assert!(breaker.enter(A, now).is_err());
}

#[test]
fn results_of_an_older_time_change_nothing() {
    let (breaker, now) = breaker();
    let (late_good, late_bad) = (breaker.enter(A, now).unwrap(), breaker.enter(A, now).unwrap());
    fail(&breaker, 5, now);
    late_good.finish(Verdict::Success, now);
    assert_eq!(breaker.snapshot(now).state, State::Open);
    let trial = breaker.enter(A, now + COOLDOWN).unwrap();
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
    assert!(breaker.enter(A, now + COOLDOWN).is_err());
    breaker.record(Verdict::Success, now + 2 * COOLDOWN);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
}

#[test]
fn threads_get_one_trial_between_them() {
    let (breaker, now) = breaker();
    fail(&breaker, 5, now);
    let passes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| breaker.enter(A, now + COOLDOWN).ok())).collect();
        threads.into_iter().filter_map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(passes.len(), 1);
}

proptest! {
    /// In any order of events, there are never two trials, nothing passes during a pause, and the breaker opens only
    /// after five failures of its present epoch.
    #[test]
    fn invariants_hold_in_any_order(steps in prop::collection::vec((0..5_u8, 0..6_usize), 0..200)) {
        let (breaker, mut now) = breaker();
        let mut running = Vec::new();
        let mut failures_since_closed = 0_u32;
        for (action, n) in steps {
            let before = breaker.snapshot(now);
            match action {
                0 | 1 => match breaker.enter(A, now) {
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
    let trial = breaker.enter(A, now + COOLDOWN).unwrap();
    breaker.record(Verdict::Success, now + COOLDOWN);
    assert_eq!(breaker.snapshot(now).state, State::Closed);
    let other = breaker.enter(A, now + COOLDOWN).unwrap();
    trial.finish(Verdict::Failure, now + COOLDOWN);
    assert_eq!(breaker.snapshot(now).failures, 0, "its result comes too late");
    other.finish(Verdict::Success, now + COOLDOWN);

    fail(&breaker, 5, now);
    let trial = breaker.enter(A, now + COOLDOWN).unwrap();
    breaker.record(Verdict::Failure, now + COOLDOWN);
    assert!(
        breaker.enter(A, now + COOLDOWN + COOLDOWN / 2).is_err(),
        "a bad probe opens it for another pause"
    );
    drop(trial);
    assert!(breaker.enter(A, now + COOLDOWN + COOLDOWN / 2).is_err());
}

fn errors(breaker: &Arc<Breaker>, caller: CallerId, n: usize, now: Instant) {
    (0..n).for_each(|_| breaker.enter(caller, now).unwrap().finish(Verdict::Error, now));
}

fn state(breaker: &Breaker, now: Instant) -> (State, bool) {
    let snapshot = breaker.snapshot(now);
    (snapshot.state, snapshot.for_some)
}

#[test]
fn errors_of_one_person_open_it_for_him_and_leave_the_others_alone() {
    let (breaker, now) = breaker();
    errors(&breaker, A, 5, now);
    assert_eq!(state(&breaker, now), (State::Open, true));
    let his_other_key = CallerId { key: Some(KeyId(77)), ..A };
    for caller in [A, his_other_key] {
        assert_eq!(breaker.enter(caller, now).unwrap_err(), Open { retry_in: COOLDOWN, for_some: true });
    }
    // A caller that leaves says nothing about the engine; a success shows that the engine is well.
    drop(breaker.enter(B, now).unwrap());
    assert_eq!(state(&breaker, now), (State::Open, true));
    breaker.enter(B, now).unwrap().finish(Verdict::Success, now);
    assert_eq!(breaker.snapshot(now).failures, 0);
    errors(&breaker, A, 5, now);
    // The caller that is kept away tries after the pause; others go on meanwhile.
    let later = now + COOLDOWN;
    let trial = breaker.enter(A, later).unwrap();
    assert!(breaker.enter(A, later).is_err(), "one at a time");
    let (left, right) = (breaker.enter(B, later).unwrap(), breaker.enter(B, later).unwrap());
    trial.finish(Verdict::Error, later);
    assert_eq!(state(&breaker, later), (State::Open, true));
    left.finish(Verdict::Failure, later);
    assert_eq!(state(&breaker, later), (State::Open, true), "it was asked before the trial ended");
    drop(right);
    breaker.enter(A, later + COOLDOWN).unwrap().finish(Verdict::Success, later + COOLDOWN);
    assert_eq!(state(&breaker, later), (State::Closed, false));
}

#[test]
fn errors_of_many_persons_open_it_for_all() {
    let (breaker, now) = breaker();
    errors(&breaker, A, 5, now);
    errors(&breaker, B, 1, now);
    assert!(breaker.enter(B, now).is_err());
    assert_eq!(state(&breaker, now), (State::Open, true));
    let soon = now + COOLDOWN / 2;
    errors(&breaker, caller(3), 1, soon);
    assert_eq!(breaker.enter(caller(4), soon).unwrap_err(), Open { retry_in: COOLDOWN, for_some: false });
    // As a trial, one more opens it again.
    let later = soon + COOLDOWN;
    breaker.enter(caller(4), later).unwrap().finish(Verdict::Error, later);
    assert_eq!(state(&breaker, later), (State::Open, false));
    breaker.enter(B, later + COOLDOWN).unwrap().finish(Verdict::Success, later);
    assert_eq!((state(&breaker, later).0, breaker.snapshot(later).failures), (State::Closed, 0));
    // If callers can't be told apart, the breaker is open for all.
    errors(&breaker, CallerId::default(), 5, now);
    assert_eq!(state(&breaker, now), (State::Open, false));
}

#[test]
fn a_failure_that_no_request_explains_opens_it_for_all() {
    let (breaker, now) = breaker();
    errors(&breaker, A, 4, now);
    fail(&breaker, 1, now);
    assert_eq!(state(&breaker, now), (State::Open, false));
    // An error of the trial shows that the engine answers again.
    let later = now + COOLDOWN;
    breaker.enter(A, later).unwrap().finish(Verdict::Error, later);
    assert_eq!(state(&breaker, later), (State::Open, true));
    // A failure of a caller for whom the breaker is not open opens it for all, with a new pause.
    breaker.enter(B, later).unwrap().finish(Verdict::Failure, later);
    assert_eq!(breaker.enter(caller(3), later).unwrap_err(), Open { retry_in: COOLDOWN, for_some: false });
}
