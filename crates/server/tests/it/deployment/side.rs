//! One side of an air gap.

use std::{fs, net::TcpListener, sync::Arc};

use gantry_testkit::{AirGap, Client, Daemon, Database, Gateway, Managed, ModelIds, Options, Postgres, chat};

use super::folder;
use crate::support::{GANTRY, start};

/// A gateway from which nothing gets out: its engines, its database and what it runs are behind the same gap.
pub(super) struct Side {
    pub(super) gateway: Gateway,
    _postgres: Option<Postgres>,
    daemon: Option<Daemon>,
    gap: AirGap,
}

impl Side {
    /// Starts a gateway with a Docker engine of its own, which has no image. Returns `None`, and notes that the test was
    /// skipped, where that can't be done.
    pub(super) async fn with_containers(test: &str, database: Database, options: Options) -> Option<Self> {
        let gap = AirGap::new(test)?;
        let daemon = Daemon::start_behind(&gap, test).await?;
        assert_eq!(daemon.docker(&["images", "-q"]), "");
        let options = options.env("CONTAINER_HOST", &daemon.host());
        Self::start(test, gap, Some(daemon), database, options).await
    }

    /// Starts a gateway whose engines are programs.
    pub(super) async fn with_programs(test: &str) -> Option<Self> {
        Self::start(test, AirGap::new(test)?, None, Database::Sqlite, Options::processes()).await
    }

    async fn start(
        test: &str,
        gap: AirGap,
        daemon: Option<Daemon>,
        database: Database,
        options: Options,
    ) -> Option<Self> {
        // No other gateway has containers on its Docker engine.
        let mut options = Options { wrapper: gap.wrapper(), model_ids: ModelIds::FromOne, ..options };
        let postgres = match database {
            Database::Sqlite => None,
            Database::Postgres => Some(Postgres::start_with(gap.wrapper(), test)?),
        };
        if let Some(server) = &postgres {
            options = options.env("DATABASE_URL", &server.url());
        }
        // Its listener is in front of the gap: that is how the test reaches it.
        options.listener = Some(Arc::new(TcpListener::bind("127.0.0.1:0").unwrap()));
        let gateway = start(options).await;
        Some(Self { gateway, _postgres: postgres, daemon, gap })
    }

    /// Returns its Docker engine.
    pub(super) fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    /// Takes a package away from another gateway, as on a disk.
    pub(super) fn takes(&self, from: &Gateway, name: &str) {
        let (from, to) = (folder(from, name), folder(&self.gateway, name));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(from, to).unwrap();
    }

    /// Runs `gantry package verify`.
    pub(super) fn verify(&self, name: &str, more: &[&str]) {
        let dir = folder(&self.gateway, name);
        let mut verify = self.gap.command(GANTRY);
        let ran = verify.args(["package", "verify", dir.to_str().unwrap()]).args(more).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Fails if anything looked up a name or sent a packet, and shows that either would have been seen.
    pub(super) fn assert_silent(&self) {
        let gap = &self.gap;
        assert_eq!((gap.queries(), gap.packets()), (Vec::new(), 0));
        let _ = gap.command("getent").args(["hosts", "canary.example"]).output();
        let _ = gap.command("bash").args(["-c", "echo x >/dev/udp/198.51.100.7/9"]).output();
        assert!(gap.queries().iter().any(|it| it.starts_with("canary.example")), "{:?}", gap.queries());
        assert!(gap.packets() > 0);
    }
}

/// Starts the model of the package.
pub(super) async fn runs(owner: &Client) -> Managed {
    let model = Managed::of(&owner.get("/admin/models").await.expect(200)[0]);
    model.start(owner).await;
    model.reaches(owner, "running").await;
    model
}

/// Asks a model, which must answer.
pub(super) async fn says_something(client: &Client, model: &str) {
    let answer = client.post("/v1/chat/completions", &chat(model)).await.expect(200);
    assert!(answer["choices"][0]["message"]["content"].as_str().is_some_and(|it| !it.is_empty()), "{answer}");
}

/// Stops a model.
pub(super) async fn stops(owner: &Client, model: &Managed) {
    model.command(owner, "stop").await.expect(202);
    model.reaches(owner, "stopped").await;
}
