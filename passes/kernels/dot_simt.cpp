#include "passes/kernels/dot_simt.hpp"

#include <fmt/format.h>

namespace braid::kernels {
namespace {

/// Integers are summed unsigned, which wraps.
std::string_view sum_type(DType t) {
  if (is_float(t)) return register_type(t);
  return t == DType::i64 ? "unsigned long long" : "unsigned";
}

class SimtWriter : DotPipeline {
 public:
  SimtWriter(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
             const std::vector<Sink>& sinks,
             const std::function<SimtTile(const SimtProblem&)>& choose)
      : DotPipeline(body, signature, dot, sinks),
        sum_(sum_type(product_.result)),
        problem_{product_, {}, {}} {
    const DType result = product_.result;
    problem_.bytes = result == DType::f64 || result == DType::i64 ? 8 : 4;
    problem_.may_split = is_float(result) && result != DType::f64;
    problem_.product.batch *= signature.parts;
    if (product_.k > 0) {
      a_ = side('m');
      b_ = side('n');
    }
    problem_.a = a_.how;
    problem_.b = b_.how;
    tile_ = choose(problem_);
    const bool alone = tile_.teams == 1 && tile_.team() > 32;
    set_chunks({.type = sum_,
                .bk = tile_.bk,
                .count = tile_.chunks(product_.k),
                .stages = tile_.stages,
                .whole_k = tile_.split * tile_.stretch(product_.k),
                .first = tile_.teams * tile_.split > 1 ? "k_first + " : "",
                .stride = tile_.teams > 1 ? "(TEAMS * BK)" : "BK",
                .threads = tile_.team(),
                .thread = tile_.teams > 1 ? "lane" : "thread",
                .step = tile_.teams > 1 ? "32" : "THREADS",
                .meet = alone ? "__syncthreads();" : "__syncwarp();"});
    a_.extent = tile_.bm;
    b_.extent = tile_.bn;
    for (Side* s : {&a_, &b_}) s->stride = row_stride(problem_, tile_, s->outer);
  }

  Emitted emit(std::string_view symbol) {
    write_places();
    if (product_.k > 0) {
      write_fetches();
      writer_.lines(multiply_lines(problem_, tile_, sum_));
      write_first_chunks();
    } else if (signature_.waits) {
      writer_.line(std::string(wait_line()));
    }
    choose_results(tile_.bm, tile_.bn, tile_.threads(), sum_, tile_.split);
    if (product_.k > 0) write_main_loop();
    write_sums();
    write_results(tile_.slices());
    return finish(symbol, tile_.bm, tile_.bn, tile_.threads(), shared_bytes(problem_, tile_),
                  tile_.split);
  }

 private:
  /// Copied where shared memory has the bits of memory; words one by one where packs do not lie
  /// aligned.
  Side side(char outer) {
    const DType type = body_.type(operand(outer)).dtype;
    const bool same = !product_.tf32 && size_of(type) == problem_.bytes &&
                      is_float(type) == is_float(product_.result);
    const auto converted = [&](const std::string& x) {
      if (product_.tf32) {
        return fmt::format("__int_as_float((int)braid_tf32((unsigned)__float_as_int({})))", x);
      }
      return register_type(type) == sum_ ? x : fmt::format("({}){}", sum_, x);
    };
    if (!same) return side_of(outer, {}, converted);
    if (problem_.bytes == 8) return side_of(outer, {2}, converted);
    return side_of(outer, {4, 1}, converted);
  }

