// Products of a chain: operands in shared memory, sums to shared memory.
#include <fmt/format.h>

#include "passes/kernels/chain_writer.hpp"

namespace braid::kernels {

void ChainWriter::write_dot(const ChainStage& s) {
  if (!s.b.copied) write_operand(s, s.b);
  write_arrival(s);
  if (s.b.streamed) {
    write_streamed(s);
  } else if (s.mma) {
    write_mma(s);
  } else if (s.b.k_fastest) {
    write_simt_along_k(s);
  } else {
    write_simt(s);
  }
}

/// All operands of the stage are there, whoever brought them.
void ChainWriter::write_arrival(const ChainStage& s) {
  size_t last = 0;
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i] == &s.a || copies_[i] == &s.b) last = i + 1;
  }
  if (last > arrived_) {
    writer_.line(fmt::format("braid_copies_wait<{}>();", copies_.size() - last));
    arrived_ = last;
  } else if (s.a.copied && s.b.copied) {
    return;  // and a barrier has come since
  }
  writer_.line("__syncthreads();");
}

void ChainWriter::write_operand(const ChainStage& s, const ChainOperand& x) {
  const std::string outer = fmt::format("{}_{}", x.outer, s.number);
  const std::string k = fmt::format("k_{}", s.number);
  const Index o = pool_.variable(outer, x.side), at_k = pool_.variable(k, s.k);
  const Index base = s.box.base[s.box.base.size() - (x.outer == 'm' ? 2 : 1)];
  const int64_t along = x.k_fastest ? s.k : x.side;
  writer_.open_loop({o, at_k});
  writer_.line(fmt::format("const int {} = e / {}, {} = e % {};", x.k_fastest ? outer : k, along,
                           x.k_fastest ? k : outer, along));
  const std::string value =
      writer_.value(x.value, plan_.operand_at(s, x, pool_.add(base, o), at_k));
  writer_.line(fmt::format("{}[{} * {} + {}] = {};", tile_name(s, x), x.k_fastest ? outer : k,
                           x.stride, x.k_fastest ? k : outer,
                           store_text(body_.type(x.value).dtype, value)));
  const std::vector<std::string> lines = writer_.close();
  writer_.line("#pragma unroll 4");
  writer_.block(fmt::format("for (int e = thread; e < {}; e += THREADS)", x.side * s.k), lines);
}

