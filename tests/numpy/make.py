#!/usr/bin/env python3
"""Writes expected.txt: small .bir graphs with inputs and the values that NumPy computes for them.

    python3 tests/numpy/make.py        (needs numpy; rerun only when a case changes)

A case is the graph's text, then per line `input NAME values..`, `param NAME values..` and
`output NAME relative absolute values..`, then `end`. An output's element may differ from NumPy's by
relative * |value| + absolute. `rounding dtype` asks for results rounded after every op.
"""
import fractions
import itertools
import math
import pathlib

import numpy as np

np.seterr(all="ignore")
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64,
          "i32": np.int32, "i8": np.int8, "u8": np.uint8, "b1": np.bool_}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
INTS = ["i64", "i32", "i8", "u8"]
rng = np.random.default_rng(20261)
cases = []


def text_of(x):
    if x.dtype == np.bool_ or np.issubdtype(x.dtype, np.integer):
        return " ".join(str(int(v)) for v in x.ravel())
    return " ".join(repr(float(v)) for v in x.ravel())


class Value:
    def __init__(self, number, array, state=False):
        self.number, self.array, self.state = number, np.asarray(array), state


class Case:
    """Builds the graph's text beside the NumPy values."""

    def __init__(self, name, rounding=None):
        self.lines = [f'graph "{name}" {{']
        self.data, self.outputs, self.count = [], [], 0
        if rounding:
            self.data.append(f"rounding {rounding}")
        cases.append(self)

    def emit(self, array, what, operands=(), tail="", state=False, dtype=None):
        v = Value(self.count, array, state)
        self.count += 1
        shape = ",".join(map(str, v.array.shape))
        refs = ", ".join(f"%{o.number}" for o in operands)
        words = [what, refs, tail]
        self.lines.append(f"  %{v.number}: {'state ' if state else ''}"
                          f"{dtype or NAMES[v.array.dtype]}[{shape}] = {' '.join(w for w in words if w)}")
        return v

    def input(self, name, array):
        array = np.asarray(array)
        self.data.append(f"input {name} {text_of(array)}")
        return self.emit(array, "input", tail=f'"{name}"')

    def param(self, name, array):
        self.data.append(f"param {name} {text_of(array)}")
        return self.emit(array, "param", tail=f'"{name}"', state=True)

    def output(self, name, v, relative=0.0, absolute=0.0, expect=None):
        self.lines.append(f'  output "{name}" %{v.number}')
        want = v.array if expect is None else np.asarray(expect)
        assert want.dtype == v.array.dtype and want.shape == v.array.shape
        self.outputs.append(f"output {name} {relative} {absolute} {text_of(want)}")

    def map(self, fn, xs, array):
        return self.emit(array, fn, xs)

    def reduce(self, fn, x, axes):
        numpy_fn = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
                    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[fn]
        t = x.array.dtype
        start = {"add": 0, "mul": 1, "or": 0, "xor": 0,
                 "and": True if t == np.bool_ else np.array(-1).astype(t)}
        if fn in ("max", "min"):
            if np.issubdtype(t, np.integer):
                limits = np.iinfo(t)
                start[fn] = limits.min if fn == "max" else limits.max
            else:
                start[fn] = -np.inf if fn == "max" else np.inf
        array = numpy_fn.reduce(x.array, axis=tuple(axes), dtype=t, initial=start[fn])
        return self.emit(np.asarray(array, dtype=t), f"reduce_{fn}", [x], f"{{axes={list(axes)}}}")

    def dot(self, a, b, ta=False, tb=False, out=None):
        x = a.array.swapaxes(-1, -2) if ta else a.array
        y = b.array.swapaxes(-1, -2) if tb else b.array
        t = out or a.array.dtype
        flags = ", ".join(f"{n}=true" for n, on in (("ta", ta), ("tb", tb)) if on)
        return self.emit(np.matmul(x.astype(t), y.astype(t)), "dot", [a, b],
                         f"{{{flags}}}" if flags else "")

    def scatter(self, fn, x, indices, updates, axis):
        """By loops over NumPy's rows: in order of indices, those out of range ignored."""
        combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
                   "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
                   None: lambda old, new: new}[fn]
        n = indices.array.ndim
        out = np.moveaxis(x.array.copy(), axis, 0)
        rows = np.moveaxis(updates.array, range(axis, axis + n), range(n))
        for at in np.ndindex(*indices.array.shape):
            i = int(indices.array[at])
            if 0 <= i < len(out):
                out[i] = combine(out[i], rows[at])
        return self.emit(np.moveaxis(out, 0, axis), f"scatter_{fn}" if fn else "scatter",
                         [x, indices, updates], f"{{axis={axis}}}")

    def reshape(self, x, shape):
        return self.emit(x.array.reshape(shape), "reshape", [x])

    def transpose(self, x, axes):
        return self.emit(x.array.transpose(axes), "transpose", [x], f"{{axes={list(axes)}}}")

    def broadcast(self, x, shape, axes):
        full = [1] * len(shape)
        for extent, axis in zip(x.array.shape, axes):
            full[axis] = extent
        return self.emit(np.broadcast_to(x.array.reshape(full), shape), "broadcast", [x],
                         f"{{axes={list(axes)}}}")

    def slice(self, x, starts, stops, steps):
        index = tuple(slice(*s) for s in zip(starts, stops, steps))
        return self.emit(x.array[index], "slice", [x],
                         f"{{starts={list(starts)}, steps={list(steps)}}}")

    def text(self):
        return "\n".join(["bir 1"] + self.lines + ["}"] + self.data + self.outputs + ["end"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "tanh": np.tanh,
    "sigmoid": sigmoid, "relu": lambda x: np.where(x < 0, 0.0, x),  # keeps -0
    "gelu": lambda x: 0.5 * x * np.vectorize(math.erfc)(-x / np.sqrt(2)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x), "erf": np.vectorize(math.erf),
    "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),  # keeps -0
}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "min": np.minimum, "max": np.maximum, "mod": np.mod,
}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
           "gt": np.greater, "ge": np.greater_equal}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def float_functions():
    x = np.concatenate([[np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 88.7,
                         -88.7, 700.0, -700.0, 1e-310, 7.0, -1.0, 3e9], rng.normal(size=12) * 3])
    c = Case("unary_f64")
    v = c.input("x", x)
    for name, f in UNARY.items():
        # 1 + tanh loses digits where tanh is near -1.
        absolute = 1e-13 if name == "gelu_tanh" else 0.0
        c.output(name, c.map(name, [v], f(x)), 1e-13, absolute)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 3.0, 1e-3])
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    a = np.concatenate([a, rng.normal(size=15) * 5])
    b = np.concatenate([b, rng.normal(size=15) * 5])
    c = Case("binary_f64")
    va, vb = c.input("a", a), c.input("b", b)
    for name, f in BINARY.items():
        c.output(name, c.map(name, [va, vb], f(a, b)), 1e-14, 1e-15 if name == "mod" else 0)
    for name, f in COMPARE.items():
        c.output(name, c.map(name, [va, vb], f(a, b)))
    c = Case("ternary_f64")
    x = np.concatenate([special, rng.normal(size=12) * 2])
    low = np.concatenate([np.full(9, -1.0), np.full(6, -0.5), np.full(6, np.nan)])
    high = np.concatenate([np.full(9, 2.0), np.full(6, np.nan), np.full(6, -0.75)])
    p = rng.integers(0, 2, size=21).astype(np.bool_)
    vx, vl, vh, vp = c.input("x", x), c.input("low", low), c.input("high", high), c.input("p", p)
    c.output("clamp", c.map("clamp", [vx, vl, vh], np.minimum(np.maximum(x, low), high)))
    c.output("select", c.map("select", [vp, vx, vl], np.where(p, x, low)))


