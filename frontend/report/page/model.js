// What the page knows: a Program as JSON, linked up and in estimated time.

/** "h (add)" is what people call h. */
function opName(op) {
  return op.replace(/ \([^()]*\)$/, "");
}

/** What a kernel is called: by its last op, and how many copies of it one launch computes. */
function nodeName(n) {
  const name = n.ops.length > 0 ? opName(n.ops[n.ops.length - 1]) : n.key;
  return n.kernel.parts > 1 ? `${name} x${n.kernel.parts}` : name;
}

/** A kernel's symbol without the hash of its body. */
function shortSymbol(symbol) {
  return symbol.replace(/_[0-9a-f]{8}$/, "");
}

/** As in every dump: g0 for a graph, s1 for kernels launched one by one. */
function bodyName(body, b) {
  return `${body.stream ? "s" : "g"}${b}`;
}

/** What the host does for a call in one step of the script, with the tensors that cross. */
function stepText(doc, [kind, index]) {
  if (kind === "region") {
    const { op, loop } = doc.regions[index];
    return `read whether ${op} ${loop ? "goes on, and follow its body while it does" : "is so, and follow a side"}`;
  }
  const names = (views) =>
    views.map((v) => opName(doc.buffers[doc.views[v][0]].name)).join(", ") || "nothing";
  const call = doc.calls[index];
  if (kind === "read") return `start to copy ${names(call.args)} to the host`;
  if (kind === "wait") return `wait for ${names(call.args)}`;
  if (kind === "call") return `call ${call.function} (c${index})`;
  return `copy ${names(call.results)} to the device`;
}

/**
 * When every body and call of the script runs, in microseconds from its first step. Device work is
 * one stream and waits for the host only where the script does; a call takes `break_us`, because
 * nobody can estimate what it does. A loop that the host drives runs once here, and a branch one
 * side after the other.
 */
function schedule(doc) {
  const steps = doc.script.length > 0 ? doc.script : doc.bodies.map((_, b) => ["launch", b]);
  const starts = new Map();
  const host = [];
  const copied = new Map();
  let now = 0;
  let device = 0;
  const follow = ([kind, index]) => {
    if (kind === "region") {
      const until = Math.max(now, device);
      host.push({ kind: "decide", region: index, start: now, end: until });
      now = until;
      for (const script of doc.regions[index].scripts) script.forEach(follow);
    } else if (kind === "launch") {
      const start = Math.max(now, device);
      starts.set(index, start);
      device = start + doc.bodies[index].predicted_us;
    } else if (kind === "read") {
      copied.set(index, Math.max(now, device));
    } else if (kind === "wait") {
      const until = Math.max(now, copied.get(index) ?? device);
      if (until > now) host.push({ kind, call: index, start: now, end: until });
      now = until;
    } else if (kind === "call") {
      host.push({ kind, call: index, start: now, end: now + doc.break_us });
      now += doc.break_us;
    } else {
      device = Math.max(device, now);
    }
  };
  steps.forEach(follow);
  return { starts, host, end: Math.max(now, device) };
}

/** Which copy of which repeat a kernel belongs to, by the op that it ends with. */
function copiesOf(ops, repeats) {
  const name = ops.length > 0 ? opName(ops[ops.length - 1]) : "";
  const copies = [];
  for (let r = 0; r < repeats.length; r++) {
    if (!name.startsWith(repeats[r].prefix)) continue;
    const number = /^\d+(?=\/|$)/.exec(name.slice(repeats[r].prefix.length));
    if (number && Number(number[0]) < repeats[r].count) copies.push([r, Number(number[0])]);
  }
  return copies;
}

