// Stories: what a process does with conditional graphs, and what a plain chain costs after each
// word.
//
// A word with a colon makes a graph and instantiates it: [N*]KIND:BODY[,BODY...][=KERNEL]. KIND: if
// (one body, or two with ELSE), switch, while; skip and take are IFs whose value is always 0,
// always 1. BODY: its number of kernels, w and their number of chains, and another conditional in
// parentheses, which runs after them. N conditionals stand in a row; KERNEL is one of kernels.hpp,
// "many" sixteen different ones. In front of each conditional stands a kernel that sets its handle.
// The other words speak of the last graph made: u uploads it; l3x5 launches it 5 times with value 3
// (the number of iterations of a while); k sets the arguments of a kernel in its first body anew, K
// those of its first kernel; W launches it once with all kernels in its bodies disabled and value
// 1; d destroys it. p9 launches a plain graph of 9 kernels. s, S: launches go to a new stream from
// here, to one of the highest priority. v measures other graphs, r tries what might make the chain
// fast. NAME=VALUE sets an environment variable before CUDA starts.
#include <cctype>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "lab.hpp"

namespace probe {
namespace {

constexpr int kValue = 0, kZero = 1, kOne = 2, kSink = 3, kCounter = 16;

struct Conditional;
struct Body {
  int kernels = 0, width = 1;
  std::vector<Conditional> inside;
};
struct Conditional {
  int times = 1;
  std::string kind;
  std::vector<Body> bodies;
};

class Parser {
 public:
  explicit Parser(const std::string& t) : text_(t) {}
  Conditional conditional() {
    Conditional c;
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) c.times = number(), at_++;
    while (text_[at_] != ':') c.kind += text_[at_++];
    do {
      at_++;
      c.bodies.push_back(body());
    } while (at_ < text_.size() && text_[at_] == ',');
    return c;
  }
  std::string rest() const { return at_ < text_.size() ? text_.substr(at_ + 1) : "empty"; }

 private:
  Body body() {
    Body b;
    b.kernels = number();
    if (next('w')) b.width = number();
    if (next('(')) {
      b.inside.push_back(conditional());
      at_++;
    }
    return b;
  }
  int number() {
    size_t used = 0;
    const int n = std::stoi(text_.substr(at_), &used);
    at_ += used;
    return n;
  }
  bool next(char c) { return at_ < text_.size() && text_[at_] == c && ++at_; }
  const std::string& text_;
  size_t at_ = 0;
};

/// The graph of one word.
class Made {
 public:
  Made(const Gpu& gpu, const std::string& word) : gpu_(gpu), graph_(Gpu::graph()) {
    Parser p(word);
    const Conditional c = p.conditional();
    kernel_ = p.rest();
    row(graph_, {}, c);
    exec = Gpu::instantiate(graph_);
  }
  void destroy() const {
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph_));
  }
  void set_arguments(bool of_body) const {
    set_kernel(of_body ? in_bodies_.at(0) : first_, nullptr);
  }
  /// Gives every kernel of a body `f` instead of its own, or its own again for null.
  void set_bodies(CUfunction f) const {
    for (const CUgraphNode n : in_bodies_) set_kernel(n, f);
  }
  void enable_bodies(bool on) const {
    for (const CUgraphNode n : in_bodies_) CU(cuGraphNodeSetEnabled(exec, n, on));
  }

  CUgraphExec exec = nullptr;

 private:
  using Nodes = std::vector<CUgraphNode>;

  void set_kernel(CUgraphNode node, CUfunction f) const {
    CUDA_KERNEL_NODE_PARAMS p;
    CU(cuGraphKernelNodeGetParams(node, &p));
    if (f) p.func = f, p.kern = nullptr, p.kernelParams = nullptr;
    CU(cuGraphExecKernelNodeSetParams(exec, node, &p));
  }

  Nodes row(CUgraph g, Nodes after, const Conditional& c) {
    for (int i = 0; i < c.times; i++) after = one(g, after, c);
    return after;
  }

  Nodes one(CUgraph g, Nodes after, const Conditional& c) {
    CUgraphConditionalHandle h = gpu_.handle(g);
    const bool loop = c.kind == "while";
    CUdeviceptr value = gpu_.word(c.kind == "skip" ? kZero : c.kind == "take" ? kOne : kValue);
    CUdeviceptr counter = gpu_.word(kCounter + counters_);
    if (loop) {
      counters_++;
      after = {gpu_.kernel(g, after, "put", {&counter, &value})};
    }
    after = {gpu_.kernel(g, after, "set", {&h, loop ? &counter : &value})};
    if (!first_) first_ = after[0];
    const auto type = loop                 ? CU_GRAPH_COND_TYPE_WHILE
                      : c.kind == "switch" ? CU_GRAPH_COND_TYPE_SWITCH
                                           : CU_GRAPH_COND_TYPE_IF;
    const auto made = gpu_.conditional(g, after, h, type, static_cast<int>(c.bodies.size()));
    for (size_t b = 0; b < c.bodies.size(); b++) {
      Nodes end = kernels(made.bodies[b], c.bodies[b], loop);
      for (const Conditional& inner : c.bodies[b].inside) end = row(made.bodies[b], end, inner);
      int yes = 1;
      if (loop) gpu_.kernel(made.bodies[b], end, "step", {&h, &counter, &yes});
    }
    return {made.node};
  }

  /// The kernels of a body but for the one that counts a loop.
  Nodes kernels(CUgraph g, const Body& b, bool loop) {
    std::vector<Nodes> ends(static_cast<size_t>(b.width));
    CUdeviceptr x = gpu_.word(kSink);
    int zero = 0;
    static int fat[1000];
    for (int i = 0; i + loop < b.kernels; i++) {
      Nodes& end = ends[static_cast<size_t>(i % b.width)];
      std::string name = kernel_;
      std::vector<void*> arguments{&x, &zero};
      if (name == "many") name += std::to_string(i % 16);
      if (name == "empty" || name == "pdl") arguments.clear();
      if (name == "fat") arguments = {fat, &x};
      end = {gpu_.kernel(g, end, name, arguments, {1, 32, name == "pdl" && !end.empty()})};
      in_bodies_.push_back(end[0]);
    }
    Nodes all;
    for (const Nodes& e : ends) all.insert(all.end(), e.begin(), e.end());
    return all;
  }

  const Gpu& gpu_;
  CUgraph graph_;
  std::string kernel_;
  CUgraphNode first_ = nullptr;
  Nodes in_bodies_;
  int counters_ = 0;
};

