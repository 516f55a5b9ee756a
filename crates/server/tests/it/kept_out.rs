//! What one user, or a stranger, can take from others: memory for bodies, turns of the password hash, guesses, accounts,
//! sessions, and reads of the database.

use futures_util::{
    StreamExt,
    future::{join, join_all},
};
use gantry_domain::{OrgId, Role, UserId, identity::Session};
use gantry_store::{NewUser, Store};
use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, eventually, now};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    late_bodies::row,
    support::{assert_error, start},
    team::{PASSWORD, Team, id, make_user},
};

/// A message as large as may be sent.
const LARGE: usize = 3_000_000;
const MESSAGES: &str = "/v1/chat/sessions/0192f0c1-0000-7000-8000-000000000000/messages";

/// A connection that has sent all of a large body but its end, or as much of it as the gateway took.
async fn unfinished(gateway: &Gateway, cookie: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncookie: {cookie}\r\ncontent-type: application/json\r\n\
         content-length: {LARGE}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let _ = stream.write_all(&vec![b' '; LARGE - 1]).await;
    stream
}

/// Bytes that were sent on a connection and that the gateway has not read, of `/proc/net/tcp`. A connection that is closed has
/// none.
fn unread(stream: &TcpStream) -> u64 {
    let (Ok(own), Ok(its)) = (stream.local_addr(), stream.peer_addr()) else { return 0 };
    let (own, its) = (format!(":{:04X}", own.port()), format!(":{:04X}", its.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let queues = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (from, to) = (words.get(1)?, words.get(2)?);
        let (sent, arrived) = words.get(4)?.split_once(':')?;
        let here = from.ends_with(&own) && to.ends_with(&its);
        let there = from.ends_with(&its) && to.ends_with(&own);
        let waits = if here { sent } else { arrived };
        u64::from_str_radix(waits, 16).ok().filter(|_| here || there)
    });
    queues.sum()
}

#[tokio::test]
async fn bodies_that_do_not_end_take_little_memory_of_one_user_and_none_of_others() {
    let team = Team::on(Database::Sqlite).await;
    let sign_in = json!({ "username": "uwe", "password": PASSWORD });
    let answer = team.gateway.client().post("/auth/login", &sign_in).await;
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let large = json!({ "role": "user", "content": "x".repeat(LARGE - 100) });
    let mut held = Vec::new();
    // The gateway waits 30 s for the end of a body. Where it takes longer until all of them are there, all is done again.
    let full = async || {
        held.clear();
        held = join_all((0..12).map(|_| unfinished(&team.gateway, &cookie))).await;
        let all_read = async || held.iter().all(|it| unread(it) == 0).then_some(());
        eventually("the bodies are read", PATIENCE, all_read).await;
        let answer = team.user.post(MESSAGES, &large).await;
        (answer.status == 503).then_some(answer)
    };
    let refused = eventually("there is no room for another one", PATIENCE, full).await;
    assert_error(&refused, 503, "request_memory_full");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // What is small needs no room, and others have theirs.
    let chat = json!({ "model_name": "m", "engine_type": "vllm" });
    team.user.post("/v1/chat/sessions", &chat).await.expect(201);
    assert_ne!(team.org_admin.post(MESSAGES, &large).await.status, 503);
    drop(held);
    let free = async || (team.user.post(MESSAGES, &large).await.status != 503).then_some(());
    eventually("there is room again", PATIENCE, free).await;
}

#[tokio::test]
async fn who_sets_passwords_keeps_nobody_from_signing_in() {
    for database in Database::one("who_sets_passwords_keeps_nobody") {
        let team = Team::on(database).await;
        let user = |name: String, org: i64| json!({ "username": name, "password": PASSWORD, "org_id": org });
        let foreign =
            format!("/admin/users/{}", id(&team.owner.get("/admin/users?q=ada").await.expect(200)[0]));
        let password = json!({ "password": PASSWORD });
        // Taken names, and what this caller may not see, are found out before anything is hashed.
        let refused = join_all((0..40).map(|n| {
            let (team, foreign, password) = (&team, &foreign, &password);
            let body = if n % 2 == 0 {
                user("uwe".to_owned(), team.tenant)
            } else {
                user(format!("n{n}"), team.home)
            };
            async move {
                match n % 3 {
                    0 => team.org_admin.patch(foreign, password).await,
                    _ => team.org_admin.post("/admin/users", &body).await,
                }
            }
        }));
        let costly = join_all((0..40).map(|n| {
            let (team, body) = (&team, user(format!("new{n}"), team.tenant));
            async move { team.org_admin.post("/admin/users", &body).await }
        }));
        let sign_ins = async {
            for n in 0..12 {
                let name = ["olga", "ada", "uwe"][n % 3];
                team.gateway.sign_in(name, PASSWORD).await;
            }
        };
        let ((refused, costly), ()) = join(join(refused, costly), sign_ins).await;
        for answer in refused {
            assert!(matches!(answer.status, 404 | 409), "{answer:?}");
        }
        for answer in &costly {
            assert!(matches!(answer.status, 201 | 429), "{answer:?}");
        }
        assert!(costly.iter().any(|it| it.status == 201));
    }
}

