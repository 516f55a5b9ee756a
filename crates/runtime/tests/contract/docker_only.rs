//! Checks what only a real engine can show: isolation, resources, and the errors that the engine alone can make.

use std::{
    collections::HashMap,
    io::{self, Read},
    path::Path,
    time::Duration,
};

use futures_util::StreamExt;
use gantry_domain::{LogWindow, engine::EngineAddress, model::lifecycle::InstanceStatus, net::SubnetRange};
use gantry_package::{
    checksums::Sha256Sum,
    images::{ImageSink, ImageSource, diff_ids, put_together, take_apart},
};
use gantry_runtime::{Runtime, RuntimeError};
use sha2::{Digest, Sha256};

use crate::{
    cases::{saved, stream_of},
    machine::{Behaviour, Machine, new_owner, nowhere, poll},
};

#[tokio::test]
async fn the_port_is_published_on_loopback_only_and_the_container_is_confined() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    m.start(&a, Behaviour::Serves).await.unwrap();
    let seen = serde_json::to_value(m.engine().inspect(&a.name).await.unwrap()).unwrap();
    let ports = &seen["NetworkSettings"]["Ports"]["8000/tcp"];
    assert_eq!(ports.as_array().unwrap().len(), 1, "{ports}");
    assert_eq!(ports[0]["HostIp"], "127.0.0.1");
    let InstanceStatus::Running { address: Some(EngineAddress { port, .. }) } =
        m.found(&a).await.instance.status
    else {
        panic!()
    };
    assert_eq!(ports[0]["HostPort"], port.to_string());
    let host = &seen["HostConfig"];
    assert_eq!(host["Init"], true);
    assert_eq!(host["RestartPolicy"]["Name"], "no");
    assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]));
    assert_eq!(host["SecurityOpt"], serde_json::json!(["no-new-privileges"]));
    assert_eq!(host["Privileged"], false);
    assert_eq!(seen["Config"]["Healthcheck"]["Test"], serde_json::json!(["NONE"]));
}

#[tokio::test]
async fn a_secret_is_in_the_environment_and_nowhere_else() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    m.start(&a, Behaviour::Serves).await.unwrap();
    let mut seen = serde_json::to_value(m.engine().inspect(&a.name).await.unwrap()).unwrap();
    let env = seen["Config"]["Env"].take();
    assert!(env.to_string().contains("VLLM_API_KEY=s3cret-key-of-the-engine"), "{env}");
    assert!(!seen.to_string().contains("s3cret"), "{seen}");
    assert!(!format!("{:?}", m.found(&a).await).contains("s3cret"));
}

#[tokio::test]
async fn models_are_read_only_and_the_hub_cache_is_not() {
    let Some(m) = Machine::docker().await else { return };
    std::fs::write(m.models.path().join("weights"), "42").unwrap();
    let a = m.name();
    let script = "cat /models/weights; echo x 2>/dev/null > /models/new || echo refused; echo y > /hub-cache/new; echo done";
    let mut launch = m.launch_of(&a, Behaviour::Shell(script));
    launch.mounts_hub_cache = true;
    let id = m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap();
    m.ended(&a).await;
    let text = m.runtime.logs(&id, LogWindow::last(10)).await.unwrap();
    assert!(text.starts_with("42") && text.contains("refused") && text.ends_with("done\n"), "{text}");
    assert_eq!(std::fs::read_to_string(m.hub.path().join("new")).unwrap(), "y\n");
    assert!(!m.models.path().join("new").exists());
}

#[tokio::test]
async fn an_engine_reads_the_models_that_the_gateways_user_may_read_and_no_others() {
    let Some(m) = Machine::docker().await else { return };
    let own = m.models.path().join("weights");
    std::fs::write(&own, "42").unwrap();
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let others = m.models.path().join("others");
    std::fs::copy(&own, &others).unwrap();
    let a = m.name();
    // Only root can give files to another user; without root, only the first half is tested.
    let (script, said) = if std::os::unix::fs::chown(&others, Some(12345), Some(12345)).is_ok() {
        ("cat /models/weights; cat /models/others 2>/dev/null || echo refused", "42refused\n")
    } else {
        ("cat /models/weights; echo", "42\n")
    };
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    assert_eq!(m.ended(&a).await, (0, false));
    assert_eq!(m.runtime.logs(&id, LogWindow::last(10)).await.unwrap(), said);
}

