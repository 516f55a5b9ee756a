//! Checks the promises of [`Runtime`], one function each.

use std::{
    io,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use gantry_domain::{
    Clock, LogWindow,
    engine::Place,
    model::lifecycle::{InstanceId, InstanceStatus},
    runtime,
};
use gantry_runtime::{Found, ImageInfo, ImageProbe, RuntimeError, RuntimeResult};

use crate::machine::{Behaviour, Machine, new_owner, poll};

const GRACE: Duration = Duration::from_mins(1);

pub(crate) async fn a_launched_container_is_found_and_listed_as_launched(m: &Machine) {
    let (a, b) = (m.name(), m.name());
    assert_eq!(m.runtime.find(&a.name).await, Ok(None));
    let id = m.start_generation(&a, 41, Behaviour::Serves).await.unwrap();
    m.start_generation(&b, 7, Behaviour::Serves).await.unwrap();
    let found = m.found(&a).await;
    assert_eq!((&found.instance.id, found.instance.generation), (&id, 41));
    assert_eq!((found.model_id, found.number, &found.name), (a.model, a.number, &a.name));
    assert_eq!(found.spec_hash, m.launch_of(&a, Behaviour::Serves).spec_hash());
    assert_eq!(found.key_fingerprint, "0011223344556677");
    assert!(found.started_at.is_some());
    let InstanceStatus::Running { address: Some(address) } = &found.instance.status else {
        panic!("{found:?}")
    };
    assert!(address.is_loopback() && address.port != 0, "{address}");
    let listed = m.runtime.list().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, [a.name.as_str(), b.name.as_str()]);
    // A list says the same as a look at each, except perhaps for the time when it was started.
    assert_eq!(Found { started_at: found.started_at, ..listed[0].clone() }, found);
}

pub(crate) async fn instances_of_one_model_are_told_apart(m: &Machine) {
    let a = m.name();
    let b = a.beside(1);
    let second = m.start(&b, Behaviour::Serves).await.unwrap();
    let first = m.start(&a, Behaviour::Serves).await.unwrap();
    for (named, id) in [(&a, &first), (&b, &second)] {
        let found = m.found(named).await;
        assert_eq!((found.model_id, found.number, &found.instance.id), (a.model, named.number, id));
    }
    let listed = m.runtime.list().await.unwrap();
    let names: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.number.0)).collect();
    assert_eq!(names, [(a.name.as_str(), 0), (b.name.as_str(), 1)]);
    // A new start of the one leaves the other alone, and so does its end.
    let again = m.start_generation(&a, 2, Behaviour::Serves).await.unwrap();
    m.runtime.remove(&again).await.unwrap();
    let left = m.runtime.list().await.unwrap();
    assert_eq!(left.iter().map(|it| &it.instance.id).collect::<Vec<_>>(), [&second]);
}

pub(crate) async fn a_leftover_is_replaced(m: &Machine) {
    let a = m.name();
    let old = m.start_generation(&a, 1, Behaviour::Exits(1)).await.unwrap();
    m.ended(&a).await;
    let new = m.start_generation(&a, 2, Behaviour::Serves).await.unwrap();
    assert_ne!(old, new);
    assert_eq!(m.found(&a).await.instance.generation, 2);
    assert_eq!(m.runtime.list().await.unwrap().len(), 1);
}

pub(crate) async fn a_running_leftover_is_replaced(m: &Machine) {
    let a = m.name();
    m.start_generation(&a, 1, Behaviour::Stubborn).await.unwrap();
    m.start_generation(&a, 2, Behaviour::Serves).await.unwrap();
    assert_eq!(m.found(&a).await.instance.generation, 2);
}

pub(crate) async fn a_foreign_name_is_refused_and_left_alone(m: &Machine) {
    let a = m.name();
    m.occupy(&a).await;
    let expected = RuntimeError::NameInUse { name: a.name.clone() };
    assert_eq!(m.start(&a, Behaviour::Serves).await, Err(expected.clone()));
    assert_eq!(m.runtime.find(&a.name).await, Ok(None));
    // It is still there.
    assert_eq!(m.start(&a, Behaviour::Serves).await, Err(expected));
}

pub(crate) async fn another_gateways_containers_are_not_seen(m: &Machine) {
    let a = m.name();
    m.start(&a, Behaviour::Serves).await.unwrap();
    let other = m.seen_by(new_owner());
    assert_eq!(other.list().await, Ok(vec![]));
    assert_eq!(other.find(&a.name).await, Ok(None));
}

