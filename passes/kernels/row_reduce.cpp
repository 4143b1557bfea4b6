// Kernels of the row family that reduce rows: passes over the columns of a row, then its results.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "passes/kernels/row.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;

/// How threads are laid over rows and columns.
struct Layout {
  enum class Kind {
    warp,   // a warp a row, `rows` rows a block
    block,  // a block a row
    slice,  // `rows` neighbouring rows a block, `slices` threads a row, for rows whose columns
            // lie apart in memory
  } kind;
  int64_t rows = 1;
  int64_t slices = 1;
  uint32_t threads = 128;
  int64_t step() const {  // columns between two of one thread
    return kind == Kind::warp ? 32 : kind == Kind::block ? int64_t{threads} : slices;
  }
};

int64_t floor_power(int64_t x) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}
int64_t ceil_power(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}

/// `in_all` are the rows of all parts.
Layout choose_layout(int64_t rows, int64_t in_all, int64_t cols, bool columns_adjacent,
                     const Target& target) {
  const int64_t max_threads = std::min<int64_t>(target.max_threads_per_block, 1024);
  Layout layout;
  if (!columns_adjacent) {
    layout.kind = Layout::Kind::slice;
    layout.rows = std::min<int64_t>(32, ceil_power(rows));
    // Enough slices to keep sums short and few rows fast, but not to idle when rows abound.
    const int64_t wanted = in_all >= target.sms * int64_t{1024} ? cols / 512 : cols / 4;
    layout.slices = std::clamp<int64_t>(floor_power(wanted), 1, max_threads / layout.rows);
    layout.threads = static_cast<uint32_t>(layout.rows * layout.slices);
    return layout;
  }
  if (cols <= 128 || (cols <= 1024 && in_all >= target.sms * int64_t{8})) {
    layout.kind = Layout::Kind::warp;
    layout.rows = 4;
    return layout;
  }
  layout.kind = Layout::Kind::block;
  layout.threads =
      static_cast<uint32_t>(std::clamp<int64_t>(ceil_power(cols / 4), 64, max_threads));
  return layout;
}

constexpr int64_t kMaxKept = 8;  // elements of a row per thread and argument

struct Reduce {
  const ir::Op* op;
  At operand_at, result_at;
  int pass = 0;
  std::string accumulator;
};

class ReductionWriter {
 public:
  ReductionWriter(const ir::Graph& body, const Signature& signature, const std::vector<Sink>& sinks,
                  const std::vector<ir::OpId>& reduces, const Target& target)
      : body_(body),
        signature_(signature),
        writer_(body, signature, pool_),
        elements_(body, pool_) {
    read_domain(reduces, target);
    place(sinks);
  }

  /// Every pass waits for loads, a thread's columns one after the other where they are many, and
  /// meets the row's other threads; the first wait is every kernel's.
  Work work() const {
    constexpr double kPassCycles = 170, kColumnCycles = 35;
    if (rows_ == 0) return {.blocks = 1, .threads = 32};
    const int64_t step = layout_.step();
    const auto columns = static_cast<double>((cols_ + step - 1) / step);
    const int passes = last_pass() + (full_.empty() ? 0 : 1);
    return {.blocks = (rows_ + layout_.rows - 1) / layout_.rows * signature_.parts,
            .threads = layout_.threads,
            .cycles = passes * kPassCycles + (passes + 1) * columns * kColumnCycles};
  }

  Emitted emit(std::string_view symbol) {
    if (rows_ == 0) return empty_kernel(body_, signature_, symbol);
    write_head();
    const int passes = last_pass() + 1;
    for (int p = 0; p < passes; ++p) write_pass(p, p + 1 < passes || !full_.empty());
    if (!full_.empty()) write_full_results();
    write_row_results();
    write_single(writer_, single_, "blockIdx.x == 0 && threadIdx.x == 0");
    std::vector<PlacedSink> all = full_;
    all.insert(all.end(), per_row_.begin(), per_row_.end());
    check_in_place(writer_, all);
    const LaunchShape launch =
        launch_of(signature_, (rows_ + layout_.rows - 1) / layout_.rows, layout_.threads);
    return {
        kernel_text(body_, signature_, symbol, std::to_string(layout_.threads), writer_.finish()),
        launch};
  }

