"""The workloads in PyTorch, as its users write them, made from tensors by Braid's names."""

import torch
import torch.nn.functional as F
from torch import nn

from workloads import RANDWIRE_INPUTS, RANDWIRE_OUTPUTS


def linear_of(weight, bias=None):
    """An nn.Linear of a weight [out, in]."""
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None,
                               device=weight.device, dtype=weight.dtype)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


def linear(values, weight, bias=None):
    """An nn.Linear of a weight [in, out], as most of the models have them."""
    return linear_of(values[weight].T.contiguous(), None if bias is None else values[bias])


def norm(values, name):
    gamma = values[name + ".g"]
    layer = nn.LayerNorm(gamma.shape[0], device=gamma.device, dtype=gamma.dtype)
    layer.weight = nn.Parameter(gamma, requires_grad=False)
    layer.bias = nn.Parameter(values[name + ".b"], requires_grad=False)
    return layer


class Mlp(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.layers = nn.Sequential(linear(values, "w1", "b1"), nn.ReLU(),
                                    linear(values, "w2", "b2"))

    def forward(self, x):
        return self.layers(x)


class Branch(nn.Module):
    """The branch in Python, as PyTorch's own graphs cannot hold it."""

    def __init__(self, values):
        super().__init__()
        self.a, self.b, self.c = (linear(values, n + ".w", n + ".b") for n in "abc")

    def forward(self, x):
        x = self.b(self.a(x))
        if x.sum() > 0:
            x = self.c(x)
        return x


class BranchByWhere(Branch):
    """Both sides computed, which a graph can hold."""

    def forward(self, x):
        x = self.b(self.a(x))
        return torch.where(x.sum() > 0, self.c(x), x)


class Sum(nn.Module):
    def __init__(self, values):
        super().__init__()

    def forward(self, x):
        return x.sum()


class Towers(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.towers = nn.ModuleList()
        for t in range(8):
            layers = [m for i in range(1, 5)
                      for m in (linear(values, f"t{t}/w{i}", f"t{t}/b{i}"), nn.ReLU())]
            self.towers.append(nn.Sequential(*layers))
        self.out = linear(values, "w", "b")

    def forward(self, x):
        return self.out(torch.cat([tower(x) for tower in self.towers], -1))


class RandWire(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.nodes = nn.ModuleList(linear(values, f"n{i}/w", f"n{i}/b") for i in range(32))

    def forward(self, x):
        made = []
        for node, inputs in zip(self.nodes, RANDWIRE_INPUTS):
            read = sum(made[j] for j in inputs) if inputs else x
            made.append(node(F.relu(read)))
        return sum(made[i] for i in RANDWIRE_OUTPUTS)


class Dlrm(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.bottom = nn.Sequential(*[m for i in range(3) for m in (
            linear(values, f"bot{i}.w", f"bot{i}.b"), nn.ReLU())])
        top = [m for i in range(5) for m in (linear(values, f"top{i}.w", f"top{i}.b"), nn.ReLU())]
        self.top = nn.Sequential(*top[:-1])
        pairs = values["pairs"].long()
        self.register_buffer("row", pairs // 27)
        self.register_buffer("column", pairs % 27)

    def forward(self, dense, embeddings):
        b = self.bottom(dense)
        vectors = torch.cat([b[:, None], embeddings], 1)
        below = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.row, self.column]
        return self.top(torch.cat([b, below], 1))


class Encoder(nn.Module):
    def __init__(self, values):
        super().__init__()
        like = values["layer0/qkv.w"]
        layer = nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", batch_first=True,
                                           device=like.device, dtype=like.dtype)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        state = {}
        for i in range(6):
            for theirs, ours in (("self_attn.in_proj_", "qkv"), ("self_attn.out_proj.", "out"),
                                 ("linear1.", "fc1"), ("linear2.", "fc2")):
                state[f"layers.{i}.{theirs}weight"] = values[f"layer{i}/{ours}.w"].T
                state[f"layers.{i}.{theirs}bias"] = values[f"layer{i}/{ours}.b"]
            for n in ("norm1", "norm2"):
                state[f"layers.{i}.{n}.weight"] = values[f"layer{i}/{n}.g"]
                state[f"layers.{i}.{n}.bias"] = values[f"layer{i}/{n}.b"]
        self.encoder.load_state_dict(state)
        self.requires_grad_(False).eval()

    def forward(self, x):
        return self.encoder(x)


class Gpt2Block(nn.Module):
    def __init__(self, values, name):
        super().__init__()
        self.norm1, self.norm2 = norm(values, name + "/norm1"), norm(values, name + "/norm2")
        self.qkv = linear_of(*(torch.cat([values[f"{name}/{n}.{part}"] for n in "qkv"])
                               for part in "wb"))
        self.out, self.fc1, self.fc2 = (linear_of(values[f"{name}/{n}.w"], values[f"{name}/{n}.b"])
                                        for n in ("out", "fc1", "fc2"))
        for cache in ("keys", "values"):
            rows = values[f"{name}/{cache}"].view(-1, 12, 64).transpose(0, 1)
            self.register_buffer(cache, rows.contiguous()[None])

    def forward(self, x, position):
        q, k, v = self.qkv(self.norm1(x)).view(1, 1, 3, 12, 64).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        a = F.scaled_dot_product_attention(q, self.keys, self.values)
        x = x + self.out(a.transpose(1, 2).reshape(1, 768))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.blocks = nn.ModuleList(Gpt2Block(values, f"layer{i}") for i in range(12))
        self.norm = norm(values, "norm")
        self.head = linear_of(values["head"])
        self.register_buffer("position", torch.tensor([100], device=values["head"].device))

    def forward(self, x):
        for block in self.blocks:
            x = block(x, self.position)
        return self.head(self.norm(x))


BY_KIND = {m.__name__: m
           for m in (Mlp, Branch, Sum, Towers, RandWire, Dlrm, Encoder, Gpt2)}
FOR_GRAPHS = {**BY_KIND, "Branch": BranchByWhere}