pub(crate) async fn another_gateways_name_is_refused_and_left_alone(m: &Machine) {
    let a = m.name();
    let id = m.start(&a, Behaviour::Serves).await.unwrap();
    let launch = m.launch_of(&a, Behaviour::Serves);
    let refused = m.seen_by(new_owner()).launch(&m.spec(&a, 1, &launch)).await;
    assert_eq!(refused, Err(RuntimeError::NameInUse { name: a.name.clone() }));
    let found = m.found(&a).await;
    assert_eq!(found.instance.id, id);
    assert!(matches!(found.instance.status, InstanceStatus::Running { .. }), "{found:?}");
}

pub(crate) async fn an_exit_reports_its_code(m: &Machine) {
    for code in [0, 3] {
        let a = m.name();
        m.start(&a, Behaviour::Exits(code)).await.unwrap();
        assert_eq!(m.ended(&a).await, (code, false));
    }
}

pub(crate) async fn a_killed_container_reports_137(m: &Machine) {
    let a = m.name();
    m.start(&a, Behaviour::Serves).await.unwrap();
    m.kill(&a).await;
    assert_eq!(m.ended(&a).await, (137, false));
}

pub(crate) async fn a_graceful_stop_ends_with_the_engines_own_code(m: &Machine) {
    let a = m.name();
    let id = m.start(&a, Behaviour::Prints(&["up"])).await.unwrap();
    poll(async || (m.runtime.logs(&id, LogWindow::last(1)).await.unwrap() == "up\n").then_some(())).await;
    let grace = Duration::from_hours(1);
    let stopped = tokio::time::timeout(Duration::from_mins(2), m.runtime.stop(&id, grace)).await;
    stopped.expect("it does not wait until the grace is over").unwrap();
    assert_eq!(m.ended(&a).await, (0, false));
}

pub(crate) async fn a_stubborn_engine_is_killed_after_the_grace(m: &Machine) {
    let a = m.name();
    let id = m.start(&a, Behaviour::Stubborn).await.unwrap();
    poll(async || (!m.runtime.logs(&id, LogWindow::last(1)).await.unwrap().is_empty()).then_some(())).await;
    let before = Instant::now();
    m.runtime.stop(&id, Duration::from_secs(1)).await.unwrap();
    assert!(before.elapsed() >= Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(m.ended(&a).await, (137, false));
}

pub(crate) async fn stop_and_remove_may_be_repeated(m: &Machine) {
    let a = m.name();
    let id = m.start(&a, Behaviour::Exits(0)).await.unwrap();
    m.ended(&a).await;
    m.runtime.stop(&id, GRACE).await.unwrap();
    m.runtime.remove(&id).await.unwrap();
    assert_eq!(m.runtime.find(&a.name).await, Ok(None));
    m.runtime.remove(&id).await.unwrap();
    m.runtime.stop(&id, GRACE).await.unwrap();
    // A running one is removed too.
    let id = m.start(&a, Behaviour::Stubborn).await.unwrap();
    m.runtime.remove(&id).await.unwrap();
    assert_eq!(m.runtime.list().await, Ok(vec![]));
}

pub(crate) async fn logs_are_the_last_lines(m: &Machine) {
    let a = m.name();
    let id = m.start(&a, Behaviour::Prints(&["one", "two", "three"])).await.unwrap();
    let all = poll(async || {
        let text = m.runtime.logs(&id, LogWindow::last(100)).await.unwrap();
        (text.lines().count() == 3).then_some(text)
    });
    assert_eq!(all.await, "one\ntwo\nthree\n");
    assert_eq!(m.runtime.logs(&id, LogWindow::last(2)).await.unwrap(), "two\nthree\n");
    m.runtime.stop(&id, GRACE).await.unwrap();
    assert_eq!(m.runtime.logs(&id, LogWindow::last(1)).await.unwrap(), "three\n");
}

/// Not for the fake runtime, whose lines have no time.
pub(crate) async fn logs_begin_at_a_moment(m: &Machine) {
    let a = m.name();
    let script = "trap 'exit 0' TERM; echo one; sleep 6; echo two; while :; do sleep 0.05; done";
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    let window = |since| LogWindow { since: Some(since), ..LogWindow::last(9) };
    let of = async |since| m.runtime.logs(&id, window(since)).await.unwrap();
    let begin = poll(async || {
        (m.runtime.logs(&id, LogWindow::last(9)).await.unwrap() == "one\n").then_some(Clock::default().now())
    });
    let begin = begin.await;
    let text = poll(async || {
        Some(m.runtime.logs(&id, LogWindow::last(9)).await.unwrap()).filter(|it| it.ends_with("two\n"))
    });
    assert_eq!(text.await, "one\ntwo\n");
    assert_eq!(of(begin.plus(Duration::from_secs(1))).await, "two\n");
    assert_eq!(of(begin.minus(Duration::from_mins(1))).await, "one\ntwo\n");
    assert_eq!(of(begin.plus(Duration::from_mins(10))).await, "");
    let window = window(begin.plus(Duration::from_secs(1)));
    let mut lines = m.runtime.follow_logs(&id, window).await.unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("two"));
}

