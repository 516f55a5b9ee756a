//! Tests how the engine's messages are translated.

use super::*;

fn server(status_code: u16, message: &str) -> Error {
    Error::DockerResponseServerError { status_code, message: message.to_owned() }
}

fn text(error: &Error) -> String {
    meaning("start the container", "unix:///run/docker.sock", error).to_string()
}

#[test]
fn refusals_keep_the_engines_words_on_one_line() {
    let error =
        server(500, "OCI runtime create failed:\n exec: \"/app/server\": stat /app/server:\n no such file");
    assert_eq!(
        text(&error),
        "the container engine refused to start the container: OCI runtime create failed: exec: \"/app/server\": stat /app/server: no such file"
    );
}

#[test]
fn a_missing_gpu_toolkit_is_named() {
    let error = server(500, "could not select device driver \"nvidia\" with capabilities: [[gpu]]");
    let RuntimeError::GpuUnavailable { .. } = meaning("start", "", &error) else { panic!("{error:?}") };
    assert!(text(&error).contains("nvidia-container-toolkit"));
}

#[test]
fn paths_of_the_host_are_not_shown() {
    let shown = one_line(
        "error mounting \"/home/ann/models\" to rootfs at \"/models\": stat (/var/lib/docker/overlay2/ab/merged) x=/data/overlay2/y",
    );
    assert_eq!(shown, "error mounting … to rootfs at \"/models\": stat … …");
}

#[test]
fn long_messages_are_cut() {
    let cut = one_line(&"é".repeat(1000));
    assert_eq!(cut.chars().count(), MAX_DETAIL);
    assert!(cut.ends_with('…'));
    assert_eq!(one_line(&"x".repeat(MAX_DETAIL)).len(), MAX_DETAIL);
}

#[test]
fn connection_errors_say_what_to_do_and_are_no_news_of_containers() {
    let io = |kind: io::ErrorKind| Error::IOError { err: kind.into() };
    let cases = [
        (
            io(io::ErrorKind::PermissionDenied),
            "permission denied: the gateway's user may not use `unix:///run/docker.sock`; add it to the group `docker`, or set `DOCKER_HOST` to a rootless engine",
        ),
        (
            io(io::ErrorKind::NotFound),
            "the container engine can't be reached: there is no socket at `unix:///run/docker.sock`",
        ),
        (
            io(io::ErrorKind::ConnectionRefused),
            "the container engine can't be reached: nothing listens at `unix:///run/docker.sock`",
        ),
        (
            io(io::ErrorKind::ConnectionReset),
            "the container engine can't be reached: the connection to `unix:///run/docker.sock` failed or broke off",
        ),
        (Error::RequestTimeoutError, "the container engine did not finish `start the container` in time"),
    ];
    for (error, expected) in cases {
        assert_eq!(text(&error), expected);
        assert!(meaning("start", "", &error).is_unreachable());
    }
    assert!(!meaning("start", "", &server(500, "no")).is_unreachable());
}

#[test]
fn an_unreadable_answer_is_not_quoted() {
    let error = Error::JsonDataError { message: "invalid type: string \"s3cret\"".to_owned(), column: 1 };
    assert!(!text(&error).contains("s3cret"), "{}", text(&error));
}

#[test]
fn secrets_and_directories_go_before_the_text_is_cut() {
    let secrets = [
        ("KEY".to_owned(), SecretString::from("0123456789abcdef")),
        ("SWITCH".to_owned(), SecretString::from("1")),
    ];
    let private = Private {
        secrets: &secrets,
        dirs: [(Path::new("/big/models"), "(the models directory)"), (Path::new("/"), "(the hub cache)")],
    };
    let long = format!("{} invalid 1: =0123456789abcdef in /big/models/x", "x".repeat(MAX_DETAIL - 30));
    let shown = text(&private.redact(server(400, &long)));
    assert!(!shown.contains("0123"), "{shown}");
    let shown = text(&private.redact(server(400, "bind source path does not exist: /big/models")));
    assert!(shown.ends_with("bind source path does not exist: (the models directory)"), "{shown}");
}

#[test]
fn refusals_worth_another_attempt_are_known_by_their_text() {
    let clash = "driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:32768 failed: port is already allocated";
    let proxy = "Error starting userland proxy: listen tcp4 127.0.0.1:32768: bind: address already in use";
    let rlimit = "OCI runtime create failed: runc create failed: unable to start container process: error setting rlimits for ready process: error setting rlimit type 8: operation not permitted: unknown";
    assert_eq!(Retry::from_text(clash), Some(Retry::AnotherPort));
    assert_eq!(Retry::from_text(proxy), Some(Retry::AnotherPort));
    assert_eq!(Retry::from_text(rlimit), Some(Retry::WithoutMemlock));
    assert_eq!(Retry::from_text("No such file"), None);
}
