//! API keys: the record, the token, who sees which, and what becomes of them.

use futures_util::future::join_all;
use gantry_testkit::{Client, Database};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, assert_missing, column},
    team::{Team, id, make_key, make_org, make_user},
};

async fn user_id(owner: &Client, username: &str) -> i64 {
    id(&owner.get(&format!("/admin/users?q={username}")).await.expect(200)[0])
}

/// Takes out what every key has differently.
fn without_own(mut key: Value) -> Value {
    let key_object = key.as_object_mut().unwrap();
    for name in ["id", "token", "prefix", "created_at", "revision"] {
        key_object.shift_remove(name);
    }
    key
}

#[tokio::test]
async fn a_new_key_shows_its_token_once_and_its_record_for_ever() {
    for database in Database::one("a_new_key_shows_its_token_once") {
        let team = Team::on(database).await;
        let uwe = user_id(&team.owner, "uwe").await;
        let body = json!({
            "name": "Ci", "scopes": "embeddings, chat", "models": ["b/c", "a"], "user_id": uwe,
            "ip_allowlist": ["10.1.2.3/8", "::ffff:192.0.2.1", "::1"], "expires_at": "2099-01-01T02:00:00+02:00",
            "rpm_limit": 60, "tpm_limit": 1000, "max_concurrency": 2,
        });
        let made = make_key(&team.owner, &body).await;
        let token = made["token"].as_str().unwrap();
        assert_eq!(token.len(), 50);
        assert!(token.strip_prefix("gty_").unwrap().bytes().all(|it| it.is_ascii_alphanumeric()), "{token}");
        assert_eq!(made["prefix"], token[..12]);
        assert!(made["created_at"].as_str().unwrap().ends_with('Z'), "{made}");
        let record = json!({
            "name": "Ci", "scopes": "chat,embeddings", "models": ["b/c", "a"], "org_id": team.tenant,
            "org_name": "Tenant", "user_id": uwe, "username": "uwe", "ip_allowlist": ["10.0.0.0/8", "192.0.2.1", "::1"],
            "expires_at": "2099-01-01T00:00:00.000Z", "last_used_at": null, "revoked_at": null,
            "status": "active", "rpm_limit": 60, "tpm_limit": 1000, "max_concurrency": 2,
            "max_streams": null, "budget_tokens_day": null, "budget_tokens_month": null, "limit_mode": "enforce",
            "effective_limits": {
                "rpm_limit": 60, "tpm_limit": 1000, "max_concurrency": 2, "max_streams": null,
                "budget_tokens_day": null, "budget_tokens_month": null,
            },
            "budget": null,
        });
        assert_eq!(without_own(made.clone()), record);

        let plain = make_key(&team.owner, &json!({})).await;
        assert_ne!(plain["token"], made["token"]);
        let defaults = json!({
            "name": "", "scopes": "chat,completions,embeddings", "models": null, "org_id": team.home,
            "org_name": "Default", "user_id": null, "username": null, "ip_allowlist": [], "expires_at": null,
            "last_used_at": null, "revoked_at": null, "status": "active", "rpm_limit": null,
            "tpm_limit": null, "max_concurrency": null, "max_streams": null, "budget_tokens_day": null,
            "budget_tokens_month": null, "limit_mode": "enforce",
            "effective_limits": {
                "rpm_limit": null, "tpm_limit": null, "max_concurrency": null, "max_streams": null,
                "budget_tokens_day": null, "budget_tokens_month": null,
            },
            "budget": null,
        });
        assert_eq!(without_own(plain.clone()), defaults);

        let list = team.owner.get("/admin/keys").await;
        assert_eq!(list.header("x-total-count"), Some("2"));
        assert!(!list.text.contains(token) && !list.text.contains("token\":"), "{}", list.text);
        let listed: Vec<_> = list.json.as_array().unwrap().iter().cloned().map(without_own).collect();
        assert_eq!(listed, [record, defaults]);
        // It works in the next breath.
        let elsewhere = team.gateway.client().with_key(token).get("/v1/models").await;
        assert_error(&elsewhere, 403, "ip_not_allowed");
        assert!(!elsewhere.text.contains("10."), "it never tells the list: {}", elsewhere.text);
        let plain = team.gateway.client().with_key(plain["token"].as_str().unwrap());
        assert_eq!(plain.get("/v1/models").await.expect(200), json!({ "object": "list", "data": [] }));
    }
}

