"""Prints what Python's `safetensors` reads from a model file, as JSON.

    python read_model.py MODEL

Keys are the tensors' names; each has `dtype`, `shape` and `values`, flat in row order.
"""

import json
import sys

from safetensors.numpy import load_file


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} MODEL")
    tensors = {
        name: {
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            "values": tensor.ravel().tolist(),
        }
        for name, tensor in load_file(sys.argv[1]).items()
    }
    json.dump(tensors, sys.stdout)


main()
