#include "runtime/executable.hpp"

#include <fmt/format.h>

#include <memory>
#include <thread>

#include "ir/diagnostic.hpp"
#include "runtime/check_program.hpp"
#include "runtime/executable_impl.hpp"
#include "runtime/mailbox.hpp"
#include "runtime/user_code.hpp"
#include "runtime/user_kernels.hpp"

namespace braid {

using runtime::Current;
using runtime::Driver;
using runtime::MarkPtr;

namespace {

void refuse_graph_nodes(const Program& program) {
  const std::optional<GraphOnly> found = graph_only(program);
  if (!found) return;
  throw_error(
      "E0828",
      fmt::format("program '{}' cannot be launched kernel by kernel: {}", program.name, found->why),
      "launch it as a graph, or " + found->remedy);
}

/// Destroying waits for launches, which may wait for the host function that does it.
template <class Impl>
void dispose(std::unique_ptr<Impl> impl) noexcept {
  if (!impl || !runtime::InHostCall::active()) return;
  std::thread([left = std::move(impl)]() mutable {
    {
      const std::lock_guard lock(left->mutex);
    }  // a launch may not have returned
    left.reset();
  }).detach();
}

}  // namespace

std::optional<GraphOnly> graph_only(const Program& program) {
  for (const Exchange& e : program.exchanges) {
    if (e.way != ir::HostWay::node) continue;
    return GraphOnly{fmt::format("{} is called by a host node", runtime::text_of(e)),
                     "compile it with --host=handshake or break"};
  }
  for (const Region& r : program.regions) {
    if (r.kind != Region::Kind::node) continue;
    return GraphOnly{
        fmt::format("{} is a conditional node{}", r.op, r.place.empty() ? "" : ", " + r.place),
        "compile it with --branches=predicate or host and --loops=host"};
  }
  return {};
}

void Ticket::Impl::finish() const {
  if (ring) ring->refuse_inside();
  {
    const Current current(context);
    context->check(context->driver->cuEventSynchronize(mark->event()), "cuEventSynchronize", *what);
    context->drain();
  }
  if (mailbox) mailbox->finish(*exchanged);
  if (ring) ring->finish(*launch);
}

void Ticket::Impl::rethrow() const {
  if (mailbox) mailbox->rethrow(*exchanged);
  if (ring) ring->rethrow(*launch);
}

void Ticket::wait() {
  if (!impl_) return;
  impl_->finish();
  impl_->rethrow();
}

HostTensor Ticket::item(std::string_view label) const {
  if (!impl_ || !impl_->ring) {
    throw_error("E0862",
                fmt::format("there is no item '{}': the program sends no messages", label));
  }
  impl_->finish();
  return impl_->ring->item(*impl_->launch, label);
}

std::map<std::string, Message, std::less<>> Ticket::items() const {
  if (!impl_ || !impl_->ring) return {};
  impl_->finish();
  return impl_->ring->items(*impl_->launch);
}

bool Ticket::done() const {
  if (!impl_) return true;
  const Current current(impl_->context);
  const CUresult result = impl_->context->driver->cuEventQuery(impl_->mark->event());
  if (result == CUDA_ERROR_NOT_READY) return false;
  impl_->context->check(result, "cuEventQuery", *impl_->what);
  return true;
}

Executable::Executable(Program program, Store store, const HostFunctions& functions,
                       MessageOptions messages, const HostOptions& host,
                       const LibraryFunctions& libraries) {
  runtime::InHostCall::refuse();
  runtime::check_program(program);
  impl_ = std::make_unique<Impl>(std::move(program), store);
  try {
    const Current current(impl_->context);
    impl_->build(functions, std::move(messages), host, libraries);
  } catch (...) {
    const std::vector<std::string> declared = impl_->placement.declared;
    impl_.reset();
    const std::lock_guard lock(store.impl()->mutex);
    store.impl()->undeclare(declared);
    throw;
  }
}

Executable::~Executable() { dispose(std::move(impl_)); }
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&& o) noexcept {
  if (this != &o) {
    dispose(std::move(impl_));
    impl_ = std::move(o.impl_);
  }
  return *this;
}

const Program& Executable::program() const { return impl_->program; }
Store Executable::store() const { return impl_->store; }

Ticket Executable::launch(Stream stream, LaunchMode mode) {
  Impl& impl = *impl_;  // a host function that the launch calls may let go of the executable
  const Current current(impl.context);
  const auto lock = impl.enter();
  Ticket ticket;
  ticket.impl_ = std::make_shared<Ticket::Impl>();
  ticket.impl_->context = impl.context;
  ticket.impl_->what = impl.launch_text;
  ticket.impl_->mark = impl.enqueue(stream ? stream : impl.stream.get(), mode);
  ticket.impl_->ring = impl.ring;
  ticket.impl_->launch = impl.launched;
  ticket.impl_->mailbox = impl.mailbox;
  ticket.impl_->exchanged = impl.exchanged;
  return ticket;
}

