// Words beside the drawing: what is pointed at, what is chosen, and what keeps ops out of graphs.
// Names come from models: they only ever become text, never markup.

const MOST_ITEMS = 200;

/** An element with attributes, event handlers and children; strings become text. */
function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

/** A link within the page; its address can be copied. */
function linkTo(key, follow, ...children) {
  return el("a", {
    href: `#select=${key}`,
    onclick: (e) => {
      e.preventDefault();
      follow();
    },
  }, ...children);
}

/** Terms and what they are; those without a value are left out. */
function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [term, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(el("dt", {}, term), el("dd", {}, value));
  }
  return list;
}

function listed(items, make) {
  const list = el("ul", {}, ...items.slice(0, MOST_ITEMS).map((i) => el("li", {}, make(i))));
  if (items.length > MOST_ITEMS) list.append(el("li", {}, `and ${items.length - MOST_ITEMS} more`));
  return list;
}

function section(title, ...children) {
  return el("section", {}, el("h3", {}, title), ...children);
}

const plural = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const dims3 = (d) => d.slice(0, d[2] !== 1 ? 3 : d[1] !== 1 ? 2 : 1).join(" x ");

function launchText(kernel) {
  if (!kernel.grid) return null;
  const shared = kernel.shared > 0 ? `, ${bytesText(kernel.shared)} shared` : "";
  const parts = kernel.parts > 1 ? `, ${kernel.parts} parts` : "";
  return `grid ${dims3(kernel.grid)}, block ${dims3(kernel.block)}${shared}${parts}`;
}

function numberText(n) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n >= size) return `${(n / size).toFixed(1)} ${unit}`;
  }
  return String(n);
}

/** Shown while the pointer rests on something. */
function tipOf(model, what) {
  if (what.kind === "node") return nodeTip(model, model.nodes[what.id]);
  if (what.kind === "buffer") return bufferTip(model.buffers[what.id]);
  if (what.kind === "call") {
    const call = model.doc.calls[what.id];
    return [el("b", {}, `host function ${call.function}`), el("div", {}, call.op),
      el("div", { class: "dim" }, call.place)];
  }
  const r = model.doc.repeats[what.id];
  return [el("b", {}, `${r.prefix}0 .. ${r.prefix}${r.count - 1}`),
    el("div", {}, "copies of one block; click to open them")];
}

function nodeTip(model, n) {
  const few = n.ops.slice(-8);
  const names = (wanted) => n.args
    .filter((_, slot) => (n.kernel.args[slot]?.[1] ?? "in") !== wanted)
    .map((v) => opName(model.buffers[model.doc.views[v][0]].name)).slice(0, 6).join(", ");
  return [
    el("b", {}, `${n.key}  ${n.kernel.symbol}`),
    el("div", {}, `${n.us.toFixed(2)} us, from ${n.start.toFixed(2)} us, stream ${n.lane}`),
    n.ops.length > 8 ? el("div", { class: "dim" }, `${n.ops.length - 8} ops before`) : null,
    ...few.map((op) => el("div", { class: "mono" }, op)),
    n.conditional ? null : el("div", {}, launchText(n.kernel)),
    n.guarded ? el("div", {}, `runs ${sideText(model.doc, n.region, n.branch)}`) : null,
    n.body.region === undefined ? null : el("div", {}, sideText(model.doc, n.body.region, n.body.branch)),
    el("div", { class: "dim" }, `reads ${names("out") || "nothing"}; writes ${names("in")}`),
    n.place ? el("div", { class: "dim" }, n.place) : null,
  ].filter((x) => x);
}

function bufferTip(b) {
  return [
    el("b", {}, b.name),
    el("div", {}, `${b.type}, ${bytesText(b.bytes)} at ${b.offset}`),
    el("div", {}, `lives from ${b.start.toFixed(2)} to ${b.end.toFixed(2)} us`),
    el("div", { class: "dim" },
      `${plural(b.writers.length, "writer")}, ${plural(b.readers.length, "reader")}`),
  ];
}

class Panel {
  constructor(root, model, choose) {
    Object.assign(this, { root, model, choose });
  }

  nodeLink(n, note = "") {
    return el("span", {},
      linkTo(n.key, () => this.choose({ kind: "node", id: n.id }), el("b", {}, n.key), ` ${nodeName(n)}`),
      note ? el("small", {}, ` ${note}`) : null);
  }

  bufferLink(id, text) {
    return linkTo(`b${id}`, () => this.choose({ kind: "buffer", id }), text);
  }

