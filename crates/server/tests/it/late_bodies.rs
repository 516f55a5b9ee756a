//! Slow requests and answers whose caller loses the right to them meanwhile.

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use gantry_store::Store;
use gantry_testkit::{Database, Gateway, now};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    support::gateway,
    team::{PASSWORD, Team, make_user},
};

/// The session cookie of a new sign-in.
async fn cookie(gateway: &Gateway, username: &str) -> String {
    let body = json!({ "username": username, "password": PASSWORD });
    let answer = gateway.client().post("/auth/login", &body).await;
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

async fn connected(gateway: &Gateway) -> TcpStream {
    TcpStream::connect(gateway.url.strip_prefix("http://").unwrap()).await.unwrap()
}

#[tokio::test]
async fn who_is_deleted_before_his_body_came_changes_nothing() {
    for database in Database::one("who_is_deleted_before_his_body_came") {
        let team = Team::on(database).await;
        let body = json!({ "username": "backdoor", "password": PASSWORD, "role": "owner" }).to_string();
        let sized = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let cases = [
            ("/admin/users", sized.as_str(), body.as_str()),
            // One that takes no body, and gets an empty one that is long in coming.
            ("/auth/logout-everywhere", "transfer-encoding: chunked\r\n", "0\r\n\r\n"),
            ("/admin/models/1/start", "transfer-encoding: chunked\r\n", "0\r\n\r\n"),
        ];
        for (n, (path, headers, rest)) in cases.into_iter().enumerate() {
            let name = format!("former-{n}");
            let former = make_user(&team.owner, team.home, &name, "owner").await;
            let cookie = cookie(&team.gateway, &name).await;
            let mut stream = connected(&team.gateway).await;
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\ncookie: {cookie}\r\nconnection: close\r\n\
                 expect: 100-continue\r\n{headers}\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            // It is let in, and its body waited for.
            let mut begun = [0; 12];
            stream.read_exact(&mut begun).await.unwrap();
            if &begun == b"HTTP/1.1 404" {
                continue;
            }
            assert_eq!(&begun, b"HTTP/1.1 100", "{path}");
            stream.write_all(&rest.as_bytes()[..1]).await.unwrap();
            team.owner.delete(&format!("/admin/users/{former}")).await.expect(200);
            stream.write_all(&rest.as_bytes()[1..]).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let answer = answer.trim_start_matches(" Continue").trim_start();
            assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
            assert!(answer.contains("\"unauthenticated\""), "{path}: {answer}");
        }
        let users = team.owner.get("/admin/users?q=backdoor").await.expect(200);
        assert_eq!(users, json!([]));
    }
}

pub(crate) fn row(number: i64) -> UsageRow {
    let created_at = Timestamp(now().0 - number);
    UsageRow {
        id: id_at(created_at, number as u128),
        req_id: format!("{number:-<200}"),
        created_at,
        key_id: Some(KeyId(1)),
        key_prefix: Some("gty_Ab000001".to_owned()),
        user_id: Some(UserId(1)),
        org_id: Some(OrgId(1)),
        model_name: "qwen".to_owned(),
        task: Task::Generate,
        endpoint: Endpoint::ChatCompletions,
        stream: true,
        prompt_tokens: number,
        completion_tokens: 1,
        cached_tokens: None,
        estimated: false,
        latency_ms: number,
        ttft_ms: None,
        status_code: 200,
        outcome: Outcome::Ok,
        requests: 1,
    }
}

#[tokio::test]
async fn an_export_ends_with_its_session() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let home = owner.get("/auth/me").await.expect(200)["user"]["org_id"].as_i64().unwrap();
    let former = make_user(&owner, home, "former", "admin").await;
    // More than the sockets on the way take.
    let store = Store::open(&format!("sqlite://{}", gateway.data_dir().join("gantry.db").display())).await;
    let store = store.unwrap();
    for batch in 0..15 {
        let rows: Vec<_> = (0..4000).map(|n| row(batch * 4000 + n)).collect();
        let mut tx = store.write().await.unwrap();
        tx.insert_usage(&rows).await.unwrap();
        tx.commit().await.unwrap();
    }
    let cookie = cookie(&gateway, "former").await;
    let mut stream = connected(&gateway).await;
    let head = format!(
        "GET /admin/usage/export?hours=24 HTTP/1.1\r\nhost: localhost\r\ncookie: {cookie}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begun = [0; 15];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    owner.delete(&format!("/admin/users/{former}")).await.expect(200);
    let mut rest = Vec::new();
    // It may be cut with a reset.
    let _ = stream.read_to_end(&mut rest).await;
    let text = String::from_utf8_lossy(&rest);
    assert!(!text.ends_with("0\r\n\r\n"), "it must not look complete");
    assert!(text.lines().count() < 60_000, "{}", text.lines().count());
    let log = gateway.log();
    assert!(log.contains("an export was cut off: its session or token ended"), "{log}");
}
