// Random graphs with branches, loops and messages compute the same after every lowering.
#include <doctest/doctest.h>

#include "control_help.hpp"
#include "random_control.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// No branch or loop of the value form is left, and what is left follows the rules.
size_t regions_of_effect_form(const ir::Graph& graph) {
  size_t regions = 0;
  ir::for_each_graph(graph, [&](const ir::Graph& g) {
    for (const ir::Op& op : g.ops()) {
      const auto* branch = std::get_if<ir::BranchAttr>(&op.attrs);
      const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
      if (!branch && !loop) continue;
      ++regions;
      for (uint32_t b : ir::bodies_of(op)) CHECK(g.bodies[b].outputs.empty());
      const ir::Lowering how = branch ? branch->lowering : loop->lowering;
      const ir::Value& first = g.value(op.operands[0]);
      if (branch) {
        CHECK(first.state == (how == ir::Lowering::node));
        CHECK((how == ir::Lowering::node || how == ir::Lowering::predicate ||
               how == ir::Lowering::host));
      } else {
        CHECK(ir::has_flag(*loop));
        CHECK((how == ir::Lowering::node || how == ir::Lowering::host));
      }
      if (first.state) {
        const ir::Attrs& sort = g.op(ir::param_of(g, op.operands[0])).attrs;
        CHECK(std::holds_alternative<ir::HandleAttr>(sort) == (how == ir::Lowering::node));
      }
      CHECK_FALSE(g.strings[branch ? branch->why : loop->why].empty());
    }
  });
  return regions;
}

}  // namespace

TEST_CASE("2,000 random graphs compute the same after every lowering of branches and loops") {
  size_t kept = 0, dissolved_in_all = 0;
  for (uint64_t seed = 0; seed < test::rounds<uint64_t>(2000); ++seed) {
    RandomControlOptions random;
    random.lowerings = seed % 3 == 0;
    ir::Graph g = random_control(seed, random);
    g.bind_dims({});
    const std::string before = run_text(g, seed);
    const Options options = control_options(seed * 7 + seed / 960);
    ir::Graph lowered = options.simplify ? simplify(g) : g;
    if (options.simplify) REQUIRE(run_text(lowered, seed) == before);
    std::vector<Dissolved> dissolved;
    lower_control(lowered, options, dissolved);
    INFO(seed, " ", to_string(options), "\n", ir::print(g), "\n", ir::print(lowered));
    const std::vector<Diagnostic> wrong = ir::verify(lowered);
    REQUIRE_MESSAGE(wrong.empty(), (wrong.empty() ? "" : wrong[0].message));
    REQUIRE(run_text(lowered, seed) == before);
    kept += regions_of_effect_form(lowered);
    dissolved_in_all += dissolved.size();
  }
  CHECK(kept > test::rounds<size_t>(1000));
  CHECK(dissolved_in_all > test::rounds<size_t>(1000));
}