  void write_places() {
    const SimtTile& t = tile_;
    write_head(t.bm, t.bn, t.bk, t.threads(), t.split);
    if (t.split > 1) {
      writer_.line(
          fmt::format("constexpr int SPLIT = {};  // blocks that share a tile, along k", t.split));
      writer_.line("braid_cluster_arrive();");
    }
    writer_.line(
        fmt::format("constexpr int TM = {}, TN = {};  // a thread's part of it", t.tm, t.tn));
    writer_.line(fmt::format("constexpr int SLICES = {};  // of the terms", t.slices()));
    writer_.line(fmt::format("constexpr int A_STRIDE = {}, B_STRIDE = {};", a_.stride, b_.stride));
    const int64_t a = tile_elements(problem_, t, 'm'), b = tile_elements(problem_, t, 'n');
    writer_.line(fmt::format(
        "constexpr int STAGES = {}, B_TILE = {}, STAGE = {};  // chunks in shared memory", t.stages,
        a, a + b));
    writer_.line(
        fmt::format("{}* const shared = static_cast<{}*>(braid_shared_memory());", sum_, sum_));
    const std::string_view lane = t.teams > 1 ? "lane" : "thread";
    if (t.teams > 1) {
      writer_.line(fmt::format("constexpr int TEAMS = {};  // with chunks of their own", t.teams));
      writer_.line("const int lane = thread % 32;");
      writer_.line("const int team = thread / 32;");
      writer_.line(fmt::format("{}* const memory = shared + team * (STAGES * STAGE);", sum_));
    } else {
      writer_.line(fmt::format("{}* const memory = shared;", sum_));
    }
    if (t.teams * t.split > 1) {
      const std::string of_rank = fmt::format("rank * {}", t.stretch(product_.k));
      writer_.line(fmt::format("const int k_first = {}{}{};", t.split > 1 ? of_rank : "",
                               t.split > 1 && t.teams > 1 ? " + " : "",
                               t.teams > 1 ? "team * BK" : ""));
    }
    writer_.line(fmt::format("const int x = {} % (BN / TN);", lane));
    writer_.line(fmt::format("const int y = {} / (BN / TN) % (BM / TM);", lane));
    if (t.team_slices() > 1) {
      writer_.line(fmt::format("const int slice = {} / (BN / TN * (BM / TM));", lane));
    }
    writer_.line(fmt::format("{} sum[TM][TN] = {{}};", sum_));
  }

  /// To shared memory, where the slices' sums meet and rows of the result lie whole.
  void write_sums() {
    const SimtTile& t = tile_;
    writer_.line("");
    writer_.line("__syncthreads();");
    writer_.line(
        fmt::format("{}(*const partial)[BM][BN + 4] = reinterpret_cast<{}(*)[BM][BN + 4]>(shared);",
                    sum_, sum_));
    const std::string slice = t.slices() == 1        ? "0"
                              : t.team_slices() == 1 ? "team"
                              : t.teams == 1         ? "slice"
                                             : fmt::format("team * {} + slice", t.team_slices());
    writer_.line("#pragma unroll");
    writer_.line("for (int i = 0; i < TM; ++i) {");
    writer_.line("#pragma unroll");
    writer_.line(fmt::format("for (int j = 0; j < TN; ++j) partial[{}][{}][{}] = sum[i][j];", slice,
                             element_place(problem_.a, t, 'm'), element_place(problem_.b, t, 'n')));
    writer_.line("}");
    writer_.line("__syncthreads();");
    if (t.split > 1) write_exchange();
  }

  /// Every block sends each other block its sums of that block's share.
  void write_exchange() {
    writer_.line("");
    writer_.line("// Each block adds up the cluster's sums for its share of the elements.");
    writer_.line(
        fmt::format("float(*const share_of)[SHARE * {}] = "
                    "reinterpret_cast<float(*)[SHARE * {}]>(shared + {});",
                    kPack, kPack, share_at(problem_, tile_)));
    writer_.line("braid_cluster_wait();");
    writer_.line("for (int e = thread; e < SHARE * SPLIT; e += THREADS) {");
    writer_.line(
        fmt::format("const int r = e / {}, c = e % {};", tile_.bn / kPack, tile_.bn / kPack));
    write_totals(tile_.slices(), "SLICES",
                 [](std::string_view s) { return fmt::format("&partial[{}][r][0], c", s); });
    writer_.line("braid_cluster_send<SPLIT>(share_of[rank], e % SHARE, e / SHARE, totals);");
    writer_.line("}");
    writer_.line("braid_cluster_meet(share_of[0], BM * BN);");
  }

  std::string_view sum_;
  SimtProblem problem_;
  SimtTile tile_{};
};

}  // namespace

Emitted emit_dot_simt(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                      const std::vector<Sink>& sinks, std::string_view symbol,
                      const std::function<SimtTile(const SimtProblem&)>& choose) {
  return SimtWriter(body, signature, dot, sinks, choose).emit(symbol);
}

Work dot_simt_work(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                   const std::vector<Sink>& sinks, const Target& target) {
  Work work;
  SimtWriter(body, signature, dot, sinks, [&](const SimtProblem& p) {
    const SimtTile tile = choose_simt_tile(p, target);
    work = estimate_work(p, tile, target);
    return tile;
  });
  return work;
}

}  // namespace braid::kernels
