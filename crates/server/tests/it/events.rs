//! `GET /admin/events`: what it begins with, what follows, coming back, and how it ends.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use gantry_testkit::{Client, Database, Gateway, Managed, Options, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    support::{assert_error, gateway, start},
    team::{PASSWORD, Team, id, make_model, make_user},
};

/// Longest wait for an event on a busy machine.
const PATIENCE: Duration = gantry_testkit::PATIENCE;

/// One event as it came.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// `None` if the block of lines has no data.
fn parse(block: &str) -> Option<Event> {
    let line = |name: &str| block.lines().find_map(|it| it.strip_prefix(name)).map(str::to_owned);
    let data = serde_json::from_str(&line("data: ")?).unwrap();
    Some(Event { id: line("id: "), kind: line("event: ").unwrap(), data })
}

/// The stream, read event by event.
pub(crate) struct Stream {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

impl Stream {
    pub(crate) async fn open(client: &Client, query: &str, seen: Option<&str>) -> Self {
        let mut request = client.request(Method::GET, &format!("/admin/events{query}"));
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen);
        }
        // Each event has a time to come in; all of them together may take longer than other answers.
        Self::of(request.timeout(Duration::from_mins(8)).send().await.unwrap())
    }

    /// The events of `/auth/events`.
    pub(crate) async fn open_own(client: &Client) -> Self {
        Self::of(client.request(Method::GET, "/auth/events").send().await.unwrap())
    }

    /// The events of an answer.
    pub(crate) fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: Vec::new() }
    }

    /// The next block of lines; `None` at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let block = self.buffer.drain(..end + 2).take(end).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            self.buffer.extend_from_slice(&chunk.unwrap()?);
        }
    }

    /// The next event. Comments are none, however many come.
    pub(crate) async fn next(&mut self) -> Event {
        let event = async {
            loop {
                if let Some(event) = parse(&self.block().await.expect("it goes on")) {
                    return event;
                }
            }
        };
        timeout(PATIENCE, event).await.expect("an event comes")
    }

    /// The next event of this kind.
    pub(crate) async fn next_of(&mut self, kind: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.kind == kind {
                return event;
            }
        }
    }

    /// Waits until it ends.
    pub(crate) async fn ends(&mut self) {
        while self.block().await.is_some() {}
    }
}

#[tokio::test]
async fn it_begins_with_all_models_and_goes_on_with_what_changes() {
    for database in Database::one("events: all models and what changes") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let first = make_model(&owner, "first").await;
        let mut stream = Stream::open(&owner, "", None).await;
        assert_eq!(stream.block().await.unwrap(), "retry: 2000");
        let snapshot = stream.next().await;
        assert_eq!(snapshot.kind, "snapshot");
        assert_eq!(
            snapshot.data,
            json!([{
                "id": first, "served_name": "first", "state": "stopped", "state_reason": null,
                "needs_apply": false, "archived": false, "diagnosis": null, "pull": null,
            }])
        );
        let second = make_model(&owner, "second").await;
        let event = stream.next().await;
        assert_eq!((event.kind.as_str(), &event.data["id"]), ("model", &json!(second)));
        let seen = event.id.unwrap();
        owner.patch(&format!("/admin/models/{second}"), &json!({ "archived": true })).await.expect(200);
        let event = stream.next().await;
        assert_eq!((event.kind.as_str(), &event.data["archived"]), ("model", &json!(true)));
        // What is not shown here is no event.
        owner.patch(&format!("/admin/models/{first}"), &json!({ "name": "other" })).await.expect(200);
        owner.delete(&format!("/admin/models/{second}")).await.expect(200);
        let event = stream.next().await;
        assert_eq!((event.kind.as_str(), &event.data), ("model_deleted", &json!({ "id": second })));
        drop(stream);

        // Away for a while: a change that nobody saw is among what was missed.
        owner
            .patch(&format!("/admin/models/{first}"), &json!({ "served_name": "renamed" }))
            .await
            .expect(200);
        let mut again = Stream::open(&owner, "", Some(&seen)).await;
        for (kind, field, value) in [
            ("model", "archived", json!(true)),
            ("model_deleted", "id", json!(second)),
            ("model", "served_name", json!("renamed")),
        ] {
            let event = again.next().await;
            assert_eq!((event.kind.as_str(), &event.data[field]), (kind, &value), "{event:?}");
        }
        for unknown in ["nonsense", "0123-4"] {
            let reset = Stream::open(&owner, "", Some(unknown)).await.next().await;
            assert_eq!((reset.kind.as_str(), &reset.data[0]["served_name"]), ("reset", &json!("renamed")));
        }
        assert_error(&owner.get("/admin/events?logs=999").await, 404, "not_found");
        assert_error(&owner.get("/admin/events?logs=x").await, 422, "validation_error");
        // A model without a container has no log to follow.
        assert_error(&owner.get(&format!("/admin/events?logs={first}")).await, 409, "invalid_state");
    }
}

