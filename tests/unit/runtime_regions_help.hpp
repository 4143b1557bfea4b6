// Hand-made Programs with branches and loops for the runtime's tests, with the results they must
// give.
#pragma once

#include "runtime_help.hpp"

namespace braid::testing {

inline const TensorType kB1{DType::b1, Shape{}};
inline const TensorType kI32{DType::i32, Shape{}};

/// A kernel while it is made: slots in the order in which they are added.
struct MadeKernel {
  Kernel k;
  explicit MadeKernel(const std::string& symbol) {
    k.symbol = symbol;
    k.family = "row";
  }
  ir::Graph& g() { return k.body; }
  ir::ValueId input(const std::string& name, const TensorType& type) {
    k.args.push_back({name, Role::in, type});
    return g().add({ir::OpKind::input, {}, {}, type, g().strings.intern(name)});
  }
  ir::ValueId param(const std::string& name, const TensorType& type, ir::Attrs attrs, Role role) {
    k.args.push_back({name, role, type});
    return g().add({ir::OpKind::param, std::move(attrs), {}, type, g().strings.intern(name)});
  }
  ir::ValueId handle(const TensorType& type) {
    return param("h0", type, ir::HandleAttr{}, Role::out);
  }
  ir::ValueId map(Fn fn, std::vector<ir::ValueId> operands) {
    return g().add({ir::OpKind::map, ir::MapAttr{fn}, std::move(operands)});
  }
  void assign(ir::ValueId version, ir::ValueId value) {
    g().add({ir::OpKind::assign, {}, {version, value}});
  }
  void output(ir::ValueId value) {
    const std::string name = "r0";
    k.args.push_back({name, Role::out, g().type(value)});
    g().outputs.push_back({name, value, {}});
  }
};

/// h0 = a0.
inline Kernel set_kernel(const std::string& symbol, const TensorType& type) {
  MadeKernel m(symbol);
  const auto a = m.input("a0", type);
  m.assign(m.handle(type), a);
  return m.k;
}

/// r0 = a0, and h0 = whether that is above 0.
inline Kernel begin_kernel(const std::string& symbol) {
  MadeKernel m(symbol);
  const auto a = m.input("a0", kI32);
  const auto zero = m.g().splat(kI32, 0);
  m.assign(m.handle(kB1), m.map(Fn::gt, {a, zero}));
  m.output(m.map(Fn::add, {a, zero}));
  return m.k;
}

/// s0 = s0 - 1, and h0, or r0, = whether that is above 0.
inline Kernel count_kernel(const std::string& symbol, bool handle = true) {
  MadeKernel m(symbol);
  const auto s = m.param("s0", kI32, ir::LocalAttr{}, Role::inout);
  const auto old = m.g().add({ir::OpKind::read, {}, {s}});
  const auto less = m.map(Fn::sub, {old, m.g().splat(kI32, 1)});
  m.assign(s, less);
  const auto more = m.map(Fn::gt, {less, m.g().splat(kI32, 0)});
  if (handle) {
    m.assign(m.handle(kB1), more);
  } else {
    m.output(more);
  }
  return m.k;
}

/// s0 = fn(s0, a0), in place.
inline Kernel fold_kernel(Fn fn, const std::string& symbol) {
  MadeKernel m(symbol);
  const auto a = m.input("a0", floats());
  const auto s = m.param("s0", floats(), ir::LocalAttr{}, Role::inout);
  m.assign(s, m.map(fn, {m.g().add({ir::OpKind::read, {}, {s}}), a}));
  return m.k;
}

/// The same, run only if the flag in its last argument is `guard`.
inline Kernel guarded(Kernel k, const TensorType& flag, int32_t guard) {
  k.args.push_back({"flag", Role::in, flag});
  k.guard = guard;
  k.symbol += "_if_" + std::to_string(guard);
  return k;
}

/// A Program while it is made.
struct Made {
  Program p;
  explicit Made(const std::string& name) : p(empty_program(name)) {}

