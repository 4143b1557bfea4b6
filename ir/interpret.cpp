#include "ir/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "ir/host_lookup.hpp"
#include "ir/interpret_ops.hpp"

namespace braid::ir {
namespace {

[[noreturn]] void refuse(std::string message) {
  Diagnostic d;
  d.code = "E0802";
  d.message = std::move(message);
  throw Error(std::move(d));
}

const WideTensor& find(const TensorMap& map, const std::string& name, const TensorType& type,
                       std::string_view what) {
  const auto it = map.find(name);
  if (it == map.end()) refuse(fmt::format("the {} '{}' is missing", what, name));
  if (it->second.type != type) {
    refuse(fmt::format("the {} '{}' is {}, but {} was given", what, name, to_string(type),
                       to_string(it->second.type)));
  }
  return it->second;
}

/// Values are shared: a read, or a reshape's source, may be held by several.
using Ref = std::shared_ptr<const WideTensor>;

class Interpreter {
 public:
  Interpreter(const Graph& g, const TensorMap& inputs, TensorMap& params, Rounding rounding,
              const HostFunctions& functions)
      : g_(g),
        inputs_(inputs),
        params_(params),
        rounding_(rounding),
        functions_(functions),
        values_(g.values().size()) {
    last_use_.resize(g.values().size(), 0);
    for (uint32_t i = 0; i < g.ops().size(); ++i) {
      for (ValueId v : g.ops()[i].operands) last_use_[v.index] = i;
    }
    for (const Output& o : g.outputs) last_use_[o.value.index] = UINT32_MAX;
  }

  TensorMap run() {
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      const Op& op = g_.ops()[i];
      if (op.kind == OpKind::host) {
        call(op);
      } else {
        values_[op.result.index] = evaluate(op);
      }
      for (ValueId v : op.operands) {
        if (last_use_[v.index] == i) values_[v.index].reset();
      }
    }
    for (auto& [name, value] : versions_) params_.at(name) = *value;
    TensorMap outputs;
    for (const Output& o : g_.outputs) outputs[o.name] = *values_[o.value.index];
    return outputs;
  }

 private:
  const WideTensor& in(const Op& op, size_t i) const { return *values_[op.operands[i].index]; }

  Ref evaluate(const Op& op) {
    const TensorType& type = g_.type(op.result);
    const std::string name(g_.strings[op.name]);
    switch (op.kind) {
      case OpKind::input:
        if (const auto* scalar = std::get_if<ScalarAttr>(&op.attrs);
            scalar && !inputs_.contains(name)) {
          HostTensor value(type);
          value.set(0, scalar->value);
          return std::make_shared<WideTensor>(widen(value));
        }
        return std::make_shared<WideTensor>(find(inputs_, name, type, "input"));
      case OpKind::param:
        param_of_[op.result.index] = name;
        return std::make_shared<WideTensor>(find(params_, name, type, "param"));
      case OpKind::read:
        return values_[op.operands[0].index];
      case OpKind::assign:
        return version(op, values_[op.operands[1].index]);
      case OpKind::update: {
        std::vector<int64_t> starts;
        for (size_t i = 2; i < op.operands.size(); ++i) starts.push_back(in(op, i).i[0]);
        return version(op, std::make_shared<WideTensor>(
                               interpret_update(in(op, 0), in(op, 1), std::move(starts))));
      }
      default:
        break;
    }
    WideTensor result = compute(op, type);
    if (rounding_ == Rounding::dtype) round_to_dtype(result);
    return std::make_shared<WideTensor>(std::move(result));
  }

  void call(const Op& op) {
    std::vector<HostTensor> arguments, results;
    for (size_t i = 0; i < op.operands.size(); ++i) arguments.push_back(narrow(in(op, i)));
    for (uint32_t i = 0; i < op.results; ++i) results.emplace_back(g_.type(op.result_at(i)));
    find_host_function(functions_, g_.strings[std::get<HostAttr>(op.attrs).function],
                       g_.place(op.loc))(arguments, results);
    for (uint32_t i = 0; i < op.results; ++i) {
      values_[op.result_at(i).index] = std::make_shared<WideTensor>(widen(results[i]));
    }
  }

