#include "passes/kernels/dot.hpp"

#include <fmt/format.h>

#include <limits>

#include "passes/kernels/sinks.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;

/// Integers are summed unsigned, which wraps.
std::string_view sum_type(DType t) {
  if (is_float(t)) return register_type(t);
  return t == DType::i64 ? "unsigned long long" : "unsigned";
}

class DotWriter {
 public:
  DotWriter(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
            const std::vector<Sink>& sinks, const Target& target)
      : body_(body), signature_(signature), dot_(dot), writer_(body, signature, pool_) {
    const TensorType& result = body.type(dot.result);
    const auto& attr = std::get<ir::DotAttr>(dot.attrs);
    const std::vector<int64_t> lhs = body.type(dot.operands[0]).shape.extents();
    const std::vector<int64_t> extents = result.shape.extents();
    const size_t rank = extents.size();
    m_ = extents[rank - 2];
    n_ = extents[rank - 1];
    k_ = lhs[attr.ta ? rank - 2 : rank - 1];
    for (size_t i = 0; i + 2 < rank; ++i) batch_ *= extents[i];
    if (std::max({batch_, m_, n_, k_}) > std::numeric_limits<int32_t>::max() / 2) {
      throw TooLarge("its matrix product has an axis of more than 2^30 elements");
    }
    sum_ = sum_type(result.dtype);
    tile_ =
        choose_dot_tile(batch_, m_, n_, k_,
                        result.dtype == DType::f64 || result.dtype == DType::i64 ? 8 : 4, target);
    const Index b = pool_.variable("batch", batch_);
    const Index m = pool_.variable("m", m_), n = pool_.variable("n", n_);
    const Index k = pool_.variable("k", k_);
    const At batch = delinearize(pool_, b, std::span(extents).first(rank - 2));
    const auto at = [&](Index row, Index column) {
      At full = batch;
      full.push_back(row);
      full.push_back(column);
      return full;
    };
    lhs_at_ = attr.ta ? at(k, m) : at(m, k);
    rhs_at_ = attr.tb ? at(n, k) : at(k, n);
    result_at_ = at(m, n);
    place(sinks);
  }

  Emitted emit(std::string_view symbol) {
    const auto threads = static_cast<uint32_t>(tile_.threads());
    const int64_t tiles_m = (m_ + tile_.bm - 1) / tile_.bm,
                  tiles_n = (n_ + tile_.bn - 1) / tile_.bn;
    write_head(tiles_m, tiles_n);
    if (k_ > 0) {
      write_fetch();
      write_main_loop();
    }
    write_results();
    check_in_place(writer_, placed_);
    // One block per SM at least: left to itself, ptxas may spill for the sake of more.
    const std::string bounds = fmt::format("{}, 1", threads);
    return {kernel_text(body_, signature_, symbol, bounds, writer_.finish()),
            launch_of(batch_ * tiles_m * tiles_n, threads)};
  }

 private:
  void place(const std::vector<Sink>& sinks) {
    const TensorType& result = body_.type(dot_.result);
    Elements elements(body_, pool_);
    elements.set(dot_.result, result_at_);
    elements.propagate();
    for (const Sink& s : sinks) {
      const TensorType& type = body_.type(s.value);
      if (type.shape.numel() != result.shape.numel()) {
        throw Refusal{fmt::format("its result {} has other elements than the matrix product {}",
                                  to_string(type), to_string(result))};
      }
      const At* at = elements.find(s.value);
      const Index linear = linearize(pool_, result_at_, result.shape.extents());
      placed_.push_back({s, at ? *at : delinearize(pool_, linear, type.shape.extents())});
    }
  }

  void write_head(int64_t tiles_m, int64_t tiles_n) {
    const DotTile& t = tile_;
    writer_.line(fmt::format("constexpr int M = {}, N = {}, K = {};", m_, n_, k_));
    writer_.line(fmt::format("constexpr int BM = {}, BN = {}, BK = {};  // a block's tile", t.bm,
                             t.bn, t.bk));
    writer_.line(
        fmt::format("constexpr int TM = {}, TN = {}, SLICES = {};  // a thread's part of it", t.tm,
                    t.tn, t.slices));
    writer_.line(fmt::format("constexpr int THREADS = {};", t.threads()));
    writer_.line("const int thread = threadIdx.x;");
    writer_.line("const int tile = blockIdx.x;");
    writer_.line(fmt::format("const int n0 = tile % {} * BN;", tiles_n));
    writer_.line(fmt::format("const int m0 = tile / {} % {} * BM;", tiles_n, tiles_m));
    if (batch_ > 1) writer_.line(fmt::format("const int batch = tile / {};", tiles_m * tiles_n));
    writer_.line("const int x = thread % (BN / TN);");
    writer_.line("const int y = thread / (BN / TN) % (BM / TM);");
    if (t.slices > 1) writer_.line("const int slice = thread / (BN / TN * (BM / TM));");
    writer_.line(fmt::format("alignas(16) __shared__ {} memory[{}];", sum_, t.shared_elements()));
    writer_.line(fmt::format("{} sum[TM][TN] = {{}};", sum_));
  }

