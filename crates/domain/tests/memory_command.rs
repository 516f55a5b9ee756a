//! What a command line says about memory, where the gateway's own commands don't show it: other versions and extra
//! arguments.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

use gantry_domain::{
    engine::EngineVersion,
    memory::{
        CacheType, Command, GpuMemory, Hyper, LlamacppCommand, ModelFacts, PerLayer, Remedy, Room, Slots,
        Tensor, VllmKvType, remedy,
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
            // A flag at the end without its value: the engine will refuse it.
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

/// 8 layers of 1 GiB with 4 heads of 128, trained for 131,072 tokens: 256 MiB of cache per layer then.
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

/// What helps, which is tried once more here.
fn helped(engine: EngineKind, line: &str, free: &[u64], room_in_ram: u64) -> Option<String> {
    let (facts, gpus) = (model(), on(free));
    let room = Room { gpus: &gpus, host_ram_free: Some(room_in_ram) };
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
    let shorter = helped(Llamacpp, "-c 131072 -np 1", &[9 * GIB], ram).unwrap();
    assert!(shorter.starts_with("--ctx-size "), "{shorter}");
    // The output and four layers, beside the driver's share.
    assert_eq!(helped(Llamacpp, "-c 256 -np 1", &[5 * GIB], ram).unwrap(), "--ngl 5");
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
fn a_wider_split_shares_out_the_heads_of_keys_and_values_too() {
    let mut facts = model();
    for layer in &mut facts.layers {
        (layer.n_head, layer.n_head_kv) = (12, 4);
    }
    let wider = |gpus: usize| {
        let gpus: Vec<_> = std::iter::repeat_n(GpuMemory { total: 80 * GIB, free: 4 * GIB }, gpus).collect();
        let room = Room { gpus: &gpus, host_ram_free: Some(100 * GIB) };
        let line = "--gpu-memory-utilization 0.05 --max-model-len 64 --enforce-eager";
        let command = read(EngineKind::Vllm, "", line).unwrap();
        let estimate = command.estimate(&facts, room).unwrap();
        assert_eq!(estimate.fits, Some(false));
        remedy(&command, &facts, room, &estimate).map(|it| it.0[0].1.to_string())
    };
    // Three would do for memory and divide 12 heads, but not 4.
    assert_eq!(wider(3), None);
    assert_eq!(wider(4).as_deref(), Some("4"));
}

#[test]
fn what_is_not_split_goes_to_the_main_gpu() {
    let (facts, gpus) = (model(), on(&[GIB, 20 * GIB, 30 * GIB]));
    let room = Room { gpus: &gpus, host_ram_free: Some(100 * GIB) };
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
