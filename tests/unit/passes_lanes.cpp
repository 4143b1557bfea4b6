#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "passes/check.hpp"
#include "passes/kernels/family.hpp"
#include "passes/lanes.hpp"
#include "passes/order.hpp"
#include "passes/plan.hpp"
#include "passes_help.hpp"
#include "plan_help.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using Preds = std::vector<std::vector<uint32_t>>;

/// No edge costs anything, and as many kernels start at once as like.
Prices free_edges() {
  Prices p;
  p.chain_edge_us = p.forked_edge_us = p.cross_edge_us = p.issue_us = p.join_us = 0;
  return p;
}

struct Dag {
  std::vector<KernelCost> costs;
  Preds preds;
  uint32_t add(KernelCost cost, std::vector<uint32_t> from = {}) {
    costs.push_back(cost);
    preds.push_back(std::move(from));
    return static_cast<uint32_t>(costs.size() - 1);
  }
  Tasks tasks() const { return Tasks(costs, preds); }
};

/// Each node waits for up to three of the `window` before it.
Dag random_dag(std::mt19937& random, uint32_t nodes, uint32_t window, double most_share) {
  Dag d;
  const auto unit = [&] { return static_cast<double>(random() % 1000 + 1) / 1000; };
  for (uint32_t n = 0; n < nodes; ++n) {
    std::vector<uint32_t> from;
    for (uint32_t i = static_cast<uint32_t>(random() % 4); i > 0 && n > 0; --i) {
      from.push_back(n - 1 - static_cast<uint32_t>(random() % std::min(n, window)));
    }
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    d.add({unit() * 5, unit() * most_share}, std::move(from));
  }
  return d;
}

Dag towers(uint32_t count, uint32_t height, KernelCost cost) {
  Dag d;
  for (uint32_t t = 0; t < count; ++t) {
    for (uint32_t h = 0; h < height; ++h) {
      const auto next = static_cast<uint32_t>(d.costs.size());
      d.add(cost, h == 0 ? std::vector<uint32_t>{} : std::vector{next - 1});
    }
  }
  return d;
}

/// A Program whose nodes touch memory as the DAG says: each fills a temporary that others read.
PlanMaker plan_of(const Dag& d) {
  PlanMaker m;
  std::vector<uint32_t> buffer;
  for (const std::vector<uint32_t>& from : d.preds) {
    std::vector<PlanMaker::Use> uses;
    for (uint32_t p : from) uses.push_back({buffer[p], Role::in});
    buffer.push_back(m.temp(64));
    uses.push_back({buffer.back(), Role::out});
    m.node(uses);
  }
  return m;
}

double longest_path(const Dag& d, double edge) {
  std::vector<double> end(d.costs.size());
  double longest = 0;
  for (size_t n = 0; n < end.size(); ++n) {
    double start = 0;
    for (uint32_t p : d.preds[n]) start = std::max(start, end[p] + edge);
    longest = std::max(longest, end[n] = start + d.costs[n].us);
  }
  return longest;
}

double sum_of_work(const Dag& d) {
  double sum = 0;
  for (const KernelCost& c : d.costs) sum += c.us;
  return sum;
}

/// Every node once, after what it waits for; lanes below the width.
void expect_legal(const Dag& d, const LanePlan& plan, uint32_t width) {
  REQUIRE(plan.order.size() == d.costs.size());
  REQUIRE(plan.lane.size() == d.costs.size());
  std::vector<bool> done(d.costs.size(), false);
  for (uint32_t v : plan.order) {
    REQUIRE(!done[v]);
    for (uint32_t p : d.preds[v]) REQUIRE(done[p]);
    done[v] = true;
    REQUIRE(plan.lane[v] < width);
  }
  CHECK(plan.lanes <= width);
}

