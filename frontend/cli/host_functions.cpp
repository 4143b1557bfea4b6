// The host functions that models run by the tool may call.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/cli/cli.hpp"
#include "passes/labels.hpp"

namespace braid::cli {
namespace {

constexpr int64_t kMostPrinted = 8;

void identity(std::span<const HostTensor> in, std::span<HostTensor> out) {
  if (in.size() != out.size()) {
    throw std::invalid_argument(
        fmt::format("identity gives back its arguments: it has {}, but {} "
                    "results",
                    in.size(), out.size()));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].type != out[i].type) {
      throw std::invalid_argument(
          fmt::format("identity gives back its arguments: argument {} is "
                      "{}, but result {} is {}",
                      i, to_string(in[i].type), i, to_string(out[i].type)));
    }
    out[i].bytes = in[i].bytes;
  }
}

void print(std::span<const HostTensor> in, std::span<HostTensor>) {
  for (const HostTensor& t : in) {
    std::string line = to_string(t.type) + ":";
    const int64_t n = t.type.shape.numel();
    for (int64_t i = 0; i < std::min(n, kMostPrinted); ++i) {
      line +=
          is_float(t.type.dtype) ? fmt::format(" {:g}", t.at(i)) : fmt::format(" {}", t.int_at(i));
    }
    say(line + (n > kMostPrinted ? " ..\n" : "\n"));
  }
}

}  // namespace

HostFunctions host_functions() { return {{"identity", identity}, {"print", print}}; }

Places places_of(const ir::Graph& graph) {
  Places places;
  for (const ir::Op& op : graph.ops()) {
    places.try_emplace(place_label(graph, op.loc), graph.place(op.loc));
  }
  return places;
}

void warn_of_breaks(const Program& p, const Places& places, const GlobalArgs& g) {
  std::vector<Diagnostic> warnings;
  for (const Break& b : p.breaks) {
    Diagnostic d;
    d.severity = Severity::warning;
    d.code = "E0707";
    d.message = fmt::format("'{}' stands outside graphs: {}", b.op, b.reason);
    if (const auto it = places.find(b.place); it != places.end()) d.place = it->second;
    d.suggestion = b.remedy;
    warnings.push_back(std::move(d));
  }
  if (!warnings.empty()) show(g, warnings);
}

}  // namespace braid::cli
