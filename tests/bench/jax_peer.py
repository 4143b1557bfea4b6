"""JAX as a peer: what peer.py calls."""

import json
import os
import time

from files import weights_file
from peers import JAX_BUFFERS, Missing, Steps, medians
from tensors import read_inputs, read_safetensors

# Everything that XLA can put into its command buffers, which are CUDA graphs, from one kernel on.
COMMAND_BUFFERS = (
    "--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer="
    "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,WHILE,CONDITIONAL,DYNAMIC_SLICE_FUSION")


def start(peer, workload, cpu):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
    elif peer == JAX_BUFFERS:
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " " + COMMAND_BUFFERS
    try:
        import jax
    except ImportError:
        raise Missing("jax is not installed") from None
    if not cpu and jax.default_backend() != "gpu":
        raise Missing("jax finds no GPU")
    if workload.unit == "f32":
        jax.config.update("jax_default_matmul_precision", "highest")


def array(dtype, values):
    import jax.numpy as jnp
    return jnp.asarray(values.view(jnp.bfloat16) if dtype == "bf16" else values)


def load(peer, workload, folder):
    import jax_models
    types = json.loads((folder / "plan.json").read_text())["inputs"]
    params = {name: array(dtype, values)
              for name, (dtype, values) in read_safetensors(weights_file(folder)).items()}
    params = jax_models.PREPARED.get(workload.kind, dict)(params)
    inputs = [[array(*x) for x in given.values()] for given in read_inputs(folder, types)]
    return (jax_models.BY_KIND[workload.kind], params), inputs


def build(peer, model, inputs):
    """Params that the model changes are given away at each step: it can change them in place."""
    import jax
    function, params = model
    _, changed = jax.eval_shape(function, params, *inputs[0])
    state = {name: params[name] for name in changed}
    others = {name: value for name, value in params.items() if name not in changed}

    def whole(state, others, *x):
        return function({**state, **others}, *x)

    step = jax.jit(whole, donate_argnums=0)

    def fresh(i):
        nonlocal state
        output, state = step(state, others, *inputs[i])
        return output

    return Steps(lambda: fresh(0), fresh)


def wait(output):
    output.block_until_ready()


def to_numpy(output):
    import jax.numpy as jnp
    import numpy as np
    return np.asarray(output.astype(jnp.float32), np.float64)


def measure(step, seconds):
    def batch(size):
        start = time.perf_counter()
        for _ in range(size):
            output = step()
        output.block_until_ready()
        return (time.perf_counter() - start) * 1e6 / size

    return medians(batch, lambda: batch(1), seconds)
