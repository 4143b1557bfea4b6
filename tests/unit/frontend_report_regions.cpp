// The report of programs with branches, loops and messages: those of examples/ that break other
// compilers' graphs as goldens, and random ones in all forms for whatever a reader may ask.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "control_programs.hpp"
#include "frontend/compile.hpp"
#include "frontend/report/diff.hpp"
#include "frontend/report/explain.hpp"
#include "frontend/report/report.hpp"
#include "frontend/toml.hpp"
#include "ir/armed_bodies.hpp"
#include "ir/naming.hpp"
#include "passes/reference_breaks.hpp"

using namespace braid;
using namespace braid::report;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = BRAID_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
bool blessing() {
  const char* set = std::getenv("BRAID_BLESS");
  return set && std::string(set) == "1";
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Reported {
  Program program;
  Report report;
};

Reported report_of(const fs::path& model, Options options = {}) {
  const ir::Graph graph = load_toml(model.string()).graph->ir();
  options.verify = true;
  Reported r{run_passes(graph, options).program, {}};
  r.report = make_report(r.program);
  const ReferenceGraphs found = reference_breaks(run_passes(graph, options, "simplify").graph);
  r.report.reference = Reference{found.graphs, found.breaks, found.each_iteration, {}};
  for (const ReferenceBreak& b : found.where) {
    r.report.reference->where.push_back(
        {std::string(braid::text_of(b.rule)), b.op, b.place, b.times, b.each_iteration});
  }
  return r;
}

std::vector<fs::path> models() {
  std::vector<fs::path> all;
  for (const auto& e : fs::directory_iterator(kRoot / "examples/breaks")) all.push_back(e.path());
  std::sort(all.begin(), all.end());
  for (const char* name : {"branchy.toml", "decode_loop.toml"}) {
    all.push_back(kRoot / "examples" / name);
  }
  return all;
}

void compare(const fs::path& path, const std::string& text) {
  if (blessing()) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  CHECK_MESSAGE(text_of(path) == text,
                path.string() << " is another text: BRAID_BLESS=1 rewrites it; read the diff");
}

/// "1 + 2 an iteration".
std::string graphs_text(const Reference& r) {
  return r.each_iteration > 0 ? fmt::format("{} + {} an iteration", r.graphs, r.each_iteration)
                              : fmt::format("{}", r.graphs);
}

/// What carries out the branches, loops and messages, each kind once.
std::string carried_out(const Reported& r) {
  std::vector<std::string> ways;
  const auto add = [&](const std::string& way) {
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  };
  for (const Dissolved& d : r.program.dissolved) {
    add(d.lowering == ir::Lowering::unroll ? "unrolled" : "both sides computed");
  }
  for (const RegionRow& row : r.report.regions) {
    if (row.around == UINT32_MAX) add(fmt::format("{}, {:.1f} us", row.what, row.us));
  }
  if (!r.program.messages.empty()) add("ring");
  return fmt::format("{}", fmt::join(ways, "; "));
}

std::string table() {
  std::string out =
      "| model | breaks elsewhere | torch.compile | here | breaks | carried out as | predicted |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const fs::path& path : models()) {
    const Reported r = report_of(path);
    std::vector<std::string> rules;
    for (const Reference::At& w : r.report.reference->where) {
      if (std::find(rules.begin(), rules.end(), w.rule) == rules.end()) rules.push_back(w.rule);
    }
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {:.1f} us |\n",
                       fs::relative(path, kRoot / "examples").replace_extension().string(),
                       fmt::join(rules, ", "), graphs_text(*r.report.reference), r.report.graphs,
                       r.report.ops_outside, carried_out(r), r.report.launch.us());
  }
  return out;
}

}  // namespace

TEST_CASE("golden reports of programs that break other graphs") {
  CHECK(models().size() >= 12);
  for (const fs::path& path : models()) {
    CAPTURE(path.string());
    const Reported r = report_of(path);
    CHECK(r.report.graphs == 1);
    CHECK(r.report.breaks.empty());
    CHECK(r.report.reference->breaks > 0);
    compare(kRoot / "tests/golden/control" / (path.stem().string() + ".report.txt"),
            to_text(r.report, r.program, sections_from(kUsualSections)));
  }
}

