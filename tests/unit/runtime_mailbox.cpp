// Host functions that graphs call while they run: values, order, failures, deadlines.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "runtime_mailbox_help.hpp"
#include "runtime_regions_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;
using ir::HostWay;
using namespace std::chrono_literals;

TEST_CASE("tensors of any type and size go through the mailbox and back") {
  std::mt19937 random(7);
  constexpr DType kTypes[] = {DType::b1,  DType::i8,   DType::i32, DType::i64,
                              DType::f16, DType::bf16, DType::f32, DType::f64};
  constexpr int64_t kSizes[] = {0, 1, 3, 17, 255, 1000, 4097};
  const auto any_type = [&] {
    const DType d = kTypes[random() % std::size(kTypes)];
    const int64_t n = kSizes[random() % std::size(kSizes)];
    return random() % 4 == 0 ? TensorType{d, Shape{}} : TensorType{d, Shape::of({{n}})};
  };
  for (int round = 0; round < 40; ++round) {
    const HostWay way = round % 2 == 0 ? HostWay::handshake : HostWay::node;
    Caller c("any");
    std::vector<uint32_t> arguments, results;
    // Results are the arguments in reverse order, their bytes in reverse order too.
    const size_t count = 1 + random() % 4;
    for (size_t i = 0; i < count; ++i) {
      arguments.push_back(add_buffer(c.p, "x" + std::to_string(i), Segment::input, any_type()));
    }
    for (size_t i = 0; i < count; ++i) {
      const TensorType type = c.p.buffers[arguments[count - 1 - i]].type;
      results.push_back(add_buffer(c.p, "y" + std::to_string(i), Segment::output, type));
    }
    c.call("turn", arguments, results, {}, way);
    std::map<std::string, HostTensor> in;
    for (size_t i = 0; i < count; ++i) {
      const std::string name = "x" + std::to_string(i);
      in[name] = random_tensor(c.p.buffers[arguments[i]].type, random(), name);
    }
    Bench bench;
    Executable e(c.p, bench.store,
                 {{"turn", [&](Arguments a, Results r) {
                     REQUIRE(a.size() == count);
                     for (size_t i = 0; i < count; ++i) {
                       const auto& from = a[count - 1 - i];
                       CHECK(from.bytes == in.at("x" + std::to_string(count - 1 - i)).bytes);
                       if (from.type.dtype == DType::b1) {
                         for (int64_t k = 0; k < from.numel(); ++k) {
                           r[i].set_int(k, 1 - from.int_at(k));
                         }
                       } else {
                         for (int64_t k = 0; k < from.numel(); ++k) {
                           r[i].set(k, -from.at(k));
                         }
                       }
                     }
                   }}});
    const auto out = e.run(in);
    for (size_t i = 0; i < count; ++i) {
      const HostTensor& x = in.at("x" + std::to_string(count - 1 - i));
      const HostTensor& y = out.at("y" + std::to_string(i));
      REQUIRE(y.type == x.type);
      for (int64_t k = 0; k < x.numel(); ++k) {
        CHECK(y.at(k) == (x.type.dtype == DType::b1 ? 1 - x.at(k) : -x.at(k)));
      }
    }
  }
}

TEST_CASE("launches call in order, without a wait in between") {
  for (const HostWay way : {HostWay::handshake, HostWay::node}) {
    Bench bench;
    int calls = 0;
    Executable e(one_call(kFive, way), bench.store, {{"f", [&](Arguments a, Results r) {
                                                        ++calls;
                                                        for (int64_t i = 0; i < 5; ++i) {
                                                          r[0].set_int(i, a[0].int_at(i) + calls);
                                                        }
                                                      }}});
    const auto in = ints(3);
    e.write("x", in.at("x"));
    for (int launch = 1; launch <= 300; ++launch) {
      e.launch();
      if (launch % 100 != 0) continue;
      const HostTensor y = e.read("y");
      for (int64_t i = 0; i < 5; ++i) CHECK(y.int_at(i) == in.at("x").int_at(i) + launch);
    }
    CHECK(calls == 300);
    CHECK(bench.simulator->take_reports().empty());
  }
}

