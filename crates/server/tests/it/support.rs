//! Small helpers that several modules of this test binary share.

use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter, Write},
};

use gantry_testkit::{Answer, Database, Gateway, Options};
use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::Value;

pub(crate) const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");

/// Turns `async fn name(database: Database)` into one test for each database, `name::sqlite` and `name::postgres`: for what
/// takes long on each.
macro_rules! on_each_database {
    ($(#[$meta:meta])* async fn $name:ident($database:ident: Database) $body:block) => {
        #[cfg(test)]
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn runs_on($database: gantry_testkit::Database) $body

            #[tokio::test]
            async fn sqlite() {
                runs_on(gantry_testkit::Database::Sqlite).await;
            }

            #[tokio::test]
            async fn postgres() {
                let postgres = gantry_testkit::Database::Postgres;
                if gantry_testkit::Database::all(module_path!()).contains(&postgres) {
                    runs_on(postgres).await;
                }
            }
        }
    };
}
pub(crate) use on_each_database;

/// A gateway on `database` with an owner.
pub(crate) async fn gateway(database: Database) -> Gateway {
    start(Options::default().on(database)).await
}

pub(crate) async fn start(options: Options) -> Gateway {
    Gateway::start(GANTRY, options).await
}

/// A file on a disk that is full.
pub(crate) fn full_disk() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A pipe whose reader is gone.
pub(crate) fn left_pipe() -> PipeWriter {
    let (_, writer) = io::pipe().unwrap();
    writer
}

/// A pipe that takes nothing more until somebody reads.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write_all(&[b'\n'; 4096]).is_ok() {}
    // A program that inherits it has the same flags.
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

/// `type` of an error by its status.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 | 412 => "conflict_error",
        429 => "rate_limit_error",
        503 => "service_unavailable_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().map(|it| it.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// The one shape of all errors, with the request's id in header and body.
#[track_caller]
pub(crate) fn assert_error(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text);
    assert_eq!(names(&answer.json), ["error", "request_id"], "{}", answer.text);
    let error = &answer.json["error"];
    let known = ["message", "type", "param", "code", "details"];
    // Fields may need another role than the request as a whole.
    let listed = code == "validation_error" || (code == "forbidden" && !error["details"].is_null());
    let n = if listed { 5 } else { 4 };
    assert_eq!(names(error), known[..n], "{}", answer.text);
    assert!(error["message"].as_str().is_some_and(|it| !it.is_empty()), "{}", answer.text);
    assert_eq!(error["type"], kind(status), "{}", answer.text);
    assert!(error["param"].is_null() || error["param"].is_string(), "{}", answer.text);
    let id = answer.header("x-request-id").unwrap_or_default();
    assert!(!id.is_empty() && answer.json["request_id"] == id, "{id}: {}", answer.text);
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.text);
}

/// 422 about exactly these fields, in this order.
#[track_caller]
pub(crate) fn assert_invalid(answer: &Answer, params: &[&str]) {
    assert_error(answer, 422, "validation_error");
    assert_details(answer, params);
}

/// 403 about these fields, which need another role.
#[track_caller]
pub(crate) fn assert_forbidden_fields(answer: &Answer, params: &[&str]) {
    assert_error(answer, 403, "forbidden");
    assert_details(answer, params);
}

#[track_caller]
fn assert_details(answer: &Answer, params: &[&str]) {
    let error = &answer.json["error"];
    assert_eq!(error["param"], params[0], "{}", answer.text);
    let details = error["details"].as_array().unwrap();
    let found: Vec<_> = details.iter().map(|it| it["param"].as_str().unwrap()).collect();
    assert_eq!(found, params, "{}", answer.text);
    assert!(details.iter().all(|it| names(it) == ["param", "message", "code"]), "{}", answer.text);
}

/// 404 about what this field of the body refers to.
#[track_caller]
pub(crate) fn assert_missing(answer: &Answer, param: &str) {
    assert_error(answer, 404, "not_found");
    assert_eq!(answer.json["error"]["param"], param, "{}", answer.text);
}

/// The values of one field in a list.
pub(crate) fn column<'a>(list: &'a Value, field: &str) -> Vec<&'a Value> {
    list.as_array().unwrap().iter().map(|it| &it[field]).collect()
}
