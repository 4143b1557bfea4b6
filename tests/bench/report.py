"""The floor of a workload, and the table. Standard library only."""

# Rates of one H200. Products: NVIDIA's data sheet of the H200 SXM, dense (67 TFLOP/s of FP32; 1979
# TFLOP/s of FP16 and BF16 are with sparsity, half of that without). Bytes, edges and launches are
# measured: copies on the device, chains of empty kernels, graphs of one kernel back to back.
SCHEMA = "braid.compare/1"

RATES = {
    "copy": 4.3e12,  # bytes a second
    "f32": 67e12,  # operations a second
    "tensor": 989e12,  # the same, f16 and bf16 by tensor cores
    "edge": 0.4,  # us from one kernel to the next
    "launch": 2.0,  # us for each graph
}


def floors(entry, rates):
    """The three bounds of a workload's step in us: no step of this plan is shorter."""
    return {
        "bytes": entry["bytes"] / rates["copy"] * 1e6,
        "operations": entry["operations"] / rates[entry["unit"]] * 1e6,
        "steps": entry["steps"] * rates["edge"] + entry["graphs"] * rates["launch"],
    }


def floor(entry, rates):
    """The largest bound, and its name."""
    bounds = floors(entry, rates)
    name = max(bounds, key=bounds.get)
    return bounds[name], name


def is_wrong(result, tolerance):
    """Whether a result was checked and is not within the tolerance; not a number is wrong."""
    error = result.get("error")
    return error is not None and not error <= tolerance


def usable_peers(entry, inputs):
    return [peer for peer in entry["peers"]
            if peer.get(inputs) and not is_wrong(peer, entry["tolerance"])]


def number(x, digits=1):
    return "-" if x is None else f"{x:.{digits}f}"


HEADER = ["workload", "inputs", "Braid", "l+s", "best peer", "peer", "l+s", "ratio", "floor", "by",
          "kernels", "cold s", "warm ms", "error"]


def row(entry, inputs, rates):
    """One line of the table: a workload with the same inputs again or with fresh ones."""
    braid = entry["braid"]
    ours = braid.get(inputs) or {}
    step = ours.get("step_us")
    peers = usable_peers(entry, inputs)
    best = min(peers, key=lambda p: p[inputs]["step_us"], default=None)
    peer_step = best[inputs]["step_us"] if best else None
    bound, name = floor(entry, rates) if "bytes" in entry else (None, "-")
    cells = [entry["name"], inputs, number(step), number(ours.get("latency_us")),
             best["peer"] if best else "-", number(peer_step),
             number(min((p[inputs]["latency_us"] for p in peers), default=None)),
             number(step / peer_step if step and peer_step else None, 2), number(bound), name]
    if inputs == "fresh":
        return cells + ["", "", "", ""]
    error = braid.get("error")
    warm = braid.get("warm_s")
    return cells + [str(entry.get("kernels", "-")), number(braid.get("cold_s"), 2),
                    number(warm and warm * 1e3, 0), "-" if error is None else f"{error:.1e}"]


def remarks(entry):
    """What the row does not show: results that are wrong, and why others are missing."""
    found = []
    for who, result in [("Braid", entry["braid"])] + [(p["peer"], p) for p in entry["peers"]]:
        if "failed" in result:
            found.append(f"{entry['name']}: {who} failed: {result['failed']}")
        elif "left_out" in result:
            found.append(f"{entry['name']}: {who} was not run: {result['left_out']}")
        elif is_wrong(result, entry["tolerance"]):
            found.append(f"{entry['name']}: {who} is WRONG: relative error {result['error']:.1e}, "
                         f"allowed {entry['tolerance']:.0e}")
        if result.get("differs"):
            found.append(f"{entry['name']}: {who} is WRONG: {result['differs']}")
    return found


def skipped(entries):
    """A line for each reason why peers were not run."""
    reasons = {}
    for entry in entries:
        for peer in entry["peers"]:
            if "skipped" in peer:
                reasons.setdefault(peer["skipped"], {})[peer["peer"]] = None
    return [f"not run: {', '.join(peers)}: {why}" for why, peers in reasons.items()]


def table(result, rates=None):
    """The whole text of a result of `run`."""
    rates = rates or result["rates"]
    rows = [HEADER]
    for entry in result["workloads"]:
        rows += [row(entry, inputs, rates) for inputs in ("same", "fresh")]
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEADER))]
    left = {0, 1, 4, 9}
    lines = [f"{result['device']}, medians in us"]
    for cells in rows:
        lines.append("  ".join(c.ljust(w) if i in left else c.rjust(w)
                               for i, (c, w) in enumerate(zip(cells, widths))).rstrip())
    for entry in result["workloads"]:
        lines += remarks(entry)
    lines += skipped(result["workloads"])
    unchecked = [e["name"] for e in result["workloads"]
                 if "failed" not in e["braid"] and e["braid"].get("error") is None]
    if unchecked:
        lines.append(f"not checked: {', '.join(unchecked)}" + (f" ({result['unchecked']})"
                                                               if result.get("unchecked") else ""))
    return "\n".join(lines) + "\n"


def exit_code(result):
    """1 if a result is wrong or Braid has none, else 0."""
    for entry in result["workloads"]:
        results = [entry["braid"], *entry["peers"]]
        if "failed" in entry["braid"] or any(r.get("differs") for r in results):
            return 1
        if any(is_wrong(r, entry["tolerance"]) for r in results):
            return 1
    return 0
