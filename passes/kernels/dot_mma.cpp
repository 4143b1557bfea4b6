#include "passes/kernels/dot_mma.hpp"

#include <fmt/format.h>

namespace braid::kernels {
namespace {

class MmaWriter : DotPipeline {
 public:
  MmaWriter(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
            const std::vector<Sink>& sinks, const std::function<MmaTile(const MmaProblem&)>& choose)
      : DotPipeline(body, signature, dot, sinks), problem_{product_, {}, {}} {
    const auto converted = [&](const std::string& x) {
      return product_.tf32 ? x : store_text(product_.operands, x) + ".bits";
    };
    a_ = side_of('m', {problem_.vector()}, converted);
    b_ = side_of('n', {problem_.vector()}, converted);
    problem_.product.batch *= signature.parts;
    problem_.a = a_.how;
    problem_.b = b_.how;
    tile_ = choose(problem_);
    set_chunks({.type = problem_.element(),
                .bk = tile_.bk,
                .count = divide_up(product_.k, tile_.bk),
                .stages = tile_.stages,
                .whole_k = tile_.bk,
                .threads = tile_.threads()});
    a_.extent = tile_.bm();
    b_.extent = tile_.bn();
    for (Side* s : {&a_, &b_}) s->stride = row_stride(problem_, s->how, s->extent, tile_.bk);
  }

  Emitted emit(std::string_view symbol) {
    write_places();
    write_fetches();
    writer_.lines(multiply_lines(problem_, tile_));
    write_first_chunks();
    choose_results(tile_.bm(), tile_.bn(), tile_.threads(), "float");
    write_main_loop();
    write_sums();
    write_results(tile_.slices);
    return finish(symbol, tile_.bm(), tile_.bn(), tile_.threads(), shared_bytes(problem_, tile_));
  }

 private:
  void write_places() {
    const MmaTile& t = tile_;
    write_head(t.bm(), t.bn(), t.bk, t.threads());
    writer_.line(fmt::format("constexpr int STAGES = {};  // chunks of BK terms in shared memory",
                             t.stages));
    writer_.line(fmt::format(
        "constexpr int ROWS = {}, COLUMNS = {}, SLICES = {};  // a warp's part: along {}, {}, k",
        t.warp_rows, t.warp_columns, t.slices, t.swapped ? 'n' : 'm', t.swapped ? 'm' : 'n'));
    writer_.line(fmt::format("constexpr int A_STRIDE = {}, B_STRIDE = {};", a_.stride, b_.stride));
    const int64_t a = tile_elements(problem_, a_.how, a_.extent, t.bk);
    const int64_t b = tile_elements(problem_, b_.how, b_.extent, t.bk);
    writer_.line(fmt::format("constexpr int B_TILE = {}, STAGE = {};", a, a + b));
    writer_.line("const int lane = thread % 32;");
    if (t.threads() > 32) writer_.line("const int warp = thread / 32;");
    writer_.lines(place_lines(t));
    writer_.line(fmt::format("{}* const memory = static_cast<{}*>(braid_shared_memory());",
                             problem_.element(), problem_.element()));
    writer_.line("float sum[ROWS / 16][COLUMNS / 8][4] = {};");
  }

  /// By way of shared memory, where the slices' sums meet and rows of the result lie whole.
  void write_sums() {
    writer_.line("");
    writer_.line("__syncthreads();");
    writer_.line(
        "float(*const partial)[BM][BN + 4] = "
        "reinterpret_cast<float(*)[BM][BN + 4]>(memory);");
    writer_.lines(sum_lines(tile_.swapped ? "partial[slice][of_column][of_row]"
                                          : "partial[slice][of_row][of_column]"));
    writer_.line("__syncthreads();");
  }

  MmaProblem problem_;
  MmaTile tile_{};
};

}  // namespace

bool wants_mma(const Product& p) {
  constexpr int64_t kShort = 8;  // below, most of an mma would be zeros
  const bool fits =
      p.operands == DType::f16 || p.operands == DType::bf16 || (p.operands == DType::f32 && p.tf32);
  return fits && p.k >= kShort;
}

Emitted emit_dot_mma(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                     const std::vector<Sink>& sinks, std::string_view symbol,
                     const std::function<MmaTile(const MmaProblem&)>& choose) {
  return MmaWriter(body, signature, dot, sinks, choose).emit(symbol);
}

Work dot_mma_work(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                  const std::vector<Sink>& sinks, const Target& target) {
  Work work;
  MmaWriter(body, signature, dot, sinks, [&](const MmaProblem& p) {
    const MmaTile tile = choose_mma_tile(p, target);
    work = estimate_work(p, tile, target);
    return tile;
  });
  return work;
}

}  // namespace braid::kernels