/// The rules of predict by small steps: what is left of every running kernel is kept, and all that
/// may happen next is looked at.
Prediction simulate(const Dag& d, const LanePlan& plan, const Prices& prices) {
  const size_t n = d.costs.size();
  enum State { waiting, running, over };
  std::vector<State> state(n, waiting);
  std::vector<double> left(n), end(n, 0);
  std::vector<bool> alone(n, false);  // when it ended nothing else ran or could start
  Prediction result{0, std::vector<double>(n, 0), {}};
  double now = 0, issue = 0;
  const auto ready_at = [&](size_t i) {  // of the i-th in order; negative: not yet
    const uint32_t v = plan.order[i];
    double at = 0;
    bool all = true;
    const auto wait = [&](uint32_t p) {
      all = all && state[p] == over;
      const bool same = plan.lane[p] == plan.lane[v];
      const double edge = plan.lanes == 1 || (same && alone[p])
                              ? prices.chain_edge_us
                              : prices.forked_edge_us + (same ? 0 : prices.cross_edge_us);
      at = std::max(at, end[p] + edge);
    };
    for (uint32_t p : d.preds[v]) wait(p);
    for (size_t j = i; j-- > 0;) {
      if (plan.lane[plan.order[j]] != plan.lane[v]) continue;
      wait(plan.order[j]);
      break;
    }
    return all ? at : -1;
  };
  for (size_t finished = 0; finished < n;) {
    double share = 0;
    for (size_t v = 0; v < n; ++v) share += state[v] == running ? d.costs[v].share : 0;
    const double slower = std::max(1.0, share);
    size_t next = n;
    double when = 1e300;
    bool starts = false;
    for (size_t v = 0; v < n; ++v) {
      if (state[v] == running && now + left[v] * slower < when) {
        when = now + left[v] * slower;
        next = v;
      }
    }
    double first_ready = 1e300;
    for (size_t i = 0; i < n; ++i) {
      const double at = state[plan.order[i]] == waiting ? ready_at(i) : -1;
      if (at < 0 || at >= first_ready) continue;
      first_ready = at;
      if (std::max({at, issue, now}) < when) starts = true;
      if (starts) next = plan.order[i];
    }
    if (starts) when = std::max({first_ready, issue, now});
    for (size_t v = 0; v < n; ++v) {
      if (state[v] == running) left[v] -= (when - now) / slower;
    }
    now = when;
    if (starts) {
      state[next] = running;
      left[next] = d.costs[next].us;
      result.start_us[next] = now;
      result.order.push_back(static_cast<uint32_t>(next));
      issue = now + prices.issue_us;
    } else {
      alone[next] = true;
      for (size_t i = 0; i < n; ++i) {
        const uint32_t other = plan.order[i];
        if (other == next) continue;
        if (state[other] == running || (state[other] == waiting && ready_at(i) >= 0) ||
            (state[other] == over && end[other] == now)) {
          alone[next] = false;
        }
      }
      state[next] = over;
      end[next] = now;
      ++finished;
    }
  }
  result.us = now;
  return result;
}

struct Assigned {
  PlanMaker m;
  Body& body() { return m.body(); }
};
Assigned assign(const Dag& d, int streams, const Prices& prices = kPrices, bool force = false) {
  Assigned a{plan_of(d)};
  Options o;
  o.streams = streams;
  o.force_lanes = force;
  assign_lanes(a.m.p, o, d.costs, prices);
  return a;
}

}  // namespace

TEST_CASE("a prediction is what a simulation by small steps gives") {
  std::mt19937 random(50);
  size_t shared = 0;
  for (int round = 0; round < 400; ++round) {
    const Dag d =
        random_dag(random, 1 + static_cast<uint32_t>(random() % 30), 8, round % 3 == 0 ? 1.0 : 0.4);
    const uint32_t lanes = 1 + static_cast<uint32_t>(random() % 6);
    const Prices prices = round % 5 == 0 ? free_edges() : Prices{};
    LanePlan plan = one_lane(static_cast<uint32_t>(d.costs.size()));
    plan.lanes = lanes;
    for (uint32_t& lane : plan.lane) lane = static_cast<uint32_t>(random() % lanes);
    const Prediction fast = predict(d.tasks(), plan, prices), slow = simulate(d, plan, prices);
    CHECK(fast.us == doctest::Approx(slow.us).epsilon(1e-9));
    for (size_t v = 0; v < d.costs.size(); ++v) {
      CHECK(fast.start_us[v] == doctest::Approx(slow.start_us[v]).epsilon(1e-9));
    }
    Dag light = d;
    for (KernelCost& c : light.costs) c.share = 0;
    shared += predict(light.tasks(), plan, prices).us < fast.us * 0.999;
  }
  CHECK(shared > 50);
}

