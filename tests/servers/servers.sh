#!/bin/sh
# Runs the store tests against real servers of their protocols, on the loopback address.
#     tests/servers/servers.sh            S3 in the tests' own process
#     SHARDSTREAM_SERVERS=1 .../servers.sh    also moto and azurite, which are installed below target/ if they are missing
set -eu
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}
cp ../../Cargo.lock Cargo.lock
features=""
pids=""
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done' EXIT

wait_for() {
    for _ in $(seq 100); do curl -s -o /dev/null "$1" && return; sleep 0.1; done
    echo "no answer from $1" >&2; exit 1
}

if [ -n "${SHARDSTREAM_SERVERS:-}" ]; then
    tools=$target/servers
    mkdir -p "$tools"
    command -v moto_server >/dev/null || { python3 -m venv "$tools/venv"; "$tools/venv/bin/pip" install -q 'moto[server,s3]'; PATH=$tools/venv/bin:$PATH; }
    moto_server -H 127.0.0.1 -p 5055 >"$tools/moto.log" 2>&1 & pids="$pids $!"
    export SHARDSTREAM_MOTO=http://127.0.0.1:5055
    wait_for $SHARDSTREAM_MOTO/
    curl -s -o /dev/null -X PUT $SHARDSTREAM_MOTO/bucket

    [ -x "$tools/node_modules/.bin/azurite-blob" ] || npm install --silent --prefix "$tools" azurite
    "$tools/node_modules/.bin/azurite-blob" --silent --skipApiVersionCheck --inMemoryPersistence --blobHost 127.0.0.1 --blobPort 5056 \
        >"$tools/azurite.log" 2>&1 & pids="$pids $!"
    export SHARDSTREAM_AZURITE=http://127.0.0.1:5056/devstoreaccount1
    wait_for http://127.0.0.1:5056/
    python3 make_container.py 5056 bucket
    features="--features azure"
fi
# Not -q: the tests that are left out say so.
cargo test $features -- --nocapture "$@"
