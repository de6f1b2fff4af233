"""Prints the tensors of a checkpoint as JSON, joined from all its shards by name.

    python read_checkpoint.py CHECKPOINT

It relies only on docs/formats.md: it reads the manifest's list of files, and each file with
Python's `safetensors`.
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


def load(checkpoint):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    pieces = {}
    for shard in manifest["shards"]:
        for name, piece in load_file(checkpoint / shard["file"]).items():
            pieces.setdefault(name, []).append(piece.ravel())
    shapes = {tensor["name"]: tensor["shape"] for tensor in manifest["tensors"]}
    slots = [f"optimizer.{slot}." for slot in manifest["optimizer_slots"]]
    names = [(prefix + name, shape) for prefix in ["", *slots] for name, shape in shapes.items()]
    return {name: np.concatenate(pieces[name]).reshape(shape) for name, shape in names}


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} CHECKPOINT")
    tensors = load(Path(sys.argv[1]))
    read = {name: {"shape": t.shape, "values": t.ravel().tolist()} for name, t in tensors.items()}
    json.dump(read, sys.stdout)


main()