#[tokio::test]
async fn a_missing_models_directory_is_an_error_without_its_path() {
    let Some(m) = Machine::docker().await else { return };
    let (a, dir) = (m.name(), nowhere());
    let launch = m.launch_of(&a, Behaviour::Serves);
    let mut spec = m.spec(&a, 1, &launch);
    spec.models_dir = &dir;
    let error = m.runtime.launch(&spec).await.unwrap_err().to_string();
    assert!(error.contains("(the models directory)"), "{error}");
    assert!(!error.contains(dir.to_str().unwrap()), "{error}");
    assert!(!dir.exists());
    assert!(m.engine().inspect(&a.name).await.is_none());
}

/// The container's init starts in any case, so this is no failed start.
#[tokio::test]
async fn a_missing_program_is_an_exit_that_the_logs_explain() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    let mut launch = m.launch_of(&a, Behaviour::Serves);
    launch.entrypoint = Some(vec!["/no/such/program".to_owned()]);
    let id = m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap();
    assert_eq!(m.ended(&a).await, (127, false));
    let text = m.runtime.logs(&id, LogWindow::last(10)).await.unwrap();
    assert!(text.contains("/no/such/program"), "{text}");
}

#[tokio::test]
async fn gpus_that_the_engine_cannot_give_are_an_error_that_names_the_toolkit() {
    let Some(m) = Machine::docker().await else { return };
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let a = m.name();
    let mut launch = m.launch_of(&a, Behaviour::Serves);
    launch.gpus = vec![0];
    let error = m.runtime.launch(&m.spec(&a, 1, &launch)).await.unwrap_err();
    assert!(matches!(error, RuntimeError::GpuUnavailable { .. }), "{error:?}");
    assert!(m.engine().inspect(&a.name).await.is_none(), "nothing is left behind");
}

#[tokio::test]
async fn running_out_of_memory_is_told_from_a_kill() {
    let Some(m) = Machine::docker().await else { return };
    // Under load Docker itself may miss why the kernel killed it, and then the reason can't be known.
    for _ in 0..5 {
        let a = m.name();
        let script = "while [ ! -e /models/go ]; do sleep 0.05; done; x=aaaaaaaa; while :; do x=$x$x; done";
        m.start(&a, Behaviour::Shell(script)).await.unwrap();
        m.engine().limit_memory(&a.name, 16 << 20).await;
        let go = m.models.path().join("go");
        std::fs::write(&go, "").unwrap();
        let (code, out_of_memory) = m.ended(&a).await;
        assert_eq!(code, 137);
        if out_of_memory {
            return;
        }
        println!("Docker did not notice that memory ran out");
        std::fs::remove_file(go).unwrap();
    }
    panic!("Docker never notices that memory runs out");
}

#[tokio::test]
async fn a_paused_container_counts_as_running_and_can_be_stopped() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    let id = m.start(&a, Behaviour::Serves).await.unwrap();
    m.engine().client.pause_container(&a.name).await.unwrap();
    assert!(matches!(m.found(&a).await.instance.status, InstanceStatus::Running { .. }));
    m.runtime.stop(&id, Duration::from_secs(1)).await.unwrap();
    m.ended(&a).await;
}

#[tokio::test]
async fn a_restart_by_hand_is_seen_with_its_new_port() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    m.start(&a, Behaviour::Serves).await.unwrap();
    m.kill(&a).await;
    m.ended(&a).await;
    m.engine().client.start_container(&a.name, None).await.unwrap();
    let InstanceStatus::Running { address: Some(EngineAddress { port, .. }) } =
        m.found(&a).await.instance.status
    else {
        panic!()
    };
    let seen = serde_json::to_value(m.engine().inspect(&a.name).await.unwrap()).unwrap();
    assert_eq!(seen["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"], port.to_string());
}

#[tokio::test]
async fn real_output_becomes_clean_lines() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    let script = r"printf '\033[32mgreen\033[0m\n'; sleep 0.3; echo problem >&2; sleep 0.3; printf 'load 1\rload 2\r'; printf 'no end'";
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    m.ended(&a).await;
    let text = m.runtime.logs(&id, LogWindow::last(100)).await.unwrap();
    assert_eq!(text, "green\nproblem\nload 1\nload 2\nno end\n");
    let followed: Vec<String> =
        m.runtime.follow_logs(&id, LogWindow::last(100)).await.unwrap().collect().await;
    assert_eq!(followed.join("\n") + "\n", text);
}

