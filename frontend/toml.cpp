#include "frontend/toml.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "frontend/toml_internal.hpp"
#include "ir/file.hpp"

namespace braid {
namespace {

void sort_by_place(std::vector<Diagnostic>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
  });
}

}  // namespace

TomlModel read_toml(std::string_view text, std::string_view file, const TomlDTypes& dtypes) {
  const toml_reader::Item root = toml_reader::parse_document(text, file);
  toml_reader::Report report;
  const toml_reader::Sections sections = toml_reader::check_root(root, report);
  toml_reader::Types types{{sections.dims, report}, {sections.dtypes, dtypes, report}};
  const toml_reader::Model model = toml_reader::read_model(root, report, types);

  TomlModel result{std::make_unique<Graph>(model.name), model.compile, types.dims.constants(),
                   model.weights};
  Graph& graph = *result.graph;
  graph.collect_errors(true);
  types.dims.declare(graph);
  std::vector<Diagnostic> marks = toml_reader::expand(model, graph);

  std::vector<Diagnostic> all = std::move(report.list);
  std::move(graph.diagnostics().begin(), graph.diagnostics().end(), std::back_inserter(all));
  if (!all.empty()) {
    sort_by_place(all);
    throw Error(std::move(all));
  }
  graph.collect_errors(false);
  result.warnings = toml_reader::find_warnings(model);
  std::move(marks.begin(), marks.end(), std::back_inserter(result.warnings));
  sort_by_place(result.warnings);
  return result;
}

TomlModel load_toml(const std::string& path, const TomlDTypes& dtypes) {
  return read_toml(read_file(path), path, dtypes);
}

}  // namespace braid
