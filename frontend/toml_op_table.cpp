// The table of the ops of a model file: scalar functions by the names of the scalar table, and the
// builder's other functions by hand.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/selection.hpp"
#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

using K = AttrKind;

ReduceOpts reduce_opts(const OpCall& c) {
  ReduceOpts o;
  o.axes = c.get("axes", o.axes);
  o.keep = c.get("keep", false);
  if (c.in.size() > 1) o.count = std::get<Tensor>(c.in[1].value);
  return o;
}

OpSpec arg_op(std::string name, Tensor (*build)(In, ArgOpts)) {
  return {std::move(name),
          1,
          1,
          false,
          {{"axes", K::integers}, {"keep", K::boolean}, {"dtype", K::dtype}},
          [build](const OpCall& c) {
            const ReduceOpts o = reduce_opts(c);
            return build(c.in[0], {o.axes, o.keep, c.get("dtype", i32)});
          }};
}

OpSpec reduce_op(std::string name, Tensor (*build)(In, ReduceOpts)) {
  return {std::move(name),
          1,
          2,
          false,
          {{"axes", K::integers}, {"keep", K::boolean}},
          [build](const OpCall& c) { return build(c.in[0], reduce_opts(c)); }};
}

MatmulOpts matmul_opts(const OpCall& c) {
  MatmulOpts o;
  o.ta = c.get("ta", false);
  o.tb = c.get("tb", false);
  if (c.attrs.count("out_dtype") > 0) o.out = c.get("out_dtype", f32);
  return o;
}

int axis_of(const OpCall& c, int64_t otherwise) {
  return static_cast<int>(c.get("axis", otherwise));
}

TypeArg type_of(const OpCall& c) {
  return {c.get("dtype", f32), c.get("shape", std::vector<DimArg>{})};
}

Tensor build_slice(const OpCall& c) {
  SliceOpts o;
  o.axis = axis_of(c, 0);
  o.start = c.get("start", int64_t{0});
  if (c.attrs.count("stop") > 0) o.stop = c.get("stop", int64_t{0});
  o.step = c.get("step", int64_t{1});
  return slice(c.in[0], o);
}

Tensor build_attention(const OpCall& c) {
  AttentionOpts o;
  o.heads = static_cast<int>(c.get("heads", int64_t{1}));
  o.causal = c.get("causal", false);
  if (c.attrs.count("scale") > 0) o.scale = c.get("scale", 1.0);
  if (c.attrs.count("kv_heads") > 0) {
    o.kv_heads = static_cast<int>(c.get("kv_heads", int64_t{1}));
  }
  if (c.in.size() > 3) o.mask = std::get<Tensor>(c.in[3].value);
  return attention(c.in[0], c.in[1], c.in[2], o);
}

Tensor build_pad(const OpCall& c) {
  const auto list = [&](const char* name) {
    const std::vector<int> given = c.get(name, std::vector<int>{});
    return std::vector<int64_t>(given.begin(), given.end());
  };
  return pad(c.in[0], list("low"), list("high"), c.get("value", 0.0));
}

Tensor build_linear(const OpCall& c) {
  const Tensor y = matmul(c.in[0], c.in[1], matmul_opts(c));
  return c.in.size() < 3 ? y : apply(Fn::add, {In(y, c.where), c.in[2]});
}

std::optional<int64_t> seed_of(const OpCall& c) {
  if (c.attrs.count("seed") == 0) return std::nullopt;
  return c.get("seed", int64_t{0});
}

/// The counter that may follow the other operands.
Tensor counter_of(const OpCall& c, size_t others) {
  return c.in.size() > others ? std::get<Tensor>(c.in[others].value) : Tensor();
}

OpSpec scatter_op(std::string name, std::optional<Fn> combine) {
  return {std::move(name), 3, 3, false, {{"axis", K::integer}}, [combine](const OpCall& c) {
            return scatter(c.in[0], c.in[1], c.in[2], {axis_of(c, 0), combine});
          }};
}

/// An op whose size the device decides.
OpSpec selection(std::string name, int operands, int results,
                 std::function<std::vector<Tensor>(const OpCall&)> build) {
  return {std::move(name), operands, operands, false, {}, {}, std::move(build), results};
}

