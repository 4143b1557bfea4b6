#include "passes/control_region.hpp"

#include <algorithm>
#include <map>

#include "passes/free_ops.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// Computes what stands on `base` by views, or on nothing, in a body.
class Sinker {
 public:
  Sinker(Draft& to, const ir::Graph& from) : to_(to), from_(from) {}
  void have(ValueId outside, ValueId here) { to_of_[outside] = here; }
  ValueId sink(ValueId v) {
    const auto it = to_of_.find(v);
    if (it != to_of_.end()) return it->second;
    const ir::Op& op = from_.def(v);
    std::vector<ValueId> operands;
    if (op.kind == OpKind::view) operands.push_back(sink(op.operands[0]));
    return to_of_[v] = to_.graph.clone_op(from_, from_.value(v).def, std::move(operands));
  }

 private:
  Draft& to_;
  const ir::Graph& from_;
  std::map<ValueId, ValueId> to_of_;
};

class Cleaner {
 public:
  Cleaner(Draft& to, ValueRegion& region, const Options& options)
      : to_(to), r_(region), options_(options) {}

  void run() {
    drop_outputs();
    for (ir::Graph& body : r_.bodies) {
      body = options_.simplify ? simplify(body, r_.arguments()) : sweep(body, r_.arguments());
    }
    for (const ir::Graph& body : r_.bodies) inliners_.emplace_back(body, r_.arguments());
    lift_tables();
    choose_arguments();
    rebuild();
  }

 private:
  bool is_loop() const { return r_.lead == 1; }
  ValueId argument(size_t body, size_t k) const {
    return r_.bodies[body].ops()[r_.lead + k].result;
  }

  /// The argument that all bodies hand on as output `o`, or nothing.
  std::optional<size_t> handed_on(size_t o) const {
    const ir::Graph& first = r_.bodies[0];
    const uint32_t at = first.value(first.outputs[o].value).def.index;
    if (at < r_.lead || at >= r_.arguments()) return std::nullopt;
    if (is_loop()) return o < r_.carried && at - r_.lead == o ? std::optional(o) : std::nullopt;
    for (size_t b = 0; b < r_.bodies.size(); ++b) {
      if (r_.bodies[b].outputs[o].value != argument(b, at)) return std::nullopt;
    }
    return at;
  }

  void drop_outputs() {
    const size_t count = r_.bodies[0].outputs.size();
    const size_t bodies = is_loop() ? 1 : r_.bodies.size();
    r_.output_of.assign(count, ValueRegion::kNone);
    r_.same.assign(count, {});
    constant_.assign(r_.args.size(), false);
    std::vector<std::vector<ir::Output>> kept(bodies);
    std::vector<bool> wanted;
    for (size_t o = 0; o < count; ++o) {
      if (const auto at = handed_on(o)) {
        r_.same[o] = r_.args[*at];
        if (o < r_.carried) constant_[o] = true;
        continue;
      }
      if (!r_.wanted[o] && o >= r_.carried) continue;
      r_.output_of[o] = static_cast<uint32_t>(kept[0].size());
      wanted.push_back(r_.wanted[o]);
      for (size_t b = 0; b < bodies; ++b) kept[b].push_back(r_.bodies[b].outputs[o]);
    }
    for (size_t b = 0; b < bodies; ++b) r_.bodies[b].outputs = std::move(kept[b]);
    r_.wanted = std::move(wanted);
  }

  /// Constants that are no single number are kept once, outside.
  void lift_tables() {
    lifted_.resize(r_.bodies.size());
    for (size_t b = 0; b < r_.bodies.size(); ++b) {
      const ir::Graph& body = r_.bodies[b];
      for (uint32_t i = 0; i < body.ops().size(); ++i) {
        const ir::Op& op = body.ops()[i];
        if (op.kind != OpKind::constant || is_inline(body, op.result)) continue;
        lifted_[b].emplace_back(op.result, to_.graph.clone_op(body, OpId{i}, {}));
      }
    }
  }

  ValueId base(ValueId v) const {
    while (to_.graph.def(v).kind == OpKind::view) v = to_.graph.def(v).operands[0];
    return v;
  }

