//! Tests what a command line says about memory in cases that the gateway's own commands don't show: other versions and
//! extra arguments.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

use gantry_domain::{
    engine::EngineVersion,
    memory::{
        Beside, CacheType, Command, Estimate, GpuMemory, Hyper, LlamacppCommand, ModelFacts, PerLayer,
        Remedy, Room, Slots, Tensor, VllmKvType, remedy,
    },
    model::EngineKind,
};

const GIB: u64 = 1 << 30;

fn read(engine: EngineKind, version: &str, line: &str) -> Result<Command, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Command::parse(engine, EngineVersion::parse(engine, version), &words).map_err(|it| it.reason)
}

fn llamacpp(build: &str, line: &str) -> LlamacppCommand {
    match read(EngineKind::Llamacpp, build, line).unwrap() {
        Command::Llamacpp(it) => it,
        Command::Vllm(_) => panic!("another engine"),
    }
}

#[test]
fn the_last_argument_counts_under_any_of_its_names() {
    let read = llamacpp("b11434", "--ctx-size 8192 -ngl 999 -ctk q8_0 --load-mode mlock -c 512 -ngl auto");
    let settings = read.settings;
    assert_eq!((settings.context, settings.ngl), (Some(512), None));
    assert_eq!((settings.cache_type_k, settings.cache_type_v), (CacheType::Q8_0, CacheType::F16));
    assert!(!settings.mmap && settings.flash_attn.is_none());
    let read = llamacpp("b11434", "-ts 3,1 -np 4 -kvu --n-cpu-moe 2 --cpu-moe -sm row --main-gpu 1");
    assert_eq!((read.tensor_split, read.main_gpu), (vec![3.0, 1.0], 1));
    assert_eq!(read.settings.slots, Slots::Fixed { slots: 4, unified: true });
    assert_eq!(read.settings.n_cpu_moe, u64::MAX);
}

#[test]
fn builds_differ_in_what_they_do_by_themselves() {
    let old = llamacpp("b4000", "--flash-attn --no-mmap --ctx-size 4096").settings;
    assert_eq!(old.slots, Slots::Fixed { slots: 1, unified: false });
    assert_eq!((old.flash_attn, old.mmap, old.logits_for_all), (Some(true), false, true));
    assert_eq!(llamacpp("b4000", "--ctx-size 4096").settings.flash_attn, Some(false));
    let new = llamacpp("b11434", "--ctx-size 4096").settings;
    assert_eq!((new.slots, new.flash_attn, new.mmap, new.logits_for_all), (Slots::Auto, None, true, false));
}

#[test]
fn what_is_not_understood_makes_the_estimate_unknown() {
    for (engine, line, said) in [
        (EngineKind::Llamacpp, "-ctk q9", "`--cache-type-k q9`"),
        (EngineKind::Llamacpp, "-c many", "`--ctx-size many`"),
        (EngineKind::Llamacpp, "-c", ""),
        (EngineKind::Llamacpp, "-sm tensor", "`--split-mode tensor`"),
        (EngineKind::Vllm, "--max-model-len auto", "`--max-model-len auto`"),
        (EngineKind::Vllm, "--kv-cache-dtype turbo", "`--kv-cache-dtype turbo`"),
        (EngineKind::Vllm, "--gpu-memory-utilization=NaN", "`--gpu-memory-utilization NaN`"),
    ] {
        match read(engine, "", line) {
            Err(reason) => assert!(reason.contains(said) && !said.is_empty(), "{line}: {reason}"),
            // The last option lacks its value, so the engine will refuse the command.
            Ok(_) => assert!(said.is_empty(), "{line}"),
        }
    }
}

#[test]
fn vllm_is_read_as_it_reads_itself() {
    let line = "serve m --max-model-len=8k --dtype float32 --kv-cache-dtype auto --enforce-eager \
                --no-enforce-eager --cpu-offload-gb 1.5 --runner pooling -tp 2";
    let Command::Vllm(read) = read(EngineKind::Vllm, "v0.32.0", line).unwrap() else { panic!() };
    let settings = read.settings;
    assert_eq!((settings.max_model_len, settings.tensor_parallel), (Some(8000), 2));
    assert_eq!((settings.kv_type, read.single, read.pooled), (VllmKvType::Single, true, true));
    assert_eq!((settings.enforce_eager, settings.cpu_offload), (false, 3 * GIB / 2));
}

