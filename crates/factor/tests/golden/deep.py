"""Losses and gradients of DeepFM and of a wide and deep model by PyTorch, for tests/deep.rs.

    python deep.py > deep.json

Inputs follow from a formula, in the same way as in golden/mod.rs, in double precision.
"""

import json

import torch
from factorization import numbers

FEATURES, FIELDS, RANK, HIDDEN, ROWS = 11, 4, 3, [5, 3], 6


def case(has_pairs, salt, number_fields=0):
    """The last fields are numbers, which the perceptron takes as they are."""
    sizes = [FEATURES * (1 + RANK)]
    fields = FIELDS - number_fields
    inputs = fields * RANK + number_fields
    for outputs in [*HIDDEN, 1]:
        sizes += [outputs * inputs, outputs]
        inputs = outputs
    params = torch.tensor(0.7 * numbers(sum(sizes), salt), requires_grad=True)
    parts = torch.split(params, sizes)
    factors = parts[0].reshape(FEATURES, 1 + RANK)
    values = torch.tensor(numbers(ROWS * FIELDS, salt + 1)).reshape(ROWS, FIELDS)
    keys_of = lambda row: [(5 * row + 3 * field) % FEATURES for field in range(FIELDS)]
    keys = torch.tensor([keys_of(row) for row in range(ROWS)])
    labels = torch.tensor([row % 2 for row in range(ROWS)], dtype=torch.float64)
    products = factors[keys] * values[:, :, None]
    score = products[:, :, 0].sum(1)
    vectors = products[:, :fields, 1:]
    if has_pairs:
        score = score + 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1)
    deep = torch.cat([vectors.reshape(ROWS, fields * RANK), values[:, fields:]], 1)
    layers = list(zip(parts[1::2], parts[2::2]))
    for number, (weight, bias) in enumerate(layers):
        deep = deep @ weight.reshape(len(bias), -1).T + bias
        if number + 1 < len(layers):
            deep = torch.relu(deep)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(score + deep[:, 0], labels)
    loss.backward()
    return {
        "pairs": has_pairs,
        "numbers": number_fields,
        "salt": salt,
        "loss": round(loss.item(), 9),
        "grad": [round(number, 8) for number in params.grad.tolist()],
    }


if __name__ == "__main__":
    cases = [case(True, 3), case(False, 13), case(True, 23, 2), case(False, 33, 1)]
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")
