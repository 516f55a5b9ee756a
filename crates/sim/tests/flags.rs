//! What each engine version accepts and refuses on its command line.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

mod common;

use std::fs;
use std::path::Path;

use common::parse;
use gantry_sim::{Config, Env, Task};

/// What the real engine printed for a command line that it refused, and that command line.
fn recorded(name: &str) -> (String, String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/startup").join(name);
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    let command = lines.next().unwrap().to_owned();
    let printed: Vec<&str> = lines.filter(|line| !line.starts_with("# ")).collect();
    (command, printed.join("\n"))
}

fn refused(flavour: &str, version: &str, rest: &str) -> bool {
    match parse(&format!("--flavour {flavour} --engine-version {version} {rest}")) {
        Ok(_) => false,
        Err(exit) => {
            assert!(exit.code == if flavour == "vllm" { 2 } else { 1 }, "{rest}: {exit:?}");
            true
        }
    }
}

#[test]
fn vllm_refuses_in_the_recorded_words() {
    for name in ["removed-task", "removed-swap-space", "removed-cuda-graph-sizes", "bad-kv-cache-dtype"] {
        let (command, printed) = recorded(&format!("vllm-{name}.log"));
        let line = command.trim_start_matches("# vllm ").replace("/models/hf/tiny-llama-chat", "sim:tiny");
        let exit = parse(&line).unwrap_err();
        assert_eq!((exit.code, exit.stderr.trim_end()), (2, printed.trim_end()), "{name}");
    }
}

#[test]
fn llama_server_refuses_in_the_recorded_words() {
    for name in [
        "unknown-flag",
        "removed-no-mmap",
        "removed-mlock",
        "removed-draft-max",
        "fa-bare",
        "fa-bad",
        "kv-bad-type",
        "bad-int",
    ] {
        let (command, printed) = recorded(&format!("llama-{name}.log"));
        let line = command.trim_start_matches("# llama-server ").replace("/models/tiny-", "sim:");
        let exit = parse(&format!("--flavour llamacpp {line}")).unwrap_err();
        assert_eq!((exit.code, exit.stderr.trim_end()), (1, printed.trim_end()), "{name}");
    }
    // Their help texts are shortened here; the line that matters is the first.
    for name in ["numa-none", "load-mode-bad"] {
        let (command, printed) = recorded(&format!("llama-{name}.log"));
        let line = command.trim_start_matches("# llama-server ").replace("/models/tiny-", "sim:");
        let exit = parse(&format!("--flavour llamacpp {line}")).unwrap_err();
        assert_eq!((exit.code, exit.stderr.lines().next()), (1, printed.lines().next()), "{name}");
    }
}

/// The measured presence of vLLM's flags, for the releases next to each change.
#[test]
fn vllm_flags_come_and_go_with_the_release() {
    let cases = [
        ("--task embed", "0.12.0", "0.13.0"),
        ("--swap-space 4", "0.17.1", "0.18.1"),
        ("--cuda-graph-sizes 1 2", "0.12.0", "0.13.0"),
        ("--max-seq-len-to-capture 9", "0.10.2", "0.11.0"),
        ("--disable-log-requests", "0.16.0", "0.17.1"),
        ("--num-lookahead-slots 1", "0.11.2", "0.12.0"),
        ("--guided-decoding-backend x", "0.11.2", "0.12.0"),
        ("--rope-theta 1.5", "0.11.0", "0.11.2"),
    ];
    for (flag, last_with, first_without) in cases {
        assert!(!refused("vllm", last_with, &format!("sim:m {flag}")), "{flag} in {last_with}");
        assert!(refused("vllm", first_without, &format!("sim:m {flag}")), "{flag} in {first_without}");
    }
    let cases = [
        ("--runner pooling", "0.10.0", "0.10.2"),
        ("--cudagraph-capture-sizes 1 2 4", "0.11.0", "0.11.2"),
        ("--kv-offloading-size 4", "0.11.0", "0.11.2"),
        ("--kv-cache-memory-bytes 4G", "0.10.0", "0.10.2"),
        ("--allow-deprecated-quantization", "0.13.0", "0.14.1"),
        ("--performance-mode x", "0.16.0", "0.17.1"),
        ("--shutdown-timeout 5", "0.17.1", "0.18.1"),
        ("--max-num-queued-reqs 5", "0.28.0", "0.29.0"),
        ("--device-memory-utilization 0.5", "0.30.0", "0.31.0"),
        ("--spec-model x", "0.21.0", "0.22.1"),
        ("--attention-backend x", "0.12.0", "0.13.0"),
        ("--kv-cache-dtype nvfp4", "0.19.1", "0.20.2"),
        ("--block-size 256", "0.11.2", "0.12.0"),
        ("--block-size 48", "0.18.1", "0.19.1"),
        ("--prefix-caching-hash-algo xxhash", "0.12.0", "0.13.0"),
    ];
    for (flag, last_without, first_with) in cases {
        assert!(refused("vllm", last_without, &format!("sim:m {flag}")), "{flag} in {last_without}");
        assert!(!refused("vllm", first_with, &format!("sim:m {flag}")), "{flag} in {first_with}");
    }
    for flag in [
        "--device cuda",
        "--kv-cache-memory 5",
        "--frobnicate",
        "--max-num-seqs many",
        "--dtype int8",
        "--port",
    ] {
        assert!(refused("vllm", "0.32.0", &format!("sim:m {flag}")), "{flag}");
    }
}