  show(selected) {
    this.root.classList.toggle("chosen", Boolean(selected));
    const close = el("button", { class: "close", title: "Let go (Escape)", "aria-label": "Let go",
      onclick: () => this.choose(null) }, "\u00d7");
    const parts = {
      node: (id) => this.ofNode(this.model.nodes[id]),
      buffer: (id) => this.ofBuffer(this.model.buffers[id]),
      call: (id) => this.ofCall(this.model.doc.calls[id]),
    };
    if (selected) this.root.replaceChildren(close, ...parts[selected.kind](selected.id));
    else this.root.replaceChildren(...this.ofProgram());
    this.root.scrollTop = 0;
  }

  edgeNote(e) {
    const buffer = e.buffer !== null ? ` ${opName(this.model.buffers[e.buffer].name)}` : "";
    return `${e.reason}${buffer}${e.kind === "full" ? "" : `, ${e.kind}`}`;
  }

  argument(n, view, slot) {
    const [id, offset, type] = this.model.doc.views[view];
    const [name, role] = n.kernel.args[slot] ?? ["", "in"];
    const b = this.model.buffers[id];
    const at = b.segment === "temp" ? `at ${b.offset + offset}` : b.segment;
    const old = role === "out" ? this.overwritten(n, b, offset) : null;
    const where = old ? `${at}, in place of ${opName(old.name)}` : at;
    return el("span", {}, el("b", {}, `${role} ${name}: `), this.bufferLink(id, b.name),
      el("small", {}, ` ${type ?? b.type}, ${where}`));
  }

  /** The buffer that the kernel reads at the very bytes where it writes `b`. */
  overwritten(n, b, offset) {
    const same = n.args.find((view, slot) => {
      const [id, from] = this.model.doc.views[view];
      const other = this.model.buffers[id];
      return n.kernel.args[slot]?.[1] === "in" && b.segment === "temp" && other.segment === "temp" &&
        other.offset + from === b.offset + offset;
    });
    return same === undefined ? null : this.model.buffers[this.model.doc.views[same][0]];
  }

  ofNode(n) {
    const k = n.kernel;
    const levels = n.earliest === n.latest ? `${n.level}` : `${n.level} (possible: ${n.earliest} to ${n.latest})`;
    return [
      el("h2", {}, `${n.key} ${nodeName(n)}`),
      facts([
        [n.conditional ? "node" : "kernel", k.symbol],
        ["place", n.place],
        ["time", `${n.us.toFixed(3)} us, from ${n.start.toFixed(3)} to ${n.end.toFixed(3)} us`],
        ["stream", `${n.lane} of ${bodyName(n.body, n.body.index)}, run ${levels}`],
        ["launch", launchText(k)],
        ["work", n.conditional ? null : `${numberText(k.flops)} flops, ${bytesText(k.bytes)} moved`],
        ...regionFacts(this, n),
      ]),
      n.conditional ? sidesSection(this, n) : null,
      section(plural(n.ops.length, "op"), listed(n.ops, (op) => el("span", { class: "mono" }, op))),
      section("Arguments", listed(n.args.map((v, i) => [v, i]), ([v, i]) => this.argument(n, v, i))),
      section("Waits for", n.into.length > 0
        ? listed(n.into, (e) => this.nodeLink(e.from, this.edgeNote(e)))
        : el("p", {}, "nothing: it may start with its graph")),
      section("Leads to", n.outOf.length > 0
        ? listed(n.outOf, (e) => this.nodeLink(e.to, this.edgeNote(e)))
        : el("p", {}, "nothing in its graph needs it")),
    ].filter((x) => x);
  }

  ofBuffer(b) {
    return [
      el("h2", {}, b.name),
      facts([
        ["kind", b.segment],
        ["type", b.type],
        ["bytes", `${b.bytes.toLocaleString("en")} (${bytesText(b.bytes)})`],
        ["offset", b.segment === "temp" ? `${b.offset.toLocaleString("en")} in the arena` : null],
        ["time", b.end >= b.start ? `from ${b.start.toFixed(2)} to ${b.end.toFixed(2)} us` : null],
      ]),
      section("Written by", listed(b.writers, (n) => this.nodeLink(n))),
      section("Read by", listed(b.readers, (n) => this.nodeLink(n))),
    ];
  }

  ofCall(call) {
    const views = (list) => listed(list, (v) => this.bufferLink(this.model.doc.views[v][0],
      this.model.buffers[this.model.doc.views[v][0]].name));
    const why = this.model.doc.breaks.find((b) => b.op === call.op);
    return [
      el("h2", {}, `host function ${call.function}`),
      facts([["op", call.op], ["place", call.place], ["reason", why?.reason], ["fix", why?.remedy]]),
      section("Gets", views(call.args)),
      section("Returns", views(call.results)),
    ];
  }

