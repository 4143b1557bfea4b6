// The interpreter against values that NumPy computed (tests/numpy/make.py).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "ir/interpret.hpp"
#include "ir/text.hpp"

using namespace braid;

namespace {

struct Expected {
  std::string name;
  double relative = 0, absolute = 0;
  std::vector<std::string> values;
};

struct NumpyCase {
  ir::Graph graph;
  ir::Rounding rounding = ir::Rounding::wide;
  ir::TensorMap inputs, params;
  std::vector<Expected> outputs;
};

std::vector<std::string> rest_of(std::istringstream& line) {
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

TensorType type_of(const ir::Graph& g, const std::string& name) {
  for (const ir::Op& op : g.ops()) {
    if (g.strings[op.name] == name) return g.type(op.result);
  }
  FAIL("no input or param ", name);
  return {};
}

WideTensor tensor(const TensorType& type, const std::vector<std::string>& words) {
  WideTensor t;
  t.type = type;
  for (const std::string& w : words) {
    if (is_float(type.dtype)) {
      t.f.push_back(std::strtod(w.c_str(), nullptr));
    } else {
      t.i.push_back(std::strtoll(w.c_str(), nullptr, 10));
    }
  }
  REQUIRE(static_cast<int64_t>(words.size()) == type.shape.numel());
  return t;
}

std::vector<NumpyCase> read_cases() {
  std::ifstream file(BRAID_SOURCE_DIR "/tests/numpy/expected.txt");
  REQUIRE(file);
  std::vector<NumpyCase> cases;
  std::string text;
  bool in_graph = true;
  for (std::string line; std::getline(file, line);) {
    if (in_graph) {
      text += line + "\n";
      if (line != "}") continue;
      cases.emplace_back().graph = ir::parse(text, "expected.txt");
      text.clear();
      in_graph = false;
      continue;
    }
    NumpyCase& c = cases.back();
    std::istringstream in(line);
    std::string what, name;
    in >> what >> name;
    if (what == "rounding") {
      c.rounding = ir::Rounding::dtype;
    } else if (what == "output") {
      Expected e;
      e.name = name;
      in >> e.relative >> e.absolute;
      e.values = rest_of(in);
      c.outputs.push_back(std::move(e));
    } else if (what == "end") {
      in_graph = true;
    } else {
      REQUIRE((what == "input" || what == "param"));
      (what == "input" ? c.inputs : c.params)[name] = tensor(type_of(c.graph, name), rest_of(in));
    }
  }
  REQUIRE(in_graph);
  return cases;
}

bool close(double got, double want, const Expected& e) {
  if (std::isnan(want)) return std::isnan(got);
  if (got == 0 && want == 0) return std::signbit(got) == std::signbit(want);
  if (got == want) return true;
  return std::fabs(got - want) <= e.relative * std::fabs(want) + e.absolute;
}

}  // namespace

TEST_CASE("the interpreter computes what NumPy computes") {
  const std::vector<NumpyCase> cases = read_cases();
  CHECK(cases.size() >= 30);
  for (const NumpyCase& c : cases) {
    CHECK(verify(c.graph).empty());
    ir::TensorMap params = c.params;
    const ir::TensorMap outputs = ir::interpret(c.graph, c.inputs, params, c.rounding);
    REQUIRE(c.outputs.size() == c.graph.outputs.size());
    for (const Expected& e : c.outputs) {
      const WideTensor& got = outputs.at(e.name);
      const WideTensor want = tensor(got.type, e.values);
      for (size_t i = 0; i < e.values.size(); ++i) {
        const std::string where = fmt::format("{} output {} element {}", c.graph.name, e.name, i);
        CAPTURE(where);
        if (is_float(got.type.dtype)) {
          CAPTURE(got.f[i]);
          CAPTURE(want.f[i]);
          CHECK(close(got.f[i], want.f[i], e));
        } else {
          CHECK(got.i[i] == want.i[i]);
        }
      }
    }
  }
}
