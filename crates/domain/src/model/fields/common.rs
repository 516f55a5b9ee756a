//! Fields that both engines have.

use super::{Default, Emit::Special, Field, Kind};
use crate::model::lifecycle::again::DEFAULT_LIMIT;

pub(super) const FIELDS: &[Field] = &[
    Field::new("mode", "source", Kind::OneOf(&["online", "offline"]), Special,
        "`offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. \
         Unset: online when there is a `repo_id` and no `local_path`.",
        "`offline`: Die Engine verwendet nur lokale Dateien. `online`: Die Engine lädt die Gewichte vom Modell-Hub \
         und behält sie im Cache. Nicht gesetzt: online, wenn es eine `repo_id` und keinen `local_path` gibt.")
        .becomes("the model: `repo_id` or `local_path`"),
    Field::new("repo_id", "source", Kind::Repo, Special,
        "Model-hub repository (online mode).",
        "Repository des Modell-Hubs (Modus online).")
        .becomes("vLLM: first argument; llama.cpp: `-hf`").examples(&["Qwen/Qwen3-8B"]),
    Field::new("local_path", "source", Kind::Path, Special,
        "Folder or `.gguf` file, relative to the models base directory.",
        "Ordner oder `.gguf`-Datei, relativ zum Modellordner.")
        .becomes("vLLM: first argument; llama.cpp: `--model`"),
    Field::new("tokenizer", "source", Kind::RepoOrPath, Special,
        "Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it \
         for GGUF files.",
        "Tokenizer: ein Repository des Hubs, das die Engine lädt und im Cache behält, oder ein Ordner unter \
         `/models/`. vLLM braucht ihn für GGUF-Dateien.")
        .becomes("vLLM: `--tokenizer`")
        .examples(&["Qwen/Qwen3-8B", "/models/qwen3-8b"]),
    Field::new("hub_config_path", "source", Kind::Path, Special,
        "Folder with a `config.json`, for GGUF on vLLM.",
        "Ordner mit einer `config.json`, für GGUF mit vLLM.")
        .becomes("vLLM: `--hf-config-path`"),
    Field::new("engine_image", "engine", Kind::Text { max: 300 }, Special,
        "Container image that replaces the gateway's default for this engine.",
        "Container-Image, das die Vorgabe des Gateways für diese Engine ersetzt.")
        .becomes("none: the image")
        .examples(&["vllm/vllm-openai:v0.32.0"]).owner(),
    Field::new("startup_timeout_sec", "engine", Kind::Int { min: 5, max: 86_400 }, Special,
        "Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp.",
        "Längste Zeit im Zustand `loading`, bevor das Modell als fehlgeschlagen gilt. Nicht gesetzt: 600 für vLLM, \
         300 für llama.cpp.")
        .becomes("none: the gateway waits")
        .unit("s"),
    Field::new("restart_policy", "lifecycle", Kind::OneOf(&["never", "on_failure"]), Special,
        "`on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where \
         that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody \
         starts it.",
        "`on_failure`: Das Gateway startet ein fehlgeschlagenes Modell erneut, nach 1 s, dann nach 5 s, 30 s, 2 min \
         und 10 min, außer wo das nicht helfen kann (eine Datei, ein Image oder eine Engine fehlt). `never`: Es \
         bleibt `failed`, bis jemand es startet.")
        .becomes("none: the gateway follows it at once").default(Default::Text("never")),
    Field::new("restart_limit", "lifecycle", Kind::Int { min: 1, max: 60 }, Special,
        "With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. \
         Restarts before a run of 10 minutes do not count.",
        "Mit `restart_policy` `on_failure`: Anzahl der Neustarts innerhalb einer Stunde, nach der das Modell \
         `failed` bleibt. Neustarts vor einem Lauf von 10 Minuten zählen nicht.")
        .becomes("none: the gateway follows it at once").default(Default::Int(DEFAULT_LIMIT)),
    Field::new("autostart", "lifecycle", Kind::Bool, Special,
        "When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as \
         after a restart of the machine.",
        "Wenn das Gateway startet, startet es auch dieses Modell wieder, wenn es laufen soll und seine Engine \
         inzwischen geendet hat, wie nach einem Neustart der Maschine.")
        .becomes("none: the gateway follows it at once").default(Default::Bool(false)),
    Field::new("request_timeout_sec", "engine", Kind::Int { min: 1, max: 86_400 }, Special,
        "Longest wait for the first byte of an answer.",
        "Längste Wartezeit auf das erste Byte einer Antwort.")
        .becomes("none: the gateway waits").unit("s").default(Default::Int(600)),
    Field::new("stream_idle_timeout_sec", "engine", Kind::Int { min: 1, max: 86_400 }, Special,
        "Longest silence between two bytes of an answer.",
        "Längste Stille zwischen zwei Bytes einer Antwort.")
        .becomes("none: the gateway waits").unit("s").default(Default::Int(300)),
    Field::new("device", "hardware", Kind::OneOf(&["auto", "cuda", "cpu"]), Special,
        "Where the model runs. `auto`: on GPUs if the machine has any.",
        "Wo das Modell läuft. `auto`: auf GPUs, wenn die Maschine welche hat.")
        .becomes("none: GPUs of the container").default(Default::Text("auto")),
    Field::new("selected_gpus", "hardware", Kind::IntList { min: 0, max: 63 }, Special,
        "Indexes of the GPUs that the engine may use. Unset: all of them.",
        "Nummern der GPUs, die die Engine verwenden darf. Nicht gesetzt: alle.")
        .becomes("none: GPUs of the container"),
    Field::new("memory_limit_gib", "hardware", Kind::Int { min: 1, max: 65_536 }, Special,
        "RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: \
         no limit but the machine's. It has no effect where engines are processes.",
        "RAM, den der Container verwenden darf, einschließlich `/dev/shm` und Dateien im RAM; eine Engine, die mehr \
         braucht, wird beendet. Nicht gesetzt: keine Grenze außer der der Maschine. Ohne Wirkung, wo Engines Prozesse \
         sind.")
        .becomes("none: a limit of the container").unit("GiB"),
    Field::new("read_only_root", "hardware", Kind::Bool, Special,
        "The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for \
         llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes.",
        "Der Container kann seine eigenen Dateien nicht ändern; nur `/tmp` (im RAM) und der Hub-Cache sind \
         beschreibbar. Nicht gesetzt: an für llama.cpp, aus für vLLM, dessen Compiler auch anderswo schreiben. Ohne \
         Wirkung, wo Engines Prozesse sind.")
        .becomes("none: a property of the container"),
    Field::new("chat_template", "chat", Kind::Lines { max: 65_536 }, Special,
        "Jinja chat template, or (llama.cpp) the name of a built-in one.",
        "Jinja-Chat-Vorlage, oder (llama.cpp) der Name einer eingebauten.")
        .becomes("`--chat-template`; llama.cpp <b7400: `--jinja` before it")
        .examples(&["{% for m in messages %}{{ m.content }}{% endfor %}"]),
    Field::new("chat_template_file", "chat", Kind::Path, Special,
        "File with a Jinja chat template.",
        "Datei mit einer Jinja-Chat-Vorlage.")
        .becomes("vLLM: `--chat-template`; llama.cpp: `--chat-template-file`, <b7400 `--jinja` before it"),
    Field::new("lora_adapters", "adapters", Kind::NamedPaths { max: 32 }, Special,
        "LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, \
         like a model; llama.cpp applies all of them at once.",
        "LoRA-Adapter als `name=path`, mit Pfaden relativ zum Modellordner. Bei vLLM rufen Clients jeden unter \
         seinem eigenen Namen auf, wie ein Modell; llama.cpp wendet alle gleichzeitig an.")
        .becomes("vLLM: `--enable-lora --lora-modules`; llama.cpp: `--lora` for each"),
    Field::new("seed", "engine", Kind::Int { min: 0, max: 4_294_967_295 }, super::Emit::Flag("--seed"),
        "Seed of the sampler.",
        "Startwert des Zufalls beim Erzeugen."),
    Field::new("extra_args", "expert", Kind::TextList { max: 200 }, Special,
        "Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused.",
        "Argumente, die unverändert an den Befehl der Engine angehängt werden. Argumente, die das Gateway selbst \
         setzt, werden abgelehnt.")
        .becomes("as they are, last").owner(),
    Field::new("extra_env", "expert", Kind::TextMap, Special,
        "Environment variables that are added to the container. Variables that the gateway sets itself are refused.",
        "Umgebungsvariablen, die der Container zusätzlich bekommt. Variablen, die das Gateway selbst setzt, werden \
         abgelehnt.")
        .becomes("none: variables").owner(),
    Field::new("request_defaults", "chat", Kind::Object, Special,
        "Parameters that the gateway adds to requests without them.",
        "Parameter, die das Gateway zu Anfragen hinzufügt, in denen sie fehlen.")
        .becomes("none: the gateway adds them"),
];
