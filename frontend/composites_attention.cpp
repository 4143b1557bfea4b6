// Attention, by its definition in terms of the other ops. Scores and softmax of f16 and bf16 are
// f32.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/composites.hpp"

namespace braid {

using namespace composites;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The operands once they fit each other.
struct Heads {
  Tensor q, k, v;
  int rank;
  int64_t heads, kv_heads;
  int64_t size;  // of a head
  Dim queries, keys;
};

class Attention {
 public:
  Attention(Graph& graph, const AttentionOpts& options, const Where& where)
      : g_(graph), impl_(graph.impl()), o_(options), at_{where} {}

  /// Nothing after an error.
  std::optional<Heads> check(const In& q, const In& k, const In& v) {
    Heads h{g_.wrap(g_.unwrap(q)),
            g_.wrap(g_.unwrap(k)),
            g_.wrap(g_.unwrap(v)),
            0,
            o_.heads,
            o_.kv_heads.value_or(o_.heads),
            0,
            {},
            {}};
    operands_ = {h.q, h.k, h.v};
    h.rank = h.q.rank();
    const int rank = h.rank;
    if (rank < 2 || rank >= kMaxRank || h.k.rank() != rank || h.v.rank() != rank) {
      return refuse(fmt::format("q, k and v need the same rank, 2 to {}", kMaxRank - 1));
    }
    if (h.k.dtype() != h.q.dtype() || h.v.dtype() != h.q.dtype()) {
      return refuse("q, k and v need the same dtype");
    }
    const Shape sq = h.q.type().shape, sk = h.k.type().shape, sv = h.v.type().shape;
    const Dim features = sq[rank - 1];
    if (h.heads < 1 || !features.is_const() || features.value() % h.heads != 0) {
      return refuse(fmt::format("{} heads do not divide the last axis, {}", h.heads,
                                impl_.ir.dims.str(features)));
    }
    h.size = features.value() / h.heads;
    if (h.kv_heads < 1 || h.heads % h.kv_heads != 0) {
      return refuse(fmt::format("{} kv_heads do not divide {} heads", h.kv_heads, h.heads));
    }
    const Dim kv_features(h.kv_heads * h.size);
    if (sk[rank - 1] != kv_features || sv[rank - 1] != kv_features ||
        sk[rank - 2] != sv[rank - 2]) {
      return refuse(h.kv_heads == h.heads
                        ? "k must have q's last axis, and v k's shape"
                        : fmt::format("the last axis of k and v must be {}, {} heads of {}, and v "
                                      "must have k's shape",
                                      kv_features.value(), h.kv_heads, h.size));
    }
    for (int i = 0; i + 2 < rank; ++i) {
      for (Dim d : {sk[i], sv[i]}) {
        if (d != sq[i] && d != Dim(1)) {
          return refuse("the leading axes of k and v must be q's, or 1");
        }
      }
    }
    h.queries = sq[rank - 2];
    h.keys = sk[rank - 2];
    return h;
  }

  Tensor build(const Heads& h) {
    const DType wide = is_half(h.q.dtype()) ? f32 : h.q.dtype();
    const double scale = o_.scale.value_or(1 / std::sqrt(static_cast<double>(h.size)));
    const Tensor k = split(h, h.k, h.kv_heads), q = grouped(h, split(h, h.q, h.heads));
    const Tensor raw = matmul(at_(q), at_(k), {.tb = true, .out = wide});
    const Tensor scaled = at_(ungrouped(h, raw, h.keys)) * at_(scale);
    const auto seen = causal(h, scaled);
    if (!seen) return g_.wrap({});
    const auto scores = masked(*seen);
    if (!scores) return g_.wrap({});
    const Tensor exact = o_.mask.valid() ? softmax_or_zero(*scores) : softmax(at_(*scores));
    const Tensor weights = grouped(h, cast(at_(exact), h.v.dtype()));
    const Tensor mixed = matmul(at_(weights), at_(split(h, h.v, h.kv_heads)));
    return joined(h, ungrouped(h, mixed, Dim(h.size)));
  }

 private:
  std::nullopt_t refuse(const std::string& why) {
    std::vector<std::string> details;
    for (Tensor t : operands_) details.push_back(impl_.describe(g_.unwrap(at_(t))));
    impl_.fail("E0301", "attention: " + why, at_.where, std::move(details));
    return std::nullopt;
  }

  Tensor reshaped(Tensor t, const Shape& shape) {
    return g_.wrap(impl_.reshape(g_.unwrap(at_(t)), shape, at_.where));
  }

  /// q's leading axes, then these.
  static Shape with(const Heads& h, Tensor leading, std::initializer_list<Dim> last) {
    const Shape s = leading.type().shape;
    Shape shape(std::span(s.begin(), static_cast<size_t>(h.rank - 2)));
    for (Dim d : last) shape.push_back(d);
    return shape;
  }

  /// Swaps axes rank-2 and rank-1 of a tensor of rank `rank` + 1.
  Tensor swapped(const Heads& h, Tensor t) {
    std::vector<int> perm;
    for (int i = 0; i + 2 < h.rank; ++i) perm.push_back(i);
    perm.insert(perm.end(), {h.rank - 1, h.rank - 2, h.rank});
    return transpose(at_(t), perm);
  }

