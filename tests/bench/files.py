"""Where the tensors of a workload stand in its folder. Standard library only."""

SETS = 4  # of inputs, which take turns where every launch gets others


def weights_file(folder):
    return folder / "weights.safetensors"


def input_file(folder, name, index):
    return folder / f"input.{name}.{index}.npy"


def expected_file(folder, index):
    """What float64 gives for a set of inputs."""
    return folder / f"expected.{index}.npy"


def output_file(folder, index):
    """What Braid gives for it."""
    return folder / f"output.{index}.npy"
