#include "kernels_kit.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "kernels_on_cpu.hpp"
#include "passes/kernels/family.hpp"
#include "runtime/nvrtc.hpp"

namespace braid::test {
namespace {

ir::Axes axes_of(const std::vector<int64_t>& xs) {
  ir::Axes a{};
  std::copy(xs.begin(), xs.end(), a.begin());
  return a;
}

}  // namespace

Body::V Body::in(std::initializer_list<Dim> shape, DType dtype) {
  const ir::StrId name = graph.strings.intern(fmt::format("a{}", inputs_++));
  return graph.add({.kind = ir::OpKind::input, .type = TensorType{dtype, shape}, .name = name});
}
Body::V Body::state(const TensorType& type, ir::Attrs attrs) {
  const ir::StrId name = graph.strings.intern(fmt::format("s{}", params_++));
  return graph.add(
      {.kind = ir::OpKind::param, .attrs = std::move(attrs), .type = type, .name = name});
}
Body::V Body::param(std::initializer_list<Dim> shape, DType dtype) {
  return state(TensorType{dtype, shape}, ir::ParamAttr{});
}
Body::V Body::handle(DType dtype) { return state(TensorType{dtype, {}}, ir::HandleAttr{}); }
Body::V Body::ring() { return state(ir::kRingType, ir::RingAttr{}); }
Body::V Body::send(V ring, ir::SendAttr attr, V value, std::vector<V> numbers) {
  numbers.insert(numbers.begin(), {ring, value});
  return graph.add({.kind = ir::OpKind::send, .attrs = attr, .operands = std::move(numbers)});
}
Body::V Body::read(V state) { return graph.add({.kind = ir::OpKind::read, .operands = {state}}); }
Body::V Body::assign(V state, V value) {
  return graph.add({.kind = ir::OpKind::assign, .operands = {state, value}});
}
Body::V Body::update(V state, V value, std::vector<V> starts) {
  starts.insert(starts.begin(), {state, value});
  return graph.add({.kind = ir::OpKind::update, .operands = starts});
}
Body::V Body::splat(double x, std::initializer_list<Dim> shape, DType dtype) {
  return graph.splat(TensorType{dtype, shape}, x);
}
Body::V Body::iota(int axis, std::initializer_list<Dim> shape, DType dtype) {
  return graph.add(
      {.kind = ir::OpKind::iota, .attrs = ir::AxisAttr{axis}, .type = TensorType{dtype, shape}});
}
Body::V Body::map(Fn fn, std::vector<V> operands) {
  return graph.add(
      {.kind = ir::OpKind::map, .attrs = ir::MapAttr{fn}, .operands = std::move(operands)});
}
Body::V Body::cast(V v, DType dtype) {
  return graph.add({.kind = ir::OpKind::map,
                    .attrs = ir::MapAttr{Fn::cast},
                    .operands = {v},
                    .type = TensorType{dtype, graph.type(v).shape}});
}
Body::V Body::reduce(Fn fn, V v, std::vector<int> axes) {
  ir::ReduceAttr attr{fn, 0};
  for (const int a : axes) attr.axes |= 1u << a;
  return graph.add({.kind = ir::OpKind::reduce, .attrs = attr, .operands = {v}});
}
Body::V Body::dot(V a, V b, bool ta, bool tb, bool tf32) {
  return graph.add(
      {.kind = ir::OpKind::dot, .attrs = ir::DotAttr{ta, tb, tf32}, .operands = {a, b}});
}
Body::V Body::dot_to(V a, V b, DType result) {
  TensorType to{result, graph.type(a).shape};
  to.shape[to.shape.rank() - 1] = graph.type(b).shape[to.shape.rank() - 1];
  return graph.add(
      {.kind = ir::OpKind::dot, .attrs = ir::DotAttr{}, .operands = {a, b}, .type = to});
}
Body::V Body::view(V v, TensorType to, ir::ViewAttr attr) {
  return graph.add({.kind = ir::OpKind::view, .attrs = attr, .operands = {v}, .type = to});
}
Body::V Body::reshape(V v, std::initializer_list<Dim> shape) {
  return view(v, {graph.type(v).dtype, shape}, {ir::ViewKind::reshape});
}
Body::V Body::transpose(V v, std::vector<int64_t> axes) {
  TensorType to{graph.type(v).dtype, {}};
  for (const int64_t a : axes) to.shape.push_back(graph.type(v).shape[static_cast<int>(a)]);
  return view(v, to, {ir::ViewKind::transpose, axes_of(axes)});
}
Body::V Body::broadcast(V v, std::initializer_list<Dim> shape, std::vector<int64_t> axes) {
  return view(v, {graph.type(v).dtype, shape}, {ir::ViewKind::broadcast, axes_of(axes)});
}
Body::V Body::slice(V v, std::vector<int64_t> starts, std::vector<int64_t> steps,
                    std::initializer_list<Dim> shape) {
  return view(v, {graph.type(v).dtype, shape},
              {ir::ViewKind::slice, axes_of(starts), axes_of(steps)});
}
Body::V Body::concat(std::vector<V> vs, int axis) {
  return graph.add(
      {.kind = ir::OpKind::concat, .attrs = ir::AxisAttr{axis}, .operands = std::move(vs)});
}
Body::V Body::gather(V table, V indices, int axis) {
  return graph.add(
      {.kind = ir::OpKind::gather, .attrs = ir::AxisAttr{axis}, .operands = {table, indices}});
}
Body::V Body::scatter(std::optional<Fn> fn, V x, V indices, V updates, int axis) {
  return graph.add({.kind = ir::OpKind::scatter,
                    .attrs = ir::ScatterAttr{axis, fn},
                    .operands = {x, indices, updates}});
}
Body& Body::compact(V mask, V rows) {
  const V made = graph.add({.kind = ir::OpKind::compact, .operands = {mask, rows}});
  return out(made).out({made.index + 1});
}
std::vector<Body::V> Body::host(std::string_view function, std::vector<V> operands,
                                std::vector<TensorType> results) {
  const ir::HostAttr attr{.function = graph.strings.intern(function),
                          .way = ir::HostWay::handshake};
  const V first = graph.add({.kind = ir::OpKind::host,
                             .attrs = attr,
                             .operands = std::move(operands),
                             .type = results[0],
                             .more = {results.begin() + 1, results.end()}});
  std::vector<V> all;
  for (uint32_t r = 0; r < results.size(); ++r) all.push_back({first.index + r});
  return all;
}
Body& Body::out(V v) {
  graph.outputs.push_back({fmt::format("r{}", graph.outputs.size()), v, {}});
  return *this;
}

void fix_some_operands(std::vector<KernelCase>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const ir::Op& op : cases[i].body.ops()) {
      const bool is_input = op.kind == ir::OpKind::input;
      if (!is_input && op.kind != ir::OpKind::param) continue;
      cases[i].fixed.push_back(is_input && (i >> (cases[i].fixed.size() % 2)) % 2 == 0);
    }
  }
}

