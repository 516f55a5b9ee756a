//! Requests that no client library sends: the answer is one 4xx or a closed connection, never a 5xx, a second answer
//! or silence.

use gantry_testkit::{Database, raw};

use crate::support::gateway;

/// The statuses of all answers in `text`.
fn statuses(text: &str) -> Vec<u16> {
    let starts =
        text.match_indices("HTTP/1.").filter(|(at, _)| *at == 0 || text[..*at].ends_with(['\n', '}']));
    starts.map(|(at, _)| text[at + 9..at + 12].parse().unwrap()).collect()
}

/// Lines joined as HTTP wants them, with an empty one at the end.
fn head(lines: &[&str]) -> Vec<u8> {
    let mut text = lines.join("\r\n");
    text.push_str("\r\n\r\n");
    text.into_bytes()
}

#[tokio::test]
async fn odd_but_legal_requests_are_answered_normally() {
    let gateway = gateway(Database::Sqlite).await;
    let host = gateway.url.strip_prefix("http://").unwrap().to_owned();
    for (request, status) in [
        (head(&["GET /health HTTP/1.1", "Host: x", "Connection: close"]), 200),
        (head(&["GET /health HTTP/1.0"]), 200),
        (head(&[&format!("GET http://{host}/health HTTP/1.1"), "Host: x", "Connection: close"]), 200),
        (
            head(&[&format!("GET http://{host}/auth/me HTTP/1.1"), "Host: localhost", "Connection: close"]),
            401,
        ),
        (head(&["get /health HTTP/1.1", "Host: x", "Connection: close"]), 405),
        (head(&["BREW /auth/me HTTP/1.1", "Host: localhost", "Connection: close"]), 405),
        (head(&["OPTIONS * HTTP/1.1", "Host: localhost", "Connection: close"]), 404),
        (head(&["GET /health HTTP/1.1", "Host: x", "Connection: close, Upgrade", "Upgrade: h2c"]), 200),
        (
            head(&[
                "GET /ui/ HTTP/1.1",
                "Host: localhost",
                "Connection: close, Upgrade",
                "Upgrade: websocket",
            ]),
            405,
        ),
        (head(&["TRACE /ui/ HTTP/1.1", "Host: localhost", "Connection: close"]), 405),
        (head(&["CONNECT evil.example:443 HTTP/1.1", "Host: localhost", "Connection: close"]), 405),
        (head(&["CONNECT localhost:80 HTTP/1.1", "Host: localhost", "Connection: close"]), 405),
    ] {
        let answer = raw(&gateway.url, &request).await;
        assert_eq!(statuses(&answer), [status], "{}\n{answer}", String::from_utf8_lossy(&request));
    }
}

#[tokio::test]
async fn who_is_asked_for_must_be_said_once() {
    let gateway = gateway(Database::Sqlite).await;
    for request in [
        head(&["GET /auth/me HTTP/1.1", "Connection: close"]),
        head(&["GET /auth/me HTTP/1.0"]),
        head(&["GET /auth/me HTTP/1.1", "Host: localhost", "Host: localhost", "Connection: close"]),
        head(&["GET /auth/me HTTP/1.1", "Host: localhost", "Host: evil.example", "Connection: close"]),
        head(&["GET /auth/me HTTP/1.1", "Host: evil.example", "Host: localhost", "Connection: close"]),
        head(&["GET /auth/me HTTP/1.1", "Host: ", "Connection: close"]),
        head(&["GET http://evil.example/auth/me HTTP/1.1", "Host: evil.example", "Connection: close"]),
        head(&["GET http://evil.example/auth/me HTTP/1.1", "Connection: close"]),
        head(&["GET http://evil.example/auth/me HTTP/1.1", "Host: localhost", "Connection: close"]),
        head(&["GET http://localhost/auth/me HTTP/1.1", "Host: evil.example", "Connection: close"]),
    ] {
        let answer = raw(&gateway.url, &request).await;
        assert_eq!(statuses(&answer), [421], "{}\n{answer}", String::from_utf8_lossy(&request));
        assert!(answer.contains("\"code\":\"unknown_host\""), "{answer}");
    }
}

fn post(more: &[&str], body: &str) -> Vec<u8> {
    let begin = ["POST /auth/login HTTP/1.1", "Host: localhost", "Content-Type: application/json"];
    let mut request = head(&[&begin, more].concat());
    request.extend_from_slice(body.as_bytes());
    request
}