TEST_CASE("a loop on the device asks in every iteration") {
  // i = 0; while (i < n) { s = f(i, s); i += 1 }
  Caller c("loop");
  const uint32_t n = add_buffer(c.p, "n", Segment::input, kI32);
  const uint32_t y = add_buffer(c.p, "y", Segment::output, kI32);
  const uint32_t i = c.temp("i", kI32);
  const uint32_t next = c.temp("next", kI32);
  const uint32_t more = add_buffer(c.p, "more", Segment::handle, kB1);
  c.p.buffers[more].bytes = 0;
  Region region;
  region.loop = true;
  region.flag = more;
  region.bodies = {1};
  region.op = "loop";
  c.p.regions.push_back(region);
  Body body;
  body.region = 0;
  c.p.bodies.push_back(body);

  MadeKernel begin("begin");  // i = 0 n, y = 0 n, more = n > 0
  {
    const auto a = begin.input("a0", kI32);
    const auto zero = begin.g().splat(kI32, 0);
    begin.assign(begin.handle(kB1), begin.map(Fn::gt, {a, zero}));
    begin.output(begin.map(Fn::mul, {a, zero}));
  }
  MadeKernel step("step");  // i += 1, more = i < n
  {
    const auto a = step.input("a0", kI32);
    const auto v = step.param("s0", kI32, ir::LocalAttr{}, Role::inout);
    const auto h = step.handle(kB1);
    const auto old = step.g().add({ir::OpKind::read, {}, {v}});
    const auto sum = step.map(Fn::add, {old, step.g().splat(kI32, 1)});
    step.assign(v, sum);
    step.assign(h, step.map(Fn::lt, {sum, a}));
  }
  MadeKernel zero("zero");  // r0 = 0 a0
  zero.output(zero.map(Fn::mul, {zero.input("a0", kI32), zero.g().splat(kI32, 0)}));
  MadeKernel copy("copy");  // r0 = a0 + 0
  copy.output(copy.map(Fn::add, {copy.input("a0", kI32), copy.g().splat(kI32, 0)}));
  c.p.kernels = {begin.k, step.k, zero.k, copy.k};
  c.node(2, {n, y}, {});
  c.node(0, {n, more, i}, {0});
  Node loop;
  loop.kernel = kNoKernel;
  loop.region = 0;
  loop.ops = {"loop"};
  c.p.bodies[0].nodes.push_back(loop);
  c.p.bodies[0].edges.push_back({1, 2, EdgeKind::full, EdgeReason::raw, more});
  const uint32_t asked = c.call("f", {i, y}, {next}, {}, HostWay::handshake, 1);
  const uint32_t copied = c.node(3, {next, y}, {asked}, 1);
  c.node(1, {n, i, more}, {copied}, 1);

  Bench bench;
  std::vector<int64_t> seen;
  Executable e(c.p, bench.store, {{"f", [&](Arguments a, Results r) {
                                     seen.push_back(a[0].int_at(0));
                                     r[0].set_int(0, 3 * a[1].int_at(0) + a[0].int_at(0) + 1);
                                   }}});
  HostTensor count(kI32);
  for (const int times : {1, 7, 12}) {
    seen.clear();
    count.set_int(0, times);
    int64_t expected = 0;
    for (int k = 0; k < times; ++k) expected = 3 * expected + k + 1;
    CHECK(e.run({{"n", count}}).at("y").int_at(0) == expected);
    REQUIRE(seen.size() == static_cast<size_t>(times));
    for (int k = 0; k < times; ++k) CHECK(seen[static_cast<size_t>(k)] == k);
  }
}

