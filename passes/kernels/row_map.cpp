// Elementwise kernels of the row family.
#include <fmt/format.h>

#include "passes/kernels/packs.hpp"
#include "passes/kernels/row.hpp"

namespace braid::kernels {
namespace {

/// Every sink at the thread's element: where the walk of the domain leads, else in its own
/// row-major order.
std::vector<PlacedSink> place(const ir::Graph& body, IndexPool& pool,
                              const std::vector<Sink>& sinks, Index linear) {
  const TensorType& domain = body.type(walked(sinks));
  Elements elements(body, pool);
  elements.set(walked(sinks), delinearize(pool, linear, domain.shape.extents()));
  elements.propagate();
  std::vector<PlacedSink> placed;
  for (const Sink& s : sinks) {
    const TensorType& type = body.type(s.value);
    if (type.shape.numel() != domain.shape.numel()) {
      throw Refusal{fmt::format("its results {} and {} differ in the number of elements",
                                to_string(domain), to_string(type))};
    }
    const At* at = elements.find(s.value);
    placed.push_back({s, at ? *at : delinearize(pool, linear, type.shape.extents())});
  }
  return placed;
}

/// How many elements a thread has, and a block threads.
struct Walk {
  int64_t elements = 1;
  uint32_t threads = 256;
  int64_t blocks(int64_t numel) const {
    const int64_t each = elements * threads;
    return numel / each + (numel % each != 0 ? 1 : 0);
  }
};
/// A pack needs four times fewer threads: only where enough are left to fill the device.
Walk walk_of(int64_t numel, uint32_t parts, const Target& target) {
  const int64_t in_all = numel * parts;
  if (numel % kPack == 0 && in_all >= target.sms * int64_t{2048}) return {kPack, 256};
  return {1, in_all <= target.sms * int64_t{128} ? 128u : 256u};
}

std::string thread_index(std::string_view type, uint32_t threads) {
  return type == "int" ? fmt::format("(int)(blockIdx.x * {}u + threadIdx.x)", threads)
                       : fmt::format("(long long)blockIdx.x * {} + threadIdx.x", threads);
}

/// A pack of consecutive elements a thread.
Emitted emit_packed(const ir::Graph& body, const Signature& signature,
                    const std::vector<Sink>& sinks, const std::vector<Sink>& single,
                    std::string_view symbol, int64_t numel, const Walk& walk) {
  const int64_t packs = numel / kPack;
  IndexPool pool;
  ExprWriter w(body, signature, pool);
  const std::string_view type = index_type(packs);
  w.line(fmt::format("const {} pack = {};", type, thread_index(type, walk.threads)));
  w.line(fmt::format("if (pack >= {}) return;", packs));
  const Index pack = pool.variable("pack", packs);
  const Index k = pool.variable("k", kPack);
  const std::vector<PlacedSink> placed =
      place(body, pool, sinks, pool.add(pool.mul(pack, kPack), k));

  const PackedSinks sinks_text = packed_sinks(w, k, placed);
  w.lines(sinks_text.before);
  w.lines(sinks_text.after);
  write_single(w, single, "pack == 0");
  check_in_place(w, placed);
  return {kernel_text(body, signature, symbol, std::to_string(walk.threads), w.finish()),
          launch_of(signature, walk.blocks(numel), walk.threads)};
}

}  // namespace

Emitted emit_elementwise(const ir::Graph& body, const Signature& signature, std::vector<Sink> sinks,
                         std::string_view symbol, const Target& target) {
  const int64_t numel = body.type(walked(sinks)).shape.numel();
  const std::vector<Sink> single = take_single(body, sinks, numel);
  const Walk walk = walk_of(numel, signature.parts, target);
  if (walk.elements > 1) return emit_packed(body, signature, sinks, single, symbol, numel, walk);
  IndexPool pool;
  ExprWriter w(body, signature, pool);
  const std::string_view type = index_type(numel);
  w.line(fmt::format("const {} i = {};", type, thread_index(type, walk.threads)));
  w.line(fmt::format("if (i >= {}) return;", numel));
  const std::vector<PlacedSink> placed = place(body, pool, sinks, pool.variable("i", numel));
  write_sinks(w, placed);
  write_single(w, single, "i == 0");
  check_in_place(w, placed);
  return {kernel_text(body, signature, symbol, std::to_string(walk.threads), w.finish()),
          launch_of(signature, walk.blocks(numel), walk.threads)};
}

Work elementwise_work(const ir::Graph& body, const Signature& signature,
                      const std::vector<Sink>& sinks, const Target& target) {
  const int64_t numel = body.type(walked(sinks)).shape.numel();
  const Walk walk = walk_of(numel, signature.parts, target);
  return {.blocks = walk.blocks(numel) * signature.parts, .threads = walk.threads};
}

}  // namespace braid::kernels
