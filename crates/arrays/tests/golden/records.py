"""Writes the records that tests/records.rs reads, with TensorFlow itself.

Made once with TensorFlow 2.21 and checked in:  python records.py
"""

import os

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def ints(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def string(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


pixels = (np.arange(9 * 12 * 3) % 251).astype(np.uint8).reshape(9, 12, 3)
picture = tf.io.encode_png(pixels).numpy()
with open(os.path.join(HERE, "picture.png"), "wb") as file:
    file.write(picture)

with tf.io.TFRecordWriter(os.path.join(HERE, "dense.tfrecord")) as writer:
    for number, label in enumerate([0, 1, 2, 0]):
        offset = number + (number == 3)
        feature = {
            "class": ints(label),
            "measured/floats": floats(offset + 0.5, -float(offset), offset + 1.0),
            "counts": ints(number, 1_000_000, -7),
            "raw": string(bytes([number, 255, 0, 3])),
            "image/encoded": string(picture),
            "image/filename": string(b"picture.png"),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        writer.write(example.SerializeToString(deterministic=True))
