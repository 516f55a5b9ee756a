//! What browsers may do: pages of other sites, other host names, headers that guard pages, and the pages themselves.

use gantry_testkit::{Answer, Client, Database, Gateway, Options};
use reqwest::Method;
use serde_json::json;

use crate::{
    matrix::{TABLE, filled},
    support::{assert_error, gateway, start},
    team::{everything, id},
};

const UI: &str = "https://ui.example.org";
const EVIL: &str = "https://evil.example";

async fn open_to_ui() -> (Gateway, Client) {
    let options = Options::default()
        .env("CORS_ALLOW_ORIGINS", "https://ui.example.org, http://10.0.0.9:3000")
        .env("ALLOWED_HOSTS", "gantry.internal, proxy.example.org");
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    (gateway, owner)
}

async fn with(client: &Client, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = client.request(method.parse().unwrap(), path);
    if matches!(method, "POST" | "PATCH") {
        request = request.json(&json!({}));
    }
    client.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing_on_any_route() {
    for database in Database::one("a_page_of_another_site_changes_nothing") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let key = owner.post("/admin/keys", &json!({})).await.expect(201);
        let before = everything(&owner).await;
        for (method, path, ..) in TABLE.iter().filter(|it| it.0 != "GET") {
            let path = filled(path, &id(&key).to_string(), "x");
            for headers in [
                &[("sec-fetch-site", "cross-site"), ("origin", EVIL)][..],
                &[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:1")],
                &[("origin", EVIL)],
                &[("origin", "null")],
            ] {
                let answer = with(&owner, method, &path, headers).await;
                assert_eq!(answer.status, 403, "{method} {path} {headers:?}: {}", answer.text);
                assert_error(&answer, 403, "cross_site_request");
                assert_eq!(answer.header("set-cookie"), None);
            }
        }
        // The playground's way to the models is no way around.
        for headers in [&[("sec-fetch-site", "cross-site")][..], &[("origin", EVIL)]] {
            let answer = with(&owner, "POST", "/v1/chat/completions", headers).await;
            assert_error(&answer, 403, "cross_site_request");
        }
        assert_eq!(everything(&owner).await, before);
    }
}

#[tokio::test]
async fn a_page_of_another_port_or_site_reads_nothing_with_the_session_and_links_to_the_pages_work() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    // What a browser says of a link, and of a picture or a script.
    for (site, mode) in [("same-site", "navigate"), ("cross-site", "navigate"), ("same-site", "no-cors")] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode)];
        for path in ["/auth/me", "/admin/users", "/admin/usage/export", "/v1/chat/sessions", "/v1/models"] {
            let answer = with(&owner, "GET", path, &headers).await;
            assert_error(&answer, 403, "cross_site_request");
        }
        for (path, status) in [
            ("/", 307),
            ("/ui/", 200),
            ("/docs", 200),
            ("/openapi.json", 200),
            ("/readyz", 200),
            ("/auth/setup", 200),
        ] {
            assert_eq!(with(&owner, "GET", path, &headers).await.status, status, "{path}");
        }
        // Without the cookie, which `SameSite=Strict` keeps back, it is nobody's request.
        assert_error(&with(&gateway.client(), "GET", "/auth/me", &headers).await, 401, "unauthenticated");
    }
    // A typed address, the gateway's own page, and what is no browser.
    for headers in [&[("sec-fetch-site", "none")][..], &[("sec-fetch-site", "same-origin")], &[]] {
        assert_eq!(with(&owner, "GET", "/auth/me", headers).await.status, 200, "{headers:?}");
    }
}

#[tokio::test]
async fn browsers_are_told_to_use_https_where_the_operator_says_so() {
    let gateway = start(Options::default().env("HSTS_MAX_AGE_SEC", "31536000")).await;
    for path in ["/ui/", "/auth/me", "/nope"] {
        let answer = gateway.client().get(path).await;
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"), "{path}");
    }
    let plain = self::gateway(Database::Sqlite).await;
    assert_eq!(plain.client().get("/ui/").await.header("strict-transport-security"), None);
}

