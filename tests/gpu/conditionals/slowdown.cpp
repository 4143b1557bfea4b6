// Which conditional graphs slow every graph of a process, from which size on, and what is slowed.
#include <cstdlib>
#include <sstream>

#include "lab.hpp"

namespace probe {
namespace {

/// What is built, launched and told. Text: key=value, blanks between.
struct Spec {
  std::string text;
  std::string kind =
      "switch";  ///< if, ifelse, switch, while; plain, child, device: no conditional.
  std::string kernel = "empty";  ///< The bodies' kernels; "many": sixteen different ones.
  std::string stage = "launch";  ///< build, instantiate, upload or launch.
  int bodies = 3, kernels = 20;  ///< Of a conditional node; kernels of each body.
  int width = 1;                 ///< Chains that a body's kernels form.
  int depth = 1;                 ///< Conditionals inside one another, each in the first body.
  int conds = 1, parallel = 0;   ///< Conditional nodes of a graph, in a row or side by side.
  int value = 0, iterations = 3;
  int graphs = 1, keep = 1, times = 1;
  int block = 32, pdl = 0, detail = 0, pending = 0, stack = 0, launched = 0;

  explicit Spec(const std::string& t) : text(t) {
    std::istringstream in(t);
    for (std::string pair; in >> pair;) {
      const size_t eq = pair.find('=');
      const std::string key = pair.substr(0, eq), v = pair.substr(eq + 1);
      if (std::isupper(static_cast<unsigned char>(key[0]))) {
        setenv(key.c_str(), v.c_str(), 1);
        continue;
      }
      if (key == "kind") kind = v;
      if (key == "kernel") kernel = v;
      if (key == "stage") stage = v;
      for (const auto& [name, field] : std::map<std::string, int*>{{"bodies", &bodies},
                                                                   {"kernels", &kernels},
                                                                   {"width", &width},
                                                                   {"depth", &depth},
                                                                   {"conds", &conds},
                                                                   {"parallel", &parallel},
                                                                   {"value", &value},
                                                                   {"iterations", &iterations},
                                                                   {"graphs", &graphs},
                                                                   {"keep", &keep},
                                                                   {"times", &times},
                                                                   {"block", &block},
                                                                   {"pdl", &pdl},
                                                                   {"detail", &detail},
                                                                   {"pending", &pending},
                                                                   {"stack", &stack}})
        if (key == name) *field = std::atoi(v.c_str());
    }
    if (kind == "if" || kind == "while") bodies = 1;
    if (kind == "ifelse") bodies = 2;
  }
};

constexpr int kValue = 0, kCount = 1, kSink = 2, kCounter = 16;

class Builder {
 public:
  Builder(const Gpu& gpu, const Spec& s) : gpu_(gpu), s_(s) {}

  void build(CUgraph g) {
    if (s_.kind == "plain" || s_.kind == "device" || s_.kind == "child") return plain(g);
    std::vector<CUgraphNode> last, fork;
    if (s_.parallel) fork = gpu_.chain(g, {}, 1, "empty");
    for (int c = 0; c < s_.conds; c++) {
      const std::vector<CUgraphNode> end = conditional(g, s_.parallel ? fork : last, s_.depth);
      if (s_.parallel)
        last.push_back(end[0]);
      else
        last = end;
    }
    if (s_.parallel) gpu_.kernel(g, last, "empty");
  }

 private:
  void plain(CUgraph g) {
    const auto root = gpu_.chain(g, {}, 1, "empty");
    for (int b = 0; b < s_.bodies; b++) {
      if (s_.kind != "child") {
        kernels(g, root, s_.kernels);
        continue;
      }
      const CUgraph child = Gpu::graph();
      kernels(child, {}, s_.kernels);
      CUgraphNodeParams p;
      std::memset(&p, 0, sizeof p);
      p.type = CU_GRAPH_NODE_TYPE_GRAPH;
      p.graph.graph = child;
      CUgraphNode node;
      CU(cuGraphAddNode(&node, g, root.data(), nullptr, 1, &p));
    }
  }

  /// `n` kernels in `width` chains; gives the chains' ends.
  std::vector<CUgraphNode> kernels(CUgraph g, const std::vector<CUgraphNode>& after, int n) {
    std::vector<std::vector<CUgraphNode>> ends(static_cast<size_t>(s_.width), after);
    CUdeviceptr x = gpu_.word(kSink);
    int zero = 0;
    static int fat[1000];
    for (int i = 0; i < n; i++) {
      auto& end = ends[static_cast<size_t>(i % s_.width)];
      std::string name = s_.kernel;
      std::vector<void*> arguments{&x, &zero};
      if (name == "many") name += std::to_string(i % 16);
      if (name == "empty" || name == "pdl") arguments.clear();
      if (name == "fat") arguments = {fat, &x};
      const bool programmatic = s_.pdl != 0 && i >= s_.width;
      end = {
          gpu_.kernel(g, end, name, arguments, {1, static_cast<unsigned>(s_.block), programmatic})};
    }
    std::vector<CUgraphNode> all;
    for (const auto& e : ends) all.insert(all.end(), e.begin(), e.end());
    return all;
  }