#[tokio::test]
async fn what_a_key_may_not_be_is_refused_with_every_reason() {
    for database in Database::one("what_a_key_may_not_be") {
        let team = Team::on(database).await;
        let ada = user_id(&team.owner, "ada").await;
        let key = make_key(&team.owner, &json!({ "name": "kept" })).await;
        let path = format!("/admin/keys/{}", id(&key));
        let before = team.owner.get("/admin/keys").await.json;
        let both = [
            ("name", json!("x".repeat(101))),
            ("name", json!("two\nlines")),
            ("name", json!(7)),
            ("scopes", json!("")),
            ("scopes", json!([])),
            ("scopes", json!("chat,admin")),
            ("scopes", json!("CHAT")),
            ("scopes", json!({ "chat": true })),
            ("models", json!([])),
            ("models", json!([""])),
            ("models", json!("all")),
            ("models", json!([1])),
            ("ip_allowlist", json!(["10.0.0.0/33"])),
            ("ip_allowlist", json!("10.0.0.1,localhost")),
            ("ip_allowlist", json!([1])),
            // Nothing but emptiness must not become "from everywhere".
            ("ip_allowlist", json!([""])),
            ("ip_allowlist", json!(["10.0.0.1", " "])),
            ("ip_allowlist", json!("")),
            ("ip_allowlist", json!(",")),
            ("ip_allowlist", json!(true)),
            ("expires_at", json!("2020-01-01T00:00:00Z")),
            ("expires_at", json!("2099-01-01")),
            ("expires_at", json!("tomorrow")),
            ("expires_at", json!(4_070_908_800_i64)),
            ("rpm_limit", json!(0)),
            ("tpm_limit", json!(-1)),
            ("max_concurrency", json!(1.5)),
            ("rpm_limit", json!(1_000_000_001)),
            ("tpm_limit", json!("5")),
            ("token", json!("gty_mine")),
            ("status", json!("active")),
        ];
        for (field, value) in &both {
            assert_invalid(&team.owner.post("/admin/keys", &json!({ *field: value })).await, &[field]);
            assert_invalid(&team.owner.patch(&path, &json!({ *field: value })).await, &[field]);
        }
        // Where there is something already, nothing is not everything.
        assert_invalid(&team.owner.patch(&path, &json!({ "scopes": null })).await, &["scopes"]);
        // A key never changes hands.
        for field in ["org_id", "user_id"] {
            assert_invalid(&team.owner.patch(&path, &json!({ field: 1 })).await, &[field]);
            for value in [json!(0), json!(-1), json!("1"), json!(1.5)] {
                assert_invalid(&team.owner.post("/admin/keys", &json!({ field: value })).await, &[field]);
            }
            assert_missing(&team.owner.post("/admin/keys", &json!({ field: 999_999 })).await, field);
        }
        let elsewhere = json!({ "user_id": ada, "org_id": team.tenant });
        assert_invalid(&team.owner.post("/admin/keys", &elsewhere).await, &["org_id"]);
        let many = json!({ "rpm_limit": 0, "colour": "red", "scopes": "all", "name": "x".repeat(101) });
        let all = ["name", "scopes", "rpm_limit", "colour"];
        assert_invalid(&team.owner.post("/admin/keys", &many).await, &all);
        assert_eq!(team.owner.get("/admin/keys").await.json, before);
    }
}

