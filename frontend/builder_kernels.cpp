// Kernels of the user's: what a call gives is compared with the parameters, and made one op.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "frontend/builder_impl.hpp"
#include "frontend/kernel_notation.hpp"
#include "ir/code_op.hpp"
#include "ir/file.hpp"

namespace braid {
namespace {

using ir::ValueId;
using Way = KernelParameter::Role;

/// The dims of the model that a name may stand for.
std::optional<Dim> dim_of_model(Graph::Impl& g, const std::string& name) {
  for (const DimTable* table : {&g.level(0).ir.dims, &g.ir.dims}) {
    for (const DimTable::Symbol& s : table->symbols()) {
      if (s.name == name) return g.ir.dims.symbol(name);
    }
  }
  return std::nullopt;
}

/// A number as it is written, if it is one and no extent.
std::optional<double> literal(const std::string& text) {
  if (text.empty() || text.find_first_of("xX") != std::string::npos) return std::nullopt;
  size_t used = 0;
  try {
    const double x = std::stod(text, &used);
    if (used == text.size()) return x;
  } catch (const std::exception&) {  // no number, or one that no double holds
  }
  return std::nullopt;
}

/// One call. Members return nothing or false after a mistake, which is reported.
class KernelUse {
 public:
  KernelUse(Graph& graph, const KernelSpec& spec, const std::vector<In>& arguments,
            const Where& where)
      : g_(graph.impl()), spec_(spec), arguments_(arguments), where_(where) {}

  bool read_parameters() {
    for (const std::string& text : spec_.parameters) {
      std::string why;
      const auto p = parse_kernel_parameter(text, &why);
      if (!p) return fail("E0321", std::move(why));
      if (!dtype_from_name(p->dtype)) {
        std::vector<std::string> known;
        for (int i = 0; i < kNumDTypes; ++i) known.emplace_back(name_of(static_cast<DType>(i)));
        return fail("E0205", fmt::format("unknown dtype '{}' in '{}'", p->dtype, text),
                    suggest(p->dtype, known));
      }
      parameters.push_back(*p);
    }
    const auto wanted =
        static_cast<size_t>(std::count_if(parameters.begin(), parameters.end(),
                                          [](const KernelParameter& p) { return p.is_operand(); }));
    if (wanted == arguments_.size()) return true;
    std::vector<std::string> list;
    for (const KernelParameter& p : parameters) {
      if (p.is_operand()) list.push_back(p.text());
    }
    return fail("E0323",
                fmt::format("it takes {} tensor{}, but {} {} given", wanted, wanted == 1 ? "" : "s",
                            arguments_.size(), arguments_.size() == 1 ? "is" : "are"),
                "give one for each 'in' and 'inout' parameter, in their order", std::move(list));
  }

  /// The dims that names stand for, by the operands where those say it.
  bool bind(const std::vector<ValueId>& operands) {
    size_t k = 0;
    for (const KernelParameter& p : parameters) {
      if (!p.is_operand()) continue;
      const ValueId v = operands[k++];
      const TensorType& type = g_.ir.type(v);
      if (name_of(type.dtype) != p.dtype) {
        return mismatch(p, v, fmt::format("its dtype is {}, not {}", name_of(type.dtype), p.dtype),
                        "cast it, or change the parameter and the code");
      }
      if (type.shape.rank() != static_cast<int>(p.extents.size())) {
        return mismatch(p, v,
                        fmt::format("it has {} axes, not {}", type.shape.rank(), p.extents.size()));
      }
      for (size_t i = 0; i < p.extents.size(); ++i) {
        const std::string& e = p.extents[i];
        const std::vector<std::string> names = names_in_extent(e);
        if (names.size() == 1 && names[0] == e && !dim_of_model(g_, e)) {
          bound_.emplace(e, type.shape[static_cast<int>(i)]);
        }
      }
    }
    k = 0;
    for (const KernelParameter& p : parameters) {
      if (!p.is_operand()) continue;
      const ValueId v = operands[k++];
      const std::optional<TensorType> declared = type_of(p);
      if (!declared) return false;
      const TensorType& type = g_.ir.type(v);
      for (int i = 0; i < type.shape.rank(); ++i) {
        if (type.shape[i] == declared->shape[i]) continue;
        return mismatch(p, v,
                        fmt::format("axis {} has {}, not {}", i, g_.ir.dims.str(type.shape[i]),
                                    g_.ir.dims.str(declared->shape[i])));
      }
    }
    return true;
  }