/// Not for the fake runtime, whose lines are made of clean text.
pub(crate) async fn colours_of_a_log_are_kept_for_those_who_want_them(m: &Machine) {
    let a = m.name();
    let script =
        r"trap 'exit 0' TERM; printf '\033[31mred\033[0m \033[2Jplain\n'; while :; do sleep 0.05; done";
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    poll(async || (m.runtime.logs(&id, LogWindow::last(9)).await.unwrap() == "red plain\n").then_some(()))
        .await;
    let window = LogWindow { colors: true, ..LogWindow::last(9) };
    assert_eq!(m.runtime.logs(&id, window).await.unwrap(), "\x1b[31mred\x1b[0m plain\n");
    let mut lines = m.runtime.follow_logs(&id, window).await.unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("\x1b[31mred\x1b[0m plain"));
    let mut lines = m.runtime.follow_logs(&id, LogWindow::last(9)).await.unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("red plain"));
}

pub(crate) async fn logs_of_a_gone_container_are_empty(m: &Machine) {
    let gone = InstanceId("0".repeat(64));
    assert_eq!(m.runtime.logs(&gone, LogWindow::last(10)).await.unwrap(), "");
    assert_eq!(m.runtime.follow_logs(&gone, LogWindow::last(10)).await.unwrap().next().await, None);
}

pub(crate) async fn followed_logs_end_with_the_container(m: &Machine) {
    let a = m.name();
    let id = m.start(&a, Behaviour::Prints(&["one", "two"])).await.unwrap();
    poll(async || {
        (m.runtime.logs(&id, LogWindow::last(9)).await.unwrap().lines().count() == 2).then_some(())
    })
    .await;
    let mut lines = m.runtime.follow_logs(&id, LogWindow::last(1)).await.unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("two"));
    m.kill(&a).await;
    let end = tokio::time::timeout(GRACE, lines.next()).await;
    assert_eq!(end.expect("the stream ends"), None);
}

pub(crate) async fn a_missing_image_is_named(m: &Machine) {
    let a = m.name();
    let mut launch = m.launch_of(&a, Behaviour::Serves);
    launch.image = "gantry-test/absent:1".to_owned();
    let refused = m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap_err();
    assert_eq!(refused, RuntimeError::ImageMissing { image: "gantry-test/absent:1".to_owned() });
    assert_eq!(m.runtime.find(&a.name).await, Ok(None));
    assert_eq!(m.runtime.image("gantry-test/absent:1").await, Ok(None));
}

pub(crate) async fn an_image_is_described(m: &Machine) {
    let reference = m.add_simulator().await;
    let image = m.runtime.image(&reference).await.unwrap().expect("the image");
    assert!(image.id.starts_with("sha256:") && image.size_bytes > 0, "{image:?}");
    assert_eq!((image.version_label.as_deref(), image.simulator), (Some("1.2.3"), true));
    assert!(image.created.is_some_and(|it| gantry_domain::Timestamp::parse_rfc3339(&it).is_some()));
}

pub(crate) async fn events_hint_at_the_model(m: &Machine) {
    let mut events = m.runtime.events().await.unwrap();
    let (a, b) = (m.name(), m.name());
    m.start(&a, Behaviour::Serves).await.unwrap();
    let hint = tokio::time::timeout(GRACE, events.next()).await;
    assert_eq!(hint.expect("a hint"), Some(a.model));
    m.start(&b, Behaviour::Serves).await.unwrap();
    m.kill(&b).await;
    let told = async { while events.next().await.expect("no end") != b.model {} };
    tokio::time::timeout(GRACE, told).await.expect("a hint at the other model");
}