TEST_CASE("predictions by hand") {
  Dag d;
  d.add({2, 0.6});
  d.add({2, 0.6});
  d.add({1, 0.6}, {0, 1});
  Prices prices = free_edges();
  LanePlan plan{{0, 1, 0}, {0, 1, 2}, 2};
  // Two at once, each at 1 / 1.2 of its speed.
  CHECK(predict(d.tasks(), plan, prices).us == doctest::Approx(2.4 + 1));
  prices.forked_edge_us = 0.8;
  prices.cross_edge_us = 0.1;
  CHECK(predict(d.tasks(), plan, prices).us == doctest::Approx(2.4 + 0.9 + 1));
  // The second starts later, so for a while the first has the GPU to itself.
  prices.issue_us = 0.5;
  CHECK(predict(d.tasks(), plan, prices).us == doctest::Approx(0.5 + 1.8 + 0.5 + 0.9 + 1));
  // One lane: an edge between all neighbours.
  prices.chain_edge_us = 0.25;
  CHECK(predict(d.tasks(), one_lane(3), prices).us == doctest::Approx(5.5));
}

TEST_CASE("schedules are legal and near their bounds") {
  std::mt19937 random(51);
  double worst = 0;
  for (int round = 0; round < 300; ++round) {
    const auto width = 1 + static_cast<uint32_t>(random() % 9);
    const Dag d = random_dag(random, 1 + static_cast<uint32_t>(random() % 120),
                             2 + static_cast<uint32_t>(random() % 30), round % 2 ? 0.0 : 0.5);
    const Tasks tasks = d.tasks();
    for (const Prices& prices : {Prices{}, free_edges()}) {
      const LanePlan rank = schedule_by_rank(tasks, width, prices);
      const LanePlan time = schedule_by_time(tasks, width, prices);
      for (const LanePlan* plan : {&rank, &time}) {
        expect_legal(d, *plan, width);
        const double us = predict(tasks, *plan, prices).us;
        const double bound = std::max(longest_path(d, 0), sum_of_work(d) / width);
        CHECK(us >= bound * (1 - 1e-9));
        if (round % 2 && plan == &time && prices.issue_us == 0) {
          // Graham: nothing idles while something is ready.
          CHECK(us <= (2 - 1.0 / width) * bound * (1 + 1e-9));
          worst = std::max(worst, us / bound);
        }
      }
      if (round % 2 == 0 || prices.issue_us == 0) continue;
      // With edges: as if every node were longer by the dearest one.
      Prices slow = prices;
      slow.issue_us = 0;
      Dag longer = d;
      const double edge = slow.forked_edge_us + slow.cross_edge_us;
      for (KernelCost& c : longer.costs) c.us += edge;
      CHECK(predict(tasks, schedule_by_time(tasks, width, slow), slow).us <=
            sum_of_work(longer) / width + (1 - 1.0 / width) * longest_path(longer, 0) + 1e-6);
    }
  }
  CHECK(worst > 1.01);  // the graphs are not all easy
}

TEST_CASE("an edge more is avoided where time allows") {
  // Two chains that cross nowhere need no cross edge.
  Dag d;
  for (uint32_t i = 0; i < 20; ++i)
    d.add({1, 0.1}, i < 2 ? std::vector<uint32_t>{} : std::vector{i - 2});
  for (const LanePlan& plan : {schedule_by_rank(d.tasks(), 8), schedule_by_time(d.tasks(), 8)}) {
    CHECK(plan.lanes == 2);
    for (uint32_t i = 2; i < 20; ++i) CHECK(plan.lane[i] == plan.lane[i - 2]);
  }
}

