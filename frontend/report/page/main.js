// Ties the parts together: what is chosen, found and folded, and the address that says so.

const MANY_NODES = 48; // more than this, and repeats begin folded

const $ = (id) => document.getElementById(id);
const model = load(JSON.parse($("data").textContent));
const spans = foldable(model);
const timeline = new Timeline(model);
const memory = new Memory(model);
const view = new View();
const nodeTable = new Table($("table"), "node", NODE_COLUMNS, choose);
const bufferTable = new Table($("table"), "buffer", BUFFER_COLUMNS, choose);
const panel = new Panel($("panel"), model, choose);

const state = {
  tab: "timeline", selected: null, hover: null, search: "", found: null, at: -1,
  fold: false, open: new Set(), critical: false, colour: "family",
};
let theme = readTheme();
let plan = layout(model, []);
let showsAll = true; // the view shows everything, and shall do so when the window changes
let pending = false;

function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

function draw() {
  if (state.tab === "breaks") return;
  const stage = $("stage");
  view.width = stage.clientWidth;
  view.left = view.width >= 560 ? 76 : state.tab === "memory" ? 62 : 44;
  const wide = matchMedia("(min-width: 900px)").matches;
  const full = wide ? $("work").clientHeight : innerHeight;
  const room = Math.max(full * (wide ? 0.62 : 0.5), Math.min(leastHeight(model), full * 0.8), 160);
  let height;
  if (state.tab === "timeline") {
    timeline.size = measureRows(model, room);
    view.rowsHeight = timeline.size.height;
    height = Math.min(timeline.size.height, Math.max(room, 160));
  } else {
    height = Math.round(Math.max(room, 200));
    view.rowsHeight = height;
  }
  stage.style.height = `${height}px`;
  Object.assign(view, { height, end: plan.end });
  if (showsAll) view.fit();
  view.clamp();
  const c = prepare($("canvas"), view.width, height);
  (state.tab === "timeline" ? timeline : memory).draw(c, view, plan, state, theme);
}

function say(text) {
  $("said").textContent = text;
}

// ---- what is chosen ----

function describe(what) {
  if (!what) return "";
  if (what.kind === "buffer") return `buffer ${model.buffers[what.id].name}`;
  if (what.kind === "call") return `host function ${model.doc.calls[what.id].function}`;
  const n = model.nodes[what.id];
  return `${n.key} ${nodeName(n)}, ${n.kernel.symbol}, stream ${n.lane}, ${n.us.toFixed(2)} us`;
}

/** Where the thing stands on the axis, opening the repeat that hides it. */
function uncover(what) {
  if (what.kind === "node" && model.nodes[what.id].hidden) {
    for (const s of plan.spans) {
      if (s.members.includes(model.nodes[what.id])) state.open.add(s.repeat);
    }
    relayout();
  }
  if (what.kind === "node") return model.nodes[what.id];
  if (what.kind === "buffer") return model.buffers[what.id];
  return model.host.find((h) => h.kind === "call" && h.call === what.id);
}

function choose(what) {
  state.selected = what;
  if (what) {
    const thing = uncover(what);
    if (thing && thing.p2 !== undefined && !showsAll) view.reveal(thing.p1, thing.p2);
    if (what.kind === "node") {
      const top = timeline.size ? model.nodes[what.id].row * timeline.size.row : 0;
      if (timeline.size && (top < view.y || top + timeline.size.row * 2 > view.y + view.height)) {
        view.y = top - view.height / 2;
      }
    }
  }
  panel.show(what);
  nodeTable.mark(what?.kind === "node" ? what.id : null);
  bufferTable.mark(what?.kind === "buffer" ? what.id : null);
  say(describe(what));
  remember();
  redraw();
}

// ---- folds ----

function relayout() {
  plan = layout(model, state.fold ? foldedSpans(spans, state.open) : []);
  $("fold").setAttribute("aria-pressed", String(state.fold));
  redraw();
}

function toggleFold() {
  state.fold = !state.fold;
  state.open.clear();
  showsAll = true;
  relayout();
  remember();
}

function openSpan(repeat) {
  state.open.add(repeat);
  relayout();
  remember();
}

// ---- search ----

function search(words, jump) {
  state.search = words;
  state.found = findNodes(model, words);
  state.at = -1;
  const found = state.found?.length ?? 0;
  $("count").textContent = state.found ? (found === 0 ? "none" : `${found}`) : "";
  $("previous").disabled = $("next").disabled = found === 0;
  nodeTable.setItems(state.found ? state.found.map((id) => model.nodes[id]) : model.nodes);
  if (jump && found > 0) step(1);
  remember();
  redraw();
}

/** To the next match or the one before, in the order of launches. */
function step(by) {
  if (!state.found || state.found.length === 0) return;
  const n = state.found.length;
  state.at = state.at < 0 ? (by > 0 ? 0 : n - 1) : (state.at + by + n) % n;
  $("count").textContent = `${state.at + 1} of ${n}`;
  const node = model.nodes[state.found[state.at]];
  choose({ kind: "node", id: node.id });
  if ((node.p2 - node.p1) * view.k < 16) {
    showsAll = false;
    view.show(node.p1 - 5 * node.us, node.p2 + 5 * node.us);
    remember();
  }
}

// ---- tabs ----

