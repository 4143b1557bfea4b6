"""Weights and inputs, made once and written for everybody: a .safetensors file and .npy files.

Everything is rounded to the model's dtype first, so that Braid, the peers and the float64 reference
start from the same numbers. bf16 has no dtype in numpy: here it is an array of uint16.
"""

import json
import struct
import zlib

import numpy as np

from files import SETS, input_file

NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i32": np.int32}
SAFETENSORS = {"f32": "F32", "f16": "F16", "bf16": "BF16", "i32": "I32"}


def to_bf16(x):
    """The nearest bf16 of finite float32 numbers, ties to even, as uint16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widen(x, dtype):
    """The numbers of an array of a dtype, floats as float32, which holds all of them."""
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x if dtype == "i32" else x.astype(np.float32)


def narrow(x, dtype):
    return to_bf16(x) if dtype == "bf16" else x.astype(NUMPY[dtype])


def random(name, shape, seed):
    return np.random.default_rng(zlib.crc32(f"{seed}/{name}".encode())).standard_normal(
        shape, np.float32)


def make_param(name, dtype, shape):
    if name == "pairs":  # of dlrm_b128: where the pairs below the diagonal stand among 27 x 27
        row, column = np.tril_indices(27, -1)
        return (row * 27 + column).astype(np.int32)
    x = random(name, shape, "param")
    if name.endswith(".g"):
        x = 1 + x / 10  # factors of a norm
    elif len(shape) == 1:
        x /= 10  # biases
    elif not name.endswith(("keys", "values")):
        x /= np.sqrt(np.float32(shape[0]))  # products keep the size of what they get
    return narrow(x, dtype)


def make(plan, kind):
    """Weights, and SETS sets of inputs, as a plan of braid_tool names them."""
    params = {name: make_param(name, *type_) for name, type_ in plan["params"].items()}
    inputs = [
        {name: narrow(random(name, shape, i), dtype)
         for name, (dtype, shape) in plan["inputs"].items()}
        for i in range(SETS)
    ]
    if kind == "Branch":
        for i, x in enumerate(inputs):
            x["x"] = turned(params, x["x"], taken=i % 2 == 0)
    return params, inputs


def turned(params, x, taken):
    """x or -x, whichever takes the branch of branch_64, or does not."""
    p = {name: value.astype(np.float64) for name, value in params.items()}
    for candidate in (x, -x):
        h = (candidate @ p["a.w"] + p["a.b"]) @ p["b.w"] + p["b.b"]
        if (h.sum() > 0) == taken:
            return candidate
    raise ValueError("branch_64: neither x nor -x decides the branch as wanted")


def write_safetensors(path, tensors, dtypes):
    header, offset = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": SAFETENSORS[dtypes[name]], "shape": list(x.shape),
                        "data_offsets": [offset, offset + x.nbytes]}
        offset += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write(np.ascontiguousarray(x).tobytes())


def read_safetensors(path):
    """Name to (dtype, array)."""
    names = {of_file: ours for ours, of_file in SAFETENSORS.items()}
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
    data = np.memmap(path, np.uint8, "r", 8 + size) if header else b""
    found = {}
    for name, entry in header.items():
        dtype = names[entry["dtype"]]
        begin, end = entry["data_offsets"]
        found[name] = dtype, data[begin:end].view(NUMPY[dtype]).reshape(entry["shape"])
    return found


def write_inputs(folder, inputs, dtypes):
    for i, values in enumerate(inputs):
        for name, x in values.items():
            # As everywhere in Braid, a .npy file holds bf16 as float32.
            np.save(input_file(folder, name, i), widen(x, "bf16") if dtypes[name] == "bf16" else x)


def read_inputs(folder, types):
    """The sets of inputs, each name to (dtype, array)."""
    sets = []
    for i in range(SETS):
        values = {}
        for name, (dtype, _) in types.items():
            x = np.load(input_file(folder, name, i))
            values[name] = dtype, to_bf16(x) if dtype == "bf16" else x
        sets.append(values)
    return sets


def relative_error(got, expected):
    """||got - expected|| / ||expected|| in float64; infinite where something is not finite."""
    got = np.asarray(got, np.float64).reshape(expected.shape)
    if not np.isfinite(got).all():
        return float("inf")
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