#[test]
fn llama_flags_come_and_go_with_the_build() {
    let cases = [
        ("--mlock", "b10000", "b11434"),
        ("--no-mmap", "b10000", "b10884"),
        ("-fa", "b6000", "b6400"),
        ("--draft-max 16", "b9000", "b9200"),
        ("--draft-min 1", "b9000", "b9200"),
    ];
    for (flag, with, without) in cases {
        assert!(!refused("llamacpp", with, &format!("-m sim:m {flag}")), "{flag} in {with}");
        assert!(refused("llamacpp", without, &format!("-m sim:m {flag}")), "{flag} in {without}");
    }
    let cases = [
        ("--load-mode mlock", "b10000", "b10114"),
        ("-fa on", "b6000", "b6400"),
        ("--n-cpu-moe 4", "b5000", "b6200"),
        ("-ot exps=CPU", "b4900", "b5100"),
        ("-fit on", "b6300", "b8300"),
        ("--spec-draft-n-max 16", "b9000", "b9200"),
        ("--spec-draft-p-min 0.5", "b9000", "b9200"),
        ("--spec-type draft-simple", "b6300", "b9300"),
        ("--kv-unified", "b5000", "b6000"),
    ];
    for (flag, without, with) in cases {
        assert!(refused("llamacpp", without, &format!("-m sim:m {flag}")), "{flag} in {without}");
        assert!(!refused("llamacpp", with, &format!("-m sim:m {flag}")), "{flag} in {with}");
    }
    assert!(!refused("llamacpp", "b11434", "-m sim:m --draft-p-min 0.5 -md sim:d"));
    // A flag that needs a value takes the next word, whatever it is.
    let exit = parse("--flavour llamacpp --engine-version b9000 -m sim:m -fa --no-mmap").unwrap_err();
    assert!(exit.stderr.contains("unknown value for --flash-attn: '--no-mmap'"), "{}", exit.stderr);
}

#[test]
fn help_and_version_work_and_name_the_simulator() {
    let exit = parse("--engine-version 0.12.0 serve --help").unwrap_err();
    assert!(exit.code == 0 && exit.stdout.contains("--task") && exit.stdout.contains("simulator"));
    assert!(!parse("serve --help").unwrap_err().stdout.contains("--task"));
    assert_eq!(parse("--version").unwrap_err().stdout, "0.32.0\n");
    let exit = parse("--flavour llamacpp --help").unwrap_err();
    assert!(
        exit.code == 0 && exit.stdout.contains("--spec-draft-n-max") && exit.stdout.contains("simulator")
    );
    assert!(exit.stdout.contains("the argument has been removed"));
    assert!(parse("--flavour llamacpp --version").unwrap_err().stderr.starts_with("version: 11434 ("));
}