#[tokio::test]
async fn who_comes_by_an_unknown_name_is_told_the_name_and_the_line_to_set() {
    let gateway = gateway(Database::Sqlite).await;
    let anybody = gateway.client();
    let said = async |client: &Client, path: &str, host: &str| {
        let answer = with(client, "GET", path, &[("host", host)]).await;
        assert_error(&answer, 421, "unknown_host");
        answer.json["error"]["message"].as_str().unwrap().to_owned()
    };
    for path in ["/ui/", "/v1/models", "/auth/me"] {
        let message = said(&anybody, path, "gpu1:8084").await;
        assert!(message.contains("`gpu1`") && message.contains("set ALLOWED_HOSTS=gpu1 "), "{message}");
        let odd = said(&anybody, path, "evil\t<b>\"\u{e4}").await;
        assert!(odd.contains("`evil") && odd.is_ascii() && !odd.contains('\t'), "{odd}");
        let long = said(&anybody, path, &"x".repeat(4000)).await;
        assert!(long.len() < 300, "{long}");
    }
    let (gateway, _) = open_to_ui().await;
    let message = said(&gateway.client(), "/ui/", "gpu1").await;
    assert!(message.contains("ALLOWED_HOSTS=…,gpu1 ") && !message.contains("gantry.internal"), "{message}");
}

#[tokio::test]
async fn the_origin_decides_whose_page_a_change_came_from() {
    let (gateway, owner) = open_to_ui().await;
    let host = gateway.url.strip_prefix("http://").unwrap().to_owned();
    let own = [gateway.url.clone(), format!("https://{host}"), gateway.url.to_uppercase()];
    let listed = [UI.to_owned(), "http://10.0.0.9:3000".to_owned()];
    let foreign = [
        EVIL.to_owned(),
        "null".to_owned(),
        String::new(),
        "file://".to_owned(),
        "http://127.0.0.1".to_owned(),
        "http://127.0.0.1:1".to_owned(),
        format!("http://localhost:{}", host.split(':').next_back().unwrap()),
        format!("{}.evil.example", gateway.url),
        format!("{EVIL}/{host}"),
        format!("http://{host}@evil.example"),
        host.clone(),
        format!("{UI}.evil.example"),
        format!("{UI}:444"),
        format!("{UI}/"),
        "http://ui.example.org".to_owned(),
        "https://UI.example.org".to_owned(),
        "https://example.org".to_owned(),
        "https://xui.example.org".to_owned(),
        format!("{UI}, {EVIL}"),
    ];
    let absent: [String; 0] = [];
    let groups = [("absent", &absent[..]), ("own", &own), ("listed", &listed), ("foreign", &foreign)];
    // Which origins may change something, by what the browser says of the site.
    let rules: [(Option<&str>, &[&str]); 7] = [
        (None, &["absent", "own", "listed"]),
        (Some("same-origin"), &["absent", "own", "listed", "foreign"]),
        (Some("none"), &["absent", "own", "listed", "foreign"]),
        (Some("same-site"), &["listed"]),
        (Some("cross-site"), &["listed"]),
        (Some(""), &["listed"]),
        (Some("Same-Origin, cross-site"), &["listed"]),
    ];
    let mut n_cases = 0;
    for (site, may) in rules {
        for (group, origins) in groups {
            let origins = origins.iter().map(|it| Some(it.as_str()));
            let origins: Vec<_> = if group == "absent" { vec![None] } else { origins.collect() };
            for origin in origins {
                let mut headers: Vec<_> = origin.map(|it| ("origin", it)).into_iter().collect();
                headers.extend(site.map(|it| ("sec-fetch-site", it)));
                for method in ["GET", "PATCH", "DELETE", "POST"] {
                    let path = match method {
                        "GET" => "/admin/orgs",
                        "POST" => "/admin/keys",
                        "DELETE" => "/admin/orgs/999",
                        _ => "/admin/orgs/1",
                    };
                    let answer = with(&owner, method, path, &headers).await;
                    let done = [("GET", 200), ("POST", 201), ("DELETE", 404), ("PATCH", 200)];
                    let done = done.iter().find(|it| it.0 == method).unwrap().1;
                    let wanted = if may.contains(&group) { done } else { 403 };
                    assert_eq!(answer.status, wanted, "{method} {headers:?}: {}", answer.text);
                    n_cases += 1;
                }
            }
        }
    }
    assert_eq!(n_cases, 7 * 25 * 4);
}

