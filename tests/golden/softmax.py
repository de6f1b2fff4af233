"""Softmax regression in numpy: the reference for tests/golden.rs.

    python softmax.py > softmax.json

The data is made by a formula that tests/golden.rs repeats. Sizes are chosen so that nothing
divides: 53 examples in batches of 7, so that batches reach over the ends of epochs. Sums are
in double precision, so that any difference is the program's rounding.
"""

import json
import sys

import numpy as np

ROWS, COLS, CLASSES = 6, 5, 10
TRAIN, TEST = 53, 17
BATCH, STEPS, RATE = 7, 120, 0.5


def make(count, split):
    """Images whose every tenth pixel is brighter for their class, and their classes."""
    example = np.arange(count)
    pixel = np.arange(ROWS * COLS)
    labels = (7 * example + 3 * split + example // 5) % CLASSES
    i, p = example[:, None], pixel[None, :]
    images = (37 * i + 11 * p + 17 * (i * p % 13) + 101 * split) % 128
    images = images + 40 * (p % CLASSES == labels[:, None])
    return images / 255.0, labels


def probabilities(weight, bias, images):
    scores = images @ weight.T + bias
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    return shares / shares.sum(axis=1, keepdims=True)


def losses(weight, bias, images, labels):
    chosen = probabilities(weight, bias, images)[np.arange(len(labels)), labels]
    return -np.log(chosen)


def main():
    images, labels = make(TRAIN, 0)
    weight, bias = np.zeros((CLASSES, ROWS * COLS)), np.zeros(CLASSES)
    train_losses = []
    for step in range(STEPS):
        taken = np.arange(step * BATCH, (step + 1) * BATCH) % TRAIN
        x, y = images[taken], labels[taken]
        train_losses.append(losses(weight, bias, x, y).mean())
        delta = probabilities(weight, bias, x)
        delta[np.arange(BATCH), y] -= 1
        weight -= RATE / BATCH * delta.T @ x
        bias -= RATE / BATCH * delta.sum(axis=0)
    images, labels = make(TEST, 1)
    hits = probabilities(weight, bias, images).argmax(axis=1) == labels
    golden = {
        "train_losses": train_losses,
        "weight": weight.ravel().tolist(),
        "bias": bias.tolist(),
        "test_loss": losses(weight, bias, images, labels).mean(),
        "test_accuracy": hits.mean(),
    }
    json.dump(golden, sys.stdout, indent=1)
    print()


main()