  std::optional<ir::Extent> extent(const std::string& text, std::string_view what) {
    std::string why;
    const auto e = parse_kernel_extent(
        g_.ir.dims, text,
        [&](const std::string& name) {
          const auto it = bound_.find(name);
          return it != bound_.end() ? std::optional(it->second) : dim_of_model(g_, name);
        },
        &why);
    if (!e) fail("E0321", fmt::format("{}: {}", what, why));
    return e;
  }

  std::optional<TensorType> type_of(const KernelParameter& p) {
    if (p.extents.size() > static_cast<size_t>(kMaxRank)) {
      fail("E0321", fmt::format("'{}' has more than {} axes", p.text(), kMaxRank));
      return std::nullopt;
    }
    TensorType t{*dtype_from_name(p.dtype), {}};
    for (const std::string& text : p.extents) {
      const std::optional<ir::Extent> e = extent(text, p.text());
      if (!e) return std::nullopt;
      t.shape.push_back(e->factor);
    }
    return t;
  }

  bool launch(ir::KernelAttr& a) {
    const auto three = [&](const std::vector<LaunchExtent>& from, std::array<ir::Extent, 3>& to,
                           const char* what) {
      if (from.empty() || from.size() > 3) {
        return fail("E0321", fmt::format("'{}' has {} extents: one to three", what, from.size()));
      }
      for (size_t i = 0; i < from.size(); ++i) {
        const std::optional<ir::Extent> e = extent(from[i].text, what);
        if (!e) return false;
        to[i] = *e;
      }
      return true;
    };
    if (!three(spec_.grid, a.grid, "grid") || !three(spec_.block, a.block, "block")) return false;
    const std::optional<ir::Extent> shared = extent(spec_.shared.text, "shared");
    if (!shared) return false;
    a.shared_bytes = *shared;
    const std::vector<std::string> wrong = ir::launch_errors(g_.ir.dims, a, ir::kMostSharedBytes);
    if (wrong.empty()) return true;
    return fail("E0324", "it cannot be launched: " + wrong[0],
                "change 'grid', 'block' or 'shared' of the kernel");
  }

  /// The attribute's parameter for a number.
  std::optional<ir::CodeParameter> number(const KernelParameter& p) {
    ir::CodeParameter c;
    c.kind = ir::CodeParameter::Kind::scalar;
    c.dtype = *dtype_from_name(p.dtype);
    if (const std::optional<double> x = literal(p.value)) {
      c.number = *x;
      if (number_fits(*x, c.dtype)) return c;
      fail("E0321", fmt::format("'{}': {} is no {}", p.text(), p.value, p.dtype));
      return std::nullopt;
    }
    if (c.dtype != i32 && c.dtype != i64) {
      fail("E0321", fmt::format("'{}': an extent is passed as i32 or i64, and only a number can be "
                                "{}",
                                p.text(), p.dtype));
      return std::nullopt;
    }
    c.extent = extent(p.value, p.text());
    return c.extent ? std::optional(c) : std::nullopt;
  }

  std::optional<ir::KernelAttr> attributes() {
    ir::KernelAttr a;
    ir::Strings& strings = g_.ir.strings;
    std::string code = spec_.code, file = spec_.file;
    if (code.empty() && file.empty()) {
      fail("E0325", "it has neither 'code' nor 'file'");
      return std::nullopt;
    }
    if (code.empty()) {
      try {
        code = read_file(file == "-" ? "./-" : file);  // a file of that name, not the input
      } catch (const Error& e) {
        fail("E0325", e.diagnostics().front().message,
             "paths are relative to the model's file, in C++ to the working folder");
        return std::nullopt;
      }
    }
    a.name = strings.intern(spec_.name);
    a.function = strings.intern(spec_.function.empty() ? spec_.name : spec_.function);
    a.code = strings.intern(code);
    a.file = strings.intern(file.empty() ? fmt::format("<kernel {}>", spec_.name) : file);
    a.line = spec_.line;
    for (const std::string& folder : spec_.include) a.include.push_back(strings.intern(folder));
    a.reference = strings.intern(spec_.reference);
    uint32_t operands = 0, results = 0;
    for (const KernelParameter& p : parameters) {
      ir::CodeParameter c;
      if (p.role == Way::number) {
        const std::optional<ir::CodeParameter> n = number(p);
        if (!n) return std::nullopt;
        c = *n;
      } else {
        c.kind =
            p.is_operand() ? ir::CodeParameter::Kind::operand : ir::CodeParameter::Kind::result;
        c.index = p.is_operand() ? operands++ : results++;
      }
      c.name = strings.intern(p.name.empty() ? p.value : p.name);
      a.parameters.push_back(c);
    }
    if (!launch(a)) return std::nullopt;
    return a;
  }

