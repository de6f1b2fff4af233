"""Runs an ONNX file in onnxruntime on rows from a JSON file, and prints its answers as JSON.

Usage: run_onnx.py MODEL.onnx INPUTS.json

The inputs are an object with a list of lists for each input of the graph.
"""

import json
import sys

import numpy
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
types = {
    "tensor(float)": "float32",
    "tensor(int64)": "int64",
    "tensor(uint8)": "uint8",
    "tensor(string)": object,
}
with open(sys.argv[2], encoding="utf-8") as file:
    given = json.load(file)
feed = {one.name: numpy.array(given[one.name], types[one.type]) for one in session.get_inputs()}
names = [one.name for one in session.get_outputs()]
answers = dict(zip(names, (value.tolist() for value in session.run(names, feed))))
answers["metadata"] = session.get_modelmeta().custom_metadata_map
print(json.dumps(answers))
