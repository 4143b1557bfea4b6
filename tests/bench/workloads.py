"""What is measured: models, and what peers must know of them. Standard library only."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parent.parent / "examples"


def products(*sizes):
    """Operations of matrix products of m x k by k x n, each given as (m, k, n)."""
    return sum(2 * m * k * n for m, k, n in sizes)


def perceptron(rows, *widths):
    return products(*((rows, k, n) for k, n in zip(widths, widths[1:])))


@dataclass(frozen=True)
class Workload:
    name: str
    model: Path  # the .toml file
    kind: str  # which class of torch_models.py, and which function of jax_models.py
    unit: str  # the unit whose rate bounds its products: f32 or tensor
    tolerance: float  # of the relative error against float64
    operations: int  # of its products and sums; what is pointwise does not count


ENCODER_LAYER = products((32, 384, 3 * 384), (32, 384, 384), (32, 384, 1536), (32, 1536, 384))
ENCODER_ATTENTION = 2 * products((32, 384, 32))
GPT2_LAYER = perceptron(1, 768, 3 * 768) + perceptron(1, 768, 768, 4 * 768, 768)
GPT2_ATTENTION = 2 * products((1, 768, 128))
DLRM = (
    perceptron(128, 13, 512, 256, 128)
    + 128 * products((27, 128, 27))
    + perceptron(128, 479, 1024, 1024, 512, 256, 1)
)

# The tolerances are those of the dtypes: f32 products are strict.
WORKLOADS = [
    Workload("mlp_f32", EXAMPLES / "mlp.toml", "Mlp", "f32", 1e-5, perceptron(128, 256, 256, 16)),
    Workload("mlp_bf16", EXAMPLES / "mlp_bf16.toml", "Mlp", "tensor", 1e-2,
             perceptron(128, 256, 256, 16)),
    Workload("branch_64", FOLDER / "models/branch_64.toml", "Branch", "f32", 1e-5,
             perceptron(1, 64, 64, 64, 64)),
    Workload("copysum_1024", FOLDER / "models/copysum_1024.toml", "Sum", "f32", 1e-5, 1024 * 1024),
    Workload("towers_8x4", EXAMPLES / "towers.toml", "Towers", "f32", 1e-5,
             8 * perceptron(32, 256, 256, 256, 256, 256) + perceptron(32, 2048, 16)),
    Workload("randwire_32", EXAMPLES / "randwire.toml", "RandWire", "f32", 1e-5,
             32 * perceptron(32, 256, 256)),
    Workload("dlrm_b128", FOLDER / "models/dlrm_b128.toml", "Dlrm", "f32", 1e-5, DLRM),
    Workload("encoder_384x6", FOLDER / "models/encoder_384x6.toml", "Encoder", "tensor", 1e-2,
             6 * (ENCODER_LAYER + ENCODER_ATTENTION)),
    Workload("gpt2_decode_bf16", FOLDER / "models/gpt2_decode_bf16.toml", "Gpt2", "tensor", 2e-2,
             12 * (GPT2_LAYER + GPT2_ATTENTION) + perceptron(1, 768, 50257)),
]
NAMES = [w.name for w in WORKLOADS]
BY_NAME = {w.name: w for w in WORKLOADS}

# What each node of examples/randwire.toml reads; node 0 reads the input. The outputs are the nodes
# that no other reads.
RANDWIRE_INPUTS = [
    [], [0], [1], [0, 2], [0, 1], [1, 2, 3], [4], [0, 5], [2, 6], [2, 7], [4], [3, 4, 5], [7],
    [7, 11], [8, 10], [8, 10], [10, 14], [14], [11, 12, 17], [16], [12, 16], [14, 15], [17, 18],
    [17, 18], [16, 18, 23], [22], [18, 21, 22], [23, 25], [27], [23], [23, 28], [25, 30],
]
RANDWIRE_OUTPUTS = sorted(set(range(32)) - {j for inputs in RANDWIRE_INPUTS for j in inputs})
