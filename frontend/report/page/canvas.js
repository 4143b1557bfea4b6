// What both drawings share: colours, text that fits, the time axis, and the view on it.

const AXIS = 24; // pixels above the rows
const STRIP = 18; // names of the graphs, where there are several

/** Hues far from each other, also for those who see few of them: blue and orange come first. */
const HUES = [212, 32, 150, 275, 345, 188, 55, 310, 95, 242];

/** The page's colours, from the style sheet: they follow the reader's scheme. */
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  const dark = get("--scheme") === "dark";
  return {
    dark, back: get("--back"), raised: get("--raised"), ink: get("--ink"), dim: get("--dim"),
    line: get("--line"), grid: get("--grid"), accent: get("--accent"), mark: get("--mark"),
    raw: get("--raw"), war: get("--war"), waw: get("--waw"), lane: get("--lane"),
    fill: (hue) => (dark ? `hsl(${hue} 42% 27%)` : `hsl(${hue} 78% 88%)`),
    edge: (hue) => (dark ? `hsl(${hue} 55% 58%)` : `hsl(${hue} 55% 45%)`),
    text: (hue) => (dark ? `hsl(${hue} 60% 92%)` : `hsl(${hue} 70% 15%)`),
    mono: get("--mono"), sans: get("--sans"),
  };
}

/** The part of the axis that is shown: `x` is the place at the left end, `k` pixels a microsecond. */
class View {
  constructor() {
    Object.assign(this, { x: 0, k: 1, y: 0, width: 1, height: 1, left: 64, end: 1, rowsHeight: 1 });
  }
  get inner() {
    return Math.max(this.width - this.left - 12, 1);
  }
  get fitScale() {
    return this.inner / Math.max(this.end, 1e-6);
  }
  toX(place) {
    return this.left + (place - this.x) * this.k;
  }
  toPlace(px) {
    return this.x + (px - this.left) / this.k;
  }
  clamp() {
    this.k = Math.min(Math.max(this.k, this.fitScale), Math.max(4000, this.fitScale));
    this.x = Math.min(Math.max(this.x, 0), Math.max(this.end - this.inner / this.k, 0));
    this.y = Math.min(Math.max(this.y, 0), Math.max(this.rowsHeight - this.height, 0));
  }
  fit() {
    Object.assign(this, { x: 0, y: 0, k: this.fitScale });
  }
  /** Keeps what is at `px` there. */
  zoom(factor, px) {
    const place = this.toPlace(px);
    this.k *= factor;
    this.clamp();
    this.x = place - (px - this.left) / this.k;
    this.clamp();
  }
  /** Shows these places, with room on both sides. */
  show(p1, p2) {
    const span = Math.max((p2 - p1) * 1.5, 60 / 4000);
    this.k = this.inner / span;
    this.clamp();
    this.x = (p1 + p2) / 2 - this.inner / this.k / 2;
    this.clamp();
  }
  /** Scrolls no more than needed, and keeps the scale. */
  reveal(p1, p2) {
    const shown = this.inner / this.k;
    if (p1 < this.x || p2 > this.x + shown) this.x = (p1 + p2) / 2 - shown / 2;
    this.clamp();
  }
}

/** Sizes the canvas for the screen's pixels and returns its context, in CSS pixels. */
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return c;
}

/** `text`, shortened to `room` pixels in the context's monospaced font; empty if too little is left. */
function fitted(text, room, charWidth) {
  const most = Math.floor(room / charWidth);
  if (text.length <= most) return text;
  return most < 4 ? "" : text.slice(0, most - 1) + "\u2026";
}

/**
 * The longest tail of a scoped name that fits, with the number of the copy that was cut off
 * ("3/y" of "layer3/y") if that fits, else its last part shortened.
 */
function fittedName(name, room, charWidth) {
  const parts = name.split("/");
  const tails = parts.map((_, i) => parts.slice(i).join("/"));
  const numbered = tails.map((tail, i) => {
    const numbers = parts.slice(0, i).map((p) => /\d+$/.exec(p)?.[0]).filter((n) => n);
    return [...numbers.slice(-1), tail].join("/");
  });
  for (const text of [...numbered, ...tails]) {
    if (text.length * charWidth <= room) return text;
  }
  return fitted(parts[parts.length - 1], room, charWidth);
}

function timeText(us, step) {
  if (step >= 1000) return `${us / 1000} ms`;
  return `${Number(us.toFixed(step >= 1 ? 0 : Math.ceil(-Math.log10(step))))} us`;
}

/** Where the axis has marks: true times, none inside what is folded. */
function ticks(view, plan) {
  const step = niceStep(90 / view.k);
  const out = [];
  const last = plan.warp.time(view.toPlace(view.width));
  let t = Math.ceil(plan.warp.time(view.x) / step - 1e-9) * step;
  while (t <= last && out.length < 1000) {
    const span = plan.spans.find((s) => t > s.t1 && t < s.t2);
    if (span) {
      t = Math.ceil(span.t2 / step - 1e-9) * step;
    } else {
      out.push({ x: view.toX(plan.warp.place(t)), text: timeText(t, step) });
      t += step;
    }
  }
  return out;
}

function drawGrid(c, view, plan, theme) {
  c.fillStyle = theme.grid;
  for (const t of ticks(view, plan)) c.fillRect(Math.round(t.x), AXIS, 1, view.height);
}

function drawAxis(c, view, plan, theme) {
  c.fillStyle = theme.back;
  c.fillRect(0, 0, view.width, AXIS);
  c.fillStyle = theme.line;
  c.fillRect(0, AXIS - 1, view.width, 1);
  c.font = `11px ${theme.sans}`;
  c.textBaseline = "middle";
  let free = view.left;
  for (const t of ticks(view, plan)) {
    const x = Math.min(Math.max(t.x - c.measureText(t.text).width / 2, free), view.width);
    const width = c.measureText(t.text).width;
    if (t.x < view.left - 1 || x + width > view.width) continue;
    c.fillStyle = theme.line;
    c.fillRect(Math.round(t.x), AXIS - 5, 1, 5);
    c.fillStyle = theme.dim;
    c.fillText(t.text, x, AXIS / 2 - 1);
    free = x + width + 8;
  }
}

/** A place where the axis skips time. */
function drawSkip(c, view, span, theme) {
  const [x1, x2] = [view.toX(span.p1), view.toX(span.p2)];
  if (x2 < view.left || x1 > view.width) return;
  c.save();
  c.beginPath();
  c.rect(Math.max(x1, view.left), AXIS - 6, Math.min(x2, view.width) - Math.max(x1, view.left), 5);
  c.clip();
  c.strokeStyle = theme.dim;
  c.beginPath();
  for (let x = Math.max(x1, view.left - 6); x < Math.min(x2, view.width); x += 6) {
    c.moveTo(x, AXIS - 1);
    c.lineTo(x + 5, AXIS - 6);
  }
  c.stroke();
  c.restore();
}

function bytesText(bytes) {
  if (bytes < 10 * 1024) return `${bytes} B`;
  if (bytes < 10 * 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
