// Fuse: which ops become one kernel.
// needs: homes, levels. breaks: nothing. Fusion is never re-opened later.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "passes/free_ops.hpp"
#include "passes/home.hpp"
#include "passes/levels.hpp"

namespace braid {

/// Branches, loops and host ops that break the graph are groups of their own, which are no kernels;
/// so are, as kernels, all ops of the families from exchange to compact. Chains come of joining
/// others (chains.hpp).
enum class FamilyId : uint8_t { row, dot, host, region, exchange, user, library, compact, chain };
/// That of a group which begins with the op.
FamilyId family_of(const ir::Op& op);
std::string_view name_of(FamilyId f);

/// Limits of one kernel: pointers it takes, and ops other than free ones. An op that alone takes
/// more pointers, such as a concat of many, is a group of its own.
inline constexpr size_t kMaxGroupArguments = 64;
inline constexpr size_t kMaxGroupOps = 200;

/// The ops of one kernel. Free ops (views, constants, iota, reads) belong to no group: each group
/// that needs one evaluates it by index.
struct Group {
  FamilyId family = FamilyId::row;
  std::vector<ir::OpId> ops;  // in graph order
  /// Values that others or the caller need in memory, in op order: each is the result of an op of
  /// the group. The version that an assign or update makes is always one; its memory is the
  /// param's buffer.
  std::vector<ir::ValueId> outputs;
  uint32_t level = 0;
};

struct Fusion {
  /// By level, and in a topological order over data and order edges.
  std::vector<Group> groups;
  /// By op index; UINT32_MAX for inputs, params, free ops and ops whose result nobody needs.
  std::vector<uint32_t> group_of;
  /// Why the chain pass left two groups apart that it looked at, half a sentence for people: by the
  /// value that the one makes and the op of the other that reads it.
  std::map<std::pair<ir::ValueId, ir::OpId>, std::string> kept_apart;
  std::string print(const ir::Graph& graph) const;
};

/// Groups are convex over data and order edges and have one level. A group is a row group (any
/// pointwise ops over one domain, with reductions over the same axes of that domain and what is
/// computed from their results) or a dot with pointwise ops on its result. Values of a group are
/// used inside it at the same index only; concat, gather, dot and the starts of an update read
/// memory alone. A send joins a group only with a single element. A group that writes a param reads
/// the version before only at the index that it writes, and never in a reduction. With `fuse` off
/// every op that is not free is a group of its own. Near-linear. Every output's memory_root() must
/// be the result of an op that is not free and belong to no second output, as plan_homes leaves it;
/// it is then among its group's outputs.
Fusion fuse(const ir::Graph& graph, const HomePlan& homes, const Levels& levels, bool fuse_on);

/// The group as a graph of its own: inputs named "a0", "a1", ... for values that come from memory
/// (params where it writes in place are "s0", ...), then the free ops and the group's ops, outputs
/// "r0", ... Names and places are dropped, so equal groups give equal text. `sources` receives,
/// per input and param in body order, the value of `graph` it stands for: the result of an op, an
/// input, a constant that is no splat, or, where a version of a param is read, the version (the
/// state value, not its `read`). For an "s" param that is the version before the group's write;
/// the body's own last version stands for the one after, and is in Group::outputs. The body's
/// outputs are the other members of Group::outputs, in order.
ir::Graph extract_body(const ir::Graph& graph, const Group& group,
                       std::vector<ir::ValueId>* sources);

}  // namespace braid
