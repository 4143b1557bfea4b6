// Times matrix products on a GPU with every tile that they can have, beside the estimate that
// chooses among them: what the constants of dot_mma_tile.cpp and dot_simt_tile.cpp come from.
// usage: braid_dot_tiles [MxNxK[xBATCH][:DTYPE[:abs]]]...   DTYPE bf16, f16 or f32 (by tf32); a, b:
// transposed; s: strictly in f32, of whose tiles only those that promise not to be much worse
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include "frontend/compile.hpp"
#include "passes/kernels/dot_mma.hpp"
#include "passes/kernels/dot_simt.hpp"
#include "runtime/measure.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

/// Kernels in a row, each with weights of its own: few enough to stay in L2.
constexpr int kChain = 16;

struct Size {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::bf16;
  bool ta = false, tb = false, strict = false;
};

Size parse(std::string_view text) {
  Size s;
  int64_t* const extents[] = {&s.m, &s.n, &s.k, &s.batch};
  for (int64_t* e : extents) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *e);
    ensure(error == std::errc{}, "a size is MxNxK or MxNxKxBATCH");
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const bool more = text.starts_with('x');
    if (!text.empty()) text.remove_prefix(1);
    if (!more && e != &s.m && e != &s.n) break;
  }
  const size_t colon = text.find(':');
  if (!text.empty()) s.dtype = dtype_from_name(text.substr(0, colon)).value();
  if (colon == text.npos) return s;
  s.ta = text.find('a', colon) != text.npos;
  s.tb = text.find('b', colon) != text.npos;
  s.strict = text.find('s', colon) != text.npos;
  return s;
}

struct Candidate {
  std::string tile;
  double estimate = 0, measured = 0;  // cycles; us
  Program program;
};

/// Bytes of weights that surely stay in L2.
constexpr int64_t kWeights = 12 << 20;

Program chain(const Size& s, const Target& target) {
  Graph g("dots");
  const auto type = [&](int64_t rows, int64_t columns) {
    return s.batch == 1 ? TypeArg{s.dtype, {DimArg(rows), DimArg(columns)}}
                        : TypeArg{s.dtype, {DimArg(s.batch), DimArg(rows), DimArg(columns)}};
  };
  const int64_t bytes = s.batch * s.n * s.k * size_of(s.dtype);
  const int64_t weights = std::clamp<int64_t>(kWeights / bytes, 1, kChain);
  std::vector<Tensor> w;
  for (int64_t i = 0; i < weights; ++i) {
    w.push_back(g.input(fmt::format("w{}", i), s.tb ? type(s.n, s.k) : type(s.k, s.n)));
  }
  for (int i = 0; i < kChain; ++i) {
    const Tensor x = g.input(fmt::format("x{}", i), s.ta ? type(s.k, s.m) : type(s.m, s.k));
    const Tensor y = matmul(x, w[static_cast<size_t>(i % weights)], {.ta = s.ta, .tb = s.tb});
    g.output(fmt::format("y{}", i), y);
  }
  Options o;
  o.target = target;
  o.math = s.strict ? Math::strict : Math::tf32;
  o.dots = Dots::braid;
  o.streams = 1;
  o.group = false;
  o.pdl = false;
  Program p = compile(g, o);
  ensure(p.kernels.size() == 1, "the products of a chain share a kernel");
  return p;
}

std::string text_of(const kernels::MmaTile& t) {
  return fmt::format("{:3} x {:3}{} warp {:2} x {:2} slices {} bk {:3} stages {}", t.bm(), t.bn(),
                     t.swapped ? "'" : " ", t.warp_rows, t.warp_columns, t.slices, t.bk, t.stages);
}
std::string text_of(const kernels::SimtTile& t) {
  return fmt::format("{:3} x {:3} thread {} x {} teams {} bk {:2} split {} stages {}", t.bm, t.bn,
                     t.tm, t.tn, t.teams, t.bk, t.split, t.stages);
}