def exact(values, like):
    """Python's integers, wrapped to the dtype."""
    bits = like.dtype.itemsize * 8
    out = []
    for v in values:
        v &= (1 << bits) - 1
        out.append(v - (1 << bits) if np.iinfo(like.dtype).min < 0 and v >> (bits - 1) else v)
    return np.array(out, dtype=like.dtype)


def int_pow(a, b):
    if b >= 0:
        return a**b
    return {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)


def int_functions():
    for t in INTS:
        dt = np.dtype(DTYPES[t])
        limits = np.iinfo(dt)
        few = sorted({limits.min, limits.min // 2 + 1, max(limits.min, -7), max(limits.min, -1), 0,
                      1, 2, 7, limits.max // 2 + 3, limits.max})
        a, b = (m.ravel() for m in np.meshgrid(np.array(few, dtype=dt), np.array(few, dtype=dt)))
        pairs = [(int(x), int(y)) for x, y in zip(a, b)]
        c = Case(f"ints_{t}")
        va, vb = c.input("a", a), c.input("b", b)
        c.output("neg", c.map("neg", [va], np.negative(a)))
        c.output("abs", c.map("abs", [va], np.abs(a)))
        c.output("relu", c.map("relu", [va], np.maximum(a, 0)))
        c.output("sign", c.map("sign", [va], np.sign(a)))
        c.output("not", c.map("not", [va], np.invert(a)))
        for name in ("add", "sub", "mul", "min", "max", "mod"):
            c.output(name, c.map(name, [va, vb], BINARY[name](a, b)))
        quotients = [0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
                     for x, y in pairs]
        c.output("div", c.map("div", [va, vb], exact(quotients, a)))
        exponents = [(x, max(-9, min(y, 127))) for x, y in pairs]
        e = np.array([y for _, y in exponents], dtype=dt)
        ve = c.input("e", e)
        c.output("pow", c.map("pow", [va, ve], exact([int_pow(x, y) for x, y in exponents], a)))
        for name, f in {**BITS, **COMPARE}.items():
            c.output(name, c.map(name, [va, vb], f(a, b)))
        low, high = np.full_like(a, 1), np.full_like(a, 5)
        vl, vh = c.input("low", low), c.input("high", high)
        c.output("clamp", c.map("clamp", [va, vl, vh], np.clip(a, 1, 5).astype(dt)))
    p = np.array([0, 0, 1, 1], dtype=np.bool_)
    q = np.array([0, 1, 0, 1], dtype=np.bool_)
    c = Case("bools")
    vp, vq = c.input("p", p), c.input("q", q)
    c.output("not", c.map("not", [vp], ~p))
    for name, f in BITS.items():
        c.output(name, c.map(name, [vp, vq], f(p, q)))
    for name in ("eq", "ne"):
        c.output(name, c.map(name, [vp, vq], COMPARE[name](p, q)))
    c.output("select", c.map("select", [vp, vq, vp], np.where(p, q, p)))


def saturated(x, t):
    limits = np.iinfo(t)
    out = [0 if math.isnan(v) else limits.max if v >= limits.max else limits.min if v <= limits.min
           else int(v) for v in map(float, x)]
    return np.array(out, dtype=t)


def rounded_to_bf16(v):
    """NumPy has no bf16: 8 bits, halves to even, exponents as in f32."""
    if v == 0 or (isinstance(v, float) and not math.isfinite(v)):
        return float(v)
    exact = fractions.Fraction(abs(v))
    exponent = max(math.frexp(exact)[1], -125)
    unit = fractions.Fraction(2) ** (exponent - 8)
    near = round(exact / unit) * unit
    return math.copysign(float(near) if near < 2**128 else math.inf, v)


def casts():
    floats = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.9, -0.9, 1.5, 2.5, -1.5, 127.6, 128.0,
                       -128.9, 255.5, 256.0, 65504.0, 65520.0, 1e-7, 6e-8, 2.98e-8, 2147483647.0,
                       2147483648.0, -2147483649.0, 1e19, -1e19, 1e-40, 3.4e38, 1e39,
                       1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-24, 1 + 2**-11 + 2**-40])
    ints = np.array([0, 1, -1, 127, 128, -129, 255, 256, 300, 2**31 - 1, 2**31, -2**31 - 1, 2**24 + 1,
                     2**53 + 1, 2**62 + 2**38 + 1, 2**63 - 1, -2**63, 2049, 2051, 65519, 65520])
    for source in DTYPES:
        base = floats if source.startswith("f") else ints
        if source == "b1":
            base = np.array([0, 1], dtype=np.bool_)
        x = base.astype(DTYPES[source])
        c = Case(f"cast_{source}")
        v = c.input("x", x)
        for to, t in DTYPES.items():
            if source.startswith("f") and to in INTS:
                want = saturated(x, t)
            else:
                want = x.astype(t)
            c.output(to, c.map("cast", [v], want))
        near = np.array([rounded_to_bf16(e) for e in x.tolist()], dtype=np.float32)
        c.output("bf16", c.emit(near, "cast", [v], dtype="bf16"))


