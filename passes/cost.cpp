#include "passes/cost.hpp"

#include <algorithm>
#include <variant>

namespace braid {
namespace {

using ir::OpKind;

/// A cost model needs no more than the largest number where the true one overflows.
int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/// Bytes of `v` that `user` touches.
int64_t touched(const ir::Graph& g, ir::ValueId v, const ir::Op& user) {
  const auto* view = std::get_if<ir::ViewAttr>(&user.attrs);
  if (user.kind == OpKind::update) return g.type(user.operands[1]).bytes();
  const bool part = (user.kind == OpKind::gather && user.operands[1] != v) ||
                    (view && view->kind == ir::ViewKind::slice);
  return part ? g.type(user.result).bytes() : g.type(v).bytes();
}

/// How much faster than strict f32 the body's products are, by tensor cores.
double faster_flops(const ir::Graph& body) {
  for (const ir::Op& op : body.ops()) {
    const auto* dot = std::get_if<ir::DotAttr>(&op.attrs);
    if (!dot) continue;
    if (dot->tf32) return 4;
    const DType t = body.type(op.operands[0]).dtype;
    if (t == DType::f16 || t == DType::bf16) return 8;
  }
  return 1;
}

}  // namespace

int64_t bytes_moved(const ir::Graph& body) {
  const std::vector<std::vector<ir::OpId>> users = body.users();
  int64_t bytes = 0;
  for (const ir::Op& op : body.ops()) {
    if (op.kind != OpKind::input && op.kind != OpKind::param) continue;
    int64_t part = 0;
    for (ir::ValueId v = op.result; v.valid();) {  // the versions of a param are one memory
      ir::ValueId next{};
      for (ir::OpId id : users[v.index]) {
        const ir::Op& user = body.op(id);
        part = plus(part, touched(body, v, user));
        if (body.value(user.result).state) next = user.result;
      }
      v = next;
    }
    bytes = plus(bytes, std::min(part, body.type(op.result).bytes()));
  }
  for (const ir::Output& o : body.outputs) bytes = plus(bytes, body.type(o.value).bytes());
  return bytes;
}

double estimate_us(const Kernel& k, const Target& t) {
  // Measured on an H200: a small real kernel adds 0.6 us to a chain of empty ones; 4.3 TB/s copied,
  // which 132 SMs share; strict f32 by SIMT tiles reaches about 0.2 TFLOP/s an SM.
  constexpr double kFixed = 0.6;
  constexpr double kBytesPerUsPerSm = 4.3e6 / 132;
  constexpr double kFlopsPerUsPerSm = 0.2e6;
  const double memory = static_cast<double>(k.bytes_moved) / (kBytesPerUsPerSm * t.sms);
  const double compute =
      static_cast<double>(k.flops) / (kFlopsPerUsPerSm * faster_flops(k.body) * t.sms);
  return kFixed + std::max(memory, compute);
}

}  // namespace braid
