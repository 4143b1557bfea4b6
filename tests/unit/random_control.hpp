// Random well-formed graphs with branches, loops and messages, in the value form, for differential
// tests.
//
// The same seed gives the same graph everywhere. What decides (selectors, conditions, starts) is
// made of integers alone, so runs that round floats differently take the same ways; floats stay
// within 6, if inputs and params are filled as random_tensor() does by default. Every loop ends: at
// most 5 iterations each.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "ir/host.hpp"
#include "ir/region.hpp"

namespace braid::test {

struct RandomControlOptions {
  int ops = 12;   // about, of the outermost graph; a body has up to 5
  int depth = 3;  // bodies nest at most so deep
  bool sends = true;
  bool endless = true;     // loops that only their condition ends
  bool stores = true;      // params of the Store, read, assigned and updated, also in bodies
  bool lowerings = false;  // asked for on some branches and loops
  bool symbolic = false;   // extents and limits are dims N and T, with defaults
  size_t hosts = 0;        // one step in so many is a call of a host function; 0: none
  size_t outside = 0;      // one op in so many is kept out of graphs, if it can be; 0: none
};

class RandomControl {
 public:
  RandomControl(uint64_t seed, const RandomControlOptions& options) : o_(options), state_(seed) {
    state_ = next() ^ 0x5bd1e9955bd1e995;  // else neighbouring seeds share their numbers
  }

  ir::Graph run() {
    Scope s{ir::Graph("control"), {}, {}, {}, 0};
    const Dim n = o_.symbolic ? s.g.dims.symbol("N", 2 + below(3), 16) : Dim(2 + below(3));
    if (o_.symbolic) s.g.dims.symbol("T", below(6), 16);
    const Shape one, row{n}, matrix{Dim(2), n};
    for (const TensorType& t : {TensorType{DType::f32, row}, TensorType{DType::f32, one},
                                TensorType{DType::i32, one}, TensorType{DType::i32, row},
                                TensorType{DType::f32, matrix}, TensorType{DType::b1, one}}) {
      s.pool.push_back(argument(s, t, "x"));
    }
    for (int i = 0; o_.stores && i < 3; ++i) {
      const TensorType t =
          i == 0 ? TensorType{DType::i32, one}
                 : TensorType{chance(3) ? DType::i32 : DType::f32, chance(2) ? row : matrix};
      param(s, t, ir::ParamAttr{});
    }
    if (o_.sends) param(s, ir::kRingType, ir::RingAttr{});
    for (int i = 0; i < o_.ops; ++i) step(s);
    for (int i = 0; i < 4; ++i)
      output(s, s.pool[s.pool.size() - 1 - draw(std::min(s.pool.size(), size_t{8}))]);
    return std::move(s.g);
  }

 private:
  using ValueId = ir::ValueId;
  using Kind = ir::OpKind;

  struct State {
    ValueId version;  // the newest
    bool ring;
    std::vector<ValueId> before;
  };
  /// The graph in the making, and what its next op may take.
  struct Scope {
    ir::Graph g;
    std::vector<ValueId> pool;
    std::vector<State> states;
    std::vector<ValueId> iterations;  // numbers of the loops around, outermost first
    int depth;
    int names = 0;
  };

  // ---- chance
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  size_t draw(size_t n) { return static_cast<size_t>(next() % n); }
  int64_t below(int64_t n) { return static_cast<int64_t>(draw(static_cast<size_t>(n))); }
  bool chance(size_t one_in) { return draw(one_in) == 0; }