#[tokio::test]
async fn it_ends_with_the_session() {
    let team = Team::on(Database::Sqlite).await;
    let users = team.owner.get("/admin/users?q=ada").await.expect(200);
    let ada = format!("/admin/users/{}", id(&users[0]));
    let sign_in = async || team.gateway.sign_in("ada", PASSWORD).await;

    // Signing out ends this one, and not that of another session.
    let (leaving, staying) = (sign_in().await, sign_in().await);
    let mut left = Stream::open(&leaving, "", None).await;
    let mut stays = Stream::open(&staying, "", None).await;
    leaving.command("/auth/logout").await.expect(200);
    left.ends().await;
    assert_eq!(stays.next().await.kind, "snapshot");
    make_model(&team.owner, "still-told").await;
    assert_eq!(stays.next().await.kind, "model");

    // So do being disabled, another role, another password, and being deleted.
    team.owner.patch(&ada, &json!({ "enabled": false })).await.expect(200);
    stays.ends().await;
    team.owner.patch(&ada, &json!({ "enabled": true })).await.expect(200);
    for change in [json!({ "role": "user" }), json!({ "role": "admin" }), json!({ "password": PASSWORD })] {
        if change["role"] == "admin" {
            team.owner.patch(&ada, &change).await.expect(200);
            continue;
        }
        let mut stream = Stream::open(&sign_in().await, "", None).await;
        team.owner.patch(&ada, &change).await.expect(200);
        stream.ends().await;
    }
    let mut stream = Stream::open(&sign_in().await, "", None).await;
    team.owner.delete(&ada).await.expect(200);
    stream.ends().await;
}

#[tokio::test]
async fn it_does_not_hold_up_the_end_of_the_gateway() {
    let mut gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let mut stream = Stream::open(&owner, "", None).await;
    assert_eq!(stream.next().await.kind, "snapshot");
    gateway.signal("TERM");
    stream.ends().await;
    assert!(gateway.ended().await, "in order, with nothing cut off");
}

#[tokio::test]
async fn a_comment_comes_when_nothing_happens() {
    let gateway = gateway(Database::Sqlite).await;
    let mut stream = Stream::open(&gateway.owner().await, "", None).await;
    assert_eq!(stream.block().await.unwrap(), "retry: 2000");
    assert!(stream.block().await.unwrap().contains("event: snapshot"));
    assert_eq!(stream.block().await.unwrap(), ": still here");
}

#[tokio::test]
async fn only_who_manages_models_sees_them() {
    let team = Team::on(Database::Sqlite).await;
    let model = make_model(&team.owner, "secret-name").await;
    for path in ["/admin/events".to_owned(), format!("/admin/models/{model}/logs?follow=true")] {
        for client in [&team.org_admin, &team.user] {
            let answer = client.get(&path).await;
            assert_error(&answer, 403, "forbidden");
            assert!(!answer.text.contains("secret-name"), "{}", answer.text);
        }
        let (_, key) = team.owner.new_key(&json!({})).await;
        assert_error(&key.get(&path).await, 401, "unauthenticated");
    }
    let snapshot = Stream::open(&team.admin, "", None).await.next_of("snapshot").await;
    assert_eq!(snapshot.data[0]["served_name"], "secret-name");
}