void add_selections(std::vector<OpSpec>& table) {
  const auto both = [](const Selected& s) { return std::vector{s.values, s.count}; };
  table.push_back(selection("compact", 2, 2,
                            [both](const OpCall& c) { return both(compact(c.in[0], c.in[1])); }));
  table.push_back(
      selection("nonzero", 1, 2, [both](const OpCall& c) { return both(nonzero(c.in[0])); }));
  table.push_back(selection("flatnonzero", 1, 2,
                            [both](const OpCall& c) { return both(flatnonzero(c.in[0])); }));
  table.push_back(selection("masked_select", 2, 2, [both](const OpCall& c) {
    return both(masked_select(c.in[0], c.in[1]));
  }));
  table.push_back(selection("unique", 1, 3, [](const OpCall& c) {
    const Unique u = unique(c.in[0]);
    return std::vector{u.values, u.count, u.inverse};
  }));
  table.push_back({"valid",
                   1,
                   1,
                   false,
                   {{"shape", K::shape, true}, {"axis", K::integer}},
                   [](const OpCall& c) {
                     return valid(c.in[0], c.get("shape", std::vector<DimArg>{}), axis_of(c, 0));
                   }});
}

/// The scope is that of the node already.
void add_random_ops(std::vector<OpSpec>& table) {
  table.push_back({"random_uniform",
                   0,
                   1,
                   false,
                   {{"dtype", K::dtype, true},
                    {"shape", K::shape, true},
                    {"seed", K::integer},
                    {"low", K::number},
                    {"high", K::number}},
                   [](const OpCall& c) {
                     return random_uniform(
                         c.graph, "", type_of(c),
                         {seed_of(c), counter_of(c, 0), c.get("low", 0.0), c.get("high", 1.0)},
                         c.where);
                   }});
  table.push_back({"random_normal",
                   0,
                   1,
                   false,
                   {{"dtype", K::dtype, true}, {"shape", K::shape, true}, {"seed", K::integer}},
                   [](const OpCall& c) {
                     return random_normal(c.graph, "", type_of(c), {seed_of(c), counter_of(c, 0)},
                                          c.where);
                   }});
  table.push_back({"random_bernoulli",
                   0,
                   1,
                   false,
                   {{"shape", K::shape, true}, {"p", K::number, true}, {"seed", K::integer}},
                   [](const OpCall& c) {
                     return random_bernoulli(c.graph, "", type_of(c).shape, c.get("p", 0.5),
                                             {seed_of(c), counter_of(c, 0)}, c.where);
                   }});
  table.push_back({"dropout",
                   1,
                   2,
                   false,
                   {{"rate", K::number, true}, {"seed", K::integer}},
                   [](const OpCall& c) {
                     return dropout(c.graph, "", c.in[0], c.get("rate", 0.5),
                                    {seed_of(c), counter_of(c, 1)});
                   }});
}

}  // namespace

