// Choose: one Node per group, one Kernel per distinct body, a Buffer per value in memory.
// needs: fusion. breaks: nothing.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "ir/text.hpp"
#include "passes/body_key.hpp"
#include "passes/cost.hpp"
#include "passes/free_ops.hpp"
#include "passes/kernels/family.hpp"
#include "passes/labels.hpp"
#include "passes/plan.hpp"
#include "passes/script.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

class Chooser {
 public:
  Chooser(Compilation& c, const Options& o) : c_(c), g_(c.graph), p_(c.program), options_(o) {}

  void run() {
    c_.program = Program{};
    p_.name = g_.name;
    p_.target = options_.target;
    p_.options = to_string(options_);
    p_.dims = c_.dims;
    p_.repeats = g_.repeats;
    p_.source_ops = c_.source_ops;
    p_.graphs = c_.levels.graphs;
    p_.runs = c_.levels.runs;
    buffer_of_.assign(g_.values().size(), kNone);
    interface();
    std::vector<Step> order;
    for (const Group& group : c_.fusion.groups) {
      if (group.family == FamilyId::host) {
        order.push_back({Step::Kind::call, call(group)});
      } else {
        const bool outside = g_.op(group.ops[0]).outside;
        if (!continues(order, group.level, outside)) {
          order.push_back({Step::Kind::launch, static_cast<uint32_t>(p_.bodies.size())});
          Body& body = p_.bodies.emplace_back();
          body.run = group.level;
          body.stream = outside;
        }
        p_.bodies.back().nodes.push_back(node(group));
      }
    }
    // A graph without work is a program that does nothing: one empty launch.
    if (order.empty()) {
      p_.graphs = p_.runs = 1;
      p_.bodies.emplace_back();
      order.push_back({Step::Kind::launch, 0});
    }
    p_.script = write_script(p_, order);
    addressable();
    for (ParamBinding& b : p_.params) {
      const auto it = newest_.find(b.first_value);
      b.last_value = it == newest_.end() ? b.first_value : it->second;
      b.written = b.last_value != b.first_value;
    }
  }

 private:
  /// Whether the last step launches a body that kernels of this run and kind belong to.
  bool continues(const std::vector<Step>& order, uint32_t run, bool outside) const {
    if (order.empty() || order.back().kind != Step::Kind::launch) return false;
    const Body& body = p_.bodies[order.back().index];
    return body.run == run && body.stream == outside;
  }

  /// The first and last run that all ops of a group can belong to.
  std::pair<uint32_t, uint32_t> window(const Group& group) const {
    uint32_t earliest = 0, latest = kNone;
    for (OpId id : group.ops) {
      earliest = std::max(earliest, c_.levels.earliest[id.index]);
      latest = std::min(latest, c_.levels.latest[id.index]);
    }
    return {earliest, latest};
  }

  uint32_t call(const Group& group) {
    const ir::Op& op = g_.op(group.ops[0]);
    Call call;
    call.function = std::string(g_.strings[std::get<ir::HostAttr>(op.attrs).function]);
    call.op = op_label(g_, op);
    call.place = place_label(g_, op.loc);
    call.level = group.level;
    std::tie(call.earliest, call.latest) = window(group);
    for (ValueId v : op.operands) {
      // Through reshapes and the read of a param to what lies in memory, under the operand's type.
      ValueId root = memory_root(g_, v);
      if (g_.def(root).kind == OpKind::read) root = g_.def(root).operands[0];
      const uint32_t seen = view_as(root, g_.type(v));
      call.args.push_back(seen);
      call.values.push_back(root.index);
    }
    for (ValueId v : group.outputs) {
      call.results.push_back(view_of(v));
      call.result_values.push_back(v.index);
    }
    p_.calls.push_back(std::move(call));
    return static_cast<uint32_t>(p_.calls.size() - 1);
  }

  /// What follows adds up buffers: together they must stay below 2^62 bytes, as each does.
  void addressable() const {
    constexpr int64_t kMost = int64_t{1} << 62;
    int64_t total = 0;
    for (const Buffer& b : p_.buffers) {
      const int64_t padded = (b.bytes + 255) / 256 * 256;
      if (padded <= kMost - total) {
        total += padded;
        continue;
      }
      std::vector<const Buffer*> largest;
      for (const Buffer& other : p_.buffers) largest.push_back(&other);
      std::stable_sort(largest.begin(), largest.end(),
                       [](const Buffer* x, const Buffer* y) { return x->bytes > y->bytes; });
      Diagnostic d;
      d.code = "E0705";
      d.message = "the model's tensors take more than 2^62 bytes together";
      for (size_t i = 0; i < largest.size() && i < 3; ++i) {
        d.details.push_back(fmt::format("{} {}: {}, {} bytes", name_of(largest[i]->segment),
                                        largest[i]->name, to_string(largest[i]->type),
                                        largest[i]->bytes));
      }
      d.suggestion = "make their extents smaller";
      throw Error(std::move(d));
    }
  }

