#include "frontend/report/cpp.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "frontend/report/cpp_emitter.hpp"
#include "ir/diagnostic.hpp"
#include "ir/tensor.hpp"

namespace braid {
namespace cpp_text {
namespace {

/// "in0_x": unique by the number, readable by the name.
std::string numbered(std::string_view prefix, size_t i, std::string_view name) {
  const std::string readable = identifier(name);
  return fmt::format("{}{}{}{}", prefix, i, readable.empty() ? "" : "_", readable);
}

std::string real(double x) {
  if (std::isfinite(x)) return fmt::format("{}", x);
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return fmt::format("std::bit_cast<double>(uint64_t{{{:#x}}})", bits);
}

/// The .npy header of a type, without its spaces.
std::string npy_header(const TensorType& t) {
  constexpr std::string_view kDescr[] = {"<f4", "<f2", "<f4", "<f8", "<i4",
                                         "<i8", "|i1", "|u1", "|b1"};
  std::string shape = fmt::format("{}", fmt::join(t.shape.extents(), ","));
  if (t.shape.rank() == 1) shape += ",";
  return fmt::format("{{'descr':'{}','fortran_order':False,'shape':({}),}}",
                     kDescr[static_cast<size_t>(t.dtype)], shape);
}

template <class Bindings>
static std::vector<std::pair<std::string, uint32_t>> named(const Bindings& bindings) {
  std::vector<std::pair<std::string, uint32_t>> out;
  for (const auto& b : bindings) out.emplace_back(b.name, b.buffer);
  return out;
}

}  // namespace

std::string Emitter::run() {
  name_buffers();
  title();
  out_ += kPrelude;
  memory();
  waits();
  kernels();
  graphs();
  host_functions();
  script();
  main_function();
  images();
  return std::move(out_);
}

void Emitter::name_buffers() {
  for (size_t i = 0; i < p_.inputs.size(); ++i) {
    bases_[p_.inputs[i].buffer] = numbered("in", i, p_.inputs[i].name);
  }
  for (size_t i = 0; i < p_.params.size(); ++i) {
    bases_[p_.params[i].buffer] = numbered("param", i, p_.params[i].name);
  }
  for (size_t i = 0; i < p_.outputs.size(); ++i) {
    bases_[p_.outputs[i].buffer] = numbered("out", i, p_.outputs[i].name);
  }
  for (size_t i = 0; i < p_.buffers.size(); ++i) {
    const Segment s = p_.buffers[i].segment;
    if (s == Segment::temp) bases_[i] = "arena";
    if (s == Segment::scalar) bases_[i] = "scalars";
    if (s == Segment::handle) bases_[i] = fmt::format("handle{}", i);
    if (s == Segment::ring) bases_[i] = "ring_control";
    // Where all constants are empty there is no memory of theirs, and nobody reads them.
    if (s == Segment::constant) bases_[i] = p_.constants.empty() ? "arena" : "constants";
  }
}

std::string Emitter::address(uint32_t view) const {
  const View& v = p_.views[view];
  const int64_t offset = p_.buffers[v.buffer].offset + v.offset;
  return offset == 0 ? bases_[v.buffer] : fmt::format("{} + {}", bases_[v.buffer], offset);
}

std::string Emitter::kernel_name(uint32_t k) const {
  return numbered("k", k, p_.kernels[k].symbol);
}

std::string Emitter::body_name(uint32_t b) const {
  return fmt::format("{}{}", p_.bodies[b].stream ? "s" : "g", b);
}

std::string Emitter::region_text(uint32_t r) const {
  const Region& region = p_.regions[r];
  return fmt::format("r{}: {}{}{}", r, region.op, region.place.empty() ? "" : ", ", region.place);
}

bool Emitter::host_driven() const {
  return std::any_of(p_.regions.begin(), p_.regions.end(),
                     [](const Region& r) { return r.kind == Region::Kind::host; });
}

size_t Emitter::host_index(const std::string& function) const {
  const auto at = std::find(functions_.begin(), functions_.end(), function);
  return static_cast<size_t>(at - functions_.begin());
}

std::string Emitter::host_name(const std::string& function) const {
  return numbered("host", host_index(function), function);
}

void Emitter::title() {
  size_t kernels = 0, conditional = 0;
  for (const Body& b : p_.bodies) {
    for (const Node& n : b.nodes) ++(n.kernel == kNoKernel ? conditional : kernels);
  }
  std::string nodes;
  if (conditional > 0) {
    nodes = fmt::format("{} conditional node{}, ", conditional, conditional == 1 ? "" : "s");
  }
  std::string program = identifier(p_.name);
  if (program.empty()) program = "plan";
  out_ += comment_lines(
      "", fmt::format("{}: {} ops as {} kernels, {}{} graph{}; for {}. Written by braid "
                      "inspect --format=cpp: what the plan does, call for call.",
                      p_.name, p_.source_ops, kernels, nodes, p_.graphs, p_.graphs == 1 ? "" : "s",
                      p_.target.arch));
  put("//\n//   g++ -std=c++20 {0}.cpp -I$CUDA_HOME/include -lcuda -o {0}\n", program);
  put("//   ./{} [FOLDER [LAUNCHES]]\n//\n", program);
  out_ += comment_lines(
      "",
      "Inputs, params and runtime scalars come from the .npy files of FOLDER that are named "
      "below; those without a file, and all without a FOLDER, get what `braid run` gives them "
      "by its seed 1. One launch; then the outputs are written to FOLDER and printed, with the "
      "FNV-1a hash of their bytes. Then LAUNCHES launches (100; 0: none) are timed 21 times. "
      "CUDA_VISIBLE_DEVICES chooses the GPU.");
  if (!p_.messages.empty()) {
    out_ += comment_lines("",
                          "Prints and items go to stderr, but for those of the launches that are "
                          "timed; a check that fails ends the program with exit code 1.");
  }
  put("//\n");
  if (!p_.options.empty()) out_ += comment_lines("", "Options: " + p_.options);
}

void Emitter::tensors(const char* array, const std::vector<std::pair<std::string, uint32_t>>& named,
                      std::string_view ending) {
  if (named.empty()) return;
  put("\nconst Tensor {}[] = {{\n", array);
  for (const auto& [name, buffer] : named) {
    const TensorType& t = p_.buffers[buffer].type;
    put("    {{{}s, DType::{}, {}, {}, {}, {}}},\n", literal(name), name_of(t.dtype),
        literal(to_string(t)), t.shape.numel(), literal(files_.take(name, ending)),
        literal(npy_header(t)));
  }
  put("}};\n");
}

void Emitter::memory() {
  put("\n// ---- Memory ----\n\n");
  put("CUcontext context;\nCUstream stream;\nCUdeviceptr arena;  // {} bytes: temporaries, at "
      "their offsets\n",
      p_.arena_bytes);
  if (!p_.constants.empty()) {
    put("CUdeviceptr constants;\nextern const unsigned char constant_bytes[{}];\n",
        p_.constants.size() + 1);
  }
  if (!p_.scalars.empty()) put("CUdeviceptr scalars;  // {} bytes\n", p_.scalar_bytes);
  pointers(p_.inputs);
  pointers(p_.params);
  pointers(p_.outputs);
  tensors("inputs", named(p_.inputs), ".npy");
  tensors("params", named(p_.params), ".npy");
  tensors("runtime_scalars", named(p_.scalars), ".npy");
  tensors("outputs", named(p_.outputs), ".out.npy");
}

void Emitter::allocate(const std::string& name, int64_t bytes) {
  put("  CALL(cuMemAlloc(&{}, {}));\n", name, std::max<int64_t>(bytes, 1));
  allocated_.push_back(name);
}

void Emitter::fill() {
  for (size_t i = 0; i < p_.inputs.size(); ++i) {
    put("  upload({}, values_of(folder, inputs[{}], random_values(inputs[{}], 1)));\n",
        bases_[p_.inputs[i].buffer], i, i);
  }
  for (size_t i = 0; i < p_.params.size(); ++i) {
    const ParamBinding& b = p_.params[i];
    std::string values = fmt::format("random_values(params[{}], {})", i, real(b.scale));
    if (b.init == ir::Init::zeros) values = fmt::format("equal_values(params[{}], 0)", i);
    if (b.init == ir::Init::ones) values = fmt::format("equal_values(params[{}], 1)", i);
    put("  upload({}, values_of(folder, params[{}], {}));\n", bases_[b.buffer], i, values);
  }
  if (!p_.constants.empty()) {
    put("  upload(constants, {{constant_bytes, constant_bytes + {}}});\n", p_.constants.size());
  }
  if (p_.scalars.empty()) return;
  put("  Bytes block({});\n", p_.scalar_bytes);
  for (size_t i = 0; i < p_.scalars.size(); ++i) {
    const ScalarBinding& b = p_.scalars[i];
    HostTensor t(p_.buffers[b.buffer].type);
    t.set(0, b.initial);
    std::vector<std::string> bytes;
    for (const std::byte x : t.bytes) {
      bytes.push_back(fmt::format("{:#04x}", std::to_integer<int>(x)));
    }
    put("  {{\n    const Bytes initial{{{}}};  // {}\n", fmt::join(bytes, ", "), b.initial);
    put("    const Bytes x = values_of(folder, runtime_scalars[{}], initial);\n", i);
    put("    std::copy(x.begin(), x.end(), block.begin() + {});\n  }}\n",
        p_.buffers[b.buffer].offset);
  }
  put("  upload(scalars, block);\n");
}

void Emitter::main_function() {
  out_ += kProgram;
  allocate("arena", p_.arena_bytes);
  if (!p_.constants.empty()) allocate("constants", static_cast<int64_t>(p_.constants.size()));
  if (!p_.scalars.empty()) allocate("scalars", p_.scalar_bytes);
  for (const Binding& b : p_.inputs) allocate(bases_[b.buffer], p_.buffers[b.buffer].bytes);
  for (const ParamBinding& b : p_.params) allocate(bases_[b.buffer], p_.buffers[b.buffer].bytes);
  for (const Binding& b : p_.outputs) allocate(bases_[b.buffer], p_.buffers[b.buffer].bytes);
  if (!p_.calls.empty()) {
    put("  void* memory;\n  CALL(cuMemHostAlloc(&memory, {}, 0));\n",
        std::max<int64_t>(host_bytes_, 1));
    put("  host = static_cast<unsigned char*>(memory);\n");
  }
  for (size_t i = 0; i < p_.calls.size(); ++i) {
    put("  CALL(cuEventCreate(&c{}_there, CU_EVENT_DISABLE_TIMING));\n", i);
  }
  if (!p_.messages.empty() || host_driven()) {
    put("  CALL(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));\n");
  }
  if (host_driven()) {
    put("  void* flag;\n  CALL(cuMemHostAlloc(&flag, sizeof *decision, 0));\n");
    put("  decision = static_cast<int32_t*>(flag);\n");
  }
  if (!p_.messages.empty()) put("  make_ring();\n");
  put("\n");
  fill();
  put("\n  load_kernels();\n");
  for (uint32_t b = 0; b < p_.bodies.size(); ++b) {
    if (!p_.bodies[b].stream && !is_side(b)) put("  build_{}();\n", body_name(b));
  }
  put("  launch();\n");
  if (!p_.messages.empty()) put("  finish_launch();\n");
  for (size_t i = 0; i < p_.outputs.size(); ++i) {
    put("  show(folder, outputs[{}], {});\n", i, bases_[p_.outputs[i].buffer]);
  }
  put("  CALL(cuStreamSynchronize(stream));\n");
  put("{}  if (launches > 0) time_launches(launches);\n\n",
      p_.calls.empty() && p_.messages.empty() ? "" : "  timing = true;\n");
  give_back();
  out_ += kMain;
}

void Emitter::give_back() {
  for (uint32_t b = 0; b < p_.bodies.size(); ++b) {
    if (p_.bodies[b].stream || is_side(b)) continue;
    put("  CALL(cuGraphExecDestroy({0}_exec));\n  CALL(cuGraphDestroy({0}));\n", body_name(b));
  }
  for (size_t i = 0; i < p_.calls.size(); ++i) put("  CALL(cuEventDestroy(c{}_there));\n", i);
  if (!p_.calls.empty()) put("  CALL(cuMemFreeHost(host));\n");
  if (!p_.messages.empty() || host_driven()) put("  CALL(cuEventDestroy(there));\n");
  if (host_driven()) put("  CALL(cuMemFreeHost(decision));\n");
  if (!p_.messages.empty()) {
    put("  CALL(cuMemFree(ring_control));\n  CALL(cuMemFreeHost(ring_host));\n");
  }
  for (size_t m = 0; m < p_.modules.size(); ++m) put("  CALL(cuLibraryUnload(module{}));\n", m);
  for (const std::string& name : allocated_) put("  CALL(cuMemFree({}));\n", name);
  put("  CALL(cuStreamDestroy(stream));\n  CALL(cuCtxPopCurrent(&context));\n"
      "  CALL(cuDevicePrimaryCtxRelease(device));\n");
}

void Emitter::images() {
  put("\n// ---- Cubins and constants ----\n\nnamespace plan {{\n");
  for (size_t m = 0; m < p_.modules.size(); ++m) {
    put("\nalignas(16) const unsigned char cubin{}[{}] ={};\n", m, p_.modules[m].image.size() + 1,
        literal_lines(p_.modules[m].image));
  }
  if (!p_.constants.empty()) {
    put("\nconst unsigned char constant_bytes[{}] ={};\n", p_.constants.size() + 1,
        literal_lines(p_.constants));
  }
  put("\n}}  // namespace plan\n");
}

}  // namespace cpp_text

std::string to_cpp(const Program& p) {
  for (const Kernel& k : p.kernels) {
    if (k.code != Code::library) continue;
    throw_error("E0894",
                fmt::format("program '{}' calls the library function '{}', whose work the program "
                            "that C++ text would be has no means to enqueue",
                            p.name, k.function),
                k.function == kCublasLtMatmul
                    ? "compile it with --dots=braid (Options::dots)"
                    : "run it from C++ by an Executable, which is given the function");
  }
  for (const Module& m : p.modules) {
    if (!m.image.empty()) continue;
    throw_error("E0813", fmt::format("the kernels of program '{}' are not compiled", p.name),
                "call runtime::compile_modules on the program first");
  }
  if (!p.exchanges.empty()) {
    const Exchange& e = p.exchanges.front();
    throw_error(
        "E0879",
        fmt::format("program '{}' cannot be written as C++: its graphs call host functions, "
                    "'{}' first ({}{}{}), which need a thread that answers them",
                    p.name, e.function, e.op, e.place.empty() ? "" : ", ", e.place),
        "compile it with --host=break, or with way = \"break\" for these calls");
  }
  return cpp_text::Emitter(p).run();
}

}  // namespace braid
