//! Models after a restore: their engines are adopted, ended or missed, as if the gateway had just come up with the restored
//! database.

use gantry_testkit::{
    Client, Database, Gateway, Managed, Options, PATIENCE, engine_processes, eventually, lives, simulated,
    simulator,
};
use serde_json::{Value, json};

use super::{EXPORT, carry, completes, restored};
use crate::support::{GANTRY, start};

fn model(name: &str) -> Value {
    simulated("llamacpp", name, &[])
}

/// Writes the package `p` with the database as it is.
async fn packed(owner: &Client) {
    completes(owner, EXPORT, &json!({ "output_dir": "p", "include_images": false })).await;
}

/// Puts the database of the package `p` in place, and returns a new session.
async fn put_back(gateway: &Gateway, owner: &Client) -> Client {
    let body = json!({ "output_dir": "p", "drop_existing": true });
    let (owner, job) = restored(gateway, owner, &body).await;
    assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
    owner
}

/// Nothing serves the model, and its record says why.
async fn is_missed(owner: &Client, model: &Managed) {
    let record = model.reaches(owner, "stopped").await;
    assert_eq!(record["state_reason"], "container_not_found", "{record}");
    // A gateway that does not supervise learns it within half a second.
    eventually("its requests are refused", PATIENCE, async || {
        (owner.chat(&model.served_name).await.code() == "model_not_running").then_some(())
    })
    .await;
}

async fn serves(owner: &Client, model: &Managed) {
    eventually(&format!("{} answers", model.served_name), PATIENCE, async || {
        (owner.chat(&model.served_name).await.status == 200).then_some(())
    })
    .await;
}

fn engine(gateway: &Gateway, model: &Managed) -> i64 {
    gateway.engine_state(&model.container).expect("it was started")["engine_pid"].as_i64().unwrap()
}

/// Waits until the only processes of engines are this one and its supervisor.
async fn only_engine_is(gateway: &Gateway, pid: i64) {
    let instance = gateway.instance();
    eventually("no other engine is left", PATIENCE, async || {
        let all = engine_processes(&instance);
        (all.len() == 2 && all.contains(&pid)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn engines_are_adopted_and_ended_and_missed_after_a_restore() {
    for database in Database::one("deployment: models after a restore") {
        let gateway = start(Options::processes().on(database)).await;
        let owner = gateway.owner().await;
        let kept = Managed::run(&owner, &model("kept")).await;
        let ended = Managed::run(&owner, &model("ended")).await;
        let begun = kept.timeline(&owner).await;
        packed(&owner).await;
        // Since then one engine has ended, and another model has begun.
        ended.command(&owner, "stop").await.expect(202);
        ended.reaches(&owner, "stopped").await;
        let late = Managed::run(&owner, &model("late")).await;
        let (pid, orphan) = (engine(&gateway, &kept), engine(&gateway, &late));

        let owner = put_back(&gateway, &owner).await;
        is_missed(&owner, &ended).await;
        only_engine_is(&gateway, pid).await;
        assert!(!lives(orphan));
        serves(&owner, &kept).await;
        assert_eq!((engine(&gateway, &kept), kept.timeline(&owner).await), (pid, begun), "the same engine");
        assert_eq!(owner.chat("late").await.code(), "model_not_found");
        // Everything can be commanded as before.
        ended.start(&owner).await;
        ended.reaches(&owner, "running").await;
        kept.command(&owner, "stop").await.expect(202);
        kept.reaches(&owner, "stopped").await;
        only_engine_is(&gateway, engine(&gateway, &ended)).await;
    }
}

/// Ids and generations of two machines are alike, and so are the names of their engines.
#[tokio::test]
async fn an_engine_of_this_machine_is_not_taken_for_a_model_of_another_one() {
    for database in Database::one("deployment: models of another machine") {
        let here = start(Options::processes()).await;
        let owner = here.owner().await;
        let (far, plain) =
            (Managed::run(&owner, &model("far")).await, Managed::run(&owner, &model("plain")).await);
        packed(&owner).await;
        let there = start(Options::processes().on(database)).await;
        let owner = there.owner().await;
        let near = Managed::run(&owner, &model("near")).await;
        assert_eq!((near.id, &near.container), (far.id, &far.container));
        let orphan = engine(&there, &near);
        carry(&here, &there, "p");

        let owner = put_back(&there, &owner).await;
        is_missed(&owner, &far).await;
        is_missed(&owner, &plain).await;
        let instance = there.instance();
        eventually("no engine is left", PATIENCE, async || {
            engine_processes(&instance).is_empty().then_some(())
        })
        .await;
        assert!(!lives(orphan));
        far.start(&owner).await;
        far.reaches(&owner, "running").await;
        serves(&owner, &far).await;
        assert!(here.owner().await.chat("far").await.status == 200, "the other machine is left alone");
    }
}

/// The gateway that restores is not the one that looks after the engines.
#[tokio::test]
async fn the_gateway_that_supervises_follows_a_restore_by_another_one() {
    if !Database::all("deployment: a restore by a follower").contains(&Database::Postgres) {
        return;
    }
    let rarely = |options: Options| options.env("MODEL_RECONCILE_SEC", "3600");
    let one = start(rarely(Options::processes().on(Database::Postgres))).await;
    let owner = one.owner().await;
    let kept = Managed::run(&owner, &model("kept")).await;
    let ended = Managed::run(&owner, &model("ended")).await;
    let two = start(rarely(Options::processes()).env("DATABASE_URL", &one.database_url().unwrap())).await;
    let other = two.owner().await;
    packed(&other).await;
    ended.command(&owner, "stop").await.expect(202);
    ended.reaches(&owner, "stopped").await;
    let late = Managed::run(&owner, &model("late")).await;
    let (pid, orphan) = (engine(&one, &kept), engine(&one, &late));
    let other = put_back(&two, &other).await;
    is_missed(&other, &ended).await;
    only_engine_is(&one, pid).await;
    assert!(!lives(orphan));
    serves(&other, &kept).await;
}

#[tokio::test]
async fn containers_are_ended_and_missed_after_a_restore() {
    const TEST: &str = "deployment: containers after a restore";
    if !simulator(GANTRY, TEST) {
        return;
    }
    for database in Database::one(TEST) {
        let here = start(Options::containers()).await;
        let owner = here.owner().await;
        let far = Managed::run(&owner, &model("far")).await;
        packed(&owner).await;
        let there = start(Options::containers().on(database)).await;
        let other = there.owner().await;
        let late = Managed::run(&other, &model("late")).await;
        assert_eq!(there.containers(), [late.container_id()]);
        carry(&here, &there, "p");

        let other = put_back(&there, &other).await;
        is_missed(&other, &far).await;
        eventually("its container is gone", PATIENCE, async || there.containers().is_empty().then_some(()))
            .await;
        // The container that has the record's name belongs to the other installation.
        assert_eq!(here.containers(), [far.container_id()]);
        serves(&owner, &far).await;
    }
}
