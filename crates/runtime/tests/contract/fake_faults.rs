//! Checks what the fake runtime does at a test's request: simulations rely on it.

use futures_util::StreamExt;
use gantry_domain::{
    Clock, ModelId, Timestamp,
    engine::{EngineAddress, Launch},
    model::{InstanceNumber, lifecycle::InstanceStatus},
};
use gantry_runtime::{Action, ContainerSpec, Fake, Runtime, RuntimeError, RuntimeResult, Script};

use crate::machine::{new_owner, nowhere};

const NAME: &str = "primary-model-7";
const TIMEOUT: RuntimeError = RuntimeError::Timeout { action: "test" };

fn machine() -> Fake {
    let fake = Fake::new(new_owner(), Clock::new(|| Timestamp(1000)));
    fake.add_image("engine:1");
    fake
}

async fn launch(fake: &Fake) -> RuntimeResult<()> {
    let launch = Launch {
        image: "engine:1".to_owned(),
        entrypoint: None,
        args: Vec::new(),
        env: Vec::new(),
        gpus: Vec::new(),
        shm_bytes: None,
        mounts_hub_cache: false,
        locks_memory: true,
        confinement: gantry_domain::engine::Confinement::default(),
        warnings: Vec::new(),
    };
    let dir = nowhere();
    let spec = ContainerSpec {
        name: NAME,
        model_id: ModelId(7),
        number: InstanceNumber::FIRST,
        generation: 1,
        launch: &launch,
        models_dir: &dir,
        hub_cache_dir: &dir,
        key_fingerprint: "00",
    };
    fake.launch(&spec).await.map(|_| ())
}

async fn status(fake: &Fake) -> Option<InstanceStatus> {
    fake.find(NAME).await.unwrap().map(|it| it.instance.status)
}

#[tokio::test]
async fn a_fault_hits_the_call_it_was_meant_for_and_does_nothing_else() {
    let fake = machine();
    fake.fail_nth(Action::Launch, 2, TIMEOUT);
    assert_eq!(launch(&fake).await, Ok(()));
    assert_eq!(launch(&fake).await, Err(TIMEOUT));
    assert_eq!(launch(&fake).await, Ok(()));
    assert_eq!((fake.launches(), fake.calls(Action::Launch)), (2, 3));
    assert_eq!(fake.find(NAME).await.unwrap().unwrap().started_at, Some(Timestamp(1000)));
}

#[tokio::test]
async fn a_lost_answer_leaves_the_work_done() {
    let fake = machine();
    fake.lose_next(Action::Launch, TIMEOUT);
    assert_eq!(launch(&fake).await, Err(TIMEOUT));
    assert_eq!(
        status(&fake).await,
        Some(InstanceStatus::Running { address: Some(EngineAddress::loopback(32768)) })
    );
}

#[tokio::test]
async fn an_engine_that_is_down_fails_every_call_and_ends_the_events() {
    let fake = machine();
    launch(&fake).await.unwrap();
    let mut events = fake.events().await.unwrap();
    fake.set_down(Some(TIMEOUT));
    assert_eq!(events.next().await, None);
    assert_eq!(fake.list().await, Err(TIMEOUT));
    fake.set_down(None);
    assert_eq!(fake.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_happens_by_hand_is_seen() {
    let fake = machine();
    fake.script(NAME, Script { out_of_memory: true, ..Script::default() });
    launch(&fake).await.unwrap();
    fake.set_address(NAME, None);
    assert_eq!(status(&fake).await, Some(InstanceStatus::Running { address: None }));
    fake.kill(NAME, 137);
    assert_eq!(status(&fake).await, Some(InstanceStatus::Exited { code: 137, out_of_memory: true }));
    fake.restart(NAME);
    assert_eq!(
        status(&fake).await,
        Some(InstanceStatus::Running { address: Some(EngineAddress::loopback(32769)) })
    );
    fake.vanish(NAME);
    assert_eq!(status(&fake).await, None);
    assert!(fake.containers().is_empty());
}

#[tokio::test]
async fn a_pull_brings_the_image_and_tells_its_progress() {
    let fake = machine();
    fake.remove_image("engine:1");
    assert_eq!(launch(&fake).await, Err(RuntimeError::ImageMissing { image: "engine:1".to_owned() }));
    let (sender, told) = std::sync::mpsc::channel();
    let progress = Box::new(move |done, known| sender.send((done, known)).unwrap());
    fake.pull("engine:1", std::time::Duration::from_secs(1), progress).await.unwrap();
    assert_eq!(told.iter().last(), Some((1000, 1000)));
    assert_eq!(launch(&fake).await, Ok(()));
}