  /// One operand's part of the fetch: the elements of its next tile that the thread brings.
  /// `outer` is the operand's axis beside k, "m" or "n".
  std::vector<std::string> fetch_lines(ir::ValueId operand, const At& at, char outer,
                                       bool outer_fits, bool k_fits, bool* k_fastest) {
    const std::string name(1, outer == 'm' ? 'a' : 'b');
    const std::string side = outer == 'm' ? "BM" : "BN";
    const Index k = pool_.variable("k", k_);
    const Index o = pool_.variable(std::string_view(&outer, 1), outer == 'm' ? m_ : n_);
    const size_t loads_before = writer_.loads().size();
    writer_.open_loop({o, k});
    const std::string x = writer_.value(operand, at);
    const bool converts = register_type(body_.type(operand).dtype) != sum_;
    writer_.line(
        fmt::format("{}_next[i] = {}{};", name, converts ? fmt::format("({})", sum_) : "", x));
    const std::vector<std::string> body = writer_.close();

    // Neighbouring threads take neighbouring elements of memory.
    *k_fastest = outer == 'm';
    for (size_t i = writer_.loads().size(); i-- > loads_before;) {
      const Index linear = writer_.loads()[i].linear;
      if (pool_.coefficient(linear, k) == 1) *k_fastest = true;
      if (pool_.coefficient(linear, o) == 1) *k_fastest = false;
    }
    const int64_t elements = (outer == 'm' ? tile_.bm : tile_.bn) * tile_.bk;
    const int64_t each = (elements + tile_.threads() - 1) / tile_.threads();
    std::vector<std::string> lines{"#pragma unroll",
                                   fmt::format("for (int i = 0; i < {}; ++i) {{", each),
                                   "const int e = thread + i * THREADS;"};
    const std::string by = *k_fastest ? "BK" : side;
    lines.push_back(
        fmt::format("const int {} = {}0 + e {} {};", outer, outer, *k_fastest ? '/' : '%', by));
    lines.push_back(fmt::format("const int k = k0 + e {} {};", *k_fastest ? '%' : '/', by));
    std::string test;
    const auto also = [&](const std::string& condition) {
      test += (test.empty() ? "" : " && ") + condition;
    };
    if (elements % tile_.threads() != 0) also(fmt::format("e < {} * BK", side));
    if (!outer_fits) also(fmt::format("{} < {}", outer, outer == 'm' ? 'M' : 'N'));
    if (!k_fits) also("k < K");
    if (!test.empty()) {
      lines.push_back(fmt::format("{}_next[i] = 0;", name));
      lines.push_back(fmt::format("if ({}) {{", test));
    }
    lines.insert(lines.end(), body.begin(), body.end());
    if (!test.empty()) lines.push_back("}");
    lines.push_back("}");
    return lines;
  }

  /// The lines that move a thread's fetched elements into shared memory.
  std::vector<std::string> put_lines(char outer, bool k_fastest) const {
    const std::string name(1, outer == 'm' ? 'a' : 'b');
    const std::string side = outer == 'm' ? "BM" : "BN";
    const int64_t elements = (outer == 'm' ? tile_.bm : tile_.bn) * tile_.bk;
    const int64_t each = (elements + tile_.threads() - 1) / tile_.threads();
    const std::string to = k_fastest ? fmt::format("{}_tile[e % BK][e / BK]", name)
                                     : fmt::format("{}_tile[e / {}][e % {}]", name, side, side);
    const std::string test =
        elements % tile_.threads() != 0 ? fmt::format("if (e < {} * BK) ", side) : "";
    return {"#pragma unroll", fmt::format("for (int i = 0; i < {}; ++i) {{", each),
            "const int e = thread + i * THREADS;",
            fmt::format("{}{} = {}_next[i];", test, to, name), "}"};
  }

