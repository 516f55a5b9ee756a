#!/usr/bin/env bash
# The web UI: its sources pass their checks and unit tests, and the build that is committed is what they make.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need_node || { skip ui "no Node.js 20.19 or later"; exit 0; }
exec ../../scripts/ui.sh --check