  /** While nothing is chosen: the settings, and where the time goes. */
  ofProgram() {
    const { doc } = this.model;
    const nodes = this.model.nodes.filter((n) => !n.conditional); // what is inside stands for itself
    const heavy = [...nodes].sort((a, b) => b.us - a.us).slice(0, 8);
    const all = nodes.reduce((sum, n) => sum + n.us, 0) || 1;
    const families = new Map();
    for (const n of nodes) families.set(n.kernel.family, (families.get(n.kernel.family) ?? 0) + n.us);
    return [
      el("h2", {}, "Where the time goes"),
      facts([...families].sort((a, b) => b[1] - a[1])
        .map(([f, us]) => [f, `${us.toFixed(1)} us, ${((100 * us) / all).toFixed(0)} %`])),
      section("Longest kernels", listed(heavy, (n) => this.nodeLink(n, `${n.us.toFixed(2)} us`))),
      section("Settings", facts([
        ["target", doc.target],
        ["options", doc.options],
        ...Object.entries(doc.dims).map(([name, value]) => [`dim ${name}`, String(value)]),
      ])),
      section("Reading the page", el("p", {},
        "A box is a kernel, as long as its estimate. A faint curve is an edge between streams. " +
        "A frame below a branch or a loop holds what a side of it does; a dashed box runs where its branch takes its side. " +
        "Point at a box for its ops and edges, choose it for everything. Wheel or pinch zooms, " +
        "dragging moves, / searches.")),
    ];
  }
}

/** An op as a link to the kernel or the call that computes it. */
function opLink(model, op, choose) {
  const node = model.nodes.find((n) => n.ops.includes(op));
  if (node) return linkTo(node.key, () => choose({ kind: "node", id: node.id }), op);
  const call = model.doc.calls.findIndex((c) => c.op === op);
  if (call >= 0) return linkTo(`c${call}`, () => choose({ kind: "call", id: call }), op);
  return op;
}

/** The tab about graphs, runs and what stands between them. */
function breaksView(model, choose) {
  const { doc } = model;
  const out = [];
  const forced = doc.certificate.length > 0 && doc.runs > 1;
  out.push(el("h2", {}, `${plural(doc.graphs, "graph")}, ${plural(doc.runs, "run")}`));
  out.push(el("p", {}, forced
    ? "No plan has fewer: each op on this path runs after the one before it, and they alternate between graphs and host."
    : "All kernels fit into one graph; nothing stands between them."));
  const path = (title, ops) => section(title,
    el("ol", {}, ...ops.map((op) => el("li", { class: "mono" }, opLink(model, op, choose)))));
  if (forced) out.push(path("The path that forces them", doc.certificate));
  if (doc.second_certificate.length > 0) out.push(path("A second one, that begins on the host", doc.second_certificate));
  if (doc.breaks.length > 0) {
    out.push(section("Outside graphs", el("ul", { class: "cards" }, ...doc.breaks.map((b) =>
      el("li", {}, el("b", { class: "mono" }, b.op), el("small", {}, ` ${b.place}  run ${b.level}`),
        el("p", {}, b.reason), b.remedy ? el("p", { class: "fix" }, `fix: ${b.remedy}`) : null)))));
  }
  const name = ([kind, index]) => kind === "launch"
    ? `launch ${doc.bodies[index].stream ? "kernels of" : "graph"} ${bodyName(doc.bodies[index], index)}: ` +
      `${nodesText(doc.bodies[index])}, ` +
      `${plural(new Set(doc.bodies[index].nodes.map((n) => n.lane)).size, "stream")}, ` +
      `${doc.bodies[index].predicted_us.toFixed(1)} us ` +
      `(one stream: ${doc.bodies[index].chain_us.toFixed(1)} us)`
    : null;
  const cards = regionCards(model);
  if (cards.length > 0) out.push(section("Branches and loops", el("ul", { class: "cards" }, ...cards)));
  if (doc.exchanges.length > 0) {
    out.push(section("Host functions that graphs call", el("ul", { class: "cards" }, ...exchangeCards(doc))));
  }
  if (doc.messages.length > 0) {
    out.push(section("Messages to the host", el("ul", { class: "cards" }, ...messageCards(doc))));
  }
  out.push(section("What the host does", scriptList(doc, doc.script, (step) =>
    name(step) ?? linkTo(`c${step[1]}`, () => choose({ kind: "call", id: step[1] }), stepText(doc, step)))));
  return out;
}