/// Other graphs than the chain, and launches without a graph.
void measure_others(const Gpu& gpu) {
  const auto say = [](const char* what, double us) { std::printf("\n    %s %.3f us", what, us); };
  unsigned ns = 5000;
  const auto chain = [&](int n, const char* name, Shape shape, std::vector<void*> arguments = {}) {
    return gpu.time(gpu.chain_executable(n, name, arguments, shape), 3, 7) / n;
  };
  say("1000 kernels, programmatic edges, each", chain(1000, "pdl", {1, 32, true}));
  say("1000 kernels of 132 x 256, each", chain(1000, "empty", {132, 256}));
  say("100 kernels of 5 us, each", chain(100, "nanoseconds", {}, {&ns}));
  const CUgraphExec wide = gpu.executable([&](CUgraph g) {
    const auto root = gpu.chain(g, {}, 1, "empty");
    for (int i = 0; i < 8; i++) gpu.chain(g, root, 125, "empty");
  });
  say("8 chains of 125 kernels, a kernel", gpu.time(wide, 3, 7) / 1000);
  const CUgraphExec one = gpu.chain_executable(1);
  say("one-kernel graphs back to back, each", gpu.time(one, 500, 5));
  say("one-kernel graph, launch and wait", gpu.launch_and_sync(one));
  const CUfunction f = gpu.function("empty");
  const auto t = Clock::now();
  for (int i = 0; i < 2000; i++)
    CU(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, gpu.stream(), nullptr, nullptr));
  gpu.sync();
  say("launches without a graph, each", us_since(t) / 2000);
}

/// What might make the process fast again.
void remedies(Gpu& gpu, CUgraphExec base) {
  const auto say = [](const char* what, double us) {
    std::printf("\n    after %s %.3f", what, us);
  };
  usleep(1000000);
  say("a second of rest", base_price(gpu, base));
  CU(cuDeviceGraphMemTrim(gpu.device()));
  say("cuDeviceGraphMemTrim", base_price(gpu, base));
  const CUcontext first = gpu.context();
  gpu.reopen(cubin(), first);
  say("a new stream and another copy of the kernels", base_price(gpu, gpu.chain_executable(1000)));
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
  say("a reset of the primary context", base_price(gpu, gpu.chain_executable(1000)));
}

