// Rows of a chain: reductions of the same rows and the operand that is computed from them, in one
// walk. A thread has the same elements in every pass, so what it loads stays in registers, and the
// loads stand in front of all stages.
#include <fmt/format.h>

#include "passes/kernels/chain_writer.hpp"

namespace braid::kernels {
namespace {

constexpr int64_t kMostItems = 16, kMostTurns = 4, kMostRemembered = 32;

bool unrolls(const RowLayout& walk) { return walk.items() <= kMostItems; }
bool remembers(const RowLayout& walk) {
  return unrolls(walk) && walk.turns() <= kMostTurns &&
         walk.turns() * walk.items() <= kMostRemembered;
}

/// "const int row = ...;" of a turn, nothing for a single row; and the test that it exists.
std::string row_line(const RowLayout& walk, const std::string& row) {
  if (walk.rows == 1) return "";
  return fmt::format("const int {} = warp + turn * {};", row, ChainPlan::kWarps);
}
std::string row_test(const RowLayout& walk, const std::string& row) {
  if (walk.by_block) return "";
  if (walk.rows == 1) return "if (warp == 0) {";
  return walk.rows % ChainPlan::kWarps == 0 ? "" : fmt::format("if ({} < {}) {{", row, walk.rows);
}
std::string turn_loop(const RowLayout& walk) {
  return fmt::format("for (int turn = 0; turn < {}; ++turn) {{", walk.turns());
}
std::vector<std::string> column_head(const RowLayout& walk, const std::string& column) {
  const int64_t step = walk.by_block ? ChainPlan::kThreads : 32;
  const char* first = walk.by_block ? "thread" : "lane";
  if (!unrolls(walk)) {
    return {"#pragma unroll 8", fmt::format("for (int {} = {}; {} < {}; {} += {}) {{", column,
                                            first, column, walk.columns, column, step)};
  }
  std::vector<std::string> lines{
      "#pragma unroll", fmt::format("for (int item = 0; item < {}; ++item) {{", walk.items()),
      fmt::format("const int {} = {} + item * {};", column, first, step)};
  if (walk.columns % step != 0)
    lines.push_back(fmt::format("if ({} < {}) {{", column, walk.columns));
  return lines;
}
std::vector<std::string> column_end(const RowLayout& walk) {
  const int64_t step = walk.by_block ? ChainPlan::kThreads : 32;
  if (unrolls(walk) && walk.columns % step != 0) return {"}", "}"};
  return {"}"};
}

}  // namespace

void ChainWriter::write_run(size_t first, size_t end) {
  const ChainStage& last = plan_.stages[end - 1];
  run_ = &plan_.stages[first];
  run_end_ = end;
  remembered_.clear();
  writer_.line("");
  writer_.open_branch();
  if (run_->walk) {
    const RowLayout& walk = *run_->walk;
    writer_.set_memory([this](size_t arg, Index linear) { return remember(arg, linear); });
    // The results of a single row must not move in front of it.
    if (walk.rows == 1) {
      writer_.open_branch();
    } else {
      writer_.open_loop({pool_.variable(row(), walk.rows)});
    }
    write_turn(first, end);
    const Lines lines = writer_.close();
    writer_.set_memory({});
    const std::string test = row_test(walk, row());
    if (walk.rows > 1) {
      if (walk.turns() <= kMostTurns) writer_.line("#pragma unroll");
      writer_.line(turn_loop(walk));
      writer_.line(row_line(walk, row()));
    }
    if (!test.empty()) writer_.line(test);
    writer_.lines(lines);
    if (!test.empty()) writer_.line("}");
    if (walk.rows > 1) writer_.line("}");
  }
  if (last.is_dot) {
    if (end - first > 1 && !last.b.copied) writer_.line("__syncthreads();");
    write_dot(last);
  }
  writer_.block("", writer_.close());
  writer_.line("__syncthreads();");
  if (last.slices > 1 && end < plan_.stages.size()) write_fold(last);
  run_ = nullptr;
}

/// All of a row.
void ChainWriter::write_turn(size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    const ChainStage& s = plan_.stages[i];
    if (!s.is_dot) {
      write_pass(s);
      continue;
    }
    const Index base = s.box.base[s.box.base.size() - 2];
    const Index at_row = pool_.variable(row(), s.rows), at_k = pool_.variable(column(), s.k);
    writer_.open_loop({at_k});
    walked_ = &s;
    const std::string value =
        writer_.value(s.a.value, plan_.operand_at(s, s.a, pool_.add(base, at_row), at_k));
    walked_ = nullptr;
    writer_.line(fmt::format("{}[{} * {} + {}] = {};", tile_name(s, s.a), s.rows == 1 ? "0" : row(),
                             s.a.stride, column(), store_text(dtype_of(s.a), value)));
    if (!met_.empty()) {
      writer_.open_branch();
      write_sinks(writer_, met_);
      const Lines lines = writer_.close();
      writer_.block(first_columns(), lines);
      met_.clear();
    }
    write_walk(s, writer_.close());
  }
}