#[tokio::test]
async fn followed_lines_arrive_while_the_container_runs() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    let script =
        "echo one; while [ ! -e /models/go ]; do sleep 0.05; done; echo two; while :; do sleep 0.05; done";
    let id = m.start(&a, Behaviour::Shell(script)).await.unwrap();
    let mut lines = m.runtime.follow_logs(&id, LogWindow::last(10)).await.unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("one"));
    std::fs::write(m.models.path().join("go"), "").unwrap();
    assert_eq!(lines.next().await.as_deref(), Some("two"));
}

#[tokio::test]
async fn a_launch_that_was_given_up_does_not_block_the_next() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    for millis in [1, 20, 60, 150] {
        let start = m.start(&a, Behaviour::Serves);
        drop(tokio::time::timeout(Duration::from_millis(millis), start).await);
        m.start(&a, Behaviour::Serves).await.unwrap();
    }
    poll(async || (m.runtime.list().await.unwrap().len() == 1).then_some(())).await;
}

#[tokio::test]
async fn an_image_that_is_asked_sees_neither_network_nor_devices_nor_models() {
    let Some(m) = Machine::docker().await else { return };
    let script =
        "cat /proc/net/dev; cat /proc/self/status; ls /models || echo none; read x < /proc/1/comm; echo $x";
    let args = [script];
    let probe =
        gantry_runtime::ImageProbe { image: &m.image, entrypoint: Some(&["/bin/sh", "-c"]), args: &args };
    let said = m.runtime.probe(&probe, Duration::from_mins(1)).await.unwrap();
    assert!(said.contains("lo:") && !said.contains("eth0"), "{said}");
    assert!(said.contains("CapEff:\t0000000000000000") && said.contains("NoNewPrivs:\t1"), "{said}");
    assert!(said.contains("none"), "{said}");
}

#[tokio::test]
async fn logs_begin_at_a_moment() {
    let Some(m) = Machine::docker().await else { return };
    crate::cases::logs_begin_at_a_moment(&m).await;
}

#[tokio::test]
async fn colours_of_a_log_are_kept_for_those_who_want_them() {
    let Some(m) = Machine::docker().await else { return };
    crate::cases::colours_of_a_log_are_kept_for_those_who_want_them(&m).await;
}

#[tokio::test]
async fn a_container_of_an_older_version_is_the_first_instance_of_its_model() {
    let Some(m) = Machine::docker().await else { return };
    let a = m.name();
    let (instance, model) = (m.owner.instance.as_str(), a.model.to_string());
    // All the labels that versions before instance numbers wrote.
    let labels = [
        ("gantry.instance", instance),
        ("gantry.model_id", &model),
        ("gantry.generation", "3"),
        ("gantry.spec_hash", "aa"),
        ("gantry.key_fingerprint", "bb"),
    ];
    m.engine().run(&a.name, &labels).await;
    let found = m.found(&a).await;
    assert_eq!((found.model_id, found.number, found.instance.generation), (a.model, a.number, 3));
    assert!(matches!(found.instance.status, InstanceStatus::Running { .. }), "{found:?}");
    let listed = m.runtime.list().await.unwrap();
    assert_eq!(
        listed.iter().map(|it| (it.number, &it.instance.id)).collect::<Vec<_>>(),
        [(a.number, &found.instance.id)]
    );
    m.runtime.stop(&found.instance.id, Duration::ZERO).await.unwrap();
    m.ended(&a).await;
    // The next start takes its place.
    let new = m.start_generation(&a, 4, Behaviour::Serves).await.unwrap();
    assert_eq!(m.runtime.list().await.unwrap().len(), 1);
    assert_eq!(m.found(&a).await.instance.id, new);
}

