// Kernels that call host functions: the text runs here while another thread plays the host.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "ir/mailbox.hpp"
#include "kernels_kit.hpp"
#include "kernels_on_cpu.hpp"

namespace braid::test {
namespace {

using V = Body::V;

TensorType type(DType d, std::initializer_list<Dim> shape) { return {d, shape}; }

/// A call, and what its kernels and the test know of it.
struct CallCase {
  KernelCase kernel;
  std::vector<TensorType> arguments, results;
  std::vector<size_t> slot_of;  // by argument: the kernel's
};

CallCase call_case(const std::string& name, const std::string& family,
                   const std::vector<TensorType>& inputs, const std::vector<size_t>& slot_of,
                   const std::vector<TensorType>& results, bool reshaped = false) {
  Body b;
  std::vector<V> in, operands;
  CallCase c;
  for (const TensorType& t : inputs) {
    const ir::StrId id = b.graph.strings.intern(fmt::format("a{}", in.size()));
    in.push_back(b.graph.add({.kind = ir::OpKind::input, .type = t, .name = id}));
  }
  for (size_t s : slot_of) {
    V v = in[s];
    const int64_t n = inputs[s].shape.numel();
    if (reshaped) v = b.reshape(v, {Dim(1), Dim(n)});
    operands.push_back(v);
    c.arguments.push_back(b.type(v));
  }
  c.results = results;
  c.slot_of = slot_of;
  for (V v : b.host("f", operands, results)) {
    if (family != "post") b.out(v);
  }
  c.kernel = {.name = name, .family = family, .body = std::move(b.graph), .exchanges = true};
  return c;
}

std::vector<CallCase> calls() {
  std::vector<CallCase> all;
  all.push_back(call_case("small", "exchange", {type(DType::f32, {3}), type(DType::i64, {})},
                          {0, 1}, {type(DType::f32, {2}), type(DType::b1, {5})}));
  all.push_back(call_case("twice", "exchange", {type(DType::f16, {4, 9})}, {0, 0},
                          {type(DType::i8, {0}), type(DType::f64, {7})}, true));
  all.push_back(call_case("large", "exchange",
                          {type(DType::f32, {100, 131}), type(DType::u8, {40001})}, {1, 0},
                          {type(DType::u8, {70003}), type(DType::bf16, {64})}));
  all.push_back(call_case("no_arguments", "exchange", {}, {}, {type(DType::f32, {33})}));
  all.push_back(
      call_case("no_results", "exchange", {type(DType::i32, {17})}, {0}, {type(DType::i8, {0})}));
  return all;
}

/// The memory of one exchange.
struct Mailbox {
  MailboxHeader header;
  MailboxSlot slot;
  alignas(128) MailboxLine line;
  std::vector<int64_t> offsets;
  std::vector<std::byte> bytes;
  size_t begin = 0;  // of the data, at a multiple of 256

  explicit Mailbox(const CallCase& c) : offsets(mailbox_offsets(c.arguments, c.results)) {
    bytes.resize(static_cast<size_t>(offsets.back()) + 512);
    begin = (256 - reinterpret_cast<uintptr_t>(bytes.data()) % 256) % 256;
    slot.host = reinterpret_cast<uintptr_t>(&line);
    slot.data = reinterpret_cast<uintptr_t>(bytes.data() + begin);
  }
  std::byte* at(size_t i) { return bytes.data() + begin + offsets[i]; }
  uint32_t read(const uint32_t& word) const {
    return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(word)).load();
  }
  void write(uint32_t& word, uint32_t x) { std::atomic_ref<uint32_t>(word).store(x); }
};

std::vector<std::byte> random_bytes(std::mt19937& random, size_t n) {
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random() % 251 + 1);
  return out;
}

HostTensor part(const void* bytes) {
  HostTensor t(kMailboxPart);
  if (!t.bytes.empty()) std::memcpy(t.bytes.data(), bytes, t.bytes.size());
  return t;
}

