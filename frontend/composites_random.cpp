// Random numbers from counters: draws of the scalar function `random`, indexed by the element.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "frontend/composites.hpp"

namespace braid {

using namespace composites;

namespace {

/// FNV-1a: the seed of an op that is given none.
int64_t seed_of(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<int64_t>(h);
}

/// What the draws of one op share: the seed and the launch. Alive while the op is built, inside
/// its scope.
class Draws {
 public:
  Draws(Graph& g, std::string_view name, std::string_view op, std::optional<int64_t> seed,
        Tensor counter, const Where& where)
      : g_(g), impl_(g.impl()), at_{where}, scope_(g.scope(name)) {
    seed_ = constant(seed.value_or(seed_of(impl_.scope)));
    launch_ = counter.valid() ? given(counter, op) : counted();
  }

  /// f32 in [0, 1): the draws of index times * i + plus for element i.
  Tensor uniform(const Shape& shape, double times = 1, double plus = 0) {
    if (g_.poisoned(launch_)) return launch_;
    Dim n(1);
    for (Dim d : shape) n = impl_.ir.dims.mul(n, d);
    const ir::ValueId flat =
        impl_.emit(ir::OpKind::iota, ir::AxisAttr{0}, {}, TensorType{i64, {n}}, at_.where, "iota");
    Tensor index = g_.wrap(impl_.reshape(flat, shape, at_.where));
    if (times != 1) index = at_(index) * at_(times);
    if (plus != 0) index = at_(index) + at_(plus);
    return apply(Fn::random, {at_(seed_), at_(launch_), at_(index)});
  }

 private:
  /// Exact, where a number among operands would travel as a double.
  Tensor constant(int64_t x) {
    HostTensor one(TensorType{i64, {}});
    one.set_int(0, x);
    const uint32_t literal = impl_.ir.add_literal({one.type, true, one.bytes});
    return g_.wrap(impl_.emit(ir::OpKind::constant, ir::ConstAttr{literal}, {}, one.type, at_.where,
                              "constant"));
  }

  Tensor given(Tensor counter, std::string_view op) {
    const ir::ValueId v = g_.unwrap(at_(counter));
    if (!v.valid()) return g_.wrap({});
    if (impl_.ir.type(v) == TensorType{i64, {}}) return g_.wrap(v);
    impl_.fail("E0301", fmt::format("{}: the counter must be i64[]", op), at_.where,
               {impl_.describe(v)});
    return g_.wrap({});
  }

  /// The number of launches before this one.
  Tensor counted() {
    const Tensor launches = g_.param("launches", {i64, {}}, {.init = ir::Init::zeros}, at_.where);
    if (g_.poisoned(launches)) return launches;
    const Tensor before = g_.read(launches, at_.where);
    g_.assign(launches, at_(at_(before) + at_(1.0)));
    return before;
  }

  Graph& g_;
  Graph::Impl& impl_;
  At at_;
  Scope scope_;
  Tensor seed_, launch_;
};

/// The result's type, which must be of floats.
std::optional<TensorType> float_type(Graph& g, const TypeArg& type, std::string_view op,
                                     const Where& w) {
  if (is_float(type.dtype)) return g.impl().type_of(type, w);
  g.impl().fail("E0303", fmt::format("{} makes floats, not {}", op, name_of(type.dtype)), w);
  return std::nullopt;
}

bool is_share(Graph& g, double x, std::string_view what, const Where& w) {
  if (x >= 0 && x <= 1) return true;
  g.impl().fail("E0303", fmt::format("{} lies between 0 and 1: {} does not", what, x), w);
  return false;
}

/// Gives the result the op's name, outside its scope.
Tensor named(Tensor t, std::string_view name) { return name.empty() ? t : t.named(name); }

}  // namespace

Tensor random_uniform(Graph& g, std::string_view name, TypeArg type, UniformOpts o, Where w) {
  const auto t = float_type(g, type, "random_uniform", w);
  if (!t) return g.wrap({});
  if (!(o.low <= o.high) || !std::isfinite(o.high - o.low)) {
    g.impl().fail("E0303",
                  fmt::format("random_uniform: low and high are finite and low is not above high: "
                              "not {} and {}",
                              o.low, o.high),
                  w);
    return g.wrap({});
  }
  Tensor u;
  {
    Draws draws(g, name, "random_uniform", o.seed, o.counter, w);
    const At at{w};
    u = cast(at(draws.uniform(t->shape)), t->dtype == f64 ? f64 : f32);
    if (o.high - o.low != 1) u = at(u) * at(o.high - o.low);
    if (o.low != 0) u = at(u) + at(o.low);
    u = cast(at(u), t->dtype);
  }
  return named(u, name);
}

Tensor random_normal(Graph& g, std::string_view name, TypeArg type, RandomOpts o, Where w) {
  const auto t = float_type(g, type, "random_normal", w);
  if (!t) return g.wrap({});
  Tensor x;
  {
    Draws draws(g, name, "random_normal", o.seed, o.counter, w);
    const At at{w};
    const DType wide = t->dtype == f64 ? f64 : f32;
    const Tensor u = cast(at(draws.uniform(t->shape, 2)), wide),
                 v = cast(at(draws.uniform(t->shape, 2, 1)), wide);
    // 1 - u is never 0.
    const Tensor radius = sqrt(at(at(log(at(at(1.0) - at(u)))) * at(-2.0)));
    x = at(radius) * at(cos(at(at(v) * at(2 * std::numbers::pi))));
    x = cast(at(x), t->dtype);
  }
  return named(x, name);
}

Tensor random_bernoulli(Graph& g, std::string_view name, std::vector<DimArg> shape, double p,
                        RandomOpts o, Where w) {
  const std::optional<Shape> s = g.impl().shape_of(shape, w);
  if (!s || !is_share(g, p, "random_bernoulli: p", w)) return g.wrap({});
  Tensor hit;
  {
    Draws draws(g, name, "random_bernoulli", o.seed, o.counter, w);
    const At at{w};
    hit = less(at(draws.uniform(*s)), at(p));
  }
  return named(hit, name);
}

Tensor dropout(Graph& g, std::string_view name, In x, double rate, RandomOpts o) {
  if (!need_floats(x, "dropout") || !is_share(g, rate, "dropout: the rate", x.where)) {
    return g.wrap({});
  }
  const Tensor t = g.wrap(g.unwrap(x));
  Tensor y;
  {
    Draws draws(g, name, "dropout", o.seed, o.counter, x.where);
    const At at{x.where};
    const Tensor kept = greater_equal(at(draws.uniform(t.type().shape)), at(rate));
    const double scale = rate == 1 ? 1 : 1 / (1 - rate);
    const Tensor larger = cast(at(at(widened(t, at)) * at(scale)), t.dtype());
    y = select(at(kept), at(larger), at(0.0));
  }
  return named(y, name);
}

}  // namespace braid
