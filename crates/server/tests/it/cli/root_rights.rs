//! Verbs that root runs beside files of another account: root opens none of them with its own rights.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

use gantry_testkit::root_with;
use rustix::{process::Uid, thread::set_thread_res_uid};
use serde_json::{Value, json};

use super::Shell;

/// `nobody` on every Linux.
const NOBODY: u32 = 65_534;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks.find(|it| it["name"] == name).unwrap_or_else(|| panic!("no check `{name}`: {report}"))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes nobody the owner of a folder and of what is in it.
fn give(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Does `work` as nobody. On Linux each thread has rights of its own, and what it opens remembers them.
fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let nobody = Uid::from_raw(NOBODY);
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        work()
    });
    thread.join().unwrap()
}

/// Root's shell, a file of root that must stay, and the data directory of a gateway of nobody.
struct Scene {
    shell: Shell,
    victim: PathBuf,
    data: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        let shell = Shell::at("http://127.0.0.1:1");
        let home = shell.home.path();
        mode(home, 0o755);
        let (victim, data) = (home.join("victim"), home.join("data"));
        fs::write(&victim, "of root\n").unwrap();
        fs::create_dir(&data).unwrap();
        let url = format!("sqlite://{}", data.join("gantry.db").display());
        gantry_store::Store::open(&url).await.unwrap().close().await;
        fs::write(data.join("lock"), "").unwrap();
        give(&data);
        Self { shell, victim, data }
    }

    /// Puts a journal beside the database, as an interrupted transaction over several databases leaves it. SQLite rolls that
    /// back when the database is opened next, and deletes the file that the journal names: root's (`pager_delsuper`).
    fn set_trap(&self) {
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        const SECTOR: u32 = 512;
        const PAGE: u32 = 4096;
        let n_pages = fs::metadata(self.data.join("gantry.db")).unwrap().len() as u32 / PAGE;
        let name = self.victim.as_os_str().as_bytes();
        let sum: u32 = name.iter().map(|it| u32::from(*it)).sum();
        let mut journal = MAGIC.to_vec();
        for word in [0, 0, n_pages, SECTOR, PAGE] {
            journal.extend(word.to_be_bytes());
        }
        journal.resize(SECTOR as usize, 0);
        journal.extend((0x4000_0000 / PAGE + 1).to_be_bytes());
        journal.extend(name);
        journal.extend((name.len() as u32).to_be_bytes());
        journal.extend(sum.to_be_bytes());
        journal.extend(MAGIC);
        fs::write(self.data.join("gantry.db-journal"), journal).unwrap();
        give(&self.data);
    }

    /// What a gateway at `port` with this data directory would tell.
    fn told(&self, port: u16) -> String {
        let lock = fs::metadata(self.data.join("lock")).unwrap();
        let told = json!({
            "pid": 1,
            "version": "0.1.0",
            "listen": format!("127.0.0.1:{port}"),
            "data_dir": self.data,
            "lock": [lock.dev(), lock.ino()],
            "working_dir": "/",
            "path": "",
            "runtime": "process",
            "limits": { "open_files": null, "locked_memory": null },
            "given": [{ "name": "CONTAINER_RUNTIME", "text": "process" }],
        });
        told.to_string()
    }

    /// Holds the door of a gateway at the port of `listener`, as nobody. A request to the port itself gets no answer.
    fn hold_door(&self, listener: TcpListener) -> u16 {
        let port = listener.local_addr().unwrap().port();
        let name = SocketAddr::from_abstract_name(format!("gantry/{port}")).unwrap();
        let door = as_nobody(move || UnixListener::bind_addr(&name).unwrap());
        let text = self.told(port);
        std::thread::spawn(move || {
            for stream in door.incoming() {
                let _ = stream.unwrap().write_all(text.as_bytes());
            }
        });
        std::thread::spawn(move || listener.incoming().for_each(drop));
        port
    }
}

