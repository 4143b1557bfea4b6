"""One peer on one workload, in a process of its own, which prints JSON for `run`.

usage: peer.py PEER WORKLOAD FOLDER [--seconds S] [--cpu] [--build-only] [--turn]
FOLDER holds the weights, inputs and expected outputs that `run` wrote. With --turn it imports and
loads, says so, and waits: building measures what is fast, and needs the machine to itself.
"""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from files import SETS, expected_file
from peers import ALL, JAX, JAX_BUFFERS, Missing
from turns import wait_for_turn
from workloads import BY_NAME


def in_turn(fresh, sets):
    """Each call takes the next set of inputs."""
    at = -1

    def step():
        nonlocal at
        at = (at + 1) % sets
        return fresh(at)

    return step


def check(steps, library, expected):
    """The largest relative error over all sets of inputs, outputs poisoned before each; None where
    nothing is expected, since torch is not installed."""
    from tensors import relative_error
    if not expected:
        return None
    worst = 0.0
    for i, reference in enumerate(expected):
        steps.poison()
        worst = max(worst, relative_error(library.to_numpy(steps.fresh(i)), reference))
    steps.fresh(0)
    steps.poison()
    return max(worst, relative_error(library.to_numpy(steps.same()), expected[0]))


def run_peer(args, my_turn):
    if args.peer in (JAX, JAX_BUFFERS):
        import jax_peer as library
    else:
        import torch_peer as library
    workload = BY_NAME[args.workload]
    library.start(args.peer, workload, args.cpu)
    model, inputs = library.load(args.peer, workload, args.folder)

    my_turn()
    start = time.perf_counter()
    steps = library.build(args.peer, model, inputs)
    library.wait(steps.same())
    result = {"peer": args.peer, "build_s": time.perf_counter() - start}
    if args.build_only:
        return result

    import numpy as np
    files = [expected_file(args.folder, i) for i in range(SETS)]
    expected = [np.load(file) for file in files if file.exists()]
    result["error"] = check(steps, library, expected)
    result["kernels"] = steps.kernels() if steps.kernels else None
    if not args.cpu:
        result["same"] = library.measure(steps.same, args.seconds)
        result["fresh"] = library.measure(in_turn(steps.fresh, SETS), args.seconds)
        after = check(steps, library, expected)
        result["error"] = after if after is None else max(result["error"], after)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=ALL)
    parser.add_argument("workload", choices=list(BY_NAME))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cpu", action="store_true", help="no times: is the output right?")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--turn", action="store_true")
    args = parser.parse_args()
    stdout = sys.stdout

    def my_turn():
        if args.turn:
            with contextlib.redirect_stdout(stdout):
                wait_for_turn()

    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the JSON alone
            result = run_peer(args, my_turn)
    except Missing as why:
        result = {"peer": args.peer, "skipped": str(why)}
    except Exception as why:  # whatever a library throws is the peer's result
        lines = str(why).strip().splitlines()
        result = {"peer": args.peer,
                  "failed": f"{type(why).__name__}: {lines[0] if lines else ''}"[:200]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