std::vector<OpSpec> make_op_table() {
  std::vector<OpSpec> table;
  for (const ScalarInfo& s : scalar_functions()) {
    // random_uniform and the like number launches and elements.
    if (s.fn == Fn::cast || s.fn == Fn::clamp || s.fn == Fn::random) continue;
    OpSpec op{std::string(s.name), s.arity, s.arity, true, {}, [fn = s.fn](const OpCall& c) {
                return apply(fn, c.in);
              }};
    if (s.arity == 2) op.attrs.push_back({"rhs", K::number});
    table.push_back(std::move(op));
  }
  table.push_back({"cast", 1, 1, false, {{"dtype", K::dtype, true}}, [](const OpCall& c) {
                     return cast(c.in[0], c.get("dtype", f32));
                   }});
  table.push_back({"clamp",
                   1,
                   1,
                   false,
                   {{"low", K::number, true}, {"high", K::number, true}},
                   [](const OpCall& c) {
                     return clamp(c.in[0], In(c.get("low", 0.0), c.where),
                                  In(c.get("high", 0.0), c.where));
                   }});
  table.push_back(reduce_op("reduce_sum", sum));
  table.push_back(reduce_op("reduce_mean", mean));
  table.push_back(reduce_op("reduce_max", max));
  table.push_back(reduce_op("reduce_min", min));
  table.push_back(reduce_op("reduce_prod", prod));
  table.push_back(reduce_op("reduce_any", any));
  table.push_back(reduce_op("reduce_all", all));
  table.push_back({"matmul",
                   2,
                   2,
                   false,
                   {{"ta", K::boolean}, {"tb", K::boolean}, {"out_dtype", K::dtype}},
                   [](const OpCall& c) { return matmul(c.in[0], c.in[1], matmul_opts(c)); }});
  table.push_back(
      {"linear", 2, 3, false, {{"tb", K::boolean}, {"out_dtype", K::dtype}}, build_linear});
  table.push_back({"reshape", 1, 1, false, {{"shape", K::free_shape, true}}, [](const OpCall& c) {
                     return reshape(c.in[0], c.get("shape", std::vector<DimArg>{}));
                   }});
  table.push_back({"transpose", 1, 1, false, {{"perm", K::integers, true}}, [](const OpCall& c) {
                     return transpose(c.in[0], c.get("perm", std::vector<int>{}));
                   }});
  table.push_back({"broadcast", 1, 1, false, {{"shape", K::shape, true}}, [](const OpCall& c) {
                     return broadcast_to(c.in[0], c.get("shape", std::vector<DimArg>{}));
                   }});
  table.push_back(
      {"slice",
       1,
       1,
       false,
       {{"axis", K::integer}, {"start", K::integer}, {"stop", K::integer}, {"step", K::integer}},
       build_slice});
  table.push_back({"concat", 1, -1, false, {{"axis", K::integer}}, [](const OpCall& c) {
                     return concat(c.in, axis_of(c, 0));
                   }});
  table.push_back({"gather", 2, 2, false, {{"axis", K::integer}}, [](const OpCall& c) {
                     return gather(c.in[0], c.in[1], axis_of(c, 0));
                   }});
  table.push_back(
      {"iota",
       0,
       0,
       false,
       {{"dtype", K::dtype, true}, {"shape", K::shape, true}, {"axis", K::integer}},
       [](const OpCall& c) { return c.graph.iota(type_of(c), axis_of(c, 0), c.where); }});
  table.push_back(
      {"full",
       0,
       0,
       false,
       {{"dtype", K::dtype, true}, {"shape", K::shape, true}, {"value", K::number, true}},
       [](const OpCall& c) { return c.graph.full(type_of(c), c.get("value", 0.0), c.where); }});
  table.push_back({"softmax", 1, 2, false, {{"axis", K::integer}}, [](const OpCall& c) {
                     return c.in.size() < 2 ? softmax(c.in[0], axis_of(c, -1))
                                            : softmax(c.in[0], axis_of(c, -1), c.in[1]);
                   }});
  table.push_back({"layer_norm", 3, 3, false, {{"eps", K::number}}, [](const OpCall& c) {
                     return layer_norm(c.in[0], c.in[1], c.in[2], c.get("eps", 1e-5));
                   }});
  table.push_back({"log_softmax", 1, 1, false, {{"axis", K::integer}}, [](const OpCall& c) {
                     return log_softmax(c.in[0], axis_of(c, -1));
                   }});
  table.push_back({"rms_norm", 2, 2, false, {{"eps", K::number}}, [](const OpCall& c) {
                     return rms_norm(c.in[0], c.in[1], c.get("eps", 1e-5));
                   }});
  table.push_back(
      {"l2_normalize",
       1,
       1,
       false,
       {{"axis", K::integer}, {"eps", K::number}},
       [](const OpCall& c) { return l2_normalize(c.in[0], axis_of(c, -1), c.get("eps", 1e-12)); }});
  table.push_back({"cross_entropy", 2, 2, false, {}, [](const OpCall& c) {
                     return cross_entropy(c.in[0], c.in[1]);
                   }});
  table.push_back({"attention",
                   3,
                   4,
                   false,
                   {{"heads", K::integer, true},
                    {"kv_heads", K::integer},
                    {"causal", K::boolean},
                    {"scale", K::number}},
                   build_attention});
  table.push_back(arg_op("argmax", argmax));
  table.push_back(arg_op("argmin", argmin));
  table.push_back({"pad",
                   1,
                   1,
                   false,
                   {{"low", K::integers, true}, {"high", K::integers, true}, {"value", K::number}},
                   build_pad});
  table.push_back({"stack", 1, -1, false, {{"axis", K::integer}}, [](const OpCall& c) {
                     return stack(c.in, axis_of(c, 0));
                   }});
  table.push_back({"squeeze", 1, 1, false, {{"axes", K::integers, true}}, [](const OpCall& c) {
                     return squeeze(c.in[0], c.get("axes", std::vector<int>{}));
                   }});
  table.push_back({"unsqueeze", 1, 1, false, {{"axis", K::integer, true}}, [](const OpCall& c) {
                     return unsqueeze(c.in[0], axis_of(c, 0));
                   }});
  table.push_back(scatter_op("scatter", std::nullopt));
  for (const ScalarInfo& s : scalar_functions()) {
    if (s.combiner) table.push_back(scatter_op(fmt::format("scatter_{}", s.name), s.fn));
  }
  add_random_ops(table);
  add_selections(table);
  std::sort(table.begin(), table.end(),
            [](const OpSpec& a, const OpSpec& b) { return a.name < b.name; });
  return table;
}

}  // namespace braid::toml_reader
