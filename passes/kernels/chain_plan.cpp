#include "passes/kernels/chain_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace braid::kernels {
namespace {

using ir::OpKind;

bool is_anchor(const ir::Op& op) { return op.kind == OpKind::dot || op.kind == OpKind::reduce; }

}  // namespace

int64_t Box::numel() const {
  int64_t n = 1;
  for (const int64_t e : extents) n *= e;
  return n;
}

RowLayout RowLayout::of(int64_t rows, int64_t columns) {
  return {rows == 1 && columns > 128, rows, columns};
}
int64_t RowLayout::turns() const { return by_block ? 1 : divide_up(rows, ChainPlan::kWarps); }
int64_t RowLayout::items() const { return divide_up(columns, by_block ? ChainPlan::kThreads : 32); }

ChainPlan::ChainPlan(const ir::Graph& body, const Signature& signature,
                     const std::vector<Sink>& sinks, ChainTile tile, bool may_stand_alone)
    : body_(body), signature_(signature), probe_(body, signature, pool_), tile_(tile) {
  probe_.set_prefix("probe_");
  probe_.only_ask();
  find_ops(sinks, may_stand_alone);
  probe_.set_kept([this](ir::ValueId v, const At& at) -> std::optional<std::string> {
    if (wanted_.contains(v)) record(v, at);
    if (!is_anchor(body_.def(v))) return {};
    record(v, at);
    off_place_ = off_place_ || (v == body_.op(root_).result && at != result_at());
    if (body_.def(v).kind == OpKind::reduce) asks_.push_back({asker_, v, at});
    if (packed && !std::any_of(at.begin(), at.end(), [&](Index i) {
          return pool_.depends_on(i, pool_.variable("lane_of_pack", kPack));
        })) {
      reads_ahead_ = false;
    }
    return "kept";
  });
  place_results(sinks);
  early = packed && reads_ahead_ && tile_.packs() <= kThreads * tile_.split;
  if (tile_.split > 1 && (!early || off_place_ || tile_.packs() % tile_.split != 0)) {
    throw Refusal{"its results are not shared out among the blocks of a cluster"};
  }
  for (size_t i = body.ops().size(); i-- > 0;) {
    const ir::Op& op = body.ops()[i];
    if (needed_[op.result.index] && is_anchor(op)) add_stage({static_cast<uint32_t>(i)});
  }
  std::reverse(stages.begin(), stages.end());
  // Nothing depends on the last product but results.
  const auto last = std::find_if(stages.begin(), stages.end(),
                                 [this](const ChainStage& s) { return is_last(s); });
  std::rotate(last, last + 1, stages.end());
  find_runs();
  check_extras();
  place_memory();
}