/// What nobody else's page may read with the session is refused to it.
const READ: [(&str, &str, u16); 10] = [
    ("GET", "/auth/me", 200),
    ("GET", "/admin/nope", 404),
    ("GET", "/admin/keys?limit=0", 422),
    ("PUT", "/admin/keys", 405),
    ("GET", "/readyz", 200),
    ("GET", "/ui/", 200),
    ("GET", "/v1/models", 200),
    ("GET", "/v1/models/nope", 404),
    ("GET", "/v1/chat/completions", 405),
    ("GET", "/health", 200),
];

#[tokio::test]
async fn other_origins_read_only_what_the_operator_lets_them() {
    let (gateway, owner) = open_to_ui().await;
    for (method, path, status) in READ {
        let answer = with(&owner, method, path, &[("origin", UI)]).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(UI), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
        let readable = answer.header("access-control-expose-headers").unwrap();
        for name in ["x-total-count", "retry-after", "x-should-retry", "x-gantry-budget-warning"] {
            assert!(readable.split(", ").any(|it| it == name), "{readable}");
        }
        assert!(answer.headers.get_all("vary").iter().any(|it| it == "origin"), "{path}");
    }
    let chat = with(&owner, "POST", "/v1/chat/completions", &[("origin", UI)]).await;
    assert_eq!((chat.status, chat.header("access-control-allow-origin")), (400, Some(UI)), "{}", chat.text);
    let hostile = [
        EVIL,
        "null",
        "*",
        "https://ui.example.org.evil.example",
        "https://evil.example/https://ui.example.org",
        "https://ui.example.org:443",
        "http://ui.example.org",
        "HTTPS://UI.EXAMPLE.ORG",
        "https://a.ui.example.org",
        "https://ui.example.or",
        "https://uiXexample.org",
        "https://ui.example.org,https://evil.example",
        "https://ui.example.org https://evil.example",
        "https://ui.example.org@evil.example",
        "ui.example.org",
        "http://10.0.0.9",
        "http://10.0.0.9:30000",
        "http://localhost",
        "file://",
        "chrome-extension://abc",
    ];
    for origin in hostile {
        for (method, path, status) in READ {
            let answer = with(&owner, method, path, &[("origin", origin)]).await;
            let with_session = ["/auth/me", "/admin/keys?limit=0", "/v1/models", "/v1/models/nope"];
            let status = if with_session.contains(&path) { 403 } else { status };
            assert_eq!(answer.status, status, "{origin} {path}");
            let said: Vec<_> =
                answer.headers.keys().filter(|it| it.as_str().starts_with("access-control")).collect();
            assert!(said.is_empty(), "{origin} {path}: {said:?}");
            let varies = answer.headers.get_all("vary").iter().any(|it| it == "origin");
            assert!(varies, "{path}: a cache must not mix them up");
        }
    }

    let wanted = "authorization, content-type, x-stainless-lang";
    let ask = [("access-control-request-method", "PATCH"), ("access-control-request-headers", wanted)];
    for path in ["/admin/keys/1", "/auth/login", "/admin/nope", "/v1/chat/completions", "/v1/models"] {
        let answer = with(&gateway.client(), "OPTIONS", path, &[&ask[..], &[("origin", UI)]].concat()).await;
        assert_eq!((answer.status, answer.text.as_str()), (204, ""), "{path}");
        for (name, value) in [
            ("access-control-allow-origin", UI),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE"),
            ("access-control-allow-headers", wanted),
            ("access-control-max-age", "600"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        for origin in hostile {
            let answer =
                with(&gateway.client(), "OPTIONS", path, &[&ask[..], &[("origin", origin)]].concat()).await;
            assert!(matches!(answer.status, 404 | 405), "{origin} {path}: {}", answer.status);
            assert_eq!(answer.header("access-control-allow-origin"), None, "{origin} {path}");
        }
    }
    // Without the setting there is no CORS at all.
    let plain = self::gateway(Database::Sqlite).await;
    for (path, status) in [("/auth/me", 403), ("/readyz", 200)] {
        let answer = with(&plain.owner().await, "GET", path, &[("origin", UI)]).await;
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin"), answer.header("vary")),
            (status, None, None)
        );
    }
}

#[tokio::test]
async fn the_gateway_answers_to_its_own_names_only() {
    let (gateway, owner) = open_to_ui().await;
    let port = gateway.url.split(':').next_back().unwrap().to_owned();
    for host in [
        "127.0.0.1",
        "127.0.0.1:1",
        "10.1.2.3:80",
        "localhost",
        "LocalHost:99",
        "[::1]",
        "[::1]:8084",
        "[2001:db8::1]:80",
        "gantry.internal",
        "GANTRY.internal:443",
        "proxy.example.org",
    ] {
        assert_eq!(with(&owner, "GET", "/auth/me", &[("host", host)]).await.status, 200, "{host}");
        assert_eq!(with(&gateway.client(), "GET", "/ui/", &[("host", host)]).await.status, 200, "{host}");
    }
    let own = format!("evil.example:{port}");
    for host in [
        "evil.example",
        own.as_str(),
        "127.0.0.1.evil.example",
        "127.0.0.1:80.evil.example",
        "localhost.evil.example",
        "gantry.internal.evil.example",
        "xgantry.internal",
        "gantry.internal.",
        "internal",
        "2130706433",
        "0x7f.1",
        "127.1",
        "",
        ":80",
        "user@evil.example",
        "evil.example, 127.0.0.1",
        "evil.example#127.0.0.1",
        "[evil.example]",
    ] {
        for (method, path) in [
            ("GET", "/auth/me"),
            ("POST", "/auth/logout"),
            ("GET", "/ui/"),
            ("GET", "/"),
            ("GET", "/readyz"),
            ("GET", "/nope"),
            ("PUT", "/admin/keys"),
            ("OPTIONS", "/admin/keys"),
            ("GET", "/v1/models"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/completions"),
            ("GET", "/v1/embeddings"),
        ] {
            let answer = with(&owner, method, path, &[("host", host)]).await;
            assert_eq!(answer.status, 421, "{host:?} {path}: {}", answer.text);
            assert_error(&answer, 421, "unknown_host");
        }
    }
    assert_eq!(owner.get("/auth/me").await.status, 200, "nobody was signed out");
}

const GUARDS: [(&str, &str); 6] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "content-security-policy",
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; \
         form-action 'self'",
    ),
];

