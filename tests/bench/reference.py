"""Expected outputs: the models of torch_models.py in float64 on the CPU.

usage: reference.py WORKLOAD=FOLDER...   writes FOLDER/expected.I.npy; needs torch
"""

import json
import sys
from pathlib import Path

import numpy as np

import torch_peer
from files import expected_file
from workloads import BY_NAME


def main():
    torch_peer.start(torch_peer.EAGER, None, cpu=True)
    import torch
    import torch_models
    torch.backends.mha.set_fastpath_enabled(False)
    for word in sys.argv[1:]:
        name, folder = word.split("=", 1)
        folder = Path(folder)
        types = json.loads((folder / "plan.json").read_text())["inputs"]
        values, inputs = torch_peer.load_tensors(folder, types, "cpu", wide=True)
        model = torch_models.BY_KIND[BY_NAME[name].kind](values).eval()
        for i, x in enumerate(inputs):
            np.save(expected_file(folder, i), torch_peer.to_numpy(model(*x)))


if __name__ == "__main__":
    main()
