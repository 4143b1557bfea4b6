// What torch.compile would make of models, counted by hand.
#include <doctest/doctest.h>

#include <string>

#include "ir/text.hpp"
#include "passes/reference_breaks.hpp"
#include "random_control.hpp"

using namespace braid;

namespace {

ReferenceGraphs of(const std::string& lines) {
  ir::Graph g = ir::parse("bir 2\ngraph \"g\" {\n" + lines + "}\n");
  g.bind_dims({});
  return reference_breaks(g);
}

struct Numbers {
  int64_t graphs, breaks, each_iteration;
  bool operator==(const Numbers&) const = default;
};
Numbers numbers(const ReferenceGraphs& r) { return {r.graphs, r.breaks, r.each_iteration}; }

/// exp(x), then a message of this kind, then `after`.
ReferenceGraphs message(const std::string& kind, const std::string& after) {
  const std::string type = kind == "check" ? "i32[]" : "f32[]";
  return of("%0: " + type + " = input \"x\"\n%1: " + type +
            " = mul %0, %0\n%2: state i32[16] = param \"ring\" {sort=ring}\n"
            "%3: state i32[16] = send %2, %1 \"say\" {message=" +
            kind + ", text=\"t\"}\n" + after);
}

/// if (`selects`) y = exp(x), with a print on that side if wanted; then exp of it.
ReferenceGraphs branch(const std::string& selects, bool print, bool after) {
  const std::string state = print ? ", %2: state i32[16]" : "";
  const std::string ring = "        %1: state i32[16] = param \"ring\" {sort=ring}\n";
  return of("%0: f32[] = input \"x\"\n" + selects +
            "%20: state i32[16] = param \"ring\" {sort=ring}\n%21: f32[], %22: state i32[16] = "
            "branch %10, %0, %20 \"pick\" {\n"
            "      body \"else\" {\n        %0: f32[] = input \"x\"\n" +
            ring + "        output \"y\" %0\n      }\n" +
            "      body \"then\" {\n        %0: f32[] = input \"x\"\n" + ring +
            "        %2: f32[] = exp %0\n" +
            (print ? "        %3: state i32[16] = send %1, %2 {message=print, text=\"t\"}\n" : "") +
            "        output \"y\" %2\n      }\n    }\n" +
            (after ? "%30: f32[] = exp %21\noutput \"y\" %30\n" : "output \"y\" %21\n"));
}

const std::string kOnData = "%9: f32[] = constant 0.5\n%10: b1[] = lt %0, %9\n";
const std::string kOnScalar = "%10: b1[] = input \"c\" {scalar=1}\n";

/// n = n * 2 while n < bound, at most `limit` times (0: without), a print in each if wanted.
ReferenceGraphs loop(int limit, bool condition, bool print, bool bound_is_scalar = false) {
  const std::string arguments =
      "        %0: i32[] = input \"i\"\n        %1: i32[] = input \"n\"\n        %2: i32[] = input "
      "\"bound\"\n        %3: state i32[16] = param \"ring\" {sort=ring}\n";
  return of(
      "%0: i32[] = input \"n\"\n%1: i32[] = input \"bound\"" +
      std::string(bound_is_scalar ? " {scalar=9}" : "") +
      "\n%2: state i32[16] = param \"ring\" {sort=ring}\n%3: i32[], %4: state i32[16] = loop %0, "
      "%1, %2 \"steps\" {carried=1" +
      (limit > 0 ? ", limit=" + std::to_string(limit) : "") + "} {\n      body \"step\" {\n" +
      arguments + "        %4: i32[] = mul %1, %1\n" +
      (print ? "        %5: state i32[16] = send %3, %4, %0 {message=print, text=\"t\"}\n" : "") +
      "        output \"n\" %4\n      }\n" +
      (condition
           ? "      condition \"more\" {\n" + arguments + "        %4: b1[] = lt " +
                 (bound_is_scalar ? "%0" : "%1") + ", %2\n        output \"more\" %4\n      }\n"
           : "") +
      "    }\n%5: i32[] = mul %3, %3\noutput \"y\" %5\n");
}

}  // namespace