pub(crate) async fn the_runtime_introduces_itself(m: &Machine) {
    let (info, traits) = (m.runtime.info().await.unwrap(), m.runtime.traits());
    assert!(!info.version.is_empty(), "{info:?}");
    assert_eq!(info.name, traits.name);
    assert_eq!(runtime::NAMES.contains(&traits.name), !m.is_fake());
    assert!(!traits.instance.is_empty());
}

pub(crate) async fn an_image_is_asked_and_nothing_is_left(m: &Machine) {
    let image = m.image.clone();
    let shell = ["/bin/sh", "-c"];
    let ask = |script: &'static [&'static str]| ImageProbe {
        image: &image,
        entrypoint: Some(&shell),
        args: script,
    };
    m.prints("echo b42; exit 3", Some("b42\n"));
    let said = m.runtime.probe(&ask(&["echo b42; exit 3"]), GRACE).await;
    assert_eq!(said.as_deref(), Ok("b42\n"), "an exit code other than 0 does not matter");
    m.prints("sleep 1000", None);
    let late = m.runtime.probe(&ask(&["sleep 1000"]), Duration::from_millis(1500)).await;
    assert_eq!(late, Err(RuntimeError::Timeout { action: "ask the image" }));
    m.no_probe_runs().await;
    // The caller gives up while it runs.
    let given_up = ask(&["sleep 1000"]);
    let runs = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        m.probe_runs().await
    };
    let id = tokio::select! {
        said = m.runtime.probe(&given_up, GRACE) => panic!("it was not given up: {said:?}"),
        id = runs => id,
    };
    if let Some(id) = id {
        poll(async || (!m.probes().await.contains(&id)).then_some(())).await;
    }
    // On a busy machine the limit above may have passed before Docker had made the container: the next probe removes it.
    assert_eq!(m.runtime.probe(&ask(&["echo b42; exit 3"]), GRACE).await.as_deref(), Ok("b42\n"));
    m.no_probes().await;
    assert!(m.runtime.list().await.unwrap().is_empty(), "it is no model's container");
    let missing = ImageProbe { image: "gantry-test/no-such-image:1", entrypoint: None, args: &["--version"] };
    let error = m.runtime.probe(&missing, GRACE).await.unwrap_err();
    assert_eq!(error, RuntimeError::ImageMissing { image: "gantry-test/no-such-image:1".to_owned() });
}

pub(crate) async fn what_it_says_of_images_is_so(m: &Machine) {
    let traits = m.runtime.traits();
    // No registry answers at this address, so a real runtime that pulls fails at it.
    let absent = "localhost:1/gantry-test/absent:1";
    let pulled = m.runtime.pull(absent, GRACE, Box::new(|_, _| ())).await;
    let there = m.runtime.image(absent).await.unwrap().is_some();
    match (traits.pulls_images, pulled) {
        (true, Ok(())) => assert!(there),
        (true, Err(RuntimeError::Refused { .. })) => assert!(!there),
        (false, Err(RuntimeError::ProgramMissing { program })) => assert_eq!(program, absent),
        (_, other) => panic!("{traits:?}: {other:?}"),
    }
    let saved = saved(m, std::slice::from_ref(&m.image)).await;
    let says = (traits.runs_images, traits.exports_images, traits.loads_archives);
    assert_eq!(says, (saved.is_ok(), saved.is_ok(), saved.is_ok()), "{traits:?}");
    let loaded = m.runtime.load(stream_of(&saved.unwrap_or_default())).await;
    if traits.loads_archives {
        assert_eq!(loaded, Ok(vec![m.image.clone()]), "what was written can be loaded");
    } else {
        assert!(matches!(loaded, Err(RuntimeError::Refused { .. })), "{loaded:?}");
    }
}

/// Returns the archive of these images.
pub(crate) async fn saved(m: &Machine, references: &[String]) -> RuntimeResult<Vec<u8>> {
    let pieces: Vec<Bytes> = m.runtime.save(references).await?.try_collect().await?;
    Ok(pieces.concat())
}

