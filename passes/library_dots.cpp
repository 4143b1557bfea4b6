#include "passes/library_dots.hpp"

#include <algorithm>
#include <optional>

#include "passes/free_ops.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

/// What uses a value: the op, if it is the only one, looking through reshapes; and as which value.
class Uses {
 public:
  explicit Uses(const ir::Graph& graph) : g_(graph), users_(graph.users()) {
    kept_.assign(graph.values().size(), false);
    for (const ir::Output& o : graph.outputs) {
      for (ValueId v = o.value;;) {
        kept_[v.index] = true;
        const ir::Op& op = graph.def(v);
        if (op.kind != OpKind::view) break;
        v = op.operands[0];
      }
    }
  }

  std::optional<OpId> only(ValueId v) const {
    for (;;) {
      if (kept_[v.index] || users_[v.index].size() != 1) return {};
      const OpId user = users_[v.index][0];
      const auto* view = std::get_if<ir::ViewAttr>(&g_.op(user).attrs);
      if (!view) return user;
      if (view->kind != ir::ViewKind::reshape) return {};
      v = g_.op(user).result;
    }
  }

 private:
  const ir::Graph& g_;
  std::vector<std::vector<OpId>> users_;
  std::vector<bool> kept_;  // by value: an output, or what one is a view of
};

}  // namespace

bool wants_library(const MatmulBody& product, const Options& options) {
  if (options.dots != Dots::automatic) return options.dots == Dots::cublaslt;
  const LibraryFrom from = library_from(product.dtype, product.tf32);
  return product.flops() >= from.flops && product.batch * product.m >= from.rows;
}

int64_t library_workspace(const MatmulBody& product) {
  // Four partial results of f32, as far as the 32 MiB go that the library itself would take.
  constexpr double kLeast = 1 << 20, kMost = 32 << 20;
  const double partial = 16.0 * static_cast<double>(product.batch) *
                         static_cast<double>(product.m) * static_cast<double>(product.n);
  return static_cast<int64_t>(std::clamp(partial, kLeast, kMost)) / 256 * 256;
}

LibraryGroups library_groups(const ir::Graph& graph, const Levels& levels, const Options& options) {
  LibraryGroups groups;
  if (options.dots == Dots::braid) return groups;
  std::optional<Uses> uses;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    if (graph.ops()[i].kind != OpKind::dot) continue;
    if (!uses) uses.emplace(graph);
    Group group{FamilyId::dot, {OpId{i}}, {}, 0};
    for (size_t taken = 0; options.fuse && taken < 2; ++taken) {
      const std::optional<OpId> next = uses->only(graph.op(group.ops.back()).result);
      if (!next || !is_matmul_epilogue(graph.op(*next)) ||
          levels.run[next->index] != levels.run[i] ||
          graph.op(*next).outside != graph.ops()[i].outside) {
        break;
      }
      group.ops.push_back(*next);
    }
    for (; !group.ops.empty(); group.ops.pop_back()) {
      group.outputs = {graph.op(group.ops.back()).result};
      const std::optional<MatmulBody> product = matmul_body(extract_body(graph, group, nullptr));
      if (!product) continue;
      if (!wants_library(*product, options)) break;
      groups.resize(graph.ops().size(), kNone);
      for (OpId id : group.ops) groups[id.index] = i;
      break;
    }
  }
  return groups;
}

}  // namespace braid
