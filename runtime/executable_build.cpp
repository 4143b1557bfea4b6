#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ir/diagnostic.hpp"
#include "ir/kernel_launch.hpp"
#include "runtime/executable_impl.hpp"
#include "runtime/simulator.hpp"
#include "runtime/user_code.hpp"
#include "runtime/user_kernels.hpp"

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
      if (mailbox) mailbox->leave(last->event());
      driver.cuEventSynchronize(last->event());
      CUcontext popped = nullptr;
      driver.cuCtxPopCurrent(&popped);
    }
  }
  if (mailbox) mailbox->close();
  if (ring) ring->close();
  if (!last) return;
  const std::lock_guard lock(store.impl()->mutex);
  store.impl()->forget(this);
}

void Executable::Impl::build(const HostFunctions& host_functions, MessageOptions messages,
                             const HostOptions& host, const LibraryFunctions& library_functions) {
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
  if (!program.exchanges.empty()) {
    mailbox = runtime::Mailbox::make(context, program, host_functions, host, stream.get());
  }
  place_buffers();
  initial_scalars();
  calls = runtime::HostCalls(context, program, host_functions);
  flags = runtime::HostFlags(context, program);
  // Loading waits in the driver for kernels that wait for the host, so it waits here first.
  const runtime::Gate::Quiet quiet(context->gate, [this] { context->look(stream.get()); });
  load_kernels(host_functions);
  libraries_called = runtime::LibraryCalls(context, program, library_functions, functions);
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
        bases[i] = mailbox->device();
        break;
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

CUlibrary Executable::Impl::load_image(const std::vector<std::byte>& image, const std::string& what,
                                       const std::shared_ptr<const HostFunctions>& references) {
  Driver& driver = *context->driver;
  CUlibrary library = nullptr;
  context->check(
      driver.cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cuLibraryLoadData", what);
  libraries.emplace_back(context, library);
  if (references) driver.provide(library, references);
  return library;
}

void Executable::Impl::load_kernels(const HostFunctions& host_functions) {
  Driver& driver = *context->driver;
  std::shared_ptr<const HostFunctions> references;
  const bool users =
      std::any_of(program.kernels.begin(), program.kernels.end(),
                  [](const Kernel& k) { return k.code == Code::user || k.code == Code::library; });
  if (users && driver.simulated()) {
    runtime::require_references(program, host_functions);
    references = std::make_shared<const HostFunctions>(host_functions);
  }
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
    load_image(image, fmt::format("module {} of {}", m, program.name), references);
  }
  CUlibrary called = nullptr;  // library kernels, of the simulator alone
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Kernel& k = program.kernels[i];
    const bool is_library = k.code == Code::library;
    if (k.code == Code::host || (is_library && !driver.simulated())) {
      functions.push_back(nullptr);
      continue;
    }
    if (is_library && !called) {
      called = load_image(runtime::simulator_library_image(program),
                          "library functions of " + program.name, references);
    }
    const std::string symbol =
        driver.simulated() ? runtime::simulated_symbol(program, i) : k.symbol;
    CUkernel kernel = nullptr;
    context->check(driver.cuLibraryGetKernel(
                       &kernel, is_library ? called : libraries[k.module].get(), symbol.c_str()),
                   "cuLibraryGetKernel", k.symbol);
    CUfunction function = nullptr;
    context->check(driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction", k.symbol);
    // Loading is lazy by default, and a first load waits for the GPU to be idle.
    context->check(driver.cuFuncLoad(function), "cuFuncLoad", k.symbol);
    constexpr uint32_t kSharedWithoutAsking = 48 * 1024;
    const uint32_t shared = most_shared_bytes(program, k);
    if (shared > kSharedWithoutAsking) {
      context->check(
          driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(shared)),
          "cuFuncSetAttribute", fmt::format("{}, {} bytes of shared memory", k.symbol, shared));
    }
    functions.push_back(function);
  }
}

CUdeviceptr Executable::Impl::address_of(uint32_t view) const {
  const View& v = program.views[view];
  return bases[v.buffer] + static_cast<CUdeviceptr>(v.offset);
}

}  // namespace braid