/// One program per tile.
std::vector<Candidate> candidates(const Size& s, const Program& base, const Target& target) {
  const Kernel& kernel = base.kernels[0];
  const kernels::Signature signature(kernel.body);
  const ir::Op& dot = *std::find_if(kernel.body.ops().begin(), kernel.body.ops().end(),
                                    [](const ir::Op& op) { return op.kind == ir::OpKind::dot; });
  const std::vector<kernels::Sink> sinks = kernels::sinks_of(kernel.body, signature);
  std::vector<Candidate> all;
  for (size_t i = 0, count = 1; i < count; ++i) {
    Candidate c;
    const auto pick = [&](const auto& tiles, const auto& estimate) {
      count = tiles.size();
      c.tile = text_of(tiles[i]);
      c.estimate = estimate(tiles[i]);
      return tiles[i];
    };
    const kernels::Emitted e =
        s.strict
            ? kernels::emit_dot_simt(
                  kernel.body, signature, dot, sinks, kernel.symbol,
                  [&](const kernels::SimtProblem& p) {
                    return pick(kernels::simt_tiles(p, target), [&](const kernels::SimtTile& t) {
                      return kernels::estimate_work(p, t, target).cycles;
                    });
                  })
            : kernels::emit_dot_mma(kernel.body, signature, dot, sinks, kernel.symbol,
                                    [&](const kernels::MmaProblem& p) {
                                      return pick(kernels::mma_tiles(p, target),
                                                  [&](const kernels::MmaTile& t) {
                                                    return kernels::estimate_cycles(p, t, target);
                                                  });
                                    });
    c.program = base;
    c.program.modules = {{std::string(kernels::prelude()) + e.text, target.arch, {}}};
    c.program.kernels[0].launch = e.launch;
    all.push_back(std::move(c));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.estimate < b.estimate; });
  constexpr double kMuchWorse = 2.5;
  constexpr size_t kMost = 60;
  while (s.strict &&
         (all.size() > kMost || all.back().estimate > kMuchWorse * all.front().estimate)) {
    all.pop_back();
  }
  std::atomic<size_t> next{0};
  std::vector<std::jthread> pool;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    pool.emplace_back([&] {
      for (size_t i = next++; i < all.size(); i = next++) {
        runtime::compile_modules(all[i].program, runtime::Cache::from_environment(), 1);
      }
    });
  }
  pool.clear();
  return all;
}

void time_size(const Device& device, const std::string& text) {
  const Size size = parse(text);
  std::vector<Candidate> all = candidates(size, chain(size, device.target()), device.target());
  for (Candidate& c : all) {
    Store store(device);
    Executable e(c.program, store);
    for (const Binding& b : e.program().inputs) {
      e.write(b.name, random_tensor(e.program().buffers[b.buffer].type, 1, b.name));
    }
    c.measured = runtime::measure(e, LaunchMode::graph, 0.02).step_us / kChain;
  }
  const auto best = std::min_element(
      all.begin(), all.end(),
      [](const Candidate& a, const Candidate& b) { return a.measured < b.measured; });
  fmt::print("{}: chosen {:.2f} us, best {:.2f} us\n", text, all[0].measured, best->measured);
  for (const Candidate& c : all) {
    const LaunchShape& launch = c.program.kernels[0].launch;
    fmt::print(
        "  {} blocks {:5} threads {:3} shared {:6}  estimated {:8.0f} cycles, measured {:8.2f} "
        "us{}\n",
        c.tile, launch.grid[0], launch.block[0], launch.shared_bytes, c.estimate, c.measured,
        &c == &*best ? "  best" : "");
  }
}

int main_of(int argc, char** argv) {
  std::vector<std::string> sizes(argv + 1, argv + argc);
  if (sizes.empty()) {
    for (const char* size : {"128x256x256", "128x768x768", "128x384x1536", "1x768x3072",
                             "1x3072x768", "8x768x768", "32x384x384", "32x1536x384", "128x3072x768",
                             "512x512x512", "512x768x3072", "1024x1024x1024", "64x64x64"}) {
      for (const char* kind : {":bf16", ":bf16:b", ":f32"})
        sizes.push_back(std::string(size) + kind);
    }
  }
  const Device device = Device::open("auto");
  for (const std::string& s : sizes) time_size(device, s);
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