TEST_CASE("calls in parallel lanes are made one at a time") {
  Caller c("lanes");
  std::vector<uint32_t> x, y;
  for (int i = 0; i < 6; ++i) {
    x.push_back(add_buffer(c.p, "x" + std::to_string(i), Segment::input, kFive));
    y.push_back(add_buffer(c.p, "y" + std::to_string(i), Segment::output, kFive));
  }
  for (size_t i = 0; i < 6; ++i) {
    c.call("f" + std::to_string(i % 3), {x[i]}, {y[i]}, {},
           i % 2 == 0 ? HostWay::handshake : HostWay::node);
    // In each lane alone, what it reads and writes is its own; the header is shared.
    for (Kernel& k : c.p.kernels) k.args.back().role = Role::in;
  }
  Bench bench;
  std::atomic<int> inside = 0;
  HostFunctions functions;
  for (int f = 0; f < 3; ++f) {
    functions["f" + std::to_string(f)] = [&inside, f](Arguments a, Results r) {
      CHECK(++inside == 1);
      for (int64_t i = 0; i < 5; ++i) r[0].set_int(i, a[0].int_at(i) * (f + 2));
      --inside;
    };
  }
  Executable e(c.p, bench.store, functions);
  for (uint64_t round = 0; round < 20; ++round) {
    std::map<std::string, HostTensor> in;
    for (int i = 0; i < 6; ++i) {
      in["x" + std::to_string(i)] = random_tensor(kFive, round, std::to_string(i), 1, -99, 99);
    }
    const auto out = e.run(in);
    for (int i = 0; i < 6; ++i) {
      for (int64_t k = 0; k < 5; ++k) {
        CHECK(out.at("y" + std::to_string(i)).int_at(k) ==
              in.at("x" + std::to_string(i)).int_at(k) * (i % 3 + 2));
      }
    }
  }
}

TEST_CASE("what a function throws fails its launch, and no other") {
  for (const HostWay way : {HostWay::handshake, HostWay::node}) {
    Caller c("thrower");
    const uint32_t x = add_buffer(c.p, "x", Segment::input, kFive);
    const uint32_t t = c.temp("t", kFive);
    const uint32_t y = add_buffer(c.p, "y", Segment::output, kFive);
    const uint32_t first = c.call("f", {x}, {t}, {}, way);
    c.call("g", {t}, {y}, {first}, way);
    Bench bench;
    int f = 0, g = 0, how = 0;
    Executable e(c.p, bench.store,
                 {{"f",
                   [&](Arguments a, Results r) {
                     ++f;
                     if (how == 1) throw std::runtime_error("no more stock");
                     if (how == 2) throw 7;
                     if (how == 3) r[0].bytes.pop_back();
                     if (how == 4) r[0].type.dtype = DType::f32;
                     if (how == 0) add_one(a, r);
                   }},
                  {"g", [&](Arguments a, Results r) {
                     ++g;
                     add_one(a, r);
                   }}});
    const std::vector<std::string> said{"", "no more stock", "no std::exception", "19 bytes",
                                        "is now f32[5]"};
    int good = 0;
    for (int round = 0; round < 25; ++round) {
      how = round % 5;
      e.write("x", ints(static_cast<uint64_t>(round)).at("x"));
      Ticket ticket = e.launch();
      const Diagnostic d = error_of([&] { ticket.wait(); });
      const Diagnostic again = error_of([&] { ticket.wait(); });
      CHECK(d.message == again.message);
      if (how == 0) {
        ++good;
        CHECK(d.code.empty());
        const HostTensor in = ints(static_cast<uint64_t>(round)).at("x");
        for (int64_t i = 0; i < 5; ++i) CHECK(e.read("y").int_at(i) == in.int_at(i) + 2);
      } else {
        CHECK(d.code == "E0870");
        CHECK(contains(d.message, "host function 'f' (f (host), model.toml:10:3): "));
        CHECK(contains(d.message, said[static_cast<size_t>(how)]));
      }
    }
    CHECK(f == 25);
    CHECK(g == good);  // it is not called once another one has failed
    how = 1;
    CHECK(error_of([&] { e.run(ints(1)); }).code == "E0870");
    how = 0;
    CHECK(error_of([&] { e.run(ints(1)); }).code.empty());
  }
}