#[tokio::test]
async fn streams_have_bounds() {
    let gateway = start(Options::default().env("EVENT_STREAMS_MAX", "18")).await;
    let owner = gateway.owner().await;
    let mut open = Vec::new();
    for _ in 0..13 {
        open.push(Stream::open(&owner, "", None).await);
    }
    // Users leave a quarter of the places to administrators.
    make_user(&owner, 1, "reader", "user").await;
    let reader = gateway.sign_in("reader", PASSWORD).await;
    let _reader = Stream::open_own(&reader).await;
    assert_error(&reader.get("/auth/events").await, 503, "streams_exhausted");
    for _ in 0..3 {
        open.push(Stream::open(&owner, "", None).await);
    }
    let refused = owner.get("/admin/events").await;
    assert_error(&refused, 429, "too_many_streams");
    assert_eq!(refused.header("retry-after"), Some("5"));
    // Another session has its own, as far as all together have any.
    let other = gateway.owner().await;
    let _other = Stream::open(&other, "", None).await;
    assert_error(&other.get("/admin/events").await, 503, "streams_exhausted");
    // What is refused takes no place, and one that is closed gives its own back.
    open.pop();
    let mut stream = eventually("the place is free", PATIENCE, async || {
        let answer = owner.request(Method::GET, "/admin/events").send().await.unwrap();
        (answer.status() == 200).then(|| Stream { response: answer, buffer: Vec::new() })
    })
    .await;
    assert_eq!(stream.next().await.kind, "snapshot");
    // So does one whose session ends.
    owner.command("/auth/logout").await.expect(200);
    stream.ends().await;
    eventually("all places are free", PATIENCE, async || {
        let answer = other.request(Method::GET, "/admin/events").send().await.unwrap();
        (answer.status() == 200).then_some(())
    })
    .await;
}

/// A model whose engine prints what is written to a file, and does nothing else.
struct Printer {
    /// Folder of the program and of what it prints.
    _dir: TempDir,
    gateway: Gateway,
    owner: Client,
    model: Managed,
    feed: File,
}

impl Printer {
    async fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let (program, path) = (dir.path().join("engine"), dir.path().join("feed"));
        let feed = File::create(&path).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--version*|*--help*) exit 0;; esac\nexec tail -n +1 -f {}\n",
            path.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options::processes().env("SECONDARY_ENGINE_COMMAND", program.to_str().unwrap());
        let gateway = start(options).await;
        fs::write(gateway.models_dir().join("m.gguf"), "").unwrap();
        let owner = gateway.owner().await;
        let body = json!({ "served_name": "printer", "engine_type": "llamacpp", "local_path": "m.gguf" });
        let model = Managed::create(&owner, &body).await;
        model.start(&owner).await;
        model.reaches(&owner, "loading").await;
        Self { _dir: dir, gateway, owner, model, feed }
    }

    fn print(&mut self, text: &str) {
        self.feed.write_all(text.as_bytes()).unwrap();
    }

    fn query(&self) -> String {
        format!("?logs={}", self.model.id)
    }
}

#[tokio::test]
async fn a_log_is_told_line_by_line_until_the_engine_ends() {
    let mut printer = Printer::start().await;
    let id = printer.model.id;
    printer.print("before\n");
    let mut follower = Stream::open(&printer.owner, &printer.query(), None).await;
    let first = follower.next_of("log").await;
    assert_eq!((first.data, first.id), (json!({ "id": id, "line": "before" }), None));
    // Two readers see the same; one comes later and sees what was.
    printer.print("half a ");
    printer.print("line\nä \"quoted\"\n");
    for line in ["half a line", "ä \"quoted\""] {
        assert_eq!(follower.next_of("log").await.data["line"], line);
    }
    let mut late = Stream::open(&printer.owner, &printer.query(), None).await;
    assert_eq!(late.next_of("log").await.data["line"], "before");
    // Another page, without a log, and one that only follows the log.
    let mut other = Stream::open(&printer.owner, "", None).await;
    assert_eq!(other.next().await.kind, "snapshot");
    let path = printer.model.path("logs?follow=true");
    let mut tail = printer.owner.request(Method::GET, &path).send().await.unwrap();
    assert!(tail.chunk().await.unwrap().is_some());
    printer.model.command(&printer.owner, "stop").await.expect(202);
    for stream in [&mut follower, &mut late] {
        assert_eq!(stream.next_of("log_end").await.data, json!({ "id": id }));
    }
    while tail.chunk().await.unwrap().is_some() {}
    loop {
        let event = other.next().await;
        assert_eq!(event.kind, "model", "no log for who did not ask");
        if event.data["state"] == "stopped" {
            break;
        }
    }
}