TEST_CASE("reference breaks: a message ends a graph, and what follows is another") {
  for (const auto& [kind, rule] : {std::pair("print", BreakRule::print),
                                   {"item", BreakRule::item},
                                   {"check", BreakRule::check}}) {
    CAPTURE(kind);
    CHECK(numbers(message(kind, "output \"y\" %1\n")) == Numbers{1, 1, 0});
    const std::string type = rule == BreakRule::check ? "i32[]" : "f32[]";
    const ReferenceGraphs r = message(kind, "%4: " + type + " = mul %1, %1\noutput \"y\" %4\n");
    CHECK(numbers(r) == Numbers{2, 1, 0});
    REQUIRE(r.where.size() == 1);
    CHECK(r.where[0].rule == rule);
    CHECK(r.where[0].op == "say (send)");
    CHECK(r.where[0].times == 1);
    CHECK_FALSE(r.where[0].each_iteration);
  }
}

TEST_CASE("reference breaks: what only data decides the size of ends a graph") {
  const ReferenceGraphs r = of(R"(%0: f32[4] = input "x"
%1: b1[4] = gt %0, %0
%2: f32[4], %3: i32[] = compact %1, %0 "chosen"
%4: f32[4] = exp %2
output "y" %4
)");
  CHECK(numbers(r) == Numbers{2, 1, 0});
  REQUIRE(r.where.size() == 1);
  CHECK(r.where[0].rule == BreakRule::size);
  CHECK(text_of(r.where[0].rule) == "a size on data");
  CHECK(r.where[0].op == "chosen (compact)");
}

TEST_CASE("reference breaks: nothing to say of a plain graph, or of none") {
  const ReferenceGraphs r = of("%0: f32[4] = input \"x\"\n%1: f32[4] = exp %0\noutput \"y\" %1\n");
  CHECK(numbers(r) == Numbers{1, 0, 0});
  CHECK(r.where.empty());
  CHECK(numbers(of("%0: f32[4] = input \"x\"\noutput \"y\" %0\n")) == Numbers{0, 0, 0});
}

TEST_CASE("reference breaks: an if on data resumes in the side that is taken") {
  CHECK(numbers(branch(kOnData, false, false)) == Numbers{2, 1, 0});
  CHECK(numbers(branch(kOnData, false, true)) == Numbers{2, 1, 0});  // with what follows
  CHECK(numbers(branch(kOnData, true, true)) == Numbers{3, 2, 0});   // the side that prints
  const ReferenceGraphs r = branch(kOnData, true, true);
  REQUIRE(r.where.size() == 2);
  CHECK(r.where[0].rule == BreakRule::branch);
  CHECK(r.where[1].rule == BreakRule::print);
}

TEST_CASE("reference breaks: what the host sets decides without a break") {
  CHECK(numbers(branch(kOnScalar, false, true)) == Numbers{1, 0, 0});
  CHECK(numbers(branch(kOnScalar, true, true)) == Numbers{2, 1, 0});
  CHECK(numbers(loop(0, true, false, true)) == Numbers{1, 0, 0});
}

TEST_CASE("reference breaks: a counted loop is unrolled, one on data has a graph an iteration") {
  CHECK(numbers(loop(7, false, false)) == Numbers{1, 0, 0});
  const ReferenceGraphs counted = loop(7, false, true);
  CHECK(numbers(counted) == Numbers{8, 7, 0});
  REQUIRE(counted.where.size() == 1);
  CHECK(counted.where[0].times == 7);
  CHECK(numbers(loop(1, false, true)) == Numbers{2, 1, 0});
  CHECK(numbers(loop(7, true, false)) == Numbers{2, 1, 1});
  CHECK(numbers(loop(0, true, false)) == Numbers{2, 1, 1});
  const ReferenceGraphs open = loop(0, true, true);
  CHECK(numbers(open) == Numbers{2, 1, 2});
  REQUIRE(open.where.size() == 2);
  CHECK_FALSE(open.where[0].each_iteration);
  CHECK(open.where[1].each_iteration);
}

TEST_CASE("reference breaks: random models, whatever is in them") {
  size_t breaking = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const ir::Graph g = test::random_control(seed, {});
    const ReferenceGraphs r = reference_breaks(g);
    const bool any = r.breaks > 0;
    breaking += any;
    CHECK(r.graphs >= 0);
    CHECK(r.graphs <= r.breaks + 1);
    CHECK((r.each_iteration == 0 || any));
    if (any) CHECK(!r.where.empty());
    test::RandomControlOptions quiet;
    quiet.sends = false;
    for (const ReferenceBreak& b : reference_breaks(test::random_control(seed, quiet)).where) {
      CHECK((b.rule == BreakRule::branch || b.rule == BreakRule::loop));
    }
  }
  CHECK(breaking > 100);
}
