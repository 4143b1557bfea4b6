// What the builder says to mistakes around closures, and that a failed closure leaves no trace.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "ir/interpret.hpp"

using namespace braid;

namespace {

using Tensors = std::vector<Tensor>;

/// The one diagnostic that `f` throws.
Diagnostic error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    REQUIRE(e.diagnostics().size() == 1);
    return e.diagnostics()[0];
  }
  FAIL("nothing was thrown");
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Model {
  Graph g{"m"};
  Tensor x = g.input("x", {f32, {4}});
  Tensor yes = greater(sum(x), 0);
};

}  // namespace

TEST_CASE("E0307: a tensor ends with its closure") {
  Model m;
  Tensor leaked;
  const auto leaks = [&] {
    leaked = exp(m.x).named("leaked");
    return m.x;
  };
  const uint32_t made = __LINE__ - 3, line = __LINE__ + 1;
  m.g.if_(m.yes, leaks, [&] { return m.x; });
  const Diagnostic d = error_of([&] { relu(leaked); });
  CHECK(d.code == "E0307");
  CHECK(d.place.file == __FILE__);
  REQUIRE(d.details.size() == 1);
  CHECK(contains(d.details[0], "'leaked'  f32[4]  made at"));
  CHECK(contains(d.details[0], ":" + std::to_string(made) + ":"));
  REQUIRE(d.notes.size() == 1);
  CHECK(d.notes[0].place.line == line);
  CHECK(d.notes[0].message == "it was made in 'then' of the if here");
  CHECK(contains(d.suggestion, "return it"));
}

TEST_CASE("E0307: from one closure to the next, and from deep inside") {
  Model m;
  Tensor leaked;
  const Diagnostic side = error_of(
      [&] { m.g.if_(m.yes, [&] { return leaked = exp(m.x); }, [&] { return leaked + m.x; }); });
  CHECK(side.code == "E0307");

  Tensor deep;
  const Tensor y = m.g.loop(2, m.x, [&](Tensor i, Tensor v) {
    m.g.if_(greater(i, 0), [&] { deep = (v + 1.0).named("deep"); });
    return v * 2.0;
  });
  m.g.output("y", y);
  const Diagnostic d = error_of([&] { m.g.output("deep", deep); });
  CHECK(d.code == "E0307");
  REQUIRE(d.details.size() == 1);
  CHECK(contains(d.details[0], "'deep'  f32[4]"));
  CHECK(m.g.ir().outputs.size() == 1);
}

TEST_CASE("E0307: carried values end with the iteration") {
  Model m;
  Tensor counter;
  m.g.loop(2, m.x, [&](Tensor i, Tensor v) {
    counter = i;
    return v;
  });
  const Diagnostic d = error_of([&] { m.g.print(counter); });
  CHECK(d.code == "E0307");
  CHECK(contains(d.notes.at(0).message, "'body' of the loop"));
}

TEST_CASE("E0308: sides that do not agree") {
  Model m;
  const Diagnostic types =
      error_of([&] { m.g.if_(m.yes, [&] { return exp(m.x); }, [&] { return sum(m.x); }); });
  CHECK(types.code == "E0308");
  CHECK(types.message == "if: result 0 has two types: f32[4] from 'then' and f32[] from 'else'");
  REQUIRE(types.details.size() == 2);
  CHECK(contains(types.details[0], "from exp at"));
  CHECK(contains(types.details[1], "from sum at"));

  const Diagnostic counts = error_of(
      [&] { m.g.if_(m.yes, [&] { return Tensors{m.x}; }, [&] { return Tensors{m.x, m.x}; }); });
  CHECK(counts.code == "E0308");
  CHECK(contains(counts.message, "'then' gives 1 and 'else' gives 2"));

  const Tensor i = m.g.scalar("i", i32);
  const Diagnostic cases = error_of([&] {
    m.g.switch_(i, {[&] { return m.x; }, [&] { return m.x; }, [&] { return cast(m.x, f16); }});
  });
  CHECK(contains(cases.message, "f32[4] from 'case0' and f16[4] from 'case2'"));
  CHECK(error_of([&] { m.g.switch_(i, std::vector<std::function<Tensor()>>{}); }).code == "E0308");
}

