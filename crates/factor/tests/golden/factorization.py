"""Scores and gradients of factorization machines by PyTorch, for tests/factorization.rs.

    python factorization.py > factorization.json

Inputs follow from a formula, in the same way as in golden/mod.rs. Scores are computed pair by pair
in double precision, and gradients by automatic differentiation.
"""

import json

import numpy as np
import torch


def numbers(count, salt):
    """Numbers from -1 to 1, by the formula of golden/mod.rs."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint64) + np.uint64(salt * 1_000_003)
        x *= np.uint64(0x9E3779B97F4A7C15)
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xD6E8FEB86659FD93)
        x ^= x >> np.uint64(32)
    return (x >> np.uint64(40)).astype(np.float64) / 8_388_608.0 - 1.0


def case(kind, keys, fields, rank, salt):
    width = 1 + (fields if kind == "ffm" else 1) * rank
    params = torch.tensor(numbers(keys * width, salt).reshape(keys, width), requires_grad=True)
    values = torch.tensor(numbers(keys, salt + 1))
    score = (params[:, 0] * values).sum()
    for i in range(keys):
        for j in range(i + 1, keys):
            ours, theirs = 1, 1
            if kind == "ffm":
                ours, theirs = 1 + j % fields * rank, 1 + i % fields * rank
            product = params[i, ours : ours + rank] @ params[j, theirs : theirs + rank]
            score = score + product * values[i] * values[j]
    score.backward()
    return {
        "kind": kind,
        "keys": keys,
        "fields": fields,
        "rank": rank,
        "salt": salt,
        "score": round(score.item(), 9),
        "grad": [round(number, 7) for number in params.grad.flatten().tolist()],
    }


if __name__ == "__main__":
    shapes = [("fm", 1, 1, 1), ("fm", 5, 1, 3), ("fm", 39, 1, 8), ("fm", 7, 1, 17)]
    shapes += [("ffm", 6, 3, 1), ("ffm", 10, 4, 3), ("ffm", 9, 9, 4)]
    cases = [case(*shape, 10 * salt + 1) for salt, shape in enumerate(shapes)]
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")
