//! Sign-in, sessions, the first owner and the last one.

use futures_util::future::{join, join_all};
use gantry_testkit::{Answer, Client, Database, Gateway, Options, PATIENCE, eventually, skip};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, gateway, start},
    team::{PASSWORD, Team, id, make_org, make_user},
};

fn first_owner() -> Value {
    json!({ "username": "root", "password": PASSWORD, "org_name": "First" })
}

fn credentials(username: &str, password: &str) -> Value {
    json!({ "username": username, "password": password })
}

async fn without_owner(database: Database) -> Gateway {
    let options = Options { owner: false, ..Options::default().on(database) };
    start(options.env("ALLOWED_HOSTS", "gantry.internal")).await
}

/// What the gateway answers to a request that a program of the user `nobody` sends; `None` if this machine can't start one.
fn as_nobody(gateway: &Gateway, request: &str) -> Option<String> {
    let (host, port) = gateway.url.strip_prefix("http://")?.split_once(':')?;
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; printf %s \"$0\" >&3; cat <&3");
    let run = ["-u", "nobody", "--", "bash", "-c", &script, request];
    let ran = std::process::Command::new("runuser").args(run).current_dir("/").output().ok()?;
    let answer = String::from_utf8_lossy(&ran.stdout).into_owned();
    answer.starts_with("HTTP/1.1").then_some(answer)
}

