//! Tests the transition table row by row, and random histories in a simulated world that obeys the plan.

mod again;

use proptest::prelude::*;

use super::*;
use crate::engine::Scheme;

const DEADLINES: Deadlines =
    Deadlines { startup: Duration::from_mins(5), stop: Duration::from_secs(40), drain: Duration::ZERO };

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1000)
}

fn id(name: &str) -> InstanceId {
    InstanceId(name.to_owned())
}

fn seen(generation: i64, status: InstanceStatus) -> Instance {
    Instance { id: id("c1"), generation, status }
}

fn up(generation: i64) -> Instance {
    seen(generation, InstanceStatus::Running { address: Some(EngineAddress::loopback(4000)) })
}

fn loading() -> Phase {
    Phase::Loading { generation: 1, instance: id("c1"), since: at(0), until: at(300) }
}

fn serving() -> Phase {
    Phase::Running { generation: 1, instance: id("c1"), address: EngineAddress::loopback(4000), since: at(0) }
}

#[test]
fn an_engine_on_loopback_is_stored_as_older_versions_store_it_and_others_are_read_back() {
    let old = r#"{"phase":"running","generation":1,"instance":"c1","port":4000,"since":0}"#;
    assert_eq!(serde_json::from_str::<Phase>(old).unwrap(), serving());
    assert_eq!(serde_json::to_string(&serving()).unwrap(), old);
    let address = EngineAddress { scheme: Scheme::Https, host: "10.0.0.7".to_owned(), port: 4000 };
    let far = Phase::Running { generation: 1, instance: id("c1"), address, since: at(0) };
    let text = serde_json::to_string(&far).unwrap();
    assert_eq!(serde_json::from_str::<Phase>(&text).unwrap(), far, "{text}");
}

/// Returns an observation in which generation 1 is wanted running, at second 10, not right after the gateway's start.
fn observe<'a>(phase: &'a Phase, instance: Option<&'a Instance>, health: Health) -> Observed<'a> {
    Observed {
        wanted: Wanted::Running,
        generation: 1,
        phase,
        instance,
        health,
        boot: false,
        watched_since: at(0),
        now: at(10),
        deadlines: DEADLINES,
        in_flight: 0,
        rules: Rules::NONE,
    }
}

