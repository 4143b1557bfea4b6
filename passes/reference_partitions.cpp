#include "passes/reference_partitions.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace braid {
namespace {

using Order = std::vector<uint32_t>;

ReferencePartition cut(const ColouredDag& dag, const Order& order, bool reordered) {
  ReferencePartition out;
  out.reordered = reordered;
  out.run.resize(dag.colours.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const Colour colour = dag.colours[order[i]];
    if (i == 0 || colour != dag.colours[order[i - 1]]) {
      ++out.runs;
      out.graphs += colour == Colour::graph;
    }
    out.run[order[i]] = out.runs - 1;
  }
  return out;
}

void check_edges(const ColouredDag& dag) {
  for (auto [from, to] : dag.edges) {
    ensure(from < to && to < dag.colours.size(), "reference partitions: an edge against the order");
  }
}

Order by_index(size_t nodes) {
  Order order(nodes);
  for (uint32_t v = 0; v < nodes; ++v) order[v] = v;
  return order;
}

Order host_first(const ColouredDag& dag) {
  const size_t nodes = dag.colours.size();
  std::vector<std::vector<uint32_t>> successors(nodes);
  std::vector<uint32_t> waiting(nodes, 0);
  for (auto [from, to] : dag.edges) {
    successors[from].push_back(to);
    ++waiting[to];
  }
  using Heap = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;
  Heap host, graph;
  const auto ready = [&](uint32_t v) { (dag.colours[v] == Colour::host ? host : graph).push(v); };
  for (uint32_t v = 0; v < nodes; ++v) {
    if (waiting[v] == 0) ready(v);
  }
  Order order;
  while (!host.empty() || !graph.empty()) {
    for (Heap* heap : {&host, &graph}) {
      while (!heap->empty()) {
        const uint32_t v = heap->top();
        heap->pop();
        order.push_back(v);
        for (uint32_t next : successors[v]) {
          if (--waiting[next] == 0) ready(next);
        }
      }
    }
  }
  return order;
}

int64_t peak(const ColouredDag& dag, std::span<const int64_t> bytes, const Order& order) {
  const size_t nodes = order.size();
  std::vector<size_t> place(nodes), last(nodes, nodes);  // `nodes`: live to the end
  for (size_t i = 0; i < nodes; ++i) place[order[i]] = i;
  for (auto [from, to] : dag.edges) {
    last[from] = last[from] == nodes ? place[to] : std::max(last[from], place[to]);
  }
  std::vector<int64_t> freed(nodes + 1, 0);
  for (uint32_t v = 0; v < nodes; ++v) freed[last[v]] += bytes[v];
  int64_t live = 0, most = 0;
  for (size_t i = 0; i < nodes; ++i) {
    live += bytes[order[i]];
    most = std::max(most, live);
    live -= freed[i];
  }
  return most;
}

}  // namespace

ReferencePartition in_order(const ColouredDag& dag) {
  check_edges(dag);
  return cut(dag, by_index(dag.colours.size()), false);
}

ReferencePartition drain_host_first(const ColouredDag& dag, std::span<const int64_t> bytes) {
  check_edges(dag);
  const Order before = by_index(dag.colours.size()), after = host_first(dag);
  if (!bytes.empty()) {
    ensure(bytes.size() == before.size(), "reference partitions: bytes are one number per node");
    const int64_t old_peak = peak(dag, bytes, before), new_peak = peak(dag, bytes, after);
    if (new_peak > old_peak && 10 * new_peak >= 11 * old_peak) return cut(dag, before, false);
  }
  return cut(dag, after, after != before);
}

}  // namespace braid
