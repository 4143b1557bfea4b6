// Pointer and keys: moving the view, pointing and choosing.

function zoomBy(factor, px = view.left + view.inner / 2) {
  showsAll = false;
  view.zoom(factor, px);
  if (view.k <= view.fitScale * 1.0001) showsAll = true;
  remember();
  redraw();
}

function fit() {
  showsAll = true;
  view.fit();
  remember();
  redraw();
}

function pan(dx, dy) {
  showsAll = showsAll && dx === 0;
  view.x -= dx / view.k;
  view.y -= dy;
  view.clamp();
  remember();
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
    if (moved > 4 || e.type === "pointercancel") return;
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
  const row = plan.rows[n.row];
  if (key === "ArrowLeft") return row[row.indexOf(n) - 1];
  if (key === "ArrowRight") return row[row.indexOf(n) + 1];
  const by = key === "ArrowUp" ? -1 : 1;
  for (let at = n.row + by; at >= 0 && at < plan.rows.length; at += by) {
    const near = plan.rows[at].reduce((a, b) =>
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
  showsAll = false;
  view.show(thing.p1, thing.p2);
  remember();
  redraw();
}

function toggleCritical() {
  state.critical = !state.critical;
  $("critical").setAttribute("aria-pressed", String(state.critical));
  showLegend();
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