void ChainWriter::write_walk(const ChainStage& s, const Lines& body) {
  writer_.lines(column_head(*s.walk, column()));
  writer_.lines(body);
  writer_.lines(column_end(*s.walk));
}

void ChainWriter::write_pass(const ChainStage& s) {
  const ir::Op& op = body_.op(s.op);
  const Fn fn = std::get<ir::ReduceAttr>(op.attrs).fn;
  const DType dtype = body_.type(op.result).dtype;
  const Identity identity = identity_of(fn, dtype);
  const std::string_view type = register_type(dtype);
  const Index at_row = pool_.variable(row(), s.rows),
              at_column = pool_.variable(column(), s.columns);
  const std::string total = writer_.fresh(fmt::format("{}_{}", info(fn).name, s.number));
  writer_.line(
      fmt::format("{} {} = {};", type, total, literal_text(dtype, identity.f, identity.i)));
  writer_.open_loop({at_column});
  const std::string x = writer_.value(op.operands[0], plan_.reduced_at(s, at_row, at_column));
  writer_.line(fmt::format("{} = {};", total, function_text(fn, dtype, {total, x})));
  write_walk(s, writer_.close());
  const std::string combine = combine_text(fn, dtype);
  const bool by_block = s.walk->by_block;
  writer_.line(by_block
                   ? fmt::format("{} = braid_block_reduce<THREADS>({}, {});", total, total, combine)
                   : fmt::format("{} = braid_warp_reduce({}, {});", total, total, combine));
  if (s.stored) {
    writer_.line(fmt::format("if ({} == 0) {}[{}] = {};", by_block ? "thread" : "lane",
                             plan_.name("kept", s), s.rows == 1 ? "0" : row(), total));
  }
  writer_.define(op.result, plan_.in_box(s.box, delinearize(pool_, at_row, s.box.extents)), total);
}

/// An element of an argument in the walk: in a register that was filled in front of all stages.
std::string ChainWriter::remember(size_t arg, Index linear) {
  const RowLayout& walk = *run_->walk;
  const Index at_row = pool_.variable(row(), walk.rows);
  const Index at_column = pool_.variable(column(), walk.columns);
  std::vector<Index> walked = plan_.places();
  walked.push_back(at_row);
  walked.push_back(at_column);
  Index of_walk, beside;
  if (!remembers(walk) || !writer_.directly_in_loop() || !pool_.depends_on(linear, at_column) ||
      !pool_.separate(linear, walked, &of_walk, &beside) || beside != pool_.constant(0)) {
    return writer_.element(arg, linear);
  }
  const bool turns = walk.rows > 1 && walk.turns() > 1;
  std::string& name = remembered_[{arg, linear}];
  if (name.empty()) {
    const Argument& a = signature_.args[arg];
    name = writer_.fresh("row_" + a.name);
    Lines& lines = loads_[signature_.waits && a.fixed ? 0 : 1];
    lines.push_back(
        fmt::format("{} {}[{}];", storage_type(a.type.dtype), name, walk.turns() * walk.items()));
    if (walk.rows > 1) {
      lines.push_back("#pragma unroll");
      lines.push_back(turn_loop(walk));
      lines.push_back(row_line(walk, row()));
    }
    const std::string test = row_test(walk, row());
    if (!test.empty()) lines.push_back(test);
    for (const std::string& line : column_head(walk, column())) lines.push_back(line);
    lines.push_back(fmt::format("{}[{}item] = {};", name,
                                turns ? fmt::format("turn * {} + ", walk.items()) : "",
                                "braid_load_now(&" + writer_.element(arg, linear) + ")"));
    for (const std::string& line : column_end(walk)) lines.push_back(line);
    if (!test.empty()) lines.push_back("}");
    if (walk.rows > 1) lines.push_back("}");
  }
  return fmt::format("{}[{}item]", name, turns ? fmt::format("turn * {} + ", walk.items()) : "");
}

}  // namespace braid::kernels
