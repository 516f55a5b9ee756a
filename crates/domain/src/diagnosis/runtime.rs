//! Failures before the engine ran, or from outside it: image, container runtime, host, and how the container ended.
//!
//! The container runtime's texts are those of Docker 20.10 and 28; they use `Either` because some of them end up in the
//! container's own log. The gateway's texts come from `model::lifecycle::Failure` and from the runtime's errors.

use super::{
    Severity, Watch,
    signature::{
        Advice, Signature, Target,
        Try::{Bool, Made, Nothing, Text, Unset},
        When, change, set, tip,
    },
    values,
};

/// Advice about the setting that the gateway's own message names.
const NAMED: Advice = Advice {
    text: "set `{flag}` to a file that is there: paths are relative to the models base directory",
    target: Target::Flag,
    value: Nothing,
};

const fn reason(
    id: &'static str,
    patterns: &'static [&'static str],
    title: &'static str,
    message: &'static str,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, None, When::Reason(patterns), title, message, fixes)
}

const fn either(
    id: &'static str,
    patterns: &'static [&'static str],
    title: &'static str,
    message: &'static str,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, None, When::Either(patterns), title, message, fixes)
}

const fn exit(
    id: &'static str,
    codes: &'static [i64],
    title: &'static str,
    message: &'static str,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, None, When::Exit(codes), title, message, fixes).symptom()
}