fn reason(step: &Step) -> String {
    match step {
        Step::Record(phase) | Step::Halt(_, phase) => match phase {
            Phase::Failed { failure, .. } => failure.to_string(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

#[test]
fn a_start_is_recorded_before_the_container_is_made() {
    let step = plan(&observe(&Phase::NEW, None, Health::Unknown));
    let starting = Phase::Starting { generation: 1, since: at(10) };
    assert_eq!(step, Step::Record(starting.clone()));
    assert_eq!(plan(&observe(&starting, None, Health::Unknown)), Step::Launch);
    let half = seen(1, InstanceStatus::Created);
    assert_eq!(plan(&observe(&starting, Some(&half), Health::Unknown)), Step::Launch);
    let leftover = seen(0, InstanceStatus::Exited { code: 1, out_of_memory: false });
    assert_eq!(plan(&observe(&starting, Some(&leftover), Health::Unknown)), Step::Launch);
}

#[test]
fn a_loading_engine_is_probed_until_it_answers_or_its_time_is_up() {
    let (phase, up) = (loading(), up(1));
    assert_eq!(
        plan(&observe(&phase, Some(&up), Health::Unknown)),
        Step::Probe { address: EngineAddress::loopback(4000) }
    );
    let not_yet = Health::Closed { detail: "refused".into() };
    assert_eq!(plan(&observe(&phase, Some(&up), not_yet.clone())), Step::Wait);
    let ready = plan(&observe(&phase, Some(&up), Health::Ready));
    assert!(
        matches!(&ready, Step::Record(Phase::Running { address, .. }) if *address == EngineAddress::loopback(4000)),
        "{ready:?}"
    );
    let late = Observed { now: at(300), ..observe(&phase, Some(&up), not_yet) };
    assert_eq!(reason(&plan(&late)), "startup_timeout_after_300s");
    let exited = seen(1, InstanceStatus::Exited { code: 1, out_of_memory: false });
    assert_eq!(
        reason(&plan(&observe(&phase, Some(&exited), Health::Unknown))),
        "container_exited: exit code 1"
    );
}

#[test]
fn a_running_engine_fails_at_once_when_dead_and_after_three_slow_probes() {
    let (phase, alive) = (serving(), up(1));
    let probed = |health| reason(&plan(&observe(&phase, Some(&alive), health)));
    assert_eq!(probed(Health::Slow { n: 2 }), "Wait");
    assert_eq!(probed(Health::Slow { n: 3 }), "engine_unhealthy: 3 probes in a row got no answer");
    let wrong = |n| Health::Wrong { n, detail: "/health answers 500".into() };
    assert_eq!(probed(wrong(2)), "Wait");
    let dead = "engine_unhealthy: 3 probes in a row got no good answer, the last: /health answers 500";
    assert_eq!(probed(wrong(3)), dead);
    assert_eq!(probed(Health::OldKey), "Wait");
    assert_eq!(
        probed(Health::Closed { detail: "connection refused".into() }),
        "engine_unhealthy: connection refused"
    );
    // vLLM exits with code 0 when its engine dies: any exit of a running model is a failure.
    let exited = seen(1, InstanceStatus::Exited { code: 0, out_of_memory: false });
    assert_eq!(
        reason(&plan(&observe(&phase, Some(&exited), Health::Unknown))),
        "engine_unhealthy: container exit code 0"
    );
    let moved = seen(1, InstanceStatus::Running { address: Some(EngineAddress::loopback(5000)) });
    let step = plan(&observe(&phase, Some(&moved), Health::Unknown));
    assert!(matches!(step, Step::Record(Phase::Loading { .. })), "its engine loads again: {step:?}");
}

#[test]
fn an_engine_that_got_ready_while_nobody_looked_runs() {
    let (phase, up) = (loading(), up(1));
    let back =
        Observed { now: at(900), watched_since: at(900), ..observe(&phase, Some(&up), Health::Unknown) };
    assert_eq!(plan(&back), Step::Probe { address: EngineAddress::loopback(4000) });
    let ready = plan(&Observed { health: Health::Ready, ..back.clone() });
    assert!(
        matches!(&ready, Step::Record(Phase::Running { address, .. }) if *address == EngineAddress::loopback(4000)),
        "{ready:?}"
    );
    let not_yet = Health::Wrong { n: 1, detail: "/health answers 503".into() };
    assert_eq!(reason(&plan(&Observed { health: not_yet, ..back.clone() })), "startup_timeout_after_300s");
    // While nothing is known about its container, it gets its full time again, once.
    let blind = Observed { instance: None, ..back };
    let Step::Record(anew) = plan_blind(&blind, "no socket") else { panic!("its time is over") };
    assert_eq!(anew, Phase::Loading { generation: 1, instance: id("c1"), since: at(900), until: at(1200) });
    assert_eq!(plan_blind(&Observed { phase: &anew, ..blind.clone() }, "no socket"), Step::Wait);
    let late = Observed { phase: &anew, now: at(1200), ..blind };
    assert_eq!(reason(&plan_blind(&late, "no socket")), "startup_timeout_after_300s");
}

#[test]
fn a_stop_that_a_restart_of_the_gateway_interrupted_is_tried_before_it_fails() {
    let (phase, old) = (Phase::Stopping { generation: 1, since: at(0), until: at(40) }, up(1));
    for wanted in [Wanted::Running, Wanted::Stopped] {
        let back = Observed {
            wanted,
            generation: 2,
            now: at(900),
            watched_since: at(900),
            ..observe(&phase, Some(&old), Health::Unknown)
        };
        let anew = Phase::Stopping { generation: 1, since: at(900), until: at(940) };
        assert_eq!(plan(&back), Step::Record(anew.clone()));
        assert_eq!(plan_blind(&back, "no socket"), Step::Record(anew.clone()));
        let then = Observed { phase: &anew, ..back };
        assert_eq!(plan(&then), Step::Remove(id("c1")));
        let gone = plan(&Observed { instance: None, ..then });
        let follows = match wanted {
            Wanted::Running => Phase::Starting { generation: 2, since: at(900) },
            Wanted::Stopped => Phase::Stopped { generation: 2, lost: false },
        };
        assert_eq!(gone, Step::Record(follows), "the command is not lost");
    }
}

#[test]
fn a_deadline_of_a_clock_that_was_set_back_since_is_set_anew() {
    let up = up(1);
    let loading = Phase::Loading { generation: 1, instance: id("c1"), since: at(90_000), until: at(90_300) };
    let Step::Record(anew) = plan(&observe(&loading, Some(&up), Health::Unknown)) else { panic!("waits") };
    assert_eq!(anew, Phase::Loading { generation: 1, instance: id("c1"), since: at(10), until: at(310) });
    let stopping = Phase::Stopping { generation: 1, since: at(90_000), until: at(90_040) };
    let o = Observed { generation: 2, ..observe(&stopping, Some(&up), Health::Unknown) };
    let anew = Step::Record(Phase::Stopping { generation: 1, since: at(10), until: at(50) });
    assert_eq!((plan(&o), plan_blind(&o, "no socket")), (anew.clone(), anew));
}

#[test]
fn a_container_that_is_gone_is_a_failure_or_after_a_restart_of_the_gateway_a_stop() {
    let phase = serving();
    let gone = observe(&phase, None, Health::Unknown);
    assert_eq!(reason(&plan(&gone)), "engine_unhealthy: container removed");
    let step = plan(&Observed { boot: true, ..gone });
    let lost = Phase::Stopped { generation: 1, lost: true };
    assert_eq!(step, Step::Record(lost.clone()));
    assert_eq!(state(Wanted::Running, 1, &lost), (State::Stopped, Some("container_not_found".into())));
    assert_eq!(
        plan(&observe(&lost, None, Health::Unknown)),
        Step::Wait,
        "it stays down until the next command"
    );
}

#[test]
fn apply_stops_the_old_container_and_starts_anew() {
    let (phase, old) = (serving(), up(1));
    let apply = Observed { generation: 2, ..observe(&phase, Some(&old), Health::Unknown) };
    let Step::Record(stopping) = plan(&apply) else { panic!("stops first") };
    assert_eq!(state(Wanted::Running, 2, &stopping).0, State::Stopping);
    assert_eq!(plan(&Observed { phase: &stopping, ..apply.clone() }), Step::Remove(id("c1")));
    let then = plan(&Observed { phase: &stopping, instance: None, ..apply });
    assert_eq!(then, Step::Record(Phase::Starting { generation: 2, since: at(10) }));
}

#[test]
fn a_swap_lets_requests_in_flight_end_but_not_for_ever() {
    let (phase, old) = (serving(), up(1));
    let drain = Deadlines { drain: Duration::from_secs(20), ..DEADLINES };
    let busy = Observed {
        generation: 2,
        deadlines: drain,
        in_flight: 3,
        ..observe(&phase, Some(&old), Health::Unknown)
    };
    let Step::Record(stopping) = plan(&busy) else { panic!("takes it out of the routes first") };
    let busy = Observed { phase: &stopping, ..busy };
    assert_eq!(plan(&busy), Step::Wait);
    let remove = Step::Remove(id("c1"));
    assert_eq!(plan(&Observed { in_flight: 0, ..busy.clone() }), remove);
    assert_eq!(plan(&Observed { now: at(30), ..busy.clone() }), remove, "their time is up");
    assert_eq!(plan(&Observed { now: at(69), ..busy.clone() }), remove);
    let late = Observed { now: at(70), ..busy };
    assert!(
        reason(&plan(&late)).starts_with("stop_failed: "),
        "the deadline counts from the start of the drain"
    );
}

#[test]
fn a_stop_that_the_runtime_does_not_carry_out_fails_but_is_tried_again() {
    let phase = Phase::Stopping { generation: 1, since: at(0), until: at(10) };
    let old = up(1);
    let stuck =
        Observed { wanted: Wanted::Stopped, generation: 2, ..observe(&phase, Some(&old), Health::Unknown) };
    let Step::Record(failed) = plan(&stuck) else { panic!("records the failure") };
    assert!(state(Wanted::Stopped, 2, &failed).1.unwrap().starts_with("stop_failed: "));
    assert_eq!(plan(&Observed { phase: &failed, ..stuck.clone() }), Step::Remove(id("c1")));
    let gone = plan(&Observed { phase: &failed, instance: None, ..stuck });
    assert_eq!(gone, Step::Record(Phase::Stopped { generation: 2, lost: false }));
}

#[test]
fn without_the_runtime_what_runs_is_left_alone_and_a_start_fails() {
    let blind = |phase: &Phase| plan_blind(&observe(phase, None, Health::Unknown), "no socket");
    assert_eq!(blind(&serving()), Step::Probe { address: EngineAddress::loopback(4000) });
    let refused = Health::Closed { detail: "refused".into() };
    assert_eq!(plan_blind(&observe(&serving(), None, refused), "no socket"), Step::Wait);
    assert_eq!(reason(&blind(&Phase::NEW)), "start_failed: no socket");
    assert_eq!(blind(&loading()), Step::Wait);
    let phase = loading();
    let late = Observed { now: at(300), ..observe(&phase, None, Health::Unknown) };
    assert_eq!(reason(&plan_blind(&late, "no socket")), "startup_timeout_after_300s");
}

#[test]
fn what_a_start_without_the_runtime_left_running_is_removed_when_it_is_back() {
    let old = up(1);
    let failure = Failure::StartFailed { detail: "no socket".into() };
    let failed = Phase::Failed { generation: 2, failure, at: at(5), ran_sec: 0, unwatched: false };
    let o = Observed { generation: 2, ..observe(&failed, Some(&old), Health::Unknown) };
    assert_eq!(plan(&o), Step::Remove(id("c1")));
    assert_eq!(plan(&Observed { instance: None, ..o }), Step::Wait, "and the failure stays");
}

#[test]
fn without_the_runtime_no_command_stays_in_stopping_for_ever() {
    let failure = Failure::ContainerExited { detail: "exit code 1".into() };
    let failed = Phase::Failed { generation: 1, failure, at: at(0), ran_sec: 0, unwatched: false };
    let starting = Phase::Starting { generation: 1, since: at(0) };
    for before in [failed, starting, loading(), serving(), Phase::NEW] {
        for (wanted, generation) in [(Wanted::Stopped, 2), (Wanted::Running, 2)] {
            let (mut phase, mut now) = (before.clone(), at(10));
            for _ in 0..4 {
                let o = Observed { wanted, generation, now, ..observe(&phase, None, Health::Unknown) };
                if let Step::Record(next) = plan_blind(&o, "no socket") {
                    phase = next;
                }
                now = Timestamp(now.0 + 60_000);
            }
            let settled = state(wanted, generation, &phase).0;
            assert!(matches!(settled, State::Failed | State::Stopped), "{before:?} {wanted:?}: {phase:?}");
        }
    }
}

#[test]
fn a_command_shows_before_the_reconciler_has_seen_it() {
    assert_eq!(state(Wanted::Running, 1, &Phase::NEW).0, State::Starting);
    assert_eq!(state(Wanted::Stopped, 2, &serving()).0, State::Stopping);
    assert_eq!(state(Wanted::Running, 2, &serving()).0, State::Stopping);
    assert_eq!(state(Wanted::Stopped, 1, &Phase::NEW).0, State::Stopped);
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Seconds(i64),
    EngineAnswers,
    EngineDies(i64),
    EngineHangs,
    ContainerRemovedByHand,
    Start,
    Stop,
    GatewayRestarts,
    MachineRestarts,
    LaunchRefused,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..400_i64).prop_map(Event::Seconds),
        Just(Event::EngineAnswers),
        (0..3_i64).prop_map(Event::EngineDies),
        Just(Event::EngineHangs),
        Just(Event::ContainerRemovedByHand),
        Just(Event::Start),
        Just(Event::Stop),
        Just(Event::GatewayRestarts),
        Just(Event::MachineRestarts),
        Just(Event::LaunchRefused),
    ]
}

/// A simulated gateway and container runtime that do what the plan says.
struct World {
    wanted: Wanted,
    generation: i64,
    phase: Phase,
    container: Option<Instance>,
    health: Health,
    boot: bool,
    watched_since: Timestamp,
    now: Timestamp,
    made: u32,
    launch_refused: bool,
    /// The restart rules, without the starts so far.
    rules: Rules<'static>,
    starts: Starts,
    /// Every start without a command.
    again: Vec<Timestamp>,
}

/// Restarts within an hour in the property test.
const LIMIT: usize = 3;

impl World {
    fn again(&mut self, cause: Cause) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.wanted, Wanted::Running);
        let may = match cause {
            Cause::Failure => self.rules.on_failure,
            Cause::Autostart => self.rules.autostart && self.boot,
        };
        prop_assert!(may, "{:?}", cause);
        let ran = match self.phase {
            Phase::Failed { ran_sec, .. } => Duration::from_secs(ran_sec),
            _ => Duration::ZERO,
        };
        self.starts = self.starts.and_again(self.now, ran);
        prop_assert!(self.starts.again.len() <= LIMIT);
        self.again.push(self.now);
        self.generation += 1;
        self.boot = false;
        Ok(())
    }

    fn pass(&mut self) -> Result<(), TestCaseError> {
        let mut probed = Health::Unknown;
        for _ in 0..12 {
            let step = plan(&Observed {
                wanted: self.wanted,
                generation: self.generation,
                phase: &self.phase,
                instance: self.container.as_ref(),
                health: std::mem::replace(&mut probed, Health::Unknown),
                boot: self.boot,
                watched_since: self.watched_since,
                now: self.now,
                deadlines: DEADLINES,
                in_flight: 0,
                rules: Rules { starts: Some(&self.starts), ..self.rules },
            });
            match step {
                Step::Restart(cause) => self.again(cause)?,
                Step::Wait => {
                    self.boot = false;
                    return Ok(());
                }
                Step::Record(phase) => {
                    if matches!(phase, Phase::Starting { .. }) {
                        self.rules.rebooted = false;
                    }
                    self.phase = phase;
                }
                Step::Halt(halted, phase) => {
                    let it = self.container.as_mut().filter(|it| it.id == halted);
                    let it = it.ok_or_else(|| TestCaseError::fail("halts what is not there"))?;
                    it.status = InstanceStatus::Exited { code: 143, out_of_memory: false };
                    self.phase = phase;
                }
                Step::Remove(removed) => {
                    prop_assert_eq!(self.container.take().map(|it| it.id), Some(removed));
                }
                Step::Launch if std::mem::take(&mut self.launch_refused) => {
                    let failure = Failure::StartFailed { detail: "refused".into() };
                    self.phase = Phase::Failed {
                        generation: self.generation,
                        failure,
                        at: self.now,
                        ran_sec: 0,
                        unwatched: false,
                    };
                    self.container = None;
                }
                Step::Launch => {
                    prop_assert_eq!(self.wanted, Wanted::Running);
                    self.made += 1;
                    self.health = Health::Closed { detail: "refused".into() };
                    let id = InstanceId(self.made.to_string());
                    let status = InstanceStatus::Running { address: Some(EngineAddress::loopback(4000)) };
                    self.container = Some(Instance { id, generation: self.generation, status });
                }
                Step::Probe { .. } => probed = self.health.clone(),
            }
        }
        Err(TestCaseError::fail(format!("does not settle: {:?} {:?}", self.phase, self.container)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Checks these rules for any sequence of events: the model settles, what runs is what was wanted, a stop leaves
    /// nothing behind, one command makes at most one container, and the model is restarted only if and as often as
    /// allowed.
    #[test]
    fn any_history_settles(
        events in prop::collection::vec(event(), 0..40),
        on_failure in any::<bool>(),
        autostart in any::<bool>(),
    ) {
        let mut world = World {
            wanted: Wanted::Stopped, generation: 0, phase: Phase::NEW, container: None,
            health: Health::Closed { detail: "refused".into() }, boot: false, watched_since: at(0),
            now: at(0), made: 0,
            launch_refused: false,
            rules: Rules { on_failure, autostart, limit: LIMIT, ..Rules::NONE },
            starts: Starts::default(), again: Vec::new(),
        };
        let mut starts = 0;
        for event in events.into_iter().chain([Event::Stop]) {
            match event {
                Event::Seconds(n) => world.now = Timestamp(world.now.0 + n * 1000),
                Event::EngineAnswers => world.health = Health::Ready,
                Event::EngineHangs => world.health = Health::Slow { n: BAD_PROBES },
                Event::EngineDies(code) => if let Some(it) = &mut world.container {
                    it.status = InstanceStatus::Exited { code, out_of_memory: false };
                },
                Event::ContainerRemovedByHand => world.container = None,
                Event::GatewayRestarts => { world.boot = true; world.watched_since = world.now; }
                Event::MachineRestarts => {
                    if let Some(it) = &mut world.container {
                        it.status = InstanceStatus::Exited { code: 137, out_of_memory: false };
                    }
                    (world.boot, world.watched_since, world.rules.rebooted) = (true, world.now, true);
                }
                Event::LaunchRefused => world.launch_refused = true,
                Event::Start => {
                    (world.wanted, world.starts) = (Wanted::Running, Starts::default());
                    world.generation += 1;
                    starts += 1;
                }
                Event::Stop => {
                    (world.wanted, world.starts) = (Wanted::Stopped, Starts::default());
                    world.generation += 1;
                }
            }
            world.pass()?;
            let state = state(world.wanted, world.generation, &world.phase).0;
            prop_assert!(state != State::Running || world.container.as_ref().is_some_and(|it| {
                it.generation == world.generation && matches!(it.status, InstanceStatus::Running { .. })
            }), "routes to nothing");
            prop_assert!(state != State::Failed || !world.container.as_ref().is_some_and(|it| {
                matches!(it.status, InstanceStatus::Running { .. })
            }), "a failed model holds memory");
        }
        let again = world.again.len();
        prop_assert!(again == 0 || on_failure || autostart);
        let starts = starts + u32::try_from(again).unwrap();
        prop_assert!(world.made <= starts, "{} containers for {starts} starts", world.made);
        prop_assert!(world.container.is_none());
        prop_assert_eq!(world.phase, Phase::Stopped { generation: world.generation, lost: false });
    }
}
