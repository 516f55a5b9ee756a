//! Compares the script with the arithmetic that the data plane uses, on a real server (`TEST_REDIS_URL`).

use gantry_dataplane::limits::Report;
use gantry_domain::limit::gcra;
use proptest::{prelude::*, test_runner::TestRunner};
use redis::Script;

use super::redis::{CHARGE, Shared as Server};

/// Returns the server for tests; `None` is noted as skipped.
fn url(test: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "not a setting of the program")]
    let url = std::env::var("TEST_REDIS_URL").ok();
    if url.is_none() {
        gantry_testkit::skip(test, "TEST_REDIS_URL is not set");
    }
    url
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_script_s_arithmetic_is_the_data_plane_s() {
    let Some(url) = url("control: the script's arithmetic") else { return };
    let text = format!(
        "{CHARGE}
        local tat, out = 0, {{}}
        for at = 1, #ARGV, 2 do
            tat = charge(tat, tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
            out[#out + 1] = string.format('%.0f', tat)
        end
        return out"
    );
    let script = Script::new(&text);
    let runtime = runtime();
    let connection = runtime.block_on(async {
        redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
    });
    // Microseconds of today, as the server has them: exact in a double.
    let start = 1_795_000_000_000_000_u64;
    let steps = prop::collection::vec((0_u64..100_000_000, -200_000_000_i64..200_000_000), 1..60);
    TestRunner::new(ProptestConfig::with_cases(64))
        .run(&steps, |steps| {
            let (mut now, mut tat, mut want) = (start, 0, Vec::new());
            let mut call = script.prepare_invoke();
            for (pause, cost) in steps {
                now += pause;
                tat = gcra::charge(tat, now, cost);
                want.push(tat.to_string());
                call.arg(now).arg(cost);
            }
            let got: Vec<String> = runtime.block_on(call.invoke_async(&mut connection.clone())).unwrap();
            prop_assert_eq!(got, want);
            Ok(())
        })
        .unwrap();
}

fn report(requests: i64, running: u32) -> Report {
    Report { requests, tokens: 0, running, streams: running / 2 }
}

#[test]
fn gateways_hear_of_each_other() {
    let Some(url) = url("control: gateways hear of each other") else { return };
    let instance = uuid::Uuid::now_v7().to_string();
    let server = || Server::new(&url, &instance, gantry_testkit::PATIENCE).unwrap();
    let (mut one, mut two, mut other) = (
        server(),
        server(),
        Server::new(&url, &format!("{instance}-other"), gantry_testkit::PATIENCE).unwrap(),
    );
    let name = || "k1".to_owned();
    let second = 1_000_000_000;
    runtime().block_on(async {
        let (gateways, views) = one.exchange(&[(name(), report(20 * second, 4))]).await.unwrap();
        assert_eq!((gateways, views[0].running, views[0].streams), (1, 0, 0));
        assert_eq!(views[0].requests, 20_000_000_000);
        // The account comes in another order, with others, and costs something itself.
        let reports = [("o1".to_owned(), report(0, 0)), (name(), report(10 * second, 1))];
        let (gateways, views) = two.exchange(&reports).await.unwrap();
        assert_eq!((gateways, views[1].running, views[1].streams), (2, 4, 2));
        assert!((25_000_000_000..=30_000_000_000).contains(&views[1].requests), "{views:?}");
        assert_eq!((views[0].requests, views[0].running), (0, 0));
        // Usage that was charged and not needed is given back.
        let (_, views) = one.exchange(&[(name(), report(-15 * second, 0))]).await.unwrap();
        assert!((8_000_000_000..=15_000_000_000).contains(&views[0].requests), "{views:?}");
        assert_eq!(views[0].running, 1);
        let (_, views) = two.exchange(&[(name(), report(0, 0))]).await.unwrap();
        assert_eq!((views[0].running, views[0].streams), (0, 0));
        let (gateways, views) = other.exchange(&[(name(), report(0, 0))]).await.unwrap();
        assert_eq!((gateways, views[0].requests), (1, 0), "another installation");
        two.leave().await;
        assert_eq!(one.exchange(&[]).await.unwrap().0, 1);
    });
}
