"""Checks manifests against a schema, and prints them: check_manifests.py SCHEMA MANIFESTS."""

import json
import sys

import jsonschema
import yaml

with open(sys.argv[1]) as file:
    schema = json.load(file)
with open(sys.argv[2]) as file:
    documents = list(yaml.safe_load_all(file))
for document in documents:
    kind = {"$defs": schema["$defs"], "$ref": f"#/$defs/{document['kind']}"}
    jsonschema.Draft202012Validator(kind).validate(document)
print(json.dumps({"kinds": [document["kind"] for document in documents], "documents": documents}))