#[tokio::test]
async fn a_change_touches_what_it_names_and_null_takes_back() {
    for database in Database::one("a_change_touches_what_it_names") {
        let team = Team::on(database).await;
        let key = make_key(&team.owner, &json!({ "name": "before", "rpm_limit": 5, "scopes": null })).await;
        assert_eq!(key["scopes"], "chat,completions,embeddings");
        let path = format!("/admin/keys/{}", id(&key));
        let mut record = key.clone();
        record.as_object_mut().unwrap().shift_remove("token");
        assert_eq!(team.owner.patch(&path, &json!({})).await.expect(200), record);
        for (field, value, shown, unset) in [
            ("name", json!("after"), json!("after"), json!("")),
            ("models", json!(["m"]), json!(["m"]), json!(null)),
            (
                "ip_allowlist",
                json!("10.0.0.7, 192.168.1.9/24"),
                json!(["10.0.0.7", "192.168.1.0/24"]),
                json!([]),
            ),
            ("expires_at", json!("2099-01-01T00:00:00.5Z"), json!("2099-01-01T00:00:00.500Z"), json!(null)),
            ("rpm_limit", json!(7), json!(7), json!(null)),
            ("tpm_limit", json!(1_000_000_000), json!(1_000_000_000), json!(null)),
            ("max_concurrency", json!(1), json!(1), json!(null)),
        ] {
            // Without an organisation's limit above it, what is set is what is in force.
            let in_force = record["effective_limits"].get(field).is_some();
            let mut set = |value: Value| {
                if in_force {
                    record["effective_limits"][field] = value.clone();
                }
                record[field] = value;
                record.clone()
            };
            for (sent, shown) in [(value, shown), (json!(null), unset)] {
                let mut wanted = set(shown);
                let found = team.owner.patch(&path, &json!({ field: sent })).await.expect(200);
                wanted["revision"] = found["revision"].clone();
                assert_eq!(found, wanted, "{field}");
            }
        }
        record["scopes"] = json!("completions");
        let found = team.owner.patch(&path, &json!({ "scopes": ["completions"] })).await.expect(200);
        record["revision"] = found["revision"].clone();
        assert_eq!(found, record);
        assert_eq!(team.owner.get("/admin/keys").await.json, json!([record]));
        // No change is lost if many are made at once.
        let fields = ["rpm_limit", "tpm_limit", "max_concurrency"];
        for n in 1..=4 {
            let bodies: Vec<_> = (0..12).map(|i| json!({ fields[i % 3]: n })).collect();
            join_all(bodies.iter().map(|it| team.owner.patch(&path, it))).await;
            let key = &team.owner.get("/admin/keys").await.json[0];
            assert!(fields.iter().all(|it| key[it] == n), "{key}");
        }
        // The token is still the same.
        let bearer = team.gateway.client().with_key(key["token"].as_str().unwrap());
        assert_eq!(bearer.get("/v1/models").await.status, 200);
    }
}

#[tokio::test]
async fn lists_are_sorted_searched_filtered_and_paged() {
    for database in Database::all("lists_are_sorted_searched_filtered_and_paged") {
        let team = Team::on(database).await;
        let uwe = user_id(&team.owner, "uwe").await;
        for (name, user) in [("Beta", None), ("alpha", Some(uwe)), ("100%_Ö", None), ("gamma", Some(uwe))] {
            make_key(&team.owner, &json!({ "name": name, "user_id": user })).await;
        }
        let names = async |query: &str| {
            let answer = team.owner.get(&format!("/admin/keys?{query}")).await;
            assert_eq!(answer.status, 200, "{query}: {}", answer.text);
            let names = column(&answer.json, "name").into_iter().map(|it| it.as_str().unwrap().to_owned());
            (names.collect::<Vec<_>>().join(" "), answer.header("x-total-count").unwrap().to_owned())
        };
        for (query, wanted, total) in [
            ("", "Beta alpha 100%_Ö gamma", "4"),
            ("sort=name", "100%_Ö alpha Beta gamma", "4"),
            ("sort=name:desc", "gamma Beta alpha 100%_Ö", "4"),
            ("sort=created_at:desc&limit=1", "gamma", "4"),
            ("sort=id:desc&limit=2&offset=1", "100%_Ö alpha", "4"),
            ("sort=last_used_at", "Beta alpha 100%_Ö gamma", "4"),
            ("offset=4", "", "4"),
            ("offset=1000000000", "", "4"),
            ("limit=1000", "Beta alpha 100%_Ö gamma", "4"),
            ("q=ALPH", "alpha", "1"),
            ("q=ö", "100%_Ö", "1"),
            ("q=%25_", "100%_Ö", "1"),
            ("q=%25", "100%_Ö", "1"),
            ("q=_amma", "", "0"),
            ("q='%3B--", "", "0"),
            ("q=%00", "", "0"),
            ("q=", "Beta alpha 100%_Ö gamma", "4"),
            ("q=gty_&sort=name&limit=1", "100%_Ö", "4"),
            (&format!("user_id={uwe}"), "alpha gamma", "2"),
            (&format!("org_id={}", team.home), "Beta 100%_Ö", "2"),
            (&format!("org_id={}&user_id={uwe}", team.home), "", "0"),
            ("org_id=999999", "", "0"),
        ] {
            assert_eq!(names(query).await, (wanted.to_owned(), total.to_owned()), "{query}");
        }
        let prefix =
            team.owner.get("/admin/keys?limit=1").await.json[0]["prefix"].as_str().unwrap().to_lowercase();
        assert_eq!(names(&format!("q={prefix}")).await.0, "Beta");
    }
}