 private:
  void read_domain(const std::vector<ir::OpId>& reduces, const Target& target) {
    for (const ir::OpId id : reduces) {
      const ir::Op& op = body_.op(id);
      const uint32_t axes = std::get<ir::ReduceAttr>(op.attrs).axes;
      const std::vector<int64_t> extents = body_.type(op.operands[0]).shape.extents();
      std::vector<int64_t> kept, folded;
      int64_t rows = 1, cols = 1;
      for (size_t i = 0; i < extents.size(); ++i) {
        const bool fold = (axes >> i & 1) != 0;
        (fold ? folded : kept).push_back(extents[i]);
        (fold ? cols : rows) *= extents[i];
      }
      if (reduces_.empty()) {
        rows_ = rows;
        cols_ = cols;
        row_ = pool_.variable("row", rows);
        col_ = pool_.variable("col", cols);
      } else if (rows != rows_ || cols != cols_) {
        throw Refusal{fmt::format("it reduces {} rows of {} elements and also {} rows of {}", rows_,
                                  cols_, rows, cols)};
      }
      Reduce r{&op, {}, delinearize(pool_, row_, kept), pass_of(op), {}};
      const At folded_at = delinearize(pool_, col_, folded);
      size_t next_kept = 0, next_folded = 0;
      for (size_t i = 0; i < extents.size(); ++i) {
        const bool fold = (axes >> i & 1) != 0;
        r.operand_at.push_back(fold ? folded_at[next_folded++] : r.result_at[next_kept++]);
      }
      if (reduces_.empty()) {
        const Index linear = linearize(pool_, r.operand_at, extents);
        layout_ = choose_layout(rows, rows * signature_.parts, cols,
                                linear == pool_.add(pool_.mul(row_, cols), col_), target);
      }
      elements_.set(op.operands[0], r.operand_at);
      elements_.set(op.result, r.result_at);
      reduces_.push_back(std::move(r));
    }
    elements_.propagate();
  }

  /// A reduction comes one pass after those that its operand is made of.
  int pass_of(const ir::Op& reduce) {
    int pass = 0;
    std::vector<bool> seen(body_.values().size(), false);
    std::vector<ir::ValueId> todo = reduce.operands;
    while (!todo.empty()) {
      const ir::ValueId v = todo.back();
      todo.pop_back();
      if (seen[v.index]) continue;
      seen[v.index] = true;
      for (const Reduce& r : reduces_) {
        if (r.op->result == v) pass = std::max(pass, r.pass + 1);
      }
      const ir::Op& op = body_.def(v);
      todo.insert(todo.end(), op.operands.begin(), op.operands.end());
    }
    return pass;
  }
  int last_pass() const {
    int last = 0;
    for (const Reduce& r : reduces_) last = std::max(last, r.pass);
    return last;
  }

  void place(std::vector<Sink> sinks) {
    single_ = take_single(body_, sinks, rows_);
    if (rows_ == 0 && !single_.empty()) {
      throw Refusal{"it reduces no rows, and sends or decides something besides"};
    }
    for (const Sink& s : sinks) {
      const TensorType& type = body_.type(s.value);
      const int64_t numel = type.shape.numel();
      if (numel != rows_ && numel != rows_ * cols_) {
        throw Refusal{
            fmt::format("its result {} has neither one element per row nor all {} of them",
                        to_string(type), rows_ * cols_)};
      }
      PlacedSink p{s, element_of(s.value)};
      const bool full =
          std::any_of(p.at.begin(), p.at.end(), [&](Index i) { return pool_.depends_on(i, col_); });
      ensure(numel == (full ? rows_ * cols_ : rows_), "a result is placed at the wrong elements");
      (full ? full_ : per_row_).push_back(std::move(p));
    }
  }

  /// Where the walk of the rows leads; else the same place of a domain of equal shape; else in
  /// row-major order.
  At element_of(ir::ValueId v) {
    if (const At* at = elements_.find(v)) return *at;
    const Shape& shape = body_.type(v).shape;
    for (const Reduce& r : reduces_) {
      if (shape == body_.type(r.op->operands[0]).shape) return r.operand_at;
    }
    const bool per_row = shape.numel() == rows_;
    const Index linear = per_row ? row_ : pool_.add(pool_.mul(row_, cols_), col_);
    return delinearize(pool_, linear, shape.extents());
  }

