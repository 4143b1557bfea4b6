// Who makes and who uses each value of a plan, and when each temporary is needed.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/program.hpp"

namespace braid::report {

/// A node of a body, or a call.
struct Ref {
  bool call = false;
  uint32_t body = 0;  // of the node; or the call
  uint32_t node = 0;
  auto operator<=>(const Ref&) const = default;
};

class PlanIndex {
 public:
  explicit PlanIndex(const Program& p);

  /// "g0.n3", "c0".
  std::string name(Ref r) const;
  /// The scoped names with kinds: of a node all, of a call the one.
  std::vector<std::string> ops(Ref r) const;
  /// The op it is known by: a node's last one.
  std::string title(Ref r) const;
  const std::string& place(Ref r) const;
  /// (level, earliest, latest): runs of the levels pass.
  struct Window {
    uint32_t run = 0, earliest = 0, latest = 0;
  };
  Window window(Ref r) const;
  /// It is not in a graph.
  bool on_host(Ref r) const { return r.call || p_.bodies[r.body].stream; }

  const Node& node(Ref r) const { return p_.bodies[r.body].nodes[r.node]; }
  /// It is a conditional node: no kernel.
  bool conditional(Ref r) const { return !r.call && node(r).kernel == kNoKernel; }
  /// The region in whose bodies it stands, or UINT32_MAX.
  uint32_t region(Ref r) const;
  /// The kernel's symbol, "IF r0", or the function that is called.
  std::string symbol(Ref r) const;
  /// Whether a temporary lies in a slab.
  bool holds(uint32_t slab, uint32_t buffer) const;

  /// Nodes and calls in the script's order: those of a conditional node's bodies follow the node,
  /// and sides one another.
  const std::vector<Ref>& order() const { return order_; }
  /// Where it stands there.
  size_t position(Ref r) const;

  struct Value {
    uint32_t value = 0, view = 0;
  };
  std::vector<Value> reads(Ref r) const;
  std::vector<Value> writes(Ref r) const;
  /// Nothing for what the caller gives.
  const Ref* maker(uint32_t value) const;
  const std::vector<Ref>& users(uint32_t value) const;

  /// The first and the last position that touches a buffer; first > last: nobody does.
  std::pair<size_t, size_t> needed(uint32_t buffer) const { return needed_[buffer]; }
  /// Temporaries that have some of this one's bytes, by when they are needed; slabs and what lies
  /// in them do not count.
  std::vector<uint32_t> sharing(uint32_t buffer) const;

 private:
  void follow(const std::vector<Step>& script);
  void enter(uint32_t body);
  bool no_value(uint32_t view) const;

  const Program& p_;
  std::vector<Ref> order_;
  std::vector<size_t> node_at_, body_begin_, call_at_;
  std::unordered_map<uint32_t, Ref> maker_;
  std::unordered_map<uint32_t, std::vector<Ref>> users_;
  std::vector<std::pair<size_t, size_t>> needed_;
};

}  // namespace braid::report