#[test]
fn vllm_settings_are_understood() {
    let config =
        parse("serve sim:m --served_model_name a b --max-model-len=4k --api-key k1 k2 --port 0").unwrap();
    assert_eq!((config.names, config.context), (vec!["a".to_owned(), "b".to_owned()], 4000));
    assert_eq!((config.keys, config.port), (vec!["k1".to_owned(), "k2".to_owned()], 0));
    assert_eq!(parse("sim:m").unwrap().names, ["sim:m"]);
    assert_eq!(
        parse("sim:m --no-enable-prefix-caching -tp 2 --runner pooling --convert embed").unwrap().task,
        Task::Embed
    );
    let env = Env::from([("VLLM_API_KEY".to_owned(), "secret".to_owned())]);
    assert_eq!(Config::parse(&common::words("sim:m"), &env).unwrap().keys, ["secret"]);
    let exit = parse("sim:m --gpu-memory-utilization 1.5").unwrap_err();
    assert!(exit.code == 1 && exit.stderr.contains("Input should be less than or equal to 1"));
    let exit = parse("sim:m --quantization gguf").unwrap_err();
    assert!(exit.code == 1 && exit.stderr.contains("Unknown quantization method: gguf"));
    assert!(parse("sim:m --max-model-len 1000000").unwrap_err().stderr.contains("derived max_model_len"));
    assert!(parse("sim:x.gguf").unwrap_err().stderr.contains("is not a valid JSON file"));
    assert!(parse("--engine-version 0.23.0 sim:x.gguf").is_ok());
}

#[test]
fn llama_settings_are_understood() {
    let of = |line: &str| parse(&format!("--flavour llamacpp -m sim:m {line}")).unwrap();
    assert_eq!((of("-c 2048").context, of("-c 2048").slots), (2048, 4));
    assert_eq!((of("-c 2048 -np 2").context, of("-c 2048 -np 2 -kvu").context), (1024, 2048));
    assert_eq!(of("-c 900000").context, gantry_sim::TRAINED_CONTEXT);
    assert_eq!(of("--engine-version b6000").context, 4096);
    assert_eq!((of("--embedding").task, of("--reranking").task), (Task::Embed, Task::Rerank));
    assert_eq!(of("-a x,y").names, ["x", "y"]);
    assert_eq!(of("--api-key a,b").keys, ["a", "b"]);
    assert!(!of("-md sim:d").speculative && of("-md sim:d --spec-type draft-simple").speculative);
    assert_eq!((of("-b 128").batch, of("-b 4096 -ub 1024").batch), (128, 1024));
    let env = Env::from(
        [
            ("LLAMA_API_KEY", "secret"),
            ("LLAMA_ARG_CTX_SIZE", "512"),
            ("LLAMA_ARG_MLOCK", "1"),
            ("GANTRY_SIM_ENGINE_VERSION", "b10200"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let config = Config::parse(&common::words("--flavour llamacpp -m sim:m"), &env).unwrap();
    assert_eq!(config.version_text(), "b10200");
    assert_eq!((config.keys, config.context), (vec!["secret".to_owned()], 512));
}

#[test]
fn a_model_under_models_must_exist() {
    let exit = parse("/models/not-there").unwrap_err();
    assert!(
        exit.code == 1 && exit.stderr.contains("'/models/not-there'. Use `repo_type` argument if needed.")
    );
    let exit = parse("--flavour llamacpp -m /models/not-there.gguf").unwrap_err();
    assert!(
        exit.code == 1
            && exit.stderr.contains("failed to open GGUF file '/models/not-there.gguf' (No such file")
    );
    assert!(parse("/models/simulated").is_ok());
    let env = Env::from([("GANTRY_SIM_ANY_MODEL".to_owned(), "1".to_owned())]);
    assert!(Config::parse(&common::words("/models/not-there"), &env).is_ok());
}

#[test]
fn a_crash_at_start_prints_a_recorded_log() {
    for (line, code, text) in [
        ("sim:m --sim-crash-at-start --sim-crash-log oom", 1, "CUDA out of memory"),
        (
            "sim:m --sim-crash-at-start 3 --sim-crash-log unsupported-arch",
            3,
            "does not recognize this architecture",
        ),
        ("sim:m --sim-crash-at-start", 1, "HFValidationError"),
        (
            "--flavour llamacpp -m sim:m --sim-crash-at-start --sim-crash-log oom",
            1,
            "cudaMalloc failed: out of memory",
        ),
        (
            "--flavour llamacpp -m sim:m --sim-crash-at-start --sim-crash-log unsupported-arch",
            1,
            "unknown model architecture",
        ),
    ] {
        let exit = parse(line).unwrap_err();
        assert!(exit.code == code && exit.stderr.contains(text), "{line}: {exit:?}");
        assert!(exit.stderr.contains("sim:m") && !exit.stderr.contains("@MODEL@"));
    }
}
