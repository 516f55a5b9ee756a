//! Tests which callers wait for an image, and for how long. Time is the async runtime's, which advances when all tasks
//! wait.

use tokio::time::Instant;

use super::*;

const ENGINE: EngineKind = EngineKind::Llamacpp;
const VERSION: EngineVersion = EngineVersion::Known(ENGINE, [9000, 0, 0]);

const KNOWN: Finding = Finding { version: VERSION, pending: false };
const NOT_YET: Finding = Finding { version: EngineVersion::Unknown(ENGINE), pending: true };

/// Runs `others` while images are asked. Each image takes `takes` to say its version.
async fn while_asked(versions: &Versions, mut requests: Requests, takes: Duration, others: impl Future) {
    let asks = async {
        while let Some((key, _)) = versions.next(&mut requests).await {
            tokio::time::sleep(takes).await;
            versions.put(key, Some(VERSION));
        }
    };
    tokio::select! {
        _ = others => {}
        () = asks => panic!("there may be more"),
    }
}

/// Returns what is found of an image, and after which time.
async fn find(versions: &Versions, image: &str, wait: Wait) -> (Finding, Duration) {
    let begun = Instant::now();
    let found = versions.find((ENGINE, image.to_owned()), image, wait).await;
    (found, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_its_turn_however_slow_the_images_before_it_are() {
    let (versions, requests) = Versions::new();
    let others = async {
        let found = tokio::join!(
            find(&versions, "one", START_WAITS),
            find(&versions, "two", START_WAITS),
            find(&versions, "three", START_WAITS),
            // A person who looks at a form does not wait long, whatever comes first.
            find(&versions, "four", PREVIEW_WAITS),
        );
        let after = [found.0, found.1, found.2].map(|(finding, after)| (finding, after.as_secs()));
        assert_eq!(after, [(KNOWN, 180), (KNOWN, 360), (KNOWN, 540)]);
        assert_eq!((found.3.0, found.3.1.as_secs()), (NOT_YET, 3));
    };
    while_asked(&versions, requests, ASK, others).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_asked_and_says_nothing_for_long_is_waited_for_no_longer() {
    let (versions, requests) = Versions::new();
    let others = async {
        let found = tokio::join!(
            find(&versions, "one", START_WAITS),
            find(&versions, "two", START_WAITS),
            // The same image is asked for another model, too.
            find(&versions, "two", START_WAITS),
        );
        let after = [found.0, found.1, found.2].map(|(finding, after)| (finding, after.as_secs()));
        // Each 4 minutes after its turn began, of which the first one lasted 5.
        assert_eq!(after, [(NOT_YET, 240), (NOT_YET, 540), (NOT_YET, 540)]);
    };
    while_asked(&versions, requests, Duration::from_mins(5), others).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_is_asked_once_for_all_models_that_start_with_it() {
    let (versions, requests) = Versions::new();
    let others = async {
        // More images than may wait.
        let all = (0..3 * QUEUE).map(|n| {
            let versions = &versions;
            async move {
                tokio::time::sleep(Duration::from_secs(n as u64 % 60)).await;
                find(versions, "one", START_WAITS).await.0
            }
        });
        let begun = Instant::now();
        for finding in futures_util::future::join_all(all).await {
            assert_eq!(finding, KNOWN);
        }
        assert_eq!(begun.elapsed(), ASK);
        assert_eq!(find(&versions, "one", START_WAITS).await, (KNOWN, Duration::ZERO));
    };
    while_asked(&versions, requests, ASK, others).await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_after_a_failure_takes_it_for_no_answer_and_from_nobody() {
    let (versions, mut requests) = Versions::new();
    let key = (ENGINE, "one".to_owned());
    let asks = async {
        for answer in [None, Some(VERSION)] {
            let (key, _) = versions.next(&mut requests).await.unwrap();
            tokio::time::sleep(ASK).await;
            versions.put(key, answer);
        }
    };
    let unknown = Finding { version: EngineVersion::Unknown(ENGINE), pending: false };
    let others = async {
        let again = async {
            // Waits for the moment of the failure, before the first caller has looked.
            let mut answered = versions.answered.subscribe();
            answered.changed().await.unwrap();
            find(&versions, "one", START_WAITS).await
        };
        let found = tokio::join!(again, find(&versions, "one", START_WAITS));
        assert_eq!(found, ((KNOWN, ASK), (unknown, ASK)));
    };
    tokio::join!(asks, others);
    assert_eq!(versions.get(&key), Some(VERSION));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_his_turn_when_no_image_is_asked_any_more() {
    let (versions, requests) = Versions::new();
    let (waits, ()) = tokio::join!(find(&versions, "one", START_WAITS), async { drop(requests) });
    assert_eq!(waits, (NOT_YET, Duration::ZERO));
    assert_eq!(find(&versions, "one", START_WAITS).await, (NOT_YET, Duration::ZERO));
}
