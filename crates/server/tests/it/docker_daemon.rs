//! Faults of the container runtime itself: it hangs, it is killed, its socket is gone. On a dockerd of the test's own.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_testkit::{Client, Daemon, Gateway, Managed, Options, eventually, simulated};
use serde_json::{Value, json};

use crate::support::GANTRY;

const SOON: Duration = gantry_testkit::PATIENCE;

/// A gateway on that engine, next to its containers.
async fn gateway(daemon: &Daemon, before: &[&str]) -> Gateway {
    let wrapper = before.iter().map(|it| (*it).to_owned()).chain(daemon.wrapper()).collect();
    let listener = Some(Arc::new(TcpListener::bind("127.0.0.1:0").unwrap()));
    let options = Options { wrapper, listener, ..Options::containers() };
    Gateway::start(GANTRY, options.env("CONTAINER_HOST", &daemon.host())).await
}

/// A start while the runtime is away fails with its reason; what runs goes on.
async fn away(owner: &Client, running: &Managed, other: &Managed, reason: &str) {
    let begun = Instant::now();
    other.command(owner, "start").await.expect(202);
    let failed = other.fails(owner).await;
    assert!(failed.starts_with("start_failed: ") && failed.contains(reason), "{failed}");
    println!("{failed:?} after {:?}", begun.elapsed());
    assert_eq!(owner.chat(&running.served_name).await.status, 200, "{reason}");
    assert_eq!(running.record(owner).await["state"], "running", "{reason}");
    // What it says may be 2 s old.
    eventually("it is not ready for models", SOON, async || {
        (owner.get("/readyz").await.json["checks"]["container_runtime"] != "ok").then_some(())
    })
    .await;
}

async fn comes_up(owner: &Client, model: &Managed) {
    eventually("the start is accepted", SOON, async || {
        (model.command(owner, "start").await.status == 202).then_some(())
    })
    .await;
    model.reaches(owner, "running").await;
    assert_eq!(owner.chat(&model.served_name).await.status, 200);
}