  uint32_t add_buffer(std::string name, Segment segment, const TensorType& type) {
    p_.buffers.push_back({std::move(name), segment, type, type.bytes(), 0});
    return static_cast<uint32_t>(p_.buffers.size() - 1);
  }

  /// Inputs, params and outputs in the graph's order.
  void interface() {
    for (const ir::Op& op : g_.ops()) {
      const std::string name(g_.strings[op.name]);
      if (const auto* scalar = std::get_if<ir::ScalarAttr>(&op.attrs)) {
        const uint32_t b = add_buffer(name, Segment::scalar, g_.type(op.result));
        p_.buffers[b].offset = p_.scalar_bytes;
        p_.scalar_bytes += kScalarAlignment;
        buffer_of_[op.result.index] = b;
        p_.scalars.push_back({name, b, op.result.index, scalar->value});
      } else if (op.kind == OpKind::input) {
        const uint32_t b = add_buffer(name, Segment::input, g_.type(op.result));
        buffer_of_[op.result.index] = b;
        p_.inputs.push_back({name, b, op.result.index});
      } else if (op.kind == OpKind::param) {
        const uint32_t b = add_buffer(name, Segment::param, g_.type(op.result));
        const auto& attr = std::get<ir::ParamAttr>(op.attrs);
        buffer_of_[op.result.index] = b;
        first_version_[op.result.index] = op.result.index;
        p_.params.push_back({name, b, attr.init, attr.scale, false, op.result.index, 0});
      } else if (op.kind == OpKind::assign || op.kind == OpKind::update) {
        // Every version lives in the param's one buffer.
        buffer_of_[op.result.index] = buffer_of_[op.operands[0].index];
        const uint32_t first = first_version_.at(op.operands[0].index);
        first_version_[op.result.index] = first;
        newest_[first] = op.result.index;
      }
    }
    for (const ir::Output& o : g_.outputs) {
      const ValueId root = memory_root(g_, o.value);
      ensure(buffer_of_[root.index] == kNone, "an output without memory of its own");
      const uint32_t b = add_buffer(o.name, Segment::output, g_.type(o.value));
      buffer_of_[root.index] = b;
      p_.outputs.push_back({o.name, b, root.index});
    }
  }

  /// The buffer of a value in memory, made on first use for constants and temporaries.
  uint32_t buffer_of(ValueId v) {
    uint32_t& b = buffer_of_[v.index];
    if (b != kNone) return b;
    const ir::Op& op = g_.def(v);
    const std::string label = op_label(g_, op);
    if (op.kind == OpKind::constant) {
      const ir::Literal& l = g_.literals[std::get<ir::ConstAttr>(op.attrs).literal];
      b = add_buffer(label, Segment::constant, g_.type(v));
      p_.constants.resize((p_.constants.size() + 255) / 256 * 256);
      p_.buffers[b].offset = static_cast<int64_t>(p_.constants.size());
      p_.constants.insert(p_.constants.end(), l.bytes.begin(), l.bytes.end());
    } else {
      b = add_buffer(label, Segment::temp, g_.type(v));
    }
    return b;
  }

  uint32_t view_of(ValueId v) {
    const uint32_t buffer = buffer_of(v);
    const auto [it, added] = views_.try_emplace(v.index, static_cast<uint32_t>(p_.views.size()));
    if (added) {
      const TensorType& type = g_.type(v);
      p_.views.push_back({buffer, 0, type, row_major_strides(type.shape.extents()), v.index});
    }
    return it->second;
  }

  uint32_t view_as(ValueId v, const TensorType& type) {
    const uint32_t plain = view_of(v);
    if (p_.views[plain].type == type) return plain;
    p_.views.push_back(p_.views[plain]);
    p_.views.back().type = type;
    p_.views.back().strides = row_major_strides(type.shape.extents());
    return static_cast<uint32_t>(p_.views.size() - 1);
  }

