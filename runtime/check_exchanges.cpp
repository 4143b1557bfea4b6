#include <algorithm>
#include <string_view>

#include "ir/mailbox.hpp"
#include "runtime/check_program.hpp"

namespace braid::runtime {
namespace {

/// What is said of an exchange must be what its kernels do: the host trusts it with memory.
class Exchanges {
 public:
  explicit Exchanges(const Program& program) : p_(program) {}

  void run() const {
    for (const Exchange& e : p_.exchanges) {
      for (const std::vector<TensorType>* types : {&e.arguments, &e.results}) {
        for (const TensorType& t : *types) {
          require(p_, t.shape.is_static(), "the exchange of '{}' has no fixed size", e.function);
        }
      }
    }
    for (const Buffer& b : p_.buffers) {
      require(p_,
              b.segment != Segment::mailbox ||
                  (!p_.exchanges.empty() && b.bytes == mailbox_slot_offset(p_.exchanges.size())),
              "buffer {} is no mailbox of {} exchanges", b.name, p_.exchanges.size());
    }
    for (const Kernel& k : p_.kernels) kernel(k);
    for (const Body& body : p_.bodies) {
      for (const Node& n : body.nodes) {
        if (n.kernel != kNoKernel) node(body, n, p_.kernels[n.kernel]);
      }
    }
    for (const Call& c : p_.calls) {
      for (const std::vector<uint32_t>* views : {&c.args, &c.results}) {
        require(p_, std::none_of(views->begin(), views->end(), [&](uint32_t v) { return mail(v); }),
                "the call of '{}' takes the mailbox", c.function);
      }
    }
  }

 private:
  bool mail(uint32_t view) const {
    return p_.buffers[p_.views[view].buffer].segment == Segment::mailbox;
  }

  static const ir::Op* call_in(const Kernel& k) {
    const ir::Op* found = nullptr;
    for (const ir::Op& op : k.body.ops()) {
      if (op.kind == ir::OpKind::host) found = &op;
    }
    return found;
  }

  void kernel(const Kernel& k) const {
    const bool host = k.code == Code::host;
    require(p_, !host || k.exchanges, "kernel {} is a host node without a mailbox", k.symbol);
    if (!k.exchanges) return;
    const auto calls = std::count_if(k.body.ops().begin(), k.body.ops().end(),
                                     [](const auto& op) { return op.kind == ir::OpKind::host; });
    require(p_,
            k.parts == 1 && !k.guard && k.args.size() >= 2 && calls == (host ? 0 : 1) &&
                (host ? k.args.size() == 2
                      : k.family == "exchange" || k.family == "post" || k.family == "fetch"),
            "kernel {} is none that calls a host function", k.symbol);
  }

  void node(const Body& body, const Node& n, const Kernel& k) const {
    const size_t own = n.args.size() - (k.exchanges ? 2 : 0);
    for (size_t a = 0; a < n.args.size(); ++a) {
      require(p_, mail(n.args[a]) == (a >= own), "argument {} of {} is {}", k.args[a].name,
              k.symbol, a >= own ? "not in the mailbox" : "the mailbox, which it does not take");
    }
    if (!k.exchanges) return;
    const int64_t slot = p_.views[n.args[own]].offset, header = p_.views[n.args[own + 1]].offset;
    require(p_, header == 0 && slot >= kMailboxPartBytes && slot % kMailboxPartBytes == 0,
            "kernel {} takes no slot and header of the mailbox", k.symbol);
    const Exchange& e = p_.exchanges[static_cast<size_t>(slot / kMailboxPartBytes - 1)];
    const bool handshake = k.family == "exchange";
    require(p_, e.way == (handshake ? ir::HostWay::handshake : ir::HostWay::node),
            "kernel {} is not of the way in which '{}' is called", k.symbol, e.function);
    if (k.code == Code::host) {
      const bool nested =
          body.region != UINT32_MAX && p_.regions[body.region].kind == Region::Kind::node;
      require(p_, !body.stream && !nested, "the host node of '{}' is in no graph of its own",
              e.function);
      return;
    }
    const ir::Op& op = *call_in(k);
    std::vector<TensorType> arguments, results;
    for (ir::ValueId v : op.operands) arguments.push_back(k.body.type(v));
    for (uint32_t r = 0; r < op.results; ++r) results.push_back(k.body.type(op.result_at(r)));
    require(p_, arguments == e.arguments && results == e.results,
            "kernel {} calls '{}' with other tensors than its exchange has", k.symbol, e.function);
  }

  const Program& p_;
};

}  // namespace

void check_exchanges(const Program& p) { Exchanges(p).run(); }

}  // namespace braid::runtime
