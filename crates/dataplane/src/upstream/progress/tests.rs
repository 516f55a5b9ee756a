//! Scenarios with a clock of their own, and random ones that are checked against invariants.

use gantry_domain::KeyId;
use proptest::prelude::*;

use super::*;

const FLOOR: Duration = Duration::from_secs(30);

fn entrant(key: i64, class: Class, tokens: u64) -> Entrant {
    let caller = CallerId { key: Some(KeyId(key)), ..CallerId::default() };
    Entrant { caller, class, tokens, timeout: Duration::from_mins(10) }
}

struct Story {
    progress: Arc<Progress>,
    now: Instant,
}

impl Story {
    fn new() -> Self {
        let now = Instant::now();
        Self { progress: Arc::new(Progress::new(FLOOR, now)), now }
    }

    /// Makes a story after `n` requests of each kind, each silent for `silence`.
    fn after(n: u32, silence: Duration) -> Self {
        let mut story = Self::new();
        for streams in [false, true] {
            for _ in 0..n {
                story.request(streams, silence);
            }
        }
        story
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn enter(&self, streams: bool) -> Result<Watch, Stalled> {
        self.enter_as(1, streams)
    }

    fn enter_as(&self, key: i64, streams: bool) -> Result<Watch, Stalled> {
        self.progress.enter(&entrant(key, Class::new(streams, 100), 0), self.now)
    }

    fn request(&mut self, streams: bool, silence: Duration) {
        let watch = self.enter(streams).unwrap();
        self.pass(silence);
        watch.heard(self.now);
    }

    fn is_stalled(&self) -> bool {
        self.progress.stalled(self.now).is_some()
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn silence_while_somebody_waits_is_a_stall_beyond_the_floor() {
    let mut story = Story::after(MIN_SEEN, Duration::from_millis(200));
    let _waits = story.enter(true).unwrap();
    story.pass(secs(30));
    assert!(!story.is_stalled());
    assert!(story.enter(true).is_ok());
    story.pass(Duration::from_millis(1));
    assert_eq!(story.progress.stalled(story.now).map(|it| it.as_secs()), Some(30));
    story.pass(secs(5));
    let _tries = story.enter(true).unwrap();
    assert_eq!(story.enter(true).unwrap_err().silent.as_secs(), 35);
    assert_eq!(story.progress.quarantined(story.now), story.now.checked_sub(Duration::from_millis(35_001)));
}

#[test]
fn an_engine_that_is_idle_or_unknown_is_never_stalled() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    story.pass(secs(100_000));
    assert!(!story.is_stalled());
    // The first request after a long pause starts from zero.
    let _waits = story.enter(true).unwrap();
    assert!(!story.is_stalled());

    let mut unknown = Story::after(MIN_SEEN - 1, secs(1));
    let _waits = unknown.enter(true).unwrap();
    unknown.pass(secs(100_000));
    assert!(!unknown.is_stalled());
    // Nor is one that knows the others, but not this kind of request.
    let mut other = Story::after(MIN_SEEN, secs(1));
    let _large = other.progress.enter(&entrant(1, Class::new(true, 1 << 20), 0), other.now).unwrap();
    let _small = other.enter(true).unwrap();
    other.pass(secs(100_000));
    assert!(!other.is_stalled());
}

#[test]
fn a_slow_engine_gets_the_time_that_it_usually_takes() {
    let mut story = Story::after(1000, secs(10));
    let _waits = story.enter(false).unwrap();
    story.pass(secs(80));
    assert!(!story.is_stalled());
    story.pass(secs(100));
    assert!(story.is_stalled());
    // One request in a thousand takes four minutes: twice that is allowed.
    let mut rare = Story::after(1000, secs(1));
    rare.request(false, secs(240));
    let _waits = rare.enter(false).unwrap();
    rare.pass(secs(479));
    assert!(!rare.is_stalled());
}

#[test]
fn plain_answers_have_times_of_their_own_and_streams_wait_behind_them() {
    let mut story = Story::new();
    for _ in 0..MIN_SEEN {
        story.request(true, Duration::from_millis(300));
        story.request(false, secs(20));
    }
    let plain = story.enter(false).unwrap();
    let _stream = story.enter(true).unwrap();
    story.pass(secs(100));
    assert!(!story.is_stalled(), "the plain one may take long, and the stream is queued behind it");
    plain.heard(story.now);
    drop(plain);
    story.pass(secs(31));
    assert!(story.is_stalled());
}

#[test]
fn a_byte_to_anybody_is_progress() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    let _waits = story.enter(true).unwrap();
    let other = story.enter(true).unwrap();
    for _ in 0..10 {
        story.pass(secs(29));
        other.heard(story.now);
        other.waits(story.now);
        assert!(!story.is_stalled());
    }
    story.pass(secs(31));
    let _tries = story.enter(true).unwrap();
    assert!(story.enter(true).is_err());
    // A byte ends the quarantine at once, too.
    other.heard(story.now);
    assert!(story.enter(true).is_ok());
    assert_eq!(story.progress.quarantined(story.now), None);
}

#[test]
fn a_client_that_does_not_read_is_not_the_engine_s_silence() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    let slow = story.enter(true).unwrap();
    slow.heard(story.now);
    story.pass(secs(1000));
    assert!(!story.is_stalled());
    slow.waits(story.now);
    assert!(!story.is_stalled());
    story.pass(secs(31));
    assert!(story.is_stalled());
}

