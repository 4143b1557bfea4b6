#include "passes/kernels/dot_mma.hpp"

#include <fmt/format.h>

#include <optional>

namespace braid::kernels {
namespace {

class MmaWriter : DotFrame {
 public:
  MmaWriter(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
            const std::vector<Sink>& sinks, const std::function<MmaTile(const MmaProblem&)>& choose)
      : DotFrame(body, signature, dot, sinks),
        problem_{product_, {}, {}},
        type_(problem_.element()),
        a_(side_of('m')),
        b_(side_of('n')) {
    problem_.product.batch *= signature.parts;
    problem_.a = a_.how;
    problem_.b = b_.how;
    tile_ = choose(problem_);
    chunks_ = divide_up(product_.k, tile_.bk);
    ahead_ = chunks_ <= tile_.stages ? chunks_ : tile_.stages - 1;
    a_.extent = tile_.bm();
    b_.extent = tile_.bn();
    for (Side* s : {&a_, &b_}) s->stride = row_stride(problem_, s->how, s->extent, tile_.bk);
  }

  Emitted emit(std::string_view symbol) {
    write_places();
    write_fetches();
    writer_.lines(multiply_lines(problem_, tile_));
    write_first_chunks();
    choose_results();
    write_main_loop();
    write_results();
    return finish(symbol, tile_.bm(), tile_.bn(), tile_.threads(), shared_bytes(problem_, tile_));
  }

 private:
  /// One operand: where it comes from and how it lies in shared memory.
  struct Side {
    char outer;
    MmaOperand how;
    ExprWriter::Load pack{};  // if async: the first element of 16 bytes
    Element element{};        // else
    bool early = false;       // the first chunks are on their way before the kernel waits
    int64_t extent = 0;       // of the block's tile beside k
    int64_t stride = 0;       // between its rows in shared memory
    char name() const { return name_of_side(outer); }
  };

  Side side_of(char outer) {
    for (const bool along_k : {true, false}) {
      const auto pack = packs(outer, along_k);
      if (!pack) continue;
      const bool early = signature_.waits && signature_.args[pack->arg].fixed;
      return {outer, {along_k, true}, *pack, {}, early};
    }
    Element one = element(outer, [&](const std::string& x) {
      return product_.tf32 ? x : store_text(product_.operands, x) + ".bits";
    });
    return {outer, {one.k_fastest, false}, {}, std::move(one)};
  }

  /// By variables such as `k_vector` and `m`: where 16 aligned bytes begin that hold consecutive
  /// elements of the operand along that axis, if all of it lies so.
  std::optional<ExprWriter::Load> packs(char outer, bool along_k) {
    const int64_t vector = problem_.vector();
    const int64_t along = along_k ? product_.k : extent(outer);
    if (along % vector != 0) return std::nullopt;
    const Index lane = pool_.variable("within_vector", vector);
    const Index packed = pool_.add(
        pool_.mul(pool_.variable(fmt::format("{}_vector", along_k ? 'k' : outer), along / vector),
                  vector),
        lane);
    const Index at_outer =
        along_k ? pool_.variable(std::string_view(&outer, 1), extent(outer)) : packed;
    const Index at_k = along_k ? packed : pool_.variable("k", product_.k);
    auto load = writer_.in_memory(operand(outer), operand_at(outer, at_outer, at_k));
    Index vector_at;
    if (!load || !split_pack(pool_, load->linear, lane, vector, &vector_at)) return std::nullopt;
    load->linear = pool_.mul(vector_at, vector);
    return load;
  }

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
    const auto part = [&](std::string_view name, int64_t below, int64_t count,
                          std::string_view each) {
      if (count == 1) return writer_.line(fmt::format("constexpr int {} = 0;", name));
      writer_.line(fmt::format("const int {} = warp / {} % {}{};", name, below, count, each));
    };
    part("row", 1, t.row_warps(), " * ROWS");
    part("column", t.row_warps(), t.column_warps(), " * COLUMNS");
    part("slice", t.row_warps() * t.column_warps(), t.slices, "");
    writer_.line(
        fmt::format("{}* const memory = static_cast<{}*>(braid_shared_memory());", type_, type_));
    writer_.line("float sum[ROWS / 16][COLUMNS / 8][4] = {};");
  }

