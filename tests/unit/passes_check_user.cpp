// Kernels of the user's in plans: what the passes make of them, and what the checker refuses.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "ir/text.hpp"
#include "passes/check.hpp"
#include "passes/pipeline.hpp"

using namespace braid;

namespace {

constexpr const char* kModel = R"(bir 3
graph "g" {
  dim N = 12
  %0: f32[N] = input "x"
  %1: state f32[N] = param "s"
  %2: f32[N] = exp %0 "h"
  %3: f32[N], %4: state f32[N] = kernel %2, %1 "y" {kernel="add", function="add<2>", file="add.cu", parameters=[operand 0 "x", operand 1, extent i32 N, result 0, scalar f32 0.5], blocks=[ceil(N, 4), 1, 1], threads=[4, 1, 1], code="template <int n> __global__ void add(const float* x, float* s, int m, float* y, float f) {}"}
  %5: f32[N] = neg %3 "z"
  %6: f32[N] = kernel %5 "w" {kernel="other", function="other", file="other.cu", parameters=[operand 0, result 0], blocks=[1, 1, 1], threads=[4, 1, 1], code="one"}
  %7: f32[N] = kernel %6 "v" {kernel="other", function="other", file="other.cu", parameters=[operand 0, result 0], blocks=[1, 1, 1], threads=[4, 1, 1], code="one"}
  %8: f32[N] = kernel %7 "u" {kernel="other", function="another", file="other.cu", parameters=[operand 0, result 0], blocks=[1, 1, 1], threads=[4, 1, 1], code="one"}
  %9: f32[N] = kernel %8 "t" {kernel="other", function="other", file="other.cu", parameters=[operand 0, result 0], blocks=[1, 1, 1], threads=[4, 1, 1], code="two"}
  output "y" %9
}
)";

Program plan() { return run_passes(ir::parse(kModel), {}).program; }

uint32_t user(const Program& p, std::string_view function) {
  for (uint32_t i = 0; i < p.kernels.size(); ++i) {
    if (p.kernels[i].function == function) return i;
  }
  FAIL("no such kernel");
  return 0;
}

}  // namespace

TEST_CASE("kernels of the user's: records, modules and edges") {
  const Program p = plan();
  CHECK(check(p).empty());
  const Kernel& add = p.kernels[user(p, "add<2>")];
  CHECK(add.code == Code::user);
  CHECK(add.family == "user");
  CHECK(add.symbol.starts_with("user_add_"));
  REQUIRE(add.args.size() == 3);
  CHECK(add.args[0].role == Role::in);
  CHECK(add.args[1].role == Role::inout);
  CHECK(add.args[2].role == Role::out);
  const std::vector<uint32_t> slots{0, 1, UINT32_MAX, 2, UINT32_MAX};
  for (size_t i = 0; i < slots.size(); ++i) CHECK(add.parameters[i].slot == slots[i]);
  CHECK(add.parameters[2].number == 12);
  CHECK(add.launch.grid[0] == 3);
  CHECK(add.in_place.empty());
  CHECK(!add.waits);
  // Equal kernels are one; one text is one module, whatever its functions.
  size_t users = 0;
  for (const Kernel& k : p.kernels) users += k.code == Code::user;
  CHECK(users == 4);
  CHECK(p.kernels[user(p, "other")].module == p.kernels[user(p, "another")].module);
  size_t theirs = 0;
  for (const Module& m : p.modules) theirs += !m.file.empty();
  CHECK(theirs == 3);
  const Module& m = p.modules[add.module];
  CHECK(m.file == "add.cu");
  CHECK(m.source.starts_with("#line 1 \"add.cu\"\ntemplate <int n>"));
  CHECK(m.source.find("decltype(&add<2>)") != std::string::npos);
  CHECK(ir::print(add.body).find("template") == std::string::npos);
  for (const Edge& e : p.bodies[0].edges) CHECK(e.kind == EdgeKind::full);
  CHECK(p.params[0].written);
  // The file form keeps all of it.
  const Program read = read_program(write_program(p));
  CHECK(write_program(read) == write_program(p));
  CHECK(check(read).empty());
}

TEST_CASE("kernels of the user's: the checker refuses what is not as the op says") {
  const Program good = plan();
  const uint32_t at = user(good, "add<2>");
  const auto refused = [&](const char* what, const std::function<void(Program&, Kernel&)>& change) {
    CAPTURE(what);
    Program p = good;
    change(p, p.kernels[at]);
    CHECK(!check(p).empty());
  };
  refused("no code", [](Program&, Kernel& k) { k.code = Code::generated; });
  refused("another family", [](Program&, Kernel& k) { k.family = "row"; });
  refused("no function", [](Program&, Kernel& k) { k.function.clear(); });
  refused("another function", [](Program&, Kernel& k) { k.function = "add<3>"; });
  refused("a parameter less", [](Program&, Kernel& k) { k.parameters.pop_back(); });
  refused("a parameter more", [](Program&, Kernel& k) { k.parameters.push_back({0}); });
  refused("two slots swapped",
          [](Program&, Kernel& k) { std::swap(k.parameters[0], k.parameters[3]); });
  refused("a slot twice", [](Program&, Kernel& k) { k.parameters[0].slot = 1; });
  refused("a slot that is not there", [](Program&, Kernel& k) { k.parameters[0].slot = 9; });
  refused("another number", [](Program&, Kernel& k) { k.parameters[2].number = 13; });
  refused("another dtype", [](Program&, Kernel& k) { k.parameters[4].dtype = DType::f64; });
  refused("a number for a slot", [](Program&, Kernel& k) { k.parameters[0].slot = UINT32_MAX; });
  refused("another grid", [](Program&, Kernel& k) { k.launch.grid[0] = 4; });
  refused("another block", [](Program&, Kernel& k) { k.launch.block[1] = 2; });
  refused("shared memory", [](Program&, Kernel& k) { k.launch.shared_bytes = 16; });
  refused("it waits", [](Program&, Kernel& k) { k.waits = true; });
  refused("in place", [](Program&, Kernel& k) { k.in_place.push_back({2, 0}); });
  refused("two parts", [](Program&, Kernel& k) { k.parts = 2; });
  refused("the state is only written", [](Program&, Kernel& k) { k.args[1].role = Role::out; });
  refused("in a module of ours", [&](Program& p, Kernel& k) {
    for (const Kernel& other : good.kernels) {
      if (other.code == Code::generated) k.module = other.module;
    }
    CHECK(p.modules[k.module].file.empty());
  });
  refused("ours in a module of the user's", [&](Program& p, Kernel& k) {
    for (Kernel& other : p.kernels) {
      if (other.code == Code::generated) other.module = k.module;
    }
  });
}
