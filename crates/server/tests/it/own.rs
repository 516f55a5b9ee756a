//! What every user finds out about themselves without anybody's help, signed in or with a token.

use gantry_testkit::{Database, Managed, Options, kill_process, simulated};
use serde_json::json;

use crate::{
    events::Stream,
    simulator::Simulator,
    support::{assert_error, assert_invalid, column},
    team::{Team, id, make_key, make_token},
};

#[tokio::test]
async fn a_plain_user_sees_the_own_usage_and_nobody_else_s() {
    for database in Database::one("a_plain_user_sees_the_own_usage") {
        let team = Team::with(Options::default().on(database)).await;
        let simulator = Simulator::start("").await;
        simulator.join(&team.gateway).await;
        let own = team.user.post("/auth/keys", &json!({ "name": "laptop" })).await.expect(201);
        let laptop = team.user.with_key(own["token"].as_str().unwrap());
        let (_, other) = team.owner.new_key(&json!({ "org_id": team.tenant })).await;
        let ask = json!({ "model": "m", "prompt": "one two", "max_tokens": 4 });
        let mut tokens = 0;
        for (client, is_own) in [(&laptop, true), (&team.user, true), (&other, false)] {
            let answer = client.post("/v1/completions", &ask).await;
            let row = team.owner.usage_of(answer.header("x-request-id").unwrap()).await;
            if is_own {
                tokens += row["total_tokens"].as_i64().unwrap();
            }
        }
        let me = id(&team.user.get("/auth/me").await.expect(200)["user"]);
        let script = make_token(&team.user, "account:read").await;
        let script = team.gateway.client().with_key(script["token"].as_str().unwrap());
        for client in [&team.user, &script] {
            let rows = client.get("/auth/usage").await;
            assert_eq!(rows.header("x-total-count"), Some("2"), "{}", rows.text);
            assert!(column(&rows.json, "user_id").iter().all(|it| **it == json!(me)), "{}", rows.text);
            let groups = client.get("/auth/usage/aggregate?group_by=key&sort=group").await;
            assert_invalid(&groups, &["sort"]);
            let groups = client.get("/auth/usage/aggregate?group_by=key").await.expect(200);
            let sum: i64 = column(&groups, "total_tokens").iter().filter_map(|it| it.as_i64()).sum();
            assert_eq!((groups.as_array().unwrap().len(), sum), (2, tokens), "{groups}");
            let series = client.get("/auth/usage/series?hours=1&bucket=minute").await.expect(200);
            let n: i64 = column(&series, "requests").iter().filter_map(|it| it.as_i64()).sum();
            assert_eq!(n, 2, "{series}");
            let one = format!("/auth/usage?key_id={}&model=m", own["id"]);
            assert_eq!(client.get(&one).await.expect(200).as_array().unwrap().len(), 1);
        }
        // The filters that would reach further are not there.
        assert_invalid(&team.user.get(&format!("/auth/usage?user_id={me}")).await, &["user_id"]);
        assert_invalid(&team.user.get("/auth/usage/series?org_id=1").await, &["org_id"]);
        let foreign = make_key(&team.owner, &json!({})).await;
        let foreign = team.user.get(&format!("/auth/usage?key_id={}", foreign["id"])).await;
        assert_eq!(foreign.expect(200), json!([]));
        drop(simulator);
    }
}

#[tokio::test]
async fn a_refusal_says_where_the_own_part_is() {
    let team = Team::on(Database::Sqlite).await;
    for (path, own) in [
        ("/admin/usage", "GET /auth/usage"),
        ("/admin/usage/aggregate", "GET /auth/usage/aggregate"),
        ("/admin/usage/latency", "GET /auth/usage"),
        ("/admin/keys", "GET /auth/keys"),
        ("/admin/models", "GET /auth/models"),
        ("/admin/tokens", "GET /auth/tokens"),
    ] {
        let refused = team.user.get(path).await;
        assert_error(&refused, 403, "forbidden");
        assert!(refused.text.contains(own), "{path}: {}", refused.text);
    }
    let refused = team.user.post("/admin/keys", &json!({})).await;
    assert!(refused.text.contains("POST /auth/keys"), "{}", refused.text);
    let refused = team.user.get("/admin/audit").await;
    assert!(!refused.text.contains("your own"), "{}", refused.text);
    // A key that a person makes without saying whose it is belongs to nobody.
    assert!(make_key(&team.owner, &json!({ "name": "me" })).await["user_id"].is_null());
}

