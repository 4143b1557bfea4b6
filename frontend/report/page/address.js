// The address after #: what is shown, so that it can be sent to others.

let writing = 0;

/** Soon, and once for many changes: browsers stop listening to those who write too often. */
function remember() {
  clearTimeout(writing);
  if (ready) writing = setTimeout(writeAddress, 150);
}

/** What is shown, as #tab=memory&select=n5. */
function writeAddress() {
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
  if (!showsAll) {
    s.set("view", [view.x, view.x + view.inner / view.k].map((p) => p.toFixed(3)).join(","));
  }
  const text = s.toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function selectedFrom(text) {
  const [, kind, number] = /^([bc])(\d+)$/.exec(text) ?? [];
  const list = { b: model.buffers, c: model.doc.calls }[kind];
  if (list && Number(number) < list.length) {
    return { kind: kind === "b" ? "buffer" : "call", id: Number(number) };
  }
  const n = model.nodes.find((x) => x.key === text || x.fullKey === text || x.fullKey === `g0.${text}`);
  return n ? { kind: "node", id: n.id } : null;
}

function recall() {
  const s = new URLSearchParams(location.hash.slice(1));
  state.fold = s.has("fold") ? s.get("fold") === "1" : model.nodes.length > MANY_NODES;
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
  showsAll = !(p2 > p1);
  draw();
  if (!showsAll) {
    Object.assign(view, { k: view.inner / (p2 - p1), x: p1 });
    view.clamp();
  }
  choose(selectedFrom(s.get("select") ?? ""));
}
