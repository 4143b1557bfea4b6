// What every experiment uses: one context and stream, the kernels, graphs of them, times of graphs.
// A failed call prints where and ends the process: every experiment has one of its own.
#pragma once

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace probe {

inline void check(CUresult r, const char* what, int line) {
  if (r == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(r, &name);
  std::printf("FAILED line %d: %s: %s\n", line, what, name);
  std::fflush(stdout);
  _exit(1);
}
#define CU(x) ::probe::check((x), #x, __LINE__)

using Clock = std::chrono::steady_clock;
inline double us_since(Clock::time_point t) {
  return std::chrono::duration<double, std::micro>(Clock::now() - t).count();
}
inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Shape {
  unsigned grid = 1, block = 32;
  bool programmatic = false;  ///< Its edges from the nodes before are programmatic.
};

class Gpu {
 public:
  /// `cubin` holds the kernels of kernels.hpp.
  explicit Gpu(const std::vector<char>& cubin) {
    CU(cuInit(0));
    CU(cuDeviceGet(&device_, 0));
    CU(cuDevicePrimaryCtxRetain(&context_, device_));
    open(cubin);
  }
  /// Everything again in another context, which becomes the current one.
  void reopen(const std::vector<char>& cubin, CUcontext context) {
    context_ = context;
    open(cubin);
  }

  CUcontext context() const { return context_; }
  CUdevice device() const { return device_; }
  CUstream stream() const { return stream_; }
  /// Word `i` of a zeroed megabyte of device memory.
  CUdeviceptr word(int i) const { return words_ + 4 * static_cast<CUdeviceptr>(i); }
  void write(int i, int value) const { CU(cuMemcpyHtoD(word(i), &value, 4)); }
  void sync() const { CU(cuStreamSynchronize(stream_)); }

  CUfunction function(const std::string& name) const {
    CUfunction& f = functions_[name];
    if (f) return f;
    CUkernel kernel;
    CU(cuLibraryGetKernel(&kernel, library_, name.c_str()));
    CU(cuKernelGetFunction(&f, kernel));
    return f;
  }

  CUgraphNode kernel(CUgraph g, const std::vector<CUgraphNode>& after, const std::string& name,
                     std::vector<void*> arguments = {}, Shape shape = {}) const {
    CUgraphNodeParams p;
    std::memset(&p, 0, sizeof p);
    p.type = CU_GRAPH_NODE_TYPE_KERNEL;
    p.kernel.func = function(name);
    p.kernel.gridDimX = shape.grid;
    p.kernel.blockDimX = shape.block;
    p.kernel.gridDimY = p.kernel.gridDimZ = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = arguments.data();
    CUgraphEdgeData edge;
    std::memset(&edge, 0, sizeof edge);
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    const std::vector<CUgraphEdgeData> edges(after.size(), edge);
    CUgraphNode node;
    CU(cuGraphAddNode(&node, g, after.data(), shape.programmatic ? edges.data() : nullptr,
                      after.size(), &p));
    return node;
  }

  /// `n` kernels one after the other behind `after`; gives the last one.
  std::vector<CUgraphNode> chain(CUgraph g, std::vector<CUgraphNode> after, int n,
                                 const std::string& name, const std::vector<void*>& arguments = {},
                                 Shape shape = {}) const {
    Shape first = shape;
    first.programmatic = false;
    for (int i = 0; i < n; i++) after = {kernel(g, after, name, arguments, i ? shape : first)};
    return after;
  }

  CUgraphConditionalHandle handle(CUgraph g) const {
    CUgraphConditionalHandle h;
    CU(cuGraphConditionalHandleCreate(&h, g, context_, 0, 0));
    return h;
  }

  struct Conditional {
    CUgraphNode node;
    std::vector<CUgraph> bodies;
  };
  Conditional conditional(CUgraph g, const std::vector<CUgraphNode>& after,
                          CUgraphConditionalHandle h, CUgraphConditionalNodeType type,
                          int bodies) const {
    CUgraphNodeParams p;
    std::memset(&p, 0, sizeof p);
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = static_cast<unsigned>(bodies);
    p.conditional.ctx = context_;
    Conditional c;
    CU(cuGraphAddNode(&c.node, g, after.data(), nullptr, after.size(), &p));
    c.bodies.assign(p.conditional.phGraph_out, p.conditional.phGraph_out + bodies);
    return c;
  }

  static CUgraph graph() {
    CUgraph g;
    CU(cuGraphCreate(&g, 0));
    return g;
  }
  static CUgraphExec instantiate(CUgraph g) {
    CUgraphExec e;
    CU(cuGraphInstantiateWithFlags(&e, g, 0));
    return e;
  }
  CUgraphExec executable(const std::function<void(CUgraph)>& build) const {
    const CUgraph g = graph();
    build(g);
    return instantiate(g);
  }
  CUgraphExec chain_executable(int n, const std::string& name = "empty",
                               const std::vector<void*>& arguments = {}, Shape shape = {}) const {
    return executable([&](CUgraph g) { chain(g, {}, n, name, arguments, shape); });
  }

  void launch(CUgraphExec e, int times = 1) const {
    for (int i = 0; i < times; i++) CU(cuGraphLaunch(e, stream_));
  }

  /// GPU microseconds of one launch: `launches` of them back to back between two events, the
  /// median.
  double time(CUgraphExec e, int launches = 5, int rounds = 9) const {
    launch(e, 2);
    std::vector<double> v;
    for (int r = 0; r < rounds; r++) {
      CU(cuEventRecord(begin_, stream_));
      launch(e, launches);
      CU(cuEventRecord(end_, stream_));
      CU(cuEventSynchronize(end_));
      float ms = 0;
      CU(cuEventElapsedTime(&ms, begin_, end_));
      v.push_back(static_cast<double>(ms) * 1000 / launches);
    }
    return median(v);
  }

  /// CPU microseconds from the launch to the end of the wait, the median.
  double launch_and_sync(CUgraphExec e, int rounds = 200) const {
    std::vector<double> v;
    for (int r = 0; r < rounds; r++) {
      const auto t = Clock::now();
      launch(e);
      sync();
      v.push_back(us_since(t));
    }
    return median(v);
  }

  double free_mib() const {
    size_t free = 0, total = 0;
    CU(cuMemGetInfo(&free, &total));
    return static_cast<double>(free) / (1 << 20);
  }

 private:
  void open(const std::vector<char>& cubin) {
    functions_.clear();
    CU(cuCtxSetCurrent(context_));
    CU(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&begin_, 0));
    CU(cuEventCreate(&end_, 0));
    CU(cuLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CU(cuMemAlloc(&words_, 1 << 20));
    CU(cuMemsetD8(words_, 0, 1 << 20));
  }

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUlibrary library_ = nullptr;
  mutable std::map<std::string, CUfunction> functions_;
  CUdeviceptr words_ = 0;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace probe