TEST_CASE("wide towers use the lanes and come near their speed") {
  const Dag d = towers(64, 10, {10, 1.0 / 64});
  const double chain = predict(d.tasks(), one_lane(640)).us;
  for (int streams : {2, 4, 8}) {
    Assigned a = assign(d, streams);
    CHECK(a.body().lanes == static_cast<uint32_t>(streams));
    CHECK(a.body().chain_us == doctest::Approx(chain));
    CHECK(chain / a.body().predicted_us > 0.9 * streams);
  }
}

TEST_CASE("chains, full kernels and tiny gains leave one lane") {
  Dag chain;
  for (uint32_t i = 0; i < 50; ++i)
    chain.add({3, 0.1}, i ? std::vector{i - 1} : std::vector<uint32_t>{});
  CHECK(assign(chain, 8).body().lanes == 1);
  // Side by side they would run no faster.
  CHECK(assign(towers(8, 4, {20, 1}), 8).body().lanes == 1);
  CHECK(assign(towers(8, 4, {20, 0.1}), 8).body().lanes == 8);
  CHECK(assign(towers(8, 4, {20, 0.1}), 1).body().lanes == 1);
  // 0.92 us of 1.7: not worth a fork.
  CHECK(assign(towers(2, 1, {0.6, 0.1}), 8).body().lanes == 1);
  CHECK(assign(Dag{}, 8).body().lanes == 1);
  CHECK(assign(towers(1, 1, {5, 0.1}), 8).body().lanes == 1);
}

TEST_CASE("no more lanes than help") {
  // Three towers cannot use more than three, and kernels that take half the GPU fill it by two.
  CHECK(assign(towers(3, 10, {5, 0.1}), 8).body().lanes == 3);
  CHECK(assign(towers(8, 4, {100, 0.5}), 8).body().lanes == 2);
  // A forced width is used nevertheless.
  Assigned forced = assign(towers(8, 4, {20, 1}), 8, kPrices, true);
  CHECK(forced.body().lanes == 8);
  CHECK(forced.body().predicted_us > forced.body().chain_us * 0.95);
}

TEST_CASE("bodies come out in launch order, with lanes that are chains and times that fit") {
  std::mt19937 random(52);
  size_t forked = 0;
  for (int round = 0; round < test::rounds(150); ++round) {
    PlanMaker m = random_plan(random, 2 + static_cast<uint32_t>(random() % 60), 1, 20);
    std::vector<KernelCost> costs;
    for (size_t k = 0; k < m.p.kernels.size(); ++k) {
      costs.push_back({1 + static_cast<double>(random() % 90) / 10, 0.1});
    }
    std::vector<uint32_t> was(costs.size());  // kernels are one a node: they tell the nodes apart
    Options o;
    o.streams = 1 + static_cast<int>(random() % kMaxStreams);
    Program first = m.p;
    // With every pair in conflict ordered by data alone.
    for (Node& n : m.body().nodes) n.lane = n.kernel;
    const Relation data = closure(must_order(m.p, m.body(), false));
    assign_lanes(m.p, o, costs, kPrices);
    assign_lanes(first, o, costs, kPrices);
    CHECK(to_json(first) == to_json(m.p));
    const Body& body = m.body();
    REQUIRE(body.lanes <= static_cast<uint32_t>(o.streams));
    std::vector<uint32_t> length(body.lanes, 0);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      REQUIRE(node.lane < body.lanes);
      CHECK(node.position == length[node.lane]++);
      CHECK(node.estimate_us == costs[node.kernel].us);
      CHECK(node.start_us + node.estimate_us <= body.predicted_us * (1 + 1e-9));
      was[node.kernel] = n;
    }
    for (uint32_t l : length) CHECK(l > 0);
    for (uint32_t a = 0; a < was.size(); ++a) {
      for (uint32_t b = 0; b < was.size(); ++b) {
        if (!data(a, b)) continue;
        REQUIRE(was[a] < was[b]);
        CHECK(body.nodes[was[a]].start_us + costs[a].us <=
              body.nodes[was[b]].start_us * (1 + 1e-9));
      }
    }
    if (body.lanes == 1) {
      CHECK(body.predicted_us == body.chain_us);
      for (uint32_t n = 0; n < was.size(); ++n) CHECK(was[n] == n);
    } else {
      CHECK(body.predicted_us < body.chain_us);
      ++forked;
    }
    // The passes behind take it, and edges hold it together. Sharing adds no waits by itself.
    plan_memory(m.p, o);
    Program again = m.p;
    predict_bodies(again, costs);
    CHECK(again.bodies[0].predicted_us == doctest::Approx(body.predicted_us));
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      CHECK(again.bodies[0].nodes[n].start_us == doctest::Approx(body.nodes[n].start_us));
    }
    emit_edges(m.p, o);
    CHECK(closure(edges_of(m.body())) == closure(must_order(m.p, m.body(), true)));
  }
  CHECK(forked > test::rounds(40));
}

