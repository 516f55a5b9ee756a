//! The simulator as a process: start-up, signals, exit codes; and as a container.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

mod common;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The example program of this crate, which the test runner builds too.
fn program() -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let program = tests.parent()?.parent()?.join("examples/engine_sim");
    program.exists().then_some(program)
}

fn start(line: &str) -> Option<(Child, BufReader<std::process::ChildStderr>)> {
    let mut child = Command::new(program()?)
        .args(common::words(line))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    Some((child, log))
}

/// Reads the log up to a line with `text`; returns that line and all before it.
fn read_to(log: &mut impl BufRead, text: &str) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "no `{text}` in {seen:?}");
        seen.push(line.trim_end().to_owned());
        if line.contains(text) {
            return seen;
        }
    }
}

fn terminate(child: &Child) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
}

#[test]
fn it_names_itself_listens_and_stops_on_sigterm() {
    for (line, ready) in [
        ("engine-sim sim:m --host 127.0.0.1 --port 0", "Starting vLLM server on http://"),
        ("engine-sim --flavour llamacpp -m sim:m --host 127.0.0.1 --port 0", "listening on http://"),
    ] {
        let Some((mut child, mut log)) = start(line) else {
            println!("SKIP: the example program is not built");
            return;
        };
        let seen = read_to(&mut log, ready);
        assert!(seen[0].starts_with("engine simulator (not a real engine): "), "{seen:?}");
        let address = seen.last().unwrap().split("http://").nth(1).unwrap();
        assert!(TcpStream::connect(address).is_ok(), "{address}");
        terminate(&child);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn sigterm_while_loading_has_the_engines_exit_code() {
    for (line, text, code) in [
        ("sim:m --host 127.0.0.1 --port 0 --sim-load-seconds 600", "Initializing a V1 LLM engine", 0),
        (
            "--flavour llamacpp -m sim:m --host 127.0.0.1 --port 0 --sim-load-seconds 600",
            "loading model 'sim:m'",
            143,
        ),
    ] {
        let Some((mut child, mut log)) = start(line) else {
            println!("SKIP: the example program is not built");
            return;
        };
        read_to(&mut log, text);
        terminate(&child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{line}");
    }
}

#[test]
fn a_refused_command_line_ends_the_process() {
    for (line, code, text) in [
        ("sim:m --task embed", 2, "vllm: error: unrecognized arguments: --task embed"),
        ("--flavour llamacpp -m sim:m --mlock", 1, "error: invalid argument: --mlock"),
        ("sim:m --sim-oom", 1, "CUDA out of memory"),
        ("--flavour fantasy", 2, "`fantasy` is not a flavour"),
        ("image --flavour fantasy", 2, "is not a flavour"),
    ] {
        let Some((mut child, mut log)) = start(line) else {
            println!("SKIP: the example program is not built");
            return;
        };
        read_to(&mut log, text);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{line}");
    }
}

/// Needs a Docker engine.
mod docker_ {
    use super::*;
    use gantry_sim::{Flavour, load_image};

    fn docker(words: &[&str]) -> (bool, String) {
        let Ok(output) = Command::new("docker").args(words).output() else { return (false, String::new()) };
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), text.concat().trim().to_owned())
    }

    struct Container(String);

    impl Drop for Container {
        fn drop(&mut self) {
            docker(&["rm", "-f", &self.0]);
        }
    }

    /// Runs a locked-down container and waits for its port.
    fn run(image: &str, options: &[&str], words: &[&str]) -> (Container, String) {
        let hard = [
            "run",
            "-d",
            "--init",
            "--read-only",
            "--cap-drop",
            "ALL",
            "--security-opt",
            "no-new-privileges",
            "--user",
            "65532:65532",
            "-p",
            "127.0.0.1::8000",
        ];
        let (started, id) = docker(&[&hard[..], options, &[image], words].concat());
        assert!(started, "{id}");
        let container = Container(id.clone());
        let (_, port) = docker(&["port", &id, "8000/tcp"]);
        (container, port)
    }

    fn wait_for(address: &str, id: &str) {
        let end = std::time::Instant::now() + common::PATIENCE;
        let health = |address: &str| {
            use std::io::{Read, Write};
            let mut stream = TcpStream::connect(address).ok()?;
            stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            text.starts_with("HTTP/1.1 200").then_some(())
        };
        while health(address).is_none() {
            assert!(std::time::Instant::now() < end, "{}", docker(&["logs", id]).1);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    #[tokio::test]
    async fn the_image_runs_as_the_real_ones_do() {
        let (answers, _) = docker(&["version"]);
        let Some(program) = program().filter(|_| answers) else {
            println!("SKIP: no Docker engine answers, or the example program is not built");
            return;
        };
        let host = std::env::vars().find(|(name, _)| name == "DOCKER_HOST").map(|(_, value)| value);
        for flavour in Flavour::ALL {
            let tag = format!("gantry/engine-sim-test-{}:{}", flavour.name(), std::process::id());
            let image = load_image(&program, &tag, flavour, host.as_deref()).await.unwrap();
            assert_eq!(image, tag);
            let (words, by_name, entry) = match flavour {
                Flavour::Vllm => {
                    let words = &["sim:m", "--served-model-name", "m", "--port", "8000"][..];
                    (words, &["serve", "sim:m", "--port", "8000"][..], "vllm")
                }
                Flavour::Llamacpp => {
                    let words = &["-m", "sim:m", "-a", "m", "--port", "8000"][..];
                    (words, &["-m", "sim:m", "--port", "8000"][..], "/app/llama-server")
                }
            };
            {
                let (container, address) = run(&tag, &[], words);
                wait_for(&address, &container.0);
                assert!(
                    docker(&["logs", &container.0]).1.starts_with("engine simulator (not a real engine): ")
                );
                assert!(docker(&["stop", "-t", "20", &container.0]).0);
                assert_eq!(docker(&["inspect", "-f", "{{.State.ExitCode}}", &container.0]).1, "0");
                let (container, address) = run(&tag, &["--entrypoint", entry], by_name);
                wait_for(&address, &container.0);
            }
            let label = "{{index .Config.Labels \"gantry.simulator\"}}";
            assert_eq!(docker(&["image", "inspect", "-f", label, &tag]).1, "true");
            docker(&["rmi", "-f", &tag]);
        }
    }
}
