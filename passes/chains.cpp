// Chain: kernels one after the other become one where a block can keep what lies between.
// needs: groups. breaks: nothing.
//
// A kernel boundary costs its edge, the start of the next kernel, and a way through L2 for
// everything in between: at these sizes more than the work. Where the blocks of a product need few
// rows of what comes before, they compute those themselves: a softmax and the products around it by
// heads, a norm by every block of the product behind it.
#include "passes/chains.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ir/matmul_body.hpp"
#include "passes/body_key.hpp"
#include "passes/cost.hpp"
#include "passes/fuse_greedy.hpp"
#include "passes/kernels/cuda_text.hpp"
#include "passes/labels.hpp"
#include "passes/library_dots.hpp"
#include "passes/read_through.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::ValueId;

constexpr uint32_t kNone = UINT32_MAX;
/// A search that takes longer is given up, as if it had found nothing.
constexpr size_t kMostSteps = 200;
/// Estimates that differ by less are equal.
constexpr double kLeastGainUs = 0.1;

class Joiner {
 public:
  Joiner(const ir::Graph& graph, const FuseFacts& facts, const Options& options, Fusion& fusion)
      : graph_(graph), facts_(facts), options_(options), fusion_(fusion) {
    // Whether or not this program has such edges: they change no bits, and so no kernels.
    const Prices prices =
        has_programmatic_edges(options.target) ? with_early_starts(kPrices) : kPrices;
    edge_us_ = prices.chain_edge_us;
  }

  /// Whether anything was joined.
  bool run() {
    find_edges();
    bool any = false;
    for (uint32_t g = 0; g < fusion_.groups.size(); ++g) {
      if (!is_product(g) && fusion_.groups[g].family != FamilyId::row) continue;
      for (bool more = true; more;) {
        more = false;
        const std::set<uint32_t> makers = nodes_[g].before;
        for (auto it = makers.rbegin(); it != makers.rend() && !more; ++it) more = join(*it, g);
        any = any || more;
      }
    }
    return any;
  }

 private:
  struct Node {
    std::set<uint32_t> before, after;  // groups
    std::string key;                   // once asked for
  };