TEST_CASE("golden reports of one branch by every lowering") {
  for (const ir::Lowering l :
       {ir::Lowering::select, ir::Lowering::predicate, ir::Lowering::node, ir::Lowering::host}) {
    Options o;
    o.branches = l;
    const Reported r = report_of(kRoot / "examples/branchy.toml", o);
    std::string text = to_text(r.report, r.program, sections_from(kUsualSections));
    for (size_t i = 0; i < r.program.regions.size(); ++i) {
      text += "\n" + explain(r.program, fmt::format("r{}", i));
    }
    compare(kRoot / "tests/golden/control" / fmt::format("branchy.{}.txt", ir::name_of(l)), text);
  }
}

TEST_CASE("golden table in frontend/README.md of models that break elsewhere") {
  const fs::path path = kRoot / "frontend/README.md";
  const std::string readme = text_of(path);
  const size_t begin = readme.find("| model | breaks elsewhere |");
  REQUIRE(begin != std::string::npos);
  const size_t end = readme.find("\n\n", begin) + 1;
  const std::string now = readme.substr(0, begin) + table() + readme.substr(end);
  if (blessing()) {
    std::ofstream(path, std::ios::binary) << now;
  } else {
    CHECK_MESSAGE(now == readme, "the table is out of date: BRAID_BLESS=1 rewrites it");
  }
}

TEST_CASE("report: regions, their kernels, and how they were avoided") {
  Options o;
  o.branches = ir::Lowering::node;
  const Reported r = report_of(kRoot / "examples/branchy.toml", o);
  REQUIRE(r.report.regions.size() == 1);
  const RegionRow& row = r.report.regions[0];
  CHECK(row.what == "IF");
  CHECK(row.place == "branchy.toml:35:21");
  CHECK(row.kernels == std::vector<size_t>{1, 1});
  CHECK(row.sides == std::vector<std::string>{"false", "true"});
  CHECK(row.parts == std::vector<std::vector<std::string>>{{"g1"}, {"g2"}});
  REQUIRE(r.report.fragments.size() == 1);
  CHECK(r.report.bodies.size() == 2);
  CHECK(r.report.fragments[0].kernels == 6);  // with those of the sides
  CHECK(r.report.fragments[0].conditional == 1);
  CHECK(r.report.kernels == 6);
  CHECK(r.report.avoided.size() == 2);

  const Json j = Json::parse(to_json(r.report, r.program, sections_from("all")));
  CHECK(j["schema"] == "braid.report/1");
  CHECK(j["minor"] == 1);
  const Json& region = j["partitions"]["regions"][0];
  CHECK(region["region"] == "r0");
  CHECK(region["where"] == row.where);
  CHECK(region["sides"][1]["parts"][0] == "g2");
  CHECK(region["around"].is_null());
  CHECK(j["partitions"]["conditional_bodies"]["units"] == 4);
  CHECK(j["partitions"]["conditional_bodies"]["slow"] == false);
  CHECK(j["breaks"]["reference"]["graphs"] == 3);
  CHECK(j["breaks"]["reference"]["where"].size() == 2);
  CHECK(j["streams"]["parts"].size() == 3);

  const std::string node = explain(r.program, row.where);
  CHECK(has(node, "IF r0"));
  CHECK(has(node, "true   1 kernel  g2"));
  CHECK(has(explain(r.program, "g2"), "it is side true of r0"));
  CHECK(
      has(explain(r.program, "g2.n0"), "it runs where r0 (y (branch), branchy.toml:35:21) takes"));
}

