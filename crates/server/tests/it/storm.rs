//! Many commands at once, and many kills: models end where the last accepted command says, with exactly the containers
//! that this takes.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_testkit::{
    Client, Database, Gateway, Managed, ModelIds, Options, docker_cli, eventually, number, simulated,
    simulator,
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{GANTRY, on_each_database};

/// Longest time that anything may stay on its way; a simulated engine is up within seconds.
const SETTLES: Duration = gantry_testkit::PATIENCE;
/// What one of two gateways stored the other one serves within this time: it looks every half second, on a machine that
/// lets it.
const TOLD: Duration = gantry_testkit::PATIENCE;
const COMMANDS: [&str; 3] = ["start", "stop", "apply"];

/// `GANTRY_SEED` repeats a history as far as its timing allows.
pub(crate) fn random() -> (u64, StdRng) {
    let seed = number("GANTRY_SEED").unwrap_or_else(|| rand::rng().random());
    println!("GANTRY_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

/// The commands that were accepted for a model, oldest first, as its timeline has them.
async fn accepted(owner: &Client, model: &Managed) -> Vec<String> {
    let events = owner.get(&model.path("events?limit=1000")).await.expect(200);
    let commands = events.as_array().unwrap().iter().rev().filter_map(|it| {
        let word = it["detail"].as_str()?.strip_suffix(" by owner")?;
        COMMANDS.contains(&word).then(|| word.to_owned())
    });
    commands.collect()
}

/// Containers of a gateway: model id to (generation, id, running). Fails if a model has two.
fn containers(gateway: &Gateway) -> BTreeMap<i64, (usize, String, bool)> {
    let mine = format!("label=gantry.instance={}", gateway.instance());
    let format =
        "{{.Label \"gantry.model_id\"}} {{.Label \"gantry.generation\"}} {{.ID}} {{.State}} {{.Names}}";
    let all = docker_cli(&["ps", "-a", "--no-trunc", "--filter", &mine, "--format", format]);
    let mut found = BTreeMap::new();
    for line in all.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let seen = (words[1].parse().unwrap(), words[2].to_owned(), words[3] == "running");
        let twice = found.insert(words[0].parse().unwrap(), seen);
        assert!(twice.is_none(), "two containers of one model:\n{all}");
    }
    found
}

/// Waits until nothing is on its way, and holds everything that can be seen against the last accepted commands. `lag`
/// is how long requests may see the state before: not at all at the gateway that supervises.
async fn all_is_as_commanded(
    gateway: &Gateway,
    owner: &Client,
    models: &[Managed],
    what: &str,
    lag: Duration,
) {
    for model in models {
        let commands = accepted(owner, model).await;
        let end = match commands.last().map(String::as_str) {
            None | Some("stop") => "stopped",
            Some(_) => "running",
        };
        let about = format!("{what}: {} after {commands:?}", model.served_name);
        let record = eventually(&about, SETTLES, async || {
            let record = model.record(owner).await;
            ["running", "stopped", "failed"].contains(&record["state"].as_str().unwrap()).then_some(record)
        });
        let record = record.await;
        assert_eq!((&record["state"], &record["state_reason"]), (&json!(end), &Value::Null), "{about}");
        let status = if end == "running" { 200 } else { 503 };
        let served = format!("{about}: requests get {status}");
        let answer = eventually(&served, lag, async || {
            let answer = owner.chat(&model.served_name).await;
            (answer.status == status).then_some(answer)
        });
        let answer = answer.await;
        let found = containers(gateway).remove(&model.id);
        if end == "running" {
            let (generation, id, running) = found.unwrap();
            assert_eq!((generation, running), (commands.len(), true), "{about}: it is of the last command");
            assert_eq!(model.container_id(), id, "{about}");
        } else {
            assert_eq!(answer.code(), "model_not_running", "{about}: {}", answer.text);
            assert_eq!(found, None, "{about}");
        }
    }
    let known: Vec<i64> = models.iter().map(|it| it.id).collect();
    let strangers: Vec<_> = containers(gateway).into_keys().filter(|it| !known.contains(it)).collect();
    assert_eq!(strangers, [0; 0], "{what}");
}

/// One client's share of the storm; how many commands to each model were accepted.
async fn client(owner: Client, models: Vec<Managed>, mut rng: StdRng, calls: usize) -> BTreeMap<i64, usize> {
    let mut accepted = BTreeMap::new();
    for _ in 0..calls {
        let model = models.choose(&mut rng).unwrap();
        let (what, answer) = match rng.random_range(0..10) {
            0..3 => ("start", model.command(&owner, "start").await),
            3..5 => ("stop", model.command(&owner, "stop").await),
            5..7 => ("apply", model.command(&owner, "apply").await),
            7..9 => {
                let change = json!({ "startup_timeout_sec": rng.random_range(60..600) });
                ("patch", owner.patch(&format!("/admin/models/{}", model.id), &change).await)
            }
            _ => ("readiness", owner.get(&model.path("readiness")).await),
        };
        match (what, answer.status) {
            ("start" | "stop" | "apply", 202) => *accepted.entry(model.id).or_default() += 1,
            // Started already; stopped already.
            ("start", 409) | ("stop" | "patch" | "readiness", 200) => {}
            _ => panic!("{what} of {}: {} {}", model.served_name, answer.status, answer.text),
        }
    }
    accepted
}

on_each_database! {
    async fn a_storm_of_commands_ends_where_the_last_one_says(database: Database) {
        if !simulator(GANTRY, "storm: 200 calls of 10 clients on 5 models") {
            return;
        }
        let (seed, _) = random();
        let gateway = Gateway::start(GANTRY, Options::containers().on(database)).await;
        let owner = gateway.owner().await;
        let mut models = Vec::new();
        for n in 0..5 {
            let engine = if n % 2 == 0 { "vllm" } else { "llamacpp" };
            models.push(Managed::create(&owner, &simulated(engine, &format!("m{n}"), &[])).await);
        }
        let begun = Instant::now();
        let mut clients = JoinSet::new();
        for n in 0..10 {
            let rng = StdRng::seed_from_u64(seed.wrapping_add(n));
            clients.spawn(client(owner.clone(), models.clone(), rng, 20));
        }
        let mut told: BTreeMap<i64, usize> = BTreeMap::new();
        for (id, n) in clients.join_all().await.into_iter().flatten() {
            *told.entry(id).or_default() += n;
        }
        let stormed = begun.elapsed();
        for model in &models {
            let commands = accepted(&owner, model).await;
            let told = told.get(&model.id).copied().unwrap_or_default();
            assert_eq!(commands.len(), told, "what was accepted is in the timeline: {commands:?}");
        }
        all_is_as_commanded(&gateway, &owner, &models, "storm", Duration::ZERO).await;
        println!("{database:?}: 200 calls in {stormed:?}, settled after {:?}", begun.elapsed());
    }
}

/// Two gateways on one database and one Docker engine, as while one takes the other's place: each command is carried
/// out once, whichever gateway took it.
#[tokio::test]
async fn a_storm_over_two_gateways_leaves_one_container_for_each_model() {
    const TEST: &str = "storm: two gateways on one database and one Docker engine";
    if !simulator(GANTRY, TEST) || Database::all(TEST).len() < 2 {
        return;
    }
    let (seed, _) = random();
    let shared = |options: Options| {
        options
            .env("INTERNAL_ENGINE_API_KEY", "the-same-for-both-gateways")
            .env("SESSION_SECRET", &"s".repeat(32))
    };
    let one = Gateway::start(GANTRY, shared(Options::containers().on(Database::Postgres))).await;
    let options = shared(Options::containers()).env("DATABASE_URL", &one.database_url().unwrap());
    let two = Gateway::start(GANTRY, Options { model_ids: ModelIds::FromOne, ..options }).await;
    let owners = [one.owner().await, two.owner().await];
    let mut models = Vec::new();
    for n in 0..3 {
        let engine = if n % 2 == 0 { "vllm" } else { "llamacpp" };
        models.push(Managed::create(&owners[n % 2], &simulated(engine, &format!("m{n}"), &[])).await);
    }
    // Send the same command to both gateways at once.
    for model in &models {
        let (a, b) = tokio::join!(model.command(&owners[0], "start"), model.command(&owners[1], "start"));
        let mut statuses = [a.status, b.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [202, 409], "{} {}", a.text, b.text);
    }
    for owner in &owners {
        all_is_as_commanded(&one, owner, &models, "started by both", TOLD).await;
    }
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for n in 0..6 {
        let rng = StdRng::seed_from_u64(seed.wrapping_add(n));
        clients.spawn(client(owners[n as usize % 2].clone(), models.clone(), rng, 12));
    }
    clients.join_all().await;
    let stormed = begun.elapsed();
    for owner in &owners {
        all_is_as_commanded(&one, owner, &models, "storm over two", TOLD).await;
    }
    println!("72 calls to two gateways in {stormed:?}, settled after {:?}", begun.elapsed());
    // The one that looks after them dies; the other one does it from then on.
    let mut one = one;
    one.kill();
    let died = Instant::now();
    for model in &models {
        model.command(&owners[1], "apply").await.expect(202);
    }
    for model in &models {
        eventually("it is carried out", SETTLES, async || {
            let commands = accepted(&owners[1], model).await;
            let (generation, ..) = containers(&two).remove(&model.id)?;
            let record = model.record(&owners[1]).await;
            (generation == commands.len() && record["state"] == "running").then_some(())
        })
        .await;
    }
    println!(
        "three models applied {:?} after the death of the gateway that looked after them",
        died.elapsed()
    );
    all_is_as_commanded(&two, &owners[1], &models, "one gateway is left", Duration::ZERO).await;
    drop(two);
    drop(one);
}

/// Two that are left alone: whatever happens to the gateway, they serve.
struct Steady {
    models: Vec<Managed>,
    started: Vec<Value>,
}

impl Steady {
    fn new(models: Vec<Managed>) -> Self {
        let started = Self::started(&models);
        Self { models, started }
    }

    /// When each container was started, and which it is.
    fn started(models: &[Managed]) -> Vec<Value> {
        let names: Vec<_> = models.iter().map(|it| it.container.as_str()).collect();
        let format = "[\"{{.Id}}\",\"{{.State.StartedAt}}\",{{.State.Running}}]";
        let seen = docker_cli(&[&["inspect", "--format", format][..], &names].concat());
        seen.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
    }

    /// The first request to each, on a connection of its own; how long all took together.
    async fn answer(&self, client: &Client) -> Duration {
        let begun = Instant::now();
        let mut requests = JoinSet::new();
        for model in &self.models {
            let (client, name) = (client.at(&client.url), model.served_name.clone());
            requests.spawn(async move { (client.chat(&name).await, name) });
        }
        for (answer, name) in requests.join_all().await {
            assert_eq!(answer.status, 200, "the first request to {name}: {}", answer.text);
        }
        begun.elapsed()
    }
}

/// `GANTRY_KILLS=100` is the long version (`make test-long`).
#[tokio::test]
async fn a_gateway_that_is_killed_again_and_again_loses_no_model_and_no_truth() {
    if !simulator(GANTRY, "storm: kill -9 at random moments") {
        return;
    }
    let kills = number("GANTRY_KILLS").unwrap_or(25);
    let (_, mut rng) = random();
    // A socket that outlives the gateway: the first request after a kill is there before the gateway is.
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let options = Options { listener: Some(listener), ..Options::containers() };
    let mut gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let (_, key) = owner.new_key(&json!({})).await;
    let mut steady = Vec::new();
    for (name, engine) in [("steady-a", "vllm"), ("steady-b", "llamacpp")] {
        steady.push(Managed::run(&owner, &simulated(engine, name, &[])).await);
    }
    let steady = Steady::new(steady);
    let mut busy = Vec::new();
    for (name, engine) in [("busy-a", "vllm"), ("busy-b", "llamacpp"), ("busy-c", "vllm")] {
        busy.push(Managed::create(&owner, &simulated(engine, name, &[])).await);
    }
    let all = [&steady.models[..], &busy[..]].concat();
    let (mut back, mut moments) = (Vec::new(), BTreeMap::<String, usize>::new());
    for kill in 1..=kills {
        let model = busy.choose(&mut rng).unwrap();
        let command = COMMANDS.choose(&mut rng).unwrap();
        // The wait is the injected fault: a command is carried out in 0.5 to 2 s here.
        let moment = tokio::time::sleep(Duration::from_millis(rng.random_range(0..900)));
        tokio::pin!(moment);
        let sent = owner.request(Method::POST, &model.path(command)).send();
        let answered = tokio::select! {
            answer = sent => answer.is_ok(),
            () = &mut moment => false,
        };
        if answered {
            moment.await;
        }
        gateway.kill();
        let ((), took) = tokio::join!(gateway.restart(), steady.answer(&key));
        back.push(took);
        assert_eq!(Steady::started(&steady.models), steady.started, "kill {kill}: nothing was started again");
        for model in &busy {
            let state = model.record(&owner).await["state"].as_str().unwrap().to_owned();
            *moments.entry(state).or_default() += 1;
        }
        containers(&gateway);
        // Now and then all may settle; between, a kill hits what the last one left.
        if kill % 12 == 0 || kill == kills {
            all_is_as_commanded(&gateway, &owner, &all, &format!("kill {kill}"), Duration::ZERO).await;
        }
    }
    for model in &steady.models {
        assert_eq!(model.timeline(&owner).await.len(), 3, "nothing happened to {}", model.served_name);
    }
    back.sort_unstable();
    let (median, max) = (back[back.len() / 2], back[back.len() - 1]);
    println!(
        "{kills} kills; first answers after the next start of the process: median {median:?}, max {max:?}"
    );
    println!("states found right after the kills: {moments:?}");
}