#[tokio::test]
async fn networks_take_small_subnets_and_go_with_the_last_container() {
    let Some(m) = Machine::docker().await else { return };
    let network = |owner: &gantry_runtime::Owner| format!("gantry-{}-local", owner.instance);
    let (a, b) = (m.name(), m.name());
    let first = m.start(&a, Behaviour::Serves).await.unwrap();
    let subnet = m.engine().subnet(&network(&m.owner)).await.expect("the network");
    assert!(subnet.starts_with("10.189.") && subnet.ends_with("/26"), "{subnet}");

    // Another gateway whose range begins with what the first one has takes the next subnet.
    let taken: ipnet::Ipv4Net = subnet.parse().unwrap();
    let both = ipnet::Ipv4Net::new(taken.addr(), 25).unwrap().trunc();
    let (owner, launch) = (new_owner(), m.launch_of(&b, Behaviour::Serves));
    let within = |range: ipnet::Ipv4Net| {
        let range = SubnetRange::parse(&range.to_string()).unwrap();
        gantry_runtime::docker(Some(&m.engine().host), owner.clone()).unwrap().with_networks_of(range)
    };
    let other = within(both);
    let second = other.launch(&m.spec(&b, 1, &launch)).await.unwrap();
    let its_own = m.engine().subnet(&network(&owner)).await.expect("the other network");
    assert!(its_own != subnet && both.contains(&its_own.parse::<ipnet::Ipv4Net>().unwrap()), "{its_own}");

    // The network stays as long as there is a container, and goes with the last one.
    let c = m.name();
    let third = m.start(&c, Behaviour::Serves).await.unwrap();
    m.runtime.remove(&first).await.unwrap();
    assert_eq!(m.engine().subnet(&network(&m.owner)).await, Some(subnet));
    m.runtime.remove(&third).await.unwrap();
    assert_eq!(m.engine().subnet(&network(&m.owner)).await, None);
    // It is made again for the next one.
    m.start(&c, Behaviour::Serves).await.unwrap();
    other.remove(&second).await.unwrap();
    assert_eq!(m.engine().subnet(&network(&owner)).await, None);

    // A range without room is named.
    let taken = m.engine().subnet(&network(&m.owner)).await.expect("the network").parse().unwrap();
    let refused = within(taken).launch(&m.spec(&b, 2, &launch)).await.unwrap_err().to_string();
    assert!(refused.contains("ENGINE_NETWORKS") && refused.contains(&taken.to_string()), "{refused}");
}

#[tokio::test]
async fn two_networks_of_one_name_keep_no_engine_from_starting_and_both_go() {
    let Some(m) = Machine::docker().await else { return };
    let name = format!("gantry-{}-local", m.owner.instance);
    assert!(m.engine().make_network(&name).await);
    let twice = m.engine().make_network(&name).await;
    assert_eq!(m.engine().networks(&name).await, if twice { 2 } else { 1 });
    let first = m.start(&m.name(), Behaviour::Serves).await.unwrap();
    m.runtime.remove(&first).await.unwrap();
    assert_eq!(m.engine().networks(&name).await, 0);
}

/// Blobs of a package, in memory.
#[derive(Default)]
struct Blobs(HashMap<Sha256Sum, Vec<u8>>);

impl ImageSink for Blobs {
    fn blob(&mut self, content: &mut dyn Read) -> io::Result<(Sha256Sum, u64)> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let (digest, size) = (Sha256Sum(Sha256::digest(&bytes).into()), bytes.len() as u64);
        self.0.insert(digest, bytes);
        Ok((digest, size))
    }
}

impl ImageSource for Blobs {
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
        let bytes = &self.0[&digest];
        Ok((bytes.len() as u64, Box::new(bytes.as_slice())))
    }
}

#[tokio::test]
async fn images_travel_in_a_package_and_are_the_same() {
    let Some(m) = Machine::docker().await else { return };
    let references = [m.image.clone(), m.add_simulator().await];
    let archive = saved(&m, &references).await.unwrap();
    let mut before = HashMap::new();
    for reference in &references {
        before.insert(reference, m.runtime.image(reference).await.unwrap().expect("the image"));
        m.remove_image(reference).await;
    }
    let mut blobs = Blobs::default();
    let images = take_apart(&mut archive.as_slice(), &mut blobs).unwrap();
    let mut travelled = Vec::new();
    put_together(&images, &blobs, &mut travelled).unwrap();
    assert_eq!(images[0].layers, images[1].layers, "both images have the same tree");
    assert!(travelled.len() as u64 * 2 < 3 * images[0].size, "it travels once");
    let loaded = m.runtime.load(stream_of(&travelled)).await.unwrap();
    assert_eq!(loaded.len(), 2, "{loaded:?}");
    for image in &images {
        let after = m.runtime.image(&image.reference).await.unwrap().expect("the image");
        assert_eq!(after, before[&image.reference]);
        assert_eq!((&after.architecture, &after.version_label), (&image.architecture, &image.version));
        assert!(after.is(&image.config, &diff_ids(image, &blobs).unwrap()), "{after:?}");
    }
    // What was loaded is an image that runs.
    let a = m.name();
    m.start(&a, Behaviour::Exits(7)).await.unwrap();
    assert_eq!(m.ended(&a).await, (7, false));
}
