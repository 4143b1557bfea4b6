// The ops of a model file: scalar functions by the names of the scalar table, and the builder's
// other functions by hand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

using K = AttrKind;

ReduceOpts reduce_opts(const OpCall& c) {
  ReduceOpts o;
  o.axes = c.get("axes", o.axes);
  o.keep = c.get("keep", false);
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
          1,
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

std::vector<OpSpec> make_ops() {
  std::vector<OpSpec> table;
  for (const ScalarInfo& s : scalar_functions()) {
    if (s.fn == Fn::cast || s.fn == Fn::clamp) continue;
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
  table.push_back({"softmax", 1, 1, false, {{"axis", K::integer}}, [](const OpCall& c) {
                     return softmax(c.in[0], axis_of(c, -1));
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
  std::sort(table.begin(), table.end(),
            [](const OpSpec& a, const OpSpec& b) { return a.name < b.name; });
  return table;
}

/// What other libraries call our ops.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"all", "reduce_all"},
    {"any", "reduce_any"},
    {"arange", "iota"},
    {"concatenate", "concat"},
    {"dense", "linear"},
    {"dot", "matmul"},
    {"expand_dims", "unsqueeze"},
    {"equal", "eq"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"logical_and", "and"},
    {"logical_not", "not"},
    {"logical_or", "or"},
    {"maximum", "max"},
    {"mean", "reduce_mean"},
    {"minimum", "min"},
    {"multiply", "mul"},
    {"not_equal", "ne"},
    {"permute", "transpose"},
    {"power", "pow"},
    {"prod", "reduce_prod"},
    {"remainder", "mod"},
    {"subtract", "sub"},
    {"sum", "reduce_sum"},
    {"swish", "silu"},
    {"view", "reshape"},
    {"where", "select"},
};

/// An integer operand travels as a double.
bool exact(const Item& item, Report& report) {
  constexpr int64_t kLimit = int64_t{1} << 53;
  if (item.kind != Item::Kind::integer || std::abs(item.integer) <= kLimit) return true;
  report.error("E0107", item.place, "integers beyond 2^53 are not supported here");
  return false;
}

std::optional<AttrValue> read_attr(const AttrSpec& spec, const Entry& e, Types& types,
                                   Report& report) {
  const Item& v = e.value;
  const std::string what = fmt::format("'{}'", spec.name);
  const auto fits = [&](const Item& item) {
    if (item.integer >= INT32_MIN && item.integer <= INT32_MAX) return true;
    report.error("E0107", item.place, fmt::format("{}: {} is out of range", what, item.integer));
    return false;
  };
  switch (spec.kind) {
    case K::integer: {
      // Starts and stops of slices may be large, axes may not.
      if (!report.expect(v, Item::Kind::integer, what)) return {};
      const bool narrow = spec.name == "axis" || spec.name == "heads" || spec.name == "kv_heads";
      if (narrow && !fits(v)) return {};
      return AttrValue(v.integer);
    }
    case K::number:
      if (!report.expect(v, Item::Kind::real, what) || !exact(v, report)) return {};
      return AttrValue(v.real);
    case K::boolean:
      if (!report.expect(v, Item::Kind::boolean, what)) return {};
      return AttrValue(v.boolean);
    case K::dtype: {
      const std::optional<DType> t = types.dtypes.read(v, what);
      return t ? std::optional<AttrValue>(*t) : std::nullopt;
    }
    case K::integers: {
      if (!report.expect(v, Item::Kind::array, what)) return {};
      std::vector<int> list;
      for (const Item& i : v.items) {
        if (!report.expect(i, Item::Kind::integer, "each of " + what) || !fits(i)) return {};
        list.push_back(static_cast<int>(i.integer));
      }
      return AttrValue(std::move(list));
    }
    case K::shape:
    case K::free_shape: {
      std::optional<std::vector<DimArg>> s = types.dims.shape(v, what, spec.kind == K::free_shape);
      return s ? std::optional<AttrValue>(std::move(*s)) : std::nullopt;
    }
  }
  return {};
}

}  // namespace

const std::vector<OpSpec>& ops() {
  static const std::vector<OpSpec> table = make_ops();
  return table;
}

const OpSpec* find_op(std::string_view name) {
  const auto it =
      std::lower_bound(ops().begin(), ops().end(), name,
                       [](const OpSpec& op, std::string_view n) { return op.name < n; });
  return it != ops().end() && it->name == name ? &*it : nullptr;
}

std::string suggest_op(std::string_view name) {
  for (const auto& [theirs, ours] : kSynonyms) {
    if (theirs == name) return fmt::format("did you mean '{}'?", ours);
  }
  std::vector<std::string> names;
  for (const OpSpec& op : ops()) names.push_back(op.name);
  return suggest(name, names);
}

bool read_attrs(const OpSpec& spec, const Item& node, Types& types, Report& report, Attrs& attrs) {
  bool good = true;
  for (const Entry& e : node.entries) {
    if (e.key == "op" || e.key == "in" || e.key == "out") continue;
    const auto it = std::find_if(spec.attrs.begin(), spec.attrs.end(),
                                 [&](const AttrSpec& a) { return a.name == e.key; });
    if (it == spec.attrs.end()) {
      std::vector<std::string> known{"in", "out"};
      for (const AttrSpec& a : spec.attrs) known.emplace_back(a.name);
      report.error("E0102", e.place, fmt::format("op '{}' has no attribute '{}'", spec.name, e.key),
                   suggest(e.key, known));
      good = false;
    } else if (std::optional<AttrValue> v = read_attr(*it, e, types, report)) {
      attrs.emplace(e.key, std::move(*v));
    } else {
      good = false;
    }
  }
  if (!good) return false;  // a misspelt attribute is not missing as well
  for (const AttrSpec& a : spec.attrs) {
    if (a.required && attrs.find(a.name) == attrs.end()) {
      const Entry* op = node.find("op");
      report.error("E0103", op->value.place,
                   fmt::format("op '{}' needs the attribute '{}'", spec.name, a.name));
      good = false;
    }
  }
  return good;
}

}  // namespace braid::toml_reader