const SECOND: &str = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_body_of_ambiguous_length_is_never_taken_for_two_requests() {
    let gateway = gateway(Database::Sqlite).await;
    let chunked = format!("0\r\n\r\n{SECOND}");
    let plain = format!("{{}}{SECOND}");
    for (headers, body) in [
        (&["Content-Length: 5", "Transfer-Encoding: chunked"][..], chunked.as_str()),
        (&["Transfer-Encoding: chunked", "Content-Length: 5"], &chunked),
        (&["Content-Length: 2", "Content-Length: 5"], &plain),
        (&["Content-Length: 2, 5"], &plain),
        (&["Content-Length: +2"], &plain),
        (&["Content-Length: -2"], &plain),
        (&["Content-Length: 0x2"], &plain),
        (&["Content-Length: 2 2"], &plain),
        (&["Content-Length: 99999999999999999999999"], &plain),
        (&["Content-Length: two"], &plain),
        (&["Content-Length: "], &plain),
        (&["Transfer-Encoding: identity"], &plain),
        (&["Transfer-Encoding: chunked, identity"], &chunked),
        (&["Transfer-Encoding: xchunked"], &chunked),
        (&["Transfer-Encoding: chunked, chunked"], "2\r\n{}\r\n0\r\n\r\n"),
        (&["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], "2\r\n{}\r\n0\r\n\r\n"),
        (&["Transfer-Encoding: gzip"], &chunked),
        (&["Transfer-Encoding : chunked"], &chunked),
        (&["Transfer-Encoding: chunked"], "zz\r\n{}\r\n0\r\n\r\n"),
        (&["Transfer-Encoding: chunked"], "-1\r\n{}\r\n0\r\n\r\n"),
        (&["Transfer-Encoding: chunked"], "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        (&["Transfer-Encoding: chunked"], "2\r\n{}xx0\r\n\r\n"),
    ] {
        let answer = raw(&gateway.url, &post(headers, body)).await;
        let found = statuses(&answer);
        assert!(
            found.len() <= 1 && found.iter().all(|it| (400..500).contains(it)),
            "{headers:?} {body:?}\n{answer}"
        );
    }
    // Two requests that are two.
    let answer = raw(&gateway.url, &post(&["Content-Length: 2"], &plain)).await;
    assert_eq!(statuses(&answer), [422, 200], "{answer}");
    let answer =
        raw(&gateway.url, &post(&["Transfer-Encoding: chunked"], &format!("2\r\n{{}}\r\n{chunked}"))).await;
    assert_eq!(statuses(&answer), [422, 200], "{answer}");
}

/// Also those errors have the shape of all errors, although nobody saw the request.
fn assert_shaped(answer: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| head.lines().find_map(|it| it.strip_prefix(name)).unwrap_or_default();
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
    assert!(body["error"]["message"].is_string(), "{answer}");
    assert!(
        !header("x-request-id: ").is_empty() && body["request_id"] == header("x-request-id: "),
        "{answer}"
    );
    assert_eq!(header("content-type: "), "application/json", "{answer}");
    let code = match &head[9..12] {
        "400" => "invalid_request",
        "431" => "request_head_too_large",
        // It was HTTP, and asked for something that is not there.
        _ => return,
    };
    assert_eq!(body["error"]["code"], code, "{answer}");
    assert!(head.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn heads_that_are_no_http_or_too_large_are_refused() {
    let gateway = gateway(Database::Sqlite).await;
    let long = "x".repeat(300_000);
    let many: Vec<_> = (0..200).map(|n| format!("X-{n}: y")).collect();
    let many: Vec<_> =
        ["GET /health HTTP/1.1", "Host: x"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let mut cases = vec![
        head(&["GET /health HTTP/1.1", "Host: x", &format!("X-Long: {long}")]),
        head(&["GET /health HTTP/1.1", "Host: x", &format!("Cookie: svc_session={long}")]),
        head(&[&format!("GET /{long} HTTP/1.1"), "Host: x"]),
        head(&[&format!("{long} / HTTP/1.1"), "Host: x"]),
        head(&many),
        head(&["GET /health HTTP/3.0", "Host: x"]),
        head(&["GET /health HTTP/1.9", "Host: x"]),
        head(&["GET /health http/1.1", "Host: x"]),
        head(&["GET /health", "Host: x"]),
        head(&["GET health HTTP/1.1", "Host: x", "Connection: close"]),
        head(&["GET /hea lth HTTP/1.1", "Host: x"]),
        head(&["GET /health HTTP/1.1", "Host: x", "Bad Name: y"]),
        head(&["GET /health HTTP/1.1", "Host: x", "Name : y"]),
        head(&["GET /health HTTP/1.1", "Host: x", " folded"]),
        head(&["GET /health HTTP/1.1", "Host: x", ": empty"]),
        head(&["GET /health HTTP/1.1", "Host: x", "X: a\0b"]),
        head(&["GET /health HTTP/1.1", "Host: x", "X: a\rb"]),
        head(&["GET /\u{1}health HTTP/1.1", "Host: x"]),
        head(&["PRI * HTTP/2.0", "", "SM", ""]),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n".to_vec(),
        vec![0_u8; 4096],
        vec![0xff; 70_000],
    ];
    cases.push(b"\r\n\r\n\r\n\r\nGET\r\n\r\n".to_vec());
    for request in cases {
        let answer = raw(&gateway.url, &request).await;
        let found = statuses(&answer);
        let shown = String::from_utf8_lossy(&request[..request.len().min(80)]).into_owned();
        assert!(found.len() <= 1 && found.iter().all(|it| (400..500).contains(it)), "{shown:?}\n{answer}");
        if !found.is_empty() {
            assert_shaped(&answer);
        }
    }
    assert_eq!(gateway.client().get("/health").await.status, 200);
}

#[tokio::test]
async fn a_body_far_over_the_limit_is_refused_before_it_is_read() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    for size in [300_000, 3_000_000] {
        let answer = owner.post("/admin/keys", &serde_json::json!({ "name": "x".repeat(size) })).await;
        assert_eq!((answer.status, answer.code()), (413, "request_too_large"), "{size}");
    }
    // A promise is enough.
    let promised = post(&["Content-Length: 1000000000000", "Connection: close"], "");
    assert_eq!(statuses(&raw(&gateway.url, &promised).await), [413]);
}