def reductions():
    for t in ("f64", "i32", "u8", "b1"):
        x = rng.normal(size=(3, 4, 5)) if t == "f64" else rng.integers(
            0, 2 if t == "b1" else 256, size=(3, 4, 5))
        c = Case(f"reduce_{t}")
        v = c.input("x", x.astype(DTYPES[t]))
        fns = {"f64": ("add", "mul", "max", "min"), "b1": ("and", "or", "xor")}.get(
            t, ("add", "mul", "max", "min", "and", "or", "xor"))
        for fn, n in itertools.product(fns, range(4)):
            for axes in itertools.combinations(range(3), n):
                c.output(f"{fn}_{''.join(map(str, axes))}", c.reduce(fn, v, axes), 1e-13, 1e-13)
        empty = c.input("empty", np.zeros((2, 0), dtype=DTYPES[t]))
        for fn in fns:
            c.output(f"{fn}_empty", c.reduce(fn, empty, [1]))
    x = np.array([[1.0, np.nan, 3.0], [np.inf, -np.inf, 2.0], [np.inf, 1.0, 2.0]])
    c = Case("reduce_specials")
    v = c.input("x", x)
    for fn in ("add", "max", "min"):
        c.output(fn, c.reduce(fn, v, [1]))


def dots():
    for ta, tb in itertools.product((False, True), repeat=2):
        c = Case(f"dot_{int(ta)}{int(tb)}")
        for i, (batch, m, n, k) in enumerate([((), 3, 4, 5), ((2, 3), 2, 5, 3), ((), 1, 1, 7),
                                              ((), 2, 3, 0), ((0,), 2, 3, 4)]):
            for t in ("f64", "i32"):
                def operand(name, rows, columns, flip):
                    shape = batch + ((columns, rows) if flip else (rows, columns))
                    x = rng.normal(size=shape) if t == "f64" else rng.integers(
                        -2**31, 2**31, size=shape)
                    return c.input(f"{name}{i}{t}", x.astype(DTYPES[t]))
                a, b = operand("a", m, k, ta), operand("b", k, n, tb)
                c.output(f"y{i}{t}", c.dot(a, b, ta, tb), 1e-13, 1e-13)
    c = Case("dot_wider")
    a, b = (c.input(n, rng.integers(-128, 128, size=s).astype(np.int8))
            for n, s in (("a", (3, 9)), ("b", (9, 2))))
    c.output("wrapped", c.dot(a, b))
    c.output("wide", c.dot(a, b, out=np.dtype(np.int32)))


