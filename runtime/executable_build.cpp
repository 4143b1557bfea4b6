#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ir/diagnostic.hpp"
#include "runtime/executable_impl.hpp"
#include "runtime/simulator.hpp"

namespace braid {

using runtime::Driver;

Executable::Impl::Impl(Program p, Store s)
    : program(std::move(p)),
      store(std::move(s)),
      context(store.device().context()),
      launch_text(std::make_shared<const std::string>("launch of program '" + program.name + "'")) {
}

Executable::Impl::~Impl() {
  if (last) {
    Driver& driver = *context->driver;
    if (driver.cuCtxPushCurrent(context->handle) == CUDA_SUCCESS) {
      driver.cuEventSynchronize(last->event());
      CUcontext popped = nullptr;
      driver.cuCtxPopCurrent(&popped);
    }
  }
  if (ring) ring->close();
  if (!last) return;
  const std::lock_guard lock(store.impl()->mutex);
  store.impl()->forget(this);
}

void Executable::Impl::build(const HostFunctions& host_functions, MessageOptions messages,
                             const LibraryFunctions& library_functions) {
  {
    const std::lock_guard lock(store.impl()->mutex);
    placement = declare(*store.impl(), program, 1);
  }
  writes_params = std::any_of(program.params.begin(), program.params.end(),
                              [](const ParamBinding& p) { return p.written; });
  stream = runtime::make_stream(context);
  if (!program.messages.empty()) {
    ring = std::make_shared<runtime::Ring>(context, program, std::move(messages), stream.get());
  }
  place_buffers();
  initial_scalars();
  load_kernels(host_functions);
  libraries_called = runtime::LibraryCalls(context, program, library_functions, functions);
  calls = runtime::HostCalls(context, program, host_functions);
  flags = runtime::HostFlags(context, program);
  make_graphs();
  context->check(context->driver->cuStreamSynchronize(stream.get()), "cuStreamSynchronize",
                 "upload of program '" + program.name + "'");
}

void Executable::Impl::place_buffers() {
  arena = runtime::allocate(context, program.arena_bytes, "arena of " + program.name);
  bases.resize(program.buffers.size());
  scalars = runtime::allocate(context, program.scalar_bytes, "scalars of " + program.name);
  scalar_values.resize(static_cast<size_t>(program.scalar_bytes));
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    switch (b.segment) {
      case Segment::temp:
        bases[i] = arena.get() + static_cast<CUdeviceptr>(b.offset);
        break;
      case Segment::constant:
        // Where all constants are empty there is no memory of theirs, and nobody reads them.
        bases[i] = (placement.constants ? placement.constants->get() : arena.get()) +
                   static_cast<CUdeviceptr>(b.offset);
        break;
      case Segment::scalar:
        bases[i] = scalars.get() + static_cast<CUdeviceptr>(b.offset);
        break;
      case Segment::input:
      case Segment::output:
        memory[i] =
            runtime::allocate(context, b.bytes, fmt::format("{} {}", name_of(b.segment), b.name));
        bases[i] = memory[i].get();
        break;
      case Segment::param:
        for (size_t p = 0; p < program.params.size(); ++p) {
          if (program.params[p].buffer == i) bases[i] = placement.params[p]->get();
        }
        break;
      case Segment::handle:
        break;  // made with the graph
      case Segment::ring:
        bases[i] = ring->control();
        break;
      case Segment::mailbox:
        throw InternalError("a mailbox in a program");
    }
  }
}

void Executable::Impl::initial_scalars() {
  for (const ScalarBinding& s : program.scalars) {
    HostTensor t(program.buffers[s.buffer].type);
    t.set(0, s.initial);
    put_scalar(s.buffer, t);
  }
}

void Executable::Impl::put_scalar(uint32_t buffer, const HostTensor& value) {
  const auto at = static_cast<std::ptrdiff_t>(program.buffers[buffer].offset);
  std::copy(value.bytes.begin(), value.bytes.end(), scalar_values.begin() + at);
  scalars_changed = true;
}

CUlibrary Executable::Impl::load_image(const std::vector<std::byte>& image,
                                       const HostFunctions& host_functions,
                                       const std::string& what) {
  // The simulator evaluates what the functions are references of.
  auto functions_given = std::make_shared<const HostFunctions>(host_functions);
  CUlibraryOption option = runtime::kSimulatorFunctions;
  void* value = &functions_given;
  const bool simulated = context->driver->simulated();
  CUlibrary library = nullptr;
  context->check(context->driver->cuLibraryLoadData(
                     &library, image.data(), nullptr, nullptr, 0, simulated ? &option : nullptr,
                     simulated ? &value : nullptr, simulated ? 1 : 0),
                 "cuLibraryLoadData", what);
  libraries.emplace_back(context, library);
  return library;
}

void Executable::Impl::load_kernels(const HostFunctions& host_functions) {
  Driver& driver = *context->driver;
  for (uint32_t m = 0; m < program.modules.size(); ++m) {
    const std::vector<std::byte> image =
        driver.simulated() ? runtime::simulator_image(program, m) : program.modules[m].image;
    if (image.empty()) {
      Diagnostic d;
      d.code = "E0813";
      d.message = fmt::format("the kernels of program '{}' are not compiled", program.name);
      d.suggestion = "call runtime::compile_modules on the program first";
      throw Error(std::move(d));
    }
    load_image(image, host_functions, fmt::format("module {} of {}", m, program.name));
  }
  if (driver.simulated()) runtime::require_references(program, host_functions);
  CUlibrary called = nullptr;  // library kernels, of the simulator alone
  for (const Kernel& k : program.kernels) {
    const bool is_library = k.code == Code::library;
    if (is_library && !driver.simulated()) {
      functions.push_back(nullptr);
      continue;
    }
    if (is_library && !called) {
      called = load_image(runtime::simulator_library_image(program), host_functions,
                          "library functions of " + program.name);
    }
    CUkernel kernel = nullptr;
    context->check(driver.cuLibraryGetKernel(
                       &kernel, is_library ? called : libraries[k.module].get(), k.symbol.c_str()),
                   "cuLibraryGetKernel", k.symbol);
    CUfunction function = nullptr;
    context->check(driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction", k.symbol);
    // Loading is lazy by default, and a first load waits for the GPU to be idle.
    context->check(driver.cuFuncLoad(function), "cuFuncLoad", k.symbol);
    constexpr uint32_t kSharedWithoutAsking = 48 * 1024;
    if (k.launch.shared_bytes > kSharedWithoutAsking) {
      context->check(
          driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(k.launch.shared_bytes)),
          "cuFuncSetAttribute",
          fmt::format("{}, {} bytes of shared memory", k.symbol, k.launch.shared_bytes));
    }
    functions.push_back(function);
  }
}

CUdeviceptr Executable::Impl::address_of(uint32_t view) const {
  const View& v = program.views[view];
  return bases[v.buffer] + static_cast<CUdeviceptr>(v.offset);
}

}  // namespace braid
