//! W3C trace context: which headers of a client's trace an engine gets, and that the access log names trace and
//! request.

use gantry_testkit::{Client, Options};
use reqwest::header::{HeaderName, HeaderValue};

use crate::system::{Engine, chat, lines, with_engine};

const CHAT: &str = "/v1/chat/completions";
const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

enum Told {
    /// What the client sent.
    Same,
    /// A trace that begins here.
    New,
}

struct Case {
    what: &'static str,
    sent: Vec<(&'static str, Vec<u8>)>,
    parent: Told,
    state: Option<&'static str>,
}

fn case(
    what: &'static str,
    sent: &[(&'static str, &str)],
    parent: Told,
    state: Option<&'static str>,
) -> Case {
    let sent = sent.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect();
    Case { what, sent, parent, state }
}

fn cases() -> Vec<Case> {
    let (parent, state) = ("traceparent", "tracestate");
    let future = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
    let mut all = vec![
        case("nothing", &[], Told::New, None),
        case("a parent", &[(parent, GOOD)], Told::Same, None),
        case("both", &[(parent, GOOD), (state, "a=1,t@b=x y")], Told::Same, Some("a=1,t@b=x y")),
        case(
            "a state in two headers",
            &[(parent, GOOD), (state, "a=1"), (state, "b=2")],
            Told::Same,
            Some("a=1,b=2"),
        ),
        case("a later version", &[(parent, future), (state, "a=1")], Told::Same, Some("a=1")),
        case("a state alone", &[(state, "a=1")], Told::New, None),
        case("two parents", &[(parent, GOOD), (parent, GOOD)], Told::New, None),
        case("a state that is no list", &[(parent, GOOD), (state, "what is this")], Told::Same, None),
        case("a state with an odd key", &[(parent, GOOD), (state, "a=1,B=2")], Told::Same, None),
        case("an empty state", &[(parent, GOOD), (state, "")], Told::Same, None),
    ];
    for bad in [
        "00-xyz",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
    ] {
        all.push(case("an invalid parent", &[(parent, bad), (state, "a=1")], Told::New, None));
    }
    let odd = |what, value| {
        let sent = vec![(parent, GOOD.as_bytes().to_vec()), (state, value)];
        Case { what, sent, parent: Told::Same, state: None }
    };
    all.push(odd("a state that is not ASCII", b"a=\xff\xfe".to_vec()));
    all.push(odd("a state that is too long", format!("a=1,b={}", "x".repeat(600)).into_bytes()));
    all
}

async fn ask(key: &Client, id: &str, case: &Case) {
    let mut request = key.request(reqwest::Method::POST, CHAT).json(&chat("far", false));
    request = request.header("x-request-id", id);
    for (name, value) in &case.sent {
        let name: HeaderName = name.parse().unwrap();
        request = request.header(name, HeaderValue::from_bytes(value).unwrap());
    }
    assert_eq!(key.send(request).await.status, 200, "{}", case.what);
}

/// Returns the `traceparent` and `tracestate` headers that the engine got with this request id.
fn told(engine: &Engine, id: &str) -> (String, Option<String>) {
    let heads = engine.heads(CHAT);
    let head = heads.iter().find(|it| it.contains(&format!("x-request-id: {id}\r\n"))).expect("it arrived");
    let all = |name: &str| -> Vec<String> {
        head.lines().filter_map(|it| it.strip_prefix(name)).map(str::to_owned).collect()
    };
    let (parents, mut states) = (all("traceparent: "), all("tracestate: "));
    assert_eq!((parents.len(), states.len() <= 1), (1, true), "{head}");
    (parents[0].clone(), states.pop())
}

fn is_valid(parent: &str) -> bool {
    let parts: Vec<_> = parent.split('-').collect();
    let hex = |it: &str, n| it.len() == n && it.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    parts.len() == 4 && parts[0] == "00" && hex(parts[1], 32) && hex(parts[2], 16) && hex(parts[3], 2)
}

#[tokio::test]
async fn an_engine_gets_a_context_that_is_valid_or_a_new_one() {
    let (gateway, _owner, engine, key) = with_engine(Options::default().env("LOG_FORMAT", "json")).await;
    let cases = cases();
    for (n, case) in cases.iter().enumerate() {
        ask(&key, &format!("case-{n}"), case).await;
    }
    let lines = lines(&gateway, cases.len()).await;
    let mut begun = Vec::new();
    for (n, case) in cases.iter().enumerate() {
        let id = format!("case-{n}");
        let (parent, state) = told(&engine, &id);
        let sent = case.sent.iter().find(|it| it.0 == "traceparent");
        let sent = sent.map(|it| String::from_utf8_lossy(&it.1).into_owned());
        match case.parent {
            Told::Same => assert_eq!(Some(&parent), sent.as_ref(), "{}", case.what),
            Told::New => {
                assert!(is_valid(&parent), "{}: {parent}", case.what);
                assert!(!parent.contains(&GOOD[3..35]), "{}: {parent}", case.what);
                begun.push(parent.clone());
            }
        }
        assert_eq!(state.as_deref(), case.state, "{}", case.what);
        let line = lines.iter().find(|it| it.contains(&format!("\"{id}\""))).expect("it has a line");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["request_id"], &line["trace_id"]),
            (&id.into(), &parent[3..35].into()),
            "{}",
            case.what
        );
    }
    let n = begun.len();
    begun.sort_unstable();
    begun.dedup();
    assert_eq!(begun.len(), n, "each trace that begins is another one");
    assert!(!gateway.log().contains("confidential-words"), "prompts are in the log");
}

#[tokio::test]
async fn an_id_that_could_spoil_a_log_is_replaced() {
    let (gateway, _owner, engine, key) = with_engine(Options::default()).await;
    for bad in ["with space", "a\"b", "semi;colon", &"x".repeat(129)] {
        let request = key.request(reqwest::Method::POST, CHAT).json(&chat("far", false));
        let answer = key.send(request.header("x-request-id", bad)).await;
        let given = answer.header("x-request-id").unwrap().to_owned();
        assert_ne!(given, bad);
        told(&engine, &given);
    }
    let lines = lines(&gateway, 4).await;
    assert!(lines.iter().all(|it| it.contains("request_id=01")), "{lines:#?}");
}
