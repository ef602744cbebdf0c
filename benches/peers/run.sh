#!/usr/bin/env bash
# Installs the peers, makes the data, builds both programs, runs everything in turns: `run.sh [ARGUMENTS OF run.py]`. See README.md.
#
# PEERS_VENV and PEERS_DATA: folders that are kept; else temporary ones. PEERS_PHOTOS: a folder of JPEGs, best wider than 3840 pixels.
# CARGO_TARGET_DIR is respected.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
venv=${PEERS_VENV:-$scratch/venv}
data=${PEERS_DATA:-$scratch/data}
photos=${PEERS_PHOTOS:-$here/../../tests/data/photos}

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
install() {
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" || echo "does not install here, left out: $*" >&2
}
install webdataset==1.0.2 pillow numpy
# Versions that are measured in README.md. PyTorch comes with CUDA from PyPI, some GB; SPDL needs FFmpeg's libraries (4 to 9).
install torch==2.15.0 torchvision==0.29.2
install datago==2026.10.1
install spdl==0.8.0
install litdata==0.2.76
# Energon asks for an older botocore than litdata's boto3 does; both run with it.
install megatron-energon==7.4.1

"$venv/bin/python" "$here/make_data.py" "$data" "$photos"/*.jpg

build() { # folder, program, further arguments
    local target=${CARGO_TARGET_DIR:-$here/$1/target}
    (cd "$here/$1" && CARGO_TARGET_DIR=$target cargo build --release --locked "${@:3}")
    cp "$target/release/$2" "$scratch/$2"
}
build ours ours --features turbojpeg
mv "$scratch/ours" "$scratch/turbojpeg"
build ours ours
build rust webdataset-crate

"$venv/bin/python" "$here/run.py" "$data" "$scratch/ours" "$scratch/turbojpeg" --rust "$scratch/webdataset-crate" "$@"
