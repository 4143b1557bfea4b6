// Hand-made Programs whose graphs call host functions, for the runtime's tests.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "ir/diagnostic.hpp"
#include "ir/mailbox.hpp"
#include "runtime_help.hpp"

namespace braid::testing {

/// What a call throws as an Error; its code is empty if it throws nothing.
inline Diagnostic error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.diagnostics().at(0);
  }
  return {};
}

/// A Program whose bodies call host functions. All buffers come before the first node: until then
/// buffers are views of the same number.
class Caller {
 public:
  explicit Caller(const std::string& name) : p(empty_program(name)) {
    mailbox_ = add_buffer(p, "mailbox", Segment::mailbox, kMailboxPart);
  }

  uint32_t temp(const std::string& name, const TensorType& type) {
    const uint32_t buffer = add_buffer(p, name, Segment::temp, type, p.arena_bytes);
    p.arena_bytes += (type.bytes() + 255) / 256 * 256;
    return buffer;
  }

  /// A node behind others; returns its number.
  uint32_t node(uint32_t kernel, std::vector<uint32_t> views, const std::vector<uint32_t>& after,
                uint32_t body = 0) {
    Node n;
    n.kernel = kernel;
    n.values = views;
    n.values_before.assign(views.size(), UINT32_MAX);
    n.args = std::move(views);
    std::vector<Node>& nodes = p.bodies[body].nodes;
    n.ops = {"op" + std::to_string(nodes.size())};
    nodes.push_back(std::move(n));
    const auto at = static_cast<uint32_t>(nodes.size() - 1);
    for (const uint32_t from : after) {
      p.bodies[body].edges.push_back({from, at, EdgeKind::full, EdgeReason::raw, mailbox_});
    }
    return at;
  }

  /// The nodes of one exchange, in a row behind others; returns the last one's number.
  uint32_t call(const std::string& function, const std::vector<uint32_t>& arguments,
                const std::vector<uint32_t>& results, const std::vector<uint32_t>& after,
                ir::HostWay way = ir::HostWay::handshake, uint32_t body = 0) {
    Exchange e;
    e.function = function;
    for (const uint32_t b : arguments) e.arguments.push_back(p.buffers[b].type);
    for (const uint32_t b : results) e.results.push_back(p.buffers[b].type);
    e.way = way;
    e.op = function + " (host)";
    e.place = "model.toml:" + std::to_string(10 + p.exchanges.size()) + ":3";
    p.exchanges.push_back(e);
    p.views.push_back({mailbox_, mailbox_slot_offset(p.exchanges.size() - 1), kMailboxPart, {1}});
    p.buffers[mailbox_].bytes = mailbox_slot_offset(p.exchanges.size());
    p.buffers[mailbox_].type = {DType::i32, Shape::of({{p.buffers[mailbox_].bytes / 4}})};
    p.views[mailbox_].type = kMailboxPart;
    const auto slot = static_cast<uint32_t>(p.views.size() - 1);
    const auto add = [&](const char* family, bool takes, bool gives,
                         const std::vector<uint32_t>& behind) {
      p.kernels.push_back(kernel(family, e, takes, gives));
      std::vector<uint32_t> views;
      if (takes) views = arguments;
      if (gives) views.insert(views.end(), results.begin(), results.end());
      views.insert(views.end(), {slot, mailbox_});
      return node(static_cast<uint32_t>(p.kernels.size() - 1), views, behind, body);
    };
    if (way == ir::HostWay::handshake) return add("exchange", true, true, after);
    const uint32_t post = add("post", true, false, after);
    return add("fetch", false, true, {add("host_node", false, false, {post})});
  }

  Program p;

 private:
  Kernel kernel(const char* family, const Exchange& e, bool takes, bool gives) const {
    Kernel k;
    k.symbol = std::string(family) + std::to_string(p.kernels.size());
    k.family = family;
    k.exchanges = true;
    k.launch = {{1, 1, 1}, {256, 1, 1}, 0};
    ir::Graph& g = k.body;
    if (takes || gives) {
      std::vector<ir::ValueId> operands;
      for (size_t i = 0; i < e.arguments.size(); ++i) {
        const std::string name = "a" + std::to_string(i);
        if (takes) {
          operands.push_back(
              g.add({ir::OpKind::input, {}, {}, e.arguments[i], g.strings.intern(name)}));
          k.args.push_back({name, Role::in, e.arguments[i]});
        } else {
          operands.push_back(g.splat(e.arguments[i], 0));
        }
      }
      ir::Graph::NewOp op{ir::OpKind::host, ir::HostAttr{g.strings.intern(e.function)}, operands,
                          e.results[0]};
      op.more.assign(e.results.begin() + 1, e.results.end());
      const auto made = g.add(std::move(op));
      for (size_t i = 0; gives && i < e.results.size(); ++i) {
        const std::string name = "r" + std::to_string(i);
        g.outputs.push_back({name, {made.index + static_cast<uint32_t>(i)}, {}});
        k.args.push_back({name, Role::out, e.results[i]});
      }
    } else {
      k.code = Code::host;
    }
    k.args.push_back({"slot", Role::inout, kMailboxPart});
    k.args.push_back({"mailbox", Role::inout, kMailboxPart});
    return k;
  }

  uint32_t mailbox_ = 0;
};

using Arguments = std::span<const HostTensor>;
using Results = std::span<HostTensor>;

/// y = f(x) in a graph, both of `type`; x is an input.
inline Program one_call(const TensorType& type, ir::HostWay way = ir::HostWay::handshake,
                        const std::string& name = "one call") {
  Caller c(name);
  const uint32_t x = add_buffer(c.p, "x", Segment::input, type);
  const uint32_t y = add_buffer(c.p, "y", Segment::output, type);
  c.call("f", {x}, {y}, {}, way);
  return c.p;
}

/// Adds one to every i32.
inline void add_one(Arguments a, Results r) {
  for (int64_t i = 0; i < a[0].numel(); ++i) r[0].set_int(i, a[0].int_at(i) + 1);
}

/// Waits until `what` holds, at most ten seconds.
inline bool soon(const std::function<bool()>& what) {
  for (int i = 0; i < 10000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// What a function does that does not return before it is let go.
class Stuck {
 public:
  void wait() {
    inside = true;
    gone_.get_future().wait();
    inside = false;
  }
  void let_go() { gone_.set_value(); }
  std::atomic<bool> inside = false;

 private:
  std::promise<void> gone_;
};

inline const TensorType kFive{DType::i32, Shape::of({{5}})};

inline std::map<std::string, HostTensor> ints(uint64_t seed) {
  return {{"x", random_tensor(kFive, seed, "x", 1, -1000, 1000)}};
}

}  // namespace braid::testing