  void write_head() {
    const std::string_view type = index_type(rows_ + layout_.rows);
    const std::string cast = type == "int" ? "(int)" : "(long long)";
    const uint32_t threads = layout_.threads;
    switch (layout_.kind) {
      case Layout::Kind::warp:
        first_col_ = "lane";
        is_first_ = "lane == 0";
        writer_.line("const int lane = threadIdx.x % 32;  // one warp a row");
        writer_.line(fmt::format("const {} row = {}blockIdx.x * {} + (int)threadIdx.x / 32;", type,
                                 cast, layout_.rows));
        if (rows_ % layout_.rows != 0) writer_.line(fmt::format("if (row >= {}) return;", rows_));
        break;
      case Layout::Kind::block:
        first_col_ = "thread";
        is_first_ = "thread == 0";
        writer_.line("const int thread = threadIdx.x;  // one block a row");
        writer_.line(fmt::format("const {} row = blockIdx.x;", type));
        break;
      case Layout::Kind::slice:
        first_col_ = "slice";
        is_first_ = "slice == 0";
        writer_.line(fmt::format("const int slice = threadIdx.x / {};  // {} thread{} a row",
                                 layout_.rows, layout_.slices, layout_.slices == 1 ? "" : "s"));
        writer_.line(fmt::format("const {} place = {}blockIdx.x * {} + (int)threadIdx.x % {};",
                                 type, cast, layout_.rows, layout_.rows));
        if (rows_ % layout_.rows == 0) {
          writer_.line(fmt::format("const {} row = place;", type));
        } else {
          // Threads past the end repeat the last row, so that all reach the barriers.
          writer_.line(
              fmt::format("const {} row = place < {} ? place : {};", type, rows_, rows_ - 1));
          is_live_ = fmt::format("place < {}", rows_);
          is_first_ += " && " + is_live_;
        }
        if (layout_.slices > 1) {
          writer_.line(fmt::format("__shared__ long long scratch[{}];", threads));
        }
        break;
    }
  }

  /// The loop of one pass. Rows of few columns stay in registers from one pass to the next.
  template <class Body>
  void column_loop(bool more_passes, Body write_body) {
    const int64_t step = layout_.step();
    const int64_t items = (cols_ + step - 1) / step;
    const bool unrolled = items <= kMaxKept;
    // Stays in force behind the loop, where nothing is kept.
    writer_.set_memory([this, items, unrolled, more_passes](size_t arg, Index linear) {
      return memory(arg, linear, items, unrolled && more_passes);
    });
    writer_.open_loop({col_});
    write_body();
    std::vector<std::string> lines = writer_.close();
    if (!unrolled) {
      writer_.block(fmt::format("for ({} col = {}; col < {}; col += {})", index_type(cols_),
                                first_col_, cols_, step),
                    lines);
      return;
    }
    writer_.line("#pragma unroll");
    writer_.line(fmt::format("for (int k = 0; k < {}; ++k) {{", items));
    writer_.line(fmt::format("const int col = {} + k * {};", first_col_, step));
    if (cols_ % step == 0) {
      writer_.lines(lines);
    } else {
      writer_.block(fmt::format("if (col < {})", cols_), lines);
    }
    writer_.line("}");
  }

  std::string memory(size_t arg, Index linear, int64_t items, bool keep) {
    if (!writer_.directly_in_loop()) return writer_.element(arg, linear);
    const auto it = kept_.find({arg, linear});
    if (it != kept_.end()) return it->second + "[k]";
    if (!keep) return writer_.element(arg, linear);
    const Argument& a = signature_.args[arg];
    const std::string name = writer_.fresh("row_" + a.name);
    kept_[{arg, linear}] = name;
    writer_.line_before_loop(fmt::format("{} {}[{}];", storage_type(a.type.dtype), name, items));
    writer_.line(fmt::format("{}[k] = {};", name, writer_.element(arg, linear)));
    return name + "[k]";
  }

