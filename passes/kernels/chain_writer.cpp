#include "passes/kernels/chain_writer.hpp"

#include <fmt/format.h>

namespace braid::kernels {

using ir::OpKind;

ChainWriter::ChainWriter(const ir::Graph& body, const Signature& signature, ChainPlan& plan)
    : body_(body),
      signature_(signature),
      plan_(plan),
      pool_(plan.pool()),
      writer_(body, signature, pool_),
      stored_(plan.extras.size(), false) {
  writer_.set_kept([this](ir::ValueId v, const At& at) { return kept(v, at); });
}

Emitted ChainWriter::emit(std::string_view symbol) {
  write_places();
  writer_.open_branch();
  write_copies(true);
  const Lines fixed = writer_.close();
  writer_.open_branch();
  write_copies(false);
  const Lines others = writer_.close();
  // In the end they stand in front of the stages, whose text says what else is to be loaded there.
  writer_.open_branch();
  prepare_results();
  const Lines beside = writer_.close();
  writer_.open_branch();
  for (size_t i = 0; i < plan_.stages.size();) {
    size_t end = i + 1;
    while (end < plan_.stages.size() && plan_.stages[end].follows) ++end;
    write_run(i, end);
    i = end;
  }
  const Lines stages = writer_.close();
  writer_.open_branch();
  write_results();
  write_extras();
  const Lines results = writer_.close();

  check_in_place(writer_, plan_.results);
  Lines all = writer_.finish();
  const auto append = [&](const Lines& more) { all.insert(all.end(), more.begin(), more.end()); };
  append(fixed);
  append(loads_[0]);
  if (signature_.waits) all.emplace_back(wait_line());
  append(others);
  append(loads_[1]);
  append(beside);
  append(stages);
  append(results);
  Emitted e{kernel_text(body_, signature_, symbol, fmt::format("{}, 1", ChainPlan::kThreads), all,
                        plan_.tile().split),
            launch_of(signature_, plan_.blocks(), static_cast<uint32_t>(ChainPlan::kThreads))};
  e.launch.shared_bytes = static_cast<uint32_t>(plan_.shared_bytes);
  return e;
}

/// The block has it in shared memory.
std::optional<std::string> ChainWriter::kept(ir::ValueId v, const At& at) {
  if (walked_) meet(v, at);
  const OpKind kind = body_.def(v).kind;
  if (kind != OpKind::dot && kind != OpKind::reduce) return {};
  const ChainStage* s = plan_.stage_of(v);
  ensure(s != nullptr, "a chain reads a result of no stage");
  At local;
  for (size_t d = 0; d < at.size(); ++d) {
    local.push_back(pool_.add(at[d], pool_.mul(s->box.base[d], -1)));
  }
  const std::string name =
      writer_.fresh(fmt::format("{}_{}", s->is_dot ? "dot" : "reduced", v.index));
  const std::string_view type = register_type(body_.type(v).dtype);
  if (!s->is_dot) {
    ensure(s->stored, "a chain reads what it has not stored");
    const Index linear = linearize(pool_, local, s->box.extents);
    writer_.line(fmt::format("const {} {} = {}[{}];", type, name, plan_.name("kept", *s),
                             pool_.text(linear)));
    return name;
  }
  const int64_t split = plan_.tile().split;
  if (plan_.is_last(*s) && split > 1) {
    // A thread's own pack, as every block of the cluster has sent it.
    const int64_t share = plan_.tile().packs() / split;
    writer_.line(
        fmt::format("float {} = shares[(own - rank * {}) * 4 + lane_of_pack];", name, share));
    for (int64_t r = 1; r < split; ++r) {
      writer_.line(fmt::format("{} += shares[(own - rank * {} + {}) * 4 + lane_of_pack];", name,
                               share, r * share));
    }
    return name;
  }
  const Index linear = pool_.add(pool_.mul(local[local.size() - 2], s->pitch), local.back());
  const std::string element = fmt::format("{}[{}", plan_.name("kept", *s), pool_.text(linear));
  if (!plan_.is_last(*s) || s->slices == 1) {
    writer_.line(fmt::format("const float {} = {}];", name, element));
    return name;
  }
  writer_.line(fmt::format("float {} = {}];", name, element));
  for (int64_t i = 1; i < s->slices; ++i) {
    writer_.line(fmt::format("{} += {} + {}];", name, element, i * s->plane));
  }
  return name;
}

/// The head of what the blocks of the first columns alone do.
std::string ChainWriter::first_columns() const {
  const std::string rank = plan_.tile().split > 1 ? "rank == 0" : "";
  const std::string test = all_of({plan_.column_tiles() > 1 ? "n_tile == 0" : "", rank});
  return test.empty() ? "" : fmt::format("if ({})", test);
}

/// An earlier result that a walk computes on its way can be stored there.
void ChainWriter::meet(ir::ValueId v, const At& at) {
  for (size_t x = 0; x < plan_.extras.size(); ++x) {
    const ChainPlan::Extra& extra = plan_.extras[x];
    if (extra.sink.value != v || stored_[x]) continue;
    // At the thread's own element, and all of them.
    const RowLayout& walk = *walked_->walk;
    if (extra.box.numel() != walk.rows * walk.columns || !writer_.directly_in_loop()) continue;
    At local;
    for (size_t d = 0; d < at.size(); ++d) {
      local.push_back(pool_.add(at[d], pool_.mul(extra.box.base[d], -1)));
    }
    const Index own = pool_.add(pool_.mul(pool_.variable(row(), walk.rows), walk.columns),
                                pool_.variable(column(), walk.columns));
    if (linearize(pool_, local, extra.box.extents) != own) continue;
    stored_[x] = true;
    met_.push_back({extra.sink, at});
  }
}

void ChainWriter::write_places() {
  writer_.line(fmt::format("constexpr int THREADS = {};", ChainPlan::kThreads));
  writer_.line("const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;");
  const int64_t columns = plan_.column_tiles(), rows = plan_.row_tiles();
  const int64_t split = plan_.tile().split;
  if (split > 1) {
    writer_.line(fmt::format("const int rank = blockIdx.x % {};  // in the cluster", split));
    writer_.line("braid_cluster_arrive();");
  }
  const std::string block = split > 1 ? fmt::format("blockIdx.x / {}", split) : "blockIdx.x";
  if (columns > 1) writer_.line(fmt::format("const int n_tile = {} % {};", block, columns));
  if (rows > 1) writer_.line(fmt::format("const int m_tile = {} / {} % {};", block, columns, rows));
  if (plan_.batch() > 1)
    writer_.line(fmt::format("const int batch = {} / {};", block, columns * rows));
  writer_.line("char* const memory = static_cast<char*>(braid_shared_memory());");
  if (split > 1) {
    writer_.line(fmt::format("float* const shares = reinterpret_cast<float*>(memory + {});",
                             plan_.shares_offset));
  }
  for (const ChainStage& s : plan_.stages) {
    if (s.is_dot) {
      for (const ChainOperand* x : {&s.a, &s.b}) {
        if (x->streamed) continue;
        const std::string_view type = storage_type(body_.type(x->value).dtype);
        writer_.line(fmt::format("{}* const {} = reinterpret_cast<{}*>(memory + {});", type,
                                 tile_name(s, *x), type, x->offset));
      }
    }
    if (!s.is_dot && !s.stored) continue;
    const std::string_view type =
        s.is_dot ? "float" : register_type(body_.type(body_.op(s.op).result).dtype);
    writer_.line(fmt::format("{}* const {} = reinterpret_cast<{}*>(memory + {});", type,
                             plan_.name("kept", s), type, s.offset));
  }
}

std::string ChainWriter::tile_name(const ChainStage& s, const ChainOperand& x) const {
  return plan_.name(x.outer == 'm' ? "a" : "b", s);
}

/// All operands that lie in memory are on their way at once.
void ChainWriter::write_copies(bool fixed) {
  for (const ChainStage& s : plan_.stages) {
    if (!s.is_dot) continue;
    for (const ChainOperand* x : {&s.a, &s.b}) {
      if (!x->copied || x->fixed != fixed) continue;
      if (x->streamed) {
        write_stream(s);
      } else {
        write_copy(s, *x);
      }
    }
  }
}

void ChainWriter::write_copy(const ChainStage& s, const ChainOperand& x) {
  const int64_t vector = 16 / x.element_bytes;
  const int64_t along = x.k_fastest ? s.k : x.side, across = x.k_fastest ? x.side : s.k;
  const int64_t per_row = along / vector, count = across * per_row;
  const std::string outer = fmt::format("{}_{}", x.outer, s.number);
  const std::string k = fmt::format("k_{}", s.number);
  const std::string across_name = x.k_fastest ? outer : k;
  const std::string along_name = (x.k_fastest ? k : outer) + "_vector";
  writer_.line("#pragma unroll 8");
  writer_.line(fmt::format("for (int e = thread; e < {}; e += THREADS) {{", count));
  writer_.line(fmt::format("const int {} = e / {}, {} = e % {};", across_name, per_row, along_name,
                           per_row));
  writer_.line(fmt::format("braid_copy_async({} + {} * {} + {} * {}, {} + {}, true);",
                           tile_name(s, x), across_name, x.stride, along_name, vector,
                           signature_.args[x.copied->arg].name, pool_.text(x.copied->linear)));
  writer_.line("}");
  writer_.line("braid_copies_end_group();");
  copies_.push_back(&x);
}

void ChainWriter::prepare_results() {
  if (!plan_.packed) return;
  const ChainTile tile = plan_.tile();
  const int64_t per_row = tile.columns / kPack, packs = tile.rows * per_row;
  const auto places = [&](const std::string& e) {
    if (tile.rows > 1) writer_.line(fmt::format("const int i = {} / {};", e, per_row));
    if (per_row > 1) writer_.line(fmt::format("const int n_pack = {} % {};", e, per_row));
  };
  const Index lane = pool_.variable("lane_of_pack", kPack);
  if (!plan_.early) {
    writer_.open_branch();
    places("e");
    const PackedSinks text = packed_sinks(writer_, lane, plan_.results);
    writer_.lines(text.before);
    writer_.lines(text.after);
    results_ = writer_.close();
    return;
  }
  const int64_t share = packs / tile.split;
  const std::string e = share < ChainPlan::kThreads || tile.split > 1 ? "own" : "thread";
  if (e == "own") {
    writer_.line(fmt::format("const int own = {}(thread < {} ? thread : 0);",
                             tile.split > 1 ? fmt::format("rank * {} + ", share) : "", share));
  }
  places(e);
  const PackedSinks text = packed_sinks(writer_, lane, plan_.results, {}, true);
  writer_.lines(text.before);
  results_ = text.after;
}

void ChainWriter::write_results() {
  const ChainTile tile = plan_.tile();
  writer_.line("");
  if (plan_.packed) {
    const int64_t packs = tile.packs() / tile.split;
    if (tile.split > 1) write_shares();
    if (!plan_.early) {
      return writer_.block(fmt::format("for (int e = thread; e < {}; e += THREADS)", packs),
                           results_);
    }
    if (packs == ChainPlan::kThreads) return writer_.lines(results_);
    return writer_.block(fmt::format("if (thread < {})", packs), results_);
  }
  writer_.open_loop({pool_.variable("i", tile.rows), pool_.variable("j", tile.columns)});
  if (tile.rows > 1) writer_.line(fmt::format("const int i = e / {};", tile.columns));
  if (tile.columns > 1) writer_.line(fmt::format("const int j = e % {};", tile.columns));
  write_sinks(writer_, plan_.results);
  const std::vector<std::string> lines = writer_.close();
  writer_.block(fmt::format("for (int e = thread; e < {}; e += THREADS)", tile.rows * tile.columns),
                lines);
}

/// Every block of the cluster sends its sums to those that finish them.
void ChainWriter::write_shares() {
  const ChainTile tile = plan_.tile();
  const ChainStage& s = plan_.stages.back();
  const int64_t share = tile.packs() / tile.split, per_row = tile.columns / kPack;
  writer_.line("braid_cluster_wait();");
  writer_.line(fmt::format("for (int e = thread; e < {}; e += THREADS) {{", tile.packs()));
  writer_.line(fmt::format("const float* const at = {} + e / {} * {} + e % {} * 4;",
                           plan_.name("kept", s), per_row, s.pitch, per_row));
  writer_.line("auto totals = braid_load_pack<4>(at, 0);");
  if (s.slices > 1) {
    writer_.line("#pragma unroll");
    writer_.line(fmt::format("for (int s = 1; s < {}; ++s) {{", s.slices));
    writer_.line(fmt::format("const auto more = braid_load_pack<4>(at + s * {}, 0);", s.plane));
    writer_.line("#pragma unroll");
    writer_.line("for (int i = 0; i < 4; ++i) totals.at[i] += more.at[i];");
    writer_.line("}");
  }
  writer_.line(fmt::format("braid_cluster_send<{}>(shares, rank * {} + e % {}, e / {}, totals);",
                           tile.split, share, share, share));
  writer_.line("}");
  writer_.line(fmt::format("braid_cluster_meet(shares, {});", tile.packs() * kPack));
}

void ChainWriter::write_extras() {
  for (size_t x = 0; x < plan_.extras.size(); ++x) {
    if (stored_[x]) continue;
    const ChainPlan::Extra& extra = plan_.extras[x];
    const std::string e = fmt::format("e_{}", x);
    const Index at_e = pool_.variable(e, extra.box.numel());
    const At at = plan_.in_box(extra.box, delinearize(pool_, at_e, extra.box.extents));
    writer_.open_branch();
    writer_.open_loop({at_e});
    write_sinks(writer_, {{extra.sink, at}});
    const std::vector<std::string> lines = writer_.close();
    writer_.line("#pragma unroll 4");
    writer_.block(
        fmt::format("for (int {} = thread; {} < {}; {} += THREADS)", e, e, extra.box.numel(), e),
        lines);
    const std::vector<std::string> all = writer_.close();
    writer_.block(first_columns(), all);
  }
}

}  // namespace braid::kernels
