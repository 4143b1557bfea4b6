// Messages from kernels to the host: order, delivery, loss and failure.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "ir/diagnostic.hpp"
#include "runtime_messages_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

const Diagnostic kNothing{};

/// What a call throws as an Error; its code is empty if it throws nothing.
Diagnostic error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics()[0];
  }
  return kNothing;
}

std::map<std::string, HostTensor> talk(float x, uint64_t seed, int bad = 0) {
  return {
      {"x", scalar(x)}, {"y", random_tensor(floats(), seed, "y")}, {"bad", scalar(bad, kOneI32)}};
}

void set(Executable& e, const std::map<std::string, HostTensor>& inputs) {
  for (const auto& [name, value] : inputs) e.write(name, value);
}

std::map<std::string, HostTensor> count(int n, int bad = -1) {
  return {{"n", scalar(n, kOneI32)}, {"bad", scalar(bad, kOneI32)}};
}

}  // namespace

TEST_CASE("messages are kept in order, with values, places and launch numbers") {
  Bench bench;
  Executable e(talkative(), bench.store);
  std::vector<std::map<std::string, HostTensor>> inputs;
  for (uint64_t launch = 0; launch < 5; ++launch) {
    inputs.push_back(talk(static_cast<float>(launch) + 0.25F, launch + 1));
    set(e, inputs.back());
    Ticket ticket = e.launch();
    ticket.wait();
    CHECK(ticket.item("loss").at(0) == static_cast<double>(launch) + 0.25);
    REQUIRE(ticket.items().size() == 1);
    CHECK(ticket.items().at("loss").launch == launch);
  }
  const std::vector<Message> messages = e.take_messages();
  REQUIRE(messages.size() == 10);
  for (size_t m = 0; m < messages.size(); ++m) {
    const bool first = m % 2 == 0;
    CHECK(messages[m].text == (first ? "x" : "y"));
    CHECK(messages[m].launch == m / 2);
    CHECK(messages[m].value.bytes == inputs[m / 2].at(first ? "x" : "y").bytes);
    CHECK(messages[m].place == (first ? "model.toml:10:3" : "model.toml:12:3"));
    CHECK(messages[m].dropped_before == 0);
    CHECK(messages[m].iterations.empty());
  }
  CHECK(e.take_messages().empty());
  CHECK(e.dropped_messages() == 0);
}

TEST_CASE("a message function gets everything before wait returns, one at a time") {
  Bench bench;
  std::vector<Message> got;
  std::atomic<int> inside = 0;
  MessageOptions options;
  options.on_message = [&](const Message& m) {
    CHECK(++inside == 1);
    got.push_back(m);
    --inside;
  };
  Executable e(talkative(), bench.store, {}, options);
  set(e, talk(3, 1, 2));
  for (int i = 0; i < 50; ++i) {
    Ticket ticket = e.launch();
    CHECK(error_of([&] { ticket.wait(); }).code == "E0860");
    REQUIRE(got.size() == static_cast<size_t>(4 * (i + 1)));
  }
  CHECK(got[1].kind == ir::MessageKind::item);
  CHECK(got[3].kind == ir::MessageKind::check);
  CHECK(got[199].launch == 49);
  CHECK(e.take_messages().empty());
}