  void choose_arguments() {
    const size_t count = r_.args.size();
    r_.argument_of.assign(count, ValueRegion::kNone);
    size_t carried = 0;
    for (size_t k = 0; k < r_.carried; ++k) {
      if (constant_[k]) continue;
      keep(k, r_.args[k], argument(0, k));
      ++carried;
    }
    for (size_t k = 0; k < count; ++k) {
      if (k < r_.carried && !constant_[k]) continue;
      bool used = false, written = false;
      for (const Inliner& body : inliners_) {
        used = used || body.used()[r_.lead + k];
        written = written || body.writes(r_.lead + k);
      }
      if (!used) continue;
      const ValueId v = r_.args[k];
      if (to_.graph.value(v).state) {
        if (written) {
          keep(k, v, argument(0, k));
          continue;
        }
        r_.args[k] = to_.read(v);
      }
      const ValueId below = base(r_.args[k]);
      if (!is_inline(to_.graph, below)) keep_value(below, name_of(0, k));
    }
    for (size_t b = 0; b < r_.bodies.size(); ++b) {
      for (const auto& [inside, outside] : lifted_[b]) keep_value(outside, "table");
    }
    r_.carried = carried;
  }

  std::string name_of(size_t body, size_t k) const {
    const ir::Graph& g = r_.bodies[body];
    return std::string(g.strings[g.def(argument(body, k)).name]);
  }

  struct Kept {
    ValueId outside;
    std::string name;
    TensorType type;
    ir::Attrs sort;  // of state
  };
  void keep(size_t k, ValueId v, ValueId inside) {
    r_.argument_of[k] = static_cast<uint32_t>(kept_.size());
    const ir::Op& op = r_.bodies[0].def(inside);
    kept_.push_back({v, name_of(0, k), to_.graph.type(v), op.attrs});
  }
  void keep_value(ValueId v, std::string name) {
    if (!at_.emplace(v, kept_.size()).second) return;
    kept_.push_back({v, std::move(name), to_.graph.type(v), {}});
  }

  void rebuild() {
    const std::vector<ValueId> before = std::move(r_.args);
    r_.args.clear();
    r_.written.clear();
    for (const Kept& kept : kept_) {
      r_.args.push_back(kept.outside);
      r_.written.push_back(to_.graph.value(kept.outside).state);
    }
    for (size_t b = 0; b < r_.bodies.size(); ++b) {
      const ir::Graph& old = r_.bodies[b];
      Draft body(old);
      std::vector<ValueId> args, here;
      for (size_t k = 0; k < r_.lead; ++k) {
        args.push_back(body.input(old.strings[old.ops()[k].name], old.type(old.ops()[k].result)));
      }
      Sinker sinker(body, to_.graph);
      for (const Kept& kept : kept_) {
        const bool state = to_.graph.value(kept.outside).state;
        here.push_back(state ? body.param(kept.name, kept.type, kept.sort)
                             : body.input(kept.name, kept.type));
      }
      for (const auto& [v, k] : at_) sinker.have(v, here[k]);
      for (size_t k = 0; k < before.size(); ++k) {
        const uint32_t own = r_.argument_of[k];
        if (own != ValueRegion::kNone) {
          args.push_back(here[own]);
        } else {
          const bool used = inliners_[b].used()[r_.lead + k];
          args.push_back(used ? sinker.sink(before[k]) : ValueId{});
        }
      }
      std::vector<std::pair<ValueId, ValueId>> made;
      for (const auto& [inside, outside] : lifted_[b]) {
        made.emplace_back(inside, here[at_.at(outside)]);
      }
      const Inliner::Result result = inliners_[b].into(body, args, made);
      for (size_t o = 0; o < old.outputs.size(); ++o) {
        body.graph.outputs.push_back(
            {old.outputs[o].name, result.outputs[o], body.place(old, old.outputs[o].loc)});
      }
      r_.bodies[b] = std::move(body.graph);
    }
  }

  Draft& to_;
  ValueRegion& r_;
  const Options& options_;
  std::vector<bool> constant_;  // carried, but never another value
  std::vector<Inliner> inliners_;
  std::vector<std::vector<std::pair<ValueId, ValueId>>> lifted_;  // by body: inside, outside
  std::vector<Kept> kept_;
  std::map<ValueId, size_t> at_;  // of captured values, in kept_
};

}  // namespace

Draft ValueRegion::draft(const Draft& outer, size_t b) const {
  Draft body(bodies[b]);
  body.stand_for(name, body.place(outer.graph, loc));
  return body;
}

void clean_region(Draft& to, ValueRegion& region, const Options& options) {
  Cleaner(to, region, options).run();
}

}  // namespace braid