/// Returns a model with 8 layers of 1 GiB with 4 heads of 128, trained for 131,072 tokens. At that length it needs 256
/// MiB of cache per layer.
fn model() -> ModelFacts {
    let hyper = Hyper {
        architecture: "llama".to_owned(),
        n_layer: Some(8),
        n_embd: Some(512),
        n_head: Some(PerLayer::All(4)),
        n_head_kv: Some(PerLayer::All(4)),
        n_ff: Some(PerLayer::All(1024)),
        n_vocab: Some(1000),
        context_train: Some(131_072),
        ..Hyper::default()
    };
    let names: Vec<String> = (0..8).map(|it| format!("blk.{it}.ffn_up.weight")).collect();
    let layers = names.iter().map(|name| Tensor { name, n_elements: GIB / 2, bytes: GIB });
    let outer = ["token_embd.weight", "output.weight"].map(|name| Tensor {
        name,
        n_elements: 512_000,
        bytes: 1_024_000,
    });
    ModelFacts::new(&hyper, layers.chain(outer)).unwrap()
}

fn on(free: &[u64]) -> Vec<GpuMemory> {
    free.iter().map(|it| GpuMemory { total: 80 * GIB, free: *it }).collect()
}

/// Returns the remedy, after checking that the model fits with it.
fn helped(engine: EngineKind, line: &str, free: &[u64], room_in_ram: u64) -> Option<String> {
    let (facts, gpus) = (model(), on(free));
    let room = Room { gpus: &gpus, host_ram_free: Some(room_in_ram), host_ram_total: None };
    let command = read(engine, "", line).unwrap();
    let estimate = command.estimate(&facts, room).unwrap();
    assert_eq!(estimate.fits, Some(false), "{line}: {estimate:?}");
    let Remedy(values) = remedy(&command, &facts, room, &estimate)?;
    let flag = |field: &str| format!("--{}", field.replace('_', "-").replace("context-size", "ctx-size"));
    let words: Vec<String> = values.iter().map(|(field, value)| format!("{} {value}", flag(field))).collect();
    let again = read(engine, "", &format!("{line} {}", words.join(" ").replace("--ngl", "-ngl"))).unwrap();
    assert_eq!(again.estimate(&facts, room).unwrap().fits, Some(true), "{line} {words:?}");
    Some(words.join(" "))
}

#[test]
fn the_remedy_helps_and_a_shorter_context_comes_first() {
    use EngineKind::{Llamacpp, Vllm};
    let ram = 100 * GIB;
    let shorter = helped(Llamacpp, "-c 131072 -np 1 --fit off", &[9 * GIB], ram).unwrap();
    assert!(shorter.starts_with("--ctx-size "), "{shorter}");
    // The output and four layers fit beside the driver's share.
    assert_eq!(helped(Llamacpp, "-c 256 -np 1 --fit off", &[5 * GIB], ram).unwrap(), "--ngl 5");
    assert_eq!(helped(Llamacpp, "-c 256 -np 1", &[5 * GIB], 2 * GIB), None, "nor does RAM hold the rest");
    assert_eq!(helped(Llamacpp, "-c 256 -np 1", &[], 2 * GIB), None);
    let share = helped(Vllm, "--gpu-memory-utilization 0.9 --enforce-eager", &[40 * GIB], ram).unwrap();
    assert_eq!(share, "--gpu-memory-utilization 0.5");
    let both = helped(Vllm, "--gpu-memory-utilization 0.9 --enforce-eager", &[10 * GIB], ram).unwrap();
    assert!(both.starts_with("--gpu-memory-utilization 0.12 --max-model-len "), "{both}");
    let wider =
        helped(Vllm, "--gpu-memory-utilization 0.07 --max-model-len 4096", &[6 * GIB, 6 * GIB], ram).unwrap();
    assert_eq!(wider, "--tensor-parallel-size 2");
}

