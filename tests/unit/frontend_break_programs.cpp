// Programs with branches, loops and messages, most of which PyTorch cuts: one graph each, and on
// the simulator the outputs, state and messages of the interpreter, launch after launch, by every
// way to carry them out.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"

using namespace braid;

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> programs() {
  const fs::path examples = fs::path(BRAID_SOURCE_DIR) / "examples";
  std::vector<fs::path> list{examples / "branchy.toml", examples / "decode_loop.toml"};
  for (const auto& e : fs::directory_iterator(examples / "breaks")) list.push_back(e.path());
  std::sort(list.begin(), list.end());
  return list;
}

struct Got {
  std::string text;
  std::vector<int64_t> iterations;
  HostTensor value;
  uint64_t launch;
};

void check_program(const fs::path& path, ir::Lowering branches, ir::Lowering loops) {
  CAPTURE(path.filename());
  CAPTURE(name_of(branches));
  CAPTURE(name_of(loops));
  const TomlModel model = load_toml(path.string());
  CHECK(model.warnings.empty());
  ir::Graph graph = model.graph->ir();
  graph.bind_dims({});
  const Device device = Device::open("sim");
  Store store(device);
  std::vector<Got> got;
  MessageOptions messages;
  messages.on_message = [&](const Message& m) {
    got.push_back({m.text, m.iterations, m.value, m.launch});
  };
  Options options;
  options.branches = branches;
  options.loops = loops;
  options.verify = true;
  Executable e = build(*model.graph, store, options, {}, messages);
  const bool by_host = branches == ir::Lowering::host || loops == ir::Lowering::host;
  if (!by_host) {
    CHECK(e.program().graphs == 1);
    CHECK(e.program().breaks.empty());
  }

  ir::TensorMap params;
  for (const std::string& name : store.names()) params[name] = widen(store.get(name));
  for (uint64_t launch = 0; launch < 3; ++launch) {
    CAPTURE(launch);
    std::map<std::string, HostTensor> inputs;
    ir::TensorMap wide;
    for (const Binding& b : e.program().inputs) {
      inputs[b.name] = random_tensor(e.type(b.name), launch + 1, b.name);
      wide[b.name] = widen(inputs[b.name]);
    }
    got.clear();
    e.poison();
    const std::map<std::string, HostTensor> outputs = e.run(inputs);
    ir::Observed observed;
    const ir::TensorMap expected =
        ir::interpret(graph, wide, params, ir::Rounding::dtype, {}, &observed);
    for (const auto& [name, value] : expected) {
      CAPTURE(name);
      CHECK(relative_error(outputs.at(name), value) <= 1e-4);
    }
    for (const auto& [name, value] : params) CHECK(relative_error(store.get(name), value) <= 1e-4);
    REQUIRE(got.size() == observed.messages.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].text == observed.messages[i].text);
      CHECK(got[i].iterations == observed.messages[i].iterations);
      CHECK(got[i].launch == launch);
      CHECK(relative_error(got[i].value, observed.messages[i].value) <= 1e-4);
    }
  }
}

}  // namespace

TEST_CASE("programs with control flow and messages agree with the interpreter") {
  using L = ir::Lowering;
  for (const fs::path& path : programs()) {
    check_program(path, L::automatic, L::automatic);
    check_program(path, L::select, L::unroll);
    check_program(path, L::predicate, L::node);
    check_program(path, L::node, L::node);
    check_program(path, L::host, L::host);
  }
}
