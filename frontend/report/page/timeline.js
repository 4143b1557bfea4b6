// The timeline: a row for each stream, a box for each kernel, over estimated time.

/** The hue of a kernel's box. */
function hueOf(node, by, families) {
  if (by === "stream") return HUES[node.lane % HUES.length];
  if (by === "kernel") return (212 + node.kernelIndex * 137.5) % 360;
  return HUES[families.indexOf(node.kernel.family) % HUES.length];
}

const LEAST_ROW = 16;
const MOST_CURVES = 3000;

/** Heights: rows share the room they are given, but stay legible and no thicker than need be. */
function measureRows(model, room) {
  const rows = model.rows + (model.hostRow ? 1 : 0);
  const top = AXIS + (model.bodies.length > 1 ? STRIP : 0);
  const row = Math.max(LEAST_ROW, Math.min(68, Math.floor((room - top - 4) / rows)));
  return { rows, top, row, gap: row < 24 ? 1 : 3, height: top + rows * row + 4 };
}

/** What many streams need at least: more than their usual share of the window, to show them all. */
function leastHeight(model) {
  return measureRows(model, 0).height;
}

class Timeline {
  constructor(model) {
    this.model = model;
    this.families = [...new Set(model.nodes.map((n) => n.kernel.family))].sort();
    this.critical = criticalPath(model);
  }

  rowTop(row) {
    return this.size.top + (row + (this.model.hostRow ? 1 : 0)) * this.size.row - this.view.y;
  }

  box(node) {
    const x = this.view.toX(node.p1);
    return { x, w: Math.max(this.view.toX(node.p2) - x, 1), y: this.rowTop(node.row) + this.size.gap,
      h: this.size.row - 2 * this.size.gap };
  }

  /** What state says to look at: the chosen node with its neighbours, matches, the critical path. */
  emphasis(state) {
    const s = state.selected;
    if (s?.kind === "node") {
      const n = this.model.nodes[s.id];
      return new Set([n, ...n.into.map((e) => e.from), ...n.outOf.map((e) => e.to)]);
    }
    if (s?.kind === "buffer") {
      const b = this.model.buffers[s.id];
      return new Set([...b.readers, ...b.writers]);
    }
    if (state.found) return new Set(state.found.map((id) => this.model.nodes[id]));
    return state.critical ? this.critical : null;
  }

  draw(c, view, plan, state, theme) {
    Object.assign(this, { view, plan, theme, c });
    this.bright = this.emphasis(state);
    this.found = state.found && new Set(state.found);
    this.drawRows();
    c.save();
    c.beginPath();
    c.rect(view.left, this.size.top, view.width - view.left, view.height - this.size.top);
    c.clip();
    drawGrid(c, view, plan, theme);
    for (const b of this.model.bodies) if (b.owner) this.drawSide(b);
    this.drawCrossing(state);
    for (const span of plan.spans) this.drawSpan(span, state);
    for (const h of this.model.host) this.drawHost(h, state);
    for (const row of plan.rows) this.drawNodes(row, state);
    this.drawChosenEdges(state);
    c.restore();
    this.drawNames();
    drawAxis(c, view, plan, theme);
    for (const span of plan.spans) drawSkip(c, view, span, theme);
    if (this.model.bodies.length > 1) this.drawGraphs();
    this.drawMatches();
    this.drawScroll();
  }

  /** Where the matches are, on the axis: they may be thinner than a pixel below it. */
  drawMatches() {
    const { c, view, theme } = this;
    c.fillStyle = theme.mark;
    for (const id of this.found ?? []) {
      const x = view.toX(this.model.nodes[id].p1);
      if (x >= view.left && x <= view.width) c.fillRect(x, AXIS - 4, 2, 4);
    }
  }

  /** How much of the rows is shown, where not all are. */
  drawScroll() {
    const { c, view, theme } = this;
    const room = view.height - this.size.top;
    const share = room / (view.rowsHeight - this.size.top);
    if (share >= 1) return;
    c.fillStyle = theme.dim;
    c.beginPath();
    c.roundRect(view.width - 6, this.size.top + view.y * share + 2, 4, room * share - 4, 2);
    c.fill();
  }

  drawRows() {
    const { c, view, theme } = this;
    for (let r = 0; r < this.size.rows; r++) {
      const y = this.size.top + r * this.size.row - view.y;
      c.fillStyle = r % 2 === 0 ? theme.raised : theme.back;
      c.fillRect(0, y, view.width, this.size.row);
    }
  }