#[tokio::test]
async fn an_org_admin_sees_and_touches_the_keys_of_his_organisation_only() {
    for database in Database::one("an_org_admin_sees_and_touches_the_keys") {
        let team = Team::on(database).await;
        let (olga, ada) = (&team.org_admin, user_id(&team.owner, "ada").await);
        let uwe = user_id(&team.owner, "uwe").await;
        let foreign = make_key(&team.owner, &json!({ "name": "foreign", "user_id": ada })).await;
        let own = make_key(olga, &json!({ "name": "own", "user_id": uwe })).await;
        assert_eq!(own["org_id"], team.tenant);
        assert_eq!(make_key(olga, &json!({ "name": "all" })).await["org_id"], team.tenant);

        for query in ["", "?q=gty_", "?sort=name:desc", &format!("?org_id={}", team.tenant)] {
            let answer = olga.get(&format!("/admin/keys{query}")).await;
            assert_eq!(answer.header("x-total-count"), Some("2"), "{query}");
            assert!(!answer.text.contains("foreign"), "{query}");
        }
        for query in [format!("org_id={}", team.home), format!("user_id={ada}"), "q=foreign".to_owned()] {
            let answer = olga.get(&format!("/admin/keys?{query}")).await;
            assert_eq!((answer.header("x-total-count"), answer.text.as_str()), (Some("0"), "[]"), "{query}");
        }
        let path = format!("/admin/keys/{}", id(&foreign));
        assert_error(&olga.patch(&path, &json!({ "name": "mine" })).await, 404, "not_found");
        assert_error(&olga.delete(&path).await, 404, "not_found");
        assert_missing(&olga.post("/admin/keys", &json!({ "org_id": team.home })).await, "org_id");
        assert_missing(&olga.post("/admin/keys", &json!({ "user_id": ada })).await, "user_id");
        let kept = team.owner.get("/admin/keys?q=foreign").await.json;
        assert_eq!((&kept[0]["name"], &kept[0]["status"]), (&json!("foreign"), &json!("active")));
        assert_eq!(team.owner.get("/admin/keys").await.header("x-total-count"), Some("3"));
        olga.delete(&format!("/admin/keys/{}", id(&own))).await.expect(200);
    }
}