#[test]
fn layers_that_do_not_fit_stay_in_ram_where_the_engine_chooses() {
    let facts = model();
    let of = |build: &str, line: &str, free: &[u64], ram: u64| {
        let gpus = on(free);
        let room = Room { gpus: &gpus, host_ram_free: Some(ram), host_ram_total: None };
        read(EngineKind::Llamacpp, build, line).unwrap().estimate(&facts, room).unwrap()
    };
    let (line, ram) = ("-c 256 -np 1", 100 * GIB);
    let whole = of("b11434", line, &[12 * GIB], ram);
    assert_eq!((whole.fits, whole.layers_on_gpus, whole.host_ram < GIB), (Some(true), None, true));
    let part = of("b11434", line, &[5 * GIB], ram);
    let layers = part.layers_on_gpus.unwrap();
    assert!(part.fits == Some(true) && layers > 0 && part.host_ram > 4 * GIB, "{part:?}");
    // The engine leaves a GiB free, and uses as much of the rest as it can.
    let held = part.per_gpu[0].total();
    assert!(held <= 4 * GIB && held > 2 * GIB, "{part:?}");
    // A longer context has room in RAM.
    assert_eq!(of("b11434", "-c 8192 -np 1", &[5 * GIB], ram).fits, Some(true));
    // If RAM can't hold the rest, the model does not fit.
    assert_eq!(of("b11434", line, &[5 * GIB], 2 * GIB).fits, Some(false));
    // An operator's own placement takes precedence, and older builds choose nothing.
    for (build, more) in [
        ("b11434", "--fit off"),
        ("b11434", "-ngl 999"),
        ("b11434", "-ts 1"),
        ("b11434", "-sm row"),
        ("b7000", "-ngl 999"),
    ] {
        let told = of(build, &format!("{line} {more}"), &[5 * GIB], ram);
        assert_eq!((told.fits, told.layers_on_gpus), (Some(false), None), "{build} {more}");
    }
}

#[test]
fn a_wider_split_shares_out_the_heads_of_keys_and_values_too() {
    let mut facts = model();
    for layer in &mut facts.layers {
        (layer.n_head, layer.n_head_kv) = (12, 4);
    }
    let wider = |gpus: usize| {
        let gpus: Vec<_> = std::iter::repeat_n(GpuMemory { total: 80 * GIB, free: 4 * GIB }, gpus).collect();
        let room = Room { gpus: &gpus, host_ram_free: Some(100 * GIB), host_ram_total: None };
        let line = "--gpu-memory-utilization 0.05 --max-model-len 64 --enforce-eager";
        let command = read(EngineKind::Vllm, "", line).unwrap();
        let estimate = command.estimate(&facts, room).unwrap();
        assert_eq!(estimate.fits, Some(false));
        remedy(&command, &facts, room, &estimate).map(|it| it.0[0].1.to_string())
    };
    // Three GPUs have enough memory and would divide 12 heads, but not 4.
    assert_eq!(wider(3), None);
    assert_eq!(wider(4).as_deref(), Some("4"));
}

#[test]
fn what_is_not_split_goes_to_the_main_gpu() {
    let (facts, gpus) = (model(), on(&[GIB, 20 * GIB, 30 * GIB]));
    let room = Room { gpus: &gpus, host_ram_free: Some(100 * GIB), host_ram_total: None };
    let estimate = |line: &str| read(EngineKind::Llamacpp, "", line).unwrap().estimate(&facts, room);
    let whole = estimate("-c 256 -sm none -mg 2").unwrap();
    assert_eq!(whole.fits, Some(true));
    let used: Vec<bool> = whole.per_gpu.iter().map(|it| it.total() > 0).collect();
    assert_eq!(used, [false, false, true]);
    let rows = estimate("-c 256 -sm row -mg 1 -ts 0,1,1").unwrap();
    assert_eq!((rows.per_gpu[0].weights, rows.per_gpu[0].kv_cache), (0, 0));
    assert!(rows.per_gpu[1].kv_cache > 0 && rows.per_gpu[2].kv_cache == 0);
    assert_eq!(rows.per_gpu[1].weights, rows.per_gpu[2].weights);
    assert!(estimate("-c 256 -sm none -mg 3").unwrap_err().reason.contains("main_gpu"));
}

