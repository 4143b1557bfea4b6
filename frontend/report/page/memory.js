// The memory plan: the arena's bytes upward, time to the right, a rectangle for each temporary from
// the first kernel that touches it to the last.

class Memory {
  constructor(model) {
    this.model = model;
    this.temps = model.buffers
      .filter((b) => b.segment === "temp" && b.end >= b.start && b.bytes > 0)
      .sort((a, b) => a.start - b.start || a.id - b.id);
    this.arena = this.temps.reduce(
      (most, b) => Math.max(most, b.offset + b.bytes), Math.max(model.doc.arena_bytes, 1));
  }

  /** The arena stands on the lower edge of the drawing. */
  toY(bytes) {
    const room = this.view.height - AXIS - 12;
    return this.view.height - 4 - (bytes / this.arena) * room;
  }

  box(b) {
    const x = this.view.toX(b.p1);
    const y = this.toY(b.offset + b.bytes);
    return { x, y, w: Math.max(this.view.toX(b.p2) - x, 1), h: Math.max(this.toY(b.offset) - y, 1) };
  }

  draw(c, view, plan, state, theme) {
    Object.assign(this, { view, plan });
    c.save();
    c.beginPath();
    c.rect(view.left, AXIS, view.width - view.left, view.height - AXIS);
    c.clip();
    drawGrid(c, view, plan, theme);
    const bright = this.emphasis(state);
    for (const b of this.temps) this.drawBuffer(c, b, bright, state, theme);
    this.drawBound(c, theme);
    c.restore();
    this.drawBytes(c, theme);
    drawAxis(c, view, plan, theme);
    for (const span of plan.spans) drawSkip(c, view, span, theme);
  }

  emphasis(state) {
    const s = state.selected;
    if (s?.kind === "buffer") return new Set([s.id]);
    const ids = s?.kind === "node" ? [s.id] : state.found;
    if (!ids) return null;
    const views = ids.flatMap((id) => this.model.nodes[id].args);
    return new Set(views.map((v) => this.model.doc.views[v][0]));
  }

  drawBuffer(c, b, bright, state, theme) {
    const { view } = this;
    const r = this.box(b);
    if (r.x > view.width || r.x + r.w < view.left) return;
    const hue = HUES[b.id % HUES.length];
    const chosen = state.selected?.kind === "buffer" && state.selected.id === b.id;
    c.globalAlpha = bright && !bright.has(b.id) ? 0.35 : 1;
    const solid = r.w <= 3 || r.h <= 3;
    c.fillStyle = solid ? theme.edge(hue) : theme.fill(hue);
    c.fillRect(r.x, r.y, r.w, r.h);
    if (!solid) {
      c.strokeStyle = chosen ? theme.ink : theme.edge(hue);
      c.lineWidth = chosen ? 2.5 : 1;
      c.strokeRect(r.x + 0.5, r.y + 0.5, r.w - 1, r.h - 1);
    }
    if (r.w > 40 && r.h > 13) this.drawLabel(c, b, r, theme.text(hue), theme);
    c.globalAlpha = 1;
  }

  drawLabel(c, b, r, colour, theme) {
    c.font = `11px ${theme.mono}`;
    const char = c.measureText("0").width;
    const x = Math.max(r.x, this.view.left) + 5;
    const room = Math.min(r.x + r.w, this.view.width) - x - 4;
    const bytes = bytesText(b.bytes);
    const two = r.h > 30 && bytes.length * char <= room;
    c.fillStyle = colour;
    c.textBaseline = "middle";
    const name = fittedName(opName(b.name), room, char);
    c.fillText(name, x, r.y + r.h / 2 - (two ? 7 : 0));
    if (two) c.fillText(bytes, x, r.y + r.h / 2 + 7);
  }

  /** No plan can have a smaller arena than the most bytes that live at one time. */
  drawBound(c, theme) {
    const bound = this.model.doc.arena_lower_bound;
    if (bound <= 0) return;
    const y = Math.round(this.toY(bound)) + 0.5;
    c.strokeStyle = theme.accent;
    c.lineWidth = 1;
    c.setLineDash([6, 4]);
    c.beginPath();
    c.moveTo(this.view.left, y);
    c.lineTo(this.view.width, y);
    c.stroke();
    c.setLineDash([]);
  }

  drawBytes(c, theme) {
    const { view } = this;
    c.fillStyle = theme.back;
    c.fillRect(0, AXIS, view.left - 1, view.height);
    c.fillStyle = theme.line;
    c.fillRect(view.left - 1, 0, 1, view.height);
    c.font = `11px ${theme.sans}`;
    c.textBaseline = "middle";
    c.fillStyle = theme.dim;
    const room = view.height - AXIS - 12;
    let step = 256;
    while ((step / this.arena) * room < 36) step *= 2;
    for (let bytes = 0; bytes <= this.arena; bytes += step) {
      const y = Math.min(this.toY(bytes), view.height - 8);
      c.fillText(bytesText(bytes).replace(".0 ", " "), 6, y);
      c.fillRect(view.left - 5, Math.round(this.toY(bytes)), 4, 1);
    }
  }

  hit(px, py) {
    if (!this.plan || px < this.view.left || py < AXIS) return null;
    // The last one drawn lies on top.
    for (let i = this.temps.length - 1; i >= 0; i--) {
      const r = this.box(this.temps[i]);
      if (px >= r.x - 1 && px <= r.x + r.w + 1 && py >= r.y && py <= r.y + r.h) {
        return { kind: "buffer", id: this.temps[i].id };
      }
    }
    return null;
  }
}