  void write_fetch() {
    const bool k_fits = k_ % tile_.bk == 0;
    bool a_by_k = true, b_by_k = false;
    const std::vector<std::string> a =
        fetch_lines(dot_.operands[0], lhs_at_, 'm', m_ % tile_.bm == 0, k_fits, &a_by_k);
    const std::vector<std::string> b =
        fetch_lines(dot_.operands[1], rhs_at_, 'n', n_ % tile_.bn == 0, k_fits, &b_by_k);
    const auto each = [&](int64_t side) {
      return (side * tile_.bk + tile_.threads() - 1) / tile_.threads();
    };
    writer_.line("");
    writer_.line(fmt::format("{}(*const a_tile)[BM + 4] = reinterpret_cast<{}(*)[BM + 4]>(memory);",
                             sum_, sum_));
    writer_.line(fmt::format(
        "{}(*const b_tile)[BN + 4] = reinterpret_cast<{}(*)[BN + 4]>(memory + BK * (BM + 4));",
        sum_, sum_));
    writer_.line("// The next tiles travel to registers while the present ones are multiplied.");
    writer_.line(fmt::format("{} a_next[{}], b_next[{}];", sum_, each(tile_.bm), each(tile_.bn)));
    writer_.line("const auto fetch = [&](int k0) {");
    writer_.lines(a);
    writer_.lines(b);
    writer_.line("};");
    writer_.line("const auto put = [&] {");
    writer_.lines(put_lines('m', a_by_k));
    writer_.lines(put_lines('n', b_by_k));
    writer_.line("};");
  }

  void write_main_loop() {
    writer_.line("");
    writer_.line("fetch(0);");
    writer_.line("#pragma unroll 1");
    writer_.line("for (int k0 = 0; k0 < K; k0 += BK) {");
    writer_.line("put();");
    writer_.line("__syncthreads();");
    if (k_ > tile_.bk) writer_.line("if (k0 + BK < K) fetch(k0 + BK);");
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

  /// The pointwise ops on one element of the product, and the stores.
  void write_element(const std::string& sum) {
    const std::string_view type = register_type(body_.type(dot_.result).dtype);
    writer_.open_branch();
    const std::string name = writer_.fresh(fmt::format("dot_{}", dot_.result.index));
    writer_.line(fmt::format("const {} {} = {}{};", type, name,
                             type == sum_ ? "" : fmt::format("({})", type), sum));
    writer_.define(dot_.result, result_at_, name);
    write_sinks(writer_, placed_);
    const std::vector<std::string> lines = writer_.close();
    std::string test;
    if (m_ % tile_.bm != 0) test = "m < M";
    if (n_ % tile_.bn != 0) test += std::string(test.empty() ? "" : " && ") + "n < N";
    if (test.empty()) {
      writer_.lines(lines);
    } else {
      writer_.block(fmt::format("if ({})", test), lines);
    }
  }

  void write_results() {
    writer_.line("");
    if (tile_.slices == 1) {
      writer_.line("#pragma unroll");
      writer_.line("for (int i = 0; i < TM; ++i) {");
      writer_.line("#pragma unroll");
      writer_.line("for (int j = 0; j < TN; ++j) {");
      writer_.line("const int m = m0 + y * TM + i;");
      writer_.line("const int n = n0 + x * TN + j;");
      write_element("sum[i][j]");
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
    writer_.line("__syncthreads();");
    writer_.line("for (int e = thread; e < BM * BN; e += THREADS) {");
    writer_.line("const int m = m0 + e / BN;");
    writer_.line("const int n = n0 + e % BN;");
    writer_.line(fmt::format("{} total = 0;", sum_));
    writer_.line("#pragma unroll");
    writer_.line("for (int s = 0; s < SLICES; ++s) total += partial[s][e];");
    write_element("total");
    writer_.line("}");
  }

  const ir::Graph& body_;
  const Signature& signature_;
  const ir::Op& dot_;
  IndexPool pool_;
  ExprWriter writer_;
  int64_t batch_ = 1, m_ = 0, n_ = 0, k_ = 0;
  std::string_view sum_;
  DotTile tile_{};
  At lhs_at_, rhs_at_, result_at_;
  std::vector<PlacedSink> placed_;
};

}  // namespace

Emitted dot_emit(const ir::Graph& body, std::string_view symbol, const Target& target) {
  const Signature signature(body);
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const std::vector<bool> needed = needed_by(body, sinks);
  const ir::Op* dot = nullptr;
  for (const ir::Op& op : body.ops()) {
    if (op.kind == OpKind::dot) {
      if (dot) throw Refusal{"it has more than one matrix product"};
      dot = &op;
    }
    if (op.kind == OpKind::reduce && needed[op.result.index]) {
      throw Refusal{"it reduces an axis, which is the row family's"};
    }
  }
  if (!dot) throw Refusal{"it has no matrix product"};
  if (sinks.empty()) return empty_kernel(body, signature, symbol);
  return DotWriter(body, signature, *dot, sinks, target).emit(symbol);
}

std::string dot_refuses(const ir::Graph& body) {
  try {
    dot_emit(body, "kernel", Target{});
    return {};
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace braid::kernels
