#include "runtime/kernel_times.hpp"

#include <algorithm>

#include "runtime/executable_impl.hpp"
#include "runtime/stopwatch.hpp"

namespace braid::runtime {
namespace {

constexpr uint32_t kLaunches = 64;    // in a chain: launching the graph is shared by all
constexpr size_t kLeastSamples = 11;  // of a chain

std::vector<const Node*> nodes_of(const Program& p, uint32_t kernel) {
  std::vector<const Node*> nodes;
  for (const Body& body : p.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel == kernel) nodes.push_back(&node);
    }
  }
  return nodes;
}

bool uses_segment(const Program& p, const Node& node, Segment segment) {
  return std::any_of(node.args.begin(), node.args.end(),
                     [&](uint32_t v) { return p.buffers[p.views[v].buffer].segment == segment; });
}

/// Whether another temporary may lie on the bytes of this one.
bool shares_bytes(const Program& p, uint32_t buffer) {
  const Buffer& b = p.buffers[buffer];
  if (b.segment != Segment::temp) return false;
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& other = p.buffers[i];
    if (i != buffer && other.segment == Segment::temp && other.offset < b.offset + b.bytes &&
        b.offset < other.offset + other.bytes) {
      return true;
    }
  }
  return false;
}

/// Our kernels stay inside their arguments whatever these hold; a user's may take an index from
/// them.
bool keeps_arguments(const Program& p, const Node& node) {
  const std::vector<ArgSlot>& slots = slots_of(p, node);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role == Role::inout) return false;
    if (slots[i].role == Role::in && shares_bytes(p, p.views[node.args[i]].buffer)) return false;
  }
  return true;
}

std::string why_left_out(const Program& p, uint32_t kernel, const std::vector<const Node*>& nodes) {
  const Kernel& k = p.kernels[kernel];
  const auto any = [&](const auto& has) { return std::any_of(nodes.begin(), nodes.end(), has); };
  if (k.code == Code::library) return "a library enqueues its work";
  if (k.code == Code::host || k.exchanges) return "it calls the host";
  if (k.guard) return "a branch decides whether it computes";
  if (any([&](const Node* n) { return uses_segment(p, *n, Segment::handle); })) {
    return "it sets the value of a conditional node";
  }
  if (any([&](const Node* n) { return uses_segment(p, *n, Segment::ring); })) {
    return "it sends messages";
  }
  if (k.code == Code::user && any([&](const Node* n) { return !keeps_arguments(p, *n); })) {
    return "its code may need what others overwrite here (--no-reuse)";
  }
  return {};
}

}  // namespace

Program chains_of(const Program& program, uint32_t launches, std::vector<KernelTime>& times) {
  times.clear();
  Program chains = program;
  chains.bodies.clear();
  chains.script.clear();
  for (uint32_t k = 0; k < program.kernels.size(); ++k) {
    const std::vector<const Node*> nodes = nodes_of(program, k);
    if (nodes.empty()) continue;
    const auto uses = static_cast<uint32_t>(nodes.size());
    KernelTime time{k, uses, 0, 0, why_left_out(program, k, nodes)};
    if (time.left_out.empty()) {
      time.launches = (launches + uses - 1) / uses * uses;
      Body body;
      for (uint32_t i = 0; i < time.launches; ++i) {
        body.nodes.push_back(*nodes[i % uses]);
        if (i > 0) body.edges.push_back({i - 1, i, EdgeKind::full, EdgeReason::lane});
      }
      chains.bodies.push_back(std::move(body));
    }
    times.push_back(std::move(time));
  }
  return chains;
}

/// The one that looks into an executable.
class KernelTimer {
 public:
  static std::vector<KernelTime> run(Executable& executable, double seconds);

 private:
  static void make_arena_readable(Executable::Impl& impl);
};

/// A launch leaves out what branches do not take; what is read there shall be something.
void KernelTimer::make_arena_readable(Executable::Impl& impl) {
  const auto lock = impl.enter();
  if (impl.program.arena_bytes == 0) return;
  impl.on_own_stream([&] {
    impl.context->check(
        impl.context->driver->cuMemsetD8Async(
            impl.arena.get(), 0, static_cast<size_t>(impl.program.arena_bytes), impl.stream.get()),
        "cuMemsetD8Async", "arena of " + impl.program.name);
  });
}

/// Microseconds of one launch: the median of samples of many, for about `seconds`.
template <class Launch>
double median_us(const ContextPtr& context, CUstream stream, double seconds, const Launch& launch) {
  Stopwatch watch(context);
  const auto sample = [&](int launches) {
    watch.start(stream);
    for (int i = 0; i < launches; ++i) launch();
    return watch.stop(stream) / launches;
  };
  const int batch = batch_of(sample(1));
  std::vector<double> samples;
  const auto start = HostClock::now();
  do {
    samples.push_back(sample(batch));
  } while (us_since(start) < seconds * 1e6 || samples.size() < kLeastSamples);
  return median(samples);
}

std::vector<KernelTime> KernelTimer::run(Executable& executable, double seconds) {
  Executable::Impl& impl = *executable.impl_;
  const ContextPtr& context = impl.context;
  Driver& driver = *context->driver;
  const Current current(context);
  make_arena_readable(impl);
  executable.launch().wait();

  const auto lock = impl.enter();
  std::vector<KernelTime> times;
  const Program chains = chains_of(impl.program, driver.simulated() ? 1 : kLaunches, times);
  std::vector<BodyArgs> args(chains.bodies.size());
  std::vector<BodyGraph> graphs(chains.bodies.size());
  const CUstream stream = impl.stream.get();
  const auto measured = static_cast<double>(std::max<size_t>(1, chains.bodies.size()));
  uint32_t body = 0;
  for (KernelTime& time : times) {
    if (time.launches == 0) continue;
    emit_graph(context, chains, body,
               {impl.functions, impl.bases, args, graphs, impl.libraries_called, nullptr}, stream);
    const std::string what = "chain of " + chains.kernels[time.kernel].symbol;
    const auto launch = [&] {
      context->check(driver.cuGraphLaunch(graphs[body].exec.get(), stream), "cuGraphLaunch", what);
    };
    launch();
    context->check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize", what);
    if (!driver.simulated()) {
      time.us = median_us(context, stream, seconds / measured, launch) / time.launches;
    }
    graphs[body++] = {};
  }
  return times;
}

std::vector<KernelTime> time_kernels(Executable& executable, double seconds) {
  return KernelTimer::run(executable, seconds);
}

}  // namespace braid::runtime
