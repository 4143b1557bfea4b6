// Ops that arrange elements, in terms of concat, slice and reshape.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/composites.hpp"

namespace braid {

using namespace composites;

Tensor pad(In x, std::vector<int64_t> low, std::vector<int64_t> high, double value) {
  const Calling calling(graph_of(std::array{x}).impl(), "pad");
  const At at{x.where};
  Graph& g = graph_of(std::array{x});
  Graph::Impl& impl = g.impl();
  const ir::ValueId v = g.unwrap(x);
  if (!v.valid()) return g.wrap({});
  const auto rank = static_cast<size_t>(impl.ir.type(v).shape.rank());
  if (low.size() != rank || high.size() != rank) {
    impl.fail("E0302",
              fmt::format("pad: low and high need {} numbers, one for each axis, not {} and {}",
                          rank, low.size(), high.size()),
              x.where, {impl.describe(v)});
    return g.wrap({});
  }
  for (const std::vector<int64_t>* side : {&low, &high}) {
    for (int64_t n : *side) {
      if (n >= 0) continue;
      impl.fail("E0303", fmt::format("pad: {} elements cannot be added: use slice to cut", n),
                x.where, {impl.describe(v)});
      return g.wrap({});
    }
  }
  const auto is_zero = [](int64_t n) { return n == 0; };
  if (std::all_of(low.begin(), low.end(), is_zero) &&
      std::all_of(high.begin(), high.end(), is_zero)) {
    return g.wrap(v);
  }
  Tensor t = g.wrap(v);
  const ir::ValueId filler = impl.number(value, t.dtype(), {}, x.where);
  if (!filler.valid()) return g.wrap({});
  for (size_t i = 0; i < rank && !g.poisoned(t); ++i) {
    const int axis = static_cast<int>(i);
    const auto fill = [&](int64_t n) {
      Shape shape = t.type().shape;
      shape[axis] = Dim(n);
      return at(g.wrap(impl.broadcast_last(filler, shape, x.where)));
    };
    std::vector<In> parts;
    if (low[i] > 0) parts.push_back(fill(low[i]));
    parts.push_back(at(t));
    if (high[i] > 0) parts.push_back(fill(high[i]));
    if (parts.size() > 1) t = concat(parts, axis);
  }
  return t;
}

Tensor stack(std::vector<In> xs, int axis) {
  Graph& g = graph_of(xs);
  Graph::Impl& impl = g.impl();
  std::vector<ir::ValueId> values;
  for (const In& x : xs) {
    values.push_back(g.unwrap(x));
    if (!values.back().valid()) return g.wrap({});
  }
  const TensorType first = impl.ir.type(values[0]);
  for (ir::ValueId v : values) {
    if (impl.ir.type(v) == first) continue;
    impl.fail("E0301", "stack: the operands need one shape and dtype", xs[0].where,
              {impl.describe(values[0]), impl.describe(v)});
    return g.wrap({});
  }
  const auto a = impl.axis_of(axis, first.shape.rank() + 1, "stack", xs[0].where);
  if (!a) return g.wrap({});
  std::vector<In> rows;
  for (size_t i = 0; i < xs.size(); ++i) {
    rows.emplace_back(unsqueeze(In(g.wrap(values[i]), xs[i].where), *a), xs[i].where);
  }
  return concat(rows, *a);
}

std::vector<Tensor> split(In x, int parts, int axis) {
  Graph& g = graph_of(std::array{x});
  Graph::Impl& impl = g.impl();
  const std::vector<Tensor> poisons(static_cast<size_t>(std::max(parts, 0)), g.wrap({}));
  const ir::ValueId v = g.unwrap(x);
  if (!v.valid()) return poisons;
  const Shape shape = impl.ir.type(v).shape;
  const auto a = impl.axis_of(axis, shape.rank(), "split", x.where);
  if (!a) return poisons;
  const Dim extent = shape[*a];
  if (parts < 1 || !extent.is_const() || extent.value() % parts != 0) {
    impl.fail("E0303",
              fmt::format("split: axis {} has {} elements, which make no {} equal parts", *a,
                          impl.ir.dims.str(extent), parts),
              x.where, {impl.describe(v)});
    return poisons;
  }
  const int64_t size = extent.value() / parts;
  std::vector<Tensor> out;
  for (int i = 0; i < parts; ++i) {
    out.push_back(
        slice(In(g.wrap(v), x.where), {.axis = *a, .start = i * size, .stop = (i + 1) * size}));
  }
  return out;
}

Tensor squeeze(In x, std::vector<int> axes) {
  const Calling calling(graph_of(std::array{x}).impl(), "squeeze");
  Graph& g = graph_of(std::array{x});
  Graph::Impl& impl = g.impl();
  const ir::ValueId v = g.unwrap(x);
  if (!v.valid()) return g.wrap({});
  const Shape shape = impl.ir.type(v).shape;
  uint32_t gone = 0;
  for (int axis : axes) {
    const auto a = impl.axis_of(axis, shape.rank(), "squeeze", x.where);
    if (!a) return g.wrap({});
    if (shape[*a] != Dim(1)) {
      impl.fail(
          "E0301",
          fmt::format("squeeze: axis {} has the extent {}, not 1", *a, impl.ir.dims.str(shape[*a])),
          x.where, {impl.describe(v)});
      return g.wrap({});
    }
    gone |= 1u << *a;
  }
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!(gone >> i & 1)) rest.push_back(shape[i]);
  }
  return g.wrap(impl.reshape(v, rest, x.where));
}

Tensor unsqueeze(In x, int axis) {
  const Calling calling(graph_of(std::array{x}).impl(), "unsqueeze");
  Graph& g = graph_of(std::array{x});
  Graph::Impl& impl = g.impl();
  const ir::ValueId v = g.unwrap(x);
  if (!v.valid()) return g.wrap({});
  const Shape shape = impl.ir.type(v).shape;
  if (shape.rank() == kMaxRank) {
    impl.fail("E0301", fmt::format("unsqueeze: a tensor has at most {} axes", kMaxRank), x.where,
              {impl.describe(v)});
    return g.wrap({});
  }
  const auto a = impl.axis_of(axis, shape.rank() + 1, "unsqueeze", x.where);
  if (!a) return g.wrap({});
  Shape longer;
  for (int i = 0; i <= shape.rank(); ++i) {
    longer.push_back(i == *a ? Dim(1) : shape[i < *a ? i : i - 1]);
  }
  return g.wrap(impl.reshape(v, longer, x.where));
}

}  // namespace braid
