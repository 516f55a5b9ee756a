#!/usr/bin/env bash
# The snippets of docs/clients.md, with the real libraries. They want other versions than the tests beside this folder, so
# they have a Python environment of their own.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh

need python3 python3 || { skip snippets "no Python"; exit 0; }
need node nodejs || { skip snippets "no Node.js"; exit 0; }
need npm npm || { skip snippets "no npm"; exit 0; }
need curl curl || { skip snippets "no curl"; exit 0; }
python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv

venv=$CACHE/venv-snippets
if [ ! -x "$venv/bin/python" ] || ! cmp -s snippets.txt "$venv/installed"; then
    python3 -m venv "$venv"
    # uv unpacks 140 packages in seconds; pip takes minutes.
    "$venv/bin/pip" install -q uv==0.13.9
    "$venv/bin/uv" pip install -q --python "$venv/bin/python" -r snippets.txt
    cp snippets.txt "$venv/installed"
fi
npm ci --silent
PATH=$venv/bin:$PATH exec "$venv/bin/python" snippets.py