TEST_CASE("a function that is not there, and programs that are not well formed") {
  Bench bench;
  CHECK(error_of([&] { Executable(one_call(kFive), bench.store, {{"g", add_one}}); }).code ==
        "E0806");
  const auto refused = [&](const std::function<void(Program&)>& spoil, const std::string& text) {
    Program p = one_call(kFive, HostWay::node);
    spoil(p);
    const Diagnostic d = error_of([&] { Executable(p, bench.store, {{"f", add_one}}); });
    CHECK(d.code == "E0830");
    CAPTURE(d.message);
    CHECK(contains(d.message, text));
  };
  refused([](Program& p) { p.exchanges.clear(); }, "no mailbox of 0 exchanges");
  refused([](Program& p) { p.exchanges[0].arguments.clear(); }, "other tensors");
  refused([](Program& p) { p.exchanges[0].way = HostWay::handshake; }, "kernels of its way");
  refused([](Program& p) { p.exchanges[0].way = HostWay::script; }, "called by a break");
  refused([](Program& p) { p.views.back().offset = 0; }, "no slot and header");
  refused([](Program& p) { p.kernels[1].exchanges = false; }, "unlike its family");
  refused([](Program& p) { p.kernels[0].family = "row"; }, "unlike its family");
  refused([](Program& p) { std::swap(p.bodies[0].nodes[0].args[1], p.bodies[0].nodes[0].args[2]); },
          "no slot and header");
  // The host waits at no kernel's trigger: an edge at its node orders nothing unless it is full.
  refused([](Program& p) { p.bodies[0].edges.at(0).kind = EdgeKind::programmatic; },
          "both must be kernels");
}

TEST_CASE("a host node stands in graphs alone") {
  Bench bench;
  Executable e(one_call(kFive, HostWay::node), bench.store, {{"f", add_one}});
  const Diagnostic d = error_of([&] { e.launch(nullptr, LaunchMode::stream); });
  CHECK(d.code == "E0828");
  CHECK(contains(d.message, "host function 'f'"));
  CHECK(e.run(ints(1)).at("y").int_at(0) == ints(1).at("x").int_at(0) + 1);
  Executable h(one_call(kFive), bench.store, {{"f", add_one}});
  const auto out = h.run(ints(2), LaunchMode::stream);
  CHECK(out.at("y").int_at(3) == ints(2).at("x").int_at(3) + 1);
}

TEST_CASE("a function that does not answer in time") {
  for (const HostWay way : {HostWay::handshake, HostWay::node}) {
    Bench bench;
    std::unique_ptr<Stuck> stuck;
    Executable e(one_call(kFive, way), bench.store,
                 {{"f",
                   [&](Arguments a, Results r) {
                     if (stuck) stuck->wait();
                     add_one(a, r);
                   }}},
                 {}, HostOptions{50ms});
    const auto good = [&] {
      const auto in = ints(5);
      const auto y = e.run(in).at("y");
      for (int64_t i = 0; i < 5; ++i) CHECK(y.int_at(i) == in.at("x").int_at(i) + 1);
    };
    for (int round = 0; round < 3; ++round) {
      good();
      stuck = std::make_unique<Stuck>();
      Ticket ticket = e.launch();
      const Diagnostic late = error_of([&] { ticket.wait(); });
      CHECK(late.code == "E0871");
      CHECK(contains(late.message, "host function 'f' (f (host), model.toml:10:3)"));
      CHECK(contains(late.message, "within 50 ms"));
      CHECK(contains(late.suggestion, "may not call CUDA"));
      for (int i = 0; i < 3; ++i) {
        const Diagnostic d = error_of([&] { e.launch(); });
        CHECK(d.code == "E0872");
        CHECK(contains(d.message, "host function 'f' (f (host), model.toml:10:3)"));
      }
      CHECK(stuck->inside);
      CHECK(error_of([&] { ticket.wait(); }).code == "E0871");
      stuck->let_go();
      REQUIRE(soon([&] { return !stuck->inside; }));
      stuck.reset();
      REQUIRE(soon([&] { return error_of([&] { e.launch().wait(); }).code.empty(); }));
      good();
    }
    CHECK(bench.simulator->take_reports().empty());
  }
}
