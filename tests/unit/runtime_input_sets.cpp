// Inputs that change from launch to launch, on the simulator.
#include <doctest/doctest.h>

#include "runtime/input_sets.hpp"
#include "runtime_help.hpp"

using namespace braid;
using namespace braid::testing;
using braid::runtime::Feed;
using braid::runtime::InputSets;

TEST_CASE("sets of inputs are bound or copied, in turn, and leave the bindings as they were") {
  Bench bench;
  Executable e(diamond(), bench.store);
  const HostTensor w = bench.store.get("w");
  const DevicePtr own = e.address("x");
  const std::vector<std::map<std::string, HostTensor>> sets{diamond_inputs(40), diamond_inputs(41),
                                                            diamond_inputs(42)};
  int64_t left = 0;  // objects that stay: events of launches, which are used again
  for (int round = 0; round < 2; ++round) {
    left = bench.simulator->live_objects();
    InputSets inputs(e, sets);
    CHECK(inputs.size() == 3);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
      for (size_t i = 0; i < 7; ++i) {
        for (const Feed feed : {Feed::copy, Feed::bind}) {
          CHECK(values(inputs.run(i, feed, mode).at("y")) == diamond_y(sets[i % 3], w));
          CHECK((e.address("x") == own) == (feed == Feed::copy));
        }
      }
    }
    // What stays bound is the last of them.
    CHECK(values(inputs.run(1, Feed::same).at("y")) == diamond_y(sets[0], w));
  }
  CHECK(e.address("x") == own);
  CHECK(bench.simulator->live_objects() == left);
  const auto in = diamond_inputs(43);
  CHECK(values(e.run(in).at("y")) == diamond_y(in, w));
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("copies of inputs wait for the launch before") {
  Bench bench;
  Executable e(diamond(), bench.store);
  const HostTensor w = bench.store.get("w");
  const std::vector<std::map<std::string, HostTensor>> sets{diamond_inputs(50), diamond_inputs(51)};
  InputSets inputs(e, sets);
  const runtime::ContextPtr context = bench.device.context();
  const runtime::Current current(context);
  const runtime::OwnedStream stream = runtime::make_stream(context);
  Ticket last;
  for (size_t i = 0; i < 5; ++i) {
    inputs.give(i, Feed::copy, stream.get());
    last = e.launch(stream.get());
  }
  last.wait();
  CHECK(values(e.read("y")) == diamond_y(sets[0], w));
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("what only a graph can hold is told") {
  Program p = diamond();
  CHECK(!graph_only(p));
  Region r;
  r.kind = Region::Kind::node;
  r.op = "y (branch)";
  r.place = "m.toml:3:1";
  p.regions.push_back(r);
  REQUIRE(graph_only(p));
  CHECK(graph_only(p)->why == "y (branch) is a conditional node, m.toml:3:1");
  CHECK(contains(graph_only(p)->remedy, "--branches=predicate"));
}
