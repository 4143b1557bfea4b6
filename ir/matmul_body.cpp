#include "ir/matmul_body.hpp"

#include <algorithm>
#include <map>

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

bool is_map(const ir::Op& op, Fn fn) {
  const auto* map = std::get_if<ir::MapAttr>(&op.attrs);
  return map && map->fn == fn;
}

class Reader {
 public:
  explicit Reader(const ir::Graph& body) : g_(body) {
    for (const ir::Op& op : body.ops()) {
      if (op.kind == OpKind::input) slots_.emplace(op.result.index, slots_.size());
    }
  }

  std::optional<MatmulBody> read() {
    const auto allowed = [](const ir::Op& op) {
      return op.kind == OpKind::input || op.kind == OpKind::view || op.kind == OpKind::dot ||
             is_matmul_epilogue(op);
    };
    if (!std::all_of(g_.ops().begin(), g_.ops().end(), allowed)) return {};
    if (g_.outputs.size() != 1) return {};
    MatmulBody out;
    out.result = slots_.size();
    size_t inputs = 2, maps = 0;
    ValueId v = through_reshapes(g_.outputs[0].value);
    for (const auto& [fn, act] : {std::pair(Fn::relu, MatmulBody::Act::relu),
                                  std::pair(Fn::gelu_tanh, MatmulBody::Act::gelu)}) {
      if (!is_map(g_.def(v), fn) || maps > 0) continue;
      out.act = act;
      ++maps;
      v = through_reshapes(g_.def(v).operands[0]);
    }
    std::optional<ValueId> row;
    int64_t row_of = 0;
    if (is_map(g_.def(v), Fn::add)) {
      const ir::Op& add = g_.def(v);
      ++maps;
      const bool first = g_.def(through_reshapes(add.operands[0])).kind == OpKind::dot;
      row = add.operands[first ? 1 : 0];
      const Shape& shape = g_.type(v).shape;
      if (shape.rank() == 0) return {};
      row_of = shape.extents().back();
      v = through_reshapes(add.operands[first ? 0 : 1]);
    }
    const ir::Op& dot = g_.def(v);
    if (dot.kind != OpKind::dot || !product(dot, out)) return {};
    if (row) {
      out.bias = bias(*row, out);
      if (!out.bias || row_of != out.n) return {};
      ++inputs;
    }
    // Nothing else may be in it.
    size_t found = 0;
    for (const ir::Op& op : g_.ops()) found += op.kind == OpKind::map ? 1 : 0;
    const auto dots = std::count_if(g_.ops().begin(), g_.ops().end(),
                                    [](const ir::Op& op) { return op.kind == OpKind::dot; });
    if (found != maps || dots != 1 || slots_.size() > inputs) return {};
    return out;
  }

 private:
  ValueId through_reshapes(ValueId v) const {
    for (;;) {
      const auto* view = std::get_if<ir::ViewAttr>(&g_.def(v).attrs);
      if (!view || view->kind != ir::ViewKind::reshape) return v;
      v = g_.def(v).operands[0];
    }
  }

  std::optional<size_t> slot(ValueId v) const {
    const auto at = slots_.find(through_reshapes(v).index);
    return at == slots_.end() ? std::nullopt : std::optional(at->second);
  }

  bool product(const ir::Op& dot, MatmulBody& out) const {
    const auto& attr = std::get<ir::DotAttr>(dot.attrs);
    const TensorType &type = g_.type(dot.result), &left = g_.type(dot.operands[0]);
    const std::optional<size_t> lhs = slot(dot.operands[0]), rhs = slot(dot.operands[1]);
    const bool known =
        type.dtype == DType::f32 || type.dtype == DType::f16 || type.dtype == DType::bf16;
    if (!lhs || !rhs || !known || left.dtype != type.dtype ||
        g_.type(dot.operands[1]).dtype != type.dtype ||
        g_.type(g_.outputs[0].value).dtype != type.dtype) {
      return false;
    }
    const std::vector<int64_t> to = type.shape.extents(), from = left.shape.extents();
    const size_t rank = to.size();
    out.lhs = *lhs;
    out.rhs = *rhs;
    out.dtype = type.dtype;
    out.ta = attr.ta;
    out.tb = attr.tb;
    out.tf32 = attr.tf32;
    for (size_t i = 0; i + 2 < rank; ++i) out.batch *= to[i];
    out.m = to[rank - 2];
    out.n = to[rank - 1];
    out.k = from[attr.ta ? rank - 2 : rank - 1];
    constexpr int64_t kMost = int64_t{1} << 31;  // the library counts in 32 bits
    return out.batch > 0 && out.m > 0 && out.n > 0 && out.k > 0 && out.batch < kMost &&
           out.m < kMost && out.n < kMost && out.k < kMost;
  }

  /// The slot of a row of n that a broadcast along the last axis repeats.
  std::optional<size_t> bias(ValueId v, const MatmulBody& product) const {
    v = through_reshapes(v);
    if (g_.type(v).dtype != product.dtype) return {};
    if (const auto* view = std::get_if<ir::ViewAttr>(&g_.def(v).attrs)) {
      if (view->kind != ir::ViewKind::broadcast) return {};
      const ValueId row = g_.def(v).operands[0];
      const Shape &from = g_.type(row).shape, &to = g_.type(v).shape;
      if (from.rank() == 0 || from.numel() != product.n || from.extents().back() != product.n ||
          view->a[static_cast<size_t>(from.rank()) - 1] != to.rank() - 1 ||
          to.extents().back() != product.n) {
        return {};
      }
      return slot(row);
    }
    // One row: nothing to repeat.
    if (product.batch * product.m != 1 || g_.type(v).shape.numel() != product.n) return {};
    return slot(v);
  }

  const ir::Graph& g_;
  std::map<uint32_t, size_t> slots_;  // by value
};

}  // namespace

bool is_matmul_epilogue(const ir::Op& op) {
  return is_map(op, Fn::add) || is_map(op, Fn::relu) || is_map(op, Fn::gelu_tanh);
}

std::optional<MatmulBody> matmul_body(const ir::Graph& body) { return Reader(body).read(); }

}  // namespace braid