#[test]
fn what_is_left_out_leaves_no_verdict_that_it_could_turn() {
    use EngineKind::{Llamacpp, Vllm};
    let facts = model();
    let fits = |facts: &ModelFacts, engine, line: &str, free: u64| {
        let gpus = on(&[free]);
        let room = Room { gpus: &gpus, host_ram_free: Some(100 * GIB), host_ram_total: None };
        read(engine, "", line).unwrap().estimate(facts, room).unwrap().fits
    };
    let (llama, vllm) = ("-c 256 -np 1 --fit off", "--max-model-len 256 --enforce-eager");
    // The model needs 8 GiB of weights, and the driver's share.
    assert_eq!(
        (fits(&facts, Llamacpp, llama, 10 * GIB), fits(&facts, Llamacpp, llama, 8 * GIB)),
        (Some(true), Some(false))
    );
    for (more, roomy, narrow) in [
        // There are no layers with a window.
        ("--swa-full", Some(true), Some(false)),
        ("--mmproj p.gguf", None, Some(false)),
        ("--model-draft d.gguf", None, Some(false)),
        ("--lora l.gguf", None, Some(false)),
        ("--no-kv-offload", None, None),
        ("--device CUDA1", None, None),
        ("-ot ffn_up=CPU", None, None),
        ("-ot exps=CPU -ot blk=CUDA0", None, None),
        // This does all that `--cpu-moe` does, and the model has no experts.
        ("-ot exps=CPU", Some(true), Some(false)),
    ] {
        let line = format!("{llama} {more}");
        let both = (fits(&facts, Llamacpp, &line, 10 * GIB), fits(&facts, Llamacpp, &line, 8 * GIB));
        assert_eq!(both, (roomy, narrow), "{more}");
    }
    let vllm = |more: &str, free: u64| fits(&facts, Vllm, &format!("{vllm} {more}"), free);
    assert_eq!((vllm("", 78 * GIB), vllm("", 8 * GIB)), (Some(true), Some(false)));
    assert_eq!((vllm("--enable-lora", 78 * GIB), vllm("--enable-lora", 8 * GIB)), (None, Some(false)));
    assert_eq!((vllm("-dp 2", 78 * GIB), vllm("-dp 2", 8 * GIB)), (None, None));
    // Weights that are quantised while they are loaded take less than was counted.
    assert_eq!((vllm("-q fp8", 78 * GIB), vllm("-q fp8", 8 * GIB)), (Some(true), None));
    let packed = ModelFacts { quantized: true, ..facts.clone() };
    assert_eq!(fits(&packed, Vllm, "--max-model-len 256 --enforce-eager -q fp8", 8 * GIB), Some(false));
}

#[test]
fn files_beside_the_model_weigh_where_they_lie() {
    let beside = Beside { projector: GIB, adapters: GIB, draft: 2 * GIB };
    let facts = ModelFacts { beside, ..model() };
    let gpus = on(&[20 * GIB, 20 * GIB]);
    let room = Room { gpus: &gpus, host_ram_free: Some(100 * GIB), host_ram_total: None };
    let weights = |facts: &ModelFacts, more: &str| -> Vec<u64> {
        let line = format!("-c 256 -np 1 {more}");
        let estimate = read(EngineKind::Llamacpp, "", &line).unwrap().estimate(facts, room).unwrap();
        let on_gpus: u64 = estimate.per_gpu.iter().map(|it| it.weights).sum();
        let mut all: Vec<u64> = estimate.per_gpu.iter().map(|it| it.weights).collect();
        all.push(estimate.weights - on_gpus);
        all
    };
    let more = |more: &str| -> Vec<u64> {
        let (with, without) = (weights(&facts, more), weights(&model(), more));
        // To the MiB: adapters follow the layers, which are not dealt out quite evenly.
        with.iter().zip(without).map(|(a, b)| ((a - b) as f64 / (GIB / 4) as f64).round() as u64).collect()
    };
    // Quarters of a GiB: draft and adapters half and half, the projector on the first.
    assert_eq!(more(""), [10, 6, 0]);
    assert_eq!(more("--no-mmproj-offload -ngld 0"), [2, 2, 12]);
    assert_eq!(more("-ngl 0"), [8, 4, 4]);
    // The model would fit without the weights of these files.
    let (narrow, ram) = (on(&[10 * GIB]), Some(100 * GIB));
    let line = "-c 256 -np 1 --fit off --model-draft d --mmproj p --lora l";
    let command = read(EngineKind::Llamacpp, "", line).unwrap();
    let estimate =
        command.estimate(&facts, Room { gpus: &narrow, host_ram_free: ram, host_ram_total: None }).unwrap();
    assert_eq!((estimate.fits, estimate.max_context_that_fits), (Some(false), None));
    assert_eq!(
        remedy(&command, &facts, Room { gpus: &narrow, host_ram_free: ram, host_ram_total: None }, &estimate),
        None
    );
}

