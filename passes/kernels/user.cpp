#include "passes/kernels/user.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ir/code_op.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"

namespace braid::kernels {
namespace {

using ir::CodeParameter;
using ir::OpKind;
using ir::ValueId;

const ir::Op& user_op(const ir::Graph& body) {
  const auto& ops = body.ops();
  const auto it = std::find_if(ops.begin(), ops.end(),
                               [](const ir::Op& op) { return op.kind == OpKind::kernel; });
  ensure(it != ops.end(), "a user's kernel without code");
  return *it;
}

int64_t known(const ir::Extent& e) {
  const std::optional<int64_t> n = e.value();
  ensure(n.has_value(), "a launch that nobody checked");
  return *n;
}

uint32_t known_word(const ir::Extent& e) {
  const int64_t n = known(e);
  ensure(n >= 0 && n <= UINT32_MAX, "a launch that nobody checked");
  return static_cast<uint32_t>(n);
}

LaunchShape launch_of(const ir::KernelAttr& a) {
  LaunchShape launch;
  for (size_t i = 0; i < 3; ++i) {
    launch.grid[i] = known_word(a.grid[i]);
    launch.block[i] = known_word(a.block[i]);
  }
  launch.shared_bytes = known_word(a.shared_bytes);
  return launch;
}

/// What the bytes of a value of the body are read from: an input or a param.
ValueId root(const ir::Graph& body, ValueId v) {
  for (;;) {
    const ir::Op& op = body.def(v);
    if (op.kind != OpKind::view && op.kind != OpKind::read) return v;
    v = op.operands[0];
  }
}

/// The types in C++ that may stand for a dtype, the one to name in errors first.
std::vector<std::string_view> cpp_types(DType t) {
  switch (t) {
    case DType::f32:
      return {"float"};
    case DType::f16:
      return {"__half", "unsigned short"};
    case DType::bf16:
      return {"__nv_bfloat16", "unsigned short"};
    case DType::f64:
      return {"double"};
    case DType::i32:
      return {"int", "unsigned int"};
    case DType::i64:
      return {"long long", "long", "unsigned long long", "unsigned long"};
    case DType::i8:
      return {"signed char", "char"};
    case DType::u8:
      return {"unsigned char"};
    case DType::b1:
      return {"bool", "unsigned char"};
  }
  throw InternalError("a dtype without a type in C++");
}

/// One parameter as the function must declare it.
struct Wanted {
  std::string name;                // "'x'", or empty
  std::vector<std::string> types;  // the one to name in errors first
  std::string given;               // "the model gives it f32[8,64]"
};

Wanted wanted(const ir::Graph& body, const ir::Op& op, const CodeParameter& p) {
  Wanted w;
  const std::string_view name = body.strings[p.name];
  if (!name.empty()) w.name = fmt::format("'{}'", name);
  if (p.kind == CodeParameter::Kind::scalar) {
    for (std::string_view t : cpp_types(p.dtype)) w.types.emplace_back(t);
    w.given = fmt::format("the model gives it {} {}", name_of(p.dtype),
                          p.extent ? to_string(*p.extent, body.dims) : fmt::format("{}", p.number));
    return w;
  }
  const bool operand = p.kind == CodeParameter::Kind::operand;
  const ValueId v = operand ? op.operands[p.index] : op.result_at(p.index);
  const bool constant = operand && !body.value(v).state;
  for (std::string_view t : cpp_types(body.type(v).dtype)) {
    w.types.push_back(fmt::format("{}{}*", constant ? "const " : "", t));
  }
  w.given = fmt::format("the model {} {}", operand ? "gives it" : "takes from it",
                        to_string(body.type(v)));
  return w;
}

constexpr std::string_view kHelpers = R"(
#line 1 "<braid>"
struct __half;
struct __nv_bfloat16;
namespace braid_checks {
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class A, class... B> constexpr bool any = (same<A, B> || ...);
template <int i, class... P> struct pick { using type = void; };
template <class P, class... Q> struct pick<0, P, Q...> { using type = P; };
template <int i, class P, class... Q> struct pick<i, P, Q...> : pick<i - 1, Q...> {};
template <class F> struct function {
  static constexpr int count = -1;
  template <int i> using at = void;
};
template <class... P> struct function<void (*)(P...)> {
  static constexpr int count = sizeof...(P);
  template <int i> using at = typename pick<i, P...>::type;
};
}  // namespace braid_checks
)";

}  // namespace

std::string_view user_helpers() { return kHelpers; }

std::string user_refuses(const ir::Graph& body) {
  const auto& ops = body.ops();
  const auto kernels = std::count_if(ops.begin(), ops.end(),
                                     [](const ir::Op& op) { return op.kind == OpKind::kernel; });
  return kernels == 1 ? "" : "its body is not one kernel of the user's";
}

const ir::KernelAttr& user_attr(const ir::Graph& body) {
  return std::get<ir::KernelAttr>(user_op(body).attrs);
}