  std::vector<CUgraphNode> conditional(CUgraph g, std::vector<CUgraphNode> after, int depth) {
    const CUgraphConditionalHandle h = gpu_.handle(g);
    const bool loop = s_.kind == "while";
    CUdeviceptr flag = gpu_.word(kValue), count = gpu_.word(kCount);
    CUdeviceptr counter = gpu_.word(kCounter + counters_);
    if (loop) {
      counters_++;
      after = {gpu_.kernel(g, after, "put", {&counter, &count})};
    }
    CUgraphConditionalHandle hv = h;
    after = {gpu_.kernel(g, after, "set", {&hv, loop ? &counter : &flag})};
    const auto type = loop                  ? CU_GRAPH_COND_TYPE_WHILE
                      : s_.kind == "switch" ? CU_GRAPH_COND_TYPE_SWITCH
                                            : CU_GRAPH_COND_TYPE_IF;
    const Gpu::Conditional c = gpu_.conditional(g, after, h, type, s_.bodies);
    for (size_t b = 0; b < c.bodies.size(); b++) {
      s_.launched += s_.kernels;
      auto end = kernels(c.bodies[b], {}, s_.kernels - (loop ? 1 : 0));
      if (b == 0 && depth > 1) end = conditional(c.bodies[b], end, depth - 1);
      int yes = 1;
      if (loop) gpu_.kernel(c.bodies[b], end, "step", {&hv, &counter, &yes});
    }
    return {c.node};
  }

  const Gpu& gpu_;
  Spec s_;
  int counters_ = 0;
};

/// Other graphs than the chain, and launches without a graph, before or after the slow-down.
class Victims {
 public:
  explicit Victims(const Gpu& gpu) : gpu_(gpu) {
    add("1000 kernels, programmatic edges, us each", 1000,
        gpu.chain_executable(1000, "pdl", {}, {1, 32, true}));
    add("1000 kernels of 132 x 256, us each", 1000,
        gpu.chain_executable(1000, "empty", {}, {132, 256}));
    add("8 chains of 125 kernels, us a kernel", 1000, gpu.executable([&](CUgraph g) {
      const auto root = gpu.chain(g, {}, 1, "empty");
      for (int i = 0; i < 8; i++) gpu.chain(g, root, 125, "empty");
    }));
    static unsigned ns = 5000;
    static long long cycles = 9900;
    add("100 kernels of 5 us by the timer, us each", 100,
        gpu.chain_executable(100, "nanoseconds", {&ns}));
    add("100 kernels of 9900 cycles, us each", 100, gpu.chain_executable(100, "cycles", {&cycles}));
    one_ = gpu.chain_executable(1);
  }
  void measure(const char* when) const {
    for (const auto& v : list_)
      std::printf("    %s: %s %.3f\n", when, v.name, gpu_.time(v.exec, 3, 7) / v.n);
    std::printf("    %s: one-kernel graphs back to back, us each %.3f\n", when,
                gpu_.time(one_, 500, 5));
    std::printf("    %s: one-kernel graph, launch and wait, us %.3f\n", when,
                gpu_.launch_and_sync(one_));
    const CUfunction f = gpu_.function("empty");
    std::vector<double> v;
    for (int r = 0; r < 5; r++) {
      const auto t = Clock::now();
      for (int i = 0; i < 500; i++)
        CU(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, gpu_.stream(), nullptr, nullptr));
      gpu_.sync();
      v.push_back(us_since(t) / 500);
    }
    std::printf("    %s: launches without a graph, us each %.3f\n", when, median(v));
  }

