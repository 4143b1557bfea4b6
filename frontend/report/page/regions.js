// Branches and loops that are left in the plan: where their sides are drawn, and what is said of
// them.

/** What a region is called: "WHILE node", "guarded kernels", "branch by the host". */
function regionKind(region) {
  if (region.kind === "predicate") return "guarded kernels";
  if (region.kind === "host") return `${region.loop ? "loop" : "branch"} by the host`;
  return `${region.loop ? "WHILE" : region.flag_type === "b1" ? "IF" : "SWITCH"} node`;
}

/** "where r1 is true": when a side runs. */
function sideText(doc, r, side) {
  const region = doc.regions[r];
  if (region.loop) return `the body of r${r}`;
  return `where r${r} is ${region.flag_type === "b1" ? side === 1 : side}`;
}

/** A conditional node stands where a kernel would, with its region's slots as arguments. */
function regionAsKernel(doc, r) {
  const region = doc.regions[r];
  return { symbol: regionKind(region), family: "branches and loops", parts: 1, flops: 0, bytes: 0,
    args: region.slots };
}

/** "7 kernels, 1 conditional node": what a graph holds. */
function nodesText(body) {
  const conditional = body.nodes.filter((n) => n.kernel === null).length;
  const kernels = plural(body.nodes.length - conditional, "kernel");
  return conditional > 0 ? `${kernels}, ${plural(conditional, "conditional node")}` : kernels;
}

/** Predicted microseconds of one launch, without host functions, and if each graph had one stream. */
function totals(doc) {
  const sum = { predicted: 0, chain: 0 };
  const steps = doc.script.length > 0 ? doc.script : doc.bodies.map((_, b) => ["launch", b]);
  for (const [kind, index] of steps) {
    if (kind === "launch") {
      sum.predicted += doc.bodies[index].predicted_us;
      sum.chain += doc.bodies[index].chain_us;
    } else if (kind === "region") {
      sum.predicted += doc.regions[index].us;
      sum.chain += doc.regions[index].us;
    }
  }
  return sum;
}

/**
 * The row of every node: a body's streams, and below them those of the sides of its conditional
 * nodes, which begin when the node does. Sides that are drawn at the same time share no row.
 */
function placeRows(model) {
  const sizes = new Map();
  const sizeOf = (body) => {
    const size = { height: body.lanes, end: body.end, below: [] };
    const placed = [];
    for (const n of model.nodes.slice(body.first, body.first + body.nodes.length)) {
      if (!n.conditional) continue;
      const sides = n.conditional.bodies.map((b) => model.bodies[b]);
      const block = { start: n.start, end: n.end, low: body.lanes, height: 0 };
      for (const side of sides) {
        sizes.set(side, sizeOf(side));
        block.height += sizes.get(side).height;
        block.end = Math.max(block.end, sizes.get(side).end);
      }
      const clash = () => placed.find((p) => p.start < block.end && block.start < p.end &&
        p.low < block.low + block.height && block.low < p.low + p.height);
      for (let p = clash(); p; p = clash()) block.low = p.low + p.height;
      placed.push(block);
      size.below.push({ sides, low: block.low });
      size.height = Math.max(size.height, block.low + block.height);
      size.end = Math.max(size.end, block.end);
    }
    return size;
  };
  const place = (body, row) => {
    body.row = row;
    for (const n of model.nodes.slice(body.first, body.first + body.nodes.length)) n.row = row + n.lane;
    for (const { sides, low } of sizes.get(body).below) {
      let at = row + low;
      for (const side of sides) {
        place(side, at);
        at += sizes.get(side).height;
      }
    }
  };
  model.lanes = 1;
  model.rows = 1;
  for (const body of model.bodies) {
    if (body.owner) continue;
    sizes.set(body, sizeOf(body));
    model.lanes = Math.max(model.lanes, body.lanes);
    model.rows = Math.max(model.rows, sizes.get(body).height);
    place(body, 0);
  }
}