Emitted user_emit(const ir::Graph& body, std::string_view symbol, const Target&, const Use& use) {
  ensure(use.parts == 1 && !use.guard && !use.waits, "a user's kernel runs alone");
  const ir::Op& op = user_op(body);
  const ir::KernelAttr& a = user_attr(body);
  const std::string function(body.strings[a.function]);
  std::vector<Wanted> all;
  std::vector<std::string> declared;
  for (const CodeParameter& p : a.parameters) {
    all.push_back(wanted(body, op, p));
    const std::string_view name = body.strings[p.name];
    declared.push_back(all.back().types[0] + (name.empty() ? "" : " ") + std::string(name));
  }
  const auto quoted = [](const std::string& text) { return ir::quoted(text); };
  const std::string alias = fmt::format("braid_{}", symbol);
  std::string text = fmt::format("#line 1 {}\n", quoted(fmt::format("<braid: {}>", function)));
  text += fmt::format("using {} = braid_checks::function<decltype(&{})>;\n", alias, function);
  text += fmt::format(
      "static_assert({}::count != -1, {});\n", alias,
      quoted(fmt::format("{} must be a __global__ function that returns void", function)));
  // An assertion's text is fixed, so that there is one for each likely number.
  const auto count = static_cast<int>(all.size());
  const std::string list = fmt::format("({})", fmt::join(declared, ", "));
  const auto parameters = [](int n) { return fmt::format("{} parameter{}", n, n == 1 ? "" : "s"); };
  for (int n = 0; n <= count + 4; ++n) {
    if (n == count) continue;
    text += fmt::format("static_assert({}::count != {}, {});\n", alias, n,
                        quoted(fmt::format("{} takes {}, but the model gives it {}: {}", function,
                                           parameters(n), count, list)));
  }
  text += fmt::format("static_assert({}::count <= {}, {});\n", alias, count + 4,
                      quoted(fmt::format("{} takes more parameters than the {} that the model "
                                         "gives it: {}",
                                         function, count, list)));
  for (int i = 0; i < count; ++i) {
    const Wanted& w = all[static_cast<size_t>(i)];
    text += fmt::format(
        "static_assert({0}::count != {1} || braid_checks::any<{0}::at<{2}>, {3}>, {4});\n", alias,
        count, i, fmt::join(w.types, ", "),
        quoted(fmt::format("parameter {}{} of {} must be {}: {}", i + 1,
                           w.name.empty() ? "" : fmt::format(" ({})", w.name), function, w.types[0],
                           w.given)));
  }
  return {std::move(text), launch_of(a)};
}

Work user_work(const ir::Graph& body, const Target&, uint32_t) {
  const LaunchShape l = launch_of(user_attr(body));
  return {.blocks = int64_t{l.grid[0]} * l.grid[1] * l.grid[2],
          .threads = l.block[0] * l.block[1] * l.block[2],
          .shared_bytes = l.shared_bytes};
}

void describe_user_kernel(Kernel& k) {
  const ir::Op& op = user_op(k.body);
  const ir::KernelAttr& a = user_attr(k.body);
  std::map<ValueId, uint32_t> slots;
  uint32_t next = 0;
  for (const ir::Op& other : k.body.ops()) {
    if (other.kind == OpKind::input || other.kind == OpKind::param) slots[other.result] = next++;
  }
  for (const ir::Output& o : k.body.outputs) slots[o.value] = next++;
  k.code = Code::user;
  k.function = std::string(k.body.strings[a.function]);
  k.launch = launch_of(a);
  for (const CodeParameter& p : a.parameters) {
    Parameter made;
    if (p.kind == CodeParameter::Kind::scalar) {
      made.dtype = p.dtype;
      made.number = p.extent ? static_cast<double>(known(*p.extent)) : p.number;
    } else {
      const bool operand = p.kind == CodeParameter::Kind::operand;
      made.slot = slots.at(operand ? root(k.body, op.operands[p.index]) : op.result_at(p.index));
    }
    k.parameters.push_back(made);
  }
}

Module user_module(const ir::Graph& body, std::string_view arch) {
  const ir::KernelAttr& a = user_attr(body);
  Module m;
  m.arch = std::string(arch);
  m.file = std::string(body.strings[a.file]);
  if (m.file.empty()) m.file = fmt::format("<kernel {}>", body.strings[a.name]);
  for (ir::StrId s : a.include) m.include.emplace_back(body.strings[s]);
  m.source = fmt::format("#line {} {}\n{}\n", a.line, ir::quoted(m.file), body.strings[a.code]);
  return m;
}

void drop_folders(ir::Graph& body) {
  for (ir::Op& op : body.ops()) {
    auto* a = std::get_if<ir::KernelAttr>(&op.attrs);
    if (!a) continue;
    const std::string file(body.strings[a->file]);
    a->file = body.strings.intern(file.substr(file.rfind('/') + 1));
    a->include.clear();
    a->line = 1;
  }
}

void drop_code(ir::Graph& body) {
  drop_folders(body);
  for (ir::Op& op : body.ops()) {
    if (auto* a = std::get_if<ir::KernelAttr>(&op.attrs)) a->code = {};
  }
}

void check_launches(const ir::Graph& graph, const Target& target) {
  std::vector<Diagnostic> wrong;
  ir::for_each_graph(graph, [&](const ir::Graph& g) {
    for (const ir::Op& op : g.ops()) {
      const auto* a = std::get_if<ir::KernelAttr>(&op.attrs);
      if (!a) continue;
      for (const std::string& why : launch_errors(g.dims, *a, ir::most_shared_bytes(target.arch))) {
        Diagnostic d;
        d.code = "E0324";
        d.message = fmt::format("kernel '{}' cannot be launched on {}: {}", g.strings[a->name],
                                target.arch, why);
        d.place = g.place(op.loc);
        const auto three = [&](const std::array<ir::Extent, 3>& e) {
          return fmt::format("[{}, {}, {}]", to_string(e[0], g.dims), to_string(e[1], g.dims),
                             to_string(e[2], g.dims));
        };
        d.details.push_back(fmt::format("with these dims: grid {}, block {}, shared {}",
                                        three(a->grid), three(a->block),
                                        to_string(a->shared_bytes, g.dims)));
        d.suggestion = "change 'grid', 'block' or 'shared' of the kernel, or the dims";
        wrong.push_back(std::move(d));
      }
    }
  });
  if (!wrong.empty()) throw Error(std::move(wrong));
}

}  // namespace braid::kernels