#[tokio::test]
async fn every_answer_carries_the_headers_that_guard_pages() {
    let (gateway, owner) = open_to_ui().await;
    let anybody = gateway.client();
    let big = json!({ "name": "x".repeat(300_000) });
    let answers = [
        (200, owner.get("/auth/me").await),
        (200, anybody.get("/readyz").await),
        (201, owner.post("/auth/keys", &json!({})).await),
        (400, with(&owner, "POST", "/auth/login", &[]).await),
        (401, anybody.get("/admin/keys").await),
        (403, with(&owner, "POST", "/auth/logout", &[("origin", EVIL)]).await),
        (404, anybody.get("/nope").await),
        (404, owner.get("/admin/models/77").await),
        (405, with(&owner, "PUT", "/admin/keys", &[]).await),
        (413, owner.post("/admin/keys", &big).await),
        (415, owner.command("/admin/orgs").await),
        (421, with(&anybody, "GET", "/ui/", &[("host", "evil.example")]).await),
        (422, owner.get("/admin/keys?limit=0").await),
        (
            204,
            with(
                &anybody,
                "OPTIONS",
                "/auth/me",
                &[("origin", UI), ("access-control-request-method", "GET")],
            )
            .await,
        ),
    ];
    for (status, answer) in answers {
        // Only the status differs: a refusal is as guarded as a page.
        let status = if status == 400 { 422 } else { status };
        assert_eq!(answer.status, status, "{}", answer.text);
        for (name, value) in GUARDS {
            assert_eq!(answer.header(name), Some(value), "{status} {name}");
        }
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{status}");
        assert!(answer.header("x-request-id").is_some(), "{status}");
        assert_eq!(answer.header("server"), None, "{status}");
    }
    for path in ["/health", "/livez", "/v1/models", "/v1/models/x"] {
        let answer = anybody.get(path).await;
        for (name, value) in &GUARDS[..5] {
            assert_eq!(answer.header(name), Some(*value), "{path}");
        }
        let policy = answer.header("content-security-policy");
        assert_eq!(policy, Some("default-src 'none'; frame-ancestors 'none'"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(answer.header("x-request-id").is_some(), "{path}");
    }
}

#[tokio::test]
async fn without_keys_pages_of_other_sites_still_may_not_ask() {
    let gateway = start(Options::default().env("GATEWAY_DEV_ALLOW_ALL_KEYS", "true")).await;
    let anybody = gateway.client();
    for headers in [&[("sec-fetch-site", "cross-site")][..], &[("origin", EVIL)], &[("origin", "null")]] {
        let answer = with(&anybody, "POST", "/v1/chat/completions", headers).await;
        assert_error(&answer, 403, "cross_site_request");
    }
    let rebound = with(&anybody, "POST", "/v1/chat/completions", &[("host", "evil.example")]).await;
    assert_error(&rebound, 421, "unknown_host");
    assert_eq!(
        with(&anybody, "POST", "/v1/chat/completions", &[]).await.status,
        400,
        "what is no browser may"
    );
}

#[tokio::test]
async fn the_pages_are_served_and_run_no_inline_script() {
    let gateway = gateway(Database::Sqlite).await;
    let anybody = gateway.client();
    for (path, status) in [("/", 307), ("/ui", 308)] {
        let answer = anybody.get(path).await;
        assert_eq!((answer.status, answer.header("location")), (status, Some("/ui/")), "{path}");
    }
    let page = anybody.get("/ui/").await;
    assert!(page.text.starts_with("<!doctype html>"), "{}", page.text);
    for inline in ["<script>", "<style", " onclick=", " onload=", " style=\"", "javascript:"] {
        assert!(!page.text.contains(inline), "the policy would block {inline}");
    }
    let quoted = page.text.split('"').filter(|it| it.starts_with("/ui/"));
    let names: Vec<_> = quoted.map(str::to_owned).collect();
    for ending in [".js", ".css"] {
        assert!(names.iter().any(|it| it.ends_with(ending)), "{names:?}");
    }
    for path in names.iter().map(String::as_str).chain(["/ui/", "/ui/models", "/ui/models/3"]) {
        let answer = anybody.get(path).await;
        let kind = match path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        let keep =
            if path.starts_with("/ui/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        assert_eq!(answer.header("cache-control"), Some(keep), "{path}");
        for (name, value) in GUARDS {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        assert!(!answer.header("content-security-policy").unwrap().contains("unsafe"));
        let packed = with(&anybody, "GET", path, &[("accept-encoding", "gzip")]).await;
        let is_packed = packed.header("content-encoding") == Some("gzip");
        assert!(is_packed || answer.text.len() < 1000, "{path}");
        if let Some(tag) = answer.header("etag") {
            assert_eq!(with(&anybody, "GET", path, &[("if-none-match", tag)]).await.status, 304, "{path}");
        }
    }
    // A tab of an earlier version asks for scripts that are gone: a page in their place would be run.
    for gone in ["/ui/assets/index-0ld.js", "/ui/app.js", "/ui/models/none.css"] {
        assert_error(&anybody.get(gone).await, 404, "unknown_route");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        assert_error(&with(&anybody, method, "/ui/", &[]).await, 405, "method_not_allowed");
    }
}

#[tokio::test]
async fn a_request_keeps_a_sane_id_and_gets_a_new_one_for_a_strange_one() {
    let gateway = gateway(Database::Sqlite).await;
    let anybody = gateway.client();
    let long = "a".repeat(128);
    let (too_long, mut seen) = ("a".repeat(129), Vec::new());
    for path in ["/auth/me", "/nope", "/health", "/v1/models", "/ui/"] {
        for good in ["a", "ABC.def-1_2", long.as_str()] {
            let answer = with(&anybody, "GET", path, &[("x-request-id", good)]).await;
            assert_eq!(answer.header("x-request-id"), Some(good), "{path}");
            if answer.status >= 400 {
                assert_eq!(answer.json["request_id"], good, "{path}");
            }
        }
        for strange in ["", "a b", "a/b", "<script>", "a\tb", "ä", "a,b", too_long.as_str()] {
            let answer = with(&anybody, "GET", path, &[("x-request-id", strange)]).await;
            let id = answer.header("x-request-id").unwrap().to_owned();
            assert_eq!((id.len(), &id[14..15]), (36, "7"), "{path} {strange:?}: {id} is a UUIDv7");
            seen.push(id);
        }
    }
    let n = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), n);
    let trace = anybody.send(anybody.request(Method::TRACE, "/ui/").header("x-secret", "s3cret")).await;
    assert_error(&trace, 405, "method_not_allowed");
    assert!(!trace.text.contains("s3cret"));
}

#[tokio::test]
async fn with_a_star_every_page_may_use_keys_and_none_gets_a_session() {
    let gateway = start(Options::default().env("CORS_ALLOW_ORIGINS", "*, https://ui.example.org")).await;
    let owner = gateway.owner().await;
    let (_, key) = owner.new_key(&json!({})).await;
    let said = |answer: &Answer| {
        ["allow-origin", "allow-credentials"]
            .map(|it| answer.header(&format!("access-control-{it}")).map(str::to_owned))
    };
    let any = [Some("*".to_owned()), None];
    let nothing = [None, None];
    let listed = [Some(UI.to_owned()), Some("true".to_owned())];
    let cross = |origin| [("origin", origin), ("sec-fetch-site", "cross-site")];
    let ask =
        [("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")];
    let anybody = gateway.client();
    for path in ["/v1/chat/completions", "/v1/models", "/v2/rerank"] {
        let preflight = with(&anybody, "OPTIONS", path, &[&ask[..], &cross(EVIL)].concat()).await;
        assert_eq!((preflight.status, said(&preflight)), (204, any.clone()), "{path}");
        assert_eq!(preflight.header("access-control-allow-headers"), Some("authorization"));
        let preflight = with(&anybody, "OPTIONS", path, &[&ask[..], &cross(UI)].concat()).await;
        assert_eq!(said(&preflight), listed, "{path}");
    }
    let models = with(&key, "GET", "/v1/models", &cross(EVIL)).await;
    assert_eq!((models.status, said(&models), models.header("vary")), (200, any.clone(), Some("origin")));
    let chat = with(&key, "POST", "/v1/chat/completions", &cross(EVIL)).await;
    assert_eq!(
        (chat.code(), said(&chat)),
        ("invalid_request", any.clone()),
        "the key is enough: {}",
        chat.text
    );
    // A session is not, and what is not for keys stays closed.
    let chat = with(&owner, "POST", "/v1/chat/completions", &cross(EVIL)).await;
    assert_error(&chat, 403, "cross_site_request");
    for path in ["/admin/keys", "/auth/me", "/v1/models/running", "/v1/chat/sessions"] {
        let preflight = with(&anybody, "OPTIONS", path, &[&ask[..], &cross(EVIL)].concat()).await;
        assert_eq!((preflight.status, said(&preflight)), (405, nothing.clone()), "{path}");
        assert_eq!(said(&with(&owner, "GET", path, &cross(EVIL)).await), nothing, "{path}");
        assert_eq!(said(&with(&owner, "GET", path, &cross(UI)).await), listed, "{path}");
    }
}

#[tokio::test]
async fn a_path_that_is_nearly_right_is_told_the_right_one() {
    let gateway = gateway(Database::Sqlite).await;
    let client = gateway.client();
    for (method, path, hint) in [
        ("POST", "/chat/completions", Some("did you mean /v1/chat/completions?")),
        ("POST", "/v1/v1/chat/completions", Some("did you mean /v1/chat/completions?")),
        ("GET", "/models", Some("did you mean /v1/models?")),
        ("GET", "/api/v1/embeddings", Some("did you mean /v1/embeddings?")),
        ("GET", "/v1/audio/speech", None),
        ("GET", "/admin/nope/models", None),
    ] {
        let answer = with(&client, method, path, &[]).await;
        assert_error(&answer, 404, "unknown_route");
        match hint {
            Some(hint) => assert!(answer.text.contains(hint), "{}", answer.text),
            None => assert!(!answer.text.contains("did you mean"), "{}", answer.text),
        }
        assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    }
}