#[tokio::test]
async fn a_database_that_somebody_prepared_deletes_nothing_of_root() {
    if !root_with("cli: root and a database that somebody prepared", &[]) {
        return;
    }
    let scene = Scene::new().await;
    let data = scene.data.to_str().unwrap();
    let at = |name: &str| scene.shell.home.path().join(name).display().to_string();
    let (password, backup, other) = (at("password"), at("backup"), format!("sqlite://{}", at("other.db")));
    fs::write(&password, "correct horse\n").unwrap();
    for verb in [
        &["doctor"][..],
        &["egress"],
        &["audit", "verify"],
        &["audit", "export"],
        &["upgrade", "check"],
        &["owner", "create", "ada", "--password-file", password.as_str()],
        &["owner", "reset-password", "--generate"],
        &["backup", backup.as_str()],
        &["restore", data, "--yes"],
        &["db", "promote", "--to", other.as_str()],
    ] {
        scene.set_trap();
        let ran = scene.shell.run(&[verb, &["--data-dir", data]].concat());
        assert!(scene.victim.exists(), "{verb:?}: {}\n{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked"), "{verb:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn root_works_with_the_rights_of_the_gateway_s_account() {
    if !root_with("cli: root beside a gateway of another account", &[]) {
        return;
    }
    let scene = Scene::new().await;
    let data = scene.data.to_str().unwrap();
    let at = |name: &str| scene.shell.home.path().join(name);
    let (password, backup) = (at("password"), at("backup"));
    fs::write(&password, "correct horse\n").unwrap();
    mode(&password, 0o600);
    let run = |verb: &[&str]| scene.shell.run(&[verb, &["--data-dir", data]].concat());
    // Root's own file is read, and its own folder made.
    let made = run(&["owner", "create", "ada", "--password-file", password.to_str().unwrap()]).ends(0);
    assert!(made.err.contains("with the rights of the user nobody"), "{}", made.err);
    run(&["audit", "verify"]).ends(0);
    run(&["backup", backup.to_str().unwrap()]).ends(0);
    run(&["restore", backup.to_str().unwrap(), "--yes"]).ends(0);
    for dir in [&scene.data, &backup] {
        let files = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
        for path in files.chain([dir.clone()]) {
            assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY, "{}", path.display());
        }
    }
    let report = run(&["doctor", "--json"]).json();
    assert!(check(&report, "user")["found"].as_str().unwrap().contains("nobody"), "{report}");
    for name in ["user", "data_dir", "database", "database_files"] {
        assert_eq!(check(&report, name)["status"], "ok", "{name}: {report}");
    }
}

#[tokio::test]
async fn root_believes_no_door_but_that_of_the_port_or_the_data_directory() {
    if !root_with("cli: root and the door of somebody", &[]) {
        return;
    }
    let scene = Scene::new().await;
    let data = scene.data.to_str().unwrap();
    let ask = |port: u16, more: &[&str]| {
        scene.set_trap();
        let url = format!("http://127.0.0.1:{port}");
        let report =
            scene.shell.run(&[&["doctor", "--json", "--url", url.as_str()][..], more].concat()).json();
        assert!(scene.victim.exists(), "{report}");
        report
    };
    // Somebody was faster than the gateway, whose port root or systemd opened.
    let port = scene.hold_door(TcpListener::bind("127.0.0.1:0").unwrap());
    let report = ask(port, &[]);
    let found = check(&report, "same_gateway");
    assert!(found["found"].as_str().unwrap().contains("not believed"), "{found}");
    assert!(!report.to_string().contains(data), "{report}");
    let of_nobody = as_nobody(|| TcpListener::bind("127.0.0.1:0").unwrap());
    for report in [ask(port, &["--data-dir", data]), ask(scene.hold_door(of_nobody), &[])] {
        let settings = check(&report, "settings")["found"].as_str().unwrap();
        assert!(settings.contains("process 1, user nobody"), "{settings}");
        assert!(check(&report, "user")["found"].as_str().unwrap().contains("nobody"), "{report}");
    }
}

#[tokio::test]
async fn root_serves_nothing_that_others_can_exchange() {
    if !root_with("cli: root serves what is another account's", &[]) {
        return;
    }
    let scene = Scene::new().await;
    let at = |name: &str| scene.shell.home.path().join(name);
    let serve = |dir: &Path, more: &[&str]| {
        let args =
            ["serve", "--gateway-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir"];
        scene.shell.run(&[&args[..], &[dir.to_str().unwrap()], more].concat()).ends(1).err
    };
    let before = fs::read_dir(&scene.data).unwrap().count();
    let said = serve(&scene.data, &[]);
    assert!(said.contains("DATA_DIR") && said.contains("sudo -u nobody gantry serve"), "{said}");
    let said = serve(&scene.data.join("new"), &[]);
    assert!(said.contains("sudo -u nobody gantry serve"), "{said}");
    assert_eq!(fs::read_dir(&scene.data).unwrap().count(), before);

    let (own, link) = (at("own"), at("link"));
    fs::create_dir(&own).unwrap();
    // A folder of root that nobody can exchange for another one.
    let below = scene.data.join("below");
    fs::create_dir(&below).unwrap();
    symlink(&own, &link).unwrap();
    lchown(&link, Some(NOBODY), None).unwrap();
    for dir in [&below, &link] {
        let said = serve(dir, &[]);
        assert!(said.contains("belongs to the user nobody"), "{said}");
    }
    let database = format!("sqlite://{}", scene.data.join("gantry.db").display());
    let said = serve(&own, &["--database-url", &database]);
    assert!(said.contains("belongs to the user nobody"), "{said}");
    mode(&own, 0o1777);
    let said = serve(&own, &[]);
    assert!(said.contains("chmod go-w"), "{said}");
    mode(&own, 0o700);
    fs::write(own.join("gantry.db-journal"), "").unwrap();
    chown(own.join("gantry.db-journal"), Some(NOBODY), None).unwrap();
    let said = serve(&own, &[]);
    assert!(said.contains("gantry.db-journal belongs to the user nobody"), "{said}");
    let verify = ["audit", "verify", "--data-dir", own.to_str().unwrap()];
    let said = scene.shell.run(&verify).ends(1).err;
    assert!(said.contains("gantry.db-journal belongs to the user nobody"), "{said}");
}
