#include "passes/kernels/dot_simt.hpp"

#include <fmt/format.h>

namespace braid::kernels {
namespace {

/// Integers are summed unsigned, which wraps.
std::string_view sum_type(DType t) {
  if (is_float(t)) return register_type(t);
  return t == DType::i64 ? "unsigned long long" : "unsigned";
}

int64_t sum_bytes(const Product& p) {
  return p.result == DType::f64 || p.result == DType::i64 ? 8 : 4;
}

bool may_split(const Product& p) { return is_float(p.result) && p.result != DType::f64; }

class SimtWriter : DotFrame {
 public:
  SimtWriter(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
             const std::vector<Sink>& sinks, const Target& target)
      : DotFrame(body, signature, dot, sinks),
        sum_(sum_type(product_.result)),
        tile_(choose_dot_tile(product_.batch * signature.parts, product_.m, product_.n, product_.k,
                              sum_bytes(product_), target, nullptr, may_split(product_))) {}

  Emitted emit(std::string_view symbol) {
    write_places();
    if (product_.k > 0) {
      write_fetch();
      write_main_loop();
    }
    write_results();
    return finish(symbol, tile_.bm, tile_.bn, tile_.threads(), 0, tile_.split);
  }

 private:
  void write_places() {
    const DotTile& t = tile_;
    write_head(t.bm, t.bn, t.bk, t.threads(), t.split);
    if (t.split > 1) {
      writer_.line(fmt::format("const int k_begin = rank * {};", t.stretch(product_.k)));
      writer_.line(fmt::format("const int k_end = k_begin + {} < K ? k_begin + {} : K;",
                               t.stretch(product_.k), t.stretch(product_.k)));
    } else {
      writer_.line("constexpr int k_begin = 0, k_end = K;");
    }
    writer_.line(
        fmt::format("constexpr int TM = {}, TN = {}, SLICES = {};  // a thread's part of it", t.tm,
                    t.tn, t.slices));
    writer_.line("const int x = thread % (BN / TN);");
    writer_.line("const int y = thread / (BN / TN) % (BM / TM);");
    if (t.slices > 1) {
      writer_.line("const int slice = thread / (BN / TN * (BM / TM));");
    } else if (t.split > 1) {
      writer_.line("constexpr int slice = 0;");
    }
    writer_.line(fmt::format("alignas(16) __shared__ {} memory[{}];", sum_, t.shared_elements()));
    writer_.line(fmt::format("{} sum[TM][TN] = {{}};", sum_));
  }

  std::string converted(char outer, const std::string& x) const {
    if (product_.tf32) {
      return fmt::format("__int_as_float((int)braid_tf32((unsigned)__float_as_int({})))", x);
    }
    const bool same = register_type(body_.type(operand(outer)).dtype) == sum_;
    return same ? x : fmt::format("({}){}", sum_, x);
  }

  void write_fetch() {
    const auto side = [&](char outer) {
      return element(outer, [&](const auto& x) { return converted(outer, x); });
    };
    const Element of_a = side('m'), of_b = side('n');
    const Fetch a = fetch(of_a, tile_.bm, tile_.bk, tile_.threads(), sum_);
    const Fetch b = fetch(of_b, tile_.bn, tile_.bk, tile_.threads(), sum_);
    writer_.line("");
    writer_.line(fmt::format("{}(*const a_tile)[BM + 4] = reinterpret_cast<{}(*)[BM + 4]>(memory);",
                             sum_, sum_));
    writer_.line(fmt::format(
        "{}(*const b_tile)[BN + 4] = reinterpret_cast<{}(*)[BN + 4]>(memory + BK * (BM + 4));",
        sum_, sum_));
    writer_.line("// The next tiles travel to registers while the present ones are multiplied.");
    writer_.line(fmt::format("{} a_next[{}], b_next[{}];", sum_, a.each, b.each));
    const auto define = [&](const Element& one, const Fetch& f) {
      writer_.lines(one.before);
      writer_.line(fmt::format("const auto fetch_{} = [&](int k0) {{", name_of_side(f.outer)));
      writer_.lines(f.lines);
      writer_.line("};");
      writer_.line(fmt::format("fetch_{}(k_begin);", name_of_side(f.outer)));
    };
    // What is fixed is on its way before the kernel waits for the rest.
    for (const bool fixed : {true, false}) {
      if (!fixed && signature_.waits) writer_.line(std::string(wait_line()));
      if (of_a.fixed == fixed) define(of_a, a);
      if (of_b.fixed == fixed) define(of_b, b);
    }
    writer_.line("const auto put = [&] {");
    writer_.lines(put(a, fmt::format("a_tile[{}][{}]", a.k_of_e, a.outer_of_e)));
    writer_.lines(put(b, fmt::format("b_tile[{}][{}]", b.k_of_e, b.outer_of_e)));
    writer_.line("};");
  }

