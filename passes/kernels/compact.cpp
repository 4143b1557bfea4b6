#include "passes/kernels/compact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "passes/kernels/expr.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;

constexpr int64_t kMaxTile = 4096;  // rows whose places a block finds at once
constexpr int64_t kMaxRows = int64_t{1} << 30;

/// How the rows are shared out: a block has `tiles` tiles of `tile` rows each.
struct Plan {
  const ir::Op* op = nullptr;
  int64_t rows = 0, inner = 0;  // elements of a row
  int64_t tile = 1, tiles = 1, blocks = 1;
  uint32_t threads = 256;

  int64_t numel() const { return rows * inner; }
  /// For indices of elements: loops may overshoot by a step.
  std::string_view index() const { return numel() <= kMaxRows ? "int" : "long long"; }
  /// Rows of a tile that a thread looks at.
  int64_t each() const { return std::max<int64_t>(tile / threads, 1); }
};

Plan plan_of(const ir::Graph& body, const Target& target, uint32_t parts) {
  Plan p;
  for (const ir::Op& op : body.ops()) {
    if (op.kind == OpKind::compact) p.op = &op;
  }
  if (!p.op) throw Refusal{"it has no compact"};
  const TensorType& type = body.type(p.op->operands[1]);
  p.rows = type.shape[0].value();
  p.inner = p.rows == 0 ? 0 : type.shape.numel() / p.rows;
  if (p.rows > kMaxRows) {
    throw TooLarge(fmt::format("it would choose among {} rows, {} is the most", p.rows, kMaxRows));
  }
  constexpr int64_t kBytesOfABlock = 32 * 1024;
  constexpr int64_t kManyRows = 1024;  // more threads have more loads on their way
  if (p.rows > kManyRows) p.threads = 512;
  const auto divide = [](int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); };
  const int64_t most = std::max<int64_t>(target.sms / parts, 1);
  const int64_t wanted = std::clamp(
      std::max(type.bytes() / kBytesOfABlock, divide(p.rows, kMaxTile)), int64_t{1}, most);
  const int64_t rows = std::max<int64_t>(divide(p.rows, wanted), 1);
  p.tile = std::min(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))), kMaxTile);
  p.tiles = std::max<int64_t>(divide(p.rows, p.tile * most), 1);
  p.blocks = std::max<int64_t>(divide(p.rows, p.tile * p.tiles), 1);
  return p;
}

class Writer {
 public:
  Writer(const ir::Graph& body, const Signature& signature, const Plan& plan)
      : body_(body), signature_(signature), p_(plan), w_(body, signature, pool_) {
    ir::ValueId mask = p_.op->operands[0];
    while (body.def(mask).kind == OpKind::view) {
      if (std::get<ir::ViewAttr>(body.def(mask).attrs).kind != ir::ViewKind::reshape) break;
      mask = body.def(mask).operands[0];
    }
    if (body.def(mask).kind != OpKind::input) throw Refusal{"its mask is not in memory"};
    mask_ = signature.args[signature.arg_of(mask)].name;
  }

  std::vector<std::string> run() {
    for (size_t i = signature_.leading; i < signature_.args.size(); ++i) {
      const Argument& a = signature_.args[i];
      (a.value == p_.op->result ? rows_to_ : counts_to_).push_back(a.name);
    }
    if (p_.rows == 0) {
      w_.line("if (threadIdx.x != 0) return;");
      for (const std::string& r : counts_to_) w_.line(r + "[0] = 0;");
      return w_.finish();
    }
    w_.line("const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;");
    if (p_.inner > 0) w_.line(fmt::format("__shared__ int chosen[{}];", p_.tile));
    w_.line(fmt::format("__shared__ int sums[{}];", p_.threads / 32));
    if (p_.blocks > 1) {
      count_mask();
      w_.line("int base = before;");
    } else {
      w_.line("int base = 0;");
    }
    tiles();
    if (p_.blocks == 1) w_.line("const int total = base;");
    zero_tail();
    w_.open_branch();
    for (const std::string& r : counts_to_) w_.line(r + "[0] = total;");
    const std::vector<std::string> lines = w_.close();
    w_.block("if (blockIdx.x == 0 && thread == 0)", lines);
    return w_.finish();
  }

