"""The workloads in JAX: functions of the params by Braid's names and of the inputs. Each returns
its output and the params that it changes."""

import jax
import jax.numpy as jnp

from workloads import RANDWIRE_INPUTS, RANDWIRE_OUTPUTS


def linear(p, name, x):
    return x @ p[name + ".w"] + p[name + ".b"]


def norm(p, name, x, eps=1e-5):
    """In float32, as PyTorch and Braid compute it."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - wide.mean(-1, keepdims=True)
    unit = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + eps)
    return (unit * p[name + ".g"] + p[name + ".b"]).astype(x.dtype)


def mlp(p, x):
    return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], {}


def branch(p, x):
    x = linear(p, "b", linear(p, "a", x))
    return jax.lax.cond(x.sum() > 0, lambda x: linear(p, "c", x), lambda x: x, x), {}


def total(p, x):
    return x.sum(), {}


def towers(p, x):
    made = []
    for t in range(8):
        y = x
        for i in range(1, 5):
            y = jax.nn.relu(y @ p[f"t{t}/w{i}"] + p[f"t{t}/b{i}"])
        made.append(y)
    return jnp.concatenate(made, -1) @ p["w"] + p["b"], {}


def randwire(p, x):
    made = []
    for i, inputs in enumerate(RANDWIRE_INPUTS):
        read = sum(made[j] for j in inputs) if inputs else x
        made.append(jax.nn.relu(read) @ p[f"n{i}/w"] + p[f"n{i}/b"])
    return sum(made[i] for i in RANDWIRE_OUTPUTS), {}


def dlrm(p, dense, embeddings):
    b = dense
    for i in range(3):
        b = jax.nn.relu(linear(p, f"bot{i}", b))
    vectors = jnp.concatenate([b[:, None], embeddings], 1)
    products = jnp.einsum("bnd,bmd->bnm", vectors, vectors)
    below = products.reshape(products.shape[0], -1)[:, p["pairs"]]
    x = jnp.concatenate([b, below], 1)
    for i in range(4):
        x = jax.nn.relu(linear(p, f"top{i}", x))
    return linear(p, "top4", x), {}


def heads(x):
    return x.reshape(*x.shape[:-1], 12, x.shape[-1] // 12)


def encoder(p, x):
    for i in range(6):
        layer = f"layer{i}/"
        q, k, v = (heads(part) for part in jnp.split(linear(p, layer + "qkv", x), 3, -1))
        a = jax.nn.dot_product_attention(q, k, v).reshape(x.shape)
        x = norm(p, layer + "norm1", x + linear(p, layer + "out", a))
        f = jax.nn.gelu(linear(p, layer + "fc1", x), approximate=False)
        x = norm(p, layer + "norm2", x + linear(p, layer + "fc2", f))
    return x, {}


def gpt2_params(p):
    """Weights [in, out], q, k and v as one."""
    packed = {name: x for name, x in p.items() if name[-4:-1] not in ("/q.", "/k.", "/v.")}
    for i in range(12):
        for part in "wb":
            three = [p[f"layer{i}/{n}.{part}"] for n in "qkv"]
            packed[f"layer{i}/qkv.{part}"] = jnp.concatenate(three)
    return {name: x.T if x.ndim == 2 and name.endswith((".w", "head")) else x
            for name, x in packed.items()}


def gpt2(p, x):
    caches = {}
    for i in range(12):
        layer = f"layer{i}/"
        q, k, v = jnp.split(linear(p, layer + "qkv", norm(p, layer + "norm1", x)), 3, -1)
        for name, row in (("keys", k), ("values", v)):
            caches[layer + name] = jax.lax.dynamic_update_slice(p[layer + name], row, (100, 0))
        a = jax.nn.dot_product_attention(heads(q), heads(caches[layer + "keys"]),
                                         heads(caches[layer + "values"]))
        x = x + linear(p, layer + "out", a.reshape(x.shape))
        f = jax.nn.gelu(linear(p, layer + "fc1", norm(p, layer + "norm2", x)), approximate=True)
        x = x + linear(p, layer + "fc2", f)
    return norm(p, "norm", x) @ p["head"], caches


BY_KIND = {"Mlp": mlp, "Branch": branch, "Sum": total, "Towers": towers, "RandWire": randwire,
           "Dlrm": dlrm, "Encoder": encoder, "Gpt2": gpt2}
PREPARED = {"Gpt2": gpt2_params}