TEST_CASE("messages arrive while nobody waits") {
  Bench bench;
  std::mutex mutex;
  std::vector<Message> got;
  MessageOptions options;
  options.on_message = [&](const Message& m) {
    const std::lock_guard lock(mutex);
    got.push_back(m);
  };
  Executable e(talkative(), bench.store, {}, options);
  set(e, talk(1, 1));
  e.launch();
  for (int i = 0; i < 5000; ++i) {
    {
      const std::lock_guard lock(mutex);
      if (got.size() == 3) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard lock(mutex);
  CHECK(got.size() == 3);
}

TEST_CASE("checks fail the launch that they are in, and no other") {
  Bench bench;
  Executable e(talkative(), bench.store);
  set(e, talk(1, 1, 3));
  Ticket failing = e.launch();
  set(e, talk(2, 1, 0));
  Ticket good = e.launch();
  CHECK_NOTHROW(good.wait());
  const Diagnostic d = error_of([&] { failing.wait(); });
  CHECK(d.code == "E0860");
  CHECK(d.message ==
        "the check 'finite' failed for 3 elements: finite (send), model.toml:13:3, launch 0");
  CHECK(error_of([&] { failing.wait(); }).code == "E0860");
  CHECK(failing.item("loss").at(0) == 1);
  CHECK(good.item("loss").at(0) == 2);
  CHECK(error_of([&] { e.run(talk(1, 1, 1)); }).code == "E0860");
  CHECK_NOTHROW(e.run(talk(1, 1, 0)));
}

TEST_CASE("a loop prints 100000 times in order, and says in which iteration a check fails") {
  Bench bench;
  constexpr int kTimes = 100000, kBad = 77777;
  int64_t next = 0;
  uint64_t wrong = 0, checks = 0;
  MessageOptions options;
  options.on_message = [&](const Message& m) {
    if (m.kind == ir::MessageKind::check) ++checks;
    if (m.kind != ir::MessageKind::print) return;
    const bool right = m.value.int_at(0) == next && m.iterations == std::vector<int64_t>{next};
    wrong += !right || m.dropped_before != 0 ? 1 : 0;
    ++next;
  };
  options.ring_bytes = 64 << 20;  // holds all of them: the simulator does not wait
  Executable e(counting(), bench.store, {}, options);
  set(e, count(kTimes, kBad));
  Ticket ticket = e.launch();
  const Diagnostic d = error_of([&] { ticket.wait(); });
  CHECK(next == kTimes);
  CHECK(wrong == 0);
  CHECK(checks == 1);
  CHECK(d.message ==
        "the check 'good' failed for 1 element: good (send), model.toml:12:3, launch 0, iteration "
        "77777");
  CHECK(ticket.item("n").int_at(0) == kTimes);
  CHECK(e.dropped_messages() == 0);
}

TEST_CASE("a ring that is full loses prints, counts them, and keeps room for what counts more") {
  Bench bench;
  uint64_t told = 0, prints = 0, items = 0, checks = 0;
  std::atomic<bool> hold = true;
  MessageOptions options;
  options.ring_bytes = 2048;
  options.on_message = [&](const Message& m) {
    while (hold) std::this_thread::yield();
    told += m.dropped_before;
    prints += m.kind == ir::MessageKind::print ? 1 : 0;
    items += m.kind == ir::MessageKind::item ? 1 : 0;
    checks += m.kind == ir::MessageKind::check ? 1 : 0;
  };
  {
    Executable e(counting(), bench.store, {}, options);
    set(e, count(100, 99));
    Ticket first = e.launch();
    hold = false;
    const Diagnostic d = error_of([&] { first.wait(); });
    CHECK(contains(d.message, "iteration 99"));
    CHECK(items == 1);
    CHECK(checks == 1);
    CHECK(prints >= 2048 / 64 * 3 / 4);
    CHECK(prints < 100);
    CHECK(told == 100 - prints);
    CHECK(e.dropped_messages() == told);
    // What comes later is not concerned.
    e.run(count(3));
    CHECK(e.dropped_messages() == told);
  }
  CHECK(prints + told == 103);
}

TEST_CASE("a tensor beyond a quarter of the ring is dropped; by itself the ring is large enough") {
  for (const bool small : {true, false}) {
    Sender s("large");
    const TensorType type{DType::f64, Shape::of({{300000}})};
    const uint32_t x = add_buffer(s.p, "x", Segment::input, type);
    s.send(s.source(ir::MessageKind::print, "x", type), {x}, true);
    Bench bench;
    MessageOptions options;
    if (small) options.ring_bytes = 4 << 20;
    Executable e(s.p, bench.store, {}, options);
    const HostTensor value = random_tensor(type, 5, "x");
    e.run({{"x", value}});
    const std::vector<Message> got = e.take_messages();
    CHECK(got.size() == (small ? 0 : 1));
    CHECK(e.dropped_messages() == (small ? 1 : 0));
    if (!small) CHECK(got.at(0).value.bytes == value.bytes);
  }
}

TEST_CASE("what is kept is bounded, and what is lost is told") {
  Bench bench;
  MessageOptions options;
  options.kept_bytes = 20 * (sizeof(Message) + 4);
  Executable e(counting(), bench.store, {}, options);
  e.run(count(100));
  const std::vector<Message> got = e.take_messages();
  REQUIRE(got.size() == 20);
  CHECK(got.front().value.int_at(0) == 80);
  CHECK(got.front().dropped_before == 80);
  CHECK(got.back().value.int_at(0) == 99);
  CHECK(e.dropped_messages() == 80);
}

TEST_CASE("what a message function throws fails its launch") {
  Bench bench;
  MessageOptions options;
  options.on_message = [&](const Message& m) {
    if (m.launch == 1 && m.text == "y") throw std::runtime_error("the disk is full");
    if (m.launch == 2 && m.text == "x") throw 7;
  };
  Executable e(talkative(), bench.store, {}, options);
  set(e, talk(1, 1));
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(e.launch());
  CHECK_NOTHROW(tickets[3].wait());
  CHECK_NOTHROW(tickets[0].wait());
  const Diagnostic d = error_of([&] { tickets[1].wait(); });
  CHECK(d.code == "E0861");
  CHECK(contains(d.message, "'y' (y (send), model.toml:12:3, launch 1): the disk is full"));
  CHECK(contains(error_of([&] { tickets[2].wait(); }).message, "no std::exception"));
}

TEST_CASE("a message function may use others, but not its own executable") {
  Bench bench;
  Executable other(diamond(), bench.store);
  Executable* own = nullptr;
  Ticket earlier;
  bool armed = false;
  std::vector<std::string> codes;
  MessageOptions options;
  options.on_message = [&](const Message& m) {
    if (m.kind != ir::MessageKind::item) return;
    if (armed) {
      for (const std::function<void()>& call : {std::function<void()>([&] { own->launch(); }),
                                                {[&] { own->run(talk(1, 1)); }},
                                                {[&] { earlier.wait(); }},
                                                {[&] { earlier.items(); }},
                                                {[&] { own->read("x"); }},
                                                {[&] { own->write("x", scalar(1)); }},
                                                {[&] { own->take_messages(); }},
                                                {[&] { own->dropped_messages(); }},
                                                {[&] { own->address("x"); }}}) {
        codes.push_back(error_of(call).code);
      }
    }
    CHECK_NOTHROW(other.run(diamond_inputs(1)));
    CHECK_NOTHROW(bench.store.get("w"));
  };
  Executable e(talkative(), bench.store, {}, options);
  own = &e;
  set(e, talk(1, 1));
  earlier = e.launch();
  earlier.wait();
  armed = true;
  e.run(talk(1, 1));
  e.launch().wait();
  CHECK(codes == std::vector<std::string>(18, "E0863"));
}

TEST_CASE("items that are not there are refused with those that are") {
  Bench bench;
  Executable e(talkative(), bench.store);
  set(e, talk(1, 1));
  Ticket ticket = e.launch();
  Diagnostic d = error_of([&] { ticket.item("lost"); });
  CHECK(d.code == "E0862");
  CHECK(contains(d.suggestion, "'loss'"));
  CHECK(error_of([&] { Ticket().item("loss"); }).code == "E0862");
  // Larger than a quarter of the ring: the item is lost.
  Sender s("lost");
  const TensorType type{DType::f32, Shape::of({{200}})};
  const uint32_t x = add_buffer(s.p, "x", Segment::input, type);
  s.send(s.source(ir::MessageKind::item, "x", type), {x}, true);
  MessageOptions options;
  options.ring_bytes = 1;
  Executable small(s.p, bench.store, {}, options);
  small.write("x", random_tensor(type, 1, "x"));
  Ticket lost = small.launch();
  d = error_of([&] { lost.item("x"); });
  CHECK(d.code == "E0862");
  CHECK(contains(d.message, "launch 0 sent no item 'x'"));
  CHECK(lost.items().empty());
  CHECK(small.dropped_messages() == 1);
}

TEST_CASE("an executable that goes delivers what is complete; tickets outlive it") {
  Bench bench;
  size_t got = 0;
  MessageOptions options;
  options.on_message = [&](const Message&) { ++got; };
  Ticket ticket;
  {
    Executable e(talkative(), bench.store, {}, options);
    set(e, talk(4, 1, 1));
    for (int i = 0; i < 20; ++i) ticket = e.launch();
  }
  CHECK(got == 80);
  CHECK(error_of([&] { ticket.wait(); }).code == "E0860");
  CHECK(ticket.item("loss").at(0) == 4);
}

TEST_CASE("two threads launch two executables on one device") {
  Bench bench;
  constexpr int kLaunches = 60, kTimes = 7;
  const auto work = [&](int which, std::vector<Message>& got) {
    MessageOptions options;
    options.on_message = [&](const Message& m) { got.push_back(m); };
    Executable e(counting("counting" + std::to_string(which)), bench.store, {}, options);
    e.write("n", scalar(kTimes, kOneI32));
    e.write("bad", scalar(-1, kOneI32));
    for (int i = 0; i < kLaunches; ++i) {
      Ticket ticket = e.launch();
      if (i % 3 == which) ticket.wait();
    }
  };
  std::vector<Message> got[2];
  std::thread first([&] { work(0, got[0]); }), second([&] { work(1, got[1]); });
  first.join();
  second.join();
  for (const std::vector<Message>& messages : got) {
    REQUIRE(messages.size() == kLaunches * (kTimes + 1));
    for (size_t m = 0; m < messages.size(); ++m) {
      CHECK(messages[m].launch == m / (kTimes + 1));
      const size_t i = m % (kTimes + 1);
      CHECK(messages[m].value.int_at(0) == static_cast<int64_t>(i));
      CHECK(messages[m].iterations.size() == (i < kTimes ? 1 : 0));
    }
  }
}

TEST_CASE("one executable is launched and waited for by several threads") {
  Bench bench;
  std::atomic<uint64_t> got = 0;
  MessageOptions options;
  options.on_message = [&](const Message&) { ++got; };
  Executable e(talkative(), bench.store, {}, options);
  set(e, talk(1, 1));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        Ticket ticket = e.launch();
        if ((i + t) % 2 == 0) CHECK(ticket.item("loss").at(0) == 1);
        if (i % 5 == 0) e.dropped_messages();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  e.dropped_messages();
  CHECK(got == 3 * 40 * 3);
}

TEST_CASE("launches that a host function ends keep their numbers") {
  Sender s("calls");
  const uint32_t x = add_buffer(s.p, "x", Segment::input, kF32);
  s.p.bodies.emplace_back();
  s.send(s.source(ir::MessageKind::print, "x", kF32), {x}, false);
  s.send(s.source(ir::MessageKind::print, "last", kF32), {x}, true, 1);
  Call call;
  call.function = "maybe";
  call.args = {x};
  s.p.calls.push_back(call);
  using Kind = Step::Kind;
  s.p.script = {
      {Kind::launch, 0}, {Kind::read, 0}, {Kind::wait, 0}, {Kind::call, 0}, {Kind::launch, 1}};
  Bench bench;
  const HostFunctions functions{{"maybe", [](auto args, auto) {
                                   if (args[0].at(0) < 0) throw std::runtime_error("negative");
                                 }}};
  Executable e(s.p, bench.store, functions);
  std::vector<std::pair<std::string, uint64_t>> want;
  for (uint64_t launch = 0; launch < 9; ++launch) {
    const bool fails = launch % 3 != 1;
    set(e, {{"x", scalar(fails ? -1.0 : 1.0)}});
    if (fails) {
      CHECK(error_of([&] { e.launch(); }).code == "E0850");
    } else {
      e.launch().wait();
      want.emplace_back("last", launch);
    }
    want.insert(want.end() - (fails ? 0 : 1), {"x", launch});
  }
  std::vector<std::pair<std::string, uint64_t>> got;
  for (const Message& m : e.take_messages()) got.emplace_back(m.text, m.launch);
  CHECK(got == want);
}

TEST_CASE("Programs whose messages are not what they say are refused") {
  Bench bench;
  const auto refused = [&](const std::function<void(Program&)>& change) {
    Program p = talkative();
    change(p);
    return error_of([&] { Executable e(p, bench.store); }).code;
  };
  CHECK(refused([](Program&) {}) == "");
  CHECK(refused([](Program& p) { p.messages.pop_back(); }) == "E0830");
  CHECK(refused([](Program& p) { p.messages.clear(); }) == "E0830");
  CHECK(refused([](Program& p) { p.messages[0].type = floats(); }) == "E0830");
  CHECK(refused([](Program& p) { p.messages[1].loops = 2; }) == "E0830");
  CHECK(refused([](Program& p) { p.messages[1].kind = ir::MessageKind::print; }) == "E0830");
  CHECK(refused([](Program& p) { p.buffers[0].segment = Segment::temp; }) == "E0830");
}

TEST_CASE("messages as text") {
  Message m;
  m.text = "loss";
  m.value = scalar(0.2513);
  m.op = "loss (send)";
  m.launch = 12;
  CHECK(to_string(m) == "loss f32[] = 0.2513   loss (send)  launch 12");
  m.place = "model.toml:14:3";
  m.iterations = {3};
  CHECK(to_string(m) == "loss f32[] = 0.2513   model.toml:14:3  launch 12, iteration 3");
  m.iterations = {3, 0};
  m.dropped_before = 5;
  m.value = HostTensor(TensorType{DType::i64, Shape::of({{2, 9}})});
  for (int64_t i = 0; i < 18; ++i) m.value.set_int(i, i * 10);
  CHECK(to_string(m) ==
        "loss i64[2,9] = [[0, 10, 20, ..., 60, 70, 80], [90, 100, 110, ..., 150, 160, 170]]   "
        "model.toml:14:3  launch 12, iteration 3.0, 5 dropped before it");
  m = Message{};
  m.kind = ir::MessageKind::check;
  m.text = "finite";
  m.value = scalar(2, kOneI32);
  m.place = "m.toml:1:1";
  CHECK(to_string(m) == "check 'finite' failed for 2 elements   m.toml:1:1  launch 0");
  HostTensor b(TensorType{DType::b1, Shape::of({{2}})});
  b.set(1, 1);
  CHECK(abbreviated(b) == "[false, true]");
  CHECK(abbreviated(HostTensor(TensorType{DType::f32, Shape::of({{0}})})) == "[]");
  CHECK(abbreviated(scalar(1.0 / 3, TensorType{DType::bf16, Shape{}})) == "0.334");
  CHECK(abbreviated(scalar(1.0 / 3, TensorType{DType::f64, Shape{}})) == "0.3333333333");
  HostTensor many(TensorType{DType::i32, Shape::of({{7}})});
  CHECK(abbreviated(many) == "[0, 0, 0, ..., 0, 0, 0]");
  CHECK(abbreviated(HostTensor(TensorType{DType::i32, Shape::of({{6}})})) == "[0, 0, 0, 0, 0, 0]");
}
