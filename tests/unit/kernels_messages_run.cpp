// Graphs with messages, compiled and run on the simulator: the host gets what the interpreter says.
#include <doctest/doctest.h>

#include "../message_runs.hpp"
#include "passes/pipeline.hpp"
#include "runtime/simulator.hpp"

using namespace braid;

TEST_CASE("the host gets the messages of loops and branches, however they are lowered") {
  for (const auto& [loop, branch] : kMessageLowerings) {
    INFO(loop, " ", branch);
    const ir::Graph graph = ir::parse(message_model(loop, branch));
    Options options;
    options.verify = true;
    const Device device = Device::on(runtime::make_simulator());
    CHECK(wrong_messages(graph, run_passes(graph, options).program, device) == "");
  }
}