#[tokio::test]
async fn anybody_keeps_his_own_keys_and_no_others() {
    for database in Database::one("anybody_keeps_his_own_keys") {
        let team = Team::on(database).await;
        let (uwe, uwe_id) = (&team.user, user_id(&team.owner, "uwe").await);
        let made = uwe.post("/auth/keys", &json!({ "name": "mine", "scopes": ["chat"] })).await.expect(201);
        assert_eq!((&made["user_id"], &made["org_id"]), (&json!(uwe_id), &json!(team.tenant)));
        let bearer = team.gateway.client().with_key(made["token"].as_str().unwrap());
        assert_eq!(bearer.get("/v1/models").await.status, 200);
        let given = make_key(&team.owner, &json!({ "name": "given", "user_id": uwe_id })).await;
        let others = [
            make_key(&team.owner, &json!({ "name": "organisation", "org_id": team.tenant })).await,
            team.org_admin.post("/auth/keys", &json!({ "name": "olga's" })).await.expect(201),
        ];
        let list = uwe.get("/auth/keys?sort=name").await;
        assert_eq!(column(&list.json, "name"), ["given", "mine"]);
        assert_eq!(list.header("x-total-count"), Some("2"));
        assert!(!list.text.contains(made["token"].as_str().unwrap()));
        assert_eq!(column(&uwe.get("/auth/keys?q=olga").await.json, "name"), Vec::<&Value>::new());
        for other in &others {
            let answer = uwe.delete(&format!("/auth/keys/{}", id(other))).await;
            assert_error(&answer, 404, "not_found");
        }
        for field in ["org_id", "user_id"] {
            assert_invalid(&uwe.post("/auth/keys", &json!({ field: 1 })).await, &[field]);
            assert_invalid(&uwe.get(&format!("/auth/keys?{field}=1")).await, &[field]);
        }
        for own in [&made, &given] {
            let done = uwe.delete(&format!("/auth/keys/{}", id(own))).await.expect(200);
            assert_eq!(done, json!({ "id": id(own), "status": "deleted" }));
        }
        assert_eq!(bearer.get("/v1/models").await.status, 401);
        assert_eq!(column(&uwe.get("/auth/keys").await.json, "status"), ["revoked", "revoked"]);
        let all = team.owner.get("/admin/keys?sort=name").await.json;
        assert_eq!(column(&all, "status"), ["revoked", "revoked", "active", "active"]);
    }
}

#[tokio::test]
async fn a_key_says_why_it_does_not_work() {
    for database in Database::one("a_key_says_why_it_does_not_work") {
        let team = Team::on(database).await;
        let org = make_org(&team.owner, "Shop").await;
        let user = make_user(&team.owner, org, "sam", "user").await;
        let personal = make_key(&team.owner, &json!({ "name": "personal", "user_id": user })).await;
        let shared = make_key(&team.owner, &json!({ "name": "shared", "org_id": org })).await;
        let statuses = async || {
            let list = team.owner.get(&format!("/admin/keys?org_id={org}")).await.expect(200);
            let shown = column(&list, "status").into_iter().map(|it| it.as_str().unwrap().to_owned());
            let mut works = Vec::new();
            for key in [&personal, &shared] {
                let bearer = team.gateway.client().with_key(key["token"].as_str().unwrap());
                works.push(bearer.get("/v1/models").await.status);
            }
            (shown.collect::<Vec<_>>().join(" "), works)
        };
        let is = |shown: &str, works: [u16; 2]| (shown.to_owned(), works.to_vec());
        assert_eq!(statuses().await, is("active active", [200, 200]));
        team.owner.patch(&format!("/admin/users/{user}"), &json!({ "enabled": false })).await.expect(200);
        assert_eq!(statuses().await, is("holder_disabled active", [401, 200]));
        team.owner.patch(&format!("/admin/orgs/{org}"), &json!({ "enabled": false })).await.expect(200);
        assert_eq!(statuses().await, is("holder_disabled holder_disabled", [401, 401]));

        let path = format!("/admin/keys/{}", id(&personal));
        team.owner.delete(&path).await.expect(200);
        let revoked_at = team.owner.get("/admin/keys?q=personal").await.json[0]["revoked_at"].clone();
        assert!(revoked_at.is_string());
        // Again: it stays revoked since then.
        assert_eq!(
            team.owner.delete(&path).await.expect(200),
            json!({ "id": id(&personal), "status": "deleted" })
        );
        assert_eq!(team.owner.get("/admin/keys?q=personal").await.json[0]["revoked_at"], revoked_at);
        team.owner.patch(&format!("/admin/users/{user}"), &json!({ "enabled": true })).await.expect(200);
        team.owner.patch(&format!("/admin/orgs/{org}"), &json!({ "enabled": true })).await.expect(200);
        assert_eq!(statuses().await, is("revoked active", [401, 200]));
    }
}

