#include "passes/kernels/dot_pipeline.hpp"

#include <fmt/format.h>

namespace braid::kernels {
namespace {

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

}  // namespace

DotPipeline::Side DotPipeline::side_of(char outer, std::initializer_list<int64_t> vectors,
                                       const Converted& converted) {
  Side side{outer, {}, {}, {}, {}};
  for (const int64_t vector : vectors) {
    for (const bool along_k : {true, false}) {
      const auto load = packs(outer, along_k, vector);
      if (!load) continue;
      side.how = {along_k, true, vector};
      side.copied = *load;
      side.early = signature_.waits && signature_.args[load->arg].fixed;
      return side;
    }
  }
  set_element(side, converted);
  return side;
}

/// By variables such as `k_vector` and `m`: where so many consecutive elements of the operand along
/// that axis begin, aligned to all their bytes, if all of it lies so.
std::optional<ExprWriter::Load> DotPipeline::packs(char outer, bool along_k, int64_t vector) {
  const int64_t along = along_k ? product_.k : extent(outer);
  if (along % vector != 0) return std::nullopt;
  const Index lane = pool_.variable("within_vector", vector);
  const char axis = along_k ? 'k' : outer;
  const Index packed =
      vector == 1
          ? pool_.variable(std::string_view(&axis, 1), along)
          : pool_.add(
                pool_.mul(pool_.variable(fmt::format("{}_vector", axis), along / vector), vector),
                lane);
  const Index at_outer =
      along_k ? pool_.variable(std::string_view(&outer, 1), extent(outer)) : packed;
  const Index at_k = along_k ? packed : pool_.variable("k", product_.k);
  auto load = writer_.in_memory(operand(outer), operand_at(outer, at_outer, at_k));
  if (!load) return std::nullopt;
  if (vector == 1) {
    if (along > 1 && pool_.coefficient(load->linear, packed) != 1) return std::nullopt;
    return load;
  }
  Index vector_at;
  if (!split_pack(pool_, load->linear, lane, vector, &vector_at)) return std::nullopt;
  load->linear = pool_.mul(vector_at, vector);
  return load;
}

void DotPipeline::set_element(Side& side, const Converted& converted) {
  const Index k = pool_.variable("k", product_.k);
  const Index o = pool_.variable(std::string_view(&side.outer, 1), extent(side.outer));
  const size_t loads_before = writer_.loads().size();
  writer_.open_branch();
  writer_.open_loop({o, k});
  const std::string x = writer_.value(operand(side.outer), operand_at(side.outer, o, k));
  writer_.line(fmt::format("{}_next[i] = {};", side.name(), converted(x)));
  side.lines = writer_.close();
  side.before = writer_.close();
  // Neighbours in memory are neighbours along k, else along the other axis.
  side.how.k_fastest = side.outer == 'm';
  side.early = signature_.waits;
  for (size_t i = writer_.loads().size(); i-- > loads_before;) {
    side.early = side.early && signature_.args[writer_.loads()[i].arg].fixed;
    const Index linear = writer_.loads()[i].linear;
    if (pool_.coefficient(linear, k) == 1) side.how.k_fastest = true;
    if (pool_.coefficient(linear, o) == 1) side.how.k_fastest = false;
  }
}

void DotPipeline::set_chunks(Chunks chunks) {
  chunks_ = chunks;
  ahead_ = chunks.count <= chunks.stages ? chunks.count : chunks.stages - 1;
}

std::string DotPipeline::place(const std::string& chunk) const {
  return fmt::format("{}{} * {}", chunks_.first, chunk, chunks_.stride);
}

std::string DotPipeline::within_chunk(char axis, int64_t block) const {
  return within(axis, axis == 'k' ? chunks_.whole_k : block);
}

/// The copies of one operand's part of a chunk.
std::vector<std::string> DotPipeline::copies(const Side& s) const {
  const int64_t vector = s.how.vector;
  const int64_t length = s.how.k_fastest ? chunks_.bk : s.extent;
  const int64_t rows = s.how.k_fastest ? s.extent : chunks_.bk;
  const int64_t per_row = length / vector, count = rows * per_row;
  const std::string side = s.outer == 'm' ? "A" : "B";
  const char along = s.how.k_fastest ? 'k' : s.outer, across = s.how.k_fastest ? s.outer : 'k';
  // The addresses of many single words would take the registers of the sums.
  const int64_t each = divide_up(count, chunks_.threads);
  std::vector<std::string> lines{
      vector == 1 && each > 8 ? "#pragma unroll 8" : "#pragma unroll",
      fmt::format("for (int i = 0; i < {}; ++i) {{", each),
      fmt::format("const int e = {} + i * {};", chunks_.thread, chunks_.step)};
  const bool partial = count % chunks_.threads != 0;
  if (partial) lines.push_back(fmt::format("if (e < {}) {{", count));
  lines.push_back(fmt::format("const int {} = {}0 + e / {};", across, across, per_row));
  std::string inside_along = within_chunk(along, length);
  if (vector == 1) {
    lines.push_back(fmt::format("const int {} = {}0 + e % {};", along, along, per_row));
  } else {
    lines.push_back(
        fmt::format("const int {}_vector = {}0 / {} + e % {};", along, along, vector, per_row));
    if (!inside_along.empty()) {
      inside_along = fmt::format("{}_vector < {}", along,
                                 (along == 'k' ? product_.k : extent(along)) / vector);
    }
  }
  const std::string inside = all_of({within_chunk(across, rows), inside_along});
  const std::string from =
      fmt::format("{} + {}", signature_.args[s.copied.arg].name,
                  inside.empty() ? pool_.text(s.copied.linear)
                                 : fmt::format("(inside ? {} : 0)", pool_.text(s.copied.linear)));
  if (!inside.empty()) lines.push_back(fmt::format("const bool inside = {};", inside));
  lines.push_back(fmt::format("{}(to{} + e / {} * {}_STRIDE + e % {}{}, {}, {});",
                              vector == 1 ? "braid_copy_word_async" : "braid_copy_async",
                              s.outer == 'm' ? "" : " + B_TILE", per_row, side, per_row,
                              vector == 1 ? "" : fmt::format(" * {}", vector), from,
                              inside.empty() ? "true" : "inside"));
  if (partial) lines.push_back("}");
  lines.push_back("}");
  return lines;
}

/// How threads bring their part of an operand's chunk to registers, one by one.
struct DotPipeline::Fetch {
  int64_t each;                    // elements per thread
  bool partial;                    // the last elements of some threads lie beyond the tile
  std::string outer_of_e, k_of_e;  // where element `e` stands in the tile
};

DotPipeline::Fetch DotPipeline::fetch(const Side& s) const {
  const int64_t count = s.extent * chunks_.bk;
  // Neighbouring threads take neighbouring elements of memory.
  const std::string by = s.how.k_fastest ? "BK" : s.outer == 'm' ? "BM" : "BN";
  return {divide_up(count, chunks_.threads), count % chunks_.threads != 0,
          fmt::format("e {} {}", s.how.k_fastest ? '/' : '%', by),
          fmt::format("e {} {}", s.how.k_fastest ? '%' : '/', by)};
}

std::vector<std::string> DotPipeline::put(const Side& s, const Fetch& f) const {
  return {
      "#pragma unroll", fmt::format("for (int i = 0; i < {}; ++i) {{", f.each),
      fmt::format("const int e = {} + i * {};", chunks_.thread, chunks_.step),
      fmt::format("{}to[{}({}) * {}_STRIDE + {}] = {}_next[i];",
                  f.partial ? fmt::format("if (e < {} * BK) ", s.outer == 'm' ? "BM" : "BN") : "",
                  s.outer == 'm' ? "" : "B_TILE + ", s.how.k_fastest ? f.outer_of_e : f.k_of_e,
                  s.outer == 'm' ? 'A' : 'B', s.how.k_fastest ? f.k_of_e : f.outer_of_e, s.name()),
      "}"};
}

void DotPipeline::define_fetch(const Side& s) {
  const std::string name = fmt::format("fetch_{}", s.name());
  if (s.how.async) return write_lambda(name, "int k0, ", copies(s));
  const Fetch f = fetch(s);
  std::vector<std::string> lines{
      "#pragma unroll", fmt::format("for (int i = 0; i < {}; ++i) {{", f.each),
      fmt::format("const int e = {} + i * {};", chunks_.thread, chunks_.step),
      fmt::format("const int {} = {}0 + {};", s.outer, s.outer, f.outer_of_e),
      fmt::format("const int k = k0 + {};", f.k_of_e)};
  const std::string test =
      all_of({f.partial ? fmt::format("e < {} * BK", s.outer == 'm' ? "BM" : "BN") : "",
              within_chunk(s.outer, s.extent), within_chunk('k', chunks_.bk)});
  if (!test.empty()) {
    lines.push_back(fmt::format("{}_next[i] = ({})0;", s.name(), chunks_.type));
    lines.push_back(fmt::format("if ({}) {{", test));
  }
  append(lines, s.lines);
  if (!test.empty()) lines.push_back("}");
  lines.push_back("}");
  writer_.lines(s.before);
  writer_.line(fmt::format("{} {}_next[{}];", chunks_.type, s.name(), f.each));
  write_lambda(name, "int k0, ", lines);
  write_lambda(fmt::format("put_{}", s.name()), "", put(s, f));
}

void DotPipeline::write_lambda(const std::string& name, std::string_view arguments,
                               const std::vector<std::string>& lines) {
  writer_.line(fmt::format("const auto {} = [&]({}{}* to) {{", name, arguments, chunks_.type));
  writer_.lines(lines);
  writer_.line("};");
}

void DotPipeline::write_calls(std::string_view what, const std::string& arguments,
                              const std::function<bool(const Side&)>& meant,
                              const std::string& test) {
  std::string calls;
  for (const Side* s : {&a_, &b_}) {
    if (meant(*s)) {
      calls += fmt::format("{}{}_{}({})", calls.empty() ? "" : ", ", what, s->name(), arguments);
    }
  }
  if (!calls.empty()) writer_.line(fmt::format("{}{};", test, calls));
}

void DotPipeline::write_fetches() {
  writer_.line("");
  const auto define = [&](bool before_wait) {
    for (const Side* s : {&a_, &b_}) {
      if ((s->how.async || s->early) == before_wait) define_fetch(*s);
    }
  };
  define(true);
  if (a_.early || b_.early) {
    writer_.line("// What is fixed is on its way before the kernel waits for the rest.");
    writer_.line("#pragma unroll 1");
    writer_.line(fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", ahead_));
    write_calls("fetch", place("chunk") + ", memory + chunk * STAGE",
                [](const Side& s) { return s.early; });
    write_calls("put", "memory + chunk * STAGE",
                [](const Side& s) { return s.early && !s.how.async; });
    writer_.line("}");
  }
  if (signature_.waits) writer_.line(std::string(wait_line()));
  define(false);
}

void DotPipeline::write_first_chunks() {
  writer_.line("");
  writer_.line("#pragma unroll 1");
  writer_.line(fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", ahead_));
  write_calls("fetch", place("chunk") + ", memory + chunk * STAGE",
              [](const Side& s) { return !s.early; });
  if (has_copies()) writer_.line("braid_copies_end_group();");
  write_calls("put", "memory + chunk * STAGE",
              [](const Side& s) { return !s.early && !s.how.async; });
  writer_.line("}");
}

void DotPipeline::write_main_loop() {
  const auto all = [](const Side&) { return true; };
  const bool more = chunks_.count > ahead_;  // chunks fetched while others are multiplied
  writer_.line("");
  if (more) writer_.line(fmt::format("int stage = 0, next = {};", ahead_));
  writer_.line("#pragma unroll 1");
  writer_.line(fmt::format("for (int chunk = 0; chunk < {}; ++chunk) {{", chunks_.count));
  if (has_copies()) writer_.line(fmt::format("braid_copies_wait<{}>();", ahead_ - 1));
  writer_.line(std::string(chunks_.meet));
  const std::string test = fmt::format("if (chunk + {} < {}) ", ahead_, chunks_.count);
  if (more) {
    write_calls("fetch", place(fmt::format("(chunk + {})", ahead_)) + ", memory + next * STAGE",
                all, test);
  }
  if (has_copies()) writer_.line("braid_copies_end_group();");
  writer_.line(fmt::format("multiply(memory + {} * STAGE);", more ? "stage" : "chunk"));
  if (more) {
    write_calls("put", "memory + next * STAGE", [](const Side& s) { return !s.how.async; }, test);
    writer_.line("stage = stage + 1 == STAGES ? 0 : stage + 1;");
    writer_.line("next = next + 1 == STAGES ? 0 : next + 1;");
  }
  writer_.line("}");
}

}  // namespace braid::kernels