  uint32_t temp(const std::string& name, const TensorType& type) {
    const uint32_t b = add_buffer(p, name, Segment::temp, type, p.arena_bytes);
    p.arena_bytes += 256;
    return b;
  }
  uint32_t handle(const TensorType& type) { return add_buffer(p, "handle", Segment::handle, type); }
  uint32_t kernel(Kernel k) {
    p.kernels.push_back(std::move(k));
    return static_cast<uint32_t>(p.kernels.size() - 1);
  }
  uint32_t node(uint32_t body, uint32_t kernel, std::vector<uint32_t> views) {
    Node n;
    n.kernel = kernel;
    n.values = views;
    n.values_before.assign(views.size(), UINT32_MAX);
    n.args = std::move(views);
    n.ops = {"op" + std::to_string(p.bodies[body].nodes.size())};
    p.bodies[body].nodes.push_back(std::move(n));
    return static_cast<uint32_t>(p.bodies[body].nodes.size() - 1);
  }
  void edges(uint32_t body, const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
    for (const auto& [from, to] : pairs) p.bodies[body].edges.push_back({from, to});
  }
  /// A region with empty sides; of a node, with bodies.
  uint32_t region(Region::Kind kind, bool loop, uint32_t flag, uint32_t sides,
                  uint32_t outer = UINT32_MAX, uint32_t branch = 0) {
    const auto r = static_cast<uint32_t>(p.regions.size());
    Region region;
    region.kind = kind;
    region.loop = loop;
    region.flag = flag;
    region.sides = sides;
    region.region = outer;
    region.branch = branch;
    region.op = "region" + std::to_string(r);
    if (kind == Region::Kind::host) region.scripts.resize(sides);
    for (uint32_t s = 0; s < sides && kind == Region::Kind::node; ++s) {
      region.bodies.push_back(body(r, s));
    }
    p.regions.push_back(std::move(region));
    return r;
  }
  uint32_t body(uint32_t region, uint32_t side) {
    Body b;
    b.region = region;
    b.branch = side;
    p.bodies.push_back(std::move(b));
    return static_cast<uint32_t>(p.bodies.size() - 1);
  }
  uint32_t conditional(uint32_t body, uint32_t region) {
    const uint32_t n = node(body, kNoKernel, p.regions[region].args);
    p.bodies[body].nodes[n].region = region;
    p.bodies[body].nodes[n].ops = {p.regions[region].op};
    return n;
  }
};

/// n times: acc is m times increased by x, then multiplied by w. y = acc - x, where acc begins as
/// x + b. Kernels of the outermost body: 0 begins the count, 1 acc, 2 is the WHILE, 3 makes y.
inline Program loops() {
  Made m("loops");
  const uint32_t x = add_buffer(m.p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(m.p, "b", Segment::input, floats());
  const uint32_t n = add_buffer(m.p, "n", Segment::input, kI32);
  const uint32_t often = add_buffer(m.p, "m", Segment::input, kI32);
  const uint32_t w = add_buffer(m.p, "w", Segment::param, floats());
  const uint32_t y = add_buffer(m.p, "y", Segment::output, floats());
  const uint32_t acc = m.temp("acc", floats());
  const uint32_t outer = m.temp("outer", kI32), inner = m.temp("inner", kI32);
  const uint32_t more = m.handle(kB1), more_inner = m.handle(kB1);
  const uint32_t begin = m.kernel(begin_kernel("begin")), count = m.kernel(count_kernel("count"));
  const uint32_t add = m.kernel(binary_kernel(Fn::add, "row_add", floats()));
  const uint32_t sub = m.kernel(binary_kernel(Fn::sub, "row_sub", floats()));
  const uint32_t increase = m.kernel(fold_kernel(Fn::add, "increase"));
  const uint32_t scale = m.kernel(fold_kernel(Fn::mul, "scale"));
  const uint32_t r = m.region(Region::Kind::node, true, more, 1);
  const uint32_t around = m.p.regions[r].bodies[0];
  const uint32_t s = m.region(Region::Kind::node, true, more_inner, 1, r);
  const uint32_t inside = m.p.regions[s].bodies[0];

  m.node(0, begin, {n, more, outer});
  m.node(0, add, {x, b, acc});
  m.conditional(0, r);
  m.node(0, sub, {acc, x, y});
  m.edges(0, {{0, 2}, {1, 2}, {2, 3}});

  m.node(around, begin, {often, more_inner, inner});
  m.conditional(around, s);
  m.node(around, scale, {w, acc});
  m.node(around, count, {outer, more});
  m.edges(around, {{0, 1}, {1, 2}});

  m.node(inside, increase, {x, acc});
  m.node(inside, count, {inner, more_inner});
  return m.p;
}

inline std::map<std::string, HostTensor> with_ints(std::map<std::string, HostTensor> in,
                                                   const std::map<std::string, int>& ints,
                                                   const TensorType& type = kI32) {
  for (const auto& [name, value] : ints) {
    HostTensor t(type);
    t.set_int(0, value);
    in[name] = t;
  }
  return in;
}

inline std::vector<float> loops_y(const std::map<std::string, HostTensor>& in,
                                  const HostTensor& w) {
  std::vector<float> y;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(in.at("x").at(i));
    float acc = x + static_cast<float>(in.at("b").at(i));
    for (int64_t n = 0; n < in.at("n").int_at(0); ++n) {
      for (int64_t k = 0; k < in.at("m").int_at(0); ++k) acc += x;
      acc *= static_cast<float>(w.at(i));
    }
    y.push_back(acc - x);
  }
  return y;
}

/// t = fn(x, b), by the side that `which` selects: sub, add and then mul; y = t * x. A flag b1 has
/// two sides, an i32 three. Node 0 of the outermost body sets the handle, 1 is the IF or SWITCH.
inline Program branches(const TensorType& flag) {
  Made m("branches");
  const uint32_t x = add_buffer(m.p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(m.p, "b", Segment::input, floats());
  const uint32_t which = add_buffer(m.p, "which", Segment::input, flag);
  const uint32_t y = add_buffer(m.p, "y", Segment::output, floats());
  const uint32_t t = m.temp("t", floats()), handle = m.handle(flag);
  const uint32_t set = m.kernel(set_kernel("set", flag));
  const uint32_t mul = m.kernel(binary_kernel(Fn::mul, "row_mul", floats()));
  const uint32_t sides[] = {m.kernel(binary_kernel(Fn::sub, "row_sub", floats())),
                            m.kernel(binary_kernel(Fn::add, "row_add", floats())), mul};
  const uint32_t count = flag == kB1 ? 2 : 3;
  const uint32_t r = m.region(Region::Kind::node, false, handle, count);
  m.node(0, set, {which, handle});
  m.conditional(0, r);
  m.node(0, mul, {t, x, y});
  m.edges(0, {{0, 1}, {1, 2}});
  for (uint32_t s = 0; s < count; ++s) m.node(m.p.regions[r].bodies[s], sides[s], {x, b, t});
  return m.p;
}

/// The same by guarded kernels, all ready at once.
inline Program predicated(const TensorType& flag) {
  Made m("predicated");
  const uint32_t x = add_buffer(m.p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(m.p, "b", Segment::input, floats());
  const uint32_t which = add_buffer(m.p, "which", Segment::input, flag);
  const uint32_t y = add_buffer(m.p, "y", Segment::output, floats());
  const uint32_t t = m.temp("t", floats());
  const uint32_t count = flag == kB1 ? 2 : 3;
  const uint32_t r = m.region(Region::Kind::predicate, false, which, count);
  const Fn fns[] = {Fn::sub, Fn::add, Fn::mul};
  for (uint32_t s = 0; s < count; ++s) {
    const Kernel k = binary_kernel(fns[s], "row_" + std::string(info(fns[s]).name), floats());
    const auto guard = static_cast<int32_t>(s);
    const uint32_t n = m.node(0, m.kernel(guarded(k, flag, guard)), {x, b, t, which});
    m.p.bodies[0].nodes[n].region = r;
    m.p.bodies[0].nodes[n].branch = s;
  }
  m.node(0, m.kernel(binary_kernel(Fn::mul, "last", floats())), {t, x, y});
  for (uint32_t s = 0; s < count; ++s) m.edges(0, {{s, count}});
  return m.p;
}

inline std::vector<float> branches_y(const std::map<std::string, HostTensor>& in) {
  std::vector<float> y;
  const int64_t which = in.at("which").int_at(0);
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(in.at("x").at(i)), b = static_cast<float>(in.at("b").at(i));
    const float t = which == 0 ? x - b : which == 1 ? x + b : x * b;
    y.push_back(t * x);
  }
  return y;
}

/// n times, by the host: acc = fn(acc, x), where fn is add if `which`, and else the host function
/// `halve` of acc. y = acc * x; acc begins as x + b.
inline Program host_regions() {
  Made m("host_regions");
  const uint32_t x = add_buffer(m.p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(m.p, "b", Segment::input, floats());
  const uint32_t n = add_buffer(m.p, "n", Segment::input, kI32);
  const uint32_t which = add_buffer(m.p, "which", Segment::input, kB1);
  const uint32_t y = add_buffer(m.p, "y", Segment::output, floats());
  const uint32_t acc = m.temp("acc", floats()), left = m.temp("left", kI32);
  const uint32_t more = m.temp("more", kB1);
  const uint32_t add = m.kernel(binary_kernel(Fn::add, "row_add", floats()));
  const uint32_t mul = m.kernel(binary_kernel(Fn::mul, "row_mul", floats()));
  const uint32_t increase = m.kernel(fold_kernel(Fn::add, "increase"));
  const uint32_t count = m.kernel(count_kernel("count", false));
  MadeKernel start("start");  // r0 = a0 + 1
  start.output(start.map(Fn::add, {start.input("a0", kI32), start.g().splat(kI32, 1)}));
  const uint32_t begin = m.kernel(start.k);

  m.node(0, add, {x, b, acc});
  m.node(0, begin, {n, left});
  m.node(0, count, {left, more});
  m.edges(0, {{1, 2}});
  const uint32_t loop = m.region(Region::Kind::host, true, more, 1);
  const uint32_t branch = m.region(Region::Kind::host, false, which, 2, loop);
  const uint32_t ended = m.body(loop, 0), added = m.body(branch, 1), last = m.body(UINT32_MAX, 0);
  m.node(ended, count, {left, more});
  m.node(added, increase, {x, acc});
  m.p.bodies[added].stream = true;  // kernels launched one by one
  m.node(last, mul, {acc, x, y});
  Call call;
  call.function = "halve";
  call.args = call.results = {acc};
  m.p.calls.push_back(call);
  using Kind = Step::Kind;
  m.p.script = {{Kind::launch, 0}, {Kind::region, loop}, {Kind::launch, last}};
  m.p.regions[loop].scripts[0] = {{Kind::region, branch}, {Kind::launch, ended}};
  m.p.regions[branch].scripts[0] = {
      {Kind::read, 0}, {Kind::wait, 0}, {Kind::call, 0}, {Kind::write, 0}};
  m.p.regions[branch].scripts[1] = {{Kind::launch, added}};
  return m.p;
}

inline std::vector<float> host_regions_y(const std::map<std::string, HostTensor>& in) {
  std::vector<float> y;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(in.at("x").at(i));
    float acc = x + static_cast<float>(in.at("b").at(i));
    for (int64_t n = 0; n < in.at("n").int_at(0); ++n) {
      acc = in.at("which").int_at(0) != 0 ? acc + x : acc / 2;
    }
    y.push_back(acc * x);
  }
  return y;
}

}  // namespace braid::testing