#[test]
fn experts_that_a_pattern_leaves_in_ram_are_not_on_the_gpu() {
    let all = |line: &str| {
        let Command::Llamacpp(read) = read(EngineKind::Llamacpp, "", line).unwrap() else { panic!() };
        read.settings.n_cpu_moe
    };
    for pattern in [
        "exps=CPU",
        r"\.ffn_.*_exps\.=CPU",
        ".ffn_.*_exps.=CPU",
        "ffn_.*_exps.weight=CPU",
        r"ffn_(up|gate|down)_exps\.weight=CPU",
        ".*exps.*=CPU",
    ] {
        assert_eq!(all(&format!("-ot {pattern}")), u64::MAX, "{pattern}");
    }
    for pattern in [
        "ffn_up_exps=CPU",
        "exps=CUDA1",
        r"blk\.[0-9]\.ffn_.*_exps=CPU",
        "ffn_(up|gate)_exps=CPU",
        "exps=CPU,attn=CPU",
    ] {
        assert_eq!(all(&format!("-ot {pattern}")), 0, "{pattern}");
    }
}

#[test]
fn vllm_takes_underscores_for_dashes() {
    let line = "serve my_model --max_model_len 4096 --gpu_memory_utilization=0.5 --served-model-name a_b";
    let Command::Vllm(read) = read(EngineKind::Vllm, "v0.32.0", line).unwrap() else { panic!() };
    assert_eq!(read.settings.max_model_len, Some(4096));
    assert!((read.settings.gpu_memory_utilization - 0.5).abs() < 1e-9);
}

#[test]
fn what_llama_server_ends_with_at_once_is_told() {
    let refused = |line: &str| -> Vec<&'static str> {
        let command = read(EngineKind::Llamacpp, "", line).unwrap();
        command.refusals(&facts_with_heads_of_16()).into_iter().map(|it| it.field).collect()
    };
    // Seen with b11434 and heads of 16 elements.
    assert_eq!(refused("-ctk q8_0 -fa off"), Vec::<&str>::new());
    assert_eq!(refused("-ctk q8_0 -fa on"), ["cache_type_k"]);
    assert_eq!(refused("-ctv q8_0"), ["cache_type_v"]);
    assert_eq!(refused("-ctv q4_0 -fa off"), ["cache_type_v"]);
    assert_eq!(refused("-ctk bf16 -ctv f32"), Vec::<&str>::new());
}

fn facts_with_heads_of_16() -> ModelFacts {
    let mut facts = model();
    for layer in &mut facts.layers {
        (layer.key_length, layer.value_length) = (16, 16);
    }
    facts
}

/// Estimates what vLLM without a GPU takes of `free` bytes of RAM, with `total` bytes in the machine.
fn in_ram(line: &str, env: &[(&str, &str)], free: u64) -> (Command, Result<Estimate, String>) {
    let env: Vec<(String, String)> = env.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
    let command = read(EngineKind::Vllm, "", line).unwrap().with_env(&env).unwrap();
    let estimate = command.estimate(&model(), ram(free)).map_err(|it| it.reason);
    (command, estimate)
}