#[tokio::test]
async fn other_accounts_of_the_machine_need_the_token_for_the_first_owner() {
    let gateway = without_owner(Database::Sqlite).await;
    let post = |body: &Value| {
        let body = body.to_string();
        let head =
            "POST /admin/bootstrap-owner HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let Some(refused) = as_nobody(&gateway, &post(&first_owner())) else {
        skip("auth: other accounts", "it needs root, runuser, bash and the user nobody");
        return;
    };
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("setup_token_required"), "{refused}");
    let asked = "GET /auth/setup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let setup = as_nobody(&gateway, asked).unwrap();
    assert!(setup.contains(r#"{"has_owner":false,"needs_setup_token":true}"#), "{setup}");
    let mut body = first_owner();
    body["setup_token"] = json!(gateway.setup_token().await);
    let made = as_nobody(&gateway, &post(&body)).unwrap();
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
}

#[tokio::test]
async fn the_first_owner_is_made_once_and_from_afar_only_with_the_printed_token() {
    for database in Database::one("the_first_owner_is_made_once") {
        let gateway = without_owner(database).await;
        let token = gateway.setup_token().await;
        let client = gateway.client();
        let bootstrap = async |more: Value, header: Option<(&str, &str)>| {
            let mut body = first_owner();
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut request = client.request(Method::POST, "/admin/bootstrap-owner").json(&body);
            if let Some((name, value)) = header {
                request = request.header(name, value);
            }
            client.send(request).await
        };
        for (change, params) in [
            (json!({ "password": "seven77" }), &["password"][..]),
            (json!({ "password": "x".repeat(257) }), &["password"]),
            (json!({ "username": "", "org_name": "x".repeat(101) }), &["username", "org_name"]),
            (json!({ "username": " padded " }), &["username"]),
            (json!({ "username": "new\nline" }), &["username"]),
            (json!({ "username": null, "role": "owner" }), &["username", "role"]),
        ] {
            assert_invalid(&bootstrap(change, None).await, params);
        }
        // A proxy in front makes everybody look local, and may leave the name that it was called by.
        for (header, value) in [
            ("x-forwarded-for", "203.0.113.9"),
            ("forwarded", "for=203.0.113.9"),
            ("x-real-ip", "203.0.113.9"),
            ("x-forwarded-proto", "https"),
            ("via", "1.1 proxy"),
            ("host", "192.0.2.7"),
            ("host", "gantry.internal"),
        ] {
            let answer = bootstrap(json!({}), Some((header, value))).await;
            assert_error(&answer, 403, "setup_token_required");
            let asked = client.request(Method::GET, "/auth/setup").header(header, value);
            let setup = client.send(asked).await.expect(200);
            assert_eq!(setup, json!({ "has_owner": false, "needs_setup_token": true }), "{header}");
        }
        let setup = client.get("/auth/setup").await.expect(200);
        assert_eq!(setup, json!({ "has_owner": false, "needs_setup_token": false }));
        for wrong in [json!("00".repeat(32)), json!(""), json!(token.to_uppercase() + "x")] {
            let answer = bootstrap(json!({ "setup_token": wrong }), None).await;
            assert_error(&answer, 403, "setup_token_required");
        }
        assert_error(
            &client.post("/auth/login", &credentials("root", PASSWORD)).await,
            401,
            "invalid_credentials",
        );

        let afar = Some(("x-forwarded-for", "203.0.113.9"));
        let made = bootstrap(json!({ "setup_token": token }), afar).await.expect(201);
        assert_eq!(made, json!({ "status": "ok", "owner_id": 1, "org_id": 1 }));
        for more in
            [json!({}), json!({ "setup_token": token }), json!({ "username": "other", "org_name": "Other" })]
        {
            assert_error(&bootstrap(more, None).await, 409, "already_bootstrapped");
        }
        let setup = client.get("/auth/setup").await.expect(200);
        assert_eq!(setup, json!({ "has_owner": true, "needs_setup_token": false }));
        let owner = gateway.sign_in("root", PASSWORD).await;
        let me = owner.get("/auth/me").await.expect(200);
        assert_eq!(me, json!({ "user": { "id": 1, "username": "root", "role": "owner", "org_id": 1 } }));
    }
}

#[tokio::test]
async fn of_forty_bootstraps_at_once_exactly_one_makes_an_owner() {
    for database in Database::all("of_forty_bootstraps_at_once") {
        let gateway = without_owner(database).await;
        let answers = join_all((0..40).map(|n| {
            let client = gateway.client();
            let body =
                json!({ "username": format!("u{n}"), "password": PASSWORD, "org_name": format!("o{n}") });
            async move { (n, client.post("/admin/bootstrap-owner", &body).await) }
        }))
        .await;
        let winners: Vec<_> = answers.iter().filter(|(_, it)| it.status == 201).map(|it| it.0).collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        for (_, answer) in answers.iter().filter(|(_, it)| it.status != 201) {
            match answer.status {
                // Only a few passwords are hashed at the same time.
                429 => assert_error(answer, 429, "too_many_attempts"),
                _ => assert_error(answer, 409, "already_bootstrapped"),
            }
        }
        let owner = gateway.sign_in(&format!("u{}", winners[0]), PASSWORD).await;
        for path in ["/admin/orgs", "/admin/users"] {
            assert_eq!(owner.get(path).await.header("x-total-count"), Some("1"), "{path}");
        }
    }
}

/// The `svc_session` of an answer, and the attributes that came with it.
fn cookie(answer: &Answer) -> (String, Vec<String>) {
    let mut parts = answer.header("set-cookie").expect("a cookie").split("; ");
    let value = parts.next().unwrap().strip_prefix("svc_session=").unwrap().to_owned();
    let mut attributes: Vec<_> = parts.map(str::to_owned).collect();
    attributes.sort_unstable();
    (value, attributes)
}

async fn me_with(gateway: &Gateway, cookie: &str) -> Answer {
    let client = gateway.client();
    let request = client.request(Method::GET, "/auth/me").header("cookie", format!("svc_session={cookie}"));
    client.send(request).await
}

#[tokio::test]
async fn signing_in_sets_a_guarded_cookie_and_never_tells_who_exists() {
    for database in Database::one("signing_in_sets_a_guarded_cookie") {
        let gateway = gateway(database).await;
        let client = gateway.client();
        // A cookie that somebody planted is of no use.
        let planted = client.request(Method::POST, "/auth/login").header("cookie", "svc_session=planted");
        let answer = client.send(planted.json(&credentials("OWNER", "owner-password"))).await;
        let (value, attributes) = cookie(&answer);
        assert_eq!(attributes, ["HttpOnly", "Max-Age=604800", "Path=/", "SameSite=Strict"]);
        assert_eq!(answer.json["status"], "ok");
        assert_eq!(
            answer.json["user"],
            json!({ "id": 1, "username": "owner", "role": "owner", "org_id": 1 })
        );
        assert!(!value.contains("planted") && value.len() > 80, "{value}");

        let owner = gateway.owner().await;
        let home = make_org(&owner, "Home").await;
        let uwe = make_user(&owner, home, "uwe", "user").await;
        let refused = async |username: &str, password: &str| {
            let answer = gateway.client().post("/auth/login", &credentials(username, password)).await;
            assert_error(&answer, 401, "invalid_credentials");
            assert_eq!(answer.header("set-cookie"), None);
            answer.json["error"].clone()
        };
        let unknown = refused("nobody", PASSWORD).await;
        assert_eq!(refused("owner", "wrong-password").await, unknown);
        assert_eq!(refused("owner", &"ä".repeat(256)).await, unknown);
        assert_eq!(refused("own\u{0}er", PASSWORD).await, unknown);
        owner.patch(&format!("/admin/users/{uwe}"), &json!({ "enabled": false })).await.expect(200);
        assert_eq!(refused("uwe", PASSWORD).await, unknown);
        owner.patch(&format!("/admin/users/{uwe}"), &json!({ "enabled": true })).await.expect(200);
        owner.patch(&format!("/admin/orgs/{home}"), &json!({ "enabled": false })).await.expect(200);
        assert_eq!(refused("uwe", PASSWORD).await, unknown);
        for (body, params) in [
            (json!({}), &["username", "password"][..]),
            (json!({ "username": "owner", "password": 12_345_678 }), &["password"]),
            (json!({ "username": "owner", "password": "x".repeat(257) }), &["password"]),
        ] {
            assert_invalid(&client.post("/auth/login", &body).await, params);
        }
    }
}

#[tokio::test]
async fn the_cookie_is_secure_where_the_operator_says_so() {
    let gateway = start(Options::default().env("SESSION_COOKIE_SECURE", "true")).await;
    let answer = gateway.client().post("/auth/login", &credentials("owner", "owner-password")).await;
    let (value, attributes) = cookie(&answer);
    assert_eq!(attributes, ["HttpOnly", "Max-Age=604800", "Path=/", "SameSite=Strict", "Secure"]);
    // Taken away with the same attributes, or browsers would keep it.
    let client = gateway.client();
    let logout =
        client.request(Method::POST, "/auth/logout").header("cookie", format!("svc_session={value}"));
    let (value, attributes) = cookie(&client.send(logout).await);
    assert_eq!(value, "");
    assert_eq!(attributes, ["HttpOnly", "Max-Age=0", "Path=/", "SameSite=Strict", "Secure"]);
}

#[tokio::test]
async fn a_cookie_that_was_ended_or_altered_opens_nothing() {
    for database in Database::one("a_cookie_that_was_ended_or_altered") {
        let gateway = gateway(database).await;
        let login = async || {
            let answer = gateway.client().post("/auth/login", &credentials("owner", "owner-password")).await;
            cookie(&answer).0
        };
        let (value, other) = (login().await, login().await);
        assert_eq!(me_with(&gateway, &value).await.status, 200);
        let (session, signature) = value.split_once('.').unwrap();
        let mut forged = vec![
            String::new(),
            session.to_owned(),
            format!("{session}."),
            format!(".{signature}"),
            format!("{value}="),
            format!("{value}.{signature}"),
            format!("{session}.{}", other.split_once('.').unwrap().1),
            value.to_lowercase(),
            "a".repeat(10_000),
        ];
        // The last character of unpadded base64 has spare bits; every other one counts.
        for at in (0..value.len() - 1).filter(|at| *at != session.len()) {
            let other = if value.as_bytes()[at] == b'A' { "B" } else { "A" };
            forged.push(format!("{}{other}{}", &value[..at], &value[at + 1..]));
        }
        for forged in forged {
            let answer = me_with(&gateway, &forged).await;
            assert_eq!(answer.status, 401, "{forged}");
            assert_error(&answer, 401, "unauthenticated");
        }

        let client = gateway.client();
        let logout =
            client.request(Method::POST, "/auth/logout").header("cookie", format!("svc_session={value}"));
        assert_eq!(client.send(logout).await.expect(200), json!({ "status": "ok" }));
        assert_eq!(me_with(&gateway, &value).await.status, 401);
        assert_eq!(me_with(&gateway, &other).await.status, 200, "another session of the same user goes on");
    }
}

/// Whether the session opens the admin API and the inference API; it must be both or neither.
async fn alive(client: &Client) -> bool {
    let (me, chat) = join(
        client.get("/auth/me"),
        client.post("/v1/chat/completions", &json!({ "model": "none", "messages": [] })),
    )
    .await;
    assert!(matches!((me.status, chat.status), (200, 404) | (401, 401)), "{me:?} {chat:?}");
    me.status == 200
}

#[tokio::test]
async fn a_session_ends_at_once_with_what_it_stands_on() {
    for database in Database::one("a_session_ends_at_once") {
        let team = Team::on(database).await;
        let owner = &team.owner;
        let uwe = id(&owner.get("/admin/users?q=uwe").await.expect(200)[0]);
        let uwe = format!("/admin/users/{uwe}");
        let ends = async |what: &str, path: &str, change: Value, undo: Option<Value>| {
            let session = team.gateway.sign_in("uwe", PASSWORD).await;
            assert!(alive(&session).await);
            owner.patch(path, &change).await.expect(200);
            assert!(!alive(&session).await, "{what}");
            if let Some(undo) = undo {
                owner.patch(path, &undo).await.expect(200);
                assert!(!alive(&session).await, "{what} and back");
            }
        };
        let tenant = format!("/admin/orgs/{}", team.tenant);
        ends("disabled", &uwe, json!({ "enabled": false }), Some(json!({ "enabled": true }))).await;
        ends("promoted", &uwe, json!({ "role": "org_admin" }), Some(json!({ "role": "user" }))).await;
        ends("moved", &uwe, json!({ "org_id": team.home }), Some(json!({ "org_id": team.tenant }))).await;
        ends("new password", &uwe, json!({ "password": PASSWORD }), None).await;
        ends("organisation disabled", &tenant, json!({ "enabled": false }), Some(json!({ "enabled": true })))
            .await;
        // What concerns nobody's rights ends nothing.
        let session = team.gateway.sign_in("uwe", PASSWORD).await;
        owner.patch(&uwe, &json!({ "username": "uwe2", "role": "user", "enabled": true })).await.expect(200);
        owner.patch(&tenant, &json!({ "name": "Renamed" })).await.expect(200);
        assert!(alive(&session).await);
        owner.delete(&uwe).await.expect(200);
        assert!(!alive(&session).await);
        let olga = team.gateway.sign_in("olga", PASSWORD).await;
        owner.delete(&tenant).await.expect(200);
        assert!(!alive(&olga).await);
    }
}

#[tokio::test]
async fn a_new_password_ends_all_sessions_of_its_user_only() {
    for database in Database::one("a_new_password_ends_all_sessions") {
        let team = Team::on(database).await;
        let (here, there) = (team.gateway.client(), &team.user);
        let (old, _) = cookie(&here.post("/auth/login", &credentials("uwe", PASSWORD)).await);
        let change = |current: &str, new: &str| json!({ "current_password": current, "new_password": new });
        let answer = here.post("/auth/password", &change("wrong-password", "another-password")).await;
        assert_error(&answer, 401, "invalid_credentials");
        assert_invalid(&here.post("/auth/password", &change(PASSWORD, "short")).await, &["new_password"]);
        assert!(alive(there).await);
        let done = here.post("/auth/password", &change(PASSWORD, "another-password")).await;
        let (new, _) = cookie(&done);
        assert_eq!(done.expect(200), json!({ "status": "ok" }));
        assert!(alive(&here).await && !alive(there).await && alive(&team.org_admin).await);
        // A copy of the old cookie is no longer valid either.
        assert_ne!(new, old);
        assert_eq!(me_with(&team.gateway, &old).await.status, 401);
        let login =
            async |password| team.gateway.client().post("/auth/login", &credentials("uwe", password)).await;
        assert_error(&login(PASSWORD).await, 401, "invalid_credentials");
        assert_eq!(login("another-password").await.status, 200);
    }
}

#[tokio::test]
async fn a_user_has_so_many_sessions_and_one_more_ends_the_one_unused_longest() {
    for database in Database::one("a_user_has_so_many_sessions") {
        let team = Team::on(database).await;
        let mut sessions = vec![team.user.clone()];
        while sessions.len() < 51 {
            // The oldest one is in use all the time.
            assert!(alive(&sessions[0]).await, "{}", sessions.len());
            sessions.push(team.gateway.sign_in("uwe", PASSWORD).await);
        }
        for (n, lives) in [(0, true), (1, false), (2, true), (50, true)] {
            assert_eq!(alive(&sessions[n]).await, lives, "{n}");
        }
        assert!(alive(&team.org_admin).await, "those of others stay");
    }
}

#[tokio::test]
async fn guessing_a_password_is_slowed_down_for_that_user_and_not_for_others() {
    let team = Team::on(Database::Sqlite).await;
    let client = team.gateway.client();
    let login = async |username, password| client.post("/auth/login", &credentials(username, password)).await;
    // The right password is refused too, or guessing would go on as fast as before. (Where the machine stops for longer
    // than the delay lasts, it is all to do again.)
    let slowed = eventually("guesses are slowed down", PATIENCE, async || {
        join_all((0..8).map(|_| login("ada", "wrong-password"))).await;
        let answer = login("Ada", PASSWORD).await;
        (answer.status != 200).then_some(answer)
    });
    let answer = slowed.await;
    assert_error(&answer, 429, "too_many_attempts");
    let wait: u64 = answer.header("retry-after").expect("it says how long").parse().unwrap();
    assert!((1..=8).contains(&wait), "{wait}");
    assert_eq!(login("olga", PASSWORD).await.status, 200);

    let slowed = eventually("five failures are enough", PATIENCE, async || {
        for _ in 0..5 {
            login("uwe", "wrong-password").await;
        }
        let answer = login("uwe", PASSWORD).await;
        (answer.status != 200).then_some(answer)
    });
    assert_error(&slowed.await, 429, "too_many_attempts");
    eventually("the delay after five failures is short", PATIENCE, async || {
        (login("uwe", PASSWORD).await.status == 200).then_some(())
    })
    .await;
    // Guesses of the current password are slowed down too, for example by somebody at an unlocked screen.
    let change = json!({ "current_password": "wrong-password", "new_password": "another-password" });
    let right = json!({ "current_password": PASSWORD, "new_password": PASSWORD });
    let slowed = eventually("guesses are slowed down", PATIENCE, async || {
        join_all((0..6).map(|_| team.org_admin.post("/auth/password", &change))).await;
        let answer = team.org_admin.post("/auth/password", &right).await;
        (answer.status == 429).then_some(answer)
    });
    assert_error(&slowed.await, 429, "too_many_attempts");
}

#[tokio::test]
async fn sessions_survive_a_restart_and_end_with_the_secret() {
    for database in Database::one("sessions_survive_a_restart") {
        let mut gateway = gateway(database).await;
        let mut session = gateway.owner().await;
        gateway.kill_and_restart().await;
        session.url.clone_from(&gateway.url);
        assert!(alive(&session).await);
        assert!(gateway.terminate());
        gateway.restart().await;
        session.url.clone_from(&gateway.url);
        assert!(alive(&session).await);

        gateway.set_env("SESSION_SECRET", "a-secret-of-the-operator");
        assert!(gateway.terminate());
        gateway.restart().await;
        session.url.clone_from(&gateway.url);
        assert!(!alive(&session).await);
        assert!(alive(&gateway.owner().await).await);
    }
}

#[tokio::test]
async fn the_last_owner_stays() {
    for database in Database::one("the_last_owner_stays") {
        let team = Team::on(database).await;
        let (owner, home) = (&team.owner, format!("/admin/orgs/{}", team.home));
        let attempts = async || {
            for (path, change) in [
                ("/admin/users/1", Some(json!({ "role": "admin" }))),
                ("/admin/users/1", Some(json!({ "enabled": false }))),
                ("/admin/users/1", None),
                (home.as_str(), Some(json!({ "enabled": false }))),
                (home.as_str(), None),
            ] {
                let answer = match &change {
                    Some(change) => owner.patch(path, change).await,
                    None => owner.delete(path).await,
                };
                assert_error(&answer, 409, "last_owner");
            }
        };
        attempts().await;
        // One who can't sign in does not count.
        let second = make_user(owner, team.tenant, "second", "owner").await;
        let second = format!("/admin/users/{second}");
        owner.patch(&second, &json!({ "enabled": false })).await.expect(200);
        attempts().await;
        owner.patch(&second, &json!({ "enabled": true })).await.expect(200);
        owner.patch(&format!("/admin/orgs/{}", team.tenant), &json!({ "enabled": false })).await.expect(200);
        attempts().await;
        assert!(alive(owner).await, "what was refused changed nothing");

        owner.patch(&format!("/admin/orgs/{}", team.tenant), &json!({ "enabled": true })).await.expect(200);
        let heir = team.gateway.sign_in("second", PASSWORD).await;
        heir.delete(&home).await.expect(200);
        assert!(!alive(owner).await);
        assert_error(&heir.delete(&second).await, 409, "last_owner");
    }
}

#[tokio::test]
async fn two_owners_who_demote_each_other_at_once_leave_one() {
    for database in Database::all("two_owners_who_demote_each_other") {
        let gateway = gateway(database).await;
        let mut owners = [gateway.owner().await, Client::new(&gateway.url)];
        let second = make_user(&owners[0], 1, "second", "owner").await;
        let names = [("owner", "owner-password", 1), ("second", PASSWORD, second)];
        owners[1] = gateway.sign_in("second", PASSWORD).await;
        for _ in 0..8 {
            let demote = json!({ "role": "user" });
            let paths = names.map(|it| format!("/admin/users/{}", it.2));
            let (a, b) = join(owners[0].patch(&paths[1], &demote), owners[1].patch(&paths[0], &demote)).await;
            let left: Vec<_> = [(a.status, 0), (b.status, 1)].into_iter().filter(|it| it.0 == 200).collect();
            assert_eq!(left.len(), 1, "{a:?} {b:?}");
            let (winner, loser) = (left[0].1, 1 - left[0].1);
            owners[winner].patch(&paths[loser], &json!({ "role": "owner" })).await.expect(200);
            owners[loser] = gateway.sign_in(names[loser].0, names[loser].1).await;
        }
    }
}

#[tokio::test]
async fn of_several_session_cookies_the_first_counts_everywhere() {
    let gateway = gateway(Database::Sqlite).await;
    let answer = gateway.client().post("/auth/login", &credentials("owner", "owner-password")).await;
    let good = cookie(&answer).0;
    for (cookies, status) in [
        (format!("svc_session={good}; svc_session=x"), 200),
        (format!("svc_session=x; svc_session={good}"), 401),
    ] {
        for path in ["/auth/me", "/v1/models", "/v1/chat/sessions"] {
            let client = gateway.client();
            let answer = client.send(client.request(Method::GET, path).header("cookie", &cookies)).await;
            assert_eq!(answer.status, status, "{path}: {}", answer.text);
        }
    }
}

/// Two counts of what is left of the address.
#[tokio::test]
async fn guesses_at_the_same_time_count_as_those_one_after_the_other() {
    let gateway = start(Options::default().env("TRUSTED_PROXIES", "::ffff:127.0.0.1")).await;
    let from = |ip: &'static str, password: &'static str| {
        let client = gateway.client();
        async move {
            let request = client.request(Method::POST, "/auth/login").header("x-forwarded-for", ip);
            client.send(request.json(&credentials("owner", password))).await.status
        }
    };
    let all = join_all((0..20).map(|_| from("192.0.2.7", "wrong-password"))).await;
    let looked_at = all.iter().filter(|it| **it == 401).count();
    assert!(looked_at <= 6 && all.iter().all(|it| matches!(it, 401 | 429)), "{all:?}");

    // A sign-in forgives, of IPv6 too.
    for _ in 0..3 {
        for _ in 0..4 {
            assert_eq!(from("2001:db8::1:2:3:4", "wrong-password").await, 401);
        }
        assert_eq!(from("2001:db8::1:2:3:4", "owner-password").await, 200);
    }
}

#[tokio::test]
async fn guesses_of_one_user_slow_down_nobody_else_and_many_at_once_do_not_help() {
    let team = Team::with(Options::default()).await;
    make_user(&team.owner, team.home, "eve", "user").await;
    let eve = team.gateway.sign_in("eve", PASSWORD).await;
    let wrong = json!({ "current_password": "wrong-password", "new_password": "another-password" });
    let guess = async |client: &Client, n: usize| {
        let answers = join_all((0..n).map(|_| client.post("/auth/password", &wrong))).await;
        answers.iter().filter(|it| it.status == 401).count()
    };
    // At the same moment: what is not decided yet counts.
    assert!((1..=5).contains(&guess(&team.user, 20).await));
    for client in [&team.owner, &team.admin, &team.org_admin] {
        for _ in 0..5 {
            guess(client, 1).await;
        }
    }
    guess(&eve, 1).await;
    let right = json!({ "current_password": PASSWORD, "new_password": "another-password" });
    eve.post("/auth/password", &right).await.expect(200);
    // The user's own failed attempts are forgotten, because they gave the right password.
    for _ in 0..4 {
        assert_error(&eve.post("/auth/password", &wrong).await, 401, "invalid_credentials");
    }
    let again = json!({ "current_password": "another-password", "new_password": PASSWORD });
    eve.post("/auth/password", &again).await.expect(200);
}

#[tokio::test]
async fn a_forwarded_address_that_is_no_text_is_refused_and_not_passed_over() {
    let gateway = start(Options::default().env("TRUSTED_PROXIES", "127.0.0.1")).await;
    let client = gateway.client();
    let junk = reqwest::header::HeaderValue::from_bytes(b"\xff\xfe").unwrap();
    let login = async |lines: &[reqwest::header::HeaderValue]| {
        let mut request =
            client.request(Method::POST, "/auth/login").json(&credentials("owner", "owner-password"));
        for line in lines {
            request = request.header("x-forwarded-for", line);
        }
        client.send(request).await
    };
    let said = reqwest::header::HeaderValue::from_static("203.0.113.9");
    assert_error(&login(&[said.clone(), junk.clone()]).await, 400, "invalid_request");
    assert_error(&login(std::slice::from_ref(&junk)).await, 400, "invalid_request");
    // What stands left of the address that the proxy added is anybody's.
    assert_eq!(login(&[junk, said]).await.status, 200);
}

#[tokio::test]
async fn what_is_looked_for_has_a_length() {
    for database in Database::one("what_is_looked_for_has_a_length") {
        let team = Team::on(database).await;
        for list in ["/admin/users", "/admin/orgs", "/admin/keys", "/auth/keys"] {
            let fits = format!("{list}?q={}", "%C3%A4".repeat(200));
            assert_eq!(team.owner.get(&fits).await.expect(200), json!([]), "{list}");
            for n in [201, 10_000] {
                assert_invalid(&team.owner.get(&format!("{list}?q={}", "a".repeat(n))).await, &["q"]);
            }
        }
    }
}