function showTab(tab) {
  state.tab = tab;
  for (const b of document.querySelectorAll("[data-tab]")) {
    const on = b.dataset.tab === tab;
    b.setAttribute("aria-selected", String(on));
    b.tabIndex = on ? 0 : -1;
  }
  $("work").hidden = tab === "breaks";
  $("breaks").hidden = tab !== "breaks";
  $("tools").hidden = tab === "breaks";
  $("critical").disabled = $("colour").disabled = tab === "memory";
  if (tab !== "breaks") (tab === "memory" ? bufferTable : nodeTable).attach();
  const none = tab === "memory" && memory.temps.length === 0;
  $("empty").hidden = !none;
  $("empty").textContent = none ? "No temporaries: the kernels hand nothing on through the arena." : "";
  showLegend();
  remember();
  redraw();
}

function swatch(style, text) {
  const s = el("span", { class: "key" }, el("i"), text);
  Object.assign(s.firstChild.style, style);
  return s;
}

function showLegend() {
  const box = (hue, text) => swatch(
    { background: theme.fill(hue), borderColor: theme.edge(hue) }, text);
  const line = (colour, text) => swatch(
    { background: colour, borderColor: "transparent", height: "3px" }, text);
  const out = [];
  if (state.tab === "memory") {
    const { doc } = model;
    out.push(el("span", {}, `arena ${bytesText(doc.arena_bytes)}; without sharing ${bytesText(doc.temp_bytes_unshared)}`));
    out.push(line(theme.accent, `least possible ${bytesText(doc.arena_lower_bound)}`));
  } else {
    if (state.colour === "family") {
      timeline.families.forEach((f, i) => out.push(box(HUES[i % HUES.length], f)));
    }
    out.push(line(theme.raw, "raw: read after write"), line(theme.war, "war: write after read"),
      line(theme.waw, "waw: write after write"), line(theme.lane, "lane: same stream"));
    if (state.critical) out.push(line(theme.accent, "critical path"));
    if (model.doc.calls.length > 0) {
      out.push(el("span", {}, `host calls drawn ${model.doc.break_us} us long: nobody can estimate them`));
    }
  }
  $("legend").replaceChildren(...out);
}

function connect() {
  watchPointers($("canvas"));
  document.addEventListener("keydown", onKey);
  $("canvas").addEventListener("keydown", (e) => {
    if (e.key.startsWith("Arrow")) onArrow(e);
    if (e.key === "Enter") showChosen();
  });
  $("tabs").addEventListener("click", (e) => e.target.dataset.tab && showTab(e.target.dataset.tab));
  $("tabs").addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!by) return;
    const all = [...$("tabs").children];
    const next = all[(all.findIndex((t) => t.dataset.tab === state.tab) + by + all.length) % all.length];
    showTab(next.dataset.tab);
    next.focus();
  });
  $("search").addEventListener("input", (e) => search(e.target.value, false));
  $("find").addEventListener("submit", (e) => {
    e.preventDefault();
    step(1);
  });
  $("previous").addEventListener("click", () => step(-1));
  $("fold").addEventListener("click", toggleFold);
  $("critical").addEventListener("click", toggleCritical);
  $("colour").addEventListener("change", (e) => {
    state.colour = e.target.value;
    showLegend();
    remember();
    redraw();
  });
  $("in").addEventListener("click", () => zoomBy(1.4));
  $("out").addEventListener("click", () => zoomBy(1 / 1.4));
  $("fit").addEventListener("click", fit);
  new ResizeObserver(redraw).observe($("work"));
  new ResizeObserver(() => nodeTable.render() ?? bufferTable.render()).observe($("table"));
  addEventListener("hashchange", recall);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    theme = readTheme();
    showLegend();
    redraw();
  });
}

function showHeader() {
  const { doc } = model;
  const { predicted: total, chain } = totals(doc);
  const kernels = model.nodes.filter((n) => !n.conditional).length;
  const streams = Math.max(0, ...doc.bodies.map((b) => new Set(b.nodes.map((n) => n.lane)).size));
  const list = [
    ["ops", doc.source_ops.toLocaleString("en")],
    ["kernels", `${kernels.toLocaleString("en")} (${doc.kernels.length} distinct)`],
    ["graphs", String(doc.graphs)],
    ["streams", String(streams)],
    ["predicted", `${total.toFixed(1)} us` + (doc.calls.length > 0 ? " and the host" : "") + (chain > total + 0.05 ? ` (one stream: ${chain.toFixed(1)})` : "")],
    ["arena", bytesText(doc.arena_bytes)],
    ["target", doc.target],
  ];
  if (doc.calls.length > 0) list.splice(3, 0, ["host calls", String(doc.calls.length)]);
  if (doc.regions.length > 0) list.splice(2, 0, ["branches and loops", String(doc.regions.length)]);
  $("name").textContent = doc.name;
  $("facts").replaceChildren(...list.map(([term, value]) =>
    el("div", {}, el("dt", {}, term), el("dd", {}, value))));
  $("canvas").setAttribute("aria-label", `${doc.name}: ${plural(kernels, "kernel")} over time`);
  $("breaks").replaceChildren(...breaksView(model, (what) => {
    showTab("timeline");
    choose(what);
  }));
}

let ready = false;
$("app").hidden = false;
$("fold").hidden = spans.length === 0;
showHeader();
bufferTable.setItems(model.buffers);
connect();
recall();
ready = true;