/// The loads of an operand that goes to registers.
void ChainWriter::write_stream(const ChainStage& s) {
  const int64_t groups = ChainPlan::kWarps / s.slices, halves = s.columns == 8 ? 1 : 2;
  const int64_t steps = s.k / 32 / s.slices;
  const std::string n = fmt::format("n_{}", s.number), k = fmt::format("k_{}_vector", s.number);
  const std::string words = plan_.name("words", s), group = plan_.name("group", s);
  const std::string slice = plan_.name("slice", s);
  writer_.line(fmt::format("// {} terms of {} elements of n for each warp, 16 bytes a load.",
                           steps * 32, halves * 8));
  writer_.line(
      fmt::format("const int {} = warp % {}, {} = warp / {};", group, groups, slice, groups));
  writer_.line(fmt::format("braid_pack<unsigned, 4> {}[{}][{}];", words, steps, halves));
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int step = 0; step < {}; ++step) {{", steps));
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int half = 0; half < {}; ++half) {{", halves));
  writer_.line(fmt::format("const int {} = {} * 16 + half * 8 + lane / 4;", n, group));
  writer_.line(fmt::format("const int {} = ({} * {} + step) * 4 + lane % 4;", k, slice, steps));
  writer_.line(fmt::format(
      "{}[step][half] = braid_load_pack_now<4>(reinterpret_cast<const unsigned*>({} + {}), 0);",
      words, signature_.args[s.b.copied->arg].name, pool_.text(s.b.copied->linear)));
  writer_.line("}");
  writer_.line("}");
}

/// Rows of the mma run along n. Its terms are not in order: both operands take a thread's eight as
/// the pairs of two mmas.
void ChainWriter::write_streamed(const ChainStage& s) {
  const int64_t halves = s.columns == 8 ? 1 : 2, steps = s.k / 32 / s.slices;
  const std::string words = plan_.name("words", s), group = plan_.name("group", s);
  const std::string slice = plan_.name("slice", s);
  const std::string second = halves == 2 ? "w1" : "none";
  const std::string_view type = name_of(product_of(body_, body_.op(s.op)).operands);
  writer_.line("float sum[2][4] = {};");
  const std::string m = s.rows == 1   ? "0"
                        : s.rows == 8 ? "lane / 4"
                                      : fmt::format("(lane / 4 < {} ? lane / 4 : 0)", s.rows);
  writer_.line(fmt::format("const {}* const from = {} + {} * {} + {} * {} + lane % 4 * 8;",
                           storage_type(dtype_of(s.a)), tile_name(s, s.a), m, s.a.stride, slice,
                           steps * 32));
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int step = 0; step < {}; ++step) {{", steps));
  writer_.line(
      "const braid_pack<unsigned, 4> x = *reinterpret_cast<const braid_pack<unsigned, 4>*>(from + "
      "step * 32);");
  writer_.line(fmt::format("const braid_pack<unsigned, 4> w0 = {}[step][0];", words));
  writer_.line(halves == 2 ? fmt::format("const braid_pack<unsigned, 4> w1 = {}[step][1];", words)
                           : "const braid_pack<unsigned, 4> none = {};");
  for (int i = 0; i < 2; ++i) {
    writer_.line(
        fmt::format("const unsigned rows_{}[4] = {{w0.at[{}], {}.at[{}], w0.at[{}], {}.at[{}]}};",
                    i, 2 * i, second, 2 * i, 2 * i + 1, second, 2 * i + 1));
    writer_.line(
        fmt::format("const unsigned columns_{}[2] = {{x.at[{}], x.at[{}]}};", i, 2 * i, 2 * i + 1));
    writer_.line(fmt::format("braid_mma_{}(sum[{}], rows_{}, columns_{});", type, i, i, i));
  }
  writer_.line("}");
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int e = 0; e < {}; ++e) {{", 2 * halves));
  writer_.line(fmt::format(
      "const int n = {} * 16 + e / 2 * 8 + lane / 4, m = lane % 4 * 2 + e % 2;", group));
  writer_.line(fmt::format("{}{}[{} * {} + m * {} + n] = sum[0][e] + sum[1][e];",
                           s.rows == 8 ? "" : fmt::format("if (m < {}) ", s.rows),
                           plan_.name("kept", s), slice, s.plane, s.pitch));
  writer_.line("}");
}

void ChainWriter::write_mma(const ChainStage& s) {
  const MmaTile& t = s.tile;
  const MmaProblem problem{
      product_of(body_, body_.op(s.op)), {s.a.k_fastest, true}, {s.b.k_fastest, true}};
  const int64_t used = t.threads() / 32;
  writer_.line(fmt::format("constexpr int BK = {}, ROWS = {}, COLUMNS = {}, SLICES = {};", s.k,
                           t.warp_rows, t.warp_columns, t.slices));
  writer_.line(fmt::format("constexpr int A_STRIDE = {}, B_STRIDE = {}, B_TILE = {};", s.a.stride,
                           s.b.stride, (s.b.offset - s.a.offset) / 2));
  if (used < ChainPlan::kWarps) writer_.line(fmt::format("if (warp < {}) {{", used));
  writer_.lines(place_lines(t));
  writer_.line("float sum[ROWS / 16][COLUMNS / 8][4] = {};");
  writer_.lines(multiply_lines(problem, t));
  writer_.line(
      fmt::format("multiply(reinterpret_cast<const unsigned short*>({}));", tile_name(s, s.a)));
  writer_.lines(sum_lines(fmt::format("{}[slice * {} + {} * {} + {}]", plan_.name("kept", s),
                                      s.plane, t.swapped ? "of_column" : "of_row", s.pitch,
                                      t.swapped ? "of_row" : "of_column")));
  if (used < ChainPlan::kWarps) writer_.line("}");
}

std::string ChainWriter::in_tile(const ChainStage& s, const ChainOperand& x, std::string_view outer,
                                 std::string_view k) const {
  return load_text(body_.type(x.value).dtype,
                   fmt::format("{}[({}) * {} + {}]", tile_name(s, x), x.k_fastest ? outer : k,
                               x.stride, x.k_fastest ? k : outer));
}

void ChainWriter::write_simt(const ChainStage& s) {
  const int64_t across = s.columns / s.thread_columns, down = s.rows / s.thread_rows;
  const int64_t parts = across * down * s.slices;
  writer_.line(fmt::format("constexpr int TM = {}, TN = {}, SLICES = {};  // a thread's part",
                           s.thread_rows, s.thread_columns, s.slices));
  writer_.line(fmt::format("for (int part = thread; part < {}; part += THREADS) {{", parts));
  writer_.line(fmt::format("const int x = part % {}, y = part / {} % {}, slice = part / {};",
                           across, across, down, across * down));
  writer_.line("float sum[TM][TN] = {};");
  writer_.line("#pragma unroll 8");
  writer_.line(fmt::format("for (int k = slice; k < {}; k += SLICES) {{", s.k));
  writer_.line("float a[TM], b[TN];");
  writer_.line("#pragma unroll");
  writer_.line(
      fmt::format("for (int i = 0; i < TM; ++i) a[i] = {};", in_tile(s, s.a, "y * TM + i", "k")));
  writer_.line("#pragma unroll");
  writer_.line(
      fmt::format("for (int j = 0; j < TN; ++j) b[j] = {};", in_tile(s, s.b, "x * TN + j", "k")));
  writer_.line("#pragma unroll");
  writer_.line("for (int i = 0; i < TM; ++i) {");
  writer_.line("#pragma unroll");
  writer_.line("for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];");
  writer_.line("}");
  writer_.line("}");
  writer_.line("#pragma unroll");
  writer_.line("for (int i = 0; i < TM; ++i) {");
  writer_.line("#pragma unroll");
  writer_.line(
      fmt::format("for (int j = 0; j < TN; ++j) {}[slice * {} + (y * TM + i) * {} + x * TN "
                  "+ j] = sum[i][j];",
                  plan_.name("kept", s), s.plane, s.pitch));
  writer_.line("}");
  writer_.line("}");
}

/// Where neighbours in shared memory are neighbours along k, eight threads share an element.
void ChainWriter::write_simt_along_k(const ChainStage& s) {
  const int64_t elements = s.rows * s.columns;
  writer_.line(
      "// Eight threads an element; the last of a warp may have none, and meet the others.");
  writer_.line(fmt::format("for (int first = thread / 32 * 4; first < {}; first += THREADS / 8) {{",
                           elements));
  writer_.line("const int element = first + lane / 8;");
  writer_.line(fmt::format("const int m = element / {}, n = element % {};", s.columns, s.columns));
  writer_.line("float sum = 0;");
  const bool whole = elements % 4 == 0;
  if (!whole) writer_.line(fmt::format("if (element < {}) {{", elements));
  writer_.line("#pragma unroll 8");
  writer_.line(fmt::format("for (int k = lane % 8; k < {}; k += 8) sum += {} * {};", s.k,
                           in_tile(s, s.a, "m", "k"), in_tile(s, s.b, "n", "k")));
  if (!whole) writer_.line("}");
  writer_.line("for (int d = 4; d > 0; d /= 2) sum += braid_shuffle_xor(sum, d);");
  writer_.line(fmt::format("if (lane % 8 == 0{}) {}[m * {} + n] = sum;",
                           whole ? "" : fmt::format(" && element < {}", elements),
                           plan_.name("kept", s), s.pitch));
  writer_.line("}");
}

/// The slices' sums of an earlier product become one, in order.
void ChainWriter::write_fold(const ChainStage& s) {
  writer_.line(fmt::format("for (int e = thread; e < {}; e += THREADS) {{", s.rows * s.columns));
  writer_.line(fmt::format("float* const at = {} + e / {} * {} + e % {};", plan_.name("kept", s),
                           s.columns, s.pitch, s.columns));
  writer_.line("float total = *at;");
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int s = 1; s < {}; ++s) total += at[s * {}];", s.slices, s.plane));
  writer_.line("*at = total;");
  writer_.line("}");
  writer_.line("__syncthreads();");
}

}  // namespace braid::kernels