TEST_CASE("branches written one after the other are run so, where that costs nothing") {
  // 32 towers on 4 lanes: at most four of them are under way at any time.
  const Dag d = towers(32, 6, {5, 0.05});
  Assigned a = assign(d, 4);
  REQUIRE(a.body().lanes == 4);
  std::vector<uint32_t> left(32, 6);
  size_t most = 0;
  for (const Node& n : a.body().nodes) {
    --left[n.kernel / 6];
    most = std::max(most, static_cast<size_t>(std::count_if(
                              left.begin(), left.end(), [](uint32_t l) { return l % 6 != 0; })));
  }
  CHECK(most <= 4);
}

TEST_CASE("families say beforehand how they will launch") {
  std::mt19937 random(54);
  size_t kernels = 0, rows = 0;
  const auto expect = [&](const Program& p) {
    for (const Kernel& k : p.kernels) {
      if (k.code != Code::generated) continue;
      const kernels::Work work = kernels::family(k.family).work(k.body, p.target, k.parts);
      CHECK(work.blocks == int64_t{k.launch.grid[0]} * k.launch.grid[1] * k.launch.grid[2]);
      CHECK(work.threads == k.launch.block[0]);
      CHECK(work.busy_cycles <= work.cycles);
      // More, so that the blocks of kernels that start early spread.
      constexpr uint32_t kThirdOfAnSm = 76 * 1024;
      CHECK((work.shared_bytes >= k.launch.shared_bytes ||
             (k.waits && k.launch.shared_bytes == kThirdOfAnSm)));
      const KernelCost cost = cost_of(k, p.target);
      CHECK(cost.us > 0);
      CHECK(cost.share > 0);
      CHECK(cost.share <= 1);
      ++kernels;
      rows += k.family == "row";
    }
  };
  for (int round = 0; round < 60; ++round) {
    expect(run_passes(random_graph(random, 5 + static_cast<int>(random() % 40)), {}).program);
  }
  for (const DType t : {DType::f32, DType::f16, DType::f64}) {
    for (const int64_t m : {1, 7, 64, 300}) {
      Maker g;
      const ValueId x = g.input("x", {m, 96}, t), w = g.input("w", {96, 40 * m}, t);
      g.output("y", g.dot(x, w));
      g.output("s", g.reduce(Fn::add, x, 2));
      g.output("c", g.reduce(Fn::max, x, 1));
      g.output("e", g.map(Fn::neg, {w}));
      expect(run_passes(g.g, {}).program);
    }
  }
  CHECK(kernels > 300);
  CHECK(rows > 100);
  CHECK(kernels - rows > 20);
}