Outcome play(const std::string& story, bool print) {
  std::istringstream in(story);
  std::vector<std::string> words;
  for (std::string w; in >> w;) {
    const size_t eq = w.find('=');
    if (eq != w.npos && w.find(':') == w.npos)
      setenv(w.substr(0, eq).c_str(), w.c_str() + eq + 1, 1);
    else
      words.push_back(w);
  }
  Gpu gpu(cubin());
  gpu.write(kOne, 1);
  const CUgraphExec base = gpu.chain_executable(1000);
  gpu.time(base, 40, 1);
  const double before = base_price(gpu, base), free = gpu.free_mib();
  std::unique_ptr<Made> made;
  CUstream stream = gpu.stream();
  Outcome out{false, false};
  if (print) std::printf("%-40s %.3f", story.c_str(), before);
  for (const std::string& w : words) {
    const int n = w.size() > 1 ? std::atoi(w.c_str() + 1) : 0;
    const size_t x = w.find('x');
    const auto launch = [&](CUgraphExec e, int times) {
      for (int i = 0; i < times; i++) CU(cuGraphLaunch(e, stream));
    };
    if (w.find(':') != w.npos) {
      made = std::make_unique<Made>(gpu, w);
    } else if (w[0] == 'l') {
      gpu.write(kValue, n);
      launch(made->exec, x == w.npos ? 1 : std::atoi(w.c_str() + x + 1));
    } else if (w == "u") {
      CU(cuGraphUpload(made->exec, stream));
    } else if (w == "k" || w == "K") {
      made->set_arguments(w == "k");
    } else if (w == "W") {
      gpu.write(kValue, 1);
      made->enable_bodies(false);
      launch(made->exec, 1);
      CU(cuStreamSynchronize(stream));
      made->enable_bodies(true);
    } else if (w == "N") {
      gpu.write(kValue, 1);
      made->set_bodies(gpu.function("empty"));
      launch(made->exec, 1);
      CU(cuStreamSynchronize(stream));
      made->set_bodies(nullptr);
    } else if (w == "d") {
      made->destroy();
    } else if (w[0] == 'p') {
      launch(gpu.chain_executable(n), 1);
    } else if (w == "s" || w == "S") {
      int least = 0, greatest = 0;
      CU(cuCtxGetStreamPriorityRange(&least, &greatest));
      CU(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, w == "s" ? least : greatest));
    } else if (w == "v") {
      measure_others(gpu);
    } else if (w == "r") {
      remedies(gpu, base);
      break;
    }
    CU(cuStreamSynchronize(stream));
    const double now = base_price(gpu, base, 2, 5);
    out.slow = now > 1.15 * before;
    if (print && w.find(':') == w.npos)
      std::printf("  %s %.3f%s", w.c_str(), now, out.slow ? "*" : "");
  }
  if (print) std::printf("  (%.0f MiB)\n", free - gpu.free_mib());
  return out;
}

}  // namespace

double base_price(const Gpu& gpu, CUgraphExec base, int launches, int rounds) {
  return gpu.time(base, launches, rounds) / 1000;
}

Outcome tell(const std::string& story, bool print) {
  const Outcome out = in_child([&] { return play(story, print); });
  if (out.failed) std::printf("%s FAILED\n", story.c_str());
  return out;
}

void threshold(const std::string& story, int low, int high) {
  if (out_of_time()) return;
  const int last = high;
  const auto slow = [&](int n) {
    std::string s = story;
    for (size_t at; (at = s.find('%')) != s.npos;) s.replace(at, 1, std::to_string(n));
    return tell(s, false).slow;
  };
  if (!slow(high)) return void(std::printf("%-44s not up to %d\n", story.c_str(), last));
  while (low < high) {
    const int middle = (low + high) / 2;
    if (slow(middle))
      high = middle;
    else
      low = middle + 1;
  }
  std::printf("%-44s slow from %d\n", story.c_str(), high);
}

}  // namespace probe
