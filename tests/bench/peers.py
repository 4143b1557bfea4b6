"""The peers' names, and what their modules share. Standard library only."""

import statistics
import time

EAGER, GRAPH = "torch eager", "torch.cuda.graph"
REDUCED, TUNED = "torch.compile reduce-overhead", "max-autotune in torch.cuda.graph"
JAX, JAX_BUFFERS = "jax.jit", "jax.jit in command buffers"
# `fast` leaves out what compiles for minutes.
FAST = [EAGER, GRAPH, REDUCED, JAX]
ALL = [EAGER, GRAPH, REDUCED, TUNED, JAX, JAX_BUFFERS]
ON_CPU = [EAGER, JAX]


class Missing(Exception):
    """A peer that cannot be had here; the text says why."""


class Steps:
    """A built model. `same` runs it again on the first inputs, `fresh(i)` on set i: its inputs come
    from elsewhere each time. Both return the output, which may be overwritten by the next step."""

    def __init__(self, same, fresh, poison=lambda: None, kernels=None):
        self.same, self.fresh, self.poison, self.kernels = same, fresh, poison, kernels


def medians(run_batch, run_one, seconds):
    """As `braid bench` measures: batches of about 2 ms back to back, then single steps."""
    run_one()
    start = time.perf_counter()
    for _ in range(20):
        run_one()
    estimate = max(1.0, (time.perf_counter() - start) * 1e6 / 20)
    size = min(200, max(1, int(2000 / estimate)))

    def sample(measure, least):
        values, end = [], time.perf_counter() + seconds / 2
        while time.perf_counter() < end or len(values) < least:
            values.append(measure())
        return statistics.median(values)

    step = sample(lambda: run_batch(size), 21)
    return {"step_us": step, "latency_us": sample(run_one, 50)}