std::unique_lock<std::mutex> Executable::Impl::enter() const {
  if (ring) ring->refuse_inside();
  return std::unique_lock(mutex);
}

MarkPtr Executable::Impl::enqueue(CUstream on, LaunchMode mode) {
  if (mode == LaunchMode::stream) refuse_graph_nodes(program);
  Driver& driver = *context->driver;
  Store::Impl& shared = *store.impl();
  MarkPtr mark = shared.events->take();
  if (mailbox) exchanged = mailbox->begin(on);  // may wait, so before anybody's lock
  // Held until the launch is in the store's books: nobody may slip in between.
  std::unique_lock<std::mutex> books(shared.mutex, std::defer_lock);
  if (!program.params.empty()) books.lock();
  if (ring) launched = ring->begin();
  try {
    if (last && (on != stream.get() || last->stream != stream.get())) {
      context->check(driver.cuStreamWaitEvent(on, last->event(), 0), "cuStreamWaitEvent",
                     *launch_text);
    }
    if (books) shared.order(on, writes_params, stream.get());
    if (mailbox) mailbox->start(on);
    enqueue_scalars(on);
    for (const Step& step : program.script) perform(step, on, mode);
    if (mailbox) mailbox->end(*exchanged, on);
    context->check(driver.cuEventRecord(mark->event(), on), "cuEventRecord", *launch_text);
  } catch (...) {
    // Part of it may run, and there is no mark that others could wait for.
    driver.cuStreamSynchronize(on);
    if (last) driver.cuEventSynchronize(last->event());
    if (mailbox) mailbox->abandon(*exchanged);
    if (ring) ring->abandon(*launched, on);
    throw;
  }
  mark->stream = on;
  last = mark;
  if (books) shared.launched(this, writes_params, mark);
  return mark;
}

void Executable::Impl::perform(const Step& step, CUstream on, LaunchMode mode) {
  const auto address = [this](uint32_t view) { return address_of(view); };
  switch (step.kind) {
    case Step::Kind::launch:
      if (mode == LaunchMode::stream || program.bodies[step.index].stream) {
        enqueue_kernels(program.bodies[step.index], step.index, on);
      } else {
        context->check(context->driver->cuGraphLaunch(graphs[step.index].exec.get(), on),
                       "cuGraphLaunch", *launch_text);
      }
      return;
    case Step::Kind::read:
      return calls.read(step.index, on, address);
    case Step::Kind::wait:
      return calls.wait(step.index);
    case Step::Kind::call:
      return calls.call(step.index);
    case Step::Kind::write:
      return calls.write(step.index, on, address);
    case Step::Kind::region:
      return follow(step.index, on, mode);
  }
}

void Executable::Impl::follow(uint32_t region, CUstream on, LaunchMode mode) {
  const Region& r = program.regions[region];
  for (;;) {
    int64_t side = flags.read(region, on, address_of(r.flag));
    if (r.loop) {
      if (side == 0) return;
      side = 0;
    }
    for (const Step& step : r.scripts[static_cast<size_t>(side)]) perform(step, on, mode);
    if (!r.loop) return;
  }
}

void Executable::Impl::enqueue_scalars(CUstream on) {
  if (!scalars_changed) return;
  // The driver takes pageable bytes before it returns, so that the next set() may change them, and
  // the stream keeps the copy between this launch and the last one.
  context->check(context->driver->cuMemcpyHtoDAsync(scalars.get(), scalar_values.data(),
                                                    scalar_values.size(), on),
                 "cuMemcpyHtoDAsync", "scalars of " + program.name);
  scalars_changed = false;
}

void Executable::Impl::enqueue_kernels(const Body& body, uint32_t index, CUstream on) {
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Kernel& kernel = program.kernels[body.nodes[n].kernel];
    if (kernel.code == Code::library) {
      enqueue_library(body.nodes[n], args[index][n], on);
      continue;
    }
    const LaunchShape& l = kernel.launch;
    runtime::KernelArguments arguments(kernel, args[index][n]);
    const CUresult result = context->driver->cuLaunchKernel(
        functions[body.nodes[n].kernel], l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1],
        l.block[2], l.shared_bytes, on, arguments.data(), nullptr);
    if (result != CUDA_SUCCESS) {
      context->check(result, "cuLaunchKernel", runtime::node_text(program, body, n));
    }
  }
}

void Executable::Impl::order_own_stream() {
  if (!last || last->stream == stream.get()) return;
  context->check(context->driver->cuStreamWaitEvent(stream.get(), last->event(), 0),
                 "cuStreamWaitEvent", *launch_text);
}

}  // namespace braid
