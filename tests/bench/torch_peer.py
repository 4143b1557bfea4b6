"""PyTorch as a peer: what peer.py calls."""

import ctypes
import importlib
import json
import time

from files import SETS, weights_file
from peers import EAGER, GRAPH, REDUCED, TUNED, Missing, Steps, medians
from tensors import read_inputs, read_safetensors

try:
    import torch
except ImportError:
    torch = None

DEVICE = "cuda"


def start(peer, workload, cpu):
    global DEVICE
    if torch is None:
        raise Missing("torch is not installed")
    if not cpu and not torch.cuda.is_available():
        raise Missing("torch finds no GPU")
    DEVICE = "cpu" if cpu else "cuda"
    if peer in (REDUCED, TUNED):
        importlib.import_module("torch._inductor.compile_fx")  # takes seconds, is no part of a build
    # f32 is f32: no TF32 anywhere.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    torch.set_grad_enabled(False)


def tensor(dtype, array, device, wide=False):
    """A tensor of the array's numbers; with `wide` floats become float64."""
    t = torch.from_numpy(array.copy())
    if dtype == "bf16":
        t = t.view(torch.bfloat16)
    if wide and t.is_floating_point():
        t = t.double()
    return t.to(device)


def load_tensors(folder, types, device, wide=False):
    """The params by name, and the sets of inputs in the model's order."""
    values = {name: tensor(dtype, array, device, wide)
              for name, (dtype, array) in read_safetensors(weights_file(folder)).items()}
    inputs = [[tensor(*x, device, wide) for x in given.values()]
              for given in read_inputs(folder, types)]
    return values, inputs


def load(peer, workload, folder):
    import torch_models
    types = json.loads((folder / "plan.json").read_text())["inputs"]
    values, inputs = load_tensors(folder, types, DEVICE)
    models = torch_models.BY_KIND if peer == EAGER else torch_models.FOR_GRAPHS
    return models[workload.kind](values).eval(), inputs


def build(peer, model, inputs):
    if peer == EAGER:
        return called(model, inputs)
    if peer == GRAPH:
        return graphed(model, inputs)
    if peer == TUNED:
        tuned = torch.compile(model, mode="max-autotune-no-cudagraphs")
        tuned(*inputs[0])  # it measures its candidates now, before anything is captured
        return graphed(tuned, inputs)
    assert peer == REDUCED
    steps = called(torch.compile(model, mode="reduce-overhead"), inputs)
    for i in range(SETS):  # it records its graphs in the first calls
        steps.fresh(i)
    return steps


def called(model, inputs):
    return Steps(lambda: model(*inputs[0]), lambda i: model(*inputs[i]))


def graphed(model, inputs):
    """A torch.cuda.graph; fresh inputs are copied into those that it was captured with."""
    static = [x.clone() for x in inputs[0]]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(*static)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)  # kept to count its kernels
    with torch.cuda.graph(graph):
        output = model(*static)
    graph.instantiate()

    def same():
        graph.replay()
        return output

    def fresh(i):
        for to, value in zip(static, inputs[i]):
            to.copy_(value)
        graph.replay()
        return output

    return Steps(same, fresh, lambda: output.fill_(float("nan")), lambda: kernels_of(graph))


def kernels_of(graph):
    """How many kernel nodes a torch.cuda.CUDAGraph has."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    count = ctypes.c_size_t()
    if driver.cuGraphGetNodes(handle, None, ctypes.byref(count)):
        return None
    nodes = (ctypes.c_void_p * count.value)()
    if driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)):
        return None
    kernels = 0
    for node in nodes:
        kind = ctypes.c_int()
        driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kernels += kind.value == 0  # CU_GRAPH_NODE_TYPE_KERNEL
    return kernels


def wait(output):
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def to_numpy(output):
    return output.detach().double().cpu().numpy()


def measure(step, seconds):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def batch(size):
        begin.record()
        for _ in range(size):
            step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / size

    def one():
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e6

    return medians(batch, one, seconds)
