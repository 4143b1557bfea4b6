#include "frontend/report/dag.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace braid::report {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

using Bits = std::vector<uint64_t>;

void set_bit(Bits& bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
bool has_bit(const Bits& bits, uint32_t i) { return bits[i / 64] >> (i % 64) & 1; }

/// By node, the nodes that come before it by any path.
std::vector<Bits> closure(const Dag& dag) {
  std::vector<Bits> before(dag.size(), Bits((dag.size() + 63) / 64, 0));
  for (size_t n = 0; n < dag.size(); ++n) {
    for (uint32_t s : dag[n]) {
      for (size_t w = 0; w < before[n].size(); ++w) before[n][w] |= before[s][w];
      set_bit(before[n], s);
    }
  }
  return before;
}

/// A maximum matching of nodes with nodes before them.
class Matching {
 public:
  explicit Matching(const std::vector<Bits>& before)
      : before_(before), partner_(before.size(), kNone), mate_(before.size(), kNone) {
    // What a search without success has seen no later one needs.
    const Bits all(before.empty() ? 0 : before[0].size(), ~uint64_t{0});
    Bits fresh = all;
    for (uint32_t n = 0; n < before.size(); ++n) {
      Bits left = fresh;
      if (!augment(n, left)) fresh = std::move(left);
    }
  }

  size_t unmatched() const {
    return static_cast<size_t>(std::count(partner_.begin(), partner_.end(), kNone));
  }

  /// The nodes that alternating paths from unmatched ones reach as later, but not as earlier ones.
  std::vector<uint32_t> antichain() const {
    Bits left(before_.empty() ? 0 : before_[0].size(), ~uint64_t{0});
    std::vector<bool> reached(before_.size(), false);
    std::vector<uint32_t> queue;
    for (uint32_t n = 0; n < before_.size(); ++n) {
      if (partner_[n] == kNone) queue.push_back(n);
    }
    for (size_t at = 0; at < queue.size(); ++at) {
      reached[queue[at]] = true;
      visit(queue[at], left, [&](uint32_t v) {
        queue.push_back(mate_[v]);  // matched, or the matching would not be a maximum
        return true;
      });
    }
    std::vector<uint32_t> out;
    for (uint32_t n = 0; n < before_.size(); ++n) {
      if (reached[n] && has_bit(left, n)) out.push_back(n);
    }
    return out;
  }

 private:
  /// Calls `take` for each node before `n` that is still in `left`, and removes it; until false.
  template <class Take>
  void visit(uint32_t n, Bits& left, const Take& take) const {
    for (size_t w = 0; w < left.size(); ++w) {
      while (const uint64_t both = left[w] & before_[n][w]) {
        const auto v = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(both)));
        left[w] &= ~(both & (~both + 1));
        if (!take(v)) return;
      }
    }
  }

  bool augment(uint32_t start, Bits& left) {
    std::map<uint32_t, uint32_t> from;  // by earlier node, the later one that reached it
    std::vector<uint32_t> queue{start};
    uint32_t free = kNone;
    for (size_t at = 0; at < queue.size() && free == kNone; ++at) {
      visit(queue[at], left, [&](uint32_t v) {
        from[v] = queue[at];
        if (mate_[v] == kNone) free = v;
        if (free == kNone) queue.push_back(mate_[v]);
        return free == kNone;
      });
    }
    if (free == kNone) return false;
    while (free != kNone) {
      const uint32_t n = from.at(free);
      mate_[free] = n;
      std::swap(partner_[n], free);
    }
    return true;
  }

  const std::vector<Bits>& before_;
  std::vector<uint32_t> partner_;  // by later node: the earlier one
  std::vector<uint32_t> mate_;     // by earlier node: the later one
};

}  // namespace

Dag data_dag(const Program& p, const Body& body) {
  struct Users {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers{};
  };
  std::vector<Users> users(p.buffers.size());
  Dag dag(body.nodes.size());
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    const std::vector<ArgSlot>& slots = slots_of(p, node);
    const auto after = [&](uint32_t from) {
      if (from != kNone && from != n) dag[n].push_back(from);
    };
    for (size_t s = 0; s < slots.size(); ++s) {
      Users& u = users[p.views[node.args[s]].buffer];
      after(u.writer);
      if (slots[s].role != Role::in) {
        for (uint32_t r : u.readers) after(r);
      }
    }
    for (size_t s = 0; s < slots.size(); ++s) {
      Users& u = users[p.views[node.args[s]].buffer];
      if (slots[s].role == Role::in) {
        u.readers.push_back(n);
      } else {
        u = {n, {}};
      }
    }
    std::sort(dag[n].begin(), dag[n].end());
    dag[n].erase(std::unique(dag[n].begin(), dag[n].end()), dag[n].end());
  }
  return dag;
}

Dag edge_dag(const Body& body) {
  Dag dag(body.nodes.size());
  for (const Edge& e : body.edges) dag[e.to].push_back(e.from);
  for (auto& before : dag) std::sort(before.begin(), before.end());
  return dag;
}

Width width_of(const Dag& dag, size_t exact_up_to) {
  if (dag.size() <= exact_up_to) {
    const std::vector<Bits> before = closure(dag);
    const Matching matching(before);
    return {matching.unmatched(), true, matching.antichain()};
  }
  std::vector<size_t> depth(dag.size(), 0);
  std::vector<std::vector<uint32_t>> at;
  for (uint32_t n = 0; n < dag.size(); ++n) {
    for (uint32_t s : dag[n]) depth[n] = std::max(depth[n], depth[s] + 1);
    if (at.size() <= depth[n]) at.resize(depth[n] + 1);
    at[depth[n]].push_back(n);
  }
  const auto widest = std::max_element(
      at.begin(), at.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return {widest->size(), false, *widest};
}

Path critical_path(const Dag& dag, const Body& body) {
  std::vector<double> end(dag.size(), 0);
  std::vector<uint32_t> from(dag.size(), kNone);
  uint32_t last = kNone;
  for (uint32_t n = 0; n < dag.size(); ++n) {
    for (uint32_t s : dag[n]) {
      if (from[n] == kNone || end[s] > end[from[n]]) from[n] = s;
    }
    end[n] = body.nodes[n].estimate_us + (from[n] == kNone ? 0 : end[from[n]]);
    if (last == kNone || end[n] > end[last]) last = n;
  }
  Path path;
  if (last != kNone) path.us = end[last];
  for (uint32_t n = last; n != kNone; n = from[n]) path.nodes.push_back(n);
  std::reverse(path.nodes.begin(), path.nodes.end());
  return path;
}

}  // namespace braid::report
