//! Generates `docs/egress.md`, which says which connections an installation can make, from the table of `gantry egress`.

use std::fmt::Write;

use gantry_cli::egress::{Facts, Outgoing};

use super::cell;

const INTRO: &str = "You want to know, or to show a reviewer, whether anything calls out. On the gateway's machine:\n\n\
```sh\n\
gantry egress          # for people\n\
gantry egress --json   # for programs: `connections`, each with `possible`, `reach`, `to` and `forbidden_by`\n\
```\n\n\
It lists every kind of connection below with where it goes by the present settings: `OUT` to other machines, `LOCAL` on this \
machine (loopback, a Unix socket or a file), `NO` if the settings don't allow it. If a gateway runs on the machine, its settings \
are used, else those of the shell, as for `gantry serve`. A host with a name counts as another machine, even if the name leads back \
here.\n\n\
## As few as possible\n\n\
```sh\n\
OFFLINE_MODE=true\n\
CONTAINER_RUNTIME=docker\n\
```\n\n\
With these settings, an empty `MEDIA_URL_HOSTS` and no entries in the registry, `gantry egress` says `1 to other machines`: names. \
The database is a SQLite file, and no answer from outside reaches the containers of engines \
([why](runtimes.md)); but Docker's resolver passes on the names that they ask for. A firewall, or a machine \
without name servers, closes that too. Engines that run as processes have the network of the machine: the gateway tells them to stay \
offline, and a firewall makes sure of it.\n\n\
## All connections\n\n\
The gateway has no telemetry, looks for no updates, and loads nothing for its pages from elsewhere. It uses no proxy; engines that \
are processes take over `HTTPS_PROXY` and the like from its environment, and Docker has its own.";

const END: &str = "\n## How the list stays complete\n\n\
`cargo xtask tidy` knows every file of the code that opens a connection or starts a program, and to which rows it belongs. A new \
place fails the check until it is in the list (`xtask/src/tidy/egress.rs`).\n";

pub(super) fn page() -> String {
    let mut out = super::head("Outbound connections", INTRO);
    out.push_str(
        "\n| Name | To | Opened by | When | What goes out | What forbids it |\n|---|---|---|---|---|---|\n",
    );
    for it in Outgoing::ALL {
        let Facts { opener, what, when, data, forbid } = it.facts();
        let [what, when, data, forbid] = [what, when, data, forbid].map(cell);
        let _ = writeln!(out, "| `{it}` | {what} | {opener} | {when} | {data} | {forbid} |");
    }
    out.push_str(END);
    out
}