#[tokio::test]
async fn a_daemon_that_hangs_is_away_or_dies_takes_no_truth_with_it() {
    let Some(mut daemon) = Daemon::start(GANTRY, "docker_daemon: hangs, away, dies", false).await else {
        return;
    };
    // Root without the right to ignore permissions.
    let gateway =
        gateway(&daemon, &["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]).await;
    let owner = gateway.owner().await;
    let a = Managed::run(&owner, &simulated("vllm", "a", &[])).await;
    let b = Managed::create(&owner, &simulated("llamacpp", "b", &[])).await;

    daemon.signal("STOP");
    away(&owner, &a, &b, "did not finish `inspect` in time").await;
    daemon.signal("CONT");
    comes_up(&owner, &b).await;
    b.command(&owner, "stop").await.expect(202);
    b.reaches(&owner, "stopped").await;

    let aside = daemon.socket().with_extension("aside");
    fs::rename(daemon.socket(), &aside).unwrap();
    away(&owner, &a, &b, "can't be reached").await;
    fs::rename(&aside, daemon.socket()).unwrap();
    comes_up(&owner, &b).await;
    b.command(&owner, "stop").await.expect(202);
    b.reaches(&owner, "stopped").await;

    let mode = |mode| fs::set_permissions(daemon.socket(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o000);
    away(&owner, &a, &b, "permission denied").await;
    mode(0o660);
    comes_up(&owner, &b).await;

    // The engines live on, their ports are gone with the daemon's proxies: that says nothing about the engines.
    daemon.kill();
    let refused = eventually("its proxies are gone, too", SOON, async || {
        let answer = owner.chat("a").await;
        (answer.status != 200).then_some(answer)
    });
    let refused = refused.await;
    assert_eq!((refused.status, refused.code()), (502, "model_unavailable"), "{}", refused.text);
    b.command(&owner, "stop").await.expect(202);
    // Until then the gateway has looked more than once.
    eventually("it has been probed in vain", SOON, async || {
        let ready = owner.get("/readyz").await.json;
        (ready["checks"]["container_runtime"] != "ok").then_some(())
    })
    .await;
    assert_eq!(a.record(&owner).await["state"], "running");
    assert_eq!(b.record(&owner).await["state"], "stopping");
    // Without live-restore a daemon that comes up ends what ran.
    daemon.restart().await;
    let back = Instant::now();
    let reason = a.fails(&owner).await;
    println!("{reason:?} {:?} after the daemon is back", back.elapsed());
    assert!(reason.starts_with("engine_unhealthy: container"), "{reason}");
    let stopped = b.reaches(&owner, "stopped").await;
    assert_eq!(stopped["state_reason"], Value::Null, "the stop was carried out");
    comes_up(&owner, &a).await;
    let left = daemon.docker(&["ps", "-a", "--format", "{{.Names}}"]);
    assert_eq!(left, a.container);
}

#[tokio::test]
async fn with_live_restore_engines_outlive_their_daemon() {
    let Some(mut daemon) = Daemon::start(GANTRY, "docker_daemon: live-restore", true).await else { return };
    let gateway = gateway(&daemon, &[]).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let life = |daemon: &Daemon| {
        let format = "{{.State.Pid}} {{.State.StartedAt}} {{.RestartCount}}";
        daemon.docker(&["inspect", "--format", format, &model.container])
    };
    let before = life(&daemon);
    daemon.kill();
    assert_eq!(model.record(&owner).await["state"], "running");
    daemon.restart().await;
    let back = Instant::now();
    eventually("it answers again", SOON, async || (owner.chat("m").await.status == 200).then_some(())).await;
    println!("requests are answered {:?} after the daemon is back", back.elapsed());
    assert_eq!(life(&daemon), before);
    let record = model.record(&owner).await;
    assert_eq!((&record["state"], &record["state_reason"]), (&json!("running"), &Value::Null));
    assert_eq!(model.timeline(&owner).await.len(), 3, "nothing happened to it");
}

#[tokio::test]
async fn after_a_reboot_only_what_is_to_start_by_itself_runs_and_everything_can_be_started() {
    let Some(mut daemon) = Daemon::start(GANTRY, "docker_daemon: reboot", false).await else { return };
    let mut gateway = gateway(&daemon, &[]).await;
    let owner = gateway.owner().await;
    let kept = Managed::run(&owner, &simulated("vllm", "kept", &[])).await;
    let gone = Managed::run(&owner, &simulated("llamacpp", "gone", &[])).await;
    let loads = Managed::create(&owner, &simulated("llamacpp", "loads", &[("LOAD_SECONDS", "600")])).await;
    let mut body = simulated("vllm", "auto", &[]);
    body["autostart"] = json!(true);
    let auto = Managed::run(&owner, &body).await;
    for (n, how) in ["power cut", "shutdown"].into_iter().enumerate() {
        let owner = gateway.owner().await;
        loads.start(&owner).await;
        loads.reaches(&owner, "loading").await;
        if how == "shutdown" {
            assert!(gateway.terminate());
            daemon.terminate();
        } else {
            gateway.kill();
            daemon.power_cut();
        }
        daemon.boot().await;
        daemon.docker(&["rm", &gone.container]);
        let booted = Instant::now();
        gateway.restart().await;
        let owner = gateway.owner().await;
        assert_eq!(owner.get("/admin/models").await.status, 200);
        println!("{how}: the API answers {:?} after the start of the gateway", booted.elapsed());
        let reason = kept.fails(&owner).await;
        assert!(reason.starts_with("engine_unhealthy: container "), "{reason}");
        println!("{how}: what ran is `failed`, {reason:?}");
        let record = gone.reaches(&owner, "stopped").await;
        assert_eq!(record["state_reason"], "container_not_found");
        println!("{how}: what loaded is `failed`, {:?}", loads.fails(&owner).await);
        auto.has_been(&owner, "running", n + 2).await;
        println!("{how}: what starts by itself runs {:?} after the start of the gateway", booted.elapsed());
        assert_eq!(owner.chat("auto").await.status, 200);
        let names = daemon.docker(&["ps", "--format", "{{.Names}}"]);
        assert_eq!(names, auto.container, "nothing else was started");
        for model in [&kept, &gone] {
            assert_eq!(owner.chat(&model.served_name).await.code(), "model_not_running");
            comes_up(&owner, model).await;
        }
        loads.command(&owner, "stop").await.expect(202);
        loads.reaches(&owner, "stopped").await;
    }
}

/// The daemon hangs while the gateway is killed and comes up, and goes on later. Somebody asks `/readyz` once and gives up
/// waiting, or nobody does.
#[tokio::test]
async fn a_gateway_that_came_up_while_the_daemon_hung_finds_out_what_happens_later() {
    let Some(daemon) = Daemon::start(GANTRY, "docker_daemon: hangs at the start", false).await else {
        return;
    };
    let mut gateway = gateway(&daemon, &[]).await;
    let owner = gateway.owner().await;
    let stopped = Managed::run(&owner, &simulated("vllm", "stopped", &[])).await;
    let killed = Managed::run(&owner, &simulated("llamacpp", "killed", &[])).await;
    for asked in [true, false] {
        daemon.signal("STOP");
        gateway.kill_and_restart().await;
        let owner = gateway.owner().await;
        if asked {
            let checks = owner.get("/readyz").await.json["checks"].clone();
            assert_eq!(checks["container_runtime"], "it does not answer");
        }
        // The answer comes when the gateway has asked the daemon in vain.
        assert_eq!(owner.get(&stopped.path("logs")).await.code(), "runtime_unavailable");
        for model in [&stopped, &killed] {
            assert_eq!(model.record(&owner).await["state"], "running");
        }
        daemon.signal("CONT");
        let begun = Instant::now();
        stopped.command(&owner, "stop").await.expect(202);
        daemon.docker(&["kill", &killed.container]);
        let reason = killed.fails(&owner).await;
        println!("{reason:?} {:?} after the daemon goes on", begun.elapsed());
        assert!(reason.starts_with("engine_unhealthy: "), "{reason}");
        stopped.reaches(&owner, "stopped").await;
        println!("the stop was carried out {:?} after it", begun.elapsed());
        for model in [&stopped, &killed] {
            model.start(&owner).await;
            model.reaches(&owner, "running").await;
        }
    }
}
