// Times our products against cuBLASLt's on a GPU, one kernel a graph: what the table of
// ir/matmul_table.cpp comes from.
// usage: braid_library_bench [MxNxK]...
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "frontend/compile.hpp"
#include "ir/matmul_table.hpp"
#include "runtime/measure.hpp"

namespace braid {
namespace {

struct Size {
  int64_t m = 0, n = 0, k = 0;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

struct Kind {
  const char* name;
  DType dtype;
  Math math;
};
constexpr Kind kKinds[] = {{"f32", DType::f32, Math::strict},
                           {"tf32", DType::f32, Math::tf32},
                           {"bf16", DType::bf16, Math::strict}};

Size parse(std::string_view text) {
  Size s;
  for (int64_t* extent : {&s.m, &s.n, &s.k}) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *extent);
    ensure(error == std::errc{}, "a size is MxNxK");
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  return s;
}

std::vector<Size> sizes() {
  std::vector<Size> all;
  for (int64_t e = 64; e <= 4096; e *= 2) {
    all.push_back({e, e, e});
    if (e < 4096) all.push_back({e + e / 2, e + e / 2, e + e / 2});
  }
  // Few rows, narrow results, long and short sums.
  for (const int64_t rows : {1, 8, 16, 32, 64, 128}) {
    all.push_back({rows, 1024, 1024});
    all.push_back({rows, 4096, 4096});
  }
  for (const int64_t e : {256, 1024, 4096}) {
    all.push_back({e, 64, 1024});
    all.push_back({e, e, 64});
    all.push_back({128, 128, e * 4});
  }
  return all;
}

/// Microseconds a launch.
double time_of(const Device& device, const Size& s, const Kind& kind, Dots dots) {
  Graph g("product");
  const Tensor x = g.input("x", {kind.dtype, {s.m, s.k}});
  const Tensor w = g.input("w", {kind.dtype, {s.k, s.n}});
  g.output("y", matmul(x, w));
  Options o;
  o.math = kind.math;
  o.dots = dots;
  Store store(device);
  Executable e = build(g, store, o);
  const Code code = e.program().kernels.at(0).code;
  ensure((code == Code::library) == (dots == Dots::cublaslt), "the other one computes it");
  ensure(e.program().breaks.empty(), "it was not captured");
  for (const Binding& b : e.program().inputs) {
    e.write(b.name, random_tensor(e.type(b.name), 1, b.name));
  }
  return runtime::measure(e, LaunchMode::graph, 0.05).step_us;
}

struct Row {
  Size size;
  double ours = 0, theirs = 0;
};

/// The least power of two from which on the library is the faster one by the sum of logarithms:
/// each size votes by how much it would lose.
double crossover(const std::vector<Row>& rows) {
  double best = 0, best_loss = INFINITY;
  for (int power = 20; power <= 40; ++power) {
    const double from = std::ldexp(1, power);
    double loss = 0;
    for (const Row& r : rows) {
      const bool library = r.size.flops() >= from && r.size.m >= 64;
      loss += std::max(0.0, library ? std::log(r.theirs / r.ours) : std::log(r.ours / r.theirs));
    }
    if (loss < best_loss - 1e-9) {
      best_loss = loss;
      best = from;
    }
  }
  return best;
}

int main_of(int argc, char** argv) {
  std::vector<Size> all;
  for (int i = 1; i < argc; ++i) all.push_back(parse(argv[i]));
  if (all.empty()) all = sizes();
  const Device device = Device::open("0");
  std::map<std::string, std::vector<Row>> rows;
  for (const Kind& kind : kKinds) {
    fmt::print("{}\n{:>18} {:>8} {:>10} {:>10} {:>8} {:>8}\n", kind.name, "m x n x k", "2mnk",
               "braid us", "lt us", "TFLOP/s", "lt");
    for (const Size& s : all) {
      const Row r{s, time_of(device, s, kind, Dots::braid),
                  time_of(device, s, kind, Dots::cublaslt)};
      fmt::print("{:>18} {:>8} {:>10.2f} {:>10.2f} {:>8.1f} {:>8.1f}{}\n",
                 fmt::format("{}x{}x{}", s.m, s.n, s.k),
                 fmt::format("2^{:.1f}", std::log2(s.flops())), r.ours, r.theirs,
                 s.flops() / r.ours * 1e-6, s.flops() / r.theirs * 1e-6,
                 r.theirs < r.ours ? "  cuBLASLt" : "");
      rows[kind.name].push_back(r);
    }
  }
  fmt::print("\nfrom which on cuBLASLt is faster, for 64 rows or more:\n");
  for (const Kind& kind : kKinds) {
    const LibraryFrom now = library_from(kind.dtype, kind.math == Math::tf32);
    fmt::print("  {:5} 2^{:.0f}   (the table has 2^{:.0f})\n", kind.name,
               std::log2(crossover(rows[kind.name])), std::log2(now.flops));
  }
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  try {
    return braid::main_of(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