TEST_CASE("a kernel of few blocks is slow and small, one of many takes the GPU") {
  const auto cost = [](int64_t rows, int64_t cols, DType t = DType::f32) {
    Maker m;
    m.output("y", m.map(Fn::neg, {m.input("x", {rows, cols}, t)}));
    return cost_of(run_passes(m.g, {}, "choose").program.kernels.at(0), Target{});
  };
  CHECK(cost(1, 128).share < 0.01);
  CHECK(cost(1, 128).us == doctest::Approx(kPrices.row_us).epsilon(0.1));
  // 4096 x 4096 f32 in and out are 134 MB: 31 us at 4.3 TB/s.
  CHECK(cost(4096, 4096).us == doctest::Approx(31.8).epsilon(0.03));
  CHECK(cost(4096, 4096).share > 0.95);
  CHECK(cost(4096, 4096, DType::f16).us < cost(4096, 4096).us * 0.6);
  const auto product = [](int64_t m, int64_t n, int64_t k, DType t = DType::f32) {
    Maker g;
    g.output("y", g.dot(g.input("x", {m, k}, t), g.input("w", {k, n}, t)));
    return cost_of(run_passes(g.g, {}, "choose").program.kernels.at(0), Target{});
  };
  CHECK(product(16, 16, 256).share < 0.1);
  CHECK(product(4096, 4096, 256).share > 0.8);
  CHECK(product(4096, 4096, 256, DType::bf16).us < product(4096, 4096, 256).us / 3);
  CHECK(product(32, 256, 512).us > product(32, 256, 256).us);
  // Parts run side by side: eight small ones take little longer than one, and more of the GPU, if
  // less than eight times as much, since their tiles are larger.
  Maker g;
  g.output("y", g.dot(g.input("x", {32, 64}), g.input("w", {64, 64})));
  Kernel k = run_passes(g.g, {}, "choose").program.kernels.at(0);
  const KernelCost one = cost_of(k, Target{});
  k.parts = 8;
  k.bytes_moved *= 8;
  k.flops *= 8;
  const KernelCost eight = cost_of(k, Target{});
  CHECK(eight.us < 2 * one.us);
  CHECK(eight.share > one.share);
}

TEST_CASE("bytes that two temporaries share make their nodes wait") {
  PlanMaker m;
  const uint32_t a = m.temp(64, 0), b = m.temp(64, 256);
  m.node({{a, Role::out}}, 0);
  m.node({{b, Role::out}}, 1);
  const std::vector<KernelCost> costs(2, KernelCost{3, 0.1});
  predict_bodies(m.p, costs);
  CHECK(m.body().predicted_us == doctest::Approx(3 + kPrices.issue_us));
  m.p.buffers[b].offset = 0;
  predict_bodies(m.p, costs);
  CHECK(m.body().predicted_us ==
        doctest::Approx(6 + kPrices.forked_edge_us + kPrices.cross_edge_us));
}

TEST_CASE("a body without a graph is one lane, launched one by one") {
  Assigned a{plan_of(towers(4, 3, {2, 0.1}))};
  a.body().stream = true;
  const std::vector<KernelCost> costs(a.m.p.kernels.size(), {2, 0.1});
  assign_lanes(a.m.p, Options{}, costs, kPrices);
  CHECK(a.body().lanes == 1);
  CHECK(a.body().predicted_us == doctest::Approx(11 * kPrices.stream_launch_us + 2));
  CHECK(a.body().predicted_us == a.body().chain_us);
}

TEST_CASE("100k nodes are scheduled quickly") {
  std::mt19937 random(53);
  for (int streams : {8, 32}) {
    Dag d;
    for (uint32_t i = 0; i < 100'000; ++i) {
      const uint32_t layer = i / 50 * 50;
      std::vector<uint32_t> from;
      for (int e = 0; e < 2 && layer > 0; ++e) {
        from.push_back(layer - 50 + static_cast<uint32_t>(random() % 50));
      }
      std::sort(from.begin(), from.end());
      from.erase(std::unique(from.begin(), from.end()), from.end());
      d.add({2 + static_cast<double>(random() % 200) / 100, 0.02}, std::move(from));
    }
    PlanMaker m = plan_of(d);
    Options o;
    o.streams = streams;
    const std::clock_t start = std::clock();
    assign_lanes(m.p, o, d.costs, kPrices);
    const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    MESSAGE("100,000 nodes, K = " << streams << ": " << ms << " ms, "
                                  << m.body().chain_us / m.body().predicted_us << " times faster");
    CHECK(m.body().lanes == static_cast<uint32_t>(streams));
    CHECK(m.body().chain_us > 2 * m.body().predicted_us);
    CHECK(ms < 3000);
  }
}