/** What a node has to do with branches and loops, as terms and what they are. */
function regionFacts(panel, n) {
  const { doc } = panel.model;
  const out = [];
  if (n.guarded) {
    const region = doc.regions[n.region];
    out.push(["guard", `runs ${sideText(doc, n.region, n.branch)}: ${region.op}`]);
  }
  if (n.body.region !== undefined) {
    const inside = `${sideText(doc, n.body.region, n.body.branch)}: `;
    const owner = n.body.owner;
    out.push(["inside", owner ? el("span", {}, inside, panel.nodeLink(owner))
      : inside + doc.regions[n.body.region].op]);
  }
  if (n.conditional) {
    out.push(["why", n.conditional.why]);
    if (n.conditional.unrolled > 1) out.push(["unrolled", `${n.conditional.unrolled} iterations a run`]);
  }
  return out;
}

/** The sides of a conditional node, each as a link to its first kernel. */
function sidesSection(panel, n) {
  const { model } = panel;
  const r = n.region;
  return section("Sides", listed(n.conditional.bodies, (b) => {
    const body = model.bodies[b];
    const text = `${bodyName(body, b)}, ${sideText(model.doc, r, body.branch)}`;
    const what = body.nodes.length > 0
      ? `${nodesText(body)}, ${body.predicted_us.toFixed(2)} us` : "nothing to do";
    const first = model.nodes[body.first];
    return el("span", {}, body.nodes.length === 0 ? text
      : linkTo(first.key, () => panel.choose({ kind: "node", id: first.id }), text),
    el("small", {}, ` ${what}`));
  }));
}

/** The tab's cards of what became of branches and loops. */
function regionCards(model) {
  const { doc } = model;
  const card = (name, op, place, texts) => el("li", {}, el("b", {}, name), " ",
    el("span", { class: "mono" }, op), el("small", {}, ` ${place}`),
    ...texts.filter((t) => t).map((t) => el("p", {}, t)));
  const left = doc.regions.map((r, i) => card(`r${i}, ${regionKind(r)}`, r.op, r.place, [
    r.region === null ? null : sideText(doc, r.region, r.branch),
    `${r.us.toFixed(1)} us${r.loop ? " a run of its body" : ""}`, r.why]));
  const gone = doc.dissolved.map((d) => card(
    d.lowering === "unroll" ? `unrolled, ${plural(d.copies, "copy").replace("copys", "copies")}` : "select",
    d.op, d.place, [d.why]));
  return [...left, ...gone];
}

/** The tab's list of host functions that run while their graph does. */
function exchangeCards(doc) {
  return doc.exchanges.map((x) => el("li", {}, el("b", {}, x.function), ` by ${x.way}`,
    el("small", {}, ` ${x.place}`), el("p", {}, `${x.op}${x.pure ? "; pure" : ""}`), el("p", {}, x.why)));
}

/** The tab's list of what a launch tells the host. */
function messageCards(doc) {
  // The last send of a launch may be there for that alone.
  const told = doc.messages.filter((m) => m.kind !== "check" || m.text !== "");
  return told.map((m) => el("li", {}, el("b", {}, m.kind), " ", el("span", { class: "mono" }, m.text),
    el("small", {}, ` ${m.place}`),
    el("p", {}, `${m.kind === "check" ? "a count of elements" : m.type}` +
      `${m.loops > 0 ? `, with ${plural(m.loops, "iteration number")}` : ""}; ${m.op}`)));
}

/** A script as a list: sides of what the host drives are lists in it. */
function scriptList(doc, script, step) {
  return el("ol", {}, ...script.map(([kind, index]) => {
    if (kind !== "region") return el("li", {}, step([kind, index]));
    const region = doc.regions[index];
    return el("li", {}, stepText(doc, [kind, index]),
      ...region.scripts.map((side, s) => el("div", { class: "side" },
        el("small", {}, region.loop ? "each time" : sideText(doc, index, s)), scriptList(doc, side, step))));
  }));
}
