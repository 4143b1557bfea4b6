// The page's own logic, where node is installed: time, folds, the critical path, search. The drawing
// is looked at in a browser instead.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const folder = new URL("../frontend/report/page/", import.meta.url);
const order = /set\(page_scripts ([^)]*)\)/.exec(
  readFileSync(new URL("../CMakeLists.txt", import.meta.url), "utf8"))[1].trim().split(/\s+/);
const read = (name) => readFileSync(new URL(name, folder), "utf8");

// The parts joined are one module that parses; those without a document can be run.
new (Object.getPrototypeOf(async () => {}).constructor)(order.map(read).join(""));
const page = new Function(`${["model.js", "regions.js", "scale.js", "canvas.js"].map(read).join("")}
  return { schedule, load, criticalPath, findNodes, copiesOf, foldable, foldedSpans, warpOf, layout,
           niceStep, firstWhere, fittedName, stepText, totals, regionKind, sideText };`)();

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

/** A stream of numbers that is the same on every run. */
function numbers(seed) {
  let x = seed;
  return (n) => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return Math.floor((x / 2 ** 32) * n);
  };
}

/** A chain of `count` blocks of `each` kernels with something before and after, on one stream. */
function blocks(count, each, us) {
  const kernels = [{ symbol: "row_add_0123abcd", family: "row", args: [["a0", "in"], ["r0", "out"]] }];
  const nodes = [];
  const buffers = [{ name: "x", segment: "input", bytes: 64, offset: 0 }];
  const add = (op) => {
    buffers.push({ name: op, segment: "temp", bytes: 64, offset: 64 * (nodes.length % 2) });
    nodes.push({ kernel: 0, ops: [`${op}/dot`, `${op} (add)`], place: "m.toml:1:2", lane: 0,
      start: nodes.length * us, us, args: [nodes.length, nodes.length + 1] });
  };
  add("first");
  for (let i = 0; i < count; i++) for (let j = 0; j < each; j++) add(`block.${i}/op${j}`);
  add("last");
  const edges = nodes.slice(1).map((_, n) => [n, n + 1, "raw", n + 1]);
  return {
    bodies: [{ lanes: 1, predicted_us: nodes.length * us, nodes, edges }], kernels, buffers,
    views: buffers.map((_, b) => [b, 0]), calls: [], script: [["launch", 0]], break_us: 5,
    repeats: [{ prefix: "block.", count }], regions: [], dissolved: [], messages: [],
  };
}

/**
 * Two conditional nodes side by side in a graph of two streams, with a loop in a side of the first;
 * after it a kernel that a branch guards.
 */
function nested() {
  const kernels = [{ symbol: "row_add_0123abcd", family: "row", parts: 1, args: [["r0", "out"]] }];
  const region = (bodies, more) => ({ kind: "node", loop: false, region: null, branch: 0, flag_type: "b1",
    sides: bodies.length, bodies, scripts: [], slots: [["a", "in"], ["s", "inout"]], args: [0, 1],
    unrolled: 1, op: "layer/if (branch)", place: "m.toml:3:1", why: "", us: 10, ...more });
  const node = (start, us, lane, more) => ({ kernel: 0, ops: ["x (add)"], place: "", lane, start, us,
    args: [1], ...more });
  const conditional = (r, start, us, lane) =>
    node(start, us, lane, { kernel: null, region: r, ops: [`r${r} (branch)`], args: [0, 1] });
  const body = (lanes, nodes, more) => ({ lanes, predicted_us: Math.max(0, ...nodes.map((n) => n.start + n.us)),
    chain_us: nodes.reduce((sum, n) => sum + n.us, 0), nodes, edges: [], ...more });
  return {
    bodies: [
      body(2, [node(0, 1, 0), conditional(0, 2, 10, 0), conditional(2, 3, 4, 1),
        node(12, 1, 0, { region: 3, branch: 1 })]),
      body(1, [node(0, 2, 0), conditional(1, 3, 5, 0)], { region: 0, branch: 0 }),
      body(3, [node(0, 1, 2), node(0, 1, 1)], { region: 0, branch: 1 }),
      body(1, [node(0, 4, 0)], { region: 1, branch: 0 }),
      body(1, [], { region: 2, branch: 0 }), body(2, [node(0, 3, 1)], { region: 2, branch: 1 }),
    ],
    regions: [region([1, 2]), region([3], { loop: true, region: 0 }),
      region([4, 5], { flag_type: "i32" }), region([], { kind: "predicate", sides: 2 })],
    kernels, buffers: [{ name: "flag", segment: "handle", bytes: 0, offset: 0 },
      { name: "s", segment: "temp", bytes: 64, offset: 0 }],
    views: [[0, 0], [1, 0]], calls: [], script: [["launch", 0]], break_us: 5, repeats: [],
    dissolved: [], messages: [],
  };
}