/// The arguments of a run; afterwards those of the mailbox are taken back.
std::vector<HostTensor> arguments(const CallCase& c, std::mt19937& random, Mailbox& m) {
  std::vector<HostTensor> args;
  for (const ir::Op& op : c.kernel.body.ops()) {
    if (op.kind != ir::OpKind::input) continue;
    HostTensor& t = args.emplace_back(c.kernel.body.type(op.result));
    t.bytes = random_bytes(random, t.bytes.size());
  }
  for (const ir::Output& o : c.kernel.body.outputs) {
    HostTensor& t = args.emplace_back(c.kernel.body.type(o.value));
    t.bytes = random_bytes(random, t.bytes.size());
  }
  args.push_back(part(&m.slot));
  args.push_back(part(&m.header));
  return args;
}

void run(const OnCpu& cpu, const CallCase& c, std::vector<HostTensor>& args, Mailbox& m) {
  cpu.run(c.kernel, args);
  std::memcpy(&m.slot, args[args.size() - 2].bytes.data(), sizeof m.slot);
  std::memcpy(&m.header, args.back().bytes.data(), sizeof m.header);
}

void check_arguments(const CallCase& c, Mailbox& m, const std::vector<HostTensor>& args) {
  for (size_t k = 0; k < c.arguments.size(); ++k) {
    const std::vector<std::byte>& sent = args[c.slot_of[k]].bytes;
    CHECK((sent.empty() || std::memcmp(m.at(k), sent.data(), sent.size()) == 0));
  }
}

/// Puts random results where the host does.
std::vector<std::vector<std::byte>> answer_with(const CallCase& c, Mailbox& m,
                                                std::mt19937& random) {
  std::vector<std::vector<std::byte>> given;
  for (size_t r = 0; r < c.results.size(); ++r) {
    given.push_back(random_bytes(random, static_cast<size_t>(c.results[r].bytes())));
    if (given.back().empty()) continue;
    std::memcpy(m.at(c.arguments.size() + r), given.back().data(), given.back().size());
  }
  return given;
}

void check_results(const std::vector<HostTensor>& args,
                   const std::vector<std::vector<std::byte>>& given) {
  const size_t first = args.size() - 2 - given.size();
  for (size_t r = 0; r < given.size(); ++r) CHECK(args[first + r].bytes == given[r]);
}

std::vector<std::vector<std::byte>> zeros(const CallCase& c) {
  std::vector<std::vector<std::byte>> all;
  for (const TensorType& t : c.results) all.emplace_back(static_cast<size_t>(t.bytes()));
  return all;
}

}  // namespace

TEST_CASE("an exchange hands over its arguments, waits, and takes the results") {
  std::vector<CallCase> all = calls();
  std::vector<KernelCase> kernels;
  for (const CallCase& c : all) kernels.push_back(c.kernel);
  check_compiles(kernels);
  const OnCpu cpu(kernels);
  std::mt19937 random(5);
  for (const CallCase& c : all) {
    INFO(c.kernel.name);
    Mailbox m(c);
    for (uint32_t turn = 1; turn <= 3; ++turn) {
      const bool fails = turn == 2;
      std::vector<HostTensor> args = arguments(c, random, m);
      std::vector<std::vector<std::byte>> given;
      std::thread host([&] {
        while (m.read(m.line.asked) != turn) std::this_thread::yield();
        check_arguments(c, m, args);
        given = answer_with(c, m, random);
        m.write(m.line.outcome, fails ? 1 : 0);
        m.write(m.line.answered, turn);
      });
      run(cpu, c, args, m);
      host.join();
      check_results(args, fails ? zeros(c) : given);
      CHECK(m.slot.sequence == turn);
      CHECK(m.header.dead == 0);
    }
  }
}

TEST_CASE("an exchange gives up at its deadline, and none waits after that") {
  const CallCase c = calls()[0];
  const OnCpu cpu({c.kernel});
  std::mt19937 random(6);
  Mailbox m(c);
  m.header.deadline_ns = 3'000'000;
  std::vector<HostTensor> args = arguments(c, random, m);
  run(cpu, c, args, m);
  check_results(args, zeros(c));
  CHECK(m.header.dead == 1);
  CHECK(m.line.asked == 1);
  CHECK(m.line.given_up == 1);
  m.header.deadline_ns = 0;
  const std::vector<std::byte> before = m.bytes;
  args = arguments(c, random, m);
  run(cpu, c, args, m);  // at once
  check_results(args, zeros(c));
  CHECK(m.line.asked == 1);
  CHECK(m.slot.sequence == 1);
  CHECK(m.bytes == before);
}