#[tokio::test]
async fn guesses_are_bounded_by_address_and_by_account_and_lock_nobody_out() {
    let gateway = start(Options::default().env("TRUSTED_PROXIES", "127.0.0.1")).await;
    let login = async |ip: String, username: &str, password: &str| {
        let client = gateway.client();
        let body = json!({ "username": username, "password": password });
        let request = client.request(Method::POST, "/auth/login").header("x-forwarded-for", ip);
        client.send(request.json(&body)).await
    };
    let office = "192.0.2.7".to_owned();
    assert_eq!(login(office.clone(), "owner", "owner-password").await.status, 200);
    // One address is limited, whichever user name it guesses at.
    let mut looked_at = 0;
    for n in 0..14 {
        let answer = login("198.51.100.1".to_owned(), &format!("user{n}"), "wrong-password").await;
        looked_at += usize::from(answer.status == 401);
        assert!(matches!(answer.status, 401 | 429), "{answer:?}");
    }
    assert!(looked_at <= 10, "{looked_at}");
    // One account, from wherever it is guessed at.
    let guesses = (0..40).map(|n| (format!("203.0.113.{n}"), login));
    let mut passed = 0;
    for (ip, login) in guesses {
        passed += usize::from(login(ip, "owner", "wrong-password").await.status == 401);
    }
    assert!(passed < 35, "{passed}");
    let stranger = login("203.0.113.99".to_owned(), "OWNER", "owner-password").await;
    assert_error(&stranger, 429, "too_many_attempts");
    let wait: u64 = stranger.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(login(office, "owner", "owner-password").await.status, 200, "from where they sign in");
    assert_eq!(
        gateway
            .client()
            .post("/auth/login", &json!({ "username": "owner", "password": "owner-password" }))
            .await
            .status,
        200,
        "on the machine itself"
    );
}

#[tokio::test]
async fn one_user_signs_in_only_so_often() {
    let team = Team::on(Database::Sqlite).await;
    let body = json!({ "username": "uwe", "password": PASSWORD });
    let client = team.gateway.client();
    let mut n = 0;
    let refused = loop {
        let answer = client.post("/auth/login", &body).await;
        if answer.status != 200 {
            break answer;
        }
        n += 1;
        assert!(n < 1000, "nothing bounds it");
    };
    assert!(n >= 99, "{n}");
    assert_error(&refused, 429, "too_many_attempts");
    assert!(refused.text.contains("too many sign-ins of this user"), "{}", refused.text);
    team.gateway.sign_in("olga", PASSWORD).await;
    assert_eq!(client.get("/auth/me").await.status, 200, "the sessions that there are go on");
}

#[tokio::test]
async fn an_organisation_has_only_so_many_users() {
    for database in Database::all("an_organisation_has_only_so_many_users") {
        let team = Team::with(Options::default().on(database).env("ORG_USERS_MAX", "4")).await;
        let body = |name: &str, org: i64| json!({ "username": name, "password": PASSWORD, "org_id": org });
        for name in ["third", "fourth"] {
            make_user(&team.org_admin, team.tenant, name, "user").await;
        }
        let full = team.org_admin.post("/admin/users", &body("fifth", team.tenant)).await;
        assert_error(&full, 409, "invalid_state");
        assert!(full.text.contains("ORG_USERS_MAX"), "{}", full.text);
        let elsewhere = make_user(&team.owner, team.home, "elsewhere", "user").await;
        let change = json!({ "org_id": team.tenant });
        let refused = team.owner.patch(&format!("/admin/users/{elsewhere}"), &change).await;
        assert_error(&refused, 409, "invalid_state");
        // Those who are there can be changed, and make room.
        let fourth = id(&team.owner.get("/admin/users?q=fourth").await.expect(200)[0]);
        let path = format!("/admin/users/{fourth}");
        team.org_admin.patch(&path, &json!({ "org_id": team.tenant, "enabled": false })).await.expect(200);
        team.org_admin.delete(&path).await.expect(200);
        team.org_admin.post("/admin/users", &body("fifth", team.tenant)).await.expect(201);
    }
}

/// The database of a gateway that uses SQLite.
async fn database(team: &Team) -> Store {
    let url = format!("sqlite://{}", team.gateway.data_dir().join("gantry.db").display());
    Store::open(&url).await.unwrap()
}