  // ---- parts of a scope
  ir::StrId name(Scope& s, const std::string& stem) {
    return s.g.strings.intern(stem + std::to_string(s.names++));
  }
  ValueId argument(Scope& s, const TensorType& t, const std::string& stem) {
    return s.g.add({Kind::input, {}, {}, t, name(s, stem)});
  }
  void param(Scope& s, const TensorType& t, ir::Attrs sort) {
    const bool ring = std::holds_alternative<ir::RingAttr>(sort);
    s.states.push_back(
        {s.g.add({Kind::param, std::move(sort), {}, t, name(s, ring ? "ring" : "p")}), ring, {}});
  }
  void output(Scope& s, ValueId v) {
    s.g.outputs.push_back({"y" + std::to_string(s.g.outputs.size()), v, {}});
  }
  static TensorType type(const Scope& s, ValueId v) { return s.g.type(v); }
  ValueId map(Scope& s, Fn fn, std::vector<ValueId> of, std::optional<TensorType> t = {}) {
    ir::Graph::NewOp op{Kind::map, ir::MapAttr{fn}, std::move(of), std::move(t)};
    op.outside = o_.outside && chance(o_.outside);
    return s.g.add(std::move(op));
  }
  ValueId any(Scope& s) { return s.pool[draw(s.pool.size())]; }
  /// One that is there, or a new constant.
  ValueId of_type(Scope& s, const TensorType& t) {
    std::vector<ValueId> found;
    for (ValueId v : s.pool) {
      if (s.g.type(v) == t) found.push_back(v);
    }
    if (!found.empty() && !chance(8)) return found[draw(found.size())];
    const double x = t.dtype == DType::b1 ? static_cast<double>(below(2))
                     : is_float(t.dtype)  ? 0.25 * static_cast<double>(below(9)) - 1
                                          : static_cast<double>(below(8)) - 2;
    return s.g.splat(t, x);
  }
  ValueId scalar(Scope& s, DType t) { return of_type(s, {t, {}}); }
  ValueId i32(Scope& s, int64_t x) { return s.g.splat({DType::i32, {}}, static_cast<double>(x)); }

  // ---- steps
  void step(Scope& s) {
    if (o_.hosts && chance(o_.hosts)) return host(s);
    // In a body regions are rarer, else most graphs would be very large.
    const size_t kinds = s.depth >= o_.depth ? 10 : s.depth == 0 ? 15 : 13;
    switch (draw(kinds)) {
      case 0:
      case 1:
      case 2:
        return elementwise(s);
      case 3:
        return reduce(s);
      case 4:
        return spread(s);
      case 5:
        return read(s);
      case 6:
      case 7:
        return write(s);
      case 8:
      case 9:
        return send(s);
      case 10:
      case 13:
        return branch(s);
      default:
        return loop(s);
    }
  }

  /// See control_functions(). Each result is as one of the arguments.
  void host(Scope& s) {
    ir::Graph::NewOp op{Kind::host};
    const bool pure = chance(3);
    op.attrs = ir::HostAttr{
        s.g.strings.intern((pure ? "pure" : "host") + std::to_string(next() % 1000)), pure};
    for (size_t n = 1 + draw(3); n > 0; --n) op.operands.push_back(any(s));
    std::vector<TensorType> types;
    for (size_t n = draw(3); n > 0; --n) {
      types.push_back(type(s, op.operands[types.size() % op.operands.size()]));
    }
    op.type = types.empty() ? TensorType{DType::i8, Shape{Dim(0)}} : types[0];
    if (types.size() > 1) op.more.assign(types.begin() + 1, types.end());
    const ValueId first = s.g.add(std::move(op));
    for (size_t i = 0; i < types.size(); ++i) {
      s.pool.push_back(ValueId{first.index + static_cast<uint32_t>(i)});
    }
  }

  void elementwise(Scope& s) {
    const ValueId a = any(s);
    const TensorType t = type(s, a);
    const ValueId b = of_type(s, t);
    ValueId made;
    if (t.dtype == DType::b1) {
      const Fn fns[] = {Fn::and_, Fn::or_, Fn::xor_};
      made = map(s, fns[draw(3)], {a, b});
    } else if (is_float(t.dtype)) {
      switch (draw(4)) {
        case 0:
          made = map(s, Fn::tanh, {map(s, Fn::sub, {a, b})});
          break;
        case 1:
          made = map(s, Fn::mul, {map(s, Fn::add, {a, b}), s.g.splat(t, 0.5)});
          break;
        case 2:
          made = map(s, Fn::neg, {map(s, Fn::min, {a, b})});
          break;
        default: {
          const TensorType truth{DType::b1, t.shape};
          made = map(s, Fn::select, {s.g.splat(truth, static_cast<double>(below(2))), a, b});
        }
      }
    } else {
      switch (draw(5)) {
        case 0:
          made = map(s, Fn::cast, {map(s, Fn::and_, {a, s.g.splat(t, 3)})},
                     TensorType{DType::f32, t.shape});
          break;
        case 1:
          made = map(s, Fn::lt, {a, b});
          break;
        case 2:
          made = map(s, Fn::select, {map(s, Fn::lt, {a, b}), b, a});
          break;
        default: {
          const Fn fns[] = {Fn::add, Fn::sub, Fn::mul, Fn::xor_, Fn::min};
          made = map(s, fns[draw(5)], {a, b});
        }
      }
    }
    s.pool.push_back(made);
  }