  Node node(const Group& group) {
    std::vector<ValueId> sources;
    ir::Graph body = extract_body(g_, group, &sources);
    Node n;
    // What each param that the group writes holds afterwards.
    std::map<ValueId, ValueId> after;
    for (ValueId v : sources) {
      if (g_.value(v).state) after[v] = v;
    }
    for (OpId id : group.ops) {
      const ir::Op& op = g_.op(id);
      n.ops.push_back(op_label(g_, op));
      if (!g_.value(op.result).state) continue;
      for (auto& [before, newest] : after) {
        if (newest == op.operands[0]) newest = op.result;
      }
    }
    const uint32_t kernel = kernel_of(group, std::move(body));
    n.kernel = kernel;
    n.level = group.level;
    std::tie(n.earliest, n.latest) = window(group);
    n.place = place_label(g_, g_.op(group.ops.back()).loc);
    const std::vector<ArgSlot>& slots = p_.kernels[kernel].args;
    for (size_t s = 0; s < sources.size(); ++s) {
      const ValueId v = sources[s];
      const bool written = slots[s].role != Role::in;
      const ValueId held = written ? after.at(v) : v;
      n.args.push_back(view_of(written ? held : v));
      n.values.push_back(held.index);
      n.values_before.push_back(slots[s].role == Role::inout ? v.index : kNone);
    }
    for (ValueId v : group.outputs) {
      if (g_.value(v).state) continue;
      n.args.push_back(view_of(v));
      n.values.push_back(v.index);
      n.values_before.push_back(kNone);
    }
    n.estimate_us = estimates_[kernel];
    return n;
  }

  uint32_t kernel_of(const Group& group, ir::Graph body) {
    std::string key = body_key(body);
    key += name_of(group.family);
    const auto [it, added] =
        kernels_.try_emplace(std::move(key), static_cast<uint32_t>(p_.kernels.size()));
    if (!added) return it->second;
    const std::string text = fmt::format("{}\n{}", name_of(group.family), ir::print(body));
    Kernel k;
    k.family = std::string(name_of(group.family));
    k.symbol = symbol_of(group, XXH3_64bits(text.data(), text.size()));
    k.args = slots_of(body);
    for (const ir::Op& op : body.ops()) {
      const int64_t flops = ir::info(op.kind).flops(body, op);
      if (__builtin_add_overflow(k.flops, flops, &k.flops)) k.flops = INT64_MAX;
    }
    k.bytes_moved = bytes_moved(body);
    k.in_place = kernels::family(k.family).in_place(body, options_.target);
    k.body = std::move(body);
    estimates_.push_back(estimate_us(k, options_.target));
    p_.kernels.push_back(std::move(k));
    return it->second;
  }

  /// Bodies are told apart by their whole text, of which a symbol carries 32 bits of hash.
  std::string symbol_of(const Group& group, uint64_t hash) {
    const std::string stem = std::string(name_of(group.family)) + describe(group);
    std::string symbol = fmt::format("{}_{:08x}", stem, static_cast<uint32_t>(hash));
    while (!symbols_.insert(symbol).second) symbol = fmt::format("{}_{:016x}", stem, hash++);
    return symbol;
  }

  /// "_dot_add_relu": the group's ops, each kind once, as far as 32 characters go.
  std::string describe(const Group& group) {
    std::string text;
    std::vector<std::string> seen;
    for (OpId id : group.ops) {
      const std::string m = kind_label(g_, g_.op(id));
      if (std::find(seen.begin(), seen.end(), m) != seen.end()) continue;
      seen.push_back(m);
      if (m == name_of(group.family)) continue;
      if (text.size() + 1 + m.size() > 32) break;
      text += "_" + m;
    }
    return text;
  }

  /// Leading arguments are the body's inputs and params, the rest its outputs.
  static std::vector<ArgSlot> slots_of(const ir::Graph& body) {
    std::vector<ArgSlot> slots;
    std::map<uint32_t, size_t> slot_of;  // by version
    for (const ir::Op& op : body.ops()) {
      if (op.kind == OpKind::input || op.kind == OpKind::param) {
        slot_of[op.result.index] = slots.size();
        slots.push_back({std::string(body.strings[op.name]),
                         op.kind == OpKind::input ? Role::in : Role::out, body.type(op.result)});
      } else if (op.kind == OpKind::read || op.kind == OpKind::update ||
                 op.kind == OpKind::assign) {
        const size_t s = slot_of.at(op.operands[0].index);
        // An update leaves most of the old version in place, which counts as reading it.
        if (op.kind != OpKind::assign) slots[s].role = Role::inout;
        slot_of[op.result.index] = s;
      }
    }
    for (const ir::Output& o : body.outputs) {
      slots.push_back({o.name, Role::out, body.type(o.value)});
    }
    return slots;
  }

  Compilation& c_;
  const ir::Graph& g_;
  Program& p_;
  const Options& options_;
  std::vector<uint32_t> buffer_of_;  // by value
  std::unordered_map<uint32_t, uint32_t> views_;
  std::unordered_map<uint32_t, uint32_t> first_version_, newest_;
  std::unordered_map<std::string, uint32_t> kernels_;  // by family and body
  std::vector<double> estimates_;                      // by kernel
  std::unordered_set<std::string> symbols_;
};

}  // namespace

void choose_kernels(Compilation& c, const Options& o) { Chooser(c, o).run(); }

}  // namespace braid
