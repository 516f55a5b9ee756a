//! Images that a start has to fetch: from a real registry, from one that drips, from none.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use gantry_testkit::{
    Client, Gateway, Managed, Options, docker, docker_cli, eventually, free_port, inspect, simulated,
    simulator,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    events::Stream,
    image_registry::{Blob, Image, MANIFEST, Registry},
    support::{GANTRY, assert_error},
};

const SOON: Duration = gantry_testkit::PATIENCE;

/// A registry whose first layer never comes to its end. Threads end with the test.
struct Dripping {
    address: String,
    /// Downloads of the layer that go on.
    active: Arc<AtomicUsize>,
    _dir: TempDir,
}

impl Dripping {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = Arc::new(Image::new(dir.path(), 64, None));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let active = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&active);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (image, count) = (Arc::clone(&image), Arc::clone(&count));
                // That the other side hangs up is the point.
                std::thread::spawn(move || drip(stream, &image, &count).ok());
            }
        });
        Self { address, active, _dir: dir }
    }
}

/// Answers one request; of a TLS greeting nothing is understood.
fn drip(mut stream: TcpStream, image: &Image, active: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let head = line.starts_with("HEAD");
    if !line.starts_with("GET") && !head {
        return Ok(());
    }
    let mut skipped = String::new();
    while reader.read_line(&mut skipped)? > 2 {
        skipped.clear();
    }
    let (kind, body) = if path.contains("/manifests/") {
        (MANIFEST, image.manifest.clone())
    } else if path.ends_with(&image.config.digest) {
        ("application/octet-stream", fs::read(&image.config.path)?)
    } else if path.ends_with(&image.layers[0].digest) {
        active.fetch_add(1, SeqCst);
        let done = drip_layer(&mut stream, &image.layers[0]);
        active.fetch_sub(1, SeqCst);
        return done;
    } else {
        ("application/json", b"{}".to_vec())
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nDocker-Distribution-Api-Version: registry/2.0\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    if head { Ok(()) } else { stream.write_all(&body) }
}

fn drip_layer(stream: &mut TcpStream, layer: &Blob) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", layer.size)?;
    let mut file = fs::File::open(&layer.path)?;
    let mut piece = vec![0; 64 << 10];
    // The last MiB is never sent.
    let mut left = layer.size - (1 << 20);
    loop {
        let n = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut piece[..n])?;
        stream.write_all(&piece[..n])?;
        left -= n as u64;
        // The pace of this registry; then it waits until the other side hangs up.
        std::thread::sleep(Duration::from_millis(20));
        if left == 0 {
            stream.read_exact(&mut [0])?;
        }
    }
}

/// Images of registries on loopback may be used.
fn options() -> Options {
    Options::containers().env("ENGINE_IMAGE_ALLOWLIST", "127.0.0.1:*")
}

async fn model_of(owner: &Client, image: &str) -> Managed {
    let mut body = simulated("vllm", "m", &[]);
    body["engine_image"] = json!(image);
    Managed::create(owner, &body).await
}