  /// [.., T, H * d] -> [.., H, T, d]
  Tensor split(const Heads& h, Tensor t, int64_t heads) {
    const Dim rows = t.type().shape[h.rank - 2];
    return swapped(h, reshaped(t, with(h, t, {rows, Dim(heads), Dim(h.size)})));
  }

  /// [.., H, T, x] -> [.., kv_heads, H / kv_heads * T, x]: query heads that share keys become one
  /// product with more rows.
  Tensor grouped(const Heads& h, Tensor t) {
    if (h.heads == h.kv_heads || g_.poisoned(t)) return t;
    const Dim rows = impl_.ir.dims.mul(Dim(h.heads / h.kv_heads), h.queries);
    const Shape s = t.type().shape;
    return reshaped(t, with(h, t, {Dim(h.kv_heads), rows, s[s.rank() - 1]}));
  }
  Tensor ungrouped(const Heads& h, Tensor t, Dim last) {
    if (h.heads == h.kv_heads || g_.poisoned(t)) return t;
    return reshaped(t, with(h, t, {Dim(h.heads), h.queries, last}));
  }

  /// [.., H, T, d] -> [.., T, H * d]
  Tensor joined(const Heads& h, Tensor t) {
    if (g_.poisoned(t)) return t;
    return reshaped(swapped(h, t), h.q.type().shape);
  }

  std::optional<Tensor> causal(const Heads& h, Tensor scores) {
    if (!o_.causal) return scores;
    // The last query sees every key: query i sees keys up to i + S - T.
    const Shape s{h.queries, h.keys};
    if (s[0] != s[1] && !(s[0].is_const() && s[1].is_const())) {
      return refuse("a causal mask needs equal or constant lengths");
    }
    if (s[0] != s[1] && s[0].value() > s[1].value()) {
      return refuse("with a causal mask and more queries than keys the first ones see no key");
    }
    const auto index = [&](int axis) {
      return g_.wrap(impl_.emit(ir::OpKind::iota, ir::AxisAttr{axis}, {}, TensorType{i32, s},
                                at_.where, "iota"));
    };
    const double ahead = s[0] == s[1] ? 0 : static_cast<double>(s[1].value() - s[0].value());
    const Tensor row = ahead == 0 ? index(0) : at_(index(0)) + at_(ahead);
    const Tensor seen = less_equal(at_(index(1)), at_(row));
    return select(at_(seen), at_(scores), at_(-kInf));
  }

  std::optional<Tensor> masked(Tensor scores) {
    if (!o_.mask.valid() || g_.poisoned(scores)) return scores;
    const ir::ValueId v = g_.unwrap(at_(o_.mask));
    if (!v.valid()) return std::nullopt;
    const TensorType have = impl_.ir.type(v);
    const Shape want = scores.type().shape;
    const int skip = want.rank() - have.shape.rank();
    bool fits = skip >= 0 && (have.dtype == b1 || is_float(have.dtype));
    for (int i = 0; fits && i < have.shape.rank(); ++i) {
      fits = have.shape[i] == want[i + skip] || have.shape[i] == Dim(1);
    }
    if (!fits) {
      operands_.push_back(o_.mask);
      return refuse(fmt::format("the mask must be b1 or floats that broadcast to {}",
                                impl_.str({scores.dtype(), want})));
    }
    const Tensor mask = g_.wrap(v);
    if (have.dtype == b1) return select(at_(mask), at_(scores), at_(-kInf));
    return at_(scores) + at_(cast(at_(mask), scores.dtype()));
  }

  /// The softmax over the last axis; where everything is -inf, zeros and not 0 / 0.
  Tensor softmax_or_zero(Tensor x) {
    const int last = x.rank() - 1;
    const Tensor most = max(at_(x), {.axes = {last}});
    const Tensor none = equal(at_(most), at_(-kInf));
    const Tensor top = select(at_(none), at_(0.0), at_(most));
    const Tensor shifted = at_(x) - at_(along(top, x, last, at_));
    const Tensor e = exp(at_(shifted));
    const Tensor total = sum(at_(e), {.axes = {last}});
    const Tensor divisor = select(at_(none), at_(1.0), at_(total));
    return at_(e) / at_(along(divisor, e, last, at_));
  }

  Graph& g_;
  Graph::Impl& impl_;
  const AttentionOpts& o_;
  At at_;
  std::vector<Tensor> operands_;  // shown with errors
};

}  // namespace

Tensor attention(In q, In k, In v, AttentionOpts o) {
  const Calling calling(graph_of(std::array{q}).impl(), "attention");
  for (const In* x : {&q, &k, &v}) {
    if (!need_floats(*x, "attention")) return poison(q);
  }
  std::vector<In> all{q, k, v};
  if (o.mask.valid()) all.emplace_back(o.mask, q.where);
  Graph& g = graph_of(all);
  Attention attention(g, o, q.where);
  const auto heads = attention.check(q, k, v);
  return heads ? attention.build(*heads) : g.wrap({});
}

}  // namespace braid
