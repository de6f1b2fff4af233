"""Writes the TFRecord files that tests/sparse/golden.rs reads, with TensorFlow itself.

Made once with TensorFlow 2.21 and checked in:  python tfrecord.py
"""

import os

import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))

# Label, indices, values: labels of both kinds, unsorted and repeated indices, an empty row.
ROWS = [
    (1, [0, 17, 33762577], [1.0, 1.0, 1.0]),
    (0, [5, 3, 200], [0.5, -2.25, 1e-3]),
    (-1, [7, 7, 1], [1.0, 2.0, 4.0]),
    (1, [], []),
    (1, list(range(100, 139)), [1.0] * 39),
]


def example(label, index, value):
    feature = {
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "index": tf.train.Feature(int64_list=tf.train.Int64List(value=index)),
        "value": tf.train.Feature(float_list=tf.train.FloatList(value=value)),
        "comment": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"not read"])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))


for name, options in [("plain.tfrecord", None), ("gzip.tfrecord", "GZIP")]:
    with tf.io.TFRecordWriter(os.path.join(HERE, name), options) as writer:
        for row in ROWS:
            writer.write(example(*row).SerializeToString(deterministic=True))