TEST_CASE("report: guarded kernels say what they wait for, and a region of the host what it runs") {
  Options o;
  o.branches = ir::Lowering::predicate;
  const Program guarded = report_of(kRoot / "examples/branchy.toml", o).program;
  size_t found = 0;
  for (uint32_t n = 0; n < guarded.bodies[0].nodes.size(); ++n) {
    const Node& node = guarded.bodies[0].nodes[n];
    if (node.region == UINT32_MAX) continue;
    ++found;
    CHECK(has(explain(guarded, fmt::format("n{}", n)),
              fmt::format("unless r0 (y (branch), branchy.toml:35:21) takes side {}",
                          node.branch == 1 ? "true" : "false")));
  }
  CHECK(found == 2);

  o.branches = ir::Lowering::host;
  const Reported host = report_of(kRoot / "examples/branchy.toml", o);
  CHECK(host.report.fragments.size() == 3);
  CHECK(host.report.launch.regions == 1);
  CHECK(host.report.launched.graphs == 2);
  CHECK(host.report.launched.each_iteration == 0);
  CHECK(host.report.launch.graphs == 1);  // those of the sides are the region's
  CHECK(host.report.ops_outside == 1);
  CHECK(host.report.regions[0].where == "script");

  const Diff d = diff(guarded, host.program);
  CHECK(d.lowered_a == std::vector<std::string>{"y (branch): predicated if"});
  CHECK(d.lowered_b == std::vector<std::string>{"y (branch): if by the host"});
  CHECK(has(to_text(d), "branches, loops and host calls in A alone: y (branch): predicated if"));
  CHECK(!diff(guarded, guarded).different());
}

TEST_CASE("report: bodies that may stay unrun are counted, loops that begin are not") {
  Options o;
  o.branches = ir::Lowering::node;
  // Two sides of a kernel and a chain each.
  CHECK(armed_units(report_of(kRoot / "examples/branchy.toml", o).program) == 4);
  const Reported begins = report_of(kRoot / "examples/breaks/converge.toml");
  REQUIRE(begins.report.regions[0].what == "WHILE");
  CHECK(armed_units(begins.program) == 0);
  const Reported may_not = report_of(kRoot / "examples/decode_loop.toml");
  const Body& body = may_not.program.bodies[may_not.program.regions[0].bodies[0]];
  CHECK(may_not.report.armed.units == static_cast<int64_t>(body.nodes.size() + body.lanes));
  CHECK(may_not.report.armed.slow());
  CHECK(has(to_text(may_not.report, may_not.program, sections_from("partitions")),
            "warning: conditional bodies that have not run yet"));
  CHECK(armed_units(size_t{0}, size_t{1}) == 0);
  CHECK(armed_units(size_t{5}, size_t{2}) == 7);
}

TEST_CASE("report, explain and diff take every program with branches and loops") {
  size_t regions = 0, kinds[3] = {};
  Program last;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const Program p = test::control_program(seed);
    const Report r = make_report(p);
    CHECK(r.regions.size() == p.regions.size());
    for (const Region& region : p.regions) ++kinds[static_cast<size_t>(region.kind)];
    regions += p.regions.size();
    size_t kernels = 0, bodies = 0;
    for (const Body& b : p.bodies) {
      for (const Node& n : b.nodes) kernels += n.kernel != kNoKernel;
      bodies += b.region != UINT32_MAX && p.regions[b.region].kind == Region::Kind::node;
    }
    CHECK(r.kernels == kernels);
    CHECK(r.bodies.size() == bodies);
    CHECK(r.with_bodies().size() >= p.bodies.size());
    CHECK(!to_text(r, p, sections_from("all")).empty());
    CHECK(Json::accept(to_json(r, p, sections_from("all"))));
    std::set<std::string> asked;
    for (size_t b = 0; b < p.bodies.size(); ++b) {
      asked.insert(name_of_body(p, b));
      for (size_t n = 0; n < p.bodies[b].nodes.size(); ++n) asked.insert(name_of_node(p, b, n));
    }
    for (size_t i = 0; i < p.regions.size(); ++i) asked.insert(fmt::format("r{}", i));
    for (const Buffer& b : p.buffers) asked.insert(b.name);
    size_t turn = seed;
    for (const std::string& what : asked) {
      if (turn++ % (1 + asked.size() / 40) != 0) continue;
      CAPTURE(what);
      CHECK(!explain(p, what).empty());
    }
    CHECK(!to_text(diff(p, last)).empty());
    last = p;
  }
  CHECK(regions > 20);
  for (size_t k : kinds) CHECK(k > 2);
}