  /** Row names stand still while the rest moves below them. */
  drawNames() {
    const { c, view, theme } = this;
    c.textBaseline = "middle";
    for (let r = 0; r < this.size.rows; r++) {
      const y = this.size.top + r * this.size.row - view.y;
      c.fillStyle = r % 2 === 0 ? theme.raised : theme.back;
      c.fillRect(0, y, view.left - 1, this.size.row);
      const lane = this.model.hostRow ? r - 1 : r;
      c.fillStyle = theme.dim;
      c.font = `12px ${theme.sans}`;
      const stream = view.left < 60 ? `s${lane}` : `stream ${lane}`;
      const text = lane < 0 ? "host" : lane < this.model.lanes ? stream : "inside";
      c.fillText(text, 8, y + this.size.row / 2);
    }
    c.fillStyle = theme.line;
    c.fillRect(view.left - 1, 0, 1, view.height);
    c.fillStyle = theme.back;
    c.fillRect(0, AXIS, view.left - 1, this.size.top - AXIS);
  }

  drawGraphs() {
    const { c, view, theme } = this;
    c.fillStyle = theme.back;
    c.fillRect(0, AXIS, view.width, STRIP);
    c.font = `11px ${theme.sans}`;
    c.textBaseline = "middle";
    const end = this.size.top;
    for (const b of this.model.bodies) {
      if (b.owner) continue;
      const x1 = Math.max(view.toX(b.p1), view.left);
      const x2 = Math.min(view.toX(b.p2), view.width);
      if (x2 < view.left || x1 > view.width) continue;
      c.fillStyle = theme.accent;
      c.fillRect(x1, end - 3, Math.max(x2 - x1, 1), 2);
      c.fillStyle = theme.dim;
      const short = bodyName(b, b.index);
      const name = b.stream ? `${short}, no graph` : `graph ${short}`;
      const full = `${name}: ${nodesText(b)}, ${b.predicted_us.toFixed(1)} us`;
      const text = [full, name, short].find((t) => c.measureText(t).width < x2 - x1 - 2);
      if (text) c.fillText(text, x1 + 1, AXIS + 8);
    }
  }

  /** Behind the nodes of a side, and up to the node that runs it. */
  drawSide(body) {
    const { c, view, theme } = this;
    const x = view.toX(body.p1);
    const w = Math.max(view.toX(body.p2) - x, 2);
    if (x > view.width || x + w < view.left || body.owner.hidden) return;
    const y = this.rowTop(body.row);
    c.strokeStyle = theme.dim;
    c.lineWidth = 1;
    c.strokeRect(x - 1.5, y + 0.5, w + 3, body.lanes * this.size.row - 1);
    c.fillStyle = theme.dim;
    c.fillRect(x - 2, this.rowTop(body.owner.row) + this.size.row / 2, 1, y - this.rowTop(body.owner.row) - this.size.row / 2);
  }

  /** The boxes of a row that can be seen; of many within one pixel the first. */
  drawNodes(row, state) {
    const { view } = this;
    const y = row.length > 0 ? this.rowTop(row[0].row) : 0;
    if (y > view.height || y + this.size.row < this.size.top) return;
    const left = view.toPlace(view.left);
    let drawn = -1;
    for (let i = firstWhere(row, (n) => n.p2 >= left); i < row.length; i++) {
      const b = this.box(row[i]);
      if (b.x > view.width) break;
      const bright = this.bright?.has(row[i]);
      if (b.x + b.w < drawn + 0.7 && !bright) continue;
      drawn = Math.max(drawn, b.x + b.w);
      this.drawNode(row[i], b, state);
    }
  }

  drawNode(node, b, state) {
    const { c, theme } = this;
    const hue = hueOf(node, state.colour, this.families);
    const chosen = state.selected?.kind === "node" && state.selected.id === node.id;
    const marked = chosen ? theme.ink : this.found?.has(node.id) ? theme.mark : null;
    c.globalAlpha = this.bright && !this.bright.has(node) ? 0.4 : 1;
    if (b.w > 4) {
      const gap = b.w > 6 ? 0.75 : 0;
      c.beginPath();
      c.roundRect(b.x + gap, b.y, b.w - 2 * gap, b.h, Math.min(4, b.w / 4));
      c.fillStyle = theme.fill(hue);
      c.fill();
      c.strokeStyle = marked ?? theme.edge(hue);
      c.lineWidth = marked ? 2.5 : 1;
      if (node.guarded) c.setLineDash([4, 3]);
      c.stroke();
      c.setLineDash([]);
    } else {
      const wider = marked ? 1 : 0;
      c.fillStyle = marked ?? theme.edge(hue);
      c.fillRect(b.x - wider, b.y, b.w + 2 * wider, b.h);
    }
    if (state.critical && this.critical.has(node)) {
      c.fillStyle = theme.accent;
      c.fillRect(b.x, b.y + b.h - 3, b.w, 3);
    }
    if (b.w > 14) this.drawLabel(node, b, theme.text(hue));
    c.globalAlpha = 1;
  }