  Ref version(const Op& op, Ref value) {
    const std::string name = param_of_.at(op.operands[0].index);
    param_of_[op.result.index] = name;
    versions_[name] = value;
    return value;
  }

  WideTensor compute(const Op& op, const TensorType& type) {
    switch (op.kind) {
      case OpKind::constant: {
        const Literal& l = g_.literals[std::get<ConstAttr>(op.attrs).literal];
        return interpret_literal(l.type == type ? l : Literal{type, l.splat, l.bytes});
      }
      case OpKind::iota:
        return interpret_iota(type, std::get<AxisAttr>(op.attrs).axis);
      case OpKind::map: {
        std::vector<const WideTensor*> operands;
        for (size_t i = 0; i < op.operands.size(); ++i) operands.push_back(&in(op, i));
        return interpret_map(std::get<MapAttr>(op.attrs).fn, operands, type);
      }
      case OpKind::reduce: {
        const auto& a = std::get<ReduceAttr>(op.attrs);
        return interpret_reduce(a.fn, in(op, 0), a.axes, type);
      }
      case OpKind::dot: {
        const auto& a = std::get<DotAttr>(op.attrs);
        if (!a.tf32 || rounding_ == Rounding::wide) {
          return interpret_dot(in(op, 0), in(op, 1), a, type);
        }
        return interpret_dot(rounded_to_tf32(in(op, 0)), rounded_to_tf32(in(op, 1)), a, type);
      }
      case OpKind::view:
        return interpret_view(in(op, 0), std::get<ViewAttr>(op.attrs), type);
      case OpKind::concat: {
        std::vector<const WideTensor*> operands;
        for (size_t i = 0; i < op.operands.size(); ++i) operands.push_back(&in(op, i));
        return interpret_concat(operands, std::get<AxisAttr>(op.attrs).axis, type);
      }
      case OpKind::gather:
        return interpret_gather(in(op, 0), in(op, 1), std::get<AxisAttr>(op.attrs).axis, type);
      case OpKind::scatter:
        return interpret_scatter(in(op, 0), in(op, 1), in(op, 2), std::get<ScatterAttr>(op.attrs));
      default:
        throw InternalError("an op kind without evaluation");
    }
  }

  const Graph& g_;
  const TensorMap& inputs_;
  TensorMap& params_;
  Rounding rounding_;
  const HostFunctions& functions_;
  std::vector<Ref> values_;
  std::vector<uint32_t> last_use_;
  std::map<uint32_t, std::string> param_of_;  // by value of any version
  std::map<std::string, Ref> versions_;       // the newest of each assigned param
};

}  // namespace

int64_t interpret_bytes(const Graph& graph) {
  std::vector<size_t> last_use(graph.values().size(), SIZE_MAX);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (ValueId v : graph.ops()[i].operands) last_use[v.index] = i;
  }
  for (const Output& o : graph.outputs) last_use[o.value.index] = SIZE_MAX;
  const auto bytes = [&](ValueId v) {
    int64_t wide;
    return __builtin_mul_overflow(graph.type(v).shape.numel(), int64_t{8}, &wide) ? INT64_MAX
                                                                                  : wide;
  };
  int64_t held = 0, most = 0;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    for (uint32_t r = 0; r < op.results; ++r) {
      if (__builtin_add_overflow(held, bytes(op.result_at(r)), &held)) return INT64_MAX;
    }
    most = std::max(most, held);
    for (ValueId v : op.operands) {
      if (last_use[v.index] != i) continue;
      held -= bytes(v);
      last_use[v.index] = SIZE_MAX;  // an operand may stand twice
    }
  }
  return most;
}

TensorMap interpret(const Graph& graph, const TensorMap& inputs, TensorMap& params,
                    Rounding rounding, const HostFunctions& functions) {
  return Interpreter(graph, inputs, params, rounding, functions).run();
}

}  // namespace braid::ir
