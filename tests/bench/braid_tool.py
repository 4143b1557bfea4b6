"""What the script asks of the `braid` tool. Standard library only."""

import json
import os
import statistics
import subprocess
import time

from files import SETS, input_file, output_file, weights_file

MISMATCH = 5  # the exit code of a bench whose ways to launch disagree


class ToolError(Exception):
    """A call of the tool that failed; the text is its last line on stderr."""


def call(command, cache=None, allowed=(0,), timeout=600):
    environment = dict(os.environ, NO_COLOR="1")
    if cache is not None:
        environment["BRAID_CACHE"] = str(cache)
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env=environment, timeout=timeout)
    except OSError as why:
        raise ToolError(f"{command[0]}: {why.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ToolError(f"no answer in {timeout} s") from None
    if done.returncode not in allowed:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in lines if "error" in line), lines[-1] if lines else "")
        raise ToolError(f"exit code {done.returncode}: {reason}")
    return done


def device(braid):
    """Name and architecture of the GPU, such as ("NVIDIA H200", "sm_90"), or None."""
    for line in call([braid, "env"]).stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "device" and ": " in rest and not rest.strip().startswith("none"):
            name, _, architecture = rest.split(": ", 1)[1].rpartition(", ")
            return name, architecture
    return None


def steps_of(report):
    """How many kernels must follow each other: those on the graphs' critical paths."""
    parts = report["partitions"]["parts"]
    return sum(len(part["critical_path"]["nodes"]) for part in parts if "critical_path" in part)


def plan(braid, model, flags=()):
    """What the script wants to know of a model's plan: types and bytes of params, inputs and
    outputs, graphs, kernels, dependent steps, and the predicted time of a launch."""
    flags = [*flags, "--quiet"]
    program = json.loads(call([braid, "inspect", model, "--format=program", *flags]).stdout)
    report = json.loads(call([braid, "inspect", model, "--format=json", "--show=all",
                              *flags]).stdout)

    def types(bindings):
        buffers = [(b["name"], program["buffers"][b["buffer"]]) for b in bindings]
        return {name: (b["type"]["dtype"], b["type"]["shape"]) for name, b in buffers}

    memory = report["memory"]
    return {
        "params": types(program["params"]),
        "inputs": types(program["inputs"]),
        "outputs": types(program["outputs"]),
        "bytes": memory["params"] + memory["inputs"] + memory["outputs"],
        "graphs": report["partitions"]["graphs"],
        "breaks": report["breaks"]["ops_outside"],
        "kernels": report["launches"],
        "steps": steps_of(report),
        "predicted_us": report["partitions"]["launch"]["us"],
    }


def compile_seconds(braid, model, folder, architecture, flags=(), warm=5):
    """Wall time of `braid compile` in processes of their own, from the text to a file of cubins:
    with an empty cache, and the median with a full one."""
    cache = folder / "braid-cache"
    command = [braid, "compile", model, "-o", folder / "model.braid", "--target", architecture,
               "--quiet", *flags]

    def seconds():
        start = time.perf_counter()
        call(command, cache)
        return time.perf_counter() - start

    return seconds(), statistics.median(seconds() for _ in range(warm))


def bench(braid, model, folder, plan_, seconds, dry, flags=()):
    """The JSON of `braid bench`, with fresh inputs. Writes an output for each set of inputs."""
    command = [braid, "bench", model, "--json", "--quiet", "--fresh", SETS, "--seconds", seconds,
               *flags]
    if plan_["params"]:
        command += ["--weights", weights_file(folder)]
    output, = plan_["outputs"]
    for i in range(SETS):
        for name in plan_["inputs"]:
            command += ["--input", f"{name}=@{input_file(folder, name, i)}"]
        command += ["--output", f"{output}=@{output_file(folder, i)}"]
    if dry:
        command.append("--dry")
    done = call(command, folder / "braid-cache", allowed=(0, MISMATCH))
    return json.loads(done.stdout)