void ChainPlan::find_ops(const std::vector<Sink>& sinks, bool may_stand_alone) {
  for (const Sink& s : sinks) {
    if (!s.stores()) throw WholeRefusal{"it sends or decides something"};
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (sinks[i].arg == sinks[j].arg) throw WholeRefusal{"it writes a param twice"};
    }
  }
  needed_ = needed_by(body_, sinks);
  size_t anchors = 0;
  for (uint32_t i = 0; i < body_.ops().size(); ++i) {
    const ir::Op& op = body_.ops()[i];
    if (!needed_[op.result.index]) continue;
    // Other blocks may have written it by then.
    if (op.kind == OpKind::read) throw WholeRefusal{"it reads a param that it writes"};
    if (!is_anchor(op)) continue;
    ++anchors;
    if (op.kind == OpKind::dot) root_ = {i};
  }
  if (!root_.valid()) throw WholeRefusal{"it has no matrix product, which is the row family's"};
  if (anchors < 2 && !may_stand_alone)
    throw WholeRefusal{"its matrix product stands alone, which is the dot family's"};
  const ir::Op& root = body_.op(root_);
  std::vector<bool> behind(body_.values().size(), false);
  behind[root.result.index] = true;
  for (const ir::Op& op : body_.ops()) {
    for (const ir::ValueId v : op.operands) {
      if (!behind[v.index] || !needed_[op.result.index]) continue;
      if (is_anchor(op)) throw WholeRefusal{"it reduces what its last matrix product gives"};
      behind[op.result.index] = true;
    }
  }
  const Product p = product_of(body_, root);
  batch_ = p.batch;
  m_ = p.m;
  n_ = p.n;
  if (batch_ * m_ * n_ == 0 || m_ % tile_.rows != 0 || n_ % tile_.columns != 0) {
    throw Refusal{"its last matrix product is not made of such tiles"};
  }
  const Index batch = pool_.variable("batch", batch_);
  const Index m_tile = pool_.variable("m_tile", row_tiles());
  const Index n_tile = pool_.variable("n_tile", column_tiles());
  rank_ = pool_.variable("rank", tile_.split);
  places_ = {batch, m_tile, n_tile, rank_};
  const std::vector<int64_t> extents = body_.type(root.result).shape.extents();
  batch_at_ = delinearize(pool_, batch, std::span(extents).first(extents.size() - 2));
  m0_ = pool_.mul(m_tile, tile_.rows);
  n0_ = pool_.mul(n_tile, tile_.columns);
  packed = tile_.columns % kPack == 0;
}

At ChainPlan::result_at() {
  At at = batch_at_;
  at.push_back(pool_.add(m0_, pool_.variable("i", tile_.rows)));
  Index n = n0_;
  if (packed) {
    n = pool_.add(n, pool_.mul(pool_.variable("n_pack", tile_.columns / kPack), kPack));
    n = pool_.add(n, pool_.variable("lane_of_pack", kPack));
  } else {
    n = pool_.add(n, pool_.variable("j", tile_.columns));
  }
  at.push_back(n);
  return at;
}

void ChainPlan::place_results(const std::vector<Sink>& sinks) {
  const ir::ValueId root = body_.op(root_).result;
  Elements elements(body_, pool_);
  elements.set(root, result_at());
  elements.propagate();
  std::vector<Sink> others;
  for (const Sink& s : sinks) {
    const At* at = elements.find(s.value);
    if (at && body_.type(s.value).shape.numel() == body_.type(root).shape.numel()) {
      results.push_back({s, *at});
    } else if (s.kind != Sink::Kind::output) {
      throw WholeRefusal{"it writes a param with other elements than its last matrix product's"};
    } else {
      others.push_back(s);
      wanted_.insert(s.value);
    }
  }
  if (results.empty()) throw WholeRefusal{"its last matrix product has no result of its own"};
  probe_.open_branch();
  for (const PlacedSink& p : results) {
    probe_.value(p.sink.value, p.at);
    if (p.sink.kind != Sink::Kind::update) continue;
    const std::vector<ir::ValueId>& operands = body_.op(p.sink.op).operands;
    for (size_t i = 2; i < operands.size(); ++i) probe_.value(operands[i], {});  // its place
  }
  probe_.close();
  for (const Sink& s : others) extras.push_back({s, {}});
}

Box ChainPlan::box_at(ir::ValueId v, const At& at) {
  const std::vector<int64_t> whole = body_.type(v).shape.extents();
  Box box;
  for (size_t d = 0; d < at.size(); ++d) {
    Index base, local;
    if (!pool_.separate(at[d], places_, &base, &local) || pool_.min(local) < 0) {
      base = pool_.constant(0);
      local = pool_.variable(fmt::format("any_{}", whole[d]), whole[d]);
    }
    box.base.push_back(base);
    box.extents.push_back(pool_.max(local) + 1);
  }
  return box;
}

