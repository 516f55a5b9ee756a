#!/usr/bin/env bash
# The snippets of docs/clients.md, with the real libraries. They want other versions than the tests beside this folder, so
# they have a Python environment of their own.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need_node || { skip snippets "no Node.js 20.19 or later"; exit 0; }
need curl curl || { skip snippets "no curl"; exit 0; }
python_env venv-snippets "$PWD/snippets.txt" || { skip snippets "the client libraries can't be fetched"; exit 0; }
venv=$CACHE/venv-snippets
tries npm ci --silent --prefer-offline
PATH=$venv/bin:$PATH exec "$venv/bin/python" snippets.py
