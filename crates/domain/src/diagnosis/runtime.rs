//! Failures before the engine ran: its files, its image and the container runtime.
//!
//! The container runtime's texts are those of Docker 20.10 and 28; they use `Either` because some of them end up in the
//! container's own log. The gateway's texts come from `model::lifecycle::Failure` and from the runtime's errors.

use super::signature::{
    Advice, Both, Signature, Target,
    Try::{Nothing, Unset},
    When, both, change, set, tip,
};

/// Advice about the setting that the gateway's own message names.
const NAMED: Advice = Advice {
    text: both(
        "set `{flag}` to a file that is there: paths are relative to the models base directory",
        "setzen Sie `{flag}` auf eine vorhandene Datei: Pfade gelten relativ zum Modellordner",
    ),
    target: Target::Flag,
    value: Nothing,
};

const fn reason(
    id: &'static str,
    patterns: &'static [&'static str],
    title: Both,
    message: Both,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, None, When::Reason(patterns), title, message, fixes)
}

const fn either(
    id: &'static str,
    patterns: &'static [&'static str],
    title: Both,
    message: Both,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, None, When::Either(patterns), title, message, fixes)
}

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    reason(
        "model_file_not_found",
        &["`{flag}`: there is no `{path}` below the models base directory"],
        both("File not found", "Datei nicht gefunden"),
        both(
            "there is no `{path}` below the models base directory",
            "im Modellordner gibt es `{path}` nicht",
        ),
        &[
            NAMED,
            tip(both(
                "if the file is elsewhere, change the models base directory",
                "liegt die Datei anderswo, ändern Sie den Modellordner",
            )),
        ],
    ),
    reason(
        "model_file_unreachable",
        &["`{flag}`: `{path}` can't be reached: {why}"],
        both("File can't be reached", "Datei nicht erreichbar"),
        both("`{path}` may be there, but {why}", "`{path}` ist vielleicht vorhanden, aber: {why}"),
        &[
            tip(both(
                "let the gateway's user enter (`x`) every folder on the way to it, and the engine's user \
                 read it",
                "erlauben Sie dem Benutzer des Gateways, jeden Ordner auf dem Weg dorthin zu betreten \
                 (`x`), und dem Benutzer der Engine, die Datei zu lesen",
            )),
            tip(both(
                "look for links on the way that lead in a circle",
                "suchen Sie auf dem Weg dorthin nach Links, die im Kreis führen",
            )),
        ],
    ),
    reason(
        "models_dir_missing",
        &[
            "the models base directory does not exist",
            "bind source path does not exist: {path}",
            "error mounting {what}",
        ],
        both("The models directory can't be mounted", "Der Modellordner kann nicht eingehängt werden"),
        both(
            "the folder that holds the models is not there, or the container runtime may not mount it",
            "der Ordner mit den Modellen ist nicht vorhanden, oder die Container-Laufzeit darf ihn nicht \
             einhängen",
        ),
        &[
            tip(both(
                "check the models base directory, and that its disk is mounted on the host",
                "prüfen Sie den Modellordner, und ob sein Datenträger auf dem Host eingehängt ist",
            )),
            tip(both(
                "if the gateway itself runs in a container, the folder must have the same path on the host",
                "läuft das Gateway selbst in einem Container, muss der Ordner auf dem Host denselben Pfad \
                 haben",
            )),
        ],
    ),
    reason(
        "engine_not_installed",
        &["the program `{program}` is not on this machine"],
        both("The engine is not installed", "Die Engine ist nicht installiert"),
        both(
            "the program `{program}`, which runs this model's engine, is not on this machine",
            "das Programm `{program}`, das die Engine dieses Modells ausführt, gibt es auf dieser Maschine \
             nicht",
        ),
        &[
            tip(both(
                "install the engine so that its program is in the gateway's PATH, or name the program in \
                 PRIMARY_ENGINE_COMMAND (vLLM) or SECONDARY_ENGINE_COMMAND (llama.cpp)",
                "installieren Sie die Engine so, dass ihr Programm im PATH des Gateways liegt, oder nennen \
                 Sie das Programm in PRIMARY_ENGINE_COMMAND (vLLM) oder SECONDARY_ENGINE_COMMAND \
                 (llama.cpp)",
            )),
            tip(both(
                "start the model again; a changed setting needs a restart of the gateway first",
                "starten Sie das Modell erneut; eine geänderte Einstellung braucht zuerst einen Neustart des Gateways",
            )),
        ],
    ),
    reason(
        "image_not_allowed",
        &["image {image} is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it"],
        both("Engine image not allowed", "Engine-Image nicht erlaubt"),
        both(
            "the operator's list of images does not have `{image}` (any more)",
            "`{image}` steht nicht (mehr) auf der Liste der Images, die der Betreiber erlaubt",
        ),
        &[
            set(
                "engine_image",
                Unset,
                both(
                    "unset it to use the gateway's default",
                    "entfernen Sie die Einstellung, um die Vorgabe des Gateways zu verwenden",
                ),
            ),
            tip(both(
                "or add its repository to ENGINE_IMAGE_ALLOWLIST and restart the gateway",
                "oder nehmen Sie sein Repository in ENGINE_IMAGE_ALLOWLIST auf und starten Sie das Gateway \
                 neu",
            )),
        ],
    ),
    reason(
        "simulator_misnamed",
        &["image {image} is not used: {why}"],
        both("Simulator and engine mixed up", "Simulator und Engine verwechselt"),
        both("`{image}` is not used: {why}", "`{image}` wird nicht verwendet: {why}"),
        &[change(
            "engine_image",
            both(
                "use the name that the image was made under",
                "verwenden Sie den Namen, unter dem das Image erstellt wurde",
            ),
        )],
    ),
    reason(
        "image_not_available",
        &[
            "image {image} is not available locally and {why}",
            "image `{image}` is not on this machine",
            "No such image: {image}",
        ],
        both("Engine image not available", "Engine-Image nicht verfügbar"),
        both(
            "the image `{image}` is not on this machine and was not fetched",
            "das Image `{image}` ist nicht auf dieser Maschine und wurde nicht geladen",
        ),
        &[
            tip(both(
                "load it from a file or pull it while the machine is online",
                "laden Sie es aus einer Datei oder aus der Registry, während die Maschine online ist",
            )),
            change(
                "engine_image",
                both(
                    "or choose an image that is on this machine",
                    "oder wählen Sie ein Image, das auf dieser Maschine ist",
                ),
            ),
        ],
    ),
    reason(
        "image_not_found",
        &[
            "manifest unknown",
            "manifest for {image} not found",
            "pull access denied for {image}",
            "repository does not exist",
        ],
        both("Engine image unknown to the registry", "Engine-Image in der Registry unbekannt"),
        both(
            "the registry has no such image, or it is private",
            "die Registry hat kein solches Image, oder es ist privat",
        ),
        &[
            set(
                "engine_image",
                Unset,
                both(
                    "check the name and the tag, or unset it to use the gateway's default",
                    "prüfen Sie den Namen und das Tag, oder entfernen Sie die Einstellung, um die Vorgabe des \
                 Gateways zu verwenden",
                ),
            ),
            tip(both(
                "for a private registry, log the container runtime in on the host",
                "für eine private Registry melden Sie die Container-Laufzeit auf dem Host dort an",
            )),
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
        both("Image for another processor", "Image für einen anderen Prozessor"),
        both(
            "the engine's image was made for another processor architecture than the host's",
            "das Image der Engine wurde für eine andere Prozessorarchitektur erstellt als die des Hosts",
        ),
        &[change(
            "engine_image",
            both(
                "use an image for this machine's architecture",
                "verwenden Sie ein Image für die Architektur dieser Maschine",
            ),
        )],
    ),
    reason(
        "image_pull_failed",
        &["image {image} could not be pulled: {why}"],
        both("Engine image can't be pulled", "Engine-Image kann nicht geladen werden"),
        both("pulling `{image}` failed: {why}", "`{image}` konnte nicht geladen werden: {why}"),
        &[tip(both(
            "check the network, the proxy and the registry, then start the model again",
            "prüfen Sie das Netzwerk, den Proxy und die Registry, und starten Sie das Modell dann erneut",
        ))],
    ),
    reason(
        "docker_permission_denied",
        &[
            "permission denied: the gateway's user may not use `{socket}`",
            "permission denied while trying to connect to the",
        ],
        both("No access to the container runtime", "Kein Zugriff auf die Container-Laufzeit"),
        both(
            "the gateway's user may not use the container runtime's socket",
            "der Benutzer des Gateways darf den Socket der Container-Laufzeit nicht verwenden",
        ),
        &[tip(both(
            "add the user to the group `docker`, or point `DOCKER_HOST` at a rootless engine, and restart \
             the gateway",
            "nehmen Sie den Benutzer in die Gruppe `docker` auf, oder setzen Sie `DOCKER_HOST` auf eine \
             rootlose Laufzeit, und starten Sie das Gateway neu",
        ))],
    ),
    reason(
        "docker_unreachable",
        &["the container engine can't be reached: {why}", "Cannot connect to the Docker daemon"],
        both("Container runtime not reachable", "Container-Laufzeit nicht erreichbar"),
        both(
            "the container runtime does not answer[: {why}]",
            "die Container-Laufzeit antwortet nicht[: {why}]",
        ),
        &[tip(both(
            "check that it runs (`systemctl status docker`) and that `DOCKER_HOST` is right",
            "prüfen Sie, ob sie läuft (`systemctl status docker`) und ob `DOCKER_HOST` stimmt",
        ))],
    ),
    reason(
        "docker_timeout",
        &["the container engine did not finish `{action}` in time"],
        both("Container runtime too slow", "Container-Laufzeit zu langsam"),
        both(
            "the container runtime did not finish `{action}` in time; the host may be overloaded or its \
             disk slow",
            "die Container-Laufzeit wurde mit `{action}` nicht rechtzeitig fertig; vielleicht ist der Host \
             überlastet oder sein Datenträger langsam",
        ),
        &[tip(both(
            "look at the load of the host and at the container runtime's own log, then start the model again",
            "prüfen Sie die Last des Hosts und das Protokoll der Container-Laufzeit, und starten Sie das \
             Modell dann erneut",
        ))],
    ),
];