const START_AGAIN: Advice = tip("start the model again");

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    reason(
        "model_file_not_found",
        &["`{flag}`: there is no `{path}` below the models base directory"],
        "File not found",
        "there is no `{path}` below the models base directory",
        &[NAMED, tip("if the file is elsewhere, change the models base directory")],
    ),
    reason(
        "model_file_unreachable",
        &["`{flag}`: `{path}` can't be reached: {why}"],
        "File can't be reached",
        "`{path}` may be there, but {why}",
        &[
            tip("let the gateway's user enter (`x`) every folder on the way to it, and the engine's user read it"),
            tip("look for links on the way that lead in a circle"),
        ],
    ),
    reason(
        "models_dir_missing",
        &["the models base directory does not exist", "bind source path does not exist: {path}", "error mounting {what}"],
        "The models directory can't be mounted",
        "the folder that holds the models is not there, or the container runtime may not mount it",
        &[
            tip("check the models base directory, and that its disk is mounted on the host"),
            tip("if the gateway itself runs in a container, the folder must have the same path on the host"),
        ],
    ),
    reason(
        "engine_not_installed",
        &["the program `{program}` is not on this machine"],
        "The engine is not installed",
        "the program `{program}`, which runs this model's engine, is not on this machine",
        &[
            tip("install the engine so that its program is in the gateway's PATH, or name the program in PRIMARY_ENGINE_COMMAND (vLLM) or SECONDARY_ENGINE_COMMAND (llama.cpp)"),
            tip("restart the gateway, then start the model again"),
        ],
    ),
    reason(
        "image_not_allowed",
        &["image {image} is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it"],
        "Engine image not allowed",
        "the operator's list of images does not have `{image}` (any more)",
        &[
            set("engine_image", Unset, "unset it to use the gateway's default"),
            tip("or add its repository to ENGINE_IMAGE_ALLOWLIST and restart the gateway"),
        ],
    ),
    reason(
        "simulator_misnamed",
        &["image {image} is not used: {why}"],
        "Simulator and engine mixed up",
        "`{image}` is not used: {why}",
        &[change("engine_image", "use the name that the image was made under")],
    ),
    reason(
        "image_not_available",
        &[
            "image {image} is not available locally and {why}",
            "image `{image}` is not on this machine",
            "No such image: {image}",
        ],
        "Engine image not available",
        "the image `{image}` is not on this machine and was not fetched",
        &[
            tip("load it from a file or pull it while the machine is online"),
            change("engine_image", "or choose an image that is on this machine"),
        ],
    ),
    reason(
        "image_not_found",
        &["manifest unknown", "manifest for {image} not found", "pull access denied for {image}", "repository does not exist"],
        "Engine image unknown to the registry",
        "the registry has no such image, or it is private",
        &[
            set("engine_image", Unset, "check the name and the tag, or unset it to use the gateway's default"),
            tip("for a private registry, log the container runtime in on the host"),
        ],
    ),
    // The kernel itself does not report this. An init that gets "exec format error" hands the program to a shell.
    either(
        "image_wrong_platform",
        &[
            "exec format error",
            "Exec format error",
            "cannot execute binary file",
            "no matching manifest for {platform}",
            "{program}: 1: ELF",
            "{program}: 1: Syntax error: ",
        ],
        "Image for another processor",
        "the engine's image was made for another processor architecture than the host's",
        &[change("engine_image", "use an image for this machine's architecture")],
    ),
    reason(
        "image_pull_failed",
        &["image {image} could not be pulled: {why}"],
        "Engine image can't be pulled",
        "pulling `{image}` failed: {why}",
        &[tip("check the network, the proxy and the registry, then start the model again")],
    ),
    reason(
        "docker_permission_denied",
        &["permission denied: the gateway's user may not use `{socket}`", "permission denied while trying to connect to the"],
        "No access to the container runtime",
        "the gateway's user may not use the container runtime's socket",
        &[tip("add the user to the group `docker`, or point `DOCKER_HOST` at a rootless engine, and restart the gateway")],
    ),
    reason(
        "docker_unreachable",
        &["the container engine can't be reached: {why}", "Cannot connect to the Docker daemon"],
        "Container runtime not reachable",
        "the container runtime does not answer[: {why}]",
        &[tip("check that it runs (`systemctl status docker`) and that `DOCKER_HOST` is right")],
    ),
    reason(
        "docker_timeout",
        &["the container engine did not finish `{action}` in time"],
        "Container runtime too slow",
        "the container runtime did not finish `{action}` in time; the host may be overloaded or its disk slow",
        &[tip("look at the load of the host and at the container runtime's own log, then start the model again")],
    ),
    either(
        "gpu_driver_too_old",
        &["unsatisfied condition: cuda>={cuda#}", "unsatisfied condition: cuda >= {cuda#}", "unsatisfied condition: {cuda}, please"],
        "GPU driver too old for the image",
        "the engine's image needs a driver for CUDA {cuda}, and the host's is older",
        &[
            tip("update the GPU driver of the host"),
            change("engine_image", "or use an image that was made for an older CUDA"),
        ],
    ),
    either(
        "gpu_driver_not_loaded",
        &["nvidia-container-cli: initialization error", "driver not loaded", "Driver/library version mismatch"],
        "GPU driver not working",
        "the host's GPU driver is not loaded, or was updated without a reboot",
        &[tip("`nvidia-smi` on the host must work: load the driver or reboot"), set("device", Text("cpu"), "or run without GPU")],
    ),
    either(
        "gpu_unknown",
        &["nvidia-container-cli: device error: {gpu}: unknown device"],
        "No such GPU",
        "the machine has no GPU `{gpu}`",
        &[set("selected_gpus", Unset, "choose GPUs that are there, or unset it to use all")],
    ),
    either(
        "gpu_toolkit_missing",
        &[
            "could not select device driver",
            "the container engine can't provide GPUs",
            "unknown or invalid runtime name: nvidia",
            "exec: \"nvidia-container-runtime",
        ],
        "Containers can't use the GPUs",
        "the container runtime can't hand GPUs to containers: nvidia-container-toolkit is not installed or not configured",
        &[
            tip("install nvidia-container-toolkit, run `nvidia-ctk runtime configure` and restart the container runtime"),
            set("device", Text("cpu"), "or run without GPU"),
        ],
    ),
    reason(
        "port_allocated",
        &["port is already allocated", "failed to set up port", "address already in use"],
        "Port in use",
        "the host port that the container runtime chose is taken by another program",
        &[tip("start the model again: another port is chosen")],
    ),
    reason(
        "docker_no_address_range",
        &[
            "could not find an available, non-overlapping IPv4 address pool",
            "all predefined address pools have been fully subnetted",
        ],
        "No addresses for a network",
        "the container runtime has no range of addresses left for the network of the engines: its other networks, or the \
         routes of a VPN, take them all",
        &[
            tip("remove networks that nothing uses: `docker network prune`"),
            tip("or name a free range in ENGINE_NETWORKS and restart the gateway, then start the model again"),
        ],
    ),
    reason(
        "container_name_in_use",
        &["container name `{name}` is in use by another program", "The container name \"{name}\" is already in use"],
        "Container name taken",
        "a container `{name}` exists that this gateway did not make",
        &[tip("remove or rename it (`docker rm -f {name}`), then start the model again")],
    ),
    reason(
        "memlock_limit",
        &["error setting rlimit", "setting rlimits"],
        "Memory can't be locked",
        "the container runtime may not raise the limit on locked memory, as rootless ones can't",
        &[
            set("mlock", Bool(false), "don't lock the weights in RAM"),
            tip("or raise the limit for the container runtime (`LimitMEMLOCK=infinity`)"),
        ],
    ),
    either(
        "entrypoint_missing",
        &[
            "executable file not found",
            "OCI runtime create failed: {what}: no such file or directory",
            "[FATAL tini ({pid#})] exec {program} failed: {why}",
        ],
        "Not an engine's image",
        "the image does not hold the program that starts the engine, or holds one that this machine can't run",
        &[set("engine_image", Unset, "use an image of this engine, or unset it to use the gateway's default")],
    ),
    reason(
        "host_disk_full",
        &["no space left on device"],
        "Disk full",
        "the disk of the container runtime or of the hub cache is full",
        &[tip("free some space: unused images (`docker image prune`) and models are the largest")],
    )
    // In a log these texts may be about shared memory, whose signature is tried first.
    .or(&["No space left on device", "no space left on device", "Not enough free disk space"]),
    reason(
        "key_mismatch",
        &["the engine refuses the gateway's internal key"],
        "Internal key out of date",
        "the container was started with another internal key than the gateway has now, as after a rotation or with \
         another data directory",
        &[
            tip("stop and start the model (or apply its settings): the new container gets the current key"),
            tip("don't set an API key for the engine in `extra_args` or `extra_env`"),
        ],
    ),
    reason(
        "container_removed",
        &["container removed", "container_not_found"],
        "Container removed",
        "the container was removed from outside, by hand or by a clean-up job",
        &[tip("start the model again, and keep clean-up jobs away from containers of this gateway")],
    )
    .symptom(),
    reason(
        "engine_not_answering",
        &["engine_unhealthy: {n#} probes in a row got no answer"],
        "Engine stopped answering",
        "the engine's process runs but did not answer {n} probes in a row",
        &[tip("look at the load of the host and its GPUs; start the model again")],
    )
    .symptom(),
    reason(
        "engine_answers_wrongly",
        &["engine_unhealthy: {n#} probes in a row got no good answer, the last: {what}"],
        "Engine answers wrongly",
        "the engine's process runs, but {n} probes in a row went wrong; the last: {what}",
        &[tip("the engine's log says what broke inside of it; start the model again")],
    )
    .symptom(),
    reason(
        "stop_failed",
        &["stop_failed: {why}"],
        "Container can't be stopped",
        "the container runtime did not end the container: {why}",
        &[tip("look at the container runtime; a process that waits for a disk or a GPU driver can't be killed")],
    )
    .symptom(),
    reason(
        "startup_timeout",
        &["startup_timeout_after_{seconds#}s"],
        "Loading took too long",
        "the engine was not ready within {seconds} s and shows no error: large models from slow disks, downloads and \
         CUDA graphs take long",
        &[
            set("startup_timeout_sec", Made(values::double), "allow more time"),
            tip("if the log stands still, look at the disk's and the network's speed"),
        ],
    )
    .symptom(),
    Signature::new(
        "host_out_of_memory",
        None,
        When::OutOfMemory,
        "Out of memory (RAM)",
        "the kernel ended the engine because the host or the container ran out of RAM",
        &[
            set("context_size", Made(values::half), "use a shorter context"),
            set("max_model_len", Made(values::half), "use a shorter context"),
            set("cpu_offload_gb", Unset, "keep fewer weights in RAM"),
            Advice {
                text: "map the file and don't lock it, so that its pages can be dropped",
                target: Target::Helping("load_mode", values::held_in_ram),
                value: Text("mmap"),
            },
            tip("use a smaller or more strongly quantised model, or stop another one"),
        ],
    ),
    Signature::new(
        "machine_restarted",
        None,
        When::Watch(Watch::Rebooted),
        "The machine was restarted",
        "the engine ended with the machine, which was restarted since the model was started",
        &[START_AGAIN, set("autostart", Bool(true), "to have it started whenever that happens, turn `autostart` on")],
    ),
    Signature::new(
        "ended_unwatched",
        None,
        When::Watch(Watch::Unwatched),
        "Ended while no gateway was running",
        "the engine was ended from outside, by the machine or together with the gateway's processes, while no gateway \
         watched it",
        &[START_AGAIN, set("autostart", Bool(true), "to have it started whenever that happens, turn `autostart` on")],
    ),
    exit(
        "killed",
        &[137],
        "Killed",
        "something outside killed the engine (exit code 137), such as `kill -9` or `docker kill`; neither the engine nor \
         what runs it reports that memory ran out",
        &[
            START_AGAIN,
            tip("if `dmesg` on the host says that the kernel killed it for memory, use a shorter context"),
        ],
    ),
    exit(
        "illegal_instruction",
        &[132],
        "Processor too old for the image",
        "the engine used an instruction that this processor does not have (exit code 132)",
        &[change("engine_image", "use an image that was built for this processor, for example without AVX-512 or AMX")],
    ),
    exit(
        "segfault",
        &[139],
        "Engine crashed",
        "the engine crashed (segmentation fault, exit code 139)",
        &[change("engine_image", "try another version of the engine"), tip("update the GPU driver if GPUs are used")],
    ),
    exit(
        "program_not_startable",
        &[126, 127],
        "Not an engine's image",
        "the image does not hold the program that starts the engine, or it can't be run",
        &[set("engine_image", Unset, "use an image of this engine, or unset it to use the gateway's default")],
    ),
    exit(
        "terminated",
        &[143],
        "Stopped from outside",
        "the engine was asked to stop (exit code 143) while it was loading, not by the gateway",
        &[tip("start the model again")],
    )
    .severity(Severity::Info),
];
