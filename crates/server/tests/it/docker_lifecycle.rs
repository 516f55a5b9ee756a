//! Models on a real Docker engine: what operators do with them, and what they see.

mod apply;
mod diagnosis;
mod failures;
mod life;
mod names;
mod pressure;
mod survival;
mod watching;

use gantry_testkit::{Gateway, Managed, Options, PATIENCE, eventually};

const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");

async fn gateway() -> Gateway {
    Gateway::start(GANTRY, Options::containers()).await
}

/// Waits until the model's container no longer runs; it stays for its log.
async fn halted(model: &Managed) {
    eventually("the container is stopped", PATIENCE, async || {
        let running =
            model.inspect().expect("a failed model keeps its container")["State"]["Running"].clone();
        (running == false).then_some(())
    })
    .await;
}
