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
  fold: model.nodes.length > MANY_NODES, open: new Set(), critical: false, colour: "family",
};
let theme = readTheme();
let plan = layout(model, []);
let fitted_ = true; // the view shows everything, and shall do so when the window changes
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
  view.left = view.width < 560 ? 44 : 76;
  const wide = matchMedia("(min-width: 900px)").matches;
  const room = wide ? Math.max($("work").clientHeight * 0.62, 160) : Math.max(innerHeight * 0.5, 220);
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
  if (fitted_) view.fit();
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
  return `${n.key} ${lastOp(n)}, ${n.kernel.symbol}, stream ${n.lane}, ${n.us.toFixed(2)} us`;
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
    if (thing && thing.p2 !== undefined && !fitted_) view.reveal(thing.p1, thing.p2);
    if (what.kind === "node") {
      const top = timeline.size ? model.nodes[what.id].lane * timeline.size.row : 0;
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
  fitted_ = true;
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
  choose({ kind: "node", id: state.found[state.at] });
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
  for (const id of ["fold", "critical", "colour", "in", "out", "fit"]) {
    $(id).disabled = tab === "breaks" || (tab === "memory" && (id === "critical" || id === "colour"));
  }
  $("fold").disabled ||= spans.length === 0;
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
    out.push(line(theme.raw, "raw: reads what the other writes"),
      line(theme.war, "war: overwrites what it reads"),
      line(theme.waw, "waw: overwrites what it writes"),
      line(theme.lane, "lane: order of a stream"));
    if (model.hostRow) {
      out.push(el("span", {}, `host calls drawn ${model.doc.break_us} us long: nobody can estimate them`));
    }
  }
  $("legend").replaceChildren(...out);
}

// ---- the address ----

/** What is shown, as #tab=memory&select=n5: kept in the address, so that it can be sent to others. */
function remember() {
  if (!ready) return;
  const s = new URLSearchParams();
  if (state.tab !== "timeline") s.set("tab", state.tab);
  const what = state.selected;
  if (what) {
    const key = { node: () => model.nodes[what.id].key, buffer: () => `b${what.id}`, call: () => `c${what.id}` };
    s.set("select", key[what.kind]());
  }
  if (state.search) s.set("search", state.search);
  if (state.fold !== model.nodes.length > MANY_NODES) s.set("fold", state.fold ? "1" : "0");
  if (state.open.size > 0) s.set("open", [...state.open].join(","));
  if (state.critical) s.set("critical", "1");
  if (state.colour !== "family") s.set("colour", state.colour);
  if (!fitted_) {
    s.set("view", [view.x, view.x + view.inner / view.k].map((p) => p.toFixed(3)).join(","));
  }
  const text = s.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function selectedFrom(text) {
  const [, kind, number] = /^([bc])(\d+)$/.exec(text) ?? [];
  const list = { b: model.buffers, c: model.doc.calls }[kind];
  if (list && Number(number) < list.length) {
    return { kind: kind === "b" ? "buffer" : "call", id: Number(number) };
  }
  const n = model.nodes.find((x) => x.key === text || x.key === `g0:${text}`);
  return n ? { kind: "node", id: n.id } : null;
}

function recall() {
  const s = new URLSearchParams(location.hash.slice(1));
  if (s.has("fold")) state.fold = s.get("fold") === "1";
  state.open = new Set((s.get("open") ?? "").split(",").filter((x) => x).map(Number));
  state.critical = s.get("critical") === "1";
  state.colour = ["kernel", "stream"].find((x) => x === s.get("colour")) ?? "family";
  $("critical").setAttribute("aria-pressed", String(state.critical));
  $("colour").value = state.colour;
  $("search").value = s.get("search") ?? "";
  relayout();
  search($("search").value, false);
  const tab = ["memory", "breaks"].find((x) => x === s.get("tab")) ?? "timeline";
  const [p1, p2] = (s.get("view") ?? "").split(",").map(Number);
  showTab(tab);
  draw();
  if (p2 > p1) {
    fitted_ = false;
    Object.assign(view, { k: view.inner / (p2 - p1), x: p1 });
    view.clamp();
  }
  choose(selectedFrom(s.get("select") ?? ""));
}

// ---- pointer and keys ----

function zoomBy(factor, px = view.left + view.inner / 2) {
  fitted_ = false;
  view.zoom(factor, px);
  if (view.k <= view.fitScale * 1.0001) fitted_ = true;
  remember();
  redraw();
}

function fit() {
  fitted_ = true;
  view.fit();
  remember();
  redraw();
}

function pan(dx, dy) {
  fitted_ = fitted_ && dx === 0;
  view.x -= dx / view.k;
  view.y -= dy;
  view.clamp();
  redraw();
}

const current = () => (state.tab === "timeline" ? timeline : memory);

function at(e) {
  const r = $("canvas").getBoundingClientRect();
  return [e.clientX - r.left, e.clientY - r.top];
}

function showTip(e) {
  const what = current().hit(...at(e));
  const same = JSON.stringify(what) === JSON.stringify(state.hover);
  state.hover = what;
  const tip = $("tip");
  tip.hidden = !what || e.pointerType === "touch";
  if (what && !same) tip.replaceChildren(...tipOf(model, what));
  if (!tip.hidden) {
    const x = e.clientX + 16 + tip.offsetWidth > innerWidth ? e.clientX - 12 - tip.offsetWidth : e.clientX + 16;
    const y = Math.min(e.clientY + 16, innerHeight - tip.offsetHeight - 8);
    Object.assign(tip.style, { left: `${Math.max(x, 4)}px`, top: `${Math.max(y, 4)}px` });
  }
  $("canvas").style.cursor = what ? "pointer" : "grab";
  if (!same) redraw();
}

function hideTip() {
  state.hover = null;
  $("tip").hidden = true;
  redraw();
}

/** Dragging moves, two fingers zoom, and what did not move was a click. */
function watchPointers(canvas) {
  const down = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    if (down.size === 0) moved = 0;
    down.set(e.pointerId, at(e));
    hideTip();
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!down.has(e.pointerId)) return showTip(e);
    const [x, y] = at(e);
    const [x0, y0] = down.get(e.pointerId);
    const other = [...down].find(([id]) => id !== e.pointerId)?.[1];
    down.set(e.pointerId, [x, y]);
    moved += Math.abs(x - x0) + Math.abs(y - y0);
    if (other) {
      const [before, after] = [Math.abs(x0 - other[0]), Math.abs(x - other[0])];
      if (before > 8 && after > 8) zoomBy(after / before, (x + other[0]) / 2);
    } else if (moved > 4) {
      pan(x - x0, e.pointerType === "touch" ? 0 : y - y0);
    }
  });
  const up = (e) => {
    if (!down.delete(e.pointerId) || down.size > 0) return;
    if (moved > 4 || e.type === "pointercancel") return remember();
    const what = current().hit(...at(e));
    if (what?.kind === "span") openSpan(what.id);
    else choose(what);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 20 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      pan(-(e.deltaX || e.deltaY) * unit, 0);
    } else {
      zoomBy(Math.exp((-e.deltaY * unit) / 400), at(e)[0]);
    }
  }, { passive: false });
}