  void reduce(Scope& s) {
    const ValueId a = any(s);
    const TensorType t = type(s, a);
    if (t.shape.rank() == 0 || t.dtype == DType::b1) return elementwise(s);
    const uint32_t axis = 1u << draw(static_cast<size_t>(t.shape.rank()));
    ValueId made = s.g.add({Kind::reduce, ir::ReduceAttr{Fn::add, axis}, {a}});
    if (is_float(t.dtype)) made = map(s, Fn::tanh, {made});
    s.pool.push_back(made);
  }

  void spread(Scope& s) {
    const TensorType t = type(s, any(s));
    s.pool.push_back(s.g.add(
        {Kind::view, ir::ViewAttr{ir::ViewKind::broadcast, {}, {}}, {scalar(s, t.dtype)}, t}));
  }

  State* any_state(Scope& s, bool ring) {
    std::vector<State*> found;
    for (State& p : s.states) {
      if (p.ring == ring) found.push_back(&p);
    }
    return found.empty() ? nullptr : found[draw(found.size())];
  }
  static void advance(State& p, ValueId next) {
    p.before.push_back(p.version);
    p.version = next;
  }

  void read(Scope& s) {
    const State* p = any_state(s, false);
    if (!p) return elementwise(s);
    const bool old = !p->before.empty() && chance(3);
    const ValueId v = old ? p->before[draw(p->before.size())] : p->version;
    s.pool.push_back(s.g.add({Kind::read, {}, {v}}));
  }

  void write(Scope& s) {
    State* p = any_state(s, false);
    if (!p) return elementwise(s);
    const TensorType t = type(s, p->version);
    if (t.shape.rank() == 0 || chance(2)) {
      return advance(*p, s.g.add({Kind::assign, {}, {p->version, of_type(s, t)}}));
    }
    TensorType box{t.dtype, {}};
    for (Dim d : t.shape) box.shape.push_back(d.is_const() ? Dim(1 + below(d.value())) : d);
    std::vector<ValueId> operands{p->version, of_type(s, box)};
    for (int i = 0; i < t.shape.rank(); ++i) operands.push_back(scalar(s, DType::i32));
    advance(*p, s.g.add({Kind::update, {}, std::move(operands)}));
  }

  void send(Scope& s) {
    State* ring = any_state(s, true);
    if (!ring) return elementwise(s);
    ir::SendAttr a;
    a.kind = static_cast<ir::MessageKind>(draw(3));
    a.text = s.g.strings.intern("says " + std::to_string(next() % 1000));
    ValueId v = any(s);
    if (a.kind == ir::MessageKind::item) v = scalar(s, chance(2) ? DType::f32 : DType::i32);
    if (a.kind == ir::MessageKind::check) {
      v = map(s, Fn::cast, {map(s, Fn::lt, {scalar(s, DType::i32), scalar(s, DType::i32)})},
              TensorType{DType::i32, {}});
    }
    std::vector<ValueId> operands{ring->version, v};
    operands.insert(operands.end(), s.iterations.begin(), s.iterations.end());
    advance(*ring, s.g.add({Kind::send, a, std::move(operands), {}, name(s, "send")}));
  }

