//! Tests when a model is restarted without a command.

use super::{super::again::STEADY, *};

/// Rules with the `restart_policy` `on_failure` and at most two restarts within an hour.
fn on_failure(starts: &Starts) -> Rules<'_> {
    Rules { on_failure: true, limit: 2, starts: Some(starts), ..Rules::NONE }
}

fn autostart(starts: &Starts) -> Rules<'_> {
    Rules { autostart: true, limit: 2, starts: Some(starts), ..Rules::NONE }
}

fn crashed(at: Timestamp, ran_sec: u64) -> Phase {
    let failure = Failure::EngineUnhealthy { detail: "container exit code 1".into() };
    Phase::Failed { generation: 1, failure, at, ran_sec, unwatched: false }
}

#[test]
fn a_failure_is_followed_by_starts_with_growing_pauses_until_it_is_given_up() {
    let mut starts = Starts::default();
    let mut now = at(100);
    for pause in [1, 5] {
        let phase = crashed(now, 3);
        let due = now.plus(Duration::from_secs(pause));
        assert_eq!(on_failure(&starts).after(&phase), Again::At(due));
        let o = |now| Observed { now, rules: on_failure(&starts), ..observe(&phase, None, Health::Unknown) };
        assert_eq!(plan(&o(Timestamp(due.0 - 1))), Step::Wait);
        assert_eq!(plan(&o(due)), Step::Restart(Cause::Failure));
        // Meanwhile its container is kept for the log.
        let kept = seen(1, InstanceStatus::Exited { code: 1, out_of_memory: false });
        assert_eq!(plan(&Observed { instance: Some(&kept), ..o(due) }), Step::Restart(Cause::Failure));
        // If the clock was set back, nothing waits for years.
        assert_eq!(plan(&o(at(0))), Step::Restart(Cause::Failure));
        assert_eq!(plan_blind(&o(due), "no socket"), Step::Wait, "it would fail at once");
        starts = starts.and_again(due, Duration::from_secs(3));
        now = due;
    }
    let phase = crashed(now, 3);
    assert_eq!(on_failure(&starts).after(&phase), Again::GivenUp);
    let later =
        Observed { now: at(99_999), rules: on_failure(&starts), ..observe(&phase, None, Health::Unknown) };
    assert_eq!(plan(&later), Step::Wait);
    // After a long run, or an hour later, the count begins anew.
    let begun = |ran_sec, failed_at: i64| on_failure(&starts).after(&crashed(at(failed_at), ran_sec));
    assert_eq!(begun(600, 200), Again::At(at(201)));
    assert_eq!(begun(3, 9_999), Again::At(at(10_000)));
    assert_eq!(starts.and_again(at(900), STEADY).again, [at(900)]);
}

#[test]
fn what_a_start_can_not_mend_is_not_tried_again() {
    let (starts, detail) = (Starts::default(), "x".to_owned());
    for failure in [
        Failure::ImageNotAvailable { detail: detail.clone() },
        Failure::EngineMissing { detail: detail.clone() },
        Failure::FileMissing { field: "local_path".into(), detail: detail.clone() },
    ] {
        let phase = Phase::Failed { generation: 1, failure, at: at(5), ran_sec: 0, unwatched: false };
        assert_eq!(on_failure(&starts).after(&phase), Again::No, "{phase:?}");
    }
    let rebooted = Rules { rebooted: true, ..on_failure(&starts) };
    assert_eq!(rebooted.after(&crashed(at(5), 0)), Again::No, "`autostart` decides");
}

#[test]
fn autostart_starts_what_ended_while_nobody_watched() {
    let starts = Starts::default();
    let (phase, ended) = (serving(), seen(1, InstanceStatus::Exited { code: 137, out_of_memory: false }));
    let back = Observed {
        boot: true,
        watched_since: at(900),
        now: at(900),
        rules: autostart(&starts),
        ..observe(&phase, Some(&ended), Health::Unknown)
    };
    let Step::Record(failed) = plan(&back) else { panic!("says so first") };
    assert!(matches!(failed, Phase::Failed { unwatched: true, .. }), "{failed:?}");
    let then = Observed { phase: &failed, ..back.clone() };
    assert_eq!(plan(&then), Step::Restart(Cause::Autostart));
    assert_eq!(plan(&Observed { rules: Rules::NONE, ..then.clone() }), Step::Wait);
    assert_eq!(plan(&Observed { boot: false, ..then.clone() }), Step::Wait, "only when the gateway comes up");
    // The container is gone as well.
    let Step::Record(lost) = plan(&Observed { instance: None, ..back.clone() }) else {
        panic!("says so first")
    };
    assert_eq!(lost, Phase::Stopped { generation: 1, lost: true });
    let gone = Observed { phase: &lost, instance: None, ..back.clone() };
    assert_eq!(plan(&gone), Step::Restart(Cause::Autostart));
    // A failure that a gateway saw is left alone, unless the machine was restarted since.
    let phase = crashed(at(10), 0);
    let seen = Observed { phase: &phase, ..back.clone() };
    assert_eq!(plan(&seen), Step::Wait);
    let rules = Rules { rebooted: true, ..autostart(&starts) };
    assert_eq!(plan(&Observed { rules, ..seen }), Step::Restart(Cause::Autostart));
    // A model that brings down the gateway again and again is left alone.
    let often = Starts { boot: None, again: vec![at(880), at(890)] };
    assert_eq!(plan(&Observed { rules: autostart(&often), ..gone }), Step::Wait);
}

#[test]
fn a_failed_model_whose_container_is_gone_is_stopped_when_the_gateway_comes_up() {
    let phase = crashed(at(5), 0);
    let o = Observed { boot: true, ..observe(&phase, None, Health::Unknown) };
    assert_eq!(plan(&o), Step::Record(Phase::Stopped { generation: 1, lost: true }));
    assert_eq!(plan(&Observed { boot: false, ..o.clone() }), Step::Wait);
    let starts = Starts::default();
    assert_eq!(
        plan(&Observed { rules: on_failure(&starts), now: at(5), ..o.clone() }),
        Step::Wait,
        "a start is due"
    );
    // A failure without a container keeps its reason.
    let failure = Failure::FileMissing { field: "local_path".into(), detail: "x".into() };
    let never = Phase::Failed { generation: 1, failure, at: at(5), ran_sec: 0, unwatched: false };
    assert_eq!(plan(&Observed { phase: &never, ..o }), Step::Wait);
}

#[test]
fn an_engine_that_a_failure_left_running_gets_its_grace_before_the_next_start() {
    let (phase, old) = (Phase::Starting { generation: 2, since: at(10) }, up(1));
    let o = Observed { generation: 2, ..observe(&phase, Some(&old), Health::Unknown) };
    assert_eq!(plan(&o), Step::Remove(id("c1")));
    assert_eq!(plan(&Observed { now: at(50), ..o }), Step::Launch, "which removes it by force");
}
