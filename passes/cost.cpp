#include "passes/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "ir/matmul_body.hpp"
#include "passes/body_key.hpp"
#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/family.hpp"

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

/// A kernel that no launch can hold fills the GPU; the source pass says so to the author.
kernels::Work find_work(const Kernel& k, const Target& t) {
  try {
    return kernels::family(k.family).work(k.body, t, k.parts);
  } catch (const kernels::TooLarge&) {
    return {.blocks = t.sms, .threads = 256};
  }
}

/// What families answered. Several passes ask of each kernel, and a family tries many tiles for one
/// answer.
class KnownWork {
 public:
  kernels::Work of(const Kernel& k, const Target& t) {
    const std::string key = fmt::format("{} {} {} {} {} {} ", k.family, k.parts, t.arch, t.sms,
                                        t.max_threads_per_block, t.shared_bytes_per_block) +
                            body_key(k.body);
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = known_.find(key); it != known_.end()) return it->second;
    }
    const kernels::Work work = find_work(k, t);
    const std::lock_guard lock(mutex_);
    if (bytes_ += key.size(); bytes_ > kMostBytes) {
      known_.clear();
      bytes_ = key.size();
    }
    known_.emplace(key, work);
    return work;
  }

 private:
  static constexpr size_t kMostBytes = 64 << 20;  // of keys: some KiB for most bodies
  std::mutex mutex_;
  size_t bytes_ = 0;
  std::unordered_map<std::string, kernels::Work> known_;
};

kernels::Work work_of(const Kernel& k, const Target& t) {
  static KnownWork known;
  return known.of(k, t);
}

/// A product by the rate of the library; of another function no more is known than what it must
/// read and write, so that it counts as one that fills the GPU.
KernelCost library_cost(const Kernel& k, const Prices& prices) {
  const double memory = static_cast<double>(k.bytes_moved) / prices.bytes_per_us;
  const std::optional<MatmulBody> product = matmul_body(k.body);
  if (!product) return {prices.row_us + memory, 1};
  // Of an H200's 67 TFLOP/s in f32, 494 in tf32 and 989 in f16 about two thirds.
  const double rate = product->dtype != DType::f32 ? 650e6 : product->tf32 ? 330e6 : 45e6;
  constexpr double kLaunchUs = 2;
  const double busy = std::max(memory, product->flops() / rate);
  return {kLaunchUs + busy, busy / (kLaunchUs + busy)};
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

Kernel costed_kernel(std::string_view family, ir::Graph body) {
  Kernel k;
  k.family = std::string(family);
  for (const ir::Op& op : body.ops()) {
    const int64_t flops = ir::info(op.kind).flops(body, op);
    if (__builtin_add_overflow(k.flops, flops, &k.flops)) k.flops = INT64_MAX;
  }
  k.bytes_moved = bytes_moved(body);
  k.body = std::move(body);
  return k;
}

KernelCost cost_of(const Kernel& k, const Target& t, const Prices& prices) {
  if (k.family.empty()) return {prices.row_us, 0, 1, 0, k.waits};
  if (k.family == "library") return library_cost(k, prices);
  if (k.family == kHostNodeFamily) return {prices.host_node_us - 2 * prices.row_us, 0};
  const kernels::Work work = work_of(k, t);
  const double blocks = static_cast<double>(work.blocks);
  // Of the GPU's rates what the blocks' SMs have; parts run side by side.
  const double reach = std::clamp(blocks / t.sms, 1.0 / t.sms, 1.0);
  const double memory = static_cast<double>(k.bytes_moved) / prices.bytes_per_us;
  double alone, busy;
  const bool multiplies = k.family == "dot" || k.family == "chain";
  if (multiplies) {
    const double busy_us = work.busy_cycles / prices.cycles_per_us;
    // A chain's own estimate has its start and its end.
    alone = (k.family == "dot" ? prices.dot_us : 0) +
            std::max({work.cycles / prices.cycles_per_us, memory, busy_us});
    busy = std::max(memory, busy_us);
  } else if (k.family == kExchangeFamily || k.family == kPostFamily || k.family == kFetchFamily) {
    busy = 0;
    alone = (k.family == kExchangeFamily ? prices.handshake_us : prices.row_us) +
            static_cast<double>(k.bytes_moved) / prices.bus_bytes_per_us;
  } else {
    const double compute = static_cast<double>(k.flops) / (prices.flops_per_us * t.sms);
    busy = std::max(memory, compute);
    alone = prices.row_us + work.cycles / prices.cycles_per_us + busy / reach;
  }
  const double held =
      std::max(blocks * work.threads / (prices.threads_per_sm * t.sms),
               blocks * static_cast<double>(work.shared_bytes) / (prices.shared_per_sm * t.sms));
  KernelCost cost{alone, std::min(1.0, std::max(busy / alone, held))};
  // Of what users write the room is not known, and who calls the host lets nobody start.
  // A product's registers may leave room for one block on each SM.
  if (k.code == Code::generated && !k.exchanges) {
    cost.room = multiplies ? std::max(held, blocks / t.sms) : held;
  }
  cost.waits = k.waits;
  int64_t fixed = 0;
  for (const ArgSlot& a : k.args) fixed = plus(fixed, a.fixed ? a.type.bytes() : 0);
  cost.late_us = alone - std::min(alone / 2, static_cast<double>(fixed) / prices.bytes_per_us);
  return cost;
}

double estimate_us(const Kernel& k, const Target& t) { return cost_of(k, t).us; }

}  // namespace braid