/** Bodies of a conditional node stand after the one that holds it, and begin when it does. */
function linkNodes(model, doc, starts) {
  const owners = new Map();
  doc.bodies.forEach((body, b) => {
    const first = model.nodes.length;
    const base = starts.get(b) ?? 0;
    const last = []; // of each lane
    const info = { index: b, first, start: base, end: base + body.predicted_us, owner: owners.get(b), ...body };
    body.nodes.forEach((n, i) => {
      const fullKey = `${bodyName(body, b)}.n${i}`;
      const key = doc.bodies.length > 1 ? fullKey : `n${i}`;
      const conditional = n.kernel === null ? doc.regions[n.region] : null;
      model.nodes.push({
        ...n, id: first + i, key, fullKey, body: info, start: base + n.start, end: base + n.start + n.us,
        kernel: conditional ? regionAsKernel(doc, n.region) : doc.kernels[n.kernel],
        kernelIndex: conditional ? doc.kernels.length + n.region : n.kernel,
        conditional, guarded: !conditional && n.region !== undefined, into: [], outOf: [],
        copies: copiesOf(n.ops, doc.repeats),
      });
      const node = model.nodes[first + i];
      node.before = last[n.lane] ?? null;
      last[n.lane] = node;
      info.end = Math.max(info.end, node.end);
      for (const side of conditional?.bodies ?? []) {
        owners.set(side, node);
        starts.set(side, node.start);
      }
    });
    for (const [from, to, reason, buffer, kind] of body.edges) {
      const edge = {
        from: model.nodes[first + from], to: model.nodes[first + to], reason,
        buffer: buffer ?? null, kind: kind ?? "full",
      };
      edge.from.outOf.push(edge);
      edge.to.into.push(edge);
      model.edges.push(edge);
    }
    model.bodies.push(info);
  });
}

/** Who touches each buffer, and the time from the first of them to the last. */
function linkBuffers(model, doc) {
  model.buffers = doc.buffers.map((b, id) => ({
    ...b, id, writers: [], readers: [], calls: [], start: Infinity, end: -Infinity,
  }));
  const touch = (view, start, end) => {
    const buffer = model.buffers[doc.views[view][0]];
    buffer.start = Math.min(buffer.start, start);
    buffer.end = Math.max(buffer.end, end);
    return buffer;
  };
  for (const n of model.nodes) {
    n.args.forEach((view, slot) => {
      const role = n.kernel.args[slot]?.[1] ?? "in";
      const buffer = touch(view, n.start, n.end);
      if (role !== "in") buffer.writers.push(n);
      if (role !== "out") buffer.readers.push(n);
    });
  }
  for (const h of model.host) {
    if (h.kind !== "call") continue;
    const call = doc.calls[h.call];
    for (const view of [...call.args, ...call.results]) {
      touch(view, h.start, h.end).calls.push(h);
    }
  }
}

function load(doc) {
  const { starts, host, end } = schedule(doc);
  const model = { doc, nodes: [], edges: [], bodies: [], host, end };
  linkNodes(model, doc, starts);
  linkBuffers(model, doc);
  for (const b of model.bodies) model.end = Math.max(model.end, b.end);
  placeRows(model);
  model.hostRow = host.length > 0;
  model.text = model.nodes.map((n) =>
    [n.fullKey, ...n.ops, n.kernel.symbol, n.place].join("\n").toLowerCase());
  return model;
}

/** The nodes that decide when each body ends: from the last one back, each time by the latest source. */
function criticalPath(model) {
  const path = new Set();
  for (const body of model.bodies) {
    const nodes = model.nodes.slice(body.first, body.first + body.nodes.length);
    let node = nodes.reduce((a, b) => (a && a.end >= b.end ? a : b), null);
    while (node) {
      path.add(node);
      node = node.into.reduce((a, e) => (a && a.end >= e.from.end ? a : e.from), null);
    }
  }
  return path;
}

/** Ids of the nodes whose key, ops, kernel or place hold every word. */
function findNodes(model, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter((w) => w !== "");
  if (wanted.length === 0) return null;
  const exact = model.nodes.find((n) => n.key === wanted[0] || n.fullKey === wanted[0]);
  if (exact && wanted.length === 1) return [exact.id];
  return model.nodes.filter((n) => wanted.every((w) => model.text[n.id].includes(w)))
    .map((n) => n.id);
}
