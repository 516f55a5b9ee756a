//! `kill -9` of the gateway at arbitrary moments: models come to one true end, and no request is metered twice or not
//! at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gantry_testkit::{Client, EventStream, Gateway, Managed, Options, eventually, simulated, simulator};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");
const CHAT: &str = "/v1/chat/completions";
/// Milliseconds from a command to the kill, drawn once at random; a start here takes some 400 ms until its container
/// runs, and 1 to 2 s until the model does.
const DELAYS: [[u64; 6]; 2] = [[3, 47, 131, 268, 402, 733], [0, 19, 88, 214, 340, 569]];

/// Longest time for what a gateway does by itself: it ends as soon as it is seen.
const SOON: Duration = gantry_testkit::PATIENCE;

/// Sends a command and kills the gateway `delay` later, wherever it is then. The wait is the injected fault. Tells
/// whether the command was answered before.
async fn cut_off(
    gateway: &mut Gateway,
    owner: &Client,
    model: &Managed,
    command: &str,
    delay: u64,
) -> (Client, bool) {
    let moment = tokio::time::sleep(Duration::from_millis(delay));
    tokio::pin!(moment);
    let sent = owner.request(Method::POST, &model.path(command)).send();
    let answered = tokio::select! {
        _ = sent => true,
        () = &mut moment => false,
    };
    if answered {
        moment.await;
    }
    gateway.kill_and_restart().await;
    (gateway.owner().await, answered)
}

/// Waits until nothing changes any more by itself.
async fn settled(owner: &Client, model: &Managed) -> Value {
    eventually("the model settles", SOON, async || {
        let record = model.record(owner).await;
        let settled = ["running", "stopped", "failed"].contains(&record["state"].as_str().unwrap());
        settled.then_some(record)
    })
    .await
}

/// The state is the truth: what runs answers and has the one container; what is stopped has none.
async fn check_truth(gateway: &Gateway, owner: &Client, model: &Managed, what: &str) -> String {
    let record = settled(owner, model).await;
    let state = record["state"].as_str().unwrap();
    let containers = gateway.containers();
    match state {
        "running" => {
            let answer = owner.chat(&model.served_name).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.text);
            assert_eq!(containers, [model.container_id()], "{what}");
            let labels = &model.inspect().unwrap()["Config"]["Labels"];
            assert_eq!(labels["gantry.model_id"], model.id.to_string(), "{what}");
        }
        "stopped" => {
            assert_eq!(owner.chat(&model.served_name).await.code(), "model_not_running", "{what}");
            assert!(containers.is_empty(), "{what}: {containers:?}");
        }
        _ => panic!("{what}: {record}"),
    }
    state.to_owned()
}