/// Returns an archive as it comes from a disk.
pub(crate) fn stream_of(archive: &[u8]) -> BoxStream<'static, io::Result<Bytes>> {
    let pieces: Vec<_> = archive.chunks(10_000).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
    stream::iter(pieces).boxed()
}

pub(crate) async fn images_that_were_saved_are_loaded_as_they_were(m: &Machine) {
    if !m.runtime.traits().exports_images {
        return;
    }
    let references = [m.image.clone(), m.add_simulator().await];
    let archive = saved(m, &references).await.unwrap();
    let mut before = Vec::new();
    for reference in &references {
        before.push(m.runtime.image(reference).await.unwrap().expect("the image"));
        m.remove_image(reference).await;
        assert_eq!(m.runtime.image(reference).await, Ok(None));
    }
    let mut loaded = m.runtime.load(stream_of(&archive)).await.unwrap();
    loaded.sort();
    assert_eq!(loaded, references);
    for (reference, before) in references.iter().zip(before) {
        let after = m.runtime.image(reference).await.unwrap().expect("the image");
        let facts = |it: &ImageInfo| (it.version_label.clone(), it.simulator, it.architecture.clone());
        assert_eq!(facts(&after), facts(&before));
        assert!(!after.layers.is_empty() && !after.architecture.is_empty(), "{after:?}");
        let config = after.config.clone().unwrap_or_default();
        assert!(after.is(&config, &after.layers) && !after.is("sha256:00", &[]), "{after:?}");
        // The imaginary machine has images that a test made up.
        assert!(m.is_fake() || (before.is(&config, &after.layers) && after.id == before.id), "{after:?}");
    }
}

pub(crate) async fn a_missing_image_is_not_saved(m: &Machine) {
    if !m.runtime.traits().exports_images {
        return;
    }
    let absent = "gantry-test/absent:1".to_owned();
    let refused = saved(m, &[m.image.clone(), absent.clone()]).await.unwrap_err();
    assert_eq!(refused, RuntimeError::ImageMissing { image: absent });
}

pub(crate) async fn an_archive_that_breaks_off_is_not_loaded(m: &Machine) {
    if !m.runtime.traits().loads_archives {
        return;
    }
    let reference = m.add_simulator().await;
    let mut archive = saved(m, std::slice::from_ref(&reference)).await.unwrap();
    m.remove_image(&reference).await;
    archive.truncate(archive.len() - 2000);
    let breaks_off = stream::iter([Err(io::Error::other("the disk is gone"))]);
    let broken = m.runtime.load(stream_of(&archive).chain(breaks_off).boxed()).await;
    assert_eq!(broken, Err(RuntimeError::Archive { detail: "the disk is gone".to_owned() }));
    let cut = m.runtime.load(stream_of(&archive)).await;
    assert!(matches!(cut, Err(RuntimeError::Refused { .. })), "{cut:?}");
    assert_eq!(m.runtime.image(&reference).await, Ok(None));
}

/// The fake runtime has no engines that could look.
pub(crate) async fn engines_see_the_paths_that_it_says(m: &Machine) {
    if m.is_fake() {
        return;
    }
    let dir = m.models.path();
    std::fs::write(dir.join("here"), "").unwrap();
    let place = if m.runtime.traits().host_paths {
        Place::process(dir, m.hub.path())
    } else {
        assert_ne!(Place::container().model("here"), dir.join("here").to_string_lossy());
        Place::container()
    };
    let a = m.name();
    let mut launch = m.launch_of(&a, Behaviour::Shell(""));
    launch.args = vec!["-c".to_owned(), format!("cat {} && exit 7", place.model("here"))];
    m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap();
    assert_eq!(m.ended(&a).await, (7, false));
}

pub(crate) async fn a_variable_is_refused_before_the_start_or_not_at_all(m: &Machine) {
    for name in ["LD_AUDIT", "LC_ALL"] {
        let a = m.name();
        let mut launch = m.launch_of(&a, Behaviour::Exits(0));
        launch.env.push((name.to_owned(), String::new().into()));
        let refused = m.runtime.refused_variable(&launch);
        let started = m.runtime.launch(&m.spec(&a, 1, &launch)).await;
        assert_eq!(refused.is_none(), started.is_ok(), "{refused:?} {started:?}");
        assert!(refused.is_none_or(|it| it == "LD_AUDIT"), "{refused:?}");
    }
}