def movement():
    for t in ("f64", "i64", "b1"):
        x = rng.integers(0, 2 if t == "b1" else 1000, size=(3, 4, 5)).astype(DTYPES[t])
        c = Case(f"views_{t}")
        v = c.input("x", x)
        c.output("reshape", c.reshape(v, (6, 10)))
        for axes in itertools.permutations(range(3)):
            c.output("t" + "".join(map(str, axes)), c.transpose(v, axes))
        c.output("slice", c.slice(v, (1, 0, 1), (3, 4, 5), (1, 3, 2)))
        c.output("nothing", c.slice(v, (3, 0, 0), (3, 4, 5), (1, 1, 1)))
        row = c.slice(v, (2, 0, 0), (3, 4, 1), (1, 1, 1))
        c.output("grow", c.broadcast(c.reshape(row, (4, 1)), (2, 4, 3), (1, 2)))
        c.output("scalar", c.broadcast(c.reshape(c.slice(v, (0, 1, 2), (1, 2, 3), (1, 1, 1)), ()),
                                       (2, 2), ()))
        flat = c.reshape(c.transpose(c.slice(v, (0, 1, 0), (3, 4, 5), (2, 1, 1)), (2, 0, 1)), (30,))
        c.output("chain", flat)
        other = c.input("other", x[:, :1])
        for axis, parts in ((1, [v, other, v]), (0, [v, v])):
            joined = np.concatenate([p.array for p in parts], axis=axis)
            c.output(f"concat{axis}", c.emit(joined, "concat", parts, f"{{axis={axis}}}"))
        for kind in (np.int32, np.int64):
            index = np.array([[0, 2, -1], [9, 1, -2**31]], dtype=kind)
            i = c.input(f"i{np.dtype(kind).itemsize}", index)
            for axis in range(3):
                taken = np.take(x, index, axis=axis, mode="clip")
                c.output(f"gather{axis}_{np.dtype(kind).itemsize}",
                         c.emit(taken, "gather", [v, i], f"{{axis={axis}}}"))
    c = Case("iota")
    for axis in range(3):
        for t in ("f64", "i32", "u8"):
            full = np.broadcast_to(np.arange((2, 3, 4)[axis]).reshape(
                [-1 if d == axis else 1 for d in range(3)]), (2, 3, 4)).astype(DTYPES[t])
            c.output(f"{t}_{axis}", c.emit(full, "iota", tail=f"{{axis={axis}}}"))
    long = np.arange(300)
    c.output("wraps", c.emit(long.astype(np.uint8), "iota", tail="{axis=0}"))