 private:
  struct Victim {
    const char* name;
    int n;
    CUgraphExec exec;
  };
  void add(const char* name, int n, CUgraphExec e) { list_.push_back({name, n, e}); }
  const Gpu& gpu_;
  std::vector<Victim> list_;
  CUgraphExec one_ = nullptr;
};

/// What might make the process fast again.
void remedies(Gpu& gpu, CUgraphExec base) {
  const auto say = [&](const char* what, double us) {
    std::printf("    remedy: %s: %.3f us a node\n", what, us);
  };
  usleep(1000000);
  say("a second of rest", base_price(gpu, base));
  CU(cuDeviceGraphMemTrim(gpu.device()));
  say("cuDeviceGraphMemTrim", base_price(gpu, base));
  gpu.reopen(cubin(), gpu.context());
  say("another stream and copy of the kernels", base_price(gpu, gpu.chain_executable(1000)));
  const CUcontext first = gpu.context();
  CUcontext second;
  CU(cuCtxCreate(&second, nullptr, 0, gpu.device()));
  gpu.reopen(cubin(), second);
  say("a second context, the first alive", base_price(gpu, gpu.chain_executable(1000)));
  CU(cuCtxDestroy(second));
  CU(cuCtxSetCurrent(first));
  CU(cuDevicePrimaryCtxReset(gpu.device()));
  CUcontext again;
  CU(cuDevicePrimaryCtxRetain(&again, gpu.device()));
  gpu.reopen(cubin(), again);
  say("the primary context reset", base_price(gpu, gpu.chain_executable(1000)));
}

Outcome experiment(const Spec& s) {
  Gpu gpu(cubin());
  if (s.pending)
    CU(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, static_cast<size_t>(s.pending)));
  if (s.stack) CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, static_cast<size_t>(s.stack)));
  gpu.write(kValue, s.value);
  gpu.write(kCount, s.iterations);
  const CUgraphExec base = gpu.chain_executable(1000);
  gpu.time(base, 40, 1);
  const double before = base_price(gpu, base);
  Victims* victims = s.detail ? new Victims(gpu) : nullptr;
  if (victims) victims->measure("before");
  const auto limits = [] {
    std::vector<size_t> v(5);
    const CUlimit which[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH,
                             CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, CU_LIMIT_MALLOC_HEAP_SIZE,
                             CU_LIMIT_PRINTF_FIFO_SIZE};
    for (size_t i = 0; i < v.size(); i++) cuCtxGetLimit(&v[i], which[i]);
    return v;
  };
  const auto limits_before = limits();

  Outcome out{0, false};
  const double free0 = gpu.free_mib();
  double instantiated = 0, slow_price = 0;
  int made = 0;
  for (; made < s.graphs && !(out.slow_at && made > out.slow_at); made++) {
    const CUgraph g = Gpu::graph();
    Builder(gpu, s).build(g);
    CUgraphExec e = nullptr;
    const double free1 = gpu.free_mib();
    if (s.stage != "build") {
      CU(cuGraphInstantiateWithFlags(
          &e, g, s.kind == "device" ? CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH : 0));
      instantiated += free1 - gpu.free_mib();
    }
    if (s.stage == "upload") CU(cuGraphUpload(e, gpu.stream()));
    if (s.stage == "launch") gpu.launch(e, s.times);
    gpu.sync();
    const double now = base_price(gpu, base, 2, 3);
    if (!out.slow_at && now > 1.15 * before) out.slow_at = made + 1, slow_price = now;
    if (!s.keep && e) {
      CU(cuGraphExecDestroy(e));
      CU(cuGraphDestroy(g));
    }
  }
  const double after = base_price(gpu, base), used = free0 - gpu.free_mib();
  const double fresh = base_price(gpu, gpu.chain_executable(1000));
  std::printf("%-64s before %.3f after %.3f fresh %.3f ratio %.2f  %s", s.text.c_str(), before,
              after, fresh, after / before, out.slow_at ? "SLOW" : "same");
  if (out.slow_at) std::printf(" at graph %d (%.3f)", out.slow_at, slow_price);
  std::printf(" of %d; MiB %.0f, by instantiate %.0f%s\n", made, used, instantiated,
              limits() == limits_before ? "" : "; LIMITS CHANGED");
  if (victims) victims->measure("after");
  if (s.detail > 1) remedies(gpu, base);
  return out;
}

}  // namespace

double base_price(const Gpu& gpu, CUgraphExec base, int launches, int rounds) {
  return gpu.time(base, launches, rounds) / 1000;
}

Outcome slow(const std::string& text) {
  const Outcome out = in_child([&] { return experiment(Spec(text)); });
  if (out.failed) std::printf("%-64s FAILED\n", text.c_str());
  return out;
}

void threshold(const std::string& spec, const std::string& key, int low, int high) {
  const auto is_slow = [&](int v) {
    return slow(spec + " " + key + "=" + std::to_string(v)).slow_at != 0;
  };
  if (out_of_time()) return;
  if (!is_slow(high)) {
    std::printf("=> %s: not slowed up to %s=%d\n", spec.c_str(), key.c_str(), high);
    return;
  }
  while (low < high) {
    const int middle = (low + high) / 2;
    if (is_slow(middle))
      high = middle;
    else
      low = middle + 1;
  }
  std::printf("=> %s: slowed from %s=%d\n", spec.c_str(), key.c_str(), high);
}

}  // namespace probe