  /// The 16-byte copies of one operand's part of a chunk.
  std::vector<std::string> copies(const Side& s) const {
    const int64_t vector = problem_.vector();
    const int64_t length = s.how.k_fastest ? tile_.bk : s.extent;
    const int64_t rows = s.how.k_fastest ? s.extent : tile_.bk;
    const int64_t per_row = length / vector, count = rows * per_row;
    const std::string side = s.outer == 'm' ? "A" : "B";
    const char along = s.how.k_fastest ? 'k' : s.outer, across = s.how.k_fastest ? s.outer : 'k';
    std::vector<std::string> lines{
        "#pragma unroll",
        fmt::format("for (int i = 0; i < {}; ++i) {{", divide_up(count, tile_.threads())),
        "const int e = thread + i * THREADS;"};
    const bool partial = count % tile_.threads() != 0;
    if (partial) lines.push_back(fmt::format("if (e < {}) {{", count));
    lines.push_back(fmt::format("const int {} = {}0 + e / {};", across, across, per_row));
    lines.push_back(
        fmt::format("const int {}_vector = {}0 / {} + e % {};", along, along, vector, per_row));
    const std::string inside_along =
        within(along, length).empty()
            ? ""
            : fmt::format("{}_vector < {}", along,
                          (along == 'k' ? product_.k : extent(along)) / vector);
    const std::string inside = all_of({within(across, rows), inside_along});
    const std::string from =
        fmt::format("{} + {}", signature_.args[s.pack.arg].name,
                    inside.empty() ? pool_.text(s.pack.linear)
                                   : fmt::format("(inside ? {} : 0)", pool_.text(s.pack.linear)));
    if (!inside.empty()) lines.push_back(fmt::format("const bool inside = {};", inside));
    lines.push_back(
        fmt::format("braid_copy_async(to{} + e / {} * {}_STRIDE + e % {} * {}, {}, {});",
                    s.outer == 'm' ? "" : " + B_TILE", per_row, side, per_row, vector, from,
                    inside.empty() ? "true" : "inside"));
    if (partial) lines.push_back("}");
    lines.push_back("}");
    return lines;
  }