def states():
    c = Case("states")
    a, b = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    pa, pb = c.param("a", a), c.param("b", b)
    ra, rb = c.emit(a, "read", [pa]), c.emit(b, "read", [pb])
    na = c.emit(b, "assign", [pa, rb], state=True)
    c.emit(a, "assign", [pb, ra], state=True)
    box = rng.normal(size=(2, 3))
    vbox = c.input("box", box)
    state, array = na, b
    for i, (row, column) in enumerate([(1, 2), (-5, 1), (3, 100)]):
        starts = [c.input(f"s{i}{d}", np.array(s, dtype=np.int32 if d else np.int64))
                  for d, s in enumerate((row, column))]
        array = array.copy()
        r, k = np.clip(row, 0, 2), np.clip(column, 0, 3)
        array[r:r + 2, k:k + 3] = box
        state = c.emit(array, "update", [state, vbox, *starts], state=True)
        c.output(f"after{i}", c.emit(array, "read", [state]))
    c.output("old", ra)


def compositions():
    x = rng.normal(size=(4, 9)) * 3
    c = Case("softmax")
    v = c.input("x", x)
    top = c.broadcast(c.reduce("max", v, [1]), (4, 9), (0,))
    shifted = c.map("sub", [v, top], x - top.array)
    e = c.map("exp", [shifted], np.exp(shifted.array))
    total = c.broadcast(c.reduce("add", e, [1]), (4, 9), (0,))
    y = c.map("div", [e, total], e.array / total.array)
    c.output("y", y, 1e-13, 0, np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))
    c = Case("layer_norm")
    v = c.input("x", x)
    ninth = c.broadcast(c.emit(np.array(1 / 9), "constant", tail=repr(1 / 9)), (4,), ())
    s = c.reduce("add", v, [1])
    mean = c.broadcast(c.map("mul", [s, ninth], s.array * ninth.array), (4, 9), (0,))
    d = c.map("sub", [v, mean], x - mean.array)
    q = c.reduce("add", c.map("mul", [d, d], d.array**2), [1])
    var = c.map("mul", [q, ninth], q.array * ninth.array)
    eps = c.broadcast(c.emit(np.array(1e-5), "constant", tail="1e-05"), (4,), ())
    shifted = c.map("add", [var, eps], var.array + 1e-5)
    r = c.broadcast(c.map("rsqrt", [shifted], 1 / np.sqrt(shifted.array)), (4, 9), (0,))
    y = c.map("mul", [d, r], d.array * r.array)
    want = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    c.output("y", y, 1e-13, 1e-13, want)