  void write_pass(int pass, bool more_passes) {
    for (Reduce& r : reduces_) {
      if (r.pass != pass) continue;
      const Fn fn = std::get<ir::ReduceAttr>(r.op->attrs).fn;
      const DType dtype = body_.type(r.op->result).dtype;
      const Identity identity = identity_of(fn, dtype);
      r.accumulator = writer_.fresh(fmt::format("{}_{}", info(fn).name, r.op->result.index));
      writer_.line(fmt::format("{} {} = {};", register_type(dtype), r.accumulator,
                               literal_text(dtype, identity.f, identity.i)));
    }
    if (cols_ > 0) {
      column_loop(more_passes, [&] {
        for (const Reduce& r : reduces_) {
          if (r.pass != pass) continue;
          const std::string x = writer_.value(r.op->operands[0], r.operand_at);
          const Fn fn = std::get<ir::ReduceAttr>(r.op->attrs).fn;
          const DType dtype = body_.type(r.op->result).dtype;
          writer_.line(
              fmt::format("{} = {};", r.accumulator, function_text(fn, dtype, {r.accumulator, x})));
        }
      });
    }
    for (const Reduce& r : reduces_) {
      if (r.pass != pass) continue;
      if (cols_ > 0) write_combine(r);
      writer_.define(r.op->result, r.result_at, r.accumulator);
    }
  }

  void write_combine(const Reduce& r) {
    const Fn fn = std::get<ir::ReduceAttr>(r.op->attrs).fn;
    const DType dtype = body_.type(r.op->result).dtype;
    const std::string lambda = combine_text(fn, dtype);
    const std::string& x = r.accumulator;
    switch (layout_.kind) {
      case Layout::Kind::warp:
        writer_.line(fmt::format("{} = braid_warp_reduce({}, {});", x, x, lambda));
        break;
      case Layout::Kind::block:
        writer_.line(
            fmt::format("{} = braid_block_reduce<{}>({}, {});", x, layout_.threads, x, lambda));
        break;
      case Layout::Kind::slice:
        if (layout_.slices == 1) break;
        writer_.line(fmt::format("{} = braid_slice_reduce<{}, {}>({}, scratch, {});", x,
                                 layout_.rows, layout_.slices, x, lambda));
        break;
    }
  }

  void write_full_results() {
    const auto loop = [&] { column_loop(false, [&] { write_sinks(writer_, full_); }); };
    if (is_live_.empty()) return loop();
    writer_.open_branch();
    loop();
    const std::vector<std::string> lines = writer_.close();
    writer_.block(fmt::format("if ({})", is_live_), lines);
  }

  void write_row_results() {
    if (per_row_.empty()) return;
    // Other threads of the row may still be reading what is overwritten here.
    if (signature_.writes_in_place && layout_.step() > 1) {
      writer_.line(layout_.kind == Layout::Kind::warp ? "__syncwarp();" : "__syncthreads();");
    }
    writer_.open_branch();
    write_sinks(writer_, per_row_);
    const std::vector<std::string> lines = writer_.close();
    writer_.block(fmt::format("if ({})", is_first_), lines);
  }

  const ir::Graph& body_;
  const Signature& signature_;
  IndexPool pool_;
  ExprWriter writer_;
  Elements elements_;
  std::vector<Reduce> reduces_;
  std::vector<PlacedSink> full_, per_row_;
  std::vector<Sink> single_;
  std::map<std::pair<size_t, Index>, std::string> kept_;
  int64_t rows_ = 0, cols_ = 0;
  Index row_, col_;
  Layout layout_{Layout::Kind::warp};
  std::string first_col_, is_first_, is_live_;
};

}  // namespace

Emitted emit_reduction(const ir::Graph& body, const Signature& signature,
                       const std::vector<Sink>& sinks, const std::vector<ir::OpId>& reduces,
                       std::string_view symbol, const Target& target) {
  return ReductionWriter(body, signature, sinks, reduces, target).emit(symbol);
}

bool keeps_rows(int64_t rows, int64_t cols, const Target& target) {
  const int64_t step = choose_layout(rows, rows, cols, true, target).step();
  return (cols + step - 1) / step <= kMaxKept;
}

Work reduction_work(const ir::Graph& body, const Signature& signature,
                    const std::vector<Sink>& sinks, const std::vector<ir::OpId>& reduces,
                    const Target& target) {
  return ReductionWriter(body, signature, sinks, reduces, target).work();
}

}  // namespace braid::kernels