 private:
  /// Chosen rows before the block's, and in all.
  void count_mask() {
    const int64_t words = p_.rows / 16, of_block = p_.tile * p_.tiles;
    w_.line(fmt::format("const int begin = (int)blockIdx.x * {};", of_block));
    w_.line("int before = 0, total = 0;");
    w_.line("#pragma unroll 4");
    w_.line(fmt::format("for (int i = thread; i < {}; i += {}) {{", words, p_.threads));
    w_.line(fmt::format("const auto word = braid_load_pack<4>((const unsigned*){}, i);", mask_));
    w_.line("int n = 0;");
    w_.line("#pragma unroll");
    w_.line("for (int k = 0; k < 4; ++k) {");
    // A bit for each byte that is not 0.
    w_.line(
        "n += __popc((((word.at[k] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word.at[k]) & 0x80808080u);");
    w_.line("}");
    w_.line("total += n;");
    w_.line("if (i < begin / 16) before += n;");
    w_.line("}");
    if (p_.rows % 16 != 0) {
      w_.line(fmt::format("if (thread < {}) total += braid_load({}[{} + thread]);", p_.rows % 16,
                          mask_, words * 16));
    }
    if (of_block % 16 != 0) {
      w_.line(fmt::format(
          "if (thread < begin % 16) before += braid_load({}[begin / 16 * 16 + thread]);", mask_));
    }
    for (const char* sum : {"before", "total"}) {
      w_.line(fmt::format("{} = braid_block_reduce<{}>({}, [](int a, int b) {{ return a + b; }});",
                          sum, p_.threads, sum));
    }
  }

  /// Finds the chosen rows of each tile and moves them.
  void tiles() {
    w_.open_branch();
    const bool many = p_.tiles > 1;
    w_.line(fmt::format("const int first = {} * {} + thread * {};",
                        many ? fmt::format("((int)blockIdx.x * {} + tile)", p_.tiles)
                             : std::string("(int)blockIdx.x"),
                        p_.tile, p_.each()));
    find();
    if (p_.inner > 0) {
      w_.line("__syncthreads();");
      move();
    }
    w_.line("base += found;");
    if (many) w_.line("__syncthreads();");
    const std::vector<std::string> lines = w_.close();
    if (many)
      return w_.block(fmt::format("for (int tile = 0; tile < {}; ++tile)", p_.tiles), lines);
    w_.lines(lines);
  }

  void find() {
    const int64_t each = p_.each();
    w_.line("unsigned flags = 0;");
    const std::string active = p_.tile < p_.threads ? fmt::format("thread < {} && ", p_.tile) : "";
    if (each == 1) {
      w_.line(
          fmt::format("if ({}first < {}) flags = braid_load({}[first]);", active, p_.rows, mask_));
    } else {
      w_.line(fmt::format("if (first + {} <= {}) {{", each, p_.rows));
      w_.line(
          fmt::format("const auto pack = braid_load_pack<{}>({}, first / {});", each, mask_, each));
      w_.line("#pragma unroll");
      w_.line(fmt::format("for (int k = 0; k < {}; ++k) {{", each));
      w_.line("flags |= (unsigned)braid_load(pack.at[k]) << k;");
      w_.line("}");
      w_.line("} else {");
      w_.line(fmt::format("for (int k = 0; first + k < {}; ++k) {{", p_.rows));
      w_.line(fmt::format("flags |= (unsigned)braid_load({}[first + k]) << k;", mask_));
      w_.line("}");
      w_.line("}");
    }
    w_.line("const int mine = __popc(flags);");
    w_.line("int upto = mine;");
    w_.line("#pragma unroll");
    w_.line("for (int d = 1; d < 32; d *= 2) {");
    w_.line("const int lower = __shfl_up_sync(0xffffffffu, upto, d);");
    w_.line("if (lane >= d) upto += lower;");
    w_.line("}");
    w_.line("if (lane == 31) sums[warp] = upto;");
    w_.line("__syncthreads();");
    w_.line("int at = upto - mine, found = 0;");
    w_.line("#pragma unroll");
    w_.line(fmt::format("for (int k = 0; k < {}; ++k) {{", p_.threads / 32));
    w_.line("if (k < warp) at += sums[k];");
    w_.line("found += sums[k];");
    w_.line("}");
    if (p_.inner == 0) return;
    w_.line(each == 1
                ? "if (flags) chosen[at] = first;"
                : "for (; flags; flags &= flags - 1) chosen[at++] = first + __ffs(flags) - 1;");
  }

