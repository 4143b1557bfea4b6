// Golden dumps: what the passes make of each tests/golden/NAME.bir, to the byte. Some models of
// examples/ are among them. A model has the dumps whose files are there, its report at least: for a
// new one, make its files empty. BRAID_BLESS=1 rewrites the expectations; read the diff before you
// commit it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/report/cpp.hpp"
#include "frontend/report/html.hpp"
#include "frontend/report/report.hpp"
#include "frontend/toml.hpp"
#include "ir/text.hpp"
#include "passes/pipeline.hpp"

using namespace braid;

namespace {

const std::filesystem::path kRoot = BRAID_SOURCE_DIR;
const std::filesystem::path kGolden = kRoot / "tests" / "golden";
constexpr std::array<std::string_view, 5> kExamples = {"encoder", "mlp", "mlp_bf16",
                                                       "sparse_attention", "towers"};

bool blessing() {
  const char* set = std::getenv("BRAID_BLESS");
  return set && std::string(set) == "1";
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The first line in which two texts differ, of both.
std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream e(expected), a(actual);
  std::string from, to;
  for (int line = 1;; ++line) {
    const bool more_e = static_cast<bool>(std::getline(e, from));
    const bool more_a = static_cast<bool>(std::getline(a, to));
    if (!more_e && !more_a) return "only the ends of lines differ";
    if (more_e != more_a || from != to) {
      return fmt::format("line {}\n- {}\n+ {}", line, more_e ? from : "(end)",
                         more_a ? to : "(end)");
    }
  }
}

void compare(const std::string& file, const std::string& actual) {
  const std::filesystem::path path = kGolden / file;
  if (blessing()) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  const std::optional<std::string> expected = read_file(path);
  if (expected == actual) return;
  FAIL_CHECK(
      "tests/golden/"
      << file << ": " << (expected ? first_difference(*expected, actual) : "the file is missing")
      << "\nIf the change is meant, run test_frontend with BRAID_BLESS=1 and read the diff.");
}

std::string report_of(const Program& p) {
  return report::to_text(report::make_report(p), p, report::sections_from("all"));
}

/// What stands in a text from one mark up to another.
std::string between(const std::string& text, std::string_view from, std::string_view to) {
  const size_t begin = text.find(from);
  REQUIRE(begin != std::string::npos);
  const size_t end = text.find(to, begin);
  REQUIRE(end != std::string::npos);
  return text.substr(begin, end - begin);
}

/// The plan's own parts of its C++ program: kernels, graphs, the script.
std::string cpp_of(Program p) {
  for (Module& m : p.modules) m.image = {std::byte{0}};
  return between(to_cpp(p), "// ---- Waiting ----", "// ---- The program ----");
}

/// The Program in its page, a line for each item of its lists.
std::string page_of(const Program& p) {
  constexpr std::string_view kOpen = "id=\"data\">";
  const std::string data = between(to_html(p), kOpen, "</script>");
  const auto json = nlohmann::ordered_json::parse(data.substr(kOpen.size()));
  std::string out;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_array()) {
      out += fmt::format("{} {}\n", key, value.dump());
      continue;
    }
    out += fmt::format("{} {}\n", key, value.size());
    for (const auto& item : value) out += fmt::format("  {}\n", item.dump());
  }
  return out;
}

std::vector<std::filesystem::path> files(const std::filesystem::path& folder,
                                         const std::string& extension) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("the examples are the golden graphs") {
  const auto models = files(kRoot / "examples", ".toml");
  size_t found = 0;
  for (const auto& path : models) {
    // minilm is too long to read (tests/minilm has its numbers), and of others a small form is
    // here.
    const std::string name = path.stem().string();
    if (std::find(kExamples.begin(), kExamples.end(), name) == kExamples.end()) continue;
    const TomlModel model =
        read_toml(read_file(path).value(), "examples/" + path.filename().string());
    compare(name + ".bir", ir::print(model.graph->ir()));
    ++found;
  }
  CHECK(found == kExamples.size());
}

TEST_CASE("golden dumps") {
  const auto graphs = files(kGolden, ".bir");
  CHECK(graphs.size() >= 4);
  for (const auto& path : graphs) {
    const std::string name = path.stem().string();
    CAPTURE(name);
    const std::string text = read_file(path).value();
    const ir::Graph graph = ir::parse(text, path.filename().string());
    CHECK_MESSAGE(ir::print(graph) == text, "print(parse(text)) is another text");
    CHECK(std::filesystem::exists(kGolden / (name + ".report.txt")));
    Options options;
    options.verify = true;
    const Compilation c = run_passes(graph, options);
    const auto dump = [&](const std::string& extension, const auto& make) {
      const std::string file = name + extension;
      if (std::filesystem::exists(kGolden / file)) compare(file, make());
    };
    dump(".simplified.txt",
         [&] { return ir::print(run_passes(graph, options, "simplify").graph); });
    dump(".levels.txt", [&] { return c.levels.print(c.graph); });
    dump(".fuse.txt", [&] { return c.fusion.print(c.graph); });
    dump(".program.txt", [&] { return to_text(c.program); });
    dump(".program.json", [&] { return to_json(c.program); });
    dump(".program.dot", [&] { return to_dot(c.program); });
    dump(".cpp.txt", [&] { return cpp_of(c.program); });
    dump(".page.txt", [&] { return page_of(c.program); });
    dump(".report.txt", [&] { return report_of(c.program); });
    // Every kernel a launch of its own, on all streams that there are.
    dump(".streams.txt", [&] {
      Options alone = options;
      alone.group = false;
      alone.force_lanes = true;
      return report_of(run_passes(graph, alone).program);
    });
  }
}