  /** Up to three lines: the op, the kernel, the time. They stay in view while the box does. */
  drawLabel(node, b, colour) {
    const { c, view, theme } = this;
    const margin = b.w < 44 ? 3 : 6;
    const x = Math.max(b.x, view.left) + margin;
    const room = Math.min(b.x + b.w, view.width) - x - margin + 1;
    const lines = b.h >= 46 ? 3 : b.h >= 32 ? 2 : 1;
    c.font = `11px ${theme.mono}`;
    const char = this.charWidth ?? (this.charWidth = c.measureText("0".repeat(50)).width / 50);
    const time = `${node.us.toFixed(2)} us`;
    const texts = [fittedName(nodeName(node), room, char)];
    const kernel = fitted(shortSymbol(node.kernel.symbol), room, char);
    if (lines > 2 && kernel !== "" && !/^.{0,6}\u2026$/.test(kernel)) texts.push(kernel);
    if (lines > 1 && time.length * char <= room) texts.push(time);
    const middle = b.y + b.h / 2;
    c.textBaseline = "middle";
    c.fillStyle = colour;
    const alpha = c.globalAlpha;
    texts.forEach((text, i) => {
      c.globalAlpha = i === 0 ? alpha : alpha * 0.75;
      c.fillText(text, x, middle + (i - (texts.length - 1) / 2) * 14);
    });
    c.globalAlpha = alpha;
  }

  spanBox(span) {
    const x = this.view.toX(span.p1);
    const y = this.rowTop(span.low) + this.size.gap;
    return { x, w: this.view.toX(span.p2) - x, y,
      h: this.rowTop(span.high) + this.size.row - this.size.gap - y };
  }

  /** A folded repeat: the copies that look like the one before it. */
  drawSpan(span, state) {
    const { c, view, theme } = this;
    const b = this.spanBox(span);
    if (b.x > view.width || b.x + b.w < view.left) return;
    const repeat = this.model.doc.repeats[span.repeat];
    const holds = this.bright && span.members.some((n) => this.bright.has(n));
    c.globalAlpha = this.bright && !holds ? 0.45 : 1;
    c.fillStyle = theme.raised;
    c.strokeStyle = holds ? theme.mark : theme.dim;
    c.lineWidth = holds ? 2 : 1;
    c.setLineDash([5, 4]);
    c.beginPath();
    c.roundRect(b.x + 2, b.y, Math.max(b.w - 4, 1), b.h, 6);
    c.fill();
    c.stroke();
    c.setLineDash([]);
    const x = Math.max(b.x, view.left) + 10;
    const room = Math.min(b.x + b.w, view.width) - x - 8;
    const hits = state.found ? span.members.filter((n) => this.found.has(n.id)).length : 0;
    const lines = [
      `${repeat.prefix}1..${repeat.count - 1}: ${repeat.count - 1} more`,
      `${span.members.length} kernels, ${(span.t2 - span.t1).toFixed(1)} us`,
      hits > 0 ? `click to open, ${hits} found` : "click to open",
    ];
    c.font = `12px ${theme.sans}`;
    c.textBaseline = "middle";
    const shown = b.h >= 52 ? 3 : b.h >= 36 ? 2 : 1;
    for (let i = 0; i < shown; i++) {
      c.fillStyle = i === 0 ? theme.ink : theme.dim;
      const short = i === 0 ? `x${repeat.count - 1} more` : "";
      const text = c.measureText(lines[i]).width <= room ? lines[i] : short;
      if (c.measureText(text).width <= room) {
        c.fillText(text, x, b.y + b.h / 2 + (i - (shown - 1) / 2) * 16);
      }
    }
    c.globalAlpha = 1;
  }

  hostBox(h) {
    const x = this.view.toX(h.p1);
    return { x, w: Math.max(this.view.toX(h.p2) - x, 1), y: this.rowTop(-1) + 4,
      h: this.size.row - 8 };
  }