  void move() {
    const std::string_view type = index_type(p_.tile * p_.inner);
    const Index row = pool_.variable("row", p_.rows), column = pool_.variable("column", p_.inner);
    w_.open_loop({row, column});
    const bool one = p_.inner == 1;
    w_.line(fmt::format("const int row = chosen[{}];",
                        one ? std::string("i") : fmt::format("i / {}", p_.inner)));
    if (!one) w_.line(fmt::format("const {} column = i % {};", index_type(p_.inner), p_.inner));
    const TensorType& rows = body_.type(p_.op->operands[1]);
    const std::vector<int64_t> extents = rows.shape.extents();
    At at{row};
    const At rest =
        delinearize(pool_, one ? pool_.constant(0) : column, std::span(extents).subspan(1));
    at.insert(at.end(), rest.begin(), rest.end());
    const std::string value = w_.value(p_.op->operands[1], at);
    for (const std::string& r : rows_to_) {
      w_.line(fmt::format("{}[({})base * {} + i] = {};", r, p_.index(), p_.inner,
                          store_text(rows.dtype, value)));
    }
    const std::vector<std::string> lines = w_.close();
    w_.line("#pragma unroll 4");
    w_.block(fmt::format("for ({} i = thread; i < ({})found * {}; i += {})", type, type, p_.inner,
                         p_.threads),
             lines);
  }

  /// The rows behind the chosen ones, shared among all blocks.
  void zero_tail() {
    if (p_.inner == 0) return;
    const std::string_view type = p_.index();
    const DType dtype = body_.type(p_.op->result).dtype;
    w_.open_branch();
    for (const std::string& r : rows_to_) {
      w_.line(fmt::format("{}[i] = {};", r, store_text(dtype, literal_text(dtype, 0, 0))));
    }
    const std::vector<std::string> lines = w_.close();
    w_.block(fmt::format("for ({} i = ({})total * {} + (int)blockIdx.x * {} + thread; i < {}; "
                         "i += {})",
                         type, type, p_.inner, p_.threads, p_.numel(), p_.blocks * p_.threads),
             lines);
  }

  const ir::Graph& body_;
  const Signature& signature_;
  const Plan& p_;
  IndexPool pool_;
  ExprWriter w_;
  std::string mask_;
  std::vector<std::string> rows_to_, counts_to_;
};

}  // namespace

Emitted compact_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                     const Use& use) {
  const Signature signature(body, use);
  const Plan plan = plan_of(body, target, use.parts);
  return {kernel_text(body, signature, symbol, std::to_string(plan.threads),
                      Writer(body, signature, plan).run()),
          launch_of(signature, plan.blocks, plan.threads)};
}

Work compact_work(const ir::Graph& body, const Target& target, uint32_t parts) {
  constexpr double kCyclesPerTile = 1200;    // from the mask's bytes to the rows' stores
  constexpr double kMaskBytesPerCycle = 48;  // of an SM, from L2
  constexpr double kCyclesToCount = 800;     // before a block's own rows
  const Plan p = plan_of(body, target, parts);
  Work work{.blocks = p.blocks * parts, .threads = p.threads};
  work.shared_bytes = (p.inner > 0 ? p.tile * 4 : 0) + p.threads / 8;
  work.cycles = kCyclesPerTile * static_cast<double>(p.tiles);
  if (p.blocks > 1) {
    work.cycles += kCyclesToCount + static_cast<double>(p.rows) / kMaskBytesPerCycle;
  }
  return work;
}

std::string compact_refuses(const ir::Graph& body) {
  try {
    compact_emit(body, "kernel", Target{}, {});
    return {};
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace braid::kernels
