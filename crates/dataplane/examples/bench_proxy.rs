//! A data plane in front of one engine, for measuring it alone:
//! `bench_proxy <listen> <upstream url> <key> <threads> <spool dir>`. Serves the model `m` until it is killed.
//! The spool is read and thrown away as a shipper would.

use std::{collections::HashMap, error::Error, path::Path, sync::Arc, time::Duration};

use gantry_dataplane::{
    Catalog, Config, DataPlane, KeyEntry, Route, RouteTarget, Shared, Upstream,
    limits::{KeyState, Refusals},
    spool::Reader,
};
use gantry_domain::{
    Clock, KeyId, OrgId, Timestamp,
    key::{self, Scopes},
    model::Task,
    net::IpList,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, listen, upstream, token, threads, spool] = args.as_slice() else {
        return Err("five arguments".into());
    };
    let key = KeyEntry {
        id: KeyId(1),
        prefix: "gty_bench".into(),
        user_id: None,
        org_id: OrgId(1),
        scopes: Scopes::ALL,
        models: None,
        ip_allowlist: IpList::default(),
        expires_at: None,
        charges: None,
        refusals: Refusals::default(),
        state: Arc::new(KeyState::new(KeyId(1))),
    };
    let route = Route {
        adapter_of: None,
        served_name: "m".into(),
        task: Task::Generate,
        engine: None,
        upstream_model: None,
        simulator: false,
        target: RouteTarget::Up(Arc::new(Upstream::new(1, upstream, Some("internal"), Arc::default())?)),
        request_timeout: Duration::from_mins(10),
        stream_idle_timeout: Duration::from_mins(5),
        created: Timestamp(0),
        max_model_len: None,
        request_defaults: None,
        stats: Arc::default(),
    };
    let catalog = Catalog {
        keys: HashMap::from([(key::hash(token.as_bytes()), Arc::new(key))]),
        routes: HashMap::from([("m".to_owned(), Arc::new(route))]),
        ..Catalog::default()
    };
    let config = Config {
        listen: listen.parse()?,
        threads: threads.parse()?,
        spool_dir: spool.into(),
        ..Config::default()
    };
    let shared = Arc::new(Shared::new(catalog, Clock::default()));
    let plane = DataPlane::start(config, shared, Arc::new(|_, _| Box::pin(std::future::pending())))?;
    let mut reader = Reader::open(Path::new(spool))?;
    loop {
        let batch = reader.read_batch(5000)?;
        // As often as a shipper at work.
        if !batch.more {
            std::thread::sleep(Duration::from_millis(200));
        }
        reader.commit(batch)?;
        // Kept alive, and never dropped before the process ends.
        let _ = &plane;
    }
}