  bool fail(std::string code, std::string message, std::string suggestion = {},
            std::vector<std::string> details = {}) {
    g_.fail(std::move(code), fmt::format("kernel '{}': {}", spec_.name, message), where_,
            std::move(details), std::move(suggestion));
    return false;
  }

  std::vector<KernelParameter> parameters;

 private:
  bool mismatch(const KernelParameter& p, ValueId v, const std::string& why,
                std::string suggestion = {}) {
    return fail(
        "E0322", fmt::format("what is given for '{}' does not fit: {}", p.name, why),
        std::move(suggestion),
        {fmt::format("parameter  {}", p.text()), fmt::format("given      {}", g_.describe(v))});
  }

  Graph::Impl& g_;
  const KernelSpec& spec_;
  const std::vector<In>& arguments_;
  const Where& where_;
  std::map<std::string, Dim, std::less<>> bound_;
};

}  // namespace

std::vector<Tensor> Graph::kernel(const KernelSpec& spec, std::vector<In> arguments, Where w) {
  Impl& g = *impl_;
  KernelUse call(*this, spec, arguments, w);
  const auto poison = [&] {
    // As many as the caller expects, where that is known.
    const auto results =
        std::count_if(spec.parameters.begin(), spec.parameters.end(), [](const std::string& text) {
          std::string why;
          const auto p = parse_kernel_parameter(text, &why);
          return p && (p->is_result() || p->role == Way::inout);
        });
    return std::vector<Tensor>(static_cast<size_t>(results), wrap({}));
  };
  if (spec.name.empty()) {
    g.fail("E0325", "a kernel needs a name", w);
    return poison();
  }
  if (!call.read_parameters()) return poison();
  std::vector<Impl::Changed> changed;
  std::vector<size_t> changed_operand;
  std::vector<ValueId> operands;
  for (const KernelParameter& p : call.parameters) {
    if (!p.is_operand()) continue;
    const In& in = arguments[operands.size()];
    const ValueId value = unwrap(in);
    if (!value.valid()) return poison();
    if (p.role == Way::inout) {
      const std::optional<Impl::Changed> c = g.changed(in, value, p.name, w);
      if (!c) return poison();
      if (const std::string* twice = g.given_before(*c, changed)) {
        call.fail("E0323", fmt::format("'{}' is given for two 'inout' parameters", *twice));
        return poison();
      }
      changed.push_back(*c);
      changed_operand.push_back(operands.size());
    }
    operands.push_back(value);
  }
  if (!call.bind(operands)) return poison();
  std::optional<ir::KernelAttr> attr = call.attributes();
  if (!attr) return poison();
  std::vector<TensorType> types;
  for (const KernelParameter& p : call.parameters) {
    if (!p.is_result()) continue;
    const std::optional<TensorType> t = call.type_of(p);
    if (!t) return poison();
    types.push_back(*t);
  }
  for (size_t i = 0; i < changed.size(); ++i) {
    ValueId& operand = operands[changed_operand[i]];
    operand = g.version_to_change(changed[i], spec.name, w);
    if (!operand.valid()) return poison();
  }
  const ir::Graph::Added added =
      g.add_code(ir::OpKind::kernel, std::move(*attr), std::move(operands), types, spec.name, w);
  if (!added.error.empty()) {
    call.fail("E0322", added.error);
    return poison();
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < types.size(); ++i) {
    results.push_back(wrap({added.value.index + static_cast<uint32_t>(i)}));
  }
  for (size_t i = 0; i < changed.size(); ++i) {
    const ValueId next{added.value.index + static_cast<uint32_t>(types.size() + i)};
    results.push_back(wrap(g.value_after(changed[i], next, w)));
  }
  return results;
}

}  // namespace braid
