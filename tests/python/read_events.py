"""Prints what TensorBoard's own package reads from a log directory, as JSON.

    python read_events.py LOGDIR

The reader is the one behind TensorBoard's server when it runs without its native loader:
it honours restarts (session logs), and its HParams part finds sessions and metrics as the
tab does. Keys of the result:

    runs: {run: {
        "files":      [name, ...] in the order TensorBoard reads them,
        "scalars":    {tag: [[step, value, wall_time], ...]},
        "histograms": {tag: [[step, [[left, right, count], ...]], ...]},
        "graph":      {node: {"op", "inputs", "shapes"}} or null,
        "hparams":    {tag: message},
        "plugins":    {tag: [plugin, display name]}}}
    session_groups: [message, ...], the rows of the HParams tab
    python_group_names: {run: the group name that TensorBoard's own writer would choose}
"""

import json
import math
import os
import sys

from google.protobuf import json_format
from tensorboard import context
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import backend_context
from tensorboard.plugins.hparams import list_session_groups
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

KEEP_ALL = 0


def load(logdir):
    """Reads everything below `logdir`, keeping each point."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer(
        size_guidance={plugin_event_accumulator.TENSORS: KEEP_ALL},
        tensor_size_guidance={
            plugin: KEEP_ALL for plugin in ("scalars", "histograms", "hparams")
        },
    )
    multiplexer.AddRunsFromDirectory(logdir)
    multiplexer.Reload()
    return multiplexer


def read_run(multiplexer, run):
    """Everything of one run."""
    accumulator = multiplexer.GetAccumulator(run)
    result = {"files": event_files(multiplexer.RunPaths()[run])}
    result |= {"scalars": {}, "histograms": {}, "hparams": {}, "plugins": {}}
    for tag, metadata in accumulator.AllSummaryMetadata().items():
        plugin = metadata.plugin_data.plugin_name
        result["plugins"][tag] = [plugin, metadata.display_name]
        points = accumulator.Tensors(tag)
        if plugin == "scalars":
            result["scalars"][tag] = [
                [p.step, plain(array(p).item()), p.wall_time] for p in points
            ]
        elif plugin == "histograms":
            result["histograms"][tag] = [[p.step, array(p).tolist()] for p in points]
        elif plugin == "hparams":
            data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
            result["hparams"][tag] = message(data)
    result["graph"] = graph(accumulator) if accumulator.Tags()["graph"] else None
    return result


def event_files(directory):
    return sorted(name for name in os.listdir(directory) if "tfevents" in name)


def array(point):
    return tensor_util.make_ndarray(point.tensor_proto)


def plain(number):
    """JSON has no word for what is not finite."""
    return number if math.isfinite(number) else repr(number)


def message(proto):
    return json_format.MessageToDict(proto, preserving_proto_field_name=True)


def graph(accumulator):
    """Nodes by name, with the sizes that the Graphs tab writes along the edges."""
    return {
        node.name: {
            "op": node.op,
            "inputs": list(node.input),
            "shapes": [
                [dim.size for dim in shape.dim]
                for shape in node.attr["_output_shapes"].list.shape
            ],
        }
        for node in accumulator.Graph().node
    }


def session_groups(multiplexer, logdir):
    """The rows of the HParams tab."""
    provider = data_provider.MultiplexerDataProvider(multiplexer, logdir)
    tab = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=1000,
        allowed_statuses=api_pb2.Status.values(),
        aggregation_type=api_pb2.AGGREGATION_AVG,
    )
    handler = list_session_groups.Handler(context.RequestContext(), tab, "", request)
    return [message(group) for group in handler.run().session_groups]


def python_group_name(run):
    """The group name that TensorBoard's own writer gives to a run's hyperparameters.

    A number on the wire no longer says whether it was an integer, so only whole numbers
    that were written as integers are compared rightly.
    """
    # Imported here: this module is the only one that looks for TensorFlow.
    from tensorboard.plugins.hparams import summary_v2

    start = run["hparams"].get("_hparams_/session_start_info", {}).get("session_start_info")
    if start is None:
        return None
    values = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in start["hparams"].items()
    }
    (value,) = summary_v2.hparams_pb(values).value
    data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
    return data.session_start_info.group_name


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} LOGDIR")
    logdir = sys.argv[1]
    if not os.path.isdir(logdir):
        sys.exit(f"not a directory: {logdir}")
    multiplexer = load(logdir)
    runs = {run: read_run(multiplexer, run) for run in sorted(multiplexer.Runs())}
    report = {
        "runs": runs,
        "session_groups": session_groups(multiplexer, logdir),
        "python_group_names": {name: python_group_name(run) for name, run in runs.items()},
    }
    json.dump(report, sys.stdout, indent=1, sort_keys=True)
    print()


main()
