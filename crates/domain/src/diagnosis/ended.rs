//! Containers that ended, or that the gateway ended: what it says of them, and their exit codes.

use super::{
    Severity, Watch,
    signature::{
        Advice, Both, Signature, Target,
        Try::{Bool, Made, Text, Unset},
        When, both, change, set, tip,
    },
    values,
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

const fn exit(
    id: &'static str,
    codes: &'static [i64],
    title: Both,
    message: Both,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, None, When::Exit(codes), title, message, fixes).symptom()
}

const START_AGAIN: Advice = tip(both("start the model again", "starten Sie das Modell erneut"));

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    reason(
        "key_mismatch",
        &["the engine refuses the gateway's internal key"],
        both("Internal key out of date", "Interner Schlüssel veraltet"),
        both(
            "the container was started with another internal key than the gateway has now, as after a \
             rotation or with another data directory",
            "der Container wurde mit einem anderen internen Schlüssel gestartet, als das Gateway jetzt \
             hat, etwa vor einem Wechsel des Schlüssels oder mit einem anderen Datenordner",
        ),
        &[
            tip(both(
                "stop and start the model (or apply its settings): the new container gets the current key",
                "stoppen und starten Sie das Modell (oder wenden Sie seine Einstellungen an): der neue \
                 Container bekommt den jetzigen Schlüssel",
            )),
            tip(both(
                "don't set an API key for the engine in `extra_args` or `extra_env`",
                "setzen Sie für die Engine keinen API-Schlüssel in `extra_args` oder `extra_env`",
            )),
        ],
    ),
    reason(
        "container_removed",
        &["container removed", "container_not_found"],
        both("Container removed", "Container entfernt"),
        both(
            "the container was removed from outside, by hand or by a clean-up job",
            "der Container wurde von außen entfernt, von Hand oder durch eine Aufräumaufgabe",
        ),
        &[tip(both(
            "start the model again, and keep clean-up jobs away from containers of this gateway",
            "starten Sie das Modell erneut, und halten Sie Aufräumaufgaben von den Containern dieses \
             Gateways fern",
        ))],
    )
    .symptom(),
    reason(
        "engine_not_answering",
        &["engine_unhealthy: {n#} probes in a row got no answer"],
        both("Engine stopped answering", "Die Engine antwortet nicht mehr"),
        both(
            "the engine's process runs but did not answer {n} probes in a row",
            "der Prozess der Engine läuft, hat aber auf {n} Proben nacheinander nicht geantwortet",
        ),
        &[tip(both(
            "look at the load of the host and its GPUs; start the model again",
            "prüfen Sie die Last des Hosts und seiner GPUs; starten Sie das Modell erneut",
        ))],
    )
    .symptom(),
    reason(
        "engine_answers_wrongly",
        &["engine_unhealthy: {n#} probes in a row got no good answer, the last: {what}"],
        both("Engine answers wrongly", "Die Engine antwortet falsch"),
        both(
            "the engine's process runs, but {n} probes in a row went wrong; the last: {what}",
            "der Prozess der Engine läuft, aber {n} Proben nacheinander sind misslungen; die letzte: {what}",
        ),
        &[tip(both(
            "the engine's log says what broke inside of it; start the model again",
            "das Protokoll der Engine sagt, was in ihr schiefging; starten Sie das Modell erneut",
        ))],
    )
    .symptom(),
    reason(
        "stop_failed",
        &["stop_failed: {why}"],
        both("Container can't be stopped", "Container kann nicht beendet werden"),
        both(
            "the container runtime did not end the container: {why}",
            "die Container-Laufzeit hat den Container nicht beendet: {why}",
        ),
        &[tip(both(
            "look at the container runtime; a process that waits for a disk or a GPU driver can't be killed",
            "prüfen Sie die Container-Laufzeit; ein Prozess, der auf einen Datenträger oder einen \
             GPU-Treiber wartet, lässt sich nicht beenden",
        ))],
    )
    .symptom(),
    reason(
        "startup_timeout",
        &["startup_timeout_after_{seconds#}s"],
        both("Loading took too long", "Das Laden dauerte zu lange"),
        both(
            "the engine was not ready within {seconds} s and shows no error: large models from slow disks, \
             downloads and CUDA graphs take long",
            "die Engine war nach {seconds} s nicht bereit und zeigt keinen Fehler: große Modelle von \
             langsamen Datenträgern, Downloads und CUDA-Graphen brauchen lange",
        ),
        &[
            set(
                "startup_timeout_sec",
                Made(values::double),
                both("allow more time", "erlauben Sie mehr Zeit"),
            ),
            tip(both(
                "if the log stands still, look at the disk's and the network's speed",
                "steht das Protokoll still, prüfen Sie die Geschwindigkeit des Datenträgers und des \
                 Netzwerks",
            )),
        ],
    )
    .symptom(),
    Signature::new(
        "host_out_of_memory",
        None,
        When::OutOfMemory,
        both("Out of memory (RAM)", "Zu wenig Arbeitsspeicher (RAM)"),
        both(
            "the kernel ended the engine because the host or the container ran out of RAM",
            "der Kernel hat die Engine beendet, weil dem Host oder dem Container der RAM ausging",
        ),
        &[
            set(
                "context_size",
                Made(values::half),
                both("use a shorter context", "verwenden Sie einen kürzeren Kontext"),
            ),
            set(
                "max_model_len",
                Made(values::half),
                both("use a shorter context", "verwenden Sie einen kürzeren Kontext"),
            ),
            set(
                "cpu_offload_gb",
                Unset,
                both("keep fewer weights in RAM", "behalten Sie weniger Gewichte im RAM"),
            ),
            Advice {
                text: both(
                    "map the file and don't lock it, so that its pages can be dropped",
                    "bilden Sie die Datei in den Speicher ab, ohne sie zu sperren, damit ihre Seiten \
                     freigegeben werden können",
                ),
                target: Target::Helping("load_mode", values::held_in_ram),
                value: Text("mmap"),
            },
            tip(both(
                "use a smaller or more strongly quantised model, or stop another one",
                "verwenden Sie ein kleineres oder stärker quantisiertes Modell, oder stoppen Sie ein anderes",
            )),
        ],
    ),
    Signature::new(
        "machine_restarted",
        None,
        When::Watch(Watch::Rebooted),
        both("The machine was restarted", "Die Maschine wurde neu gestartet"),
        both(
            "the engine ended with the machine, which was restarted since the model was started",
            "die Engine endete mit der Maschine, die seit dem Start des Modells neu gestartet wurde",
        ),
        &[
            START_AGAIN,
            set(
                "autostart",
                Bool(true),
                both(
                    "to have it started whenever that happens, turn `autostart` on",
                    "damit es in diesem Fall immer gestartet wird, schalten Sie `autostart` ein",
                ),
            ),
        ],
    ),
    Signature::new(
        "ended_unwatched",
        None,
        When::Watch(Watch::Unwatched),
        both("Ended while no gateway was running", "Beendet, während kein Gateway lief"),
        both(
            "the engine was ended from outside, by the machine or together with the gateway's processes, \
             while no gateway watched it",
            "die Engine wurde von außen beendet, durch die Maschine oder zusammen mit den Prozessen des \
             Gateways, während kein Gateway sie beobachtete",
        ),
        &[
            START_AGAIN,
            set(
                "autostart",
                Bool(true),
                both(
                    "to have it started whenever that happens, turn `autostart` on",
                    "damit es in diesem Fall immer gestartet wird, schalten Sie `autostart` ein",
                ),
            ),
        ],
    ),
    exit(
        "killed",
        &[137],
        both("Killed", "Von außen beendet"),
        both(
            "something outside killed the engine (exit code 137), such as `kill -9` or `docker kill`; \
             neither the engine nor what runs it reports that memory ran out",
            "etwas außerhalb hat die Engine beendet (Exit-Code 137), etwa `kill -9` oder `docker kill`; \
             weder die Engine noch das, was sie ausführt, meldet fehlenden Speicher",
        ),
        &[
            START_AGAIN,
            tip(both(
                "if `dmesg` on the host says that the kernel killed it for memory, use a shorter context",
                "sagt `dmesg` auf dem Host, dass der Kernel sie wegen Speichermangels beendet hat, \
                 verwenden Sie einen kürzeren Kontext",
            )),
        ],
    ),
    exit(
        "illegal_instruction",
        &[132],
        both("Processor too old for the image", "Prozessor zu alt für das Image"),
        both(
            "the engine used an instruction that this processor does not have (exit code 132)",
            "die Engine hat einen Befehl verwendet, den dieser Prozessor nicht kennt (Exit-Code 132)",
        ),
        &[change(
            "engine_image",
            both(
                "use an image that was built for this processor, for example without AVX-512 or AMX",
                "verwenden Sie ein Image, das für diesen Prozessor gebaut wurde, zum Beispiel ohne AVX-512 \
             oder AMX",
            ),
        )],
    ),
    exit(
        "segfault",
        &[139],
        both("Engine crashed", "Die Engine ist abgestürzt"),
        both(
            "the engine crashed (segmentation fault, exit code 139)",
            "die Engine ist abgestürzt (Speicherzugriffsfehler, Exit-Code 139)",
        ),
        &[
            change(
                "engine_image",
                both(
                    "try another version of the engine",
                    "versuchen Sie es mit einer anderen Version der Engine",
                ),
            ),
            tip(both(
                "update the GPU driver if GPUs are used",
                "aktualisieren Sie den GPU-Treiber, wenn GPUs verwendet werden",
            )),
        ],
    ),
    exit(
        "program_not_startable",
        &[126, 127],
        both("Not an engine's image", "Kein Image einer Engine"),
        both(
            "the image does not hold the program that starts the engine, or it can't be run",
            "im Image fehlt das Programm, das die Engine startet, oder es lässt sich nicht ausführen",
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
    exit(
        "terminated",
        &[143],
        both("Stopped from outside", "Von außen gestoppt"),
        both(
            "the engine was asked to stop (exit code 143) while it was loading, not by the gateway",
            "die Engine wurde während des Ladens aufgefordert zu enden (Exit-Code 143), aber nicht vom \
             Gateway",
        ),
        &[tip(both("start the model again", "starten Sie das Modell erneut"))],
    )
    .severity(Severity::Info),
];
