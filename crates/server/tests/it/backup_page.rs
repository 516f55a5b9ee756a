//! The commands of `docs/backup.md`, run in the order of the page.

use std::{fs, os::unix::fs::PermissionsExt};

use gantry_testkit::{Database, Options};
use sqlx::{Connection, PgConnection};

use crate::{
    page::{MACHINE, blocks, run},
    support::{on_each_database, start},
};

const PAGE: &str = include_str!("../../../../docs/backup.md");

/// An empty schema of Postgres, and the gateway that made it, which is stopped.
async fn empty_postgres() -> (gantry_testkit::Gateway, String) {
    let mut gateway = start(Options { owner: false, ..Options::default().on(Database::Postgres) }).await;
    assert!(gateway.terminate());
    let url = gateway.database_url().unwrap();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    sqlx::query("DELETE FROM meta").execute(&mut conn).await.unwrap();
    (gateway, url)
}

on_each_database! {
    async fn the_commands_of_the_page_work(database: Database) {
        let home = tempfile::tempdir().unwrap();
        let own = if database == Database::Postgres { Some(empty_postgres().await) } else { None };
        let other = if Database::all("docs/backup.md: db promote").len() > 1 {
            Some(empty_postgres().await)
        } else {
            None
        };
        let mut script = format!("{MACHINE}\nsystemctl start\nmkdir -p /srv/backup\ngantry login owner\n");
        let mut n = 0;
        for (heading, block) in blocks(PAGE) {
            match (heading, &other) {
                ("Move to Postgres, or back", None) => continue,
                ("Move to Postgres, or back", Some((_, url))) => {
                    script += &block.replace("postgres://gantry@db.example/gantry", &format!("'{url}'"));
                    script += "systemctl start\n";
                }
                ("Upgrades", _) if block.contains("before-upgrade") => {
                    // What an upgrade would have made.
                    script += "mkdir -p /var/lib/gantry/backups\n";
                    script += "cp /srv/backup/monday/gantry.db /var/lib/gantry/backups/before-upgrade-12-13-x.db 2>/dev/null \
                               || cp /srv/backup/monday/db/dump.sql /var/lib/gantry/backups/before-upgrade-12-13-x.sql\n";
                    script += block;
                }
                ("Restore a gateway that runs", _) => {
                    script += "gantry login owner\n";
                    script += block;
                }
                _ => script += block,
            }
            script.push_str("echo 'done: ");
            script.push_str(heading);
            script.push_str("'\n");
            n += 1;
        }
        assert!(n >= 8, "{n} blocks");
        for (there, here) in [("/var/lib/gantry", "data"), ("/srv/backup", "backup")] {
            script = script.replace(there, home.path().join(here).to_str().unwrap());
        }
        run(&script, home.path(), own.as_ref().map(|it| it.1.as_str()));
        let backups = fs::read_dir(home.path().join("data/backups")).unwrap().count();
        assert!(backups >= 2, "the backup of the upgrade, and that of the drill");
        let mode = fs::metadata(home.path().join("backup/monday")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