  drawHost(h, state) {
    const { c, view, theme } = this;
    const b = this.hostBox(h);
    if (b.x > view.width || b.x + b.w < view.left) return;
    const chosen = h.kind === "call" && state.selected?.kind === "call" && state.selected.id === h.call;
    c.fillStyle = h.kind === "call" ? theme.grid : "transparent";
    c.strokeStyle = chosen ? theme.ink : theme.dim;
    c.lineWidth = chosen ? 2.5 : 1;
    if (h.kind !== "call") c.setLineDash([2, 3]);
    c.beginPath();
    c.roundRect(b.x + 1, b.y, Math.max(b.w - 2, 1), b.h, 3);
    c.fill();
    c.stroke();
    c.setLineDash([]);
    c.font = `11px ${theme.mono}`;
    const char = this.charWidth ?? (this.charWidth = c.measureText("0".repeat(50)).width / 50);
    const x = Math.max(b.x, view.left) + 6;
    const room = Math.min(b.x + b.w, view.width) - x - 5;
    c.fillStyle = h.kind === "call" ? theme.ink : theme.dim;
    c.textBaseline = "middle";
    const name = h.kind === "call" ? this.model.doc.calls[h.call].function
      : h.kind === "decide" ? `waits for r${h.region}` : "waits";
    c.fillText(fitted(name, room, char), x, b.y + b.h / 2);
  }

  curve(e) {
    const { c, view } = this;
    const from = { x: view.toX(e.from.p2), y: this.rowTop(e.from.row) + this.size.row / 2 };
    const to = { x: view.toX(e.to.p1), y: this.rowTop(e.to.row) + this.size.row / 2 };
    c.moveTo(from.x, from.y);
    const bow = Math.max(14, Math.abs(to.x - from.x) * 0.4);
    if (e.from.row === e.to.row) {
      // Above the boxes between them.
      const up = e.to.before === e.from ? 0 : this.size.row * 0.62;
      c.bezierCurveTo(from.x + bow / 2, from.y - up, to.x - bow / 2, to.y - up, to.x, to.y);
    } else {
      c.bezierCurveTo(from.x + bow, from.y, to.x - bow, to.y, to.x, to.y);
    }
    return to;
  }

  /** Edges between streams: always there, below the boxes, the fainter the more there are. */
  drawCrossing(state) {
    const { c, view, theme, plan } = this;
    const [left, right] = [view.toPlace(view.left), view.toPlace(view.width)];
    const seen = plan.crossing.filter((e) =>
      Math.max(e.from.p2, e.to.p1) >= left && Math.min(e.from.p2, e.to.p1) <= right);
    // So many are a grey blot, and a part of them is the same blot in less time.
    const step = Math.ceil(seen.length / MOST_CURVES);
    c.beginPath();
    for (let i = 0; i < seen.length; i += step) this.curve(seen[i]);
    c.strokeStyle = theme.ink;
    c.lineWidth = 1;
    const quiet = this.bright || state.hover?.kind === "node";
    const alpha = Math.max(0.06, 0.45 * Math.min(1, 150 / seen.length) ** 0.5);
    c.globalAlpha = quiet ? 0.4 * alpha : alpha;
    c.stroke();
    c.globalAlpha = 1;
  }

  /** Every edge of the node pointed at and of the chosen one, by its reason, with an arrowhead. */
  drawChosenEdges(state) {
    const { c, theme } = this;
    const ids = [state.hover, state.selected].filter((s) => s?.kind === "node").map((s) => s.id);
    for (const id of new Set(ids)) {
      const n = this.model.nodes[id];
      for (const e of [...n.into, ...n.outOf]) {
        c.strokeStyle = theme[e.reason];
        c.fillStyle = theme[e.reason];
        c.lineWidth = 2;
        c.setLineDash(e.reason === "lane" ? [4, 3] : []);
        c.beginPath();
        const to = this.curve(e);
        c.stroke();
        c.setLineDash([]);
        c.beginPath();
        c.moveTo(to.x + 2, to.y);
        c.lineTo(to.x - 6, to.y - 4);
        c.lineTo(to.x - 6, to.y + 4);
        c.fill();
      }
    }
  }

  /** What is at this point of the canvas. */
  hit(px, py) {
    const { view, plan } = this;
    if (!plan || px < view.left || py < this.size.top) return null;
    const row = Math.floor((py + view.y - this.size.top) / this.size.row);
    const lane = this.model.hostRow ? row - 1 : row;
    const near = (x) => px >= view.toX(x.p1) - 2 && px <= Math.max(view.toX(x.p2), view.toX(x.p1) + 1) + 2;
    if (lane < 0) {
      const h = this.model.host.find((x) => x.kind === "call" && near(x));
      return h ? { kind: "call", id: h.call } : null;
    }
    const nodes = plan.rows[lane] ?? [];
    const place = view.toPlace(px);
    const i = firstWhere(nodes, (n) => n.p2 >= place);
    const n = [nodes[i], nodes[i - 1], nodes[i + 1]].find((x) => x && near(x));
    if (n) return { kind: "node", id: n.id };
    const span = plan.spans.find((s) => near(s) && lane >= s.low && lane <= s.high);
    return span ? { kind: "span", id: span.repeat } : null;
  }
}