async fn commands_are_cut_off(engine: &str, delays: [u64; 6]) {
    let mut gateway = Gateway::start(GANTRY, Options::containers()).await;
    let mut owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated(engine, "m", &[])).await;
    for delay in delays {
        for (command, end) in [("start", "running"), ("apply", "running"), ("stop", "stopped")] {
            let what = format!("{command} cut off after {delay} ms");
            let generation = model.inspect().map(|it| it["Config"]["Labels"]["gantry.generation"].clone());
            let answered;
            (owner, answered) = cut_off(&mut gateway, &owner, &model, command, delay).await;
            let state = check_truth(&gateway, &owner, &model, &what).await;
            if state != end {
                // The kill came before the command was stored: everything is as before, and it can be given again.
                assert!(!answered, "{what}: {state}");
                model.command(&owner, command).await.expect(202);
                model.reaches(&owner, end).await;
            }
            if let (Some(before), Some(after)) = (generation, model.inspect()) {
                let after = after["Config"]["Labels"]["gantry.generation"].as_str().unwrap().parse::<i64>();
                assert!(after.unwrap() >= before.as_str().unwrap().parse().unwrap(), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn commands_to_a_primary_engine_survive_a_kill_at_any_moment() {
    if simulator(GANTRY, "crash: commands, primary engine") {
        commands_are_cut_off("vllm", DELAYS[0]).await;
    }
}

#[tokio::test]
async fn commands_to_a_secondary_engine_survive_a_kill_at_any_moment() {
    if simulator(GANTRY, "crash: commands, secondary engine") {
        commands_are_cut_off("llamacpp", DELAYS[1]).await;
    }
}

#[tokio::test]
async fn a_deletion_survives_a_kill_at_any_moment() {
    if !simulator(GANTRY, "crash: deletion") {
        return;
    }
    let mut gateway = Gateway::start(GANTRY, Options::containers()).await;
    for (n, delay) in [0, 9, 40, 160, 420, 900].into_iter().enumerate() {
        let what = format!("a deletion cut off after {delay} ms");
        let owner = gateway.owner().await;
        let model = Managed::run(&owner, &simulated("vllm", &format!("m{n}"), &[])).await;
        let path = format!("/admin/models/{}", model.id);
        let moment = tokio::time::sleep(Duration::from_millis(delay));
        tokio::pin!(moment);
        let answered = tokio::select! {
            _ = owner.request(Method::DELETE, &path).send() => true,
            () = &mut moment => false,
        };
        if answered {
            moment.await;
        }
        gateway.kill_and_restart().await;
        let owner = gateway.owner().await;
        let deleted = eventually(&what, SOON, async || {
            let record = owner.get(&path).await;
            match record.json["state"].as_str() {
                None => {
                    assert_eq!(record.status, 404, "{what}: {}", record.text);
                    Some(true)
                }
                Some("running") if record.json["deleting"] != true => Some(false),
                Some(_) => None,
            }
        })
        .await;
        if !deleted {
            // The kill came before the command was stored.
            assert!(!answered, "{what}");
            assert_eq!(owner.chat(&model.served_name).await.status, 200, "{what}");
            owner.delete(&path).await;
            eventually(&what, SOON, async || (owner.get(&path).await.status == 404).then_some(())).await;
        }
        // The record is gone for everybody at once, its container a moment later.
        eventually(&what, SOON, async || gateway.containers().is_empty().then_some(())).await;
        assert_eq!(owner.chat(&model.served_name).await.code(), "model_not_found", "{what}");
    }
}

/// Request ids of a round: which the client saw end well, and all.
#[derive(Default)]
struct Sent {
    all: BTreeSet<String>,
    complete: BTreeSet<String>,
}

/// One request; whether its answer came whole.
async fn ask(client: Client, id: String, max_tokens: u32, stream: bool) -> (String, bool) {
    let messages = json!([{ "role": "user", "content": "Tell me something" }]);
    let body = json!({ "model": "m", "stream": stream, "max_tokens": max_tokens, "messages": messages });
    let request = client.request(Method::POST, CHAT).header("x-request-id", &id).json(&body);
    let complete = match request.send().await {
        Err(_) => false,
        Ok(response) if stream => match EventStream::new(response).rest().await {
            Ok(events) => events.last().is_some_and(|it| it == "[DONE]"),
            Err(_) => false,
        },
        Ok(response) => response.text().await.is_ok(),
    };
    (id, complete)
}

async fn rows(owner: &Client) -> BTreeMap<String, Vec<Value>> {
    let all = owner.get("/admin/usage?limit=1000").await.expect(200);
    let mut rows: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in all.as_array().unwrap() {
        rows.entry(row["req_id"].as_str().unwrap().to_owned()).or_default().push(row.clone());
    }
    rows
}

#[tokio::test]
async fn requests_that_ran_when_the_gateway_was_killed_have_one_row_each() {
    if !simulator(GANTRY, "crash: requests in flight") {
        return;
    }
    let mut gateway = Gateway::start(GANTRY, Options::containers()).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[("TOKENS_PER_SEC", "20")])).await;
    let (_, client) = owner.new_key(&json!({})).await;
    let mut tasks = JoinSet::new();
    for n in 0..5 {
        let (id, complete) = ask(client.clone(), format!("done-{n}"), 1, n % 2 == 0).await;
        assert!(complete, "{id}");
    }
    for n in 0..20 {
        tasks.spawn(ask(client.clone(), format!("running-{n}"), 4000, n % 2 == 0));
    }
    let running = eventually("all are at the engine", SOON, async || {
        (model.stat("in_flight").await == 20).then_some(())
    });
    running.await;
    gateway.kill();
    for (id, complete) in tasks.join_all().await {
        assert!(!complete, "{id}");
    }
    gateway.restart().await;
    let owner = gateway.owner().await;
    let rows = eventually("25 rows", SOON, async || {
        let rows = rows(&owner).await;
        (rows.len() >= 25).then_some(rows)
    });
    let rows = rows.await;
    assert_eq!(rows.len(), 25);
    for (id, rows) in rows {
        assert_eq!(rows.len(), 1, "{id}: {rows:?}");
        let row = &rows[0];
        if id.starts_with("done") {
            assert_eq!((&row["outcome"], &row["completion_tokens"]), (&json!("ok"), &json!(1)), "{row}");
        } else {
            assert_eq!(
                (&row["outcome"], &row["estimated"]),
                (&json!("upstream_error"), &json!(true)),
                "{row}"
            );
        }
        assert!(row["prompt_tokens"].as_i64().unwrap() > 0 && row["key_id"].is_i64(), "{row}");
    }
    // The engine stopped working on the requests, because no client waits for them.
    let idle =
        eventually("the engine is idle", SOON, async || (model.stat("in_flight").await == 0).then_some(()));
    idle.await;
    assert_eq!(owner.chat("m").await.status, 200);
}

/// Sends requests without a pause until the gateway is killed: `delay` after the first complete answer, a moment that
/// nothing in it knows.
async fn round(gateway: &mut Gateway, client: &Client, round: usize, delay: u64) -> Sent {
    let mut sent = Sent::default();
    let mut tasks = JoinSet::new();
    let mut next = 0;
    let mut spawn = |tasks: &mut JoinSet<_>, sent: &mut Sent| {
        let id = format!("round-{round}-{next}");
        sent.all.insert(id.clone());
        tasks.spawn(ask(client.clone(), id, 1 + next % 7, next % 2 == 0));
        next += 1;
    };
    for _ in 0..8 {
        spawn(&mut tasks, &mut sent);
    }
    let mut moment = None;
    loop {
        let killed = async {
            match moment {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = killed => break,
            Some(done) = tasks.join_next() => {
                let (id, complete) = done.unwrap();
                assert!(complete, "{id}");
                sent.complete.insert(id);
                moment.get_or_insert_with(|| Instant::now() + Duration::from_millis(delay));
                spawn(&mut tasks, &mut sent);
            }
        }
    }
    gateway.kill();
    while let Some(done) = tasks.join_next().await {
        let (id, complete) = done.unwrap();
        if complete {
            sent.complete.insert(id);
        }
    }
    sent
}

#[tokio::test]
async fn every_answer_that_a_client_got_is_metered_once_whenever_the_gateway_is_killed() {
    if !simulator(GANTRY, "crash: metering under load") {
        return;
    }
    let mut gateway = Gateway::start(GANTRY, Options::containers()).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[("TOKENS_PER_SEC", "300")])).await;
    let (_, client) = owner.new_key(&json!({})).await;
    let mut n_complete = 0;
    let mut all = BTreeSet::new();
    for (n, delay) in [61, 187, 443].into_iter().enumerate() {
        let client = client.at(&gateway.url);
        let sent = round(&mut gateway, &client, n, delay).await;
        n_complete += sent.complete.len();
        gateway.restart().await;
        let owner = gateway.owner().await;
        model.reaches(&owner, "running").await;
        let rows = eventually("what was answered is metered", SOON, async || {
            let rows = rows(&owner).await;
            sent.complete.iter().all(|it| rows.contains_key(it)).then_some(rows)
        });
        let rows = rows.await;
        all.extend(sent.all);
        for (id, rows) in &rows {
            assert!(all.contains(id), "{id} was never sent");
            assert_eq!(rows.len(), 1, "{id}: {rows:?}");
        }
        for id in &sent.complete {
            let row = &rows[id][0];
            assert_eq!((&row["outcome"], &row["estimated"]), (&json!("ok"), &json!(false)), "{row}");
        }
    }
    println!("{n_complete} answers, {} requests", all.len());
}