void ChainPlan::record(ir::ValueId v, const At& at) {
  const std::vector<int64_t> whole = body_.type(v).shape.extents();
  const Box box = box_at(v, at);
  const auto [it, added] = boxes_.try_emplace(v, box);
  Box& known = it->second;
  for (size_t d = 0; d < at.size(); ++d) {
    const bool same = known.base[d] == box.base[d];
    if (boxes_final_ && (added || !same || box.extents[d] > known.extents[d])) {
      throw Refusal{"an earlier result is made of more than the block keeps"};
    }
    if (same) {
      known.extents[d] = std::max(known.extents[d], box.extents[d]);
    } else {
      known.base[d] = pool_.constant(0);
      known.extents[d] = whole[d];
    }
  }
}

const ChainStage* ChainPlan::stage_of(ir::ValueId result) const {
  for (const ChainStage& s : stages) {
    if (body_.op(s.op).result == result) return &s;
  }
  return nullptr;
}

std::string ChainPlan::name(const char* what, const ChainStage& s) const {
  return fmt::format("{}_{}", what, s.number);
}

At ChainPlan::in_box(const Box& box, const At& local) {
  At at = box.base;
  for (size_t d = 0; d < at.size(); ++d) at[d] = pool_.add(at[d], local[d]);
  return at;
}

At ChainPlan::operand_at(const ChainStage& s, const ChainOperand& x, Index outer, Index k) {
  if (is_last(s)) k = pool_.add(k, pool_.mul(rank_, s.k));
  const auto& attr = std::get<ir::DotAttr>(body_.op(s.op).attrs);
  const bool k_last = x.outer == 'm' ? !attr.ta : attr.tb;
  At at(s.box.base.begin(), s.box.base.end() - 2);
  at.push_back(k_last ? outer : k);
  at.push_back(k_last ? k : outer);
  return at;
}

At ChainPlan::reduced_at(const ChainStage& s, Index row, Index column) {
  const ir::Op& op = body_.op(s.op);
  const uint32_t axes = std::get<ir::ReduceAttr>(op.attrs).axes;
  const std::vector<int64_t> extents = body_.type(op.operands[0]).shape.extents();
  std::vector<int64_t> folded;
  for (size_t d = 0; d < extents.size(); ++d) {
    if ((axes >> d & 1) != 0) folded.push_back(extents[d]);
  }
  const At kept = in_box(s.box, delinearize(pool_, row, s.box.extents));
  const At of_column = delinearize(pool_, column, folded);
  At at;
  size_t next_kept = 0, next_folded = 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    at.push_back((axes >> d & 1) != 0 ? of_column[next_folded++] : kept[next_kept++]);
  }
  return at;
}

void ChainPlan::add_stage(ir::OpId id) {
  const ir::Op& op = body_.op(id);
  const auto box = boxes_.find(op.result);
  if (box == boxes_.end()) throw Refusal{"a result before the last serves no block alone"};
  ChainStage s;
  s.op = id;
  s.number = op.result.index;
  asker_ = s.number;
  s.box = box->second;
  if (op.kind == OpKind::dot) {
    add_dot(s, op);
  } else {
    s.rows = s.box.numel();
    s.columns = body_.type(op.operands[0]).shape.numel() /
                std::max<int64_t>(body_.type(op.result).shape.numel(), 1);
    if (s.rows * s.columns == 0) throw WholeRefusal{"it reduces nothing"};
    s.walk = RowLayout::of(s.rows, s.columns);
    s.bytes = s.rows * (size_of(body_.type(op.result).dtype) == 8 ? 8 : 4);
    const Index row = pool_.variable(name("row", s), s.rows);
    const Index column = pool_.variable(name("col", s), s.columns);
    probe_.open_branch();  // what one stage asks for hides nothing of another's
    probe_.open_loop({row, column});
    probe_.value(op.operands[0], reduced_at(s, row, column));
    probe_.close();
    probe_.close();
  }
  stages.push_back(std::move(s));
}

