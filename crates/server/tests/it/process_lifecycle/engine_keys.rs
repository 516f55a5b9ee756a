//! Each engine has a key of its own, which is made anew from the internal key whenever it is needed.

use gantry_testkit::{Client, Database, Gateway, Managed, Options, PATIENCE, eventually, simulated};

use super::process;
use crate::{support::start, unreadable::sql};

/// What the engine of a model takes for its key, from its environment.
fn key(gateway: &Gateway, model: &Managed) -> String {
    let environment = std::fs::read(format!("/proc/{}/environ", process(gateway, model).0)).unwrap();
    let text = String::from_utf8_lossy(&environment).into_owned();
    let found = text.split('\0').find_map(|it| Some(it.split_once("_API_KEY=")?.1.to_owned()));
    found.expect("it has a key")
}

/// What an engine answers to this key.
async fn opens(gateway: &Gateway, model: &Managed, key: &str) -> u16 {
    let port = &gateway.engine_state(&model.container).unwrap()["port"];
    let engine = Client::of_engine(&format!("http://127.0.0.1:{port}"));
    let request = engine.request(reqwest::Method::GET, "/v1/models").bearer_auth(key);
    engine.send(request).await.status
}

fn internal(gateway: &Gateway) -> String {
    std::fs::read_to_string(gateway.data_dir().join("secrets/engine-key")).unwrap()
}

#[tokio::test]
async fn the_key_of_an_engine_opens_no_other_and_comes_back_with_the_gateway() {
    let mut gateway = super::gateway().await;
    let owner = gateway.owner().await;
    let one = Managed::run(&owner, &simulated("vllm", "one", &[])).await;
    let two = Managed::run(&owner, &simulated("llamacpp", "two", &[])).await;
    let keys = [key(&gateway, &one), key(&gateway, &two)];
    assert_ne!(keys[0], keys[1]);
    for (model, own, other) in [(&one, &keys[0], &keys[1]), (&two, &keys[1], &keys[0])] {
        assert_eq!(opens(&gateway, model, own).await, 200);
        assert_eq!(opens(&gateway, model, other).await, 401);
        assert_eq!(opens(&gateway, model, &internal(&gateway)).await, 401);
    }
    gateway.kill_and_restart().await;
    let owner = gateway.owner().await;
    for name in ["one", "two"] {
        assert_eq!(owner.chat(name).await.status, 200, "{name}: it was adopted with its key");
    }
    assert_eq!(one.record(&owner).await["needs_apply"], false);
    // Another start is another key.
    one.command(&owner, "apply").await.expect(202);
    eventually("another engine", PATIENCE, async || {
        one.record(&owner).await;
        (owner.chat("one").await.status == 200 && key(&gateway, &one) != keys[0]).then_some(())
    })
    .await;
}

/// Versions before this one gave the internal key itself to every engine.
#[tokio::test]
async fn engines_of_an_earlier_version_are_adopted_with_the_key_that_they_have() {
    for database in Database::one("process_lifecycle: keys of an earlier version") {
        let mut gateway = start(Options::processes().on(database)).await;
        let owner = gateway.owner().await;
        let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
        assert!(gateway.terminate());
        // As such a version leaves it that is killed when a start begins.
        sql(
            &gateway,
            "UPDATE models SET wanted = 'running', generation = 1, \
             phase = '{\"phase\":\"starting\",\"generation\":1,\"since\":1}', \
             launched = '{\"task\":\"generate\",\"config\":' || config || '}'",
        )
        .await;
        for life in ["first", "second"] {
            gateway.restart().await;
            let owner = gateway.owner().await;
            model.reaches(&owner, "running").await;
            assert_eq!(key(&gateway, &model), internal(&gateway), "{life}");
            assert_eq!(owner.chat("m").await.status, 200, "{life}: no request fails");
            assert_eq!(model.record(&owner).await["needs_apply"], false, "{life}");
            if life == "first" {
                gateway.kill();
            }
        }
        let owner = gateway.owner().await;
        model.command(&owner, "apply").await.expect(202);
        eventually("a key of its own", PATIENCE, async || {
            (owner.chat("m").await.status == 200 && key(&gateway, &model) != internal(&gateway)).then_some(())
        })
        .await;
    }
}
