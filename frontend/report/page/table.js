// The list below the drawing. Rows exist only where they can be seen, so that there may be many.

const ROW = 28;

const NODE_COLUMNS = [
  { title: "node", className: "c-key", text: (n) => n.key, order: (n) => n.id },
  { title: "stream", className: "c-num", text: (n) => String(n.lane), order: (n) => n.lane },
  { title: "start us", className: "c-num", text: (n) => n.start.toFixed(2), order: (n) => n.start },
  { title: "us", className: "c-num", text: (n) => n.us.toFixed(2), order: (n) => n.us },
  { title: "ops", className: "c-ops", text: (n) => n.ops.join(", "), order: (n) => nodeName(n) },
  { title: "kernel", className: "c-kernel", text: (n) => n.kernel.symbol, order: (n) => n.kernel.symbol },
  { title: "place", className: "c-place", text: (n) => n.place, order: (n) => n.place },
];

const BUFFER_COLUMNS = [
  { title: "buffer", className: "c-ops", text: (b) => b.name, order: (b) => b.name },
  { title: "kind", className: "c-key", text: (b) => b.segment, order: (b) => b.segment },
  { title: "bytes", className: "c-num", text: (b) => bytesText(b.bytes), order: (b) => b.bytes },
  { title: "offset", className: "c-num", text: (b) => (b.segment === "temp" ? String(b.offset) : ""), order: (b) => b.offset },
  { title: "type", className: "c-kernel", text: (b) => b.type, order: (b) => b.type },
  { title: "us", className: "c-num", text: (b) => (b.end >= b.start ? (b.end - b.start).toFixed(2) : ""), order: (b) => b.end - b.start || 0 },
];

class Table {
  constructor(root, kind, columns, choose) {
    Object.assign(this, { root, kind, columns, choose, items: [], sort: -1, down: false, id: null });
    this.head = el("div", { class: "row head", role: "row" });
    this.body = el("div", { class: "rows", role: "rowgroup", tabindex: "0" });
    this.inside = el("div", { class: "inside", role: "presentation" });
    this.body.append(this.inside);
    this.body.addEventListener("scroll", () => this.render());
    this.body.addEventListener("keydown", (e) => this.onKey(e));
  }

  attach() {
    this.root.replaceChildren(this.head, this.body);
    this.root.setAttribute("aria-label", this.kind === "node" ? "Kernels" : "Buffers");
    this.render();
  }

  setItems(items) {
    this.items = [...items];
    const order = this.columns[this.sort]?.order;
    if (order) {
      const sign = this.down ? -1 : 1;
      const less = (a, b) => (order(a) < order(b) ? -sign : order(a) > order(b) ? sign : a.id - b.id);
      this.items.sort(less);
    }
    this.source = items;
    this.root.setAttribute("aria-rowcount", String(items.length + 1));
    this.drawHead();
    this.render();
  }

  drawHead() {
    const cell = (column, i) => el("button", {
      class: column.className, role: "columnheader",
      "aria-sort": this.sort !== i ? "none" : this.down ? "descending" : "ascending",
      onclick: () => this.sortBy(i),
    }, column.title + (this.sort !== i ? "" : this.down ? " \u2193" : " \u2191"));
    this.head.replaceChildren(...this.columns.map(cell));
  }

  /** Once for numbers with the largest first, again for the other way, and again for the plan's order. */
  sortBy(i) {
    if (this.sort !== i) Object.assign(this, { sort: i, down: this.columns[i].className === "c-num" });
    else if (this.down === (this.columns[i].className === "c-num")) this.down = !this.down;
    else this.sort = -1;
    this.setItems(this.source);
  }

  render() {
    const first = Math.max(Math.floor(this.body.scrollTop / ROW) - 4, 0);
    const count = Math.ceil((this.body.clientHeight || 300) / ROW) + 8;
    this.inside.style.height = `${this.items.length * ROW}px`;
    this.inside.replaceChildren(
      ...this.items.slice(first, first + count).map((item, i) => this.row(item, first + i)));
  }

  row(item, index) {
    const r = el("div", {
      class: "row", role: "row", "aria-rowindex": String(index + 2),
      "aria-selected": item.id === this.id ? "true" : null,
      onclick: () => this.choose({ kind: this.kind, id: item.id }),
    }, ...this.columns.map((c) => {
      const text = c.text(item);
      return el("span", { class: c.className, role: "cell", title: text.length > 12 ? text : null }, text);
    }));
    r.style.top = `${index * ROW}px`;
    return r;
  }

  onKey(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (!step || this.items.length === 0) return;
    e.preventDefault();
    const now = this.items.findIndex((i) => i.id === this.id);
    const next = Math.min(Math.max(now + step, 0), this.items.length - 1);
    this.choose({ kind: this.kind, id: this.items[next].id });
  }

  /** Marks an item and scrolls to it; null marks none. */
  mark(id) {
    this.id = id;
    const at = id === null ? -1 : this.items.findIndex((i) => i.id === id);
    if (at >= 0) {
      const top = at * ROW;
      if (top < this.body.scrollTop || top + ROW > this.body.scrollTop + this.body.clientHeight) {
        this.body.scrollTop = Math.max(top - this.body.clientHeight / 2 + ROW, 0);
      }
    }
    this.render();
  }
}
