//! Standard output and error that can't be written: the disk is full, the reader is gone, or nobody reads.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use gantry_testkit::Options;

use super::{
    Ran, Shell,
    offline::{settings_of, words},
};
use crate::support::{full_disk, full_pipe, left_pipe, start};

/// Verbs that need no gateway; the first one is none, which prints help.
const VERBS: &[&str] = &[
    "",
    "--help",
    "--version",
    "settings",
    "settings --json",
    "exit-codes",
    "models fields",
    "completions bash",
    "man",
];

fn run(shell: &Shell, args: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Ran {
    let mut command = shell.command(args);
    Ran::when_ended(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap())
}

#[test]
fn a_full_disk_is_an_error_with_its_reason_and_a_reader_that_left_is_none() {
    let shell = Shell::at("http://127.0.0.1:1");
    for verb in VERBS {
        let args: Vec<_> = verb.split_whitespace().collect();
        let full = run(&shell, &args, full_disk(), Stdio::piped()).ends(1);
        let reason = ["can't write the output", "No space left on device"];
        assert!(reason.iter().all(|it| full.err.contains(it)), "{verb}: {}", full.err);
        let left = run(&shell, &args, left_pipe(), Stdio::piped()).ends(0);
        assert_eq!(left.err, "", "{verb}");
    }
}

#[test]
fn a_command_that_waits_for_a_silent_gateway_says_so() {
    // The kernel accepts the connection, and nobody answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let shell = Shell::at(&format!("http://{}", silent.local_addr().unwrap()));
    let mut command = shell.command(&["models", "list"]);
    let mut running =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("has not answered yet"), "{said}");
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn a_failure_that_can_t_be_printed_keeps_its_exit_code() {
    let shell = Shell::at("http://127.0.0.1:1");
    // The last one fails after its log is open.
    for (verb, code) in [("no-such-verb", 2), ("status", 3), ("serve --data-dir /dev/null/data", 1)] {
        let args: Vec<_> = verb.split_whitespace().collect();
        run(&shell, &args, Stdio::piped(), full_disk()).ends(code);
        run(&shell, &args, Stdio::piped(), left_pipe()).ends(code);
        let (_reader, writer) = full_pipe();
        run(&shell, &args, Stdio::piped(), writer).ends(code);
    }
}

#[tokio::test]
async fn a_new_password_is_printed_even_if_what_goes_with_it_can_t_be() {
    let gateway = start(Options::default()).await;
    let shell = Shell::at(&gateway.url);
    let flags = settings_of(&gateway);
    let verb = ["owner", "reset-password", "--generate", "--username", "owner"];
    let reset = [&verb[..], &words(&flags)].concat();
    let made = run(&shell, &reset, Stdio::piped(), full_disk()).ends(0).out;
    gateway.sign_in("owner", made.trim_end()).await;
}
