//! Bodies that come compressed.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use gantry_dataplane::KeyEntry;
use gantry_domain::{OrgId, UserId, usage::Outcome};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::{
    client::{Answer, Client, post},
    engine::{Engine, json},
    gateway::{Gateway, KEY, catalog, key_entry},
    stalls::until,
};

const CHAT: &str = "/v1/chat/completions";
const MAX: usize = 300_000;

fn gzip(body: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(body.as_bytes()).unwrap();
    packed.finish().unwrap()
}

fn zstd(body: &str) -> Vec<u8> {
    compress_to_vec(body.as_bytes(), CompressionLevel::Fastest)
}

/// A body of this length.
fn long(length: usize) -> String {
    let text = "x".repeat(length - r#"{"model":"m","x":""}"#.len());
    format!(r#"{{"model":"m","x":"{text}"}}"#)
}

/// Sends a body under the name of this coding.
async fn send(client: &mut Client, key: &str, coding: &str, body: &[u8]) {
    let coding = format!("content-encoding: {coding}\r\n");
    let head =
        post(CHAT, key, &coding, "").replace("content-length: 0", &format!("content-length: {}", body.len()));
    client.send_bytes(&[head.as_bytes(), body].concat()).await;
}

async fn refused(gateway: &Gateway, coding: &str, body: &[u8]) -> Answer {
    let mut client = gateway.client().await;
    send(&mut client, KEY, coding, body).await;
    client.answer().await
}

#[tokio::test]
async fn gzip_and_zstd_are_unpacked_and_the_engine_gets_plain_json() {
    let mut engine = Engine::start().await;
    let gateway =
        Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| config.max_body = MAX);
    let mut client = gateway.client().await;
    // Longer than a block of zstd, and than many steps of gzip; and as long as bodies may be.
    for body in [long(30), long(200_000), long(MAX)] {
        for (coding, packed) in [
            ("gzip", gzip(&body)),
            ("X-GZIP", gzip(&body)),
            ("identity, zstd", zstd(&body)),
            ("identity", body.clone().into_bytes()),
        ] {
            send(&mut client, KEY, coding, &packed).await;
            let call = engine.call().await;
            assert!(call.body == body.as_bytes(), "{coding} {}", body.len());
            assert_eq!(call.header("content-encoding"), None);
            call.send(&json("{}"));
            assert_eq!(client.answer().await.status, 200, "{coding}");
        }
    }
    until("the memory is given back", || gateway.shared.body_memory.used() == 0).await;
    let rows = gateway.rows(12).await;
    assert!(rows.iter().all(|it| it.outcome == Outcome::Ok));
}

#[tokio::test]
async fn what_can_not_be_unpacked_is_refused_with_its_reason() {
    let mut engine = Engine::start().await;
    let gateway =
        Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| config.max_body = MAX);
    let body = long(1000);
    let (packed, framed) = (gzip(&body), zstd(&body));
    let twice = |it: &[u8]| [it, it].concat();
    // Windows of 2 GiB.
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
    let cases: [(&str, &[u8], u16, &str); 13] = [
        ("br", &packed, 415, "`br`"),
        ("gzip, zstd", &packed, 415, "`gzip, zstd`"),
        ("gzip", b"", 400, "unpacked as gzip"),
        ("gzip", body.as_bytes(), 400, "unpacked as gzip"),
        ("gzip", &packed[..packed.len() - 9], 400, "unpacked as gzip"),
        ("gzip", &twice(&packed), 400, "there is more behind its end"),
        ("gzip", &gzip(&long(MAX + 1)), 413, "at most 300000 bytes"),
        ("gzip", &gzip(&long(3_000_000)), 413, "at most 300000 bytes"),
        ("zstd", body.as_bytes(), 400, "unpacked as zstd"),
        ("zstd", &framed[..framed.len() - 9], 400, "unpacked as zstd"),
        ("zstd", &twice(&framed), 400, "there is more behind its end"),
        ("zstd", &zstd(&long(MAX + 1)), 413, "at most 300000 bytes"),
        ("zstd", &wide, 400, "its window is too large"),
    ];
    for (coding, body, status, text) in cases {
        let got = refused(&gateway, coding, body).await;
        assert_eq!(got.status, status, "{coding} {text}: {}", got.body);
        assert!(got.body.contains(text), "{}", got.body);
    }
    assert!(engine.was_not_called());
    until("the memory is given back", || gateway.shared.body_memory.used() == 0).await;
    let rows = gateway.rows(cases.len()).await;
    assert!(rows.iter().all(|it| it.outcome == Outcome::ClientError));
}

#[tokio::test]
async fn what_a_body_becomes_counts_in_the_memory_of_bodies() {
    let mut engine = Engine::start().await;
    let of = |n: i64| KeyEntry { user_id: Some(UserId(n)), org_id: OrgId(n), ..key_entry(n) };
    let gateway = Gateway::with(catalog(engine.addr, vec![("a", of(1)), (KEY, of(2))]), |config| {
        (config.max_body, config.body_memory) = (MAX, 400_000);
    });
    let plain = post(CHAT, "a", "", &long(MAX));
    let mut other = gateway.client().await;
    other.send(&plain[..plain.len() - 50_000]).await;
    until("it is being read", || gateway.shared.body_memory.used() > 150_000).await;
    for (coding, body) in [("gzip", gzip(&long(MAX))), ("zstd", zstd(&long(MAX)))] {
        let got = refused(&gateway, coding, &body).await;
        assert_eq!((got.status, got.code().as_str()), (503, "request_memory_full"), "{}", got.body);
    }
    assert!(engine.was_not_called());
}
