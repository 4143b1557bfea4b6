#include "frontend/cli/bench_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "passes/prices.hpp"

namespace braid::cli {
namespace {

using runtime::KernelTime;

struct Row {
  const KernelTime* time = nullptr;
  const Kernel* kernel = nullptr;
  double predicted_us = 0;  // of a launch with a full edge; the mean over its nodes
};

std::vector<Row> rows_of(const Program& p, const std::vector<KernelTime>& times, bool timed) {
  std::vector<double> estimates(p.kernels.size());
  for (const Body& body : p.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel != kNoKernel) estimates[node.kernel] += node.estimate_us;
    }
  }
  std::vector<Row> rows;
  for (const KernelTime& t : times) {
    rows.push_back(
        {&t, &p.kernels[t.kernel], estimates[t.kernel] / t.uses + kPrices.chain_edge_us});
  }
  const auto cost = [timed](const Row& r) {
    return r.time->uses * (timed ? r.time->us : r.predicted_us);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    const bool a_out = !a.time->left_out.empty(), b_out = !b.time->left_out.empty();
    return a_out != b_out ? b_out : cost(a) > cost(b);
  });
  return rows;
}

std::string dims(const std::array<uint32_t, 3>& d) {
  return d[2] != 1   ? fmt::format("{}x{}x{}", d[0], d[1], d[2])
         : d[1] != 1 ? fmt::format("{}x{}", d[0], d[1])
                     : fmt::format("{}", d[0]);
}

std::string line(size_t width, std::string_view symbol, std::string_view family,
                 std::string_view uses, std::string_view grid, std::string_view block,
                 const std::string& predicted, const std::string& measured,
                 const std::string& ratio) {
  return fmt::format("  {:<{}}  {:<8} {:>5} {:>9} {:>9} {:>10} {:>10} {:>7}\n", symbol, width,
                     family, uses, grid, block, predicted, measured, ratio);
}

std::string number(double x, bool there = true) { return there ? fmt::format("{:.2f}", x) : "-"; }

}  // namespace

nlohmann::ordered_json kernels_json(const Program& p, const std::vector<KernelTime>& times,
                                    bool timed) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& r : rows_of(p, times, timed)) {
    nlohmann::ordered_json j{{"symbol", r.kernel->symbol},
                             {"family", r.kernel->family},
                             {"uses", r.time->uses},
                             {"grid", r.kernel->launch.grid},
                             {"block", r.kernel->launch.block},
                             {"launches", r.time->launches},
                             {"predicted_us", r.predicted_us},
                             {"measured_us", nullptr}};
    if (!r.time->left_out.empty()) {
      j["left_out"] = r.time->left_out;
    } else if (timed) {
      j["measured_us"] = r.time->us;
    }
    list.push_back(std::move(j));
  }
  return list;
}

std::string kernels_text(const Program& p, const std::vector<KernelTime>& times, bool timed) {
  const std::vector<Row> rows = rows_of(p, times, timed);
  size_t width = 6;
  for (const Row& r : rows) width = std::max(width, r.kernel->symbol.size());
  std::string out =
      "kernels, each launched again and again by itself: us a launch, its full edge included; most "
      "costly first\n";
  out += line(width, "kernel", "family", "uses", "grid", "block", "predicted", "measured", "ratio");
  std::string left_out;
  uint32_t uses = 0;
  double predicted = 0, measured = 0;
  for (const Row& r : rows) {
    if (!r.time->left_out.empty()) {
      left_out +=
          fmt::format("  {:<{}}  left out: {}\n", r.kernel->symbol, width, r.time->left_out);
      continue;
    }
    uses += r.time->uses;
    predicted += r.time->uses * r.predicted_us;
    measured += r.time->uses * r.time->us;
    out += line(width, r.kernel->symbol, r.kernel->family, fmt::format("{}", r.time->uses),
                dims(r.kernel->launch.grid), dims(r.kernel->launch.block), number(r.predicted_us),
                number(r.time->us, timed), number(r.time->us / r.predicted_us, timed));
  }
  if (uses > 0) {
    out += line(width, "all, times uses", "", fmt::format("{}", uses), "", "", number(predicted),
                number(measured, timed), number(measured / predicted, timed));
  }
  return out + left_out;
}

}  // namespace braid::cli