TEST_CASE("E0308: carried values keep number and type") {
  Model m;
  const Diagnostic type =
      error_of([&] { m.g.loop(3, m.x, [&](Tensor, Tensor v) { return sum(v); }); });
  CHECK(type.code == "E0308");
  CHECK(contains(type.message, "carried value 0 is f32[4] before an iteration and f32[] after it"));
  REQUIRE(type.details.size() == 2);
  CHECK(contains(type.details[0], "'x'"));
  const Diagnostic count = error_of([&] {
    m.g.loop(3, {m.x, m.x}, [&](Tensor, const Tensors& c) { return LoopValues{{c[0]}, {}}; });
  });
  CHECK(contains(count.message, "2 carried values go into an iteration, but 1 come out"));
  const Diagnostic rows = error_of([&] {
    m.g.while_(
        {m.x}, [&](Tensor i, const Tensors&) { return less(i, 2); },
        [&](Tensor, const Tensors& c) { return LoopValues{c, c}; });
  });
  CHECK(contains(rows.message, "stacked rows need a limit"));
}

TEST_CASE("what decides has one element, and the right dtype") {
  Model m;
  const auto same = [&] { return m.x; };
  const Diagnostic many = error_of([&] { m.g.if_(greater(m.x, 0), same, same); });
  CHECK(many.code == "E0301");
  CHECK(many.message == "if: what decides is b1 with one element, not b1[4]");
  const Diagnostic number = error_of([&] { m.g.if_(sum(m.x), same, same); });
  CHECK(contains(number.suggestion, "compare it"));
  const Diagnostic index = error_of([&] { m.g.switch_(sum(m.x), {same, same}); });
  CHECK(contains(index.message, "i32 with one element, not f32[]"));
  const Diagnostic condition =
      error_of([&] { m.g.while_(m.x, [](Tensor v) { return v; }, [](Tensor v) { return v; }); });
  CHECK(contains(condition.message, "what the condition gives is b1"));
}

TEST_CASE("E0309: what cannot stand in a closure") {
  Model m;
  const Tensor p = m.g.param("p", {f32, {4}});
  const auto in_side = [&](const std::function<void()>& f) {
    return error_of([&] { m.g.if_(m.yes, f); });
  };
  for (const Diagnostic& d :
       {in_side([&] { m.g.input("y", {f32, {2}}); }), in_side([&] { m.g.scalar("s", f32); }),
        in_side([&] { m.g.output("y", m.x); })}) {
    CHECK(d.code == "E0309");
    CHECK(contains(d.message, "cannot stand in a branch or loop"));
  }
  const auto in_condition = [&](const std::function<void()>& f) {
    return error_of([&] {
      m.g.while_(
          m.x,
          [&](Tensor v) {
            m.g.if_(m.yes, f);
            return less(sum(v), 1);
          },
          [](Tensor v) { return v; });
    });
  };
  CHECK(in_condition([&] { m.g.assign(p, m.x); }).message ==
        "a loop's condition cannot change a param");
  CHECK(in_condition([&] { m.g.print(m.x); }).message == "a loop's condition cannot send messages");
  CHECK(in_side([&] { m.g.ir(); }).code == "E0305");
}

TEST_CASE("lowerings and limits that cannot be") {
  Model m;
  const auto same = [&] { return m.x; };
  const Diagnostic branch = error_of([&] { m.g.if_(m.yes, same, same, {ir::Lowering::unroll}); });
  CHECK(branch.code == "E0303");
  CHECK(contains(branch.message, "auto, select, predicate, node, host"));
  const auto step = [](Tensor, Tensor v) { return v; };
  CHECK(error_of([&] { m.g.loop(2, m.x, step, {.lowering = ir::Lowering::select}); }).code ==
        "E0303");
  CHECK(error_of([&] { m.g.loop(2, m.x, step, {.unroll = -1}); }).code == "E0303");
  CHECK(error_of([&] { m.g.loop(-1, m.x, step); }).code == "E0301");
  CHECK(error_of([&] { m.g.loop(int64_t{1} << 40, m.x, step); }).code == "E0303");
}

