//! Socket activation: the socket outlives the gateway, so that a restart refuses no connection and fails no request.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use gantry_testkit::{Client, Options, chat, eventually};
use reqwest::Method;
use tokio::task::JoinSet;

use crate::{simulator::Simulator, support::start};

const RESTARTS: usize = 10;

/// Sends requests until `stop` is set, each on its own connection or all on one. Returns the number of answers and
/// what went wrong.
async fn ask(client: Client, keeps_alive: bool, stop: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let (mut answered, mut wrong) = (0, Vec::new());
    let mut http = client.clone();
    while !stop.load(Relaxed) {
        if !keeps_alive {
            http = client.at(&client.url);
        }
        match http.request(Method::POST, "/v1/chat/completions").json(&chat("m")).send().await {
            Ok(answer) if answer.status() == 200 => match answer.text().await {
                Ok(_) => answered += 1,
                Err(error) => wrong.push(format!("{error:?}")),
            },
            Ok(answer) => wrong.push(format!("{} {:?}", answer.status(), answer.text().await)),
            Err(error) => wrong.push(format!("{error:?}")),
        }
    }
    (answered, wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_restarts_under_load_fail_nothing() {
    let simulator = Simulator::start("--sim-ttft-ms 20").await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let options = Options { listener: Some(Arc::new(listener)), ..Options::default() };
    let mut gateway = start(options).await;
    assert_eq!(gateway.url, format!("http://{addr}"), "it listens on the socket that it was given");
    let client = simulator.join(&gateway).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for n in 0..8 {
        clients.spawn(ask(client.clone(), n % 2 == 0, Arc::clone(&stop)));
    }
    for _ in 0..RESTARTS {
        gateway.signal("TERM");
        assert!(gateway.ended().await, "{}", gateway.log());
        gateway.restart().await;
        // It is asked again before it ends again.
        let answers = client.at(&gateway.url);
        eventually("it answers", gantry_testkit::PATIENCE, async || {
            (answers.chat("m").await.status == 200).then_some(())
        })
        .await;
    }
    stop.store(true, Relaxed);
    let results = clients.join_all().await;
    let wrong: Vec<_> = results.iter().flat_map(|it| &it.1).collect();
    assert!(wrong.is_empty(), "{} failed: {wrong:#?}", wrong.len());
    assert!(results.iter().all(|it| it.0 > RESTARTS), "{results:?}");
    // Each answer has its row: nobody was served twice, and nobody for nothing.
    let answered = results.iter().map(|it| it.0).sum::<usize>() + RESTARTS;
    println!("{answered} requests in {RESTARTS} restarts, none refused and none failed");
    let owner = gateway.owner().await;
    eventually("all rows are there", gantry_testkit::PATIENCE, async || {
        let csv = owner.get("/admin/usage?limit=1000").await.expect(200).as_array().unwrap().len();
        (csv == answered.min(1000)).then_some(())
    })
    .await;
}