  void write_main_loop() {
    writer_.line("");
    writer_.line("#pragma unroll 1");
    writer_.line("for (int k0 = k_begin; k0 < k_end; k0 += BK) {");
    writer_.line("put();");
    writer_.line("__syncthreads();");
    if (tile_.stretch(product_.k) > tile_.bk) {
      writer_.line("if (k0 + BK < k_end) fetch_a(k0 + BK), fetch_b(k0 + BK);");
    }
    writer_.line("#pragma unroll 8");
    writer_.line(tile_.slices > 1 ? "for (int k = slice; k < BK; k += SLICES) {"
                                  : "for (int k = 0; k < BK; ++k) {");
    writer_.line(fmt::format("{} a[TM], b[TN];", sum_));
    writer_.line("#pragma unroll");
    writer_.line("for (int i = 0; i < TM; ++i) a[i] = a_tile[k][y * TM + i];");
    writer_.line("#pragma unroll");
    writer_.line("for (int j = 0; j < TN; ++j) b[j] = b_tile[k][x * TN + j];");
    writer_.line("#pragma unroll");
    writer_.line("for (int i = 0; i < TM; ++i) {");
    writer_.line("#pragma unroll");
    writer_.line("for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];");
    writer_.line("}");
    writer_.line("}");
    writer_.line("__syncthreads();");
    writer_.line("}");
  }

  void write_results() {
    writer_.line("");
    if (tile_.slices == 1 && tile_.split == 1) {
      writer_.line("#pragma unroll");
      writer_.line("for (int i = 0; i < TM; ++i) {");
      writer_.line("#pragma unroll");
      writer_.line("for (int j = 0; j < TN; ++j) {");
      writer_.line("const int m = m0 + y * TM + i;");
      writer_.line("const int n = n0 + x * TN + j;");
      write_element("sum[i][j]", sum_, tile_.bm, tile_.bn);
      writer_.line("}");
      writer_.line("}");
      return;
    }
    writer_.line("// The slices' sums are added in order.");
    writer_.line(fmt::format(
        "{}(*const partial)[BM * BN] = reinterpret_cast<{}(*)[BM * BN]>(memory);", sum_, sum_));
    writer_.line("#pragma unroll");
    writer_.line("for (int i = 0; i < TM; ++i) {");
    writer_.line("#pragma unroll");
    writer_.line(
        "for (int j = 0; j < TN; ++j) partial[slice][(y * TM + i) * BN + x * TN + j] = sum[i][j];");
    writer_.line("}");
    if (tile_.split > 1) return write_results_of_cluster();
    writer_.line("__syncthreads();");
    writer_.line("for (int e = thread; e < BM * BN; e += THREADS) {");
    writer_.line("const int m = m0 + e / BN;");
    writer_.line("const int n = n0 + e % BN;");
    writer_.line(fmt::format("{} total = 0;", sum_));
    writer_.line("#pragma unroll");
    writer_.line("for (int s = 0; s < SLICES; ++s) total += partial[s][e];");
    write_element("total", sum_, tile_.bm, tile_.bn);
    writer_.line("}");
  }

  void write_results_of_cluster() {
    if (tile_.slices > 1) {
      writer_.line("__syncthreads();");
      writer_.line("for (int e = thread; e < BM * BN; e += THREADS) {");
      writer_.line(fmt::format("{} total = partial[0][e];", sum_));
      writer_.line("#pragma unroll");
      writer_.line("for (int s = 1; s < SLICES; ++s) total += partial[s][e];");
      writer_.line("partial[0][e] = total;");
      writer_.line("}");
    }
    writer_.line("// Each block adds up the cluster's sums for its share of the elements.");
    writer_.line("braid_cluster_meet(partial[0], BM * BN);");
    writer_.line(fmt::format("constexpr int SHARE = BM * BN / {};", tile_.split));
    writer_.line("for (int i = thread; i < SHARE; i += THREADS) {");
    writer_.line("const int e = rank * SHARE + i;");
    writer_.line("const int m = m0 + e / BN;");
    writer_.line("const int n = n0 + e % BN;");
    writer_.line(fmt::format("{} total = 0;", sum_));
    writer_.line("#pragma unroll");
    writer_.line(fmt::format("for (int r = 0; r < {}; ++r) {{", tile_.split));
    writer_.line(fmt::format("total += braid_cluster_read<{}>(partial[0], e, r);", tile_.split));
    writer_.line("}");
    write_element("total", sum_, tile_.bm, tile_.bn);
    writer_.line("}");
    writer_.line("braid_cluster_leave();");
  }

  std::string_view sum_;
  DotTile tile_;
};

}  // namespace

Emitted emit_dot_simt(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                      const std::vector<Sink>& sinks, std::string_view symbol,
                      const Target& target) {
  return SimtWriter(body, signature, dot, sinks, target).emit(symbol);
}

Work dot_simt_work(const Product& p, const Target& target, uint32_t parts) {
  Work work;
  choose_dot_tile(p.batch * parts, p.m, p.n, p.k, sum_bytes(p), target, &work, may_split(p));
  return work;
}

}  // namespace braid::kernels