  // ---- regions
  /// What bodies see of their scope.
  struct Captured {
    std::vector<ValueId> values;
    std::vector<size_t> states;
  };
  Captured capture(Scope& s, std::vector<ValueId> values) {
    Captured c{std::move(values), {}};
    c.values.insert(c.values.end(), s.iterations.begin(), s.iterations.end());
    for (size_t more = draw(4); more > 0; --more) c.values.push_back(any(s));
    for (size_t p = 0; p < s.states.size(); ++p) {
      if (!chance(3)) c.states.push_back(p);
    }
    return c;
  }
  /// A scope with the arguments, after the counter's if it is a loop's. The numbers of the loops
  /// around stand from argument `iterations` on.
  Scope body(Scope& s, const std::string& called, const Captured& c, size_t iterations,
             bool counted) {
    Scope b{ir::Graph(called), {}, {}, {}, s.depth + 1};
    std::optional<ValueId> counter;
    if (counted) counter = argument(b, {DType::i32, {}}, "i");
    for (ValueId v : c.values) {
      TensorType t = type(s, v);
      b.g.carry_dims(s.g, t);
      b.pool.push_back(argument(b, t, "a"));
    }
    for (size_t i = 0; i < s.iterations.size(); ++i) b.iterations.push_back(b.pool[iterations + i]);
    if (counter) {
      b.pool.push_back(*counter);
      b.iterations.push_back(*counter);
    }
    for (size_t p : c.states) {
      TensorType t = type(s, s.states[p].version);
      b.g.carry_dims(s.g, t);
      param(b, t, s.g.op(ir::param_of(s.g, s.states[p].version)).attrs);
    }
    if (b.pool.empty()) b.pool.push_back(i32(b, below(5)));
    return b;
  }
  void fill(Scope& b) {
    for (size_t steps = chance(4) ? 0 : 1 + draw(5); steps > 0; --steps) step(b);
  }
  void output_of_type(const Scope& s, Scope& b, TensorType t) {
    b.g.carry_dims(s.g, t);
    output(b, of_type(b, t));
  }
  uint32_t take(Scope& s, Scope b) {
    s.g.bodies.push_back(std::move(b.g));
    return static_cast<uint32_t>(s.g.bodies.size() - 1);
  }
  ir::Lowering lowering(std::initializer_list<ir::Lowering> known) {
    return o_.lowerings ? known.begin()[draw(known.size())] : ir::Lowering::automatic;
  }
  void enter(Scope& s, ir::Attrs attrs, Kind kind, std::vector<ValueId> operands,
             const Captured& c) {
    const size_t first = operands.size();
    operands.insert(operands.end(), c.values.begin(), c.values.end());
    for (size_t p : c.states) operands.push_back(s.states[p].version);
    const ValueId made = s.g.add(
        {kind, std::move(attrs), std::move(operands), {}, chance(2) ? name(s, "r") : ir::StrId{}});
    const ir::Op op = s.g.def(made);
    for (uint32_t r = 0; r < op.results; ++r) {
      const ir::Value& v = s.g.value(op.result_at(r));
      if (!v.state && v.type.dtype != DType::i8) s.pool.push_back(op.result_at(r));
    }
    for (size_t i = 0; i < c.states.size(); ++i) {
      advance(s.states[c.states[i]], ir::next_version(s.g, op, first + c.values.size() + i));
    }
  }

  void branch(Scope& s) {
    const bool truth = chance(2);
    const ValueId index = scalar(s, truth ? DType::b1 : DType::i32);
    const Captured c = capture(s, {});
    std::vector<TensorType> results;
    for (size_t n = draw(4); n > 0; --n) results.push_back(type(s, any(s)));
    ir::BranchAttr a;
    for (size_t n = truth ? 2 : 1 + draw(4); n > 0; --n) {
      Scope b = body(s, "way" + std::to_string(n), c, 0, false);
      fill(b);
      for (const TensorType& t : results) output_of_type(s, b, t);
      a.bodies.push_back(take(s, std::move(b)));
    }
    using enum ir::Lowering;
    a.lowering = lowering({automatic, predicate, node, host});
    enter(s, a, Kind::branch, {index}, c);
  }