  void write_fetches() {
    writer_.line("");
    for (const Side* s : {&a_, &b_}) {
      if (s->how.async) write_lambda(fmt::format("fetch_{}", s->name()), "int k0, ", copies(*s));
    }
    if (a_.early || b_.early) {
      writer_.line("// What is fixed is on its way before the kernel waits for the rest.");
      writer_.line("#pragma unroll 1");
      writer_.line(fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", ahead_));
      write_calls("fetch", "chunk * BK, memory + chunk * STAGE",
                  [](const Side& s) { return s.early; });
      writer_.line("}");
    }
    if (signature_.waits) writer_.line(std::string(wait_line()));
    for (const Side* s : {&a_, &b_}) {
      if (s->how.async) continue;
      const Fetch f = fetch(s->element, s->extent, tile_.bk, tile_.threads(), type_);
      writer_.lines(s->element.before);
      writer_.line(fmt::format("{} {}_next[{}];", type_, s->name(), f.each));
      write_lambda(fmt::format("fetch_{}", s->name()), "int k0, ", f.lines);
      write_lambda(
          fmt::format("put_{}", s->name()), "",
          put(f,
              fmt::format("to[{}({}) * {}_STRIDE + {}]", s->outer == 'm' ? "" : "B_TILE + ",
                          s->how.k_fastest ? f.outer_of_e : f.k_of_e, s->outer == 'm' ? 'A' : 'B',
                          s->how.k_fastest ? f.k_of_e : f.outer_of_e)));
    }
  }

  void write_lambda(const std::string& name, std::string_view arguments,
                    const std::vector<std::string>& lines) {
    writer_.line(fmt::format("const auto {} = [&]({}{}* to) {{", name, arguments, type_));
    writer_.lines(lines);
    writer_.line("};");
  }

  /// "fetch_a(...); fetch_b(...);" for the operands that are `meant`.
  void write_calls(std::string_view what, const std::string& arguments,
                   const std::function<bool(const Side&)>& meant, const std::string& test = "") {
    std::string calls;
    for (const Side* s : {&a_, &b_}) {
      if (meant(*s))
        calls += fmt::format("{}{}_{}({})", calls.empty() ? "" : ", ", what, s->name(), arguments);
    }
    if (!calls.empty()) writer_.line(fmt::format("{}{};", test, calls));
  }
  static bool any(const Side&) { return true; }
  static bool through_registers(const Side& s) { return !s.how.async; }

  bool has_copies() const { return a_.how.async || b_.how.async; }

  void write_first_chunks() {
    writer_.line("");
    writer_.line("#pragma unroll 1");
    writer_.line(fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", ahead_));
    write_calls("fetch", "chunk * BK, memory + chunk * STAGE",
                [](const Side& s) { return !s.early; });
    if (has_copies()) writer_.line("braid_copies_end_group();");
    write_calls("put", "memory + chunk * STAGE", through_registers);
    writer_.line("}");
  }

  void write_main_loop() {
    const bool more = chunks_ > ahead_;  // chunks that are fetched while others are multiplied
    writer_.line("");
    if (more) writer_.line(fmt::format("int stage = 0, next = {};", ahead_));
    writer_.line("#pragma unroll 1");
    writer_.line(fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", chunks_));
    if (has_copies()) writer_.line(fmt::format("braid_copies_wait<{}>();", ahead_ - 1));
    writer_.line("__syncthreads();");
    const std::string test = fmt::format("if (chunk + {} < {}) ", ahead_, chunks_);
    if (more) {
      write_calls("fetch", fmt::format("(chunk + {}) * BK, memory + next * STAGE", ahead_), any,
                  test);
    }
    if (has_copies()) writer_.line("braid_copies_end_group();");
    writer_.line(fmt::format("multiply(memory + {} * STAGE);", more ? "stage" : "chunk"));
    if (more) {
      write_calls("put", "memory + next * STAGE", through_registers, test);
      writer_.line("stage = stage + 1 == STAGES ? 0 : stage + 1;");
      writer_.line("next = next + 1 == STAGES ? 0 : next + 1;");
    }
    writer_.line("}");
  }

  /// Which elements a thread stores. Where they are one pack, whatever else goes into them is
  /// loaded at once, while the product is on its way.
  void choose_results() {
    rows_ = std::min(tile_.bm(), product_.m);
    if (product_.n % kPack != 0) return;
    const int64_t per_row = tile_.bn() / kPack, packs = rows_ * per_row;
    pack_ = pack("totals", packs <= tile_.threads());
    inside_ = within('m', rows_).empty() ? "" : "m0 + r < M";
    if (product_.n % tile_.bn() != 0) {
      inside_ = all_of({inside_, fmt::format("n0 / {} + c < {}", kPack, product_.n / kPack)});
    }
    if (packs > tile_.threads()) return;
    early_ = true;
    inside_ = all_of({packs < tile_.threads() ? fmt::format("thread < {}", packs) : "", inside_});
    writer_.line("");
    writer_.line(fmt::format("const int r = thread / {}, c = thread % {};", per_row, per_row));
    if (inside_.empty()) {
      writer_.line("const int m = m0 + r;");
      writer_.line(fmt::format("const int n_pack = n0 / {} + c;", kPack));
    } else {
      writer_.line(fmt::format("const bool mine = {};", inside_));
      writer_.line("const int m = mine ? m0 + r : 0;");
      writer_.line(fmt::format("const int n_pack = mine ? n0 / {} + c : 0;", kPack));
      inside_ = "mine";
    }
    writer_.lines(pack_.before);
  }

  /// By way of shared memory, where the slices' sums meet and rows of the result lie whole.
  void write_results() {
    writer_.line("");
    writer_.line("__syncthreads();");
    writer_.line(
        "float(*const partial)[BM][BN + 4] = "
        "reinterpret_cast<float(*)[BM][BN + 4]>(memory);");
    writer_.line("#pragma unroll");
    writer_.line("for (int i = 0; i < ROWS / 16; ++i) {");
    writer_.line("#pragma unroll");
    writer_.line("for (int j = 0; j < COLUMNS / 8; ++j) {");
    writer_.line("#pragma unroll");
    writer_.line("for (int e = 0; e < 4; ++e) {");
    writer_.line("const int of_row = row + i * 16 + lane / 4 + e / 2 * 8;");
    writer_.line("const int of_column = column + j * 8 + lane % 4 * 2 + e % 2;");
    writer_.line(fmt::format("partial[slice]{} = sum[i][j][e];",
                             tile_.swapped ? "[of_column][of_row]" : "[of_row][of_column]"));
    writer_.line("}");
    writer_.line("}");
    writer_.line("}");
    writer_.line("__syncthreads();");
    if (product_.n % kPack != 0) return write_elements();
    if (early_) {
      if (!inside_.empty()) writer_.line(fmt::format("if ({}) {{", inside_));
      write_totals();
      writer_.lines(pack_.after);
      if (!inside_.empty()) writer_.line("}");
      return;
    }
    const int64_t per_row = tile_.bn() / kPack;
    writer_.line(fmt::format("for (int e = thread; e < {}; e += THREADS) {{", rows_ * per_row));
    writer_.line(fmt::format("const int r = e / {}, c = e % {};", per_row, per_row));
    if (!inside_.empty()) writer_.line(fmt::format("if ({}) {{", inside_));
    writer_.line("const int m = m0 + r;");
    writer_.line(fmt::format("const int n_pack = n0 / {} + c;", kPack));
    writer_.lines(pack_.before);
    write_totals();
    writer_.lines(pack_.after);
    if (!inside_.empty()) writer_.line("}");
    writer_.line("}");
  }

  /// The sums of the pack at row `r`, pack `c` of the block's tile.
  void write_totals() {
    writer_.line(fmt::format("auto totals = braid_load_pack<{}>(&partial[0][r][0], c);", kPack));
    if (tile_.slices == 1) return;
    writer_.line("#pragma unroll");
    writer_.line("for (int s = 1; s < SLICES; ++s) {");
    writer_.line(
        fmt::format("const auto more = braid_load_pack<{}>(&partial[s][r][0], c);", kPack));
    writer_.line("#pragma unroll");
    writer_.line(fmt::format("for (int i = 0; i < {}; ++i) totals.at[i] += more.at[i];", kPack));
    writer_.line("}");
  }

  void write_elements() {
    writer_.line(fmt::format("for (int e = thread; e < {} * BN; e += THREADS) {{", rows_));
    writer_.line("const int m = m0 + e / BN;");
    writer_.line("const int n = n0 + e % BN;");
    writer_.line("float total = partial[0][e / BN][e % BN];");
    if (tile_.slices > 1) {
      writer_.line("#pragma unroll");
      writer_.line("for (int s = 1; s < SLICES; ++s) total += partial[s][e / BN][e % BN];");
    }
    write_element("total", "float", rows_, tile_.bn());
    writer_.line("}");
  }

  MmaProblem problem_;
  std::string_view type_;  // of an element in shared memory
  Side a_, b_;
  MmaTile tile_{};
  int64_t chunks_ = 0;
  int64_t ahead_ = 0;  // chunks on their way before the first is multiplied
  int64_t rows_ = 0;   // of the result in a block
  PackedSinks pack_;
  std::string inside_;  // the test of a pack
  bool early_ = false;  // pack_.before stands before the main loop
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