  void find_edges() {
    nodes_.resize(fusion_.groups.size());
    const auto edge = [&](uint32_t from, uint32_t to) {
      if (from == kNone || to == kNone || from == to) return;
      nodes_[from].after.insert(to);
      nodes_[to].before.insert(from);
    };
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const uint32_t to = fusion_.group_of[i];
      if (to == kNone) continue;
      for (const ValueId v : graph_.ops()[i].operands) {
        edge(fusion_.group_of[graph_.value(facts_.source[v.index]).def.index], to);
      }
      for (const OpId from : facts_.before[i]) edge(fusion_.group_of[from.index], to);
    }
    for (uint32_t g = 0; g < nodes_.size(); ++g) {
      if (nodes_[g].before.empty()) roots_.insert(g);
    }
  }

  bool is_product(uint32_t g) const {
    const FamilyId family = fusion_.groups[g].family;
    return family == FamilyId::dot || family == FamilyId::chain;
  }

  bool join(uint32_t p, uint32_t g) {
    const Group& maker = fusion_.groups[p];
    const Group& user = fusion_.groups[g];
    if (maker.level != user.level) return false;
    FamilyId family = FamilyId::chain;
    // Under a memory limit nothing that p reads may be held for longer.
    if (options_.memory_limit == 0 && nodes_[p].after.size() == 1 &&
        may_read_through(graph_, facts_, fusion_, p, g)) {
      family = user.family;
    } else {
      const bool may = is_product(p) || (maker.family == FamilyId::row && is_product(g));
      // What only meets the product's results may well run beside the product.
      if (!may || !feeds(p, g)) return false;
    }
    // No kernel reads a version of a param that it makes.
    for (const ValueId v : maker.outputs) {
      if (graph_.value(v).state && reads(g, v)) return false;
    }
    // So none of them lies between the two either, and numbers keep growing along edges.
    for (const uint32_t other : nodes_[p].after) {
      if (other == g || follows(other, g)) continue;
      const ir::Op& first = graph_.op(fusion_.groups[other].ops.front());
      return keep_apart(p, g,
                        fmt::format("{} needs the first kernel as well, and would wait for both",
                                    quoted_label(graph_, first)));
    }
    for (const uint32_t one : {p, g}) {
      if (us_of(one) < 0) return keep_apart(p, g, known_.at(key_of(one)).refusal);
    }
    const bool stay = stays(p, g);
    const double apart = (stay ? 0 : us_of(p) + edge_us_) + us_of(g);
    Group joint{family, {}, {}, user.level};
    std::set_union(maker.ops.begin(), maker.ops.end(), user.ops.begin(), user.ops.end(),
                   std::back_inserter(joint.ops));
    if (joint.ops.size() > kMaxGroupOps) {
      return keep_apart(p, g, fmt::format("together they have more than {} ops", kMaxGroupOps));
    }
    joint.outputs = outputs_of(p, g);
    ir::Graph body = extract_body(graph_, joint, nullptr);
    std::string key = key_of(joint, body);
    const Estimate& together = estimate(key, joint, std::move(body));
    if (together.us < 0) {
      // Of a product alone the family has nothing to say.
      return is_elementwise(graph_, maker) ? false : keep_apart(p, g, together.refusal);
    }
    if (together.us + kLeastGainUs > apart) {
      return keep_apart(
          p, g,
          fmt::format("one kernel of both is estimated at {:.2f} us, and {} at {:.2f}", together.us,
                      stay ? "the second, where the first runs for others as well,"
                           : "two with the edge between",
                      apart));
    }
    replace(p, g, std::move(joint), std::move(key));
    return true;
  }

  /// Whether a product or a reduction of g reads what p makes.
  bool feeds(uint32_t p, uint32_t g) const {
    std::set<ValueId> made(fusion_.groups[p].outputs.begin(), fusion_.groups[p].outputs.end());
    for (const OpId id : fusion_.groups[g].ops) {
      const ir::Op& op = graph_.op(id);
      const bool reads = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        return made.contains(facts_.source[v.index]);
      });
      if (!reads) continue;
      if (op.kind == ir::OpKind::dot || op.kind == ir::OpKind::reduce) return true;
      made.insert(op.result);
    }
    return false;
  }

  /// Whether a launch like p's stays when p is joined with g: another group of the same body starts
  /// with p, and so in one launch with it, and is not followed by one like g.
  bool stays(uint32_t p, uint32_t g) {
    // Those that start at once have no maker.
    std::vector<const std::set<uint32_t>*> together;
    for (const uint32_t maker : nodes_[p].before) together.push_back(&nodes_[maker].after);
    if (together.empty()) together.push_back(&roots_);
    for (const std::set<uint32_t>* set : together) {
      for (const uint32_t like : *set) {
        if (like == p || key_of(like) != key_of(p) || nodes_[like].before != nodes_[p].before) {
          continue;
        }
        const std::set<uint32_t>& behind = nodes_[like].after;
        if (std::none_of(behind.begin(), behind.end(),
                         [&](uint32_t other) { return key_of(other) == key_of(g); })) {
          return true;
        }
      }
    }
    return false;
  }

  const std::string& key_of(uint32_t g) {
    std::string& key = nodes_[g].key;
    // What is no kernel of ours is like nothing else.
    if (key.empty() && !is_product(g) && fusion_.groups[g].family != FamilyId::row) {
      key = std::to_string(g);
    }
    if (key.empty()) {
      const Group& group = fusion_.groups[g];
      key = key_of(group, extract_body(graph_, group, nullptr));
    }
    return key;
  }

  static std::string key_of(const Group& group, const ir::Graph& body) {
    return body_key(body) + std::string(name_of(group.family));
  }

  /// Whether `other`, which waits for what is to be joined with g, waits for g anyway.
  bool follows(uint32_t other, uint32_t g) const {
    std::vector<uint32_t> from(nodes_[g].after.begin(), nodes_[g].after.end());
    std::set<uint32_t> seen(from.begin(), from.end());
    for (size_t steps = 0; !from.empty() && steps <= kMostSteps; ++steps) {
      const uint32_t n = from.back();
      from.pop_back();
      if (n == other) return true;
      for (const uint32_t next : nodes_[n].after) {
        if (next <= other && seen.insert(next).second) from.push_back(next);
      }
    }
    return false;
  }

  std::vector<ValueId> outputs_of(uint32_t p, uint32_t g) const {
    std::vector<ValueId> outputs;
    for (const uint32_t part : {p, g}) {
      for (const ValueId v : fusion_.groups[part].outputs) {
        if (facts_.is_output[v.index] || graph_.value(v).state || used_beside(v, p, g)) {
          outputs.push_back(v);
        }
      }
    }
    std::sort(outputs.begin(), outputs.end());
    return outputs;
  }

  bool used_beside(ValueId v, uint32_t p, uint32_t g) const {
    for (const uint32_t user : nodes_[fusion_.group_of[graph_.value(v).def.index]].after) {
      if (user != p && user != g && reads(user, v)) return true;
    }
    return false;
  }

  bool reads(uint32_t g, ValueId v) const {
    for (const OpId id : fusion_.groups[g].ops) {
      for (const ValueId operand : graph_.op(id).operands) {
        if (facts_.source[operand.index] == v) return true;
      }
    }
    return false;
  }

  /// Always false: the two stay apart.
  bool keep_apart(uint32_t p, uint32_t g, const std::string& why) {
    for (const OpId id : fusion_.groups[g].ops) {
      for (const ValueId operand : graph_.op(id).operands) {
        const ValueId v = facts_.source[operand.index];
        if (fusion_.group_of[graph_.value(v).def.index] == p) fusion_.kept_apart[{v, id}] = why;
      }
    }
    return false;
  }

  struct Estimate {
    double us = -1;  // negative: there is to be no such kernel
    std::string refusal{};
  };

  double us_of(uint32_t g) {
    const std::string& key = key_of(g);
    if (const auto it = known_.find(key); it != known_.end()) return it->second.us;
    const Group& group = fusion_.groups[g];
    return estimate(key, group, extract_body(graph_, group, nullptr)).us;
  }

  /// Layers repeat.
  const Estimate& estimate(const std::string& key, const Group& group, ir::Graph body) {
    const auto [it, added] = known_.try_emplace(key);
    Estimate& found = it->second;
    if (!added) return found;
    if (argument_count(body) > kMaxGroupArguments) {
      found.refusal = fmt::format("a kernel takes {} tensors at most", kMaxGroupArguments);
    } else if (calls_library(group, body)) {
      found.refusal = "cuBLASLt computes one of them";
    } else {
      try {
        found.us =
            estimate_us(costed_kernel(name_of(group.family), std::move(body)), options_.target);
      } catch (const kernels::Refusal& refusal) {
        found.refusal = "one kernel cannot do both: " + refusal.reason;
      }
    }
    return found;
  }

  static size_t argument_count(const ir::Graph& body) {
    return body.outputs.size() + static_cast<size_t>(std::count_if(
                                     body.ops().begin(), body.ops().end(), [](const ir::Op& op) {
                                       return op.kind == ir::OpKind::input ||
                                              op.kind == ir::OpKind::param;
                                     }));
  }

  bool calls_library(const Group& group, const ir::Graph& body) const {
    if (group.family != FamilyId::dot || options_.dots == Dots::braid) return false;
    const std::optional<MatmulBody> product = matmul_body(body);
    return product && wants_library(*product, options_);
  }

  void replace(uint32_t p, uint32_t g, Group joint, std::string key) {
    for (const OpId id : fusion_.groups[p].ops) fusion_.group_of[id.index] = g;
    fusion_.groups[g] = std::move(joint);
    fusion_.groups[p] = {};
    Node& node = nodes_[g];
    node.key = std::move(key);
    const auto move = [&](std::set<uint32_t> Node::* mine, std::set<uint32_t> Node::* theirs) {
      for (const uint32_t n : nodes_[p].*mine) {
        (nodes_[n].*theirs).erase(p);
        if (n == g) continue;
        (nodes_[n].*theirs).insert(g);
        (node.*mine).insert(n);
      }
    };
    move(&Node::before, &Node::after);
    move(&Node::after, &Node::before);
    node.before.erase(p);
    node.before.erase(g);
    node.after.erase(g);
    nodes_[p] = {};
    roots_.erase(p);
    if (node.before.empty()) roots_.insert(g);
  }

  const ir::Graph& graph_;
  const FuseFacts& facts_;
  const Options& options_;
  Fusion& fusion_;
  std::vector<Node> nodes_;                          // by group
  std::set<uint32_t> roots_;                         // groups that wait for none
  std::unordered_map<std::string, Estimate> known_;  // by key
  double edge_us_ = 0;
};

}  // namespace

void join_chains(const ir::Graph& graph, const HomePlan& homes, const Options& options,
                 Fusion& fusion) {
  const FuseFacts facts = fuse_facts(graph, homes);
  if (!Joiner(graph, facts, options, fusion).run()) return;
  auto kept_apart = std::move(fusion.kept_apart);
  fusion = arrange_groups(graph, facts, {std::move(fusion.groups), std::move(fusion.group_of)});
  fusion.kept_apart = std::move(kept_apart);
}

}  // namespace braid