void ChainPlan::add_dot(ChainStage& s, const ir::Op& op) {
  s.is_dot = true;
  const Product p = product_of(body_, op);
  const auto is_sum_of_floats = [](DType t) { return is_float(t) && t != DType::f64; };
  if (!is_sum_of_floats(p.operands) || !is_sum_of_floats(p.result) || p.tf32) {
    throw WholeRefusal{"a matrix product is not summed in f32"};
  }
  const size_t rank = s.box.extents.size();
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (s.box.extents[d] != 1) throw Refusal{"a block would need products of a whole batch"};
  }
  s.rows = s.box.extents[rank - 2];
  s.columns = s.box.extents[rank - 1];
  s.k = p.k;
  if (is_last(s)) {
    if (p.k % tile_.split != 0) throw Refusal{"its terms are not shared out among blocks"};
    s.k = p.k / tile_.split;
  }
  if (s.rows * s.columns * s.k == 0) throw WholeRefusal{"one of its matrix products is empty"};
  s.mma = wants_mma(p) && s.k % 16 == 0;
  s.a = operand_of(s, op, 'm');
  s.b = operand_of(s, op, 'n');
  if (!s.a.copied && s.a.k_fastest) s.walk = RowLayout::of(s.rows, s.k);
  if (!s.mma) {
    lay_out_simt(s);
  } else if (!lay_out_stream(s)) {
    lay_out_mma(s);
  }
  s.bytes = s.plane * s.slices * 4;
}

ChainOperand ChainPlan::operand_of(const ChainStage& s, const ir::Op& op, char outer) {
  ChainOperand x;
  x.outer = outer;
  x.value = op.operands[outer == 'm' ? 0 : 1];
  x.side = outer == 'm' ? s.rows : s.columns;
  x.element_bytes = size_of(body_.type(x.value).dtype);
  for (const bool along_k : {true, false}) {
    x.copied = packs(s, x, along_k);
    if (!x.copied) continue;
    x.k_fastest = along_k;
    x.fixed = signature_.waits && signature_.args[x.copied->arg].fixed;
    return x;
  }
  x.k_fastest = s.mma || outer == 'm';
  if (outer == 'n') asker_ = SIZE_MAX;  // in a loop of its own
  const Index o = pool_.variable(fmt::format("{}_{}", outer, s.number), x.side);
  const Index k = pool_.variable(fmt::format("k_{}", s.number), s.k);
  const Index base = s.box.base[s.box.base.size() - (outer == 'm' ? 2 : 1)];
  probe_.open_branch();
  probe_.open_loop({o, k});
  probe_.value(x.value, operand_at(s, x, pool_.add(base, o), k));
  probe_.close();
  probe_.close();
  return x;
}

/// By variables such as `k_7_vector` and `m_7`: where 16 aligned bytes begin that hold consecutive
/// elements of the operand along that axis, if all of it lies so.
std::optional<ExprWriter::Load> ChainPlan::packs(const ChainStage& s, const ChainOperand& x,
                                                 bool along_k) {
  const int64_t vector = 16 / x.element_bytes;
  const int64_t along = along_k ? s.k : x.side;
  if (along % vector != 0) return std::nullopt;
  const Index lane = pool_.variable(fmt::format("within_{}", vector), vector);
  const std::string outer_name = fmt::format("{}_{}", x.outer, s.number);
  const std::string k_name = fmt::format("k_{}", s.number);
  const Index run = pool_.add(
      pool_.mul(pool_.variable((along_k ? k_name : outer_name) + "_vector", along / vector),
                vector),
      lane);
  const Index outer = along_k ? pool_.variable(outer_name, x.side) : run;
  const Index k = along_k ? run : pool_.variable(k_name, s.k);
  const Index base = s.box.base[s.box.base.size() - (x.outer == 'm' ? 2 : 1)];
  auto load = probe_.in_memory(x.value, operand_at(s, x, pool_.add(base, outer), k));
  Index vector_at;
  if (!load || !split_pack(pool_, load->linear, lane, vector, &vector_at)) return std::nullopt;
  load->linear = pool_.mul(vector_at, vector);
  return load;
}