/// A reader of the stream whose connection holds little that is not read yet.
struct Slow {
    stream: TcpStream,
    /// What was read so far.
    read: Vec<u8>,
}

impl Slow {
    /// Continues behind the event `seen`.
    async fn open(gateway: &Gateway, cookie: &str, query: &str, seen: Option<&str>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let at = gateway.url.strip_prefix("http://").unwrap().parse().unwrap();
        let mut stream = socket.connect(at).await.unwrap();
        let seen = seen.map(|it| format!("Last-Event-ID: {it}\r\n")).unwrap_or_default();
        // In the old version the body is what comes until the end.
        let request =
            format!("GET /admin/events{query} HTTP/1.0\r\nHost: localhost\r\nCookie: {cookie}\r\n{seen}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Reads until the end, or until the event with this text came.
    async fn until(&mut self, wanted: &str) {
        let found = async {
            let mut from = self.read.len();
            for wanted in [wanted, "\n\n"] {
                let n = wanted.len();
                loop {
                    let at = self.read[from..].windows(n).position(|it| it == wanted.as_bytes());
                    if let Some(at) = at {
                        from += at + n;
                        break;
                    }
                    // What came may end in the middle of it.
                    from = from.max(self.read.len().saturating_sub(n - 1));
                    if self.stream.read_buf(&mut self.read).await.unwrap() == 0 {
                        return;
                    }
                }
            }
        };
        timeout(PATIENCE, found).await.expect("it comes, or the stream ends");
    }

    /// Waits until the kernel takes nothing more for this reader.
    async fn is_full(&self) {
        // The number of looks in a row that see the same amount.
        const STANDS: usize = 50;
        let (mut last, mut same) = (0, 0);
        eventually("its connection is full", PATIENCE, async || {
            let waits = self.unsent();
            same = if waits > 0 && waits == last { same + 1 } else { 0 };
            last = waits;
            (same >= STANDS).then_some(())
        })
        .await;
    }

    /// Bytes that the gateway has written and the kernel could not send, of `/proc/net/tcp`.
    fn unsent(&self) -> u64 {
        let port = |it: std::net::SocketAddr| format!(":{:04X}", it.port());
        let (own, its) = (port(self.stream.local_addr().unwrap()), port(self.stream.peer_addr().unwrap()));
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let queue = table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ours = words.get(1)?.ends_with(&its) && words.get(2)?.ends_with(&own);
            ours.then(|| words.get(4)?.split(':').next()).flatten()
        });
        queue.and_then(|it| u64::from_str_radix(it, 16).ok()).unwrap_or(0)
    }

    /// All events until the end, or until the one with this text came.
    async fn rest(mut self, wanted: &str) -> Vec<Event> {
        self.until(wanted).await;
        let Self { mut stream, read: mut bytes } = self;
        // What comes behind it, if anything does; the last of that may be cut.
        let _ = timeout(Duration::from_secs(1), stream.read_to_end(&mut bytes)).await;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.rsplit_once("\n\n").map_or(&*text, |(whole, _)| whole);
        assert!(text.starts_with("HTTP/1.0 200") || text.starts_with("HTTP/1.1 200"), "{text}");
        text.split("\n\n").filter_map(parse).collect()
    }
}

