// From time to pixels: repeats that are folded take less of the axis, and the view zooms into the
// rest. "Place" below is a time after folding, in microseconds.

/**
 * What a repeat would hide: from the end of its first copy to the end of its last one. Folded it
 * takes less room than the first copy, which is drawn in full.
 */
function spanOf(model, r) {
  const span = { repeat: r, members: [], t1: -Infinity, t2: -Infinity, low: Infinity, high: 0 };
  let begin = Infinity;
  for (const n of model.nodes) {
    const copy = n.copies.find(([index]) => index === r);
    if (!copy) continue;
    if (copy[1] > 0) {
      span.members.push(n);
      span.t2 = Math.max(span.t2, n.end);
    } else {
      begin = Math.min(begin, n.start);
      span.t1 = Math.max(span.t1, n.end);
    }
  }
  span.first = Math.max(span.t1 - begin, 0);
  span.width = 0.4 * span.first;
  return span;
}

/**
 * Repeats worth folding: at least three copies that mostly follow the first one. Copies that run
 * side by side stay as they are: the streams they are on are what the page is to show.
 */
function foldable(model) {
  const spans = [];
  model.doc.repeats.forEach((repeat, r) => {
    if (repeat.count < 3) return;
    const span = spanOf(model, r);
    if (span.members.length < 3 || !(span.t2 - span.t1 > 1.5 * span.first)) return;
    span.members = span.members.filter((n) => n.start >= span.t1 - 1e-9);
    for (const n of span.members) {
      span.low = Math.min(span.low, n.row);
      span.high = Math.max(span.high, n.row);
    }
    if (span.members.length > 0) spans.push(span);
  });
  // The outer one of nested repeats begins no later and ends no earlier.
  spans.sort((a, b) => a.t1 - b.t1 || b.t2 - a.t2);
  return spans;
}

/** Those of `spans` that are folded now: none inside another. */
function foldedSpans(spans, open) {
  const out = [];
  for (const s of spans) {
    if (open.has(s.repeat)) continue;
    if (out.length > 0 && s.t1 < out[out.length - 1].t2) continue;
    out.push(s);
  }
  return out;
}

/** The map from time to place and back. */
function warpOf(spans) {
  const saved = (s) => s.t2 - s.t1 - s.width;
  return {
    place(t) {
      let p = t;
      for (const s of spans) {
        if (t <= s.t1) break;
        if (t >= s.t2) p -= saved(s);
        else p -= (t - s.t1) * (saved(s) / (s.t2 - s.t1));
      }
      return p;
    },
    time(p) {
      let t = p;
      for (const s of spans) {
        if (t <= s.t1) break;
        if (t >= s.t1 + s.width) t += saved(s);
        else return s.t1 + (t - s.t1) * ((s.t2 - s.t1) / s.width);
      }
      return t;
    },
  };
}

/** Everything that can be drawn, with places: recomputed when folds change, not when the view does. */
function layout(model, spans) {
  const warp = warpOf(spans);
  const hidden = new Set();
  for (const s of spans) {
    s.p1 = warp.place(s.t1);
    s.p2 = warp.place(s.t2);
    for (const n of s.members) hidden.add(n.id);
  }
  const put = (x) => {
    x.p1 = warp.place(x.start);
    x.p2 = warp.place(x.end);
  };
  const rows = Array.from({ length: model.rows }, () => []);
  for (const n of model.nodes) {
    put(n);
    n.hidden = hidden.has(n.id);
    if (!n.hidden) rows[n.row]?.push(n);
  }
  for (const row of rows) row.sort((a, b) => a.p1 - b.p1 || a.id - b.id);
  for (const h of model.host) put(h);
  for (const b of model.bodies) put(b);
  for (const b of model.buffers) if (b.end >= b.start) put(b);
  const crossing = model.edges.filter(
    (e) => e.from.row !== e.to.row && !(e.from.hidden && e.to.hidden));
  return { warp, spans, rows, crossing, end: warp.place(model.end) || 1 };
}

/** A step of the axis: 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least * 0.999);
}

/** The index of the first of `items`, which are in order, for which `test` holds. */
function firstWhere(items, test) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(items[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