const tests = {
  "host work waits for what it reads, and overlaps what it does not"() {
    const doc = {
      bodies: [{ predicted_us: 10 }, { predicted_us: 20 }, { predicted_us: 3 }], break_us: 5,
      script: [["launch", 0], ["read", 0], ["launch", 1], ["wait", 0], ["call", 0], ["write", 0],
        ["launch", 2]],
    };
    const s = page.schedule(doc);
    assert.deepEqual([...s.starts], [[0, 0], [1, 10], [2, 30]]);
    assert.deepEqual(s.host, [{ kind: "wait", call: 0, start: 0, end: 10 },
      { kind: "call", call: 0, start: 10, end: 15 }]);
    assert.equal(s.end, 33);
    // Without the body beside it the next one waits for the host.
    doc.script.splice(2, 1);
    assert.equal(page.schedule(doc).starts.get(2), 15);
  },

  "what the host drives is followed once, after a wait"() {
    const doc = {
      bodies: [{ predicted_us: 10, chain_us: 11 }, { predicted_us: 4, chain_us: 6 }, { predicted_us: 3 },
        { predicted_us: 2 }],
      regions: [{ scripts: [[["launch", 1], ["region", 1]]], us: 30, loop: true, op: "go (loop)" },
        { scripts: [[["launch", 2]], [["launch", 3]]], us: 7, loop: false, op: "is (branch)" }],
      break_us: 5, script: [["launch", 0], ["region", 0]],
    };
    const s = page.schedule(doc);
    assert.deepEqual([...s.starts], [[0, 0], [1, 10], [2, 14], [3, 17]]);
    assert.deepEqual(s.host, [{ kind: "decide", region: 0, start: 0, end: 10 },
      { kind: "decide", region: 1, start: 10, end: 14 }]);
    assert.equal(s.end, 19);
    assert.deepEqual(page.totals(doc), { predicted: 40, chain: 41 });
    assert.match(page.stepText(doc, ["region", 0]), /go \(loop\) goes on/);
    assert.match(page.stepText(doc, ["region", 1]), /is \(branch\) is so/);
  },

  "sides stand below their node, begin with it, and share no row at one time"() {
    const doc = nested();
    const model = page.load(doc);
    const [top, no, yes, loop, empty, other] = model.bodies;
    assert.deepEqual([top.row, no.row, yes.row, loop.row, empty.row, other.row], [0, 2, 4, 3, 7, 8]);
    assert.deepEqual([model.lanes, model.rows], [2, 10]);
    assert.deepEqual([no.start, yes.start, loop.start, other.start], [2, 2, 5, 3]);
    assert.equal(no.owner, model.nodes[1]);
    assert.equal(loop.owner, model.nodes[no.first + 1]);
    assert.equal(top.owner, undefined);
    assert.deepEqual(model.nodes.map((n) => n.row), [0, 0, 1, 0, 2, 2, 6, 5, 3, 9]);
    assert.deepEqual(page.layout(model, []).rows.map((r) => r.length), [3, 1, 2, 1, 0, 1, 1, 0, 0, 1]);
    assert.equal(model.nodes.filter((n) => n.conditional).length, 3);
    assert.deepEqual(model.nodes.filter((n) => n.guarded).map((n) => n.key), ["g0.n3"]);
    assert.deepEqual(page.totals(doc), { predicted: 13, chain: 16 });
    assert.deepEqual(page.findNodes(model, "while"), [5]);
    assert.deepEqual(page.findNodes(model, "switch node"), [2]);
    // One after the other they share rows.
    doc.bodies[0].nodes[2].start = 40;
    assert.deepEqual(page.load(doc).bodies.map((b) => b.row), [0, 2, 4, 3, 2, 3]);
  },

  "arguments of a conditional node are its region's"() {
    const model = page.load(nested());
    const [flag, s] = model.buffers;
    assert.deepEqual(flag.readers.map((n) => n.key), ["g0.n1", "g0.n2", "g1.n1"]);
    assert.deepEqual(s.writers.length, 10);
    assert.deepEqual(s.readers.length, 3);
    assert.deepEqual(model.doc.regions.map(page.regionKind),
      ["IF node", "WHILE node", "SWITCH node", "guarded kernels"]);
    assert.deepEqual([0, 1, 2].map((r) => page.sideText(model.doc, r, 1)),
      ["where r0 is true", "the body of r1", "where r2 is 1"]);
  },

  "a box that is too small for its scope keeps the number of the copy"() {
    const texts = [20, 8, 5, 3, 2, 1].map((room) => page.fittedName("top/layer12/y", room, 1));
    assert.deepEqual(texts, ["top/layer12/y", "12/y", "12/y", "y", "y", "y"]);
    assert.equal(page.fittedName("layer0/y", 8, 1), "layer0/y");
    assert.equal(page.fittedName("layer0/y", 7, 1), "0/y");
    assert.equal(page.fittedName("mlp/hidden", 7, 1), "hidden");
  },

  "steps of the script name what crosses"() {
    const doc = {
      calls: [{ function: "identity", args: [0, 1], results: [2] }],
      views: [[1, 0], [0, 0], [2, 0]],
      buffers: [{ name: "a" }, { name: "b (exp)" }, { name: "r (host)" }],
    };
    const texts = ["read", "wait", "call", "write"].map((kind) => page.stepText(doc, [kind, 0]));
    assert.deepEqual(texts, ["start to copy b, a to the host", "wait for b, a", "call identity (c0)",
      "copy r to the device"]);
  },

  "a kernel belongs to the copy that its last op names"() {
    const repeats = [{ prefix: "layer.", count: 12 }, { prefix: "layer.1/head", count: 3 }];
    assert.deepEqual(page.copiesOf(["layer.3/x", "layer.11/y (add)"], repeats), [[0, 11]]);
    assert.deepEqual(page.copiesOf(["layer.1/head2/q (mul)"], repeats), [[0, 1], [1, 2]]);
    for (const op of ["layer.12/x", "layer.x", "layer.", "layers.1/x", "layer.1x/y"]) {
      assert.deepEqual(page.copiesOf([op], repeats), [], op);
    }
    assert.deepEqual(page.copiesOf([], repeats), []);
  },

  "a folded repeat hides all copies but the first, and time comes back"() {
    const random = numbers(7);
    for (let round = 0; round < 50; round++) {
      const [count, each, us] = [3 + random(20), 1 + random(9), 0.5 + random(40) / 8];
      const model = page.load(blocks(count, each, us));
      const spans = page.foldedSpans(page.foldable(model), new Set());
      assert.equal(spans.length, (count - 1) * each >= 3 ? 1 : 0);
      if (spans.length === 0) continue;
      const plan = page.layout(model, spans);
      const hidden = model.nodes.filter((n) => n.hidden).map((n) => n.id);
      assert.deepEqual(hidden, [...Array((count - 1) * each).keys()].map((n) => n + 1 + each));
      near(plan.end, model.end - (count - 1) * each * us + 0.4 * each * us);
      let before = -1;
      for (let i = 0; i <= 100; i++) {
        const t = (model.end * i) / 100;
        const p = plan.warp.place(t);
        assert.ok(p > before);
        before = p;
        near(plan.warp.time(p), t);
      }
      assert.equal(page.foldedSpans(page.foldable(model), new Set([0])).length, 0);
    }
  },

  "copies side by side are not folded"() {
    const doc = blocks(8, 4, 1);
    for (const n of doc.bodies[0].nodes) n.start = 0;
    assert.deepEqual(page.foldable(page.load(doc)), []);
  },

  "a repeat inside a folded one is not folded again, and is when the outer one is open"() {
    const doc = blocks(6, 12, 1);
    doc.repeats.push({ prefix: "block.4/op", count: 12 });
    const spans = page.foldable(page.load(doc));
    assert.equal(spans.length, 2);
    assert.deepEqual(page.foldedSpans(spans, new Set()).map((s) => s.repeat), [0]);
    assert.deepEqual(page.foldedSpans(spans, new Set([0])).map((s) => s.repeat), [1]);
  },

  "the critical path goes back by the latest source"() {
    const doc = blocks(3, 2, 1);
    const { nodes } = doc.bodies[0];
    nodes[3].us = 4;
    nodes[3].start = 2.5;
    doc.bodies[0].edges = [[0, 1, "raw", 1], [0, 3, "raw", 1], [1, 7, "raw", 2], [3, 7, "raw", 4]];
    const path = [...page.criticalPath(page.load(doc))].map((n) => n.id);
    assert.deepEqual(path, [7, 3, 0]);
  },

  "search wants every word, in any case, and takes a whole key for itself"() {
    const model = page.load(blocks(4, 3, 1));
    assert.deepEqual(page.findNodes(model, "BLOCK.2 op1"), [8]);
    assert.deepEqual(page.findNodes(model, "n1"), [1]);
    assert.deepEqual(page.findNodes(model, "g0.n12"), [12]);
    assert.equal(page.findNodes(model, "row_add").length, 14);
    assert.deepEqual(page.findNodes(model, "nowhere"), []);
    assert.equal(page.findNodes(model, "  "), null);
  },

  "buffers live from their first kernel to their last"() {
    const model = page.load(blocks(3, 2, 1.5));
    const b = model.buffers[3];
    assert.deepEqual([b.start, b.end], [3, 6]);
    assert.deepEqual(b.writers.map((n) => n.id), [2]);
    assert.deepEqual(b.readers.map((n) => n.id), [3]);
  },

  "steps of the axis are 1, 2 or 5 times a power of ten"() {
    for (const [least, step] of [[0.03, 0.05], [1, 1], [1.1, 2], [7, 10], [230, 500]]) {
      near(page.niceStep(least), step);
    }
    assert.equal(page.firstWhere([1, 3, 5], (x) => x >= 4), 2);
    assert.equal(page.firstWhere([1, 3, 5], (x) => x >= 9), 3);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    test();
  } catch (e) {
    failed++;
    console.error(`FAILED: ${name}\n${e.stack}`);
  }
}
console.log(`${Object.keys(tests).length - failed} of ${Object.keys(tests).length} passed`);
process.exit(failed > 0 ? 1 : 0);