fn ram(free: u64) -> Room<'static> {
    Room { gpus: &[], host_ram_free: Some(free), host_ram_total: Some(100 * GIB) }
}

#[test]
fn without_gpus_vllm_takes_the_cache_that_it_is_told_to_and_its_processes() {
    let variable = "VLLM_CPU_KVCACHE_SPACE";
    let bytes = format!("--max-model-len 256 --kv-cache-memory-bytes {}", 20 * GIB);
    let plain = "--max-model-len 256 --gpu-memory-utilization 0.5";
    // The model needs 8 GiB of weights, 2 GiB for processes, and 20 GiB of cache; the variable takes precedence.
    for (line, env, cache) in [
        (bytes.as_str(), &[][..], 20 * GIB),
        (&bytes, &[(variable, "")], 20 * GIB),
        (&bytes, &[(variable, "4")], 4 * GIB),
        (plain, &[(variable, "4")], 4 * GIB),
        (plain, &[(variable, "4"), (variable, "16")], 16 * GIB),
    ] {
        let (_, estimate) = in_ram(line, env, 100 * GIB);
        let estimate = estimate.unwrap();
        assert_eq!((estimate.kv_cache, estimate.fits), (cache, Some(true)), "{line} {env:?}");
        let rest = estimate.host_ram - cache;
        assert!(rest > 19 * GIB / 2 && rest < 21 * GIB / 2, "{rest}");
        assert_eq!(in_ram(line, env, cache + 9 * GIB).1.unwrap().fits, Some(false), "{line} {env:?}");
    }
    // The cache is a share of all RAM, less everything else. `None`: the number of memory nodes is not known.
    let half = in_ram(plain, &[], 60 * GIB).1.unwrap();
    assert_eq!((half.host_ram, half.fits), (50 * GIB, Some(true)));
    assert_eq!(in_ram(plain, &[], 40 * GIB).1.unwrap().fits, None);
    let unknown = Room { host_ram_total: None, ..ram(60 * GIB) };
    let command = in_ram(plain, &[], 0).0;
    assert!(command.estimate(&model(), unknown).unwrap_err().reason.contains("share of the machine's RAM"));
    // There are two workers, one for each memory node.
    let two = in_ram(&format!("{bytes} -tp 2"), &[], 100 * GIB).1.unwrap();
    assert_eq!(two.kv_cache, 40 * GIB);
    // The cache is too small for one request. The longest request that it holds needs 16 KiB for each token.
    let small = format!("--kv-cache-memory-bytes {}", GIB / 2);
    let small = in_ram(&small, &[], 100 * GIB).1.unwrap();
    assert_eq!((small.fits, small.max_context_that_fits), (Some(false), Some(32_768)));
    let odd = read(EngineKind::Vllm, "", plain).unwrap().with_env(&[(variable.to_owned(), "1.5".to_owned())]);
    assert!(odd.unwrap_err().reason.contains("1.5"));
}

#[test]
fn a_cache_that_ram_does_not_hold_gets_the_size_that_it_does() {
    let help = |line: &str, free: u64| {
        let (command, estimate) = in_ram(line, &[("VLLM_CPU_KVCACHE_SPACE", "64")], free);
        let Remedy(values) = remedy(&command, &model(), ram(free), &estimate.unwrap())?;
        assert_eq!(values.len(), 1);
        let line = format!("{line} --kv-cache-memory-bytes {}", values[0].1);
        assert_eq!(in_ram(&line, &[], free).1.unwrap().fits, Some(true), "{values:?}");
        Some((values[0].0, values[0].1.to_string()))
    };
    let set = |gib: u64| Some(("kv_cache_memory_bytes", (gib * GIB).to_string()));
    assert_eq!(help("--max-model-len 256", 30 * GIB), set(20));
    // There is not even room for the weights, or for one request.
    assert_eq!(help("--max-model-len 256", 9 * GIB), None);
    assert_eq!(help("--max-model-len 131072", 11 * GIB), None);
}