def rounded():
    for t in ("f16", "f32"):
        a, b = ((rng.normal(size=40) * 30).astype(DTYPES[t]) for _ in range(2))
        c = Case(f"rounded_{t}", rounding="dtype")
        va, vb = c.input("a", a), c.input("b", b)
        for name in ("add", "sub", "mul", "div"):
            c.output(name, c.map(name, [va, vb], BINARY[name](a, b)))
        c.output("sqrt", c.map("sqrt", [c.map("abs", [va], np.abs(a))], np.sqrt(np.abs(a))))
        p = c.map("mul", [va, vb], a * b)
        c.output("twice", c.map("add", [p, va], a * b + a))
        s = np.array(np.sum(a.astype(np.float64)), dtype=DTYPES[t])
        c.output("sum", c.emit(s, "reduce_add", [va], "{axes=[0]}"))


def scatters():
    for t in ("f64", "i32", "u8", "b1"):
        c = Case(f"scatter_{t}")
        shape = (3, 4, 2)
        def values(size):
            if t == "f64":
                return rng.normal(size=size)
            return rng.integers(0, 2 if t == "b1" else 256, size=size).astype(DTYPES[t])
        x = c.input("x", values(shape))
        fns = {"f64": ("add", "mul", "max", "min", None),
               "b1": ("and", "or", "xor", None)}.get(
                   t, ("add", "mul", "max", "min", "and", "or", "xor", None))
        for k, index in enumerate([np.array([[0, 2, -1, 1], [2, 9, 2, 0]]), np.array(1), np.array([])]):
            for axis in range(3):
                i = c.input(f"i{k}{axis}", index.astype(np.int32 if axis else np.int64))
                u = c.input(f"u{k}{axis}", values(shape[:axis] + index.shape + shape[axis + 1:]))
                for fn in fns:
                    c.output(f"{fn or 'set'}_{k}{axis}", c.scatter(fn, x, i, u, axis), 1e-14)


def philox(counter, key):
    """Philox4x32-10 with Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def randoms():
    few = [0, 1, -1, 7, 2**31, 2**32, 2**32 - 1, -2**63, 2**63 - 1, 0x85a308d3243f6a88 - 2**64]
    seed, launch, index = (np.array(x, dtype=np.int64) for x in zip(
        *itertools.product(few[:6] + [0x299f31d0a4093822], few[:5] + [0x0370734413198a2e], few)))
    words = [philox([i & 0xFFFFFFFF, i >> 32 & 0xFFFFFFFF, l & 0xFFFFFFFF, l >> 32 & 0xFFFFFFFF],
                    [s & 0xFFFFFFFF, s >> 32 & 0xFFFFFFFF])[0]
             for s, l, i in zip(seed.tolist(), launch.tolist(), index.tolist())]
    c = Case("random")
    xs = [c.input(n, x) for n, x in (("seed", seed), ("launch", launch), ("index", index))]
    want = np.array([w >> 8 for w in words]) * 2.0**-24
    c.output("u", c.map("random", xs, want.astype(np.float32)))


def main():
    for build in (float_functions, int_functions, casts, reductions, dots, movement, states,
                  compositions, rounded, scatters, randoms):
        build()
    path = pathlib.Path(__file__).with_name("expected.txt")
    path.write_text("\n".join(c.text() for c in cases) + "\n")


main()
