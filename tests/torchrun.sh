#!/bin/sh
# Trains one run with three processes of a real torchrun, in each mode, and compares `sync` and
# `mirrored` with a run on this machine alone. PyTorch is too large for the automatic tests, which
# set its variables instead (tests/placed.rs).
#
#     tests/torchrun.sh target/release/paceline path/to/torchrun
set -eu
paceline=$(realpath "$1")
torchrun=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
small="--quiet --set data.train_examples=600 --set data.test_examples=100"
small="$small --set train.stop.steps=60"
for mode in async sync bounded mirrored; do
    # shellcheck disable=SC2086
    "$torchrun" --nproc-per-node 3 --rdzv-backend c10d --rdzv-endpoint localhost:0 \
        --rdzv-id "$mode" --no-python "$paceline" train $small --set cluster.mode="$mode"
    placed="runs/digits-softmax-torchrun-$mode"
    grep -q '"workers": 3' "$placed/summary.json"
    case $mode in
    sync | mirrored)
        # shellcheck disable=SC2086
        "$paceline" train $small --run-dir "local-$mode" --set cluster.mode="$mode" \
            --set cluster.workers=3
        cmp "$placed/model.safetensors" "local-$mode/model.safetensors"
        ;;
    esac
done
echo "every mode trains one run of three workers"