  void loop(Scope& s) {
    ir::LoopAttr a;
    std::vector<ValueId> carried;
    for (size_t n = draw(4); n > 0; --n) {
      carried.push_back(any(s));
      if (n > 1 && chance(2)) carried.push_back(of_type(s, type(s, carried.back())));
    }
    a.carried = static_cast<uint32_t>(carried.size());
    const Captured c = capture(s, carried);
    const bool endless = o_.endless && chance(4);
    if (!endless) a.limit = o_.symbolic && chance(2) ? s.g.dims.symbol("T") : Dim(below(6));
    Scope b = body(s, "body", c, carried.size(), true);
    fill(b);
    next_values(s, b, carried);
    for (size_t rows = endless ? 0 : draw(3); rows > 0; --rows) {
      const ValueId v = any(b);
      if (type(b, v).shape.rank() < 3) output(b, v);
    }
    a.body = take(s, std::move(b));
    if (endless || chance(2)) {
      Scope asks = body(s, "more", c, carried.size(), true);
      condition(asks);
      a.condition = take(s, std::move(asks));
    }
    using enum ir::Lowering;
    a.lowering = lowering({automatic, node, unroll, host});
    if (o_.lowerings) a.unroll = static_cast<uint32_t>(draw(4));
    enter(s, a, Kind::loop, {}, c);
  }

  /// What the carried values, the body's first arguments, become.
  void next_values(const Scope& s, Scope& b, const std::vector<ValueId>& carried) {
    const size_t first = 1;  // op 0 is the counter
    for (size_t k = 0; k < carried.size(); ++k) {
      const size_t other = k ^ 1;
      const bool swap = other < carried.size() && type(s, carried[k]) == type(s, carried[other]);
      if (swap && chance(2)) {
        output(b, b.g.ops()[first + other].result);
      } else {
        output_of_type(s, b, type(s, carried[k]));
      }
    }
  }

  /// i < (x and 3), or i < a small number, and maybe what else holds: false at the latest for 5.
  void condition(Scope& s) {
    const ValueId i = s.iterations.back();
    ValueId bound = i32(s, below(7) - 1);
    if (chance(2)) {
      ValueId x = scalar(s, DType::i32);
      if (const State* p = any_state(s, false);
          p && type(s, p->version) == TensorType{DType::i32, {}}) {
        x = s.g.add({Kind::read, {}, {p->version}});
      }
      bound = map(s, Fn::and_, {x, i32(s, 3)});
    }
    ValueId more = map(s, Fn::lt, {i, bound});
    if (chance(4)) more = map(s, Fn::and_, {more, scalar(s, DType::b1)});
    output(s, more);
  }

  RandomControlOptions o_;
  uint64_t state_;
};

inline ir::Graph random_control(uint64_t seed, const RandomControlOptions& options = {}) {
  return RandomControl(seed, options).run();
}

/// The functions that the host ops of the graph and its bodies name. Result i is argument i, or the
/// one so many after the first, in turn, the impure ones' from one element later at every call, and
/// floats as others, whose difference from the argument is not what rounding made of it. The impure
/// ones write down their names in `said`, with what they get of integers.
inline HostFunctions control_functions(const ir::Graph& graph, std::vector<std::string>& said) {
  HostFunctions functions;
  ir::for_each_graph(graph, [&](const ir::Graph& g) {
    for (const ir::Op& op : g.ops()) {
      const auto* attr = std::get_if<ir::HostAttr>(&op.attrs);
      if (!attr) continue;
      const std::string name(g.strings[attr->function]);
      functions[name] = [name, pure = attr->pure, calls = int64_t{0}, &said](
                            std::span<const HostTensor> in, std::span<HostTensor> out) mutable {
        if (!pure) ++calls;
        for (size_t i = 0; i < out.size(); ++i) {
          const HostTensor& from = in[i % in.size()];
          const int64_t n = from.numel();
          for (int64_t e = 0; e < out[i].numel(); ++e) {
            if (is_float(from.type.dtype)) {
              out[i].set(e, 0.5 * from.at((e + calls) % n) + 0.125);
            } else {
              out[i].set_int(e, from.int_at((e + calls) % n));
            }
          }
        }
        if (pure) return;
        std::string all = name;
        for (const HostTensor& t : in) {
          if (is_float(t.type.dtype)) continue;
          for (int64_t e = 0; e < t.numel(); ++e) all += " " + std::to_string(t.int_at(e));
        }
        said.push_back(std::move(all));
      };
    }
  });
  return functions;
}

}  // namespace braid::test
