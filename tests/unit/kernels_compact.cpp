// The compact family: texts on the CPU against the interpreter, and through NVRTC.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "ir/interpret.hpp"
#include "kernels_on_cpu.hpp"
#include "passes/kernels/cuda_text.hpp"

namespace braid::test {

std::vector<KernelCase> compact_cases() {
  std::vector<KernelCase> cases;
  const auto add = [&](std::string name, Body& b, uint32_t parts = 1,
                       std::optional<kernels::Guard> guard = {}) {
    cases.push_back({std::move(name), "compact", std::move(b.graph), false, parts, guard, {}});
  };
  constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32,
                            DType::i64, DType::i8,  DType::u8,   DType::b1};
  for (DType t : kAll) {
    Body b;
    add(fmt::format("compact_{}", name_of(t)), b.compact(b.in({77}, DType::b1), b.in({77, 3}, t)));
  }
  // Every number of rows a thread, one block and several, masks whose ends are no whole words.
  for (int64_t n : {1, 31, 256, 257, 500, 1024, 2049, 4096, 4097, 9000, 40003}) {
    Body b;
    add(fmt::format("compact_{}_rows", n), b.compact(b.in({n}, DType::b1), b.in({n}, DType::i32)));
  }
  for (int64_t n : {3, 40, 300, 1000}) {  // wide rows: fewer rows a block
    Body b;
    add(fmt::format("compact_{}_wide", n),
        b.compact(b.in({n}, DType::b1), b.in({n, 5, 411}, DType::f32)));
  }
  {
    Body b;
    add("compact_nothing", b.compact(b.in({0}, DType::b1), b.in({0, 4})));
  }
  {
    Body b;
    add("compact_empty_rows", b.compact(b.in({9}, DType::b1), b.in({9, 0})));
  }
  {
    Body b;
    add("compact_empty_rows_of_many", b.compact(b.in({9000}, DType::b1), b.in({9000, 2, 0})));
  }
  {
    Body b;
    add("compact_iota", b.compact(b.in({700}, DType::b1), b.iota(0, {700}, DType::i32)));
  }
  {
    Body b;
    const auto mask = b.reshape(b.in({30, 20}, DType::b1), {600});
    const auto rows = b.transpose(b.slice(b.in({4, 1400}), {1, 3}, {1, 2}, {3, 600}), {1, 0});
    add("compact_views", b.compact(mask, rows));
  }
  {
    Body b;
    const auto x = b.in({50}, DType::b1);
    add("compact_itself", b.compact(x, x));
  }
  {
    Body b;
    add("compact_splat", b.compact(b.in({50}, DType::b1), b.splat(-2.5, {50, 2}, DType::f16)));
  }
  {
    Body b;
    add("compact_parts", b.compact(b.in({9000}, DType::b1), b.in({9000, 2})), 3);
  }
  {
    Body b;
    add("compact_guarded", b.compact(b.in({70}, DType::b1), b.in({70, 2})), 1,
        kernels::Guard{DType::b1, 1});
  }
  return cases;
}

namespace {

/// The cases that check_numbers can run: it knows no guards.
std::vector<KernelCase> unguarded() {
  std::vector<KernelCase> cases = compact_cases();
  std::erase_if(cases, [](const KernelCase& c) { return c.guard.has_value(); });
  return cases;
}

}  // namespace

TEST_CASE("compact kernels compile for sm_80 and sm_90 without local memory") {
  check_compiles(compact_cases());
}

TEST_CASE("compact kernels compute what the interpreter computes") { check_numbers(unguarded()); }

TEST_CASE("compact kernels take masks of any density, and bytes other than 1 for true") {
  std::vector<KernelCase> cases;
  for (int64_t n : {17, 1000, 5000, 20011}) {
    for (uint32_t sms : {132u, 3u}) {  // few SMs: several tiles a block
      Body b;
      const auto mask = b.in({n}, DType::b1);
      b.compact(mask, b.in({n, 2}, DType::i32));
      KernelCase c{fmt::format("density_{}_{}", n, sms), "compact", std::move(b.graph)};
      c.writes = [sms](const ir::Graph& body, std::string_view symbol, const kernels::Use& use) {
        Target t;
        t.sms = static_cast<int>(sms);
        return kernels::family("compact").emit(body, symbol, t, use);
      };
      cases.push_back(std::move(c));
    }
  }
  const OnCpu cpu(cases);
  std::mt19937 random(3);
  for (const KernelCase& c : cases) {
    for (int density : {0, 1, 50, 99, 100}) {
      CAPTURE(c.name);
      CAPTURE(density);
      std::vector<HostTensor> args;
      for (const ir::Op& op : c.body.ops()) {
        if (op.kind == ir::OpKind::input) {
          args.push_back(random_tensor(c.body.type(op.result), random(), "x", 1.0, -9, 9));
        }
      }
      for (std::byte& b : args[0].bytes) {
        const bool chosen = static_cast<int>(random() % 100) < density;
        b = static_cast<std::byte>(!chosen ? 0 : random() % 2 ? 1 : 128 + random() % 128);
      }
      for (const ir::Output& o : c.body.outputs) {
        args.push_back(random_tensor(c.body.type(o.value), random(), "y"));
      }
      HostTensor mask = args[0];
      for (std::byte& b : mask.bytes) b = static_cast<std::byte>(b != std::byte{0});
      ir::TensorMap inputs{{"a0", widen(mask)}, {"a1", widen(args[1])}}, params;
      const ir::TensorMap want = ir::interpret(c.body, inputs, params);
      cpu.run(c, args);
      CHECK(relative_error(args[2], want.at("r0")) == 0);
      CHECK(relative_error(args[3], want.at("r1")) == 0);
    }
  }
}

TEST_CASE("a guarded compaction leaves at once") {
  std::vector<KernelCase> cases = compact_cases();
  std::erase_if(cases, [](const KernelCase& c) { return !c.guard; });
  REQUIRE(cases.size() == 1);
  const OnCpu cpu(cases);
  for (bool runs : {true, false}) {
    std::vector<HostTensor> args;
    for (const kernels::Argument& a : kernels::Signature(cases[0].body).args) {
      args.push_back(random_tensor(a.type, args.size() + 5, a.name, 1.0, 3, 12));
    }
    args.emplace_back(TensorType{DType::b1, {}});
    args.back().set_int(0, runs);
    const std::vector<HostTensor> before = args;
    cpu.run(cases[0], args);
    CHECK((args[3].bytes != before[3].bytes) == runs);
    CHECK((args[2].bytes != before[2].bytes) == runs);
  }
}

TEST_CASE("what the compact family refuses") {
  Body none;
  none.out(none.in({4}));
  CHECK(kernels::family("compact").refuses(none.graph) == "it has no compact");
  Body computed;
  const auto mask = computed.map(Fn::not_, {computed.in({4}, DType::b1)});
  computed.compact(mask, computed.in({4}));
  CHECK(kernels::family("compact").refuses(computed.graph) == "its mask is not in memory");
  Body large;
  large.compact(large.in({Dim(int64_t{1} << 31)}, DType::b1),
                large.in({Dim(int64_t{1} << 31)}, DType::i8));
  CHECK_THROWS_AS(kernels::family("compact").emit(large.graph, "k", Target{}, {}),
                  kernels::TooLarge);
}

}  // namespace braid::test
