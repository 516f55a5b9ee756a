//! Failures of the host, as the container runtime or the engine's container reports them: GPUs and their driver, ports,
//! networks, limits and disks. The texts are those of Docker 20.10 and 28.

use super::signature::{
    Advice, Both, Signature,
    Try::{Bool, Text, Unset},
    When, both, change, set, tip,
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
    either(
        "gpu_driver_too_old",
        &[
            "unsatisfied condition: cuda>={cuda#}",
            "unsatisfied condition: cuda >= {cuda#}",
            "unsatisfied condition: {cuda}, please",
        ],
        both("GPU driver too old for the image", "GPU-Treiber zu alt für das Image"),
        both(
            "the engine's image needs a driver for CUDA {cuda}, and the host's is older",
            "das Image der Engine braucht einen Treiber für CUDA {cuda}, und der des Hosts ist älter",
        ),
        &[
            tip(both("update the GPU driver of the host", "aktualisieren Sie den GPU-Treiber des Hosts")),
            change(
                "engine_image",
                both(
                    "or use an image that was made for an older CUDA",
                    "oder verwenden Sie ein Image, das für ein älteres CUDA erstellt wurde",
                ),
            ),
        ],
    ),
    either(
        "gpu_driver_not_loaded",
        &[
            "nvidia-container-cli: initialization error",
            "driver not loaded",
            "Driver/library version mismatch",
        ],
        both("GPU driver not working", "GPU-Treiber funktioniert nicht"),
        both(
            "the host's GPU driver is not loaded, or was updated without a reboot",
            "der GPU-Treiber des Hosts ist nicht geladen, oder er wurde ohne Neustart der Maschine \
             aktualisiert",
        ),
        &[
            tip(both(
                "`nvidia-smi` on the host must work: load the driver or reboot",
                "`nvidia-smi` muss auf dem Host funktionieren: laden Sie den Treiber, oder starten Sie die \
             Maschine neu",
            )),
            set("device", Text("cpu"), both("or run without GPU", "oder verzichten Sie auf GPUs")),
        ],
    ),
    either(
        "gpu_unknown",
        &["nvidia-container-cli: device error: {gpu}: unknown device"],
        both("No such GPU", "Diese GPU gibt es nicht"),
        both("the machine has no GPU `{gpu}`", "die Maschine hat keine GPU `{gpu}`"),
        &[set(
            "selected_gpus",
            Unset,
            both(
                "choose GPUs that are there, or unset it to use all",
                "wählen Sie vorhandene GPUs, oder entfernen Sie die Einstellung, um alle zu verwenden",
            ),
        )],
    ),
    either(
        "gpu_toolkit_missing",
        &[
            "could not select device driver",
            "the container engine can't provide GPUs",
            "unknown or invalid runtime name: nvidia",
            "exec: \"nvidia-container-runtime",
        ],
        both("Containers can't use the GPUs", "Container können die GPUs nicht verwenden"),
        both(
            "the container runtime can't hand GPUs to containers: nvidia-container-toolkit is not \
             installed or not configured",
            "die Container-Laufzeit kann Containern keine GPUs geben: nvidia-container-toolkit ist nicht \
             installiert oder nicht eingerichtet",
        ),
        &[
            tip(both(
                "install nvidia-container-toolkit, run `nvidia-ctk runtime configure` and restart the \
                 container runtime",
                "installieren Sie nvidia-container-toolkit, führen Sie `nvidia-ctk runtime configure` aus, \
                 und starten Sie die Container-Laufzeit neu",
            )),
            set("device", Text("cpu"), both("or run without GPU", "oder verzichten Sie auf GPUs")),
        ],
    ),
    reason(
        "port_allocated",
        &["port is already allocated", "failed to set up port", "address already in use"],
        both("Port in use", "Port belegt"),
        both(
            "the host port that the container runtime chose is taken by another program",
            "den Port des Hosts, den die Container-Laufzeit gewählt hat, belegt ein anderes Programm",
        ),
        &[tip(both(
            "start the model again: another port is chosen",
            "starten Sie das Modell erneut: dann wird ein anderer Port gewählt",
        ))],
    ),
    reason(
        "docker_no_address_range",
        &[
            "could not find an available, non-overlapping IPv4 address pool",
            "all predefined address pools have been fully subnetted",
        ],
        both("No addresses for a network", "Keine Adressen für ein Netzwerk"),
        both(
            "the container runtime has no range of addresses left for the network of the engines: its \
             other networks, or the routes of a VPN, take them all",
            "die Container-Laufzeit hat keinen Adressbereich für das Netzwerk der Engines übrig: ihre \
             anderen Netzwerke oder die Routen eines VPN belegen alle",
        ),
        &[
            tip(both(
                "remove networks that nothing uses: `docker network prune`",
                "entfernen Sie Netzwerke, die niemand verwendet: `docker network prune`",
            )),
            tip(both(
                "or name a free range in ENGINE_NETWORKS and restart the gateway, then start the model again",
                "oder nennen Sie einen freien Bereich in ENGINE_NETWORKS, starten Sie das Gateway neu und \
                 danach das Modell erneut",
            )),
        ],
    ),
    reason(
        "container_name_in_use",
        &[
            "container name `{name}` is in use by another program",
            "The container name \"{name}\" is already in use",
        ],
        both("Container name taken", "Name des Containers vergeben"),
        both(
            "a container `{name}` exists that this gateway did not make",
            "es gibt einen Container `{name}`, den dieses Gateway nicht erstellt hat",
        ),
        &[tip(both(
            "remove or rename it (`docker rm -f {name}`), then start the model again",
            "entfernen Sie ihn, oder benennen Sie ihn um (`docker rm -f {name}`), und starten Sie das \
             Modell dann erneut",
        ))],
    ),
    reason(
        "memlock_limit",
        &["error setting rlimit", "setting rlimits"],
        both("Memory can't be locked", "Speicher kann nicht gesperrt werden"),
        both(
            "the container runtime may not raise the limit on locked memory, as rootless ones can't",
            "die Container-Laufzeit darf die Grenze für gesperrten Speicher nicht erhöhen; rootlose \
             Laufzeiten können das nicht",
        ),
        &[
            set(
                "mlock",
                Bool(false),
                both("don't lock the weights in RAM", "sperren Sie die Gewichte nicht im RAM"),
            ),
            tip(both(
                "or raise the limit for the container runtime (`LimitMEMLOCK=infinity`)",
                "oder erhöhen Sie die Grenze für die Container-Laufzeit (`LimitMEMLOCK=infinity`)",
            )),
        ],
    ),
    either(
        "entrypoint_missing",
        &[
            "executable file not found",
            "OCI runtime create failed: {what}: no such file or directory",
            "[FATAL tini ({pid#})] exec {program} failed: {why}",
        ],
        both("Not an engine's image", "Kein Image einer Engine"),
        both(
            "the image does not hold the program that starts the engine, or holds one that this machine \
             can't run",
            "im Image fehlt das Programm, das die Engine startet, oder diese Maschine kann es nicht \
             ausführen",
        ),
        &[set(
            "engine_image",
            Unset,
            both(
                "use an image of this engine, or unset it to use the gateway's default",
                "verwenden Sie ein Image dieser Engine, oder entfernen Sie die Einstellung, um die Vorgabe des \
             Gateways zu verwenden",
            ),
        )],
    ),
    reason(
        "host_disk_full",
        &["no space left on device"],
        both("Disk full", "Datenträger voll"),
        both(
            "the disk of the container runtime or of the hub cache is full",
            "der Datenträger der Container-Laufzeit oder des Hub-Caches ist voll",
        ),
        &[tip(both(
            "free some space: unused images (`docker image prune`) and models are the largest",
            "schaffen Sie Platz: am meisten belegen unbenutzte Images (`docker image prune`) und Modelle",
        ))],
    )
    // In a log these texts may be about shared memory, whose signature is tried first.
    .or(&["No space left on device", "no space left on device", "Not enough free disk space"]),
];