#[test]
fn when_all_have_left_one_tries_and_the_next_one_if_it_is_cancelled() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    let waits = story.enter(true).unwrap();
    story.pass(secs(31));
    let tries = story.enter(true).unwrap();
    assert!(story.enter(true).is_err());
    drop((waits, tries));
    story.pass(secs(1000));
    let trial = story.enter(true).unwrap();
    assert!(story.enter(true).is_err() && story.enter(false).is_err(), "one trial at a time");
    drop(trial);
    let trial = story.enter(false).unwrap();
    assert!(story.enter(true).is_err());
    story.pass(secs(1));
    trial.heard(story.now);
    assert!(story.enter(true).is_ok());
}

#[test]
fn what_never_came_is_not_learnt() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    for _ in 0..100 {
        let gives_up = story.enter(true).unwrap();
        story.pass(secs(25));
        drop(gives_up);
    }
    let _waits = story.enter(true).unwrap();
    story.pass(secs(31));
    assert!(story.is_stalled());
}

#[test]
fn threads_get_one_trial_between_them() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    let waits = story.enter(true).unwrap();
    story.pass(secs(31));
    drop(story.enter(true).unwrap());
    assert!(story.enter(true).is_err());
    drop(waits);
    let (progress, now) = (&story.progress, story.now);
    let barrier = std::sync::Barrier::new(8);
    let passed = std::thread::scope(|scope| {
        let run = || {
            barrier.wait();
            let watch = progress.enter(&entrant(1, Class::new(true, 1), 0), now);
            barrier.wait();
            watch.is_ok()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        threads.into_iter().filter_map(|it| it.join().unwrap().then_some(())).count()
    });
    assert_eq!(passed, 1);
}

#[test]
fn a_plain_answer_may_take_as_long_as_its_tokens_do() {
    let mut story = Story::new();
    let plain = Class::new(false, 100);
    let ask = |story: &Story, tokens| story.progress.enter(&entrant(1, plain, tokens), story.now).unwrap();
    for _ in 0..MIN_SEEN {
        // 20 ms for each token.
        let watch = ask(&story, 10);
        story.pass(Duration::from_millis(200));
        watch.heard(story.now);
        watch.counted(10);
    }
    // Twice the bound of its bucket (32.8 ms), 2000 times.
    let long = ask(&story, 2000);
    story.pass(secs(130));
    assert!(!story.is_stalled());
    story.pass(secs(2));
    assert!(story.is_stalled());
    drop(long);
    // The allowance is no longer than the request's timeout, and ends with its first byte.
    let endless = ask(&story, u64::MAX);
    story.pass(secs(599));
    assert!(!story.is_stalled());
    story.pass(secs(2));
    assert!(story.is_stalled());
    endless.heard(story.now);
    endless.waits(story.now);
    story.pass(secs(31));
    assert!(story.is_stalled());
}

#[test]
fn whoever_asks_for_the_first_time_tries_beside_those_who_wait() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    let _waits = story.enter(true).unwrap();
    story.pass(secs(31));
    let first = story.enter(true).unwrap();
    assert!(story.enter(true).is_err());
    let other = story.enter_as(2, false).unwrap();
    assert!(story.enter_as(2, false).is_err());
    // What they hear shows that it was none.
    story.pass(secs(1));
    other.heard(story.now);
    assert!(story.enter(true).is_ok() && story.enter_as(3, true).is_ok());
    drop(first);
}

#[test]
fn nobody_keeps_a_quarantine_up_by_taking_all_trials() {
    let mut story = Story::after(MIN_SEEN, secs(1));
    let mut held = vec![story.enter(true).unwrap()];
    story.pass(secs(31));
    // With more keys than may try at once, each of which asks in each second.
    for _ in 0..600 {
        story.pass(secs(1));
        held.extend((1..=20).filter_map(|key| story.enter_as(key, true).ok()));
    }
    assert!(held.len() < 50, "an engine that hangs gets {} requests in 10 minutes", held.len());
    let mut waited = 0;
    while story.enter_as(99, true).is_err() {
        story.pass(secs(1));
        waited += 1;
    }
    assert!(waited <= 30, "{waited} s");
}

proptest! {
    /// If some request gets a byte within the floor, no request is refused, even if requests overlap or leave; and a
    /// request that has left does not count as waiting.
    #[test]
    fn whoever_makes_progress_is_left_alone(
        steps in prop::collection::vec((0..4_u8, 0..8_usize, 1..25_u64, any::<bool>()), 0..200),
    ) {
        let mut story = Story::after(MIN_SEEN, secs(1));
        let mut running: Vec<Watch> = Vec::new();
        for (action, n, seconds, streams) in steps {
            match action {
                0 => running.push(story.enter(streams).unwrap()),
                1 if !running.is_empty() => drop(running.swap_remove(n % running.len())),
                _ => {
                    story.pass(secs(seconds));
                    // One request gets a byte within the floor.
                    if let Some(first) = running.first() {
                        prop_assert!(!story.is_stalled());
                        first.heard(story.now);
                        first.waits(story.now);
                    }
                }
            }
            prop_assert!(!story.is_stalled());
        }
        drop(running);
        prop_assert!(!story.progress.anybody_waits());
    }
}