#[tokio::test]
async fn long_reads_of_one_user_wait_in_a_short_line_and_nobody_else_in_it() {
    let team = Team::on(Database::Sqlite).await;
    let store = database(&team).await;
    for batch in 0..4 {
        let rows: Vec<_> = (0..4000).map(|n| row(batch * 4000 + n)).collect();
        let mut tx = store.write().await.unwrap();
        tx.insert_usage(&rows).await.unwrap();
        tx.commit().await.unwrap();
    }
    let path = "/admin/usage/series?bucket=minute&hours=48";
    let reads = join_all((0..60).map(|_| team.admin.get(path)));
    let others = async {
        for _ in 0..3 {
            team.gateway.sign_in("uwe", PASSWORD).await;
            assert_eq!(team.owner.get(path).await.status, 200);
        }
    };
    let (answers, ()) = join(reads, others).await;
    let n = |status| answers.iter().filter(|it| it.status == status).count();
    assert!(n(200) >= 16 && n(429) > 0 && n(200) + n(429) == 60, "{} {}", n(200), n(429));
    let refused = answers.iter().find(|it| it.status == 429).unwrap();
    assert_error(refused, 429, "too_many_attempts");
    assert_eq!(team.admin.get(path).await.status, 200, "the line is empty again");
}

#[tokio::test]
async fn an_organisation_has_only_so_many_sessions() {
    const MAX: usize = 5000;
    // SQLite only: the statements are tested on both databases elsewhere, and making `MAX` of them takes time.
    let team = Team::on(Database::Sqlite).await;
    let store = database(&team).await;
    let mut tx = store.write().await.unwrap();
    let mut n: u64 = 0;
    for user in 0..MAX / 50 {
        let user = NewUser {
            org_id: OrgId(team.tenant),
            username: format!("many{user}"),
            password_hash: "-".to_owned(),
            role: Role::User,
            enabled: true,
        };
        let user_id = tx.insert_user(&user, now()).await.unwrap().id;
        for _ in 0..50 {
            let mut id_hash = [0; 32];
            id_hash[..8].copy_from_slice(&n.to_be_bytes());
            n += 1;
            // They end sooner than those of the team.
            let expires_at = gantry_domain::Timestamp(now().0 + 600_000);
            let session = Session { id_hash, user_id, created_at: now(), expires_at };
            tx.insert_session(&session).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
    let count = async || store.read().await.unwrap().live_sessions(now()).await.unwrap().rows.len();
    let before = count().await;
    let uwe = team.gateway.sign_in("uwe", PASSWORD).await;
    // `olga` and `uwe` have one each, and that of the owner and of `ada` are another organisation's.
    assert_eq!((before, count().await), (MAX + 4, MAX + 2));
    for client in [&uwe, &team.user, &team.org_admin, &team.owner, &team.admin] {
        assert_eq!(client.get("/auth/me").await.status, 200);
    }
    assert_eq!(store.read().await.unwrap().user(UserId(1)).await.unwrap().unwrap().role, Role::Owner);
}

#[tokio::test]
async fn administrators_of_an_organisation_make_only_so_many_changes() {
    let team = Team::on(Database::Sqlite).await;
    let change = async |client: &Client| client.delete("/admin/keys/999999").await;
    let answers = futures_util::stream::iter(0..1100).map(|_| change(&team.org_admin));
    let answers: Vec<_> = answers.buffer_unordered(20).collect().await;
    let refused: Vec<_> = answers.iter().filter(|it| it.status != 404).collect();
    assert!(!refused.is_empty());
    for answer in refused {
        assert_error(answer, 429, "rate_limit_exceeded");
        assert!(answer.header("retry-after").is_some(), "{}", answer.text);
    }
    // What they read, and changes by administrators of the gateway, are not bounded by that.
    assert_eq!(team.org_admin.get("/admin/keys").await.status, 200);
    assert_eq!(change(&team.admin).await.status, 404);
    assert_eq!(change(&team.owner).await.status, 404);
}

/// The most memory that a process has had, in bytes.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn with_little_memory_large_bodies_are_refused_and_the_gateway_lives() {
    const MEMORY: u64 = 256 << 20;
    const LENGTH: usize = 20 << 20;
    let gateway = start(Options::default().env("MEMORY_MAX", &MEMORY.to_string())).await;
    let owner = gateway.owner().await;
    let mut tokens = Vec::new();
    for _ in 0..4 {
        let key = owner.post("/admin/keys", &json!({})).await.expect(201);
        tokens.push(key["token"].as_str().unwrap().to_owned());
    }
    let addr = gateway.url.strip_prefix("http://").unwrap();
    let send = async |n: usize| {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let token = &tokens[n % tokens.len()];
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {LENGTH}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The gateway closes the connection of one that it refuses.
        let piece = vec![b' '; 1 << 20];
        for _ in 0..LENGTH / piece.len() - 1 {
            if stream.write_all(&piece).await.is_err() {
                break;
            }
        }
        let mut head = [0; 12];
        let read =
            tokio::time::timeout(std::time::Duration::from_secs(5), stream.read_exact(&mut head)).await;
        read.is_ok_and(|it| it.is_ok() && head.ends_with(b"503"))
    };
    let refused = join_all((0..40).map(send)).await.into_iter().filter(|it| *it).count();
    let peak = peak(gateway.pid());
    println!("{refused} of 40 bodies of 20 MiB are refused at once, the peak is {} MiB", peak >> 20);
    assert!(refused > 0, "none was refused");
    assert!(peak < MEMORY, "{} MiB", peak >> 20);
    assert_eq!(owner.get("/admin/models").await.status, 200);
}
