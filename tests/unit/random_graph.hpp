// Random well-formed static graphs of all op kinds and dtypes, for differential tests.
//
// The same seed gives the same graph everywhere. Values stay tame if inputs and params are filled
// as random_tensor() does by default (floats within 6, integers in 0..7): a bound is carried along
// with every float and what exceeds it is squashed; log, sqrt, div and pow are guarded. What jumps
// (floor, comparisons, casts of floats to integers) is applied only to floats that no rounding
// between ops can change, so that runs which round differently stay close.
// Differences may cancel, so compare with an absolute tolerance beside the relative one.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "random_code.hpp"

namespace braid::test {

struct RandomGraphOptions {
  int ops = 40;  // about; without the constants and views that others need
  int max_rank = 4;
  int64_t max_extent = 6;
  int64_t max_numel = 512;
  bool state = true;    // params that are read, assigned and updated, also old versions after new
  bool empty = true;    // extents of 0
  bool places = true;   // names, places and repeats on some ops
  size_t host = 0;      // one step in so many is a call of a host function; 0: none
  size_t outside = 0;   // one op in so many is kept out of graphs, if it can be; 0: none
  size_t compact = 0;   // one step in so many is a compaction; 0: none
  size_t code = 0;      // one step in so many is a kernel or library call of the user's; 0: none
  bool library = true;  // of these, whether some are library calls
  std::vector<DType> dtypes = {DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64,
                               DType::i32, DType::i64, DType::i8,  DType::u8,   DType::b1};
};

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, RandomGraphOptions options)
      : o_(std::move(options)), state_(seed), g_("random") {
    state_ = next() ^ 0x5bd1e9955bd1e995;  // else neighbouring seeds share their numbers
  }

  ir::Graph run() {
    for (int i = 0; i < 4; ++i) extents_.push_back(extent());
    if (o_.state) {
      for (int i = 0; i < 3; ++i) {
        const TensorType t{dtype(), shape()};
        const ValueId v = g_.add({ir::OpKind::param, param_attr(), {}, t, name("p")});
        params_.push_back({{v, true, kInput}});
      }
    }
    for (int i = 0; i < 3; ++i) pool_.push_back(input({dtype(), shape()}));
    for (int i = 0; i < o_.ops; ++i) {
      if (const auto made = step()) pool_.push_back(*made);
    }
    const int outputs = 2 + static_cast<int>(below(4));
    for (int i = 0; i < outputs; ++i) {
      g_.outputs.push_back({"y" + std::to_string(i), any().v, place()});
    }
    if (o_.places && chance(3)) g_.repeats.push_back({"block", 2 + static_cast<int64_t>(below(9))});
    return std::move(g_);
  }

 private:
  using ValueId = ir::ValueId;

  struct Node {
    ValueId v;
    bool exact = true;  // integers always; floats that were never rounded between ops
    double bound = 0;   // of |x|, for floats
  };
  static constexpr double kInput = 6, kLimit = 16;

  // ---- chance
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> xs) {
    return xs.begin()[below(xs.size())];
  }
  DType dtype() { return o_.dtypes[below(o_.dtypes.size())]; }
  int64_t extent() {
    if (o_.empty && chance(40)) return 0;
    return chance(5) ? 1 : 1 + static_cast<int64_t>(below(static_cast<size_t>(o_.max_extent)));
  }
  Shape shape() {
    Shape s;
    const size_t rank = below(static_cast<size_t>(o_.max_rank) + 1);
    for (size_t i = 0; i < rank; ++i) {
      const int64_t e = chance(6) ? extent() : extents_[below(extents_.size())];
      if (s.numel() * e > o_.max_numel) break;
      s.push_back(Dim(e));
    }
    return s;
  }
  Node any() {
    const size_t recent = chance(3) ? pool_.size() : std::min<size_t>(pool_.size(), 8);
    return pool_[pool_.size() - 1 - below(recent)];
  }
  template <class Accept>
  std::optional<Node> any_of(Accept accept) {
    std::vector<const Node*> found;
    for (const Node& n : pool_) {
      if (accept(n)) found.push_back(&n);
    }
    if (found.empty()) return std::nullopt;
    return *found[below(found.size())];
  }
  ir::StrId name(std::string_view prefix) {
    return g_.strings.intern(std::string(prefix) + std::to_string(names_++));
  }
  ir::Loc place() {
    if (!o_.places || !chance(2)) return {};
    const auto line = static_cast<uint32_t>(1 + below(99));
    return {g_.strings.intern("model \"1\".toml"), line, 3, chance(2) ? 9u : 0u};
  }
  ir::ParamAttr param_attr() {
    return {one_of({ir::Init::normal, ir::Init::zeros, ir::Init::ones}),
            one_of({0.05, 1.0, 0.1234567})};
  }

  // ---- building
  /// A copy: references into the graph end with the next op.
  TensorType type(const Node& n) const { return g_.type(n.v); }
  Shape shape_of(const Node& n) const { return type(n).shape; }
  bool floats(const Node& n) const { return is_float(type(n).dtype); }
  Node make(ir::Graph::NewOp op, bool exact, double bound) {
    op.loc = place();
    if (o_.places && !op.name.valid() && chance(3)) op.name = name("block1/a\\b\u00e9/");
    const bool constant = op.kind == ir::OpKind::constant;
    if (o_.outside && ir::can_stand_outside(op.kind)) op.outside = chance(o_.outside);
    const ValueId v = g_.add(std::move(op));
    return {v, constant || exact || !is_float(g_.type(v).dtype), bound};
  }
  Node map(Fn fn, std::vector<Node> in, bool exact, double bound) {
    std::vector<ValueId> operands;
    for (const Node& n : in) operands.push_back(n.v);
    return make({ir::OpKind::map, ir::MapAttr{fn}, operands}, exact, bound);
  }
  Node input(TensorType t) { return make({ir::OpKind::input, {}, {}, t, name("x")}, true, kInput); }
  /// A runtime scalar.
  Node scalar(TensorType t) {
    const double x = is_float(t.dtype) ? one_of({0.5, -1.25, 3.0}) : static_cast<double>(below(2));
    return make({ir::OpKind::input, ir::ScalarAttr{x}, {}, t, name("s")}, true, kInput);
  }
  Node splat(TensorType t, double x) {
    Node n{g_.splat(t, x, {}, place()), true, std::fabs(x)};
    return n;
  }
  Node constant(TensorType t) {
    if (chance(2)) return splat(t, splat_value(t.dtype));
    HostTensor full = random_tensor(t, next(), "literal");
    const uint32_t literal = g_.add_literal({t, false, std::move(full.bytes)});
    return make({ir::OpKind::constant, ir::ConstAttr{literal}, {}, t}, true, kInput);
  }
  double splat_value(DType t) {
    if (is_float(t)) return one_of({0.5, -1.25, 2.0, 0.1, -0.3, 1.0});
    if (t == DType::b1) return static_cast<double>(below(2));
    return one_of({0.0, 1.0, 2.0, 3.0, 7.0, t == DType::u8 ? 200.0 : -5.0});
  }
  Node iota(TensorType t) {
    const auto axis = static_cast<int>(below(static_cast<size_t>(t.shape.rank())));
    return make({ir::OpKind::iota, ir::AxisAttr{axis}, {}, t}, true,
                static_cast<double>(t.shape[axis].value()));
  }
  /// Some value of the type, an old one if there is any.
  Node value_of(TensorType t) {
    if (!chance(5)) {
      if (const auto n = any_of([&](const Node& x) { return type(x) == t; })) return *n;
      if (const auto n = any_of([&](const Node& x) { return spreads(x, t); })) return spread(*n, t);
    }
    if (const auto n = any_of([&](const Node& x) { return shape_of(x) == t.shape; });
        n && chance(2)) {
      const Node c = cast(*n, t.dtype);
      if (type(c) == t) return c;
    }
    if (chance(3)) return chance(3) ? spread(scalar({t.dtype, {}}), t) : input(t);
    if (chance(4) && t.shape.rank() > 0 && t.dtype != DType::b1) return iota(t);
    return constant(t);
  }
  /// Whether the last axes of `t`, or all, take x by broadcasting.
  bool spreads(const Node& x, const TensorType& t) const {
    const Shape s = shape_of(x);
    const int skip = t.shape.rank() - s.rank();
    if (type(x).dtype != t.dtype || skip < 0) return false;
    for (int i = 0; i < s.rank(); ++i) {
      if (s[i] != t.shape[i + skip] && s[i] != Dim(1)) return false;
    }
    return true;
  }
  Node spread(const Node& x, const TensorType& t) {
    ir::ViewAttr a{ir::ViewKind::broadcast, {}, {}};
    const int rank = shape_of(x).rank();
    for (int i = 0; i < rank; ++i) a.a[static_cast<size_t>(i)] = i + t.shape.rank() - rank;
    return make({ir::OpKind::view, a, {x.v}, t}, x.exact, x.bound);
  }
  Node tame(const Node& n) {
    if (!floats(n) || n.bound <= kLimit) return n;
    if (chance(2)) return map(Fn::tanh, {n}, false, 1);
    return map(Fn::mul, {n, splat(type(n), kLimit / n.bound)}, false, kLimit);
  }
  /// |x| + c, away from 0.
  Node positive(const Node& n) {
    const Node a = map(Fn::abs, {n}, n.exact, n.bound);
    return map(Fn::add, {a, splat(type(n), 0.5)}, false, n.bound + 0.5);
  }
  Node cast(const Node& n, DType to) {
    const DType from = type(n).dtype;
    if (is_float(from) && !is_float(to) && !n.exact) return n;
    Node x = n;
    if (is_int(from) && is_float(to)) {
      const TensorType t = type(n);
      x = map(Fn::clamp, {n, splat(t, from == DType::u8 ? 0 : -8), splat(t, 8)}, true, 8);
    }
    const bool wider = !is_float(from) || from == to || to == DType::f64 ||
                       (to == DType::f32 && from != DType::f64);
    const double bound = is_float(from) ? n.bound : 8;
    return make({ir::OpKind::map, ir::MapAttr{Fn::cast}, {x.v}, TensorType{to, shape_of(n)}},
                x.exact && wider, bound);
  }

  // ---- steps
  std::optional<Node> step() {
    if (o_.host && chance(o_.host)) return host();
    if (o_.compact && chance(o_.compact)) return compact();
    if (o_.code && chance(o_.code)) return code();
    switch (below(o_.state ? 17 : 14)) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
      case 4:
        return binary();
      case 5:
        return ternary();
      case 6:
        return reduce();
      case 7:
        return dot();
      case 8:
      case 9:
        return view();
      case 10:
        return concat();
      case 11:
        return chance(2) ? gather() : scatter();
      case 12:
        return chance(2) ? value_of({dtype(), shape()}) : cast(any(), dtype());
      case 13:
        return random();
      case 14:
        return read();
      case 15:
        return assign();
      default:
        return update();
    }
  }

  /// A call of a function of its own, or of one that others call too; see host_functions_of(). Each
  /// result has the dtype of some argument, so that nothing is rounded that was not before.
  std::optional<Node> host() {
    ir::Graph::NewOp op{ir::OpKind::host};
    const bool pure = chance(2);
    const ir::StrId function =
        pure && chance(2) ? g_.strings.intern("pure") : name(pure ? "pure" : "host");
    op.attrs = ir::HostAttr{function, pure};
    std::vector<Node> in;
    for (size_t n = below(4); n > 0; --n) in.push_back(!in.empty() && chance(6) ? in[0] : any());
    if (in.empty() && chance(2)) in.push_back(value_of({dtype(), shape()}));
    Node all{{}, true, 2};
    std::vector<TensorType> types;
    for (size_t n = below(4); n > 0; --n) {
      const DType t = in.empty() ? dtype() : type(in[types.size() % in.size()]).dtype;
      types.push_back({t, chance(2) && !in.empty() ? shape_of(in[0]) : shape()});
    }
    for (const Node& n : in) {
      op.operands.push_back(n.v);
      all.exact = all.exact && n.exact;
      all.bound = std::max(all.bound, n.bound);
    }
    op.type = types.empty() ? TensorType{DType::i8, Shape{Dim(0)}} : types[0];
    if (types.size() > 1) op.more.assign(types.begin() + 1, types.end());
    const Node first = make(std::move(op), all.exact, all.bound);
    for (size_t i = 1; i < types.size(); ++i) {
      const ValueId v{first.v.index + static_cast<uint32_t>(i)};
      pool_.push_back({v, all.exact || !is_float(types[i].dtype), all.bound});
    }
    if (types.empty()) return std::nullopt;
    return first;
  }

  std::optional<Node> compact() {
    const auto rows = any_of([&](const Node& n) { return shape_of(n).rank() > 0; });
    if (!rows) return std::nullopt;
    const Node mask = value_of({DType::b1, Shape{shape_of(*rows)[0]}});
    const Node chosen =
        make({ir::OpKind::compact, {}, {mask.v, rows->v}}, rows->exact, rows->bound);
    pool_.push_back({{chosen.v.index + 1}, true, 0});  // the count
    return chosen;
  }

  /// A kernel or library call of the user's, each with a reference function of its own: see
  /// host_functions_of().
  std::optional<Node> code() {
    std::vector<ValueId> operands;
    std::vector<std::pair<std::vector<Node>*, size_t>> written;  // params, by operand
    Node all{{}, false, 2};
    for (size_t n = below(3); n > 0; --n) {
      const Node x = any();
      operands.push_back(x.v);
      all.bound = std::max(all.bound, x.bound);
    }
    for (std::vector<Node>& p : params_) {
      if (!chance(3)) continue;
      written.emplace_back(&p, operands.size());
      operands.push_back(p.back().v);
      all.bound = std::max(all.bound, p.back().bound);
    }
    std::vector<TensorType> types;
    for (size_t n = below(3) + (written.empty() ? 1 : 0); n > 0; --n) {
      types.push_back({DType::i32, shape()});
      if (!operands.empty()) types.back().dtype = g_.type(operands[below(operands.size())]).dtype;
    }
    ir::Graph::NewOp op{ir::OpKind::library, {}, operands};
    const ir::StrId reference = name("reference");
    if (chance(2) && o_.library) {
      op.attrs =
          ir::LibraryAttr{name("library"), Dim(static_cast<int64_t>(64 * below(3))), reference};
    } else {
      op.kind = ir::OpKind::kernel;
      op.attrs = random_kernel(g_, next(), operands.size(), types.size(), reference);
    }
    if (!types.empty()) op.type = types[0];
    if (types.size() > 1) op.more.assign(types.begin() + 1, types.end());
    const Node first = make(std::move(op), false, all.bound);
    const auto made = [&](ValueId v) { return Node{v, !is_float(g_.type(v).dtype), all.bound}; };
    const ir::Op& added = g_.def(first.v);
    for (const auto& [p, k] : written) p->push_back(made(ir::next_version(g_, added, k)));
    for (uint32_t i = 1; i < types.size(); ++i) pool_.push_back(made(added.result_at(i)));
    if (types.empty()) return std::nullopt;
    return first;
  }

  std::optional<Node> random() {
    const Shape s = shape();
    const TensorType t{DType::i64, s}, one{DType::i64, {}};
    const Node seed = spread(chance(2) ? scalar(one) : splat(one, 12345), t);
    const Node launch = spread(value_of(one), t);
    const Node index = chance(2) && s.rank() > 0 ? iota(t) : value_of(t);
    return map(Fn::random, {seed, launch, index}, true, 1);
  }

  std::optional<Node> unary() {
    const Node x = any();
    const double b = x.bound;
    if (type(x).dtype == DType::b1) return map(Fn::not_, {x}, true, 0);
    if (!floats(x)) {
      return map(one_of({Fn::neg, Fn::abs, Fn::relu, Fn::sign, Fn::not_}), {x}, true, 0);
    }
    const bool jumps = x.exact && chance(2);
    if (jumps) return map(one_of({Fn::floor, Fn::ceil, Fn::round, Fn::sign}), {x}, true, b + 1);
    switch (below(6)) {
      case 0:
        return map(one_of({Fn::neg, Fn::abs, Fn::relu}), {x}, x.exact, b);
      case 1:
        return map(one_of({Fn::tanh, Fn::sigmoid, Fn::erf, Fn::sin, Fn::cos}), {x}, false, 1);
      case 2:
        return map(one_of({Fn::gelu, Fn::gelu_tanh, Fn::silu}), {x}, false, b);
      case 3:
        return map(one_of({Fn::log, Fn::sqrt, Fn::rsqrt, Fn::reciprocal}), {positive(x)}, false,
                   std::max(2.0, std::sqrt(b + 1)));
      case 4:
        return tame(b <= 3 ? map(Fn::exp, {x}, false, 21)
                           : map(Fn::exp, {map(Fn::tanh, {x}, false, 1)}, false, 3));
      default:
        return map(Fn::relu, {x}, x.exact, b);
    }
  }

  std::optional<Node> binary() {
    const Node x = any();
    const Node y = value_of(type(x));
    const bool exact = x.exact && y.exact;
    const double b = x.bound, c = y.bound, most = std::max(b, c);
    if (type(x).dtype == DType::b1) {
      return map(one_of({Fn::and_, Fn::or_, Fn::xor_, Fn::eq, Fn::ne}), {x, y}, true, 0);
    }
    if (!floats(x)) {
      return map(
          one_of({Fn::add, Fn::sub, Fn::mul, Fn::div, Fn::mod, Fn::pow, Fn::min, Fn::max, Fn::eq,
                  Fn::ne, Fn::lt, Fn::le, Fn::gt, Fn::ge, Fn::and_, Fn::or_, Fn::xor_}),
          {x, y}, true, 0);
    }
    if (exact && chance(4)) {
      if (chance(4)) return map(Fn::mod, {x, splat(type(x), chance(2) ? 1.5 : -2)}, false, 2);
      return map(one_of({Fn::eq, Fn::ne, Fn::lt, Fn::le, Fn::gt, Fn::ge}), {x, y}, true, 0);
    }
    switch (below(6)) {
      case 0:
      case 1:
        return tame(map(Fn::add, {x, y}, false, b + c));
      case 2:
        if (x.v == y.v) return std::nullopt;  // nothing but 0
        return tame(map(Fn::sub, {x, y}, false, b + c));
      case 3:
        return tame(map(Fn::mul, {x, y}, false, b * c));
      case 4:
        if (chance(3)) {
          return tame(map(Fn::pow, {positive(x), map(Fn::tanh, {y}, false, 1)}, false,
                          std::max(2.0, b + 0.5)));
        }
        return tame(map(Fn::div, {x, positive(y)}, false, 2 * b));
      default:
        return map(one_of({Fn::min, Fn::max}), {x, y}, exact, most);
    }
  }

  std::optional<Node> ternary() {
    const Node x = any(), y = value_of(type(x));
    if (type(x).dtype == DType::b1 || chance(2)) {
      const Node p = value_of({DType::b1, shape_of(x)});
      return map(Fn::select, {p, x, y}, x.exact && y.exact, std::max(x.bound, y.bound));
    }
    const Node z = value_of(type(x));
    return map(Fn::clamp, {x, y, z}, x.exact && y.exact && z.exact,
               std::max({x.bound, y.bound, z.bound}));
  }

  std::optional<Node> reduce() {
    const Node x = any();
    const Shape s = shape_of(x);
    const auto axes = static_cast<uint32_t>(below(size_t{1} << s.rank()));
    double count = 1;
    for (int i = 0; i < s.rank(); ++i) {
      if (axes >> i & 1) count *= static_cast<double>(s[i].value());
    }
    const auto fold = [&](Fn fn, bool exact, double bound) {
      return make({ir::OpKind::reduce, ir::ReduceAttr{fn, axes}, {x.v}}, exact, bound);
    };
    if (type(x).dtype == DType::b1) return fold(one_of({Fn::and_, Fn::or_, Fn::xor_}), true, 0);
    if (!floats(x)) {
      return fold(one_of({Fn::add, Fn::mul, Fn::min, Fn::max, Fn::and_, Fn::or_, Fn::xor_}), true,
                  0);
    }
    // An empty maximum is -inf, which is not tame.
    if (count > 0 && chance(2)) return fold(one_of({Fn::min, Fn::max}), x.exact, x.bound);
    if (count <= 4 && x.bound <= 2)
      return fold(Fn::mul, false, std::pow(std::max(1.0, x.bound), 4));
    return tame(fold(Fn::add, false, count * x.bound));
  }

  std::optional<Node> dot() {
    const auto l = any_of(
        [&](const Node& n) { return shape_of(n).rank() >= 2 && type(n).dtype != DType::b1; });
    const Node x = l ? *l : input({dtype(), Shape{Dim(extents_[0]), Dim(extents_[1])}});
    const DType t = type(x).dtype;
    if (t == DType::b1) return std::nullopt;
    const bool ta = chance(2), tb = chance(2);
    Shape s = shape_of(x);
    const int rank = s.rank();
    const Dim k = s[ta ? rank - 2 : rank - 1], m = s[ta ? rank - 1 : rank - 2];
    const Dim n(extents_[below(extents_.size())]);
    Shape r = s;
    r[rank - 2] = tb ? n : k;
    r[rank - 1] = tb ? k : n;
    Shape out = s;
    out[rank - 2] = m;
    out[rank - 1] = n;
    if (r.numel() > o_.max_numel || out.numel() > o_.max_numel) return std::nullopt;
    const Node y = value_of({t, r});
    DType wide = t;
    if (chance(2)) {
      if (t == DType::f16 || t == DType::bf16) wide = DType::f32;
      if (is_int(t)) wide = DType::i64;
    }
    return tame(make({ir::OpKind::dot, ir::DotAttr{ta, tb}, {x.v, y.v}, TensorType{wide, out}},
                     false,
                     std::max<double>(1, static_cast<double>(k.value())) * x.bound * y.bound));
  }

  std::optional<Node> view() {
    const Node x = any();
    const Shape s = shape_of(x);
    const int rank = s.rank();
    ir::ViewAttr a{};
    Shape r;
    switch (below(4)) {
      case 0: {  // reshape: split off, merge or add an axis
        a.kind = ir::ViewKind::reshape;
        const int at = rank ? static_cast<int>(below(static_cast<size_t>(rank))) : 0;
        for (int i = 0; i < rank; ++i) {
          if (i == at && i + 1 < rank && chance(2)) {
            r.push_back(Dim(s[i].value() * s[i + 1].value()));
            ++i;
          } else if (i == at && rank < kMaxRank && s[i].value() % 2 == 0) {
            r.push_back(Dim(2));
            r.push_back(Dim(s[i].value() / 2));
          } else {
            r.push_back(s[i]);
          }
        }
        if (r.rank() < o_.max_rank && chance(3)) r.push_back(Dim(1));
        break;
      }
      case 1: {
        a.kind = ir::ViewKind::transpose;
        std::vector<int64_t> perm;
        for (int i = 0; i < rank; ++i) {
          perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(below(perm.size() + 1)), i);
        }
        std::copy(perm.begin(), perm.end(), a.a.begin());
        for (int64_t p : perm) r.push_back(s[static_cast<int>(p)]);
        break;
      }
      case 2: {  // broadcast: new axes anywhere, axes of 1 grow
        a.kind = ir::ViewKind::broadcast;
        const auto fits = [&](Dim d) {
          return r.rank() < kMaxRank && r.numel() * d.value() <= o_.max_numel;
        };
        for (int i = 0; i < rank; ++i) {
          const Dim fresh(extents_[below(extents_.size())]);
          if (r.rank() + rank - i < o_.max_rank && chance(2) && fits(fresh)) r.push_back(fresh);
          a.a[static_cast<size_t>(i)] = r.rank();
          r.push_back(s[i] == Dim(1) && chance(2) && fits(fresh) ? fresh : s[i]);
        }
        if (r.rank() < o_.max_rank && chance(2)) r.push_back(Dim(2));
        if (r.numel() > o_.max_numel) return std::nullopt;
        break;
      }
      default: {
        a.kind = ir::ViewKind::slice;
        for (int i = 0; i < rank; ++i) {
          const auto n = static_cast<size_t>(s[i].value());
          const auto start = static_cast<int64_t>(below(n + 1));
          const int64_t step = chance(2) ? 1 : 1 + static_cast<int64_t>(below(3));
          int64_t count = (s[i].value() - start + step - 1) / step;
          if (!(o_.empty && chance(20)) && count == 0 && n > 0) {
            a.a[static_cast<size_t>(i)] = 0;
            count = 1;
          } else {
            a.a[static_cast<size_t>(i)] = start;
          }
          a.b[static_cast<size_t>(i)] = step;
          r.push_back(Dim(count));
        }
        break;
      }
    }
    return make({ir::OpKind::view, a, {x.v}, TensorType{type(x).dtype, r}}, x.exact, x.bound);
  }

  std::optional<Node> concat() {
    const Node x = any();
    const Shape s = shape_of(x);
    if (s.rank() == 0) return std::nullopt;
    const auto axis = static_cast<int>(below(static_cast<size_t>(s.rank())));
    std::vector<ValueId> in{x.v};
    bool exact = x.exact;
    double bound = x.bound;
    int64_t total = s[axis].value();
    const size_t more = below(3);
    for (size_t i = 0; i < more; ++i) {
      Shape t = s;
      t[axis] = Dim(extents_[below(extents_.size())]);
      total += t[axis].value();
      Shape whole = s;
      whole[axis] = Dim(total);
      if (whole.numel() > o_.max_numel) break;
      const Node y = value_of({type(x).dtype, t});
      in.push_back(y.v);
      exact = exact && y.exact;
      bound = std::max(bound, y.bound);
    }
    return make({ir::OpKind::concat, ir::AxisAttr{axis}, in}, exact, bound);
  }

  std::optional<Node> gather() {
    const Node x = any();
    const Shape s = shape_of(x);
    if (s.rank() == 0) return std::nullopt;
    const auto axis = static_cast<int>(below(static_cast<size_t>(s.rank())));
    const auto found = any_of([&](const Node& n) {
      return is_index(n) && shape_of(n).rank() + s.rank() - 1 <= o_.max_rank;
    });
    const Node at = found && !chance(3) ? *found
                                        : constant({one_of({DType::i32, DType::i64}),
                                                    chance(2) ? Shape{} : Shape{Dim(extents_[0])}});
    Shape r;
    for (int i = 0; i < axis; ++i) r.push_back(s[i]);
    for (Dim d : shape_of(at)) r.push_back(d);
    for (int i = axis + 1; i < s.rank(); ++i) r.push_back(s[i]);
    if (r.numel() > o_.max_numel || (s[axis] == Dim(0) && r.numel() != 0)) return std::nullopt;
    return make({ir::OpKind::gather, ir::AxisAttr{axis}, {x.v, at.v}}, x.exact, x.bound);
  }

  std::optional<Node> scatter() {
    const Node x = any();
    const TensorType t = type(x);
    const Shape s = t.shape;
    if (s.rank() == 0) return std::nullopt;
    const auto axis = static_cast<int>(below(static_cast<size_t>(s.rank())));
    const auto found = any_of([&](const Node& n) {
      return is_index(n) && shape_of(n).rank() + s.rank() - 1 <= o_.max_rank;
    });
    const Node at = found && !chance(3) ? *found
                                        : constant({one_of({DType::i32, DType::i64}),
                                                    chance(2) ? Shape{} : Shape{Dim(extents_[0])}});
    Shape rows;
    for (int i = 0; i < axis; ++i) rows.push_back(s[i]);
    for (Dim d : shape_of(at)) rows.push_back(d);
    for (int i = axis + 1; i < s.rank(); ++i) rows.push_back(s[i]);
    if (rows.numel() > o_.max_numel) return std::nullopt;
    const Node u = value_of({t.dtype, rows});
    std::optional<Fn> fn;
    if (t.dtype == DType::b1) {
      if (chance(2)) fn = one_of({Fn::and_, Fn::or_, Fn::xor_});
    } else if (is_float(t.dtype)) {
      if (chance(2)) fn = one_of({Fn::add, Fn::min, Fn::max});
    } else if (!chance(4)) {
      fn = one_of({Fn::add, Fn::mul, Fn::min, Fn::max, Fn::and_, Fn::or_, Fn::xor_});
    }
    const bool adds = fn == Fn::add;
    const double most = adds ? x.bound + u.bound * static_cast<double>(shape_of(at).numel())
                             : std::max(x.bound, u.bound);
    return tame(make({ir::OpKind::scatter, ir::ScatterAttr{axis, fn}, {x.v, at.v, u.v}},
                     x.exact && u.exact && !adds, most));
  }

  bool is_index(const Node& n) const {
    return type(n).dtype == DType::i32 || type(n).dtype == DType::i64;
  }

  // ---- state: each param is its versions, the newest last
  std::optional<Node> read() {
    const std::vector<Node>& p = params_[below(params_.size())];
    const Node& n = chance(4) ? p[below(p.size())] : p.back();
    return make({ir::OpKind::read, {}, {n.v}}, n.exact, n.bound);
  }
  std::optional<Node> assign() {
    std::vector<Node>& p = params_[below(params_.size())];
    const Node x = value_of(type(p.back()));
    p.push_back(make({ir::OpKind::assign, {}, {p.back().v, x.v}}, x.exact, x.bound));
    return std::nullopt;
  }
  std::optional<Node> update() {
    std::vector<Node>& p = params_[below(params_.size())];
    Shape box;
    for (Dim d : shape_of(p.back())) {
      box.push_back(
          chance(2) ? d : Dim(static_cast<int64_t>(below(static_cast<size_t>(d.value()) + 1))));
    }
    if (!o_.empty && box.numel() == 0) return std::nullopt;
    const Node x = value_of({type(p.back()).dtype, box});
    std::vector<ValueId> in{p.back().v, x.v};
    for (int i = 0; i < box.rank(); ++i) {
      const auto start =
          any_of([&](const Node& n) { return is_index(n) && shape_of(n).rank() == 0; });
      const TensorType scalar{one_of({DType::i32, DType::i64}), {}};
      in.push_back(start && chance(2) ? start->v : splat(scalar, one_of({0.0, 1.0, -3.0, 99.0})).v);
    }
    p.push_back(make({ir::OpKind::update, {}, in}, x.exact && p.back().exact,
                     std::max(x.bound, p.back().bound)));
    return std::nullopt;
  }

  RandomGraphOptions o_;
  uint64_t state_;
  ir::Graph g_;
  std::vector<int64_t> extents_;
  std::vector<Node> pool_;
  std::vector<std::vector<Node>> params_;
  size_t names_ = 0;
};

inline ir::Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {}) {
  return RandomGraph(seed, options).run();
}

}  // namespace braid::test