void check_compiles(const std::vector<KernelCase>& cases) {
  for (const KernelCase& c : cases) {
    const kernels::Family& family = kernels::family(c.family);
    INFO(c.name);
    const std::string refusal = family.refuses(c.body);
    CHECK(refusal == "");
    if (!refusal.empty()) continue;
    const kernels::Emitted first = c.emit();
    CHECK(first.text == c.emit().text);
    CHECK(first.launch.block[0] <= 1024);
    CHECK(first.launch.grid[0] >= 1);
  }
  for (const char* arch : {"sm_80", "sm_90"}) {
    std::string log, source(kernels::prelude());
    for (const KernelCase& c : cases) source += c.emit(*target_from_name(arch)).text;
    const auto image = runtime::compile_cubin(source, arch, "the test kernels", &log);
    CHECK(image.size() > 0);
    // "Compiling entry function 'NAME' ...", then a line with its stack and spills.
    std::string kernel;
    size_t seen = 0;
    for (size_t at = 0; at < log.size();) {
      const size_t end = log.find('\n', at);
      const std::string line = log.substr(at, end - at);
      at = end == std::string::npos ? log.size() : end + 1;
      const size_t name = line.find("entry function '");
      if (name != std::string::npos)
        kernel = line.substr(name + 16, line.rfind("' for") - name - 16);
      if (line.find("bytes stack frame") == std::string::npos) continue;
      ++seen;
      const auto it = std::find_if(cases.begin(), cases.end(),
                                   [&](const KernelCase& c) { return c.name == kernel; });
      if (it == cases.end() || it->local_memory) continue;
      INFO(std::string(arch), " ", kernel, ": ", line);
      CHECK(line.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") !=
            std::string::npos);
    }
    CHECK(seen >= cases.size());
  }
}

namespace {

/// One part of a launch: what it takes, and what it must hold afterwards.
struct Part {
  std::vector<HostTensor> args;
  std::vector<std::string> names;
  ir::TensorMap results;  // outputs, and params as they are at the end

  Part(const ir::Graph& body, uint64_t& seed) {
    ir::TensorMap inputs, params;
    for (const ir::Op& op : body.ops()) {
      if (op.kind != ir::OpKind::input && op.kind != ir::OpKind::param) continue;
      const std::string name(body.strings[op.name]);
      // Integers reach beyond the tables they index, to see that indices are clamped.
      args.push_back(random_tensor(body.type(op.result), ++seed, name, 1.0, -3, 12));
      names.push_back(name);
      (op.kind == ir::OpKind::input ? inputs : params)[name] = widen(args.back());
    }
    for (const ir::Output& o : body.outputs) {
      args.push_back(random_tensor(body.type(o.value), ++seed, o.name));
      names.push_back(o.name);
    }
    // tf32 rounds operands, which the wide reference does not.
    const bool tf32 = std::any_of(body.ops().begin(), body.ops().end(), [](const ir::Op& op) {
      const auto* dot = std::get_if<ir::DotAttr>(&op.attrs);
      return dot && dot->tf32;
    });
    results = ir::interpret(body, inputs, params, tf32 ? ir::Rounding::dtype : ir::Rounding::wide);
    results.merge(params);
  }
};

}  // namespace

void check_numbers(const std::vector<KernelCase>& cases) {
  const OnCpu cpu(cases);
  uint64_t seed = 1;
  for (const KernelCase& c : cases) {
    INFO(c.name);
    std::vector<Part> parts;
    std::vector<HostTensor> args;
    for (uint32_t i = 0; i < c.parts; ++i) {
      const Part& part = parts.emplace_back(c.body, seed);
      args.insert(args.end(), part.args.begin(), part.args.end());
    }
    cpu.run(c, args);
    for (size_t i = 0; i < args.size(); ++i) {
      const Part& part = parts[i / parts[0].args.size()];
      const std::string& name = part.names[i % part.names.size()];
      const auto want = part.results.find(name);
      if (want == part.results.end()) continue;
      const DType t = args[i].type.dtype;
      const double bound = t == DType::bf16  ? 6e-3
                           : t == DType::f16 ? 1e-3
                           : t == DType::f32 ? 2e-6
                           : t == DType::f64 ? 1e-12
                                             : 0;
      INFO(name, " of part ", i / part.names.size());
      CHECK(relative_error(args[i], want->second) <= bound);
    }
  }
}

}  // namespace braid::test