/// Returns the MiB that are done and the MiB that are known, from the readiness.
async fn progress(owner: &Client, model: &Managed) -> Option<(u64, u64)> {
    let ready = owner.get(&model.path("readiness")).await.expect(200);
    let rest = ready["detail"].as_str().unwrap().strip_prefix("the image is being pulled: ")?.to_owned();
    let mut numbers = rest.split(' ').filter_map(|it| it.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[tokio::test]
async fn an_image_is_pulled_from_a_registry_and_runs() {
    if !simulator(GANTRY, "docker_pulls: a real registry") {
        return;
    }
    let Some(registry) = Registry::start("docker_pulls: a real registry").await else { return };
    let dir = tempfile::tempdir().unwrap();
    registry.take(&Image::simulator(dir.path())).await;
    let name = format!("{}:1", registry.repository());
    let gateway = Gateway::start(GANTRY, options()).await;
    let owner = gateway.owner().await;
    fs::create_dir(gateway.models_dir().join("simulated")).unwrap();
    let model = model_of(&owner, &name).await;
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
    assert_eq!(owner.chat("m").await.status, 200);
    assert_eq!(model.inspect().unwrap()["Config"]["Image"], name);
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    docker_cli(&["rmi", &name]);
}

#[tokio::test]
async fn a_slow_pull_shows_how_far_it_is_and_a_stop_ends_it() {
    if !docker("docker_pulls: a slow registry") {
        return;
    }
    let registry = Dripping::start();
    let gateway = Gateway::start(GANTRY, options()).await;
    let owner = gateway.owner().await;
    let name = format!("{}/engine:1", registry.address);
    let model = model_of(&owner, &name).await;
    let mut events = Stream::open(&owner, "", None).await;
    model.start(&owner).await;
    let first = eventually("some of it is there", SOON, async || progress(&owner, &model).await).await;
    assert_eq!(first.1, 64, "of all {first:?}");
    eventually("more of it is there", SOON, async || {
        let now = progress(&owner, &model).await?;
        assert_eq!(now.1, 64);
        (now.0 > first.0 + 1).then_some(())
    })
    .await;
    assert_eq!(model.record(&owner).await["state"], "starting");
    model.command(&owner, "stop").await.expect(202);
    let stopped = Instant::now();
    assert_eq!(model.reaches(&owner, "stopped").await["state_reason"], Value::Null);
    // A client that watched the events has seen the pull grow, in bytes, and end.
    let mut pulled = Vec::new();
    loop {
        let event = events.next_of("pull").await.data;
        assert_eq!(event["id"], model.id);
        let Some(pull) = event["pull"].as_object() else { break };
        pulled.push((pull["done"].as_u64().unwrap(), pull["known"].as_u64().unwrap()));
    }
    assert!(pulled.is_sorted() && pulled.len() > 1, "{pulled:?}");
    let (begun, last) = (pulled[0], pulled[pulled.len() - 1]);
    assert!(last.0 > begun.0 && last.1 >> 20 == 64, "{pulled:?}");
    eventually("nobody downloads any more", SOON, async || (registry.active.load(SeqCst) == 0).then_some(()))
        .await;
    println!("the download ends {:?} after the stop", stopped.elapsed());
    assert!(gateway.containers().is_empty() && inspect(&model.container).is_none());
}

#[tokio::test]
async fn a_pull_that_takes_too_long_or_finds_nobody_fails_with_its_reason() {
    if !docker("docker_pulls: timeout and nobody there") {
        return;
    }
    let registry = Dripping::start();
    let options = options().env("IMAGE_PULL_TIMEOUT", "3").env("OFFLINE_MODE_AUTO_DETECT", "true");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let name = format!("{}/engine:1", registry.address);
    let model = model_of(&owner, &name).await;
    model.start(&owner).await;
    let reason = model.fails(&owner).await;
    let expected = format!("start_failed: image {name} could not be pulled: ");
    assert!(reason.starts_with(&expected) && reason.contains("in time"), "{reason}");
    eventually("nobody downloads any more", SOON, async || (registry.active.load(SeqCst) == 0).then_some(()))
        .await;

    // Nobody listens there any more.
    let nobody = format!("127.0.0.1:{}", free_port());
    let name = format!("{nobody}/engine:1");
    let change = json!({ "engine_image": name });
    owner.patch(&format!("/admin/models/{}", model.id), &change).await.expect(200);
    let asked = Instant::now();
    let answer = model.command(&owner, "start").await;
    println!("a registry that is not there: refused after {:?}", asked.elapsed());
    let reason = format!(
        "start_failed: image {name} is not available locally and the system is in offline mode (its registry can't \
         be reached)"
    );
    assert_error(&answer, 503, "image_not_available");
    assert_eq!(answer.json["error"]["message"], reason);
    assert_eq!(model.fails(&owner).await, reason);
}