TEST_CASE("messages that cannot be") {
  Model m;
  CHECK(error_of([&] { m.g.item(m.x); }).code == "E0301");
  CHECK(error_of([&] { m.g.print(m.x, "two\nlines"); }).code == "E0306");
  CHECK(error_of([&] { m.g.check_range(m.x, 1, 0); }).code == "E0303");
  CHECK(error_of([&] { m.g.check_range(m.x, -INFINITY, INFINITY); }).code == "E0303");
  CHECK(error_of([&] { m.g.check(cast(m.x, i32), Check::finite); }).code == "E0301");
}

TEST_CASE("a closure that throws leaves the graph as it was") {
  Model m;
  Tensor leaked, declared;
  const auto fails = [&]() -> Tensor {
    const Scope scope = m.g.scope("deep");
    m.g.loop(2, m.x, [&](Tensor, Tensor v) -> Tensor {
      declared = m.g.param("w", {f32, {4}});
      leaked = v + declared;
      throw std::runtime_error("the closure's own");
    });
    return m.x;
  };
  CHECK_THROWS_AS(m.g.if_(m.yes, fails, [&] { return m.x; }), std::runtime_error);
  CHECK(error_of([&] { relu(leaked); }).code == "E0307");
  CHECK(error_of([&] { relu(declared); }).code == "E0307");
  CHECK(error_of([&] { m.g.assign(declared, m.x); }).code == "E0307");
  // The same again, without the mistake.
  const Tensor y = m.g.if_(
      m.yes,
      [&] {
        const Scope scope = m.g.scope("deep");
        const Tensor w = m.g.param("w", {f32, {4}});
        return m.x * w;
      },
      [&] { return m.x; });
  m.g.output("y", y);
  CHECK(ir::verify(m.g.ir()).empty());
  size_t params = 0;
  for (const ir::Op& op : m.g.ir().ops()) params += op.kind == ir::OpKind::param;
  CHECK(params == 1);
  const ir::Graph& then = m.g.ir().bodies.at(1);
  CHECK(then.strings[then.ops()[0].name] == "deep/w");
}

TEST_CASE("after sides that do not agree, the params of both are gone") {
  Model m;
  const auto make = [&](int64_t n) {
    return m.g.if_(
        m.yes, [&] { return m.g.read(m.g.param("a", {f32, {4}})); },
        [&] { return m.g.read(m.g.param("b", {f32, {n}})); });
  };
  CHECK(error_of([&] { make(5); }).code == "E0308");
  m.g.output("y", make(4));
  CHECK(ir::verify(m.g.ir()).empty());
}

TEST_CASE("in collect mode too a tensor of the other side is a mistake") {
  Model m;
  m.g.collect_errors(true);
  Tensor leaked;
  const Tensor y = m.g.if_(m.yes, [&] { return leaked = exp(m.x); }, [&] { return leaked + m.x; });
  CHECK(m.g.poisoned(y));
  REQUIRE(m.g.diagnostics().size() == 1);
  CHECK(m.g.diagnostics()[0].code == "E0307");
}

TEST_CASE("in collect mode the mistakes of all closures come at once") {
  Model m;
  m.g.collect_errors(true);
  Tensor leaked;
  const Tensor y = m.g.if_(
      m.yes,
      [&] {
        leaked = m.x + 1.0;
        return matmul(m.x, m.x);
      },
      [&] { return reshape(m.x, {3}); });
  const Tensor z = m.g.loop(2, y, [&](Tensor, Tensor v) { return v; });
  m.g.print(leaked);  // ended with a mistake, so this is none of its own
  const Tensor t = m.g.while_(
      m.x, [&](Tensor v) { return transpose(v, {0, 0}); },
      [&](Tensor v) { return sum(v, {.axes = {4}}); });
  CHECK(m.g.poisoned(y));
  CHECK(m.g.poisoned(z));
  CHECK(m.g.poisoned(t));
  std::vector<std::string> codes;
  for (const Diagnostic& d : m.g.diagnostics()) codes.push_back(d.code);
  CHECK(codes == std::vector<std::string>{"E0301", "E0301", "E0302", "E0302"});
}