TEST_CASE("a closed mailbox answers nothing, and sequences leave out its number") {
  const CallCase c = calls()[0];
  const OnCpu cpu({c.kernel});
  std::mt19937 random(7);
  Mailbox m(c);
  m.slot.sequence = kMailboxClosed - 1;
  m.line.answered = kMailboxClosed;
  std::vector<HostTensor> args = arguments(c, random, m);
  run(cpu, c, args, m);
  check_results(args, zeros(c));
  CHECK(m.line.asked == 1);
  CHECK(m.header.dead == 0);
}

TEST_CASE("what stands around a host node hands over, and takes what was answered") {
  const std::vector<TensorType> in{type(DType::f32, {5, 77}), type(DType::b1, {3})};
  const std::vector<TensorType> out{type(DType::f32, {9}), type(DType::i32, {600})};
  CallCase post = call_case("post_it", "post", in, {0, 1, 0}, out);
  CallCase fetch = post;
  Body b;
  std::vector<V> operands;
  for (const TensorType& t : post.arguments) operands.push_back(b.graph.splat(t, 0));
  for (V v : b.host("f", operands, out)) b.out(v);
  fetch.kernel = {
      .name = "fetch_it", .family = "fetch", .body = std::move(b.graph), .exchanges = true};
  check_compiles({post.kernel, fetch.kernel});
  const OnCpu cpu({post.kernel, fetch.kernel});
  std::mt19937 random(8);
  Mailbox m(post);
  for (uint32_t turn = 1; turn <= 3; ++turn) {
    std::vector<HostTensor> args = arguments(post, random, m);
    run(cpu, post, args, m);
    check_arguments(post, m, args);
    CHECK(m.slot.sequence == turn);
    CHECK(m.line.asked == turn);
    const auto given = answer_with(post, m, random);
    m.line.outcome = turn == 2;
    m.line.answered = turn;
    args = arguments(fetch, random, m);
    run(cpu, fetch, args, m);
    check_results(args, turn == 2 ? zeros(fetch) : given);
  }
  std::vector<HostTensor> args = arguments(post, random, m);
  run(cpu, post, args, m);  // nobody answers
  args = arguments(fetch, random, m);
  run(cpu, fetch, args, m);
  check_results(args, zeros(fetch));
}

TEST_CASE("exchanges refuse bodies that they cannot compute") {
  const auto refusal = [](const std::function<void(Body&)>& write) {
    Body b;
    write(b);
    return kernels::family("exchange").refuses(b.graph);
  };
  const TensorType four = type(DType::f32, {4});
  CHECK(refusal([&](Body& b) { b.out(b.host("f", {b.in({4})}, {four})[0]); }) == "");
  CHECK(refusal([&](Body& b) { b.out(b.in({4})); }).find("no host function") != std::string::npos);
  CHECK(refusal([&](Body& b) {
          const V x = b.in({4});
          b.out(b.host("g", {b.host("f", {x}, {four})[0]}, {four})[0]);
        }).find("two host functions") != std::string::npos);
  CHECK(refusal([&](Body& b) {
          b.out(b.host("f", {b.map(Fn::neg, {b.in({4})})}, {four})[0]);
        }).find("would have to compute") != std::string::npos);
  CHECK(refusal([&](Body& b) {
          b.out(b.host("f", {b.transpose(b.in({4, 2}), {1, 0})}, {four})[0]);
        }).find("view that is no memory") != std::string::npos);
  CHECK(refusal([&](Body& b) {
          const V x = b.in({4});
          b.out(b.map(Fn::neg, {b.host("f", {x}, {four})[0]}));
        }).find("what no host function gave") != std::string::npos);
}

}  // namespace braid::test
