//! The usage spool while somebody removes, moves or takes its files.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use crate::{
    client::post,
    engine::{Engine, PATIENCE, json},
    gateway::{Gateway, KEY},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

/// Waits until `is` holds.
async fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn segments(spool: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(spool).into_iter().flatten().map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|it| it == "log")).collect()
}

#[tokio::test]
async fn without_a_spool_nothing_is_served_and_it_recovers() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let moved = gateway.spool_dir().with_extension("moved");
    std::fs::rename(gateway.spool_dir(), &moved).unwrap();
    // Where a file is, no folder can be made again. The gateway may have been faster.
    while std::fs::write(gateway.spool_dir(), "").is_err() {
        std::fs::remove_dir_all(gateway.spool_dir()).unwrap();
    }
    let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (503, "metering_unavailable"));
    assert!(engine.was_not_called());
    std::fs::remove_file(gateway.spool_dir()).unwrap();
    std::fs::rename(&moved, gateway.spool_dir()).unwrap();
    until("it is seen that the folder is back", || gateway.shared.counters.spool_away.load(Relaxed) == 0)
        .await;
    client.send(&post(CHAT, KEY, "", BODY)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
    // The refusal's own row was kept until it could be written.
    let rows = gateway.rows(2).await;
    assert_eq!((rows[0].status_code, rows[1].status_code), (503, 200));
}

#[tokio::test]
async fn removed_files_of_the_spool_are_put_back_with_their_rows() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 4] = [
        ("the lock", |spool| std::fs::remove_file(spool.join("lock")).unwrap()),
        ("the segments", |spool| segments(spool).iter().for_each(|it| std::fs::remove_file(it).unwrap())),
        ("the folder", |spool| {
            // At once, so that the gateway makes no file in it meanwhile.
            let moved = spool.with_extension("gone");
            std::fs::rename(spool, &moved).unwrap();
            std::fs::remove_dir_all(moved).unwrap();
        }),
        ("the folder is moved", |spool| std::fs::rename(spool, spool.with_extension("moved")).unwrap()),
    ];
    for (name, harm) in harms {
        let mut engine = Engine::start().await;
        let gateway = Gateway::start(engine.addr);
        let spool = gateway.spool_dir().to_owned();
        let mut client = gateway.client().await;
        for n in 0..2 {
            client.send(&post(CHAT, KEY, "", BODY)).await;
            engine.call().await.send(&json("{}"));
            assert_eq!(client.answer().await.status, 200);
            if n == 0 {
                let before = segments(&spool);
                assert_eq!(before.len(), 1, "{name}");
                harm(&spool);
                until("the files are back", || spool.join("lock").exists() && segments(&spool) == before)
                    .await;
            }
        }
        let rows = gateway.rows(2).await;
        assert!(rows.iter().all(|it| it.status_code == 200), "{name}: {rows:#?}");
        let _ = std::fs::remove_dir_all(spool.with_extension("moved"));
    }
}

#[tokio::test]
async fn a_gateway_whose_spool_another_one_has_taken_serves_nothing_until_it_is_free() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let away = || gateway.shared.counters.spool_away.load(Relaxed);
    let lock = gateway.spool_dir().join("lock");
    let other = loop {
        std::fs::remove_file(&lock).unwrap();
        let other = std::fs::File::create(&lock).unwrap();
        // The gateway may have been faster.
        if other.try_lock().is_ok() {
            break other;
        }
    };
    until("it is seen that the lock is taken", || away() > 0).await;
    let mut client = gateway.client().await;
    let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (503, "metering_unavailable"));
    assert!(engine.was_not_called());
    drop(other);
    until("it is seen that the lock is free", || away() == 0).await;
    client.send(&post(CHAT, KEY, "", BODY)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
    gateway.rows(2).await;
}
