"""Writes the arrays that tests/numpy.rs reads, with numpy itself.

Made once with numpy 2.4 and checked in:  python arrays.py
"""

import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def at(name):
    return os.path.join(HERE, name)


x = np.arange(12, dtype=np.float32).reshape(6, 2) / 4
y = np.array([0, 1, 2, 0, 1, 2], dtype=np.int64)

# Every version of the format, and every type of elements.
for version in [(1, 0), (2, 0), (3, 0)]:
    with open(at(f"version{version[0]}.npy"), "wb") as file:
        np.lib.format.write_array(file, x, version=version)
np.save(at("labels.npy"), y)
np.savez(at("plain.npz"), x=x.astype(np.float64), y=y.astype(np.uint8))
pixels = (np.arange(6 * 8 * 8 * 3) % 256).astype(np.uint8).reshape(6, 8, 8, 3)
np.savez_compressed(
    at("packed.npz"),
    x_train=pixels[:4], y_train=y[:4].astype(np.float32), x_test=pixels[4:], y_test=y[1:3],
)
for kind in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]:
    np.save(at(f"{kind}.npy"), np.array([[0, 1], [1, 0], [1, 1]], dtype=kind))
# What is refused.
np.save(at("fortran.npy"), np.asfortranarray(x))
np.save(at("big.npy"), x.astype(">f4"))
np.save(at("half.npy"), x.astype(np.float16))
np.save(at("objects.npy"), np.array([{}, []], dtype=object), allow_pickle=True)
np.save(at("text.npy"), np.array(["a", "b"]))