#[tokio::test]
async fn many_keys_at_once_are_all_made_and_all_different() {
    for database in Database::all("many_keys_at_once") {
        let team = Team::on(database).await;
        let body = json!({});
        let keys = join_all((0..100).map(|_| make_key(&team.admin, &body))).await;
        let mut tokens: Vec<_> = keys.iter().map(|it| it["token"].as_str().unwrap()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), 100);
        assert_eq!(team.owner.get("/admin/keys").await.header("x-total-count"), Some("100"));
    }
}

#[tokio::test]
async fn own_keys_are_few_and_small() {
    for database in Database::one("own_keys_are_few") {
        let team = Team::on(database).await;
        let names = |n: usize, len: usize| json!({ "models": (0..n).map(|it| format!("{it:0len$}")).collect::<Vec<_>>() });
        for body in [names(201, 4), names(100, 200)] {
            let many = team.user.post("/auth/keys", &body).await;
            assert_invalid(&many, &["models"]);
            // Administrators may do it: they know what they do.
            make_key(&team.owner, &body).await;
        }
        let first = team.user.post("/auth/keys", &names(200, 4)).await.expect(201);
        let body = json!({});
        for _ in 0..9 {
            join_all((0..11).map(async |_| team.user.post("/auth/keys", &body).await.expect(201))).await;
        }
        let one_more = team.user.post("/auth/keys", &body).await;
        assert_error(&one_more, 409, "invalid_state");
        assert_eq!(one_more.json["error"]["message"], "you have 100 keys: revoke some first");
        // Other users can still make keys, and administrators can make them for this user.
        team.org_admin.post("/auth/keys", &body).await.expect(201);
        make_key(&team.org_admin, &json!({ "user_id": user_id(&team.owner, "uwe").await })).await;
        let given = &team.user.get("/auth/keys?sort=id:desc&limit=1").await.expect(200)[0];
        for key in [given, &first] {
            team.user.delete(&format!("/auth/keys/{}", id(key))).await.expect(200);
        }
        team.user.post("/auth/keys", &body).await.expect(201);
    }
}

#[tokio::test]
async fn own_keys_are_made_and_revoked_only_so_often_a_day() {
    for database in Database::one("own_keys_are_made_and_revoked") {
        let team = Team::on(database).await;
        let body = json!({ "name": "short-lived" });
        let come_and_go = async |_| {
            let key = team.user.post("/auth/keys", &body).await.expect(201);
            team.user.delete(&format!("/auth/keys/{}", id(&key))).await.expect(200);
        };
        // Not all at once: writers wait for each other, and a busy machine lets them wait for long.
        for _ in 0..20 {
            join_all((0..10).map(come_and_go)).await;
        }
        let one_more = team.user.post("/auth/keys", &body).await;
        assert_error(&one_more, 409, "invalid_state");
        assert_eq!(
            one_more.json["error"]["message"],
            "200 keys were made for you within a day: make the next one tomorrow, or ask an administrator"
        );
        let list = team.owner.get("/admin/keys?q=short&limit=1").await;
        assert_eq!(list.header("x-total-count"), Some("200"), "what was made stays to be seen");
        // Other users can still make keys, and administrators can make them for this user.
        team.org_admin.post("/auth/keys", &body).await.expect(201);
        make_key(&team.org_admin, &json!({ "user_id": user_id(&team.owner, "uwe").await })).await;
    }
}

#[tokio::test]
async fn a_key_is_revoked_once_however_often_it_is_said() {
    for database in Database::one("a_key_is_revoked_once") {
        let team = Team::on(database).await;
        let own = format!("/auth/keys/{}", id(&team.user.post("/auth/keys", &json!({})).await.expect(201)));
        let other = format!("/admin/keys/{}", id(&make_key(&team.owner, &json!({})).await));
        let audited = async || {
            let rows = team.owner.get("/admin/audit?limit=1000").await.expect(200);
            column(&rows, "action").iter().filter(|it| **it == "key.revoke").count()
        };
        for (n, (client, path)) in [(&team.user, &own), (&team.owner, &other)].into_iter().enumerate() {
            let first = client.delete(path).await.expect(200);
            for _ in 0..5 {
                assert_eq!(client.delete(path).await.expect(200), first);
            }
            assert_eq!(audited().await, n + 1);
        }
    }
}
