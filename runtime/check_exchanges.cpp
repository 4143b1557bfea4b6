#include <algorithm>
#include <string_view>

#include "ir/mailbox.hpp"
#include "runtime/check_program.hpp"

namespace braid::runtime {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
/// All that is copied for a call, and more than any host has.
constexpr int64_t kMostBytes = int64_t{1} << 40;

class ExchangeChecker {
 public:
  explicit ExchangeChecker(const Program& program)
      : p_(program), served_(program.exchanges.size(), 0) {}

  void run() {
    for (const Exchange& e : p_.exchanges) exchange(e);
    buffers();
    for (const View& v : p_.views) {
      require(p_.buffers[v.buffer].segment != Segment::mailbox ||
                  (v.type == kMailboxPart && v.offset % kMailboxPartBytes == 0),
              "a view is of no part of the mailbox");
    }
    for (const Kernel& k : p_.kernels) kernel(k);
    for (const Body& b : p_.bodies) {
      for (const Node& n : b.nodes) {
        if (n.kernel != kNoKernel) node(b, n);
      }
    }
    for (size_t e = 0; e < p_.exchanges.size(); ++e) {
      const bool three = p_.exchanges[e].way == ir::HostWay::node;
      require(served_[e] == (three ? kPost + kHost + kFetch : kWhole),
              "exchange {} ({}) is not served by the kernels of its way", e,
              p_.exchanges[e].function);
    }
    for (const Call& c : p_.calls) {
      for (const std::vector<uint32_t>* views : {&c.args, &c.results}) {
        require(std::none_of(views->begin(), views->end(), [&](uint32_t v) { return in(v); }),
                "the call of '{}' takes the mailbox", c.function);
      }
    }
  }

 private:
  // What serves an exchange; each once, so that sums tell.
  static constexpr uint32_t kWhole = 1, kPost = 1u << 8, kHost = 1u << 16, kFetch = 1u << 24;

  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> text, Args&&... args) const {
    runtime::require(p_, ok, text, std::forward<Args>(args)...);
  }
  bool in(uint32_t view) const {
    return p_.buffers[p_.views[view].buffer].segment == Segment::mailbox;
  }

  static uint32_t part_of(const Kernel& k) {
    if (k.family == "exchange") return kWhole;
    if (k.family == "post") return kPost;
    if (k.family == "fetch") return kFetch;
    return k.code == Code::host ? kHost : 0;
  }

  void exchange(const Exchange& e) const {
    require(e.way == ir::HostWay::handshake || e.way == ir::HostWay::node,
            "'{}' is called by a {} inside a graph", e.function, ir::name_of(e.way));
    int64_t bytes = 0;
    for (const std::vector<TensorType>* types : {&e.arguments, &e.results}) {
      for (const TensorType& t : *types) {
        require(t.shape.is_static() && t.bytes() >= 0 && t.bytes() <= kMostBytes - bytes,
                "the exchange with '{}' has no fixed size below 2^40 bytes", e.function);
        bytes += t.bytes();
      }
    }
  }

  void buffers() const {
    size_t count = 0;
    for (const Buffer& b : p_.buffers) {
      if (b.segment != Segment::mailbox) continue;
      ++count;
      require(b.bytes == mailbox_slot_offset(p_.exchanges.size()) && b.region == kNone,
              "buffer {} is no mailbox of {} exchanges", b.name, p_.exchanges.size());
    }
    require(count == (p_.exchanges.empty() ? 0 : 1), "{} mailboxes for {} exchanges", count,
            p_.exchanges.size());
  }

  void kernel(const Kernel& k) const {
    const uint32_t part = part_of(k);
    require((part != 0) == k.exchanges && (part == kHost) == (k.code == Code::host),
            "kernel {} calls a host function, or does not, unlike its family", k.symbol);
    if (!k.exchanges) return;
    const size_t n = k.args.size();
    require(n >= 2 && k.parts == 1 && !k.guard && k.args[n - 1].type == kMailboxPart &&
                k.args[n - 2].type == kMailboxPart,
            "the last arguments of kernel {} are no slot and header", k.symbol);
    require(part != kHost || n == 2, "the host node {} has {} arguments", k.symbol, n);
    const auto calls = std::count_if(k.body.ops().begin(), k.body.ops().end(), is_call);
    require(calls == (part == kHost ? 0 : 1), "kernel {} calls {} host functions", k.symbol, calls);
  }
  static bool is_call(const ir::Op& op) { return op.kind == ir::OpKind::host; }

  void node(const Body& b, const Node& n) {
    const Kernel& k = p_.kernels[n.kernel];
    const size_t own = n.args.size() - (k.exchanges ? 2 : 0);
    for (size_t a = 0; a < n.args.size(); ++a) {
      require(in(n.args[a]) == (a >= own), "argument {} of a node of {} is {}", a, k.symbol,
              a >= own ? "no part of the mailbox" : "a part of the mailbox");
    }
    if (!k.exchanges) return;
    const int64_t slot = p_.views[n.args[own]].offset;
    require(slot != 0 && p_.views[n.args[own + 1]].offset == 0,
            "a node of {} takes no slot and header", k.symbol);
    const auto e = mailbox_exchange_at(slot);
    const uint32_t part = part_of(k);
    require((served_[e] / part & 0xff) == 0, "two nodes are the {} of exchange {}", k.family, e);
    served_[e] += part;
    require(part != kHost || !conditional(b),
            "the host node of exchange {} is in the body of a conditional node", e);
    if (part != kHost) fits(k, p_.exchanges[e]);
  }

  /// What is copied is what the exchange says.
  void fits(const Kernel& k, const Exchange& e) const {
    const ir::Op& op = *std::find_if(k.body.ops().begin(), k.body.ops().end(), is_call);
    require(operand_types(k.body, op) == e.arguments && result_types(k.body, op) == e.results,
            "kernel {} exchanges other tensors than '{}' has", k.symbol, e.function);
  }

  bool conditional(const Body& b) const {
    for (uint32_t r = b.region; r != kNone; r = p_.regions[r].region) {
      if (p_.regions[r].kind == Region::Kind::node) return true;
    }
    return false;
  }

  const Program& p_;
  std::vector<uint32_t> served_;  // by exchange
};

}  // namespace

void check_exchanges(const Program& program) { ExchangeChecker(program).run(); }

}  // namespace braid::runtime
