// Small graphs by hand and at random, and a machine that runs groups one after the other.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/interpret.hpp"
#include "ir/tensor.hpp"
#include "passes/free_ops.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/levels.hpp"
#include "passes/plan.hpp"

namespace braid::test {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using ir::ViewKind;

using Extents = std::vector<int64_t>;

/// Builds a graph op by op.
struct Maker {
  ir::Graph g;

  static TensorType type(const Extents& shape, DType dtype = DType::f32) {
    return {dtype, Shape::of(shape)};
  }
  ir::StrId str(const std::string& s) { return s.empty() ? ir::StrId{} : g.strings.intern(s); }
  Extents shape(ValueId v) const { return g.type(v).shape.extents(); }

  ValueId input(const std::string& name, const Extents& s, DType dtype = DType::f32) {
    return g.add({OpKind::input, {}, {}, type(s, dtype), str(name)});
  }
  ValueId param(const std::string& name, const Extents& s, DType dtype = DType::f32) {
    return g.add({OpKind::param, ir::ParamAttr{}, {}, type(s, dtype), str(name)});
  }
  ValueId read(ValueId state) { return g.add({OpKind::read, {}, {state}}); }
  ValueId weight(const std::string& name, const Extents& s) { return read(param(name, s)); }
  ValueId assign(ValueId state, ValueId v) { return g.add({OpKind::assign, {}, {state, v}}); }
  ValueId update(ValueId state, ValueId v, std::vector<ValueId> starts) {
    std::vector<ValueId> operands{state, v};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return g.add({OpKind::update, {}, operands});
  }
  ValueId splat(const Extents& s, double x, DType dtype = DType::f32) {
    return g.splat(type(s, dtype), x);
  }
  ValueId iota(const Extents& s, int axis, DType dtype = DType::i32) {
    return g.add({OpKind::iota, ir::AxisAttr{axis}, {}, type(s, dtype)});
  }
  ValueId map(Fn fn, std::vector<ValueId> in) {
    return g.add({OpKind::map, ir::MapAttr{fn}, std::move(in)});
  }
  ValueId cast(ValueId v, DType to) {
    return g.add({OpKind::map, ir::MapAttr{Fn::cast}, {v}, TensorType{to, g.type(v).shape}});
  }
  ValueId add(ValueId a, ValueId b) { return map(Fn::add, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return map(Fn::mul, {a, b}); }
  ValueId reduce(Fn fn, ValueId v, uint32_t axes) {
    return g.add({OpKind::reduce, ir::ReduceAttr{fn, axes}, {v}});
  }
  ValueId dot(ValueId a, ValueId b, bool ta = false, bool tb = false) {
    return g.add({OpKind::dot, ir::DotAttr{ta, tb}, {a, b}});
  }
  ValueId view(ir::ViewAttr attr, ValueId v, const Extents& s) {
    return g.add({OpKind::view, attr, {v}, type(s, g.type(v).dtype)});
  }
  ValueId reshape(ValueId v, const Extents& s) { return view({ViewKind::reshape}, v, s); }
  ValueId transpose(ValueId v, const Extents& perm) {
    ir::ViewAttr attr{ViewKind::transpose};
    Extents s;
    for (size_t i = 0; i < perm.size(); ++i) {
      attr.a[i] = perm[i];
      s.push_back(shape(v)[static_cast<size_t>(perm[i])]);
    }
    return view(attr, v, s);
  }
  /// Operand axis i becomes axis axes[i] of `s`.
  ValueId broadcast(ValueId v, const Extents& s, const Extents& axes) {
    ir::ViewAttr attr{ViewKind::broadcast};
    for (size_t i = 0; i < axes.size(); ++i) attr.a[i] = axes[i];
    return view(attr, v, s);
  }
  ValueId slice(ValueId v, int axis, int64_t start, int64_t count, int64_t step = 1) {
    ir::ViewAttr attr{ViewKind::slice};
    Extents s = shape(v);
    for (size_t i = 0; i < s.size(); ++i) attr.b[i] = 1;
    attr.a[static_cast<size_t>(axis)] = start;
    attr.b[static_cast<size_t>(axis)] = step;
    s[static_cast<size_t>(axis)] = count;
    return view(attr, v, s);
  }
  ValueId concat(std::vector<ValueId> in, int axis) {
    return g.add({OpKind::concat, ir::AxisAttr{axis}, std::move(in)});
  }
  ValueId gather(ValueId v, ValueId at, int axis) {
    return g.add({OpKind::gather, ir::AxisAttr{axis}, {v, at}});
  }
  ValueId scatter(std::optional<Fn> fn, ValueId v, ValueId at, ValueId u, int axis) {
    return g.add({OpKind::scatter, ir::ScatterAttr{axis, fn}, {v, at, u}});
  }
  /// A reduction's result spread along the last axis again, by way of extent 1.
  ValueId along_last(ValueId v, const Extents& s) {
    Extents keep = s, axes;
    keep.back() = 1;
    for (size_t i = 0; i < s.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    return broadcast(reshape(v, keep), s, axes);
  }
  ValueId bias(ValueId v, ValueId b) {
    const Extents s = shape(v);
    return add(v, broadcast(b, s, {static_cast<int64_t>(s.size()) - 1}));
  }
  uint32_t last_axis(ValueId v) const { return 1u << (g.type(v).shape.rank() - 1); }
  ValueId softmax(ValueId x) {
    const Extents s = shape(x);
    const ValueId e =
        map(Fn::exp, {map(Fn::sub, {x, along_last(reduce(Fn::max, x, last_axis(x)), s)})});
    return map(Fn::div, {e, along_last(reduce(Fn::add, e, last_axis(x)), s)});
  }
  ValueId layer_norm(ValueId x, ValueId gamma, ValueId beta) {
    const Extents s = shape(x);
    Extents keep = s;
    keep.back() = 1;
    Extents axes;
    for (size_t i = 0; i < s.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    const ValueId scale = splat(keep, 1.0 / static_cast<double>(s.back()));
    const auto mean = [&](ValueId v) {
      return mul(reshape(reduce(Fn::add, v, last_axis(v)), keep), scale);
    };
    const ValueId centred = map(Fn::sub, {x, broadcast(mean(x), s, axes)});
    const ValueId variance = mean(mul(centred, centred));
    const ValueId norm = map(Fn::rsqrt, {add(variance, splat(keep, 1e-5))});
    const ValueId y = mul(centred, broadcast(norm, s, axes));
    const Extents last{static_cast<int64_t>(s.size()) - 1};
    return add(mul(y, broadcast(gamma, s, last)), broadcast(beta, s, last));
  }
  void output(const std::string& name, ValueId v) { g.outputs.push_back({name, v, {}}); }
};

/// Random values for every op of `kind`, by name.
inline ir::TensorMap random_tensors(const ir::Graph& g, OpKind kind, uint64_t seed) {
  ir::TensorMap out;
  for (const ir::Op& op : g.ops()) {
    if (op.kind != kind) continue;
    const std::string name(g.strings[op.name]);
    out[name] = widen(random_tensor(g.type(op.result), seed, name));
  }
  return out;
}

struct Results {
  ir::TensorMap outputs, params;
};
inline Results run_whole(const ir::Graph& g, uint64_t seed,
                         ir::Rounding rounding = ir::Rounding::dtype) {
  Results r;
  r.params = random_tensors(g, OpKind::param, seed);
  r.outputs = ir::interpret(g, random_tensors(g, OpKind::input, seed), r.params, rounding);
  return r;
}

inline bool same(const WideTensor& a, const WideTensor& b) {
  const auto equal = [](double x, double y) { return x == y || (x != x && y != y); };
  return a.type.dtype == b.type.dtype && a.i == b.i && a.f.size() == b.f.size() &&
         std::equal(a.f.begin(), a.f.end(), b.f.begin(), equal);
}
inline bool same(const ir::TensorMap& a, const ir::TensorMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  });
}
inline bool same(const Results& a, const Results& b) {
  return same(a.outputs, b.outputs) && same(a.params, b.params);
}

inline std::string param_of(const ir::Graph& g, ValueId version) {
  while (g.def(version).kind != OpKind::param) version = g.def(version).operands[0];
  return std::string(g.name_of(g.value(version).def));
}

/// Runs groups in the given order on one memory, where every version of a param is the same bytes.
inline Results run_groups(const ir::Graph& g, const Fusion& fusion,
                          const std::vector<uint32_t>& order, uint64_t seed) {
  std::map<uint32_t, WideTensor> memory;
  const ir::TensorMap inputs = random_tensors(g, OpKind::input, seed);
  Results r;
  r.params = random_tensors(g, OpKind::param, seed);
  for (const ir::Op& op : g.ops()) {
    if (op.kind == OpKind::input) {
      memory[op.result.index] = inputs.at(std::string(g.strings[op.name]));
    }
    if (op.kind == OpKind::constant && !is_inline(g, op.result)) {
      const ir::Literal& l = g.literals[std::get<ir::ConstAttr>(op.attrs).literal];
      HostTensor t(l.type);
      t.bytes = l.bytes;
      memory[op.result.index] = widen(t);
    }
  }
  for (uint32_t index : order) {
    const Group& group = fusion.groups[index];
    std::vector<ValueId> sources;
    const ir::Graph body = extract_body(g, group, &sources);
    ir::TensorMap body_inputs, body_params;
    std::map<std::string, std::string> written;  // body's param -> the graph's
    size_t next = 0;
    for (const ir::Op& op : body.ops()) {
      if (op.kind != OpKind::input && op.kind != OpKind::param) continue;
      const ValueId source = sources.at(next++);
      const std::string name(body.strings[op.name]);
      const bool state = g.value(source).state;
      const WideTensor& value = state ? r.params.at(param_of(g, source)) : memory.at(source.index);
      (op.kind == OpKind::param ? body_params : body_inputs)[name] = value;
      if (op.kind == OpKind::param) written[name] = param_of(g, source);
    }
    const ir::TensorMap results =
        ir::interpret(body, body_inputs, body_params, ir::Rounding::dtype);
    size_t output = 0;
    for (ValueId v : group.outputs) {
      if (!g.value(v).state) {
        memory[v.index] = results.at(body.outputs.at(output++).name);
      }
    }
    for (const auto& [from, to] : written) r.params[to] = body_params.at(from);
  }
  for (const ir::Output& o : g.outputs) {
    r.outputs[o.name] = memory.at(memory_root(g, o.value).index);
  }
  return r;
}

/// Edges between groups over data (through free ops) and order edges.
inline std::vector<std::pair<uint32_t, uint32_t>> group_edges(const ir::Graph& g,
                                                              const Fusion& fusion,
                                                              const HomePlan& homes) {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  const auto edge = [&](uint32_t a, uint32_t b) {
    if (a != UINT32_MAX && b != UINT32_MAX && a != b) edges.emplace_back(a, b);
  };
  const std::vector<ValueId> source = memory_sources(g);
  for (uint32_t i = 0; i < g.ops().size(); ++i) {
    for (ValueId v : g.ops()[i].operands) {
      edge(fusion.group_of[g.value(source[v.index]).def.index], fusion.group_of[i]);
    }
  }
  for (const OrderEdge& e : homes.order) {
    edge(fusion.group_of[e.from.index], fusion.group_of[e.to.index]);
  }
  return edges;
}

inline uint32_t below(std::mt19937& random, size_t bound) {
  return static_cast<uint32_t>(random() % bound);
}

/// Any topological order.
inline std::vector<uint32_t> random_order(size_t nodes,
                                          const std::vector<std::pair<uint32_t, uint32_t>>& edges,
                                          std::mt19937& random) {
  std::vector<uint32_t> waiting(nodes, 0), ready, order;
  for (auto [from, to] : edges) ++waiting[to];
  for (uint32_t v = 0; v < nodes; ++v) {
    if (waiting[v] == 0) ready.push_back(v);
  }
  while (!ready.empty()) {
    std::swap(ready[below(random, ready.size())], ready.back());
    const uint32_t u = ready.back();
    ready.pop_back();
    order.push_back(u);
    for (auto [from, to] : edges) {
      if (from == u && --waiting[to] == 0) ready.push_back(to);
    }
  }
  return order;
}

/// A well-formed graph of about `size` ops over few shapes, with params that are read, assigned and
/// updated in any order, also old versions after new ones.
inline ir::Graph random_graph(std::mt19937& random, int size) {
  Maker m;
  std::vector<ValueId> values;
  struct Param {
    std::vector<ValueId> versions;
  };
  std::vector<Param> params;
  const Extents shapes[] = {{4, 6}, {6}, {4}, {4, 1}, {2, 2, 6}, {6, 4}, {4, 4}};
  for (int i = 0; i < 3; ++i) {
    values.push_back(m.input("x" + std::to_string(i), shapes[below(random, std::size(shapes))]));
  }
  for (int i = 0; i < 3; ++i) {
    const Extents& s = shapes[below(random, i == 0 ? 1 : std::size(shapes))];
    params.push_back({{m.param("p" + std::to_string(i), s)}});
  }
  values.push_back(m.input("x3", {4, 6}));
  const ValueId index = m.input("at", {}, DType::i32);
  const auto any = [&] {
    const size_t recent = below(random, 3) ? std::min<size_t>(values.size(), 6) : values.size();
    return values[values.size() - 1 - below(random, recent)];
  };
  const auto broadcast_to = [&](ValueId v, const Extents& to) -> ValueId {
    const Extents from = m.shape(v);
    if (from == to) return v;
    if (from.size() == to.size()) {
      Extents axes;
      for (size_t i = 0; i < to.size(); ++i) {
        if (from[i] != to[i] && from[i] != 1) return {};
        axes.push_back(static_cast<int64_t>(i));
      }
      return m.broadcast(v, to, axes);
    }
    if (from.size() != 1 || to.empty()) return {};
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (to[axis] == from[0] && below(random, 2)) {
        return m.broadcast(v, to, {static_cast<int64_t>(axis)});
      }
    }
    return {};
  };
  const auto bounded = [&](ValueId v) {  // so that deep graphs stay finite
    return below(random, 3) ? v : m.map(Fn::tanh, {v});
  };
  for (int step = 0; step < size; ++step) {
    const ValueId a = any();
    const Extents s = m.shape(a);
    ValueId made{};
    const uint32_t kinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 13, 14, 13, 14};
    switch (kinds[below(random, std::size(kinds))]) {
      case 0:
      case 1: {
        const Fn fns[] = {Fn::tanh, Fn::neg, Fn::relu, Fn::sigmoid, Fn::sin, Fn::abs};
        made = m.map(fns[below(random, std::size(fns))], {a});
        break;
      }
      case 2:
      case 3:
      case 4:
      case 5: {
        const Fn fns[] = {Fn::add, Fn::sub, Fn::mul, Fn::max, Fn::min};
        for (int tries = 0; tries < 4 && !made.valid(); ++tries) {
          const ValueId b = broadcast_to(any(), s);
          if (b.valid()) made = bounded(m.map(fns[below(random, std::size(fns))], {a, b}));
        }
        break;
      }
      case 6:
      case 7: {
        if (s.empty()) break;
        const uint32_t all = (1u << s.size()) - 1;
        const uint32_t axes = below(random, 2) ? m.last_axis(a) : 1 + below(random, all);
        made = m.reduce(below(random, 2) ? Fn::add : Fn::max, a, axes);
        if (below(random, 2) && axes == m.last_axis(a)) {
          values.push_back(made);
          made = m.along_last(made, s);
        }
        break;
      }
      case 8: {
        for (const Extents& to : shapes) {
          if (to != s && Shape::of(to).numel() == Shape::of(s).numel() && below(random, 2)) {
            made = m.reshape(a, to);
            break;
          }
        }
        break;
      }
      case 9: {
        if (s.size() < 2) break;
        Extents perm;
        for (size_t i = 0; i < s.size(); ++i) perm.push_back(static_cast<int64_t>(i));
        std::shuffle(perm.begin(), perm.end(), random);
        made = m.transpose(a, perm);
        break;
      }
      case 10: {
        if (s.empty() || s.back() < 4) break;
        const int axis = static_cast<int>(s.size()) - 1;
        made = m.concat({m.slice(a, axis, 1, s.back() - 1), m.slice(a, axis, 0, 1)}, axis);
        break;
      }
      case 11: {
        if (s.empty()) break;
        const ValueId at = m.iota({s[0]}, 0);
        const ValueId rows = broadcast_to(any(), s);
        made = rows.valid() && below(random, 2) ? m.scatter(Fn::max, a, at, rows, 0)
                                                : m.gather(a, at, 0);
        break;
      }
      case 12: {
        const ValueId b = any();
        const Extents t = m.shape(b);
        if (s.size() != 2 || t.size() != 2) break;
        if (s[1] == t[0])
          made = m.dot(a, b);
        else if (s[1] == t[1])
          made = m.dot(a, b, false, true);
        else if (s[0] == t[0])
          made = m.dot(a, b, true, false);
        if (made.valid()) made = m.map(Fn::tanh, {made});
        break;
      }
      case 13: {
        const Param& p = params[below(random, params.size())];
        made = m.read(p.versions[p.versions.size() - 1 -
                                 below(random, std::min<size_t>(2, p.versions.size()))]);
        break;
      }
      case 14: {
        Param& p = params[below(random, params.size())];
        const Extents ps = m.shape(p.versions.back());
        for (int tries = 0; tries < 6; ++tries) {
          const ValueId b = broadcast_to(any(), ps);
          if (!b.valid()) continue;
          p.versions.push_back(m.assign(p.versions.back(), b));
          break;
        }
        break;
      }
      case 15: {
        Param& p = params[below(random, params.size())];
        const Extents ps = m.shape(p.versions.back());
        if (ps != s || s.size() != 2) break;
        const ValueId box = m.slice(a, 0, 0, 2);
        p.versions.push_back(m.update(p.versions.back(), box, {index, m.splat({}, 0, DType::i32)}));
        break;
      }
    }
    if (made.valid()) values.push_back(made);
  }
  const uint32_t outputs = 2 + below(random, 4);
  for (uint32_t i = 0; i < outputs; ++i) m.output("y" + std::to_string(i), any());
  return std::move(m.g);
}

}  // namespace braid::test