/// A stage goes on with the run of the one before if it walks the same rows, and reads what the run
/// has reduced where its thread has it.
void ChainPlan::find_runs() {
  size_t first = 0;  // stage of the run
  for (size_t i = 0; i < stages.size(); ++i) {
    ChainStage& s = stages[i];
    bool follows = i > 0 && !stages[i - 1].is_dot && s.walk && s.walk == stages[i - 1].walk;
    const Index row = pool_.variable(s.is_dot ? name("m", s) : name("row", s), s.rows);
    for (const Ask& ask : asks_) {
      for (size_t r = first; r < i && ask.by == s.number; ++r) {
        if (body_.op(stages[r].op).result != ask.value) continue;
        const At here = in_box(stages[r].box, delinearize(pool_, row, stages[r].box.extents));
        follows = follows && ask.at == here;
      }
    }
    s.follows = follows;
    if (!follows) first = i;
  }
  // Who asks from another run, or at the end.
  for (size_t r = 0; r < stages.size(); ++r) {
    size_t end = r + 1;
    while (end < stages.size() && stages[end].follows) ++end;
    for (const Ask& ask : asks_) {
      const bool inside = std::any_of(stages.begin() + static_cast<std::ptrdiff_t>(r),
                                      stages.begin() + static_cast<std::ptrdiff_t>(end),
                                      [&](const ChainStage& s) { return s.number == ask.by; });
      if (body_.op(stages[r].op).result == ask.value && !inside) stages[r].stored = true;
    }
  }
  store_what_makes_extras();
}

/// Earlier results are computed once more where they are stored, from what the block keeps.
void ChainPlan::store_what_makes_extras() {
  std::vector<bool> asked(body_.values().size(), false);
  for (const Extra& e : extras) asked[e.sink.value.index] = true;
  for (size_t i = body_.ops().size(); i-- > 0;) {
    const ir::Op& op = body_.ops()[i];
    if (!asked[op.result.index] || is_anchor(op)) continue;
    for (const ir::ValueId v : op.operands) asked[v.index] = true;
  }
  for (ChainStage& s : stages) s.stored = s.stored || asked[body_.op(s.op).result.index];
}

/// The blocks of the first columns must have every element of an earlier result once.
void ChainPlan::check_extras() {
  for (Extra& e : extras) {
    const auto it = boxes_.find(e.sink.value);
    if (it == boxes_.end()) throw Refusal{"a result before the last serves no block alone"};
    e.box = it->second;
    const std::vector<int64_t> whole = body_.type(e.sink.value).shape.extents();
    std::vector<Index> needed;
    for (const Index i : batch_at_) needed.push_back(i);
    needed.push_back(m0_);
    std::erase(needed, pool_.constant(0));
    for (size_t d = 0; d < whole.size(); ++d) {
      const auto at = std::find(needed.begin(), needed.end(), e.box.base[d]);
      if (at == needed.end()) {
        if (e.box.base[d] != pool_.constant(0) || e.box.extents[d] != whole[d]) {
          throw Refusal{"blocks would not have an earlier result's elements once each"};
        }
        continue;
      }
      const int64_t each = *at == m0_ ? tile_.rows : 1;
      const int64_t reach = pool_.max(*at) + each;
      if (e.box.extents[d] != each || reach != whole[d]) {
        throw Refusal{"blocks would not have an earlier result's elements once each"};
      }
      needed.erase(at);
    }
    if (!needed.empty())
      throw Refusal{"several blocks would have the same part of an earlier result"};
  }
  boxes_final_ = true;
  for (size_t x = 0; x < extras.size(); ++x) {
    const Index e = pool_.variable(fmt::format("e_{}", x), extras[x].box.numel());
    probe_.open_branch();
    probe_.open_loop({e});
    probe_.value(extras[x].sink.value,
                 in_box(extras[x].box, delinearize(pool_, e, extras[x].box.extents)));
    probe_.close();
    probe_.close();
  }
}

}  // namespace braid::kernels
