"""Losses and gradients of softmax over sparse rows by PyTorch, for tests/sparse_softmax.rs.

    python sparse_softmax.py > sparse_softmax.json

Inputs follow from a formula, in the same way as in golden/mod.rs, in double precision.
"""

import json

import torch
from factorization import numbers

FEATURES, ROWS, KEYS = 11, 7, 4


def case(classes, salt, weighted):
    """Rows have equal weights, or their number counted from 1."""
    params = torch.tensor(numbers((FEATURES + 1) * classes, salt), requires_grad=True)
    weights, bias = params[:-classes].reshape(FEATURES, classes), params[-classes:]
    values = torch.tensor(numbers(ROWS * KEYS, salt + 1)).reshape(ROWS, KEYS)
    keys_of = lambda row: [(5 * row + 3 * place) % FEATURES for place in range(KEYS)]
    keys = torch.tensor([keys_of(row) for row in range(ROWS)])
    labels = torch.tensor([row % classes for row in range(ROWS)])
    scores = (weights[keys] * values[:, :, None]).sum(1) + bias
    losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
    of_rows = torch.arange(1, ROWS + 1) if weighted else torch.ones(ROWS)
    loss = (losses * of_rows).sum() / ROWS
    loss.backward()
    return {
        "classes": classes,
        "salt": salt,
        "weighted": weighted,
        "loss": round(loss.item(), 9),
        "grad": [round(number, 8) for number in params.grad.tolist()],
    }


if __name__ == "__main__":
    cases = [case(2, 5, False), case(3, 15, True), case(7, 25, False)]
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")