/** The kernel before or after in the stream, or the nearest in time of the stream above or below. */
function neighbour(n, key) {
  const row = plan.rows[n.lane];
  if (key === "ArrowLeft") return row[row.indexOf(n) - 1];
  if (key === "ArrowRight") return row[row.indexOf(n) + 1];
  const by = key === "ArrowUp" ? -1 : 1;
  for (let lane = n.lane + by; lane >= 0 && lane < plan.rows.length; lane += by) {
    const near = plan.rows[lane].reduce((a, b) =>
      (a && Math.abs(a.start - n.start) <= Math.abs(b.start - n.start) ? a : b), null);
    if (near) return near;
  }
  return null;
}

function onArrow(e) {
  const [dx, dy] = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
  e.preventDefault();
  if (e.shiftKey || state.tab !== "timeline") return pan(dx * 80, dy * 40);
  const now = state.selected?.kind === "node" ? model.nodes[state.selected.id] : null;
  const next = now ? neighbour(now, e.key) : plan.rows.find((r) => r.length > 0)?.[0];
  if (next) choose({ kind: "node", id: next.id });
}

function showChosen() {
  const thing = state.selected && uncover(state.selected);
  if (!thing || thing.p2 === undefined) return;
  fitted_ = false;
  view.show(thing.p1, thing.p2);
  remember();
  redraw();
}

function toggleCritical() {
  state.critical = !state.critical;
  $("critical").setAttribute("aria-pressed", String(state.critical));
  remember();
  redraw();
}

const KEYS = {
  "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), 0: fit,
  "/": () => $("search").focus(), n: () => step(1), p: () => step(-1),
  r: () => spans.length > 0 && toggleFold(), c: toggleCritical,
};

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const field = e.target.closest("input, select");
  if (e.key === "Escape") {
    if (field === $("search") && field.value) {
      field.value = "";
      search("", false);
    } else {
      choose(null);
      field?.blur();
    }
  } else if (!field && KEYS[e.key]) {
    e.preventDefault();
    KEYS[e.key]();
  }
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
  const total = doc.bodies.reduce((sum, b) => sum + b.predicted_us, 0);
  const chain = doc.bodies.reduce((sum, b) => sum + b.chain_us, 0);
  const streams = new Set(model.nodes.map((n) => n.lane)).size;
  const list = [
    ["ops", doc.source_ops.toLocaleString("en")],
    ["kernels", `${model.nodes.length.toLocaleString("en")} (${doc.kernels.length} distinct)`],
    ["graphs", String(doc.graphs)],
    ["streams", String(streams)],
    ["predicted", `${total.toFixed(1)} us` + (chain > total + 0.05 ? ` (one stream: ${chain.toFixed(1)})` : "")],
    ["arena", bytesText(doc.arena_bytes)],
    ["target", doc.target],
  ];
  if (doc.calls.length > 0) list.splice(3, 0, ["host calls", String(doc.calls.length)]);
  $("name").textContent = doc.name;
  $("facts").replaceChildren(...list.map(([term, value]) =>
    el("div", {}, el("dt", {}, term), el("dd", {}, value))));
  $("canvas").setAttribute("aria-label", `${doc.name}: ${plural(model.nodes.length, "kernel")} over time`);
  $("breaks").replaceChildren(...breaksView(model, (what) => {
    showTab("timeline");
    choose(what);
  }));
}

let ready = false;
$("app").hidden = false;
showHeader();
bufferTable.setItems(model.buffers);
connect();
recall();
ready = true;