#[tokio::test]
async fn limits_are_there_for_whoever_has_none() {
    let team = Team::on(Database::Sqlite).await;
    let limits = team.user.get("/auth/limits").await.expect(200);
    assert_eq!(limits["keys"], json!([]));
    assert_eq!(team.user.get("/auth/models").await.expect(200), json!([]));
    let key = team.user.post("/auth/keys", &json!({ "tpm_limit": 500 })).await.expect(201);
    let limits = team.user.get("/auth/limits").await.expect(200);
    let own = &limits["keys"][0];
    assert_eq!((&own["id"], &own["limits"]["tpm_limit"]["remaining"]), (&key["id"], &json!(500)), "{limits}");
}

#[tokio::test]
async fn an_admin_learns_nothing_by_guessing_a_hidden_value() {
    let team = Team::on(Database::Sqlite).await;
    let body = json!({
        "served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_env": { "MY_SECRET": "right" },
    });
    let path = format!("/admin/models/{}", id(&team.owner.post("/admin/models", &body).await.expect(201)));
    let mut answers = Vec::new();
    for guess in ["right", "wrong"] {
        let answer = team.admin.patch(&path, &json!({ "extra_env": { "MY_SECRET": guess } })).await;
        assert_error(&answer, 403, "forbidden");
        answers.push(answer.json["error"].clone());
    }
    assert_eq!(answers[0], answers[1]);
    // A form that comes back as it was shown is no change.
    let shown = team.admin.get(&path).await.expect(200)["extra_env"].clone();
    assert_eq!(shown, json!({ "MY_SECRET": "***" }));
    team.admin.patch(&path, &json!({ "extra_env": shown, "max_num_seqs": 8 })).await.expect(200);
    let stored = team.owner.get(&path).await.expect(200);
    assert_eq!((&stored["extra_env"]["MY_SECRET"], &stored["max_num_seqs"]), (&json!("right"), &json!(8)));
}

/// Neither probes nor the reconciler's period tell of the engine's end here: only the end itself does.
#[tokio::test]
async fn a_user_is_told_at_once_when_a_model_that_they_may_call_stops_to_answer() {
    let options = Options::processes().env("HEALTH_POLL_SEC", "3600").env("MODEL_RECONCILE_SEC", "3600");
    let team = Team::with(options).await;
    let uwe = format!("/admin/users/{}", id(&team.user.get("/auth/me").await.expect(200)["user"]));
    team.owner.patch(&uwe, &json!({ "models": ["m"] })).await.expect(200);
    let model = Managed::run(&team.owner, &simulated("vllm", "m", &[])).await;
    let secret = Managed::create(&team.owner, &simulated("vllm", "secret", &[])).await;
    let mut stream = Stream::open_own(&team.user).await;
    let mut all = Stream::open_own(&team.org_admin).await;
    let now = |state: &str, callable: bool| json!([{ "served_name": "m", "task": "generate", "engine_type": "vllm", "state": state, "callable": callable }]);
    let first = stream.next().await;
    assert_eq!((first.kind.as_str(), &first.data), ("models", &now("running", true)));
    assert_eq!(first.data, team.user.get("/auth/models").await.expect(200));
    assert_eq!(column(&all.next().await.data, "served_name"), ["m", "secret"]);

    let engine = team.gateway.engine_state(&model.container).expect("it runs");
    kill_process(engine["engine_pid"].as_i64().unwrap());
    while stream.next().await.data != now("failed", false) {}

    // Users get no events about models that they may not call, and none any more about a model that they may no longer call.
    secret.command(&team.owner, "start").await.expect(202);
    secret.reaches(&team.owner, "running").await;
    while column(&all.next().await.data, "state") != ["failed", "running"] {}
    team.owner.patch(&uwe, &json!({ "models": ["secret"] })).await.expect(200);
    secret.command(&team.owner, "stop").await.expect(202);
    let last = stream.next().await.data;
    assert_eq!(column(&last, "served_name"), ["secret"], "{last}");

    team.user.command("/auth/logout").await.expect(200);
    stream.ends().await;
}
