//! `GET /admin/events`: what it begins with, what follows, coming back, and how it ends.

use std::time::Duration;

use gantry_testkit::{Client, Database};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::{assert_error, gateway},
    team::{Team, id, make_model},
};

/// Longest wait for an event on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One event as it came.
#[derive(Debug)]
struct Event {
    id: Option<String>,
    kind: String,
    data: Value,
}

/// The stream, read event by event.
struct Stream {
    response: reqwest::Response,
    buffer: String,
}

impl Stream {
    async fn open(client: &Client, query: &str, seen: Option<&str>) -> Self {
        let mut request = client.request(Method::GET, &format!("/admin/events{query}"));
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: String::new() }
    }

    /// The next block of lines; `None` at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.buffer = rest;
                return Some(block);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            self.buffer += std::str::from_utf8(&chunk.unwrap()?).unwrap();
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            let block = self.block().await.expect("it goes on");
            let line = |name: &str| block.lines().find_map(|it| it.strip_prefix(name)).map(str::to_owned);
            if let Some(data) = line("data: ") {
                let data = serde_json::from_str(&data).unwrap();
                return Event { id: line("id: "), kind: line("event: ").unwrap(), data };
            }
        }
    }

    /// Waits until it ends.
    async fn ends(&mut self) {
        while self.block().await.is_some() {}
    }
}

#[tokio::test]
async fn it_begins_with_all_models_and_goes_on_with_what_changes() {
    for database in Database::all("events: all models and what changes") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let first = make_model(&owner, "first").await;
        let mut stream = Stream::open(&owner, "", None).await;
        assert_eq!(stream.block().await.unwrap(), "retry: 2000");
        let snapshot = stream.next().await;
        assert_eq!(snapshot.kind, "snapshot");
        assert_eq!(
            snapshot.data,
            json!([{
                "id": first, "served_name": "first", "state": "stopped", "state_reason": null,
                "needs_apply": false, "archived": false, "diagnosis": null, "pull": null,
            }])
        );
        let second = make_model(&owner, "second").await;
        let event = stream.next().await;
        assert_eq!((event.kind.as_str(), &event.data["id"]), ("model", &json!(second)));
        let seen = event.id.unwrap();
        owner.patch(&format!("/admin/models/{second}"), &json!({ "archived": true })).await.expect(200);
        let event = stream.next().await;
        assert_eq!((event.kind.as_str(), &event.data["archived"]), ("model", &json!(true)));
        // What is not shown here is no event.
        owner.patch(&format!("/admin/models/{first}"), &json!({ "name": "other" })).await.expect(200);
        owner.delete(&format!("/admin/models/{second}")).await.expect(200);
        let event = stream.next().await;
        assert_eq!((event.kind.as_str(), &event.data), ("model_deleted", &json!({ "id": second })));
        drop(stream);

        // Away for a while: a change that nobody saw is among what was missed.
        owner
            .patch(&format!("/admin/models/{first}"), &json!({ "served_name": "renamed" }))
            .await
            .expect(200);
        let mut again = Stream::open(&owner, "", Some(&seen)).await;
        for (kind, field, value) in [
            ("model", "archived", json!(true)),
            ("model_deleted", "id", json!(second)),
            ("model", "served_name", json!("renamed")),
        ] {
            let event = again.next().await;
            assert_eq!((event.kind.as_str(), &event.data[field]), (kind, &value), "{event:?}");
        }
        for unknown in ["nonsense", "0123-4"] {
            let reset = Stream::open(&owner, "", Some(unknown)).await.next().await;
            assert_eq!((reset.kind.as_str(), &reset.data[0]["served_name"]), ("reset", &json!("renamed")));
        }
        assert_error(&owner.get("/admin/events?logs=999").await, 404, "not_found");
        assert_error(&owner.get("/admin/events?logs=x").await, 422, "validation_error");
        // A model without a container has no log to follow.
        assert_error(&owner.get(&format!("/admin/events?logs={first}")).await, 409, "invalid_state");
    }
}

#[tokio::test]
async fn it_ends_with_the_session() {
    let team = Team::on(Database::Sqlite).await;
    let users = team.owner.get("/admin/users?q=ada").await.expect(200);
    let ada = format!("/admin/users/{}", id(&users[0]));
    let sign_in = async || team.gateway.sign_in("ada", crate::team::PASSWORD).await;

    // Signing out ends this one, and not that of another session.
    let (leaving, staying) = (sign_in().await, sign_in().await);
    let mut left = Stream::open(&leaving, "", None).await;
    let mut stays = Stream::open(&staying, "", None).await;
    leaving.command("/auth/logout").await.expect(200);
    left.ends().await;
    assert_eq!(stays.next().await.kind, "snapshot");
    make_model(&team.owner, "still-told").await;
    assert_eq!(stays.next().await.kind, "model");

    // So do being disabled, another role, another password, and being deleted.
    team.owner.patch(&ada, &json!({ "enabled": false })).await.expect(200);
    stays.ends().await;
    team.owner.patch(&ada, &json!({ "enabled": true })).await.expect(200);
    for change in
        [json!({ "role": "user" }), json!({ "role": "admin" }), json!({ "password": crate::team::PASSWORD })]
    {
        if change["role"] == "admin" {
            team.owner.patch(&ada, &change).await.expect(200);
            continue;
        }
        let mut stream = Stream::open(&sign_in().await, "", None).await;
        team.owner.patch(&ada, &change).await.expect(200);
        stream.ends().await;
    }
    let mut stream = Stream::open(&sign_in().await, "", None).await;
    team.owner.delete(&ada).await.expect(200);
    stream.ends().await;
}

#[tokio::test]
async fn it_does_not_hold_up_the_end_of_the_gateway() {
    let mut gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let mut stream = Stream::open(&owner, "", None).await;
    assert_eq!(stream.next().await.kind, "snapshot");
    gateway.signal("TERM");
    stream.ends().await;
    assert!(gateway.ended().await, "in order, with nothing cut off");
}
