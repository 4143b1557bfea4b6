// Dims that the files of --input tell: who gives a batch of three need not also say --dim B=3.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/cli/cli.hpp"
#include "frontend/npy.hpp"

namespace braid::cli {
namespace {

/// A symbol's extent in a file.
struct Seen {
  std::string symbol;
  int64_t value;
  const NamedFile* file;
};

[[noreturn]] void refuse(std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = "E0802";
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  throw Error(std::move(d));
}

const ir::Op* find_input(const ir::Graph& graph, std::string_view name) {
  for (const ir::Op& op : graph.ops()) {
    if (op.kind == ir::OpKind::input && graph.strings[op.name] == name) return &op;
  }
  return nullptr;
}

/// Every axis of an input that is a symbol alone, with its extent in the file. Names and ranks that
/// do not fit are for those to report who load the tensors.
std::vector<Seen> symbols_of(const ir::Graph& graph, const std::vector<NamedFile>& inputs) {
  std::vector<Seen> seen;
  for (const NamedFile& f : inputs) {
    const ir::Op* op = find_input(graph, f.name);
    if (!op) continue;
    const Shape& declared = graph.type(op->result).shape;
    const Shape given = npy_type(f.file).shape;
    if (given.rank() != declared.rank()) continue;
    for (int i = 0; i < declared.rank(); ++i) {
      if (declared[i].is_const()) continue;
      const std::string text = graph.dims.str(declared[i]);
      for (const DimTable::Symbol& s : graph.dims.symbols()) {
        if (s.name == text) seen.push_back({s.name, given[i].value(), &f});
      }
    }
  }
  return seen;
}

}  // namespace

std::string dims_from_inputs(const ir::Graph& graph, const std::vector<NamedFile>& inputs,
                             DimTable::Bindings& dims) {
  const DimTable::Bindings flags = dims;
  const std::vector<Seen> seen = symbols_of(graph, inputs);
  std::string differ;  // from --dim: "--dim B=3 --dim T=20"
  std::string first;   // the first of them
  for (const Seen& s : seen) {
    const auto same = [&](const auto& d) { return d.first == s.symbol; };
    for (const Seen& other : seen) {
      if (&other == &s) break;
      if (other.symbol != s.symbol || other.value == s.value) continue;
      refuse(fmt::format("the inputs do not agree on '{}': it is {} in {} and {} in {}", s.symbol,
                         other.value, other.file->file, s.value, s.file->file),
             "give arrays of one batch, with equal extents");
    }
    if (const auto it = std::find_if(flags.begin(), flags.end(), same); it != flags.end()) {
      const std::string flag = fmt::format("--dim {}={}", s.symbol, s.value);
      if (it->second == s.value || differ.find(flag) != std::string::npos) continue;
      differ += (differ.empty() ? "" : " ") + flag;
      if (first.empty()) {
        first = fmt::format("--dim {}={}, but {} for '{}' has {}", s.symbol, it->second,
                            s.file->file, s.file->name, s.value);
      }
    } else if (std::none_of(dims.begin(), dims.end(), same)) {
      dims.emplace_back(s.symbol, s.value);
    }
  }
  if (!differ.empty()) {
    refuse(first, fmt::format("give {}, or leave it out: it is taken from the file", differ));
  }
  std::string news;
  for (size_t i = flags.size(); i < dims.size(); ++i) {
    for (const DimTable::Symbol& s : graph.dims.symbols()) {
      if (s.name != dims[i].first || s.default_value == dims[i].second) continue;
      news += fmt::format(" {}={}", dims[i].first, dims[i].second);
    }
  }
  return news.empty() ? news : "dims from inputs:" + news;
}

}  // namespace braid::cli