/// Ids of the models that events tell of.
fn told(events: &[Event]) -> Vec<i64> {
    events.iter().filter(|it| it.kind == "model").map(|it| id(&it.data)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_falls_behind_gets_all_that_he_missed() {
    const MODELS: usize = 300;
    let (printer, slow) = behind().await;
    let mut made = Vec::new();
    for n in 0..MODELS {
        made.push(make_model(&printer.owner, &format!("m{n}")).await);
    }
    // A client that reads has seen all events, so all were sent.
    let mut reader = Stream::open(&printer.owner, "", None).await;
    assert_eq!(reader.next_of("snapshot").await.data.as_array().unwrap().len(), MODELS + 1);
    let seen = slow.rest(&format!("\"served_name\":\"m{}\"", MODELS - 1)).await;
    assert!(seen.iter().all(|it| it.kind != "lag"));
    let mut all = told(&seen);
    all.retain(|it| made.contains(it));
    assert_eq!(all, made, "each once, in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_told_cut_off_and_may_come_back() {
    const MODELS: usize = 180;
    let (printer, slow) = behind().await;
    let mut made = Vec::new();
    for n in 0..MODELS {
        made.push(make_model(&printer.owner, &format!("m{n}")).await);
    }
    // With these, three events of each model: more than the 512 that are kept. Each reader has all models looked at.
    for archived in [true, false] {
        drop(Stream::open(&printer.owner, "", None).await);
        for model in &made {
            let path = format!("/admin/models/{model}");
            printer.owner.patch(&path, &json!({ "archived": archived })).await.expect(200);
        }
    }
    let mut reader = Stream::open(&printer.owner, "", None).await;
    assert_eq!(reader.next_of("snapshot").await.data.as_array().unwrap().len(), MODELS + 1);
    let seen = slow.rest("event: lag\n").await;
    let lag = seen.last().unwrap();
    assert_eq!(lag.kind, "lag", "nothing comes behind it: {lag:?}");
    assert!(lag.data["missed"].as_u64().unwrap() > 0, "{lag:?}");
    // A client that comes back with the last event that it saw gets all models in their present state.
    let last = seen.iter().rev().find_map(|it| it.id.clone()).unwrap();
    let reset = Stream::open(&printer.owner, "", Some(&last)).await.next().await;
    assert_eq!((reset.kind.as_str(), reset.data.as_array().unwrap().len()), ("reset", MODELS + 1));
}

#[tokio::test]
async fn many_models_at_once_cut_nobody_off() {
    const MODELS: usize = 300;
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    for n in 0..MODELS {
        make_model(&owner, &format!("m{n}")).await;
    }
    // Nobody listened so far, so that the look for this one finds them all.
    let mut stream = Stream::open(&owner, "", None).await;
    let snapshot = stream.next().await;
    assert_eq!((snapshot.kind.as_str(), snapshot.data.as_array().unwrap().len()), ("snapshot", MODELS));
    let last = make_model(&owner, "last").await;
    let event = stream.next().await;
    assert_eq!((event.kind.as_str(), &event.data["id"]), ("model", &json!(last)));
}

/// A reader who has stopped to read, of a model's events and log.
async fn behind() -> (Printer, Slow) {
    let mut printer = Printer::start().await;
    let login = json!({ "username": "owner", "password": "owner-password" });
    let login = printer.gateway.client().post("/auth/login", &login).await;
    let cookie = login.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let mut slow = Slow::open(&printer.gateway, &cookie, &printer.query(), None).await;
    // A new reader of a log gets its last 200 lines. Only a reader that is connected already gets everything that is
    // printed from here on.
    printer.print("now\n");
    slow.until("\"line\":\"now\"").await;
    let mut other = Stream::open(&printer.owner, &printer.query(), None).await;
    // More of the log than any buffer between them takes: in the end nothing more is taken for them.
    for n in 0..4000 {
        printer.print(&format!("{n} {}\n", "x".repeat(4000)));
    }
    printer.print("that was it\n");
    while other.next_of("log").await.data["line"] != "that was it" {}
    // Events come before the log, so a reader that has not reached the end of the log yet would read all events.
    slow.is_full().await;
    (printer, slow)
}

#[tokio::test]
async fn a_log_that_is_followed_ends_with_the_session() {
    let mut printer = Printer::start().await;
    printer.print("said\n");
    let reader = printer.gateway.owner().await;
    let path = printer.model.path("logs?follow=true");
    let mut tail = reader.request(Method::GET, &path).send().await.unwrap();
    assert!(tail.chunk().await.unwrap().is_some());
    reader.command("/auth/logout").await.expect(200);
    let end = async { while tail.chunk().await.unwrap().is_some() {} };
    timeout(PATIENCE, end).await.expect("it ends");
}
