// The checker's part on host functions that graphs call: each exchange has its slot of the mailbox
// for itself, and one kernel, or a host node between two, which fit what is said of it.
#include <algorithm>
#include <optional>
#include <string_view>

#include "ir/mailbox.hpp"
#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

using ir::OpKind;

/// What an exchange kernel does, by its family.
enum class Part : uint8_t { whole = 0, post = 1, host = 2, fetch = 3 };
constexpr std::string_view kParts[] = {"exchange", "post", "host_node", "fetch"};

std::optional<Part> part_of(const Kernel& k) {
  const auto* const at = std::find(std::begin(kParts), std::end(kParts), k.family);
  if (at == std::end(kParts)) return std::nullopt;
  return static_cast<Part>(at - std::begin(kParts));
}

class Exchanges {
 public:
  Exchanges(const Program& p, Findings& out)
      : p_(p), out_(out), mailbox_(kNone), nodes_(p.exchanges.size()) {}

  void run() {
    const size_t before = out_.count();
    for (const Kernel& k : p_.kernels) kernel(k);
    buffer();
    if (out_.count() != before) return;  // what follows indexes freely
    for (uint32_t v = 0; v < p_.views.size(); ++v) view(v);
    if (out_.count() != before) return;
    for (uint32_t b = 0; b < p_.bodies.size(); ++b) body(b);
    for (uint32_t e = 0; e < p_.exchanges.size(); ++e) complete(e);
  }

 private:
  void kernel(const Kernel& k) {
    const std::optional<Part> part = part_of(k);
    if (part.has_value() != k.exchanges || (k.code == Code::host) != (part == Part::host)) {
      out_.add("kernel {} is of the family {}, but {} of those that call host functions", k.symbol,
               k.family, k.exchanges ? "one" : "none");
      return;
    }
    if (!part) return;
    const size_t n = k.args.size();
    if (n < 2 || k.args[n - 2].role != Role::inout || k.args[n - 2].type != kMailboxPart ||
        k.args[n - 1].role == Role::out || k.args[n - 1].type != kMailboxPart) {
      out_.add("the last arguments of kernel {} are no slot and header of a mailbox", k.symbol);
    }
    if (k.parts != 1 || k.guard || k.waits || !k.in_place.empty() || k.workspace != 0) {
      out_.add(
          "kernel {} calls a host function, but has parts, a guard, a workspace, waits, or "
          "works in place",
          k.symbol);
    }
    if (part == Part::host ? !k.body.ops().empty() : !one_call(k, *part)) {
      out_.add("the body of kernel {} is not that of {}", k.symbol, k.family);
    }
  }

  /// Whether the body is inputs, reshapes of them, and one call of which every result goes out; of
  /// a post none does, and a fetch has operands that are nothing but types.
  static bool one_call(const Kernel& k, Part part) {
    const ir::Op* call = nullptr;
    for (const ir::Op& op : k.body.ops()) {
      const auto* view = std::get_if<ir::ViewAttr>(&op.attrs);
      const bool reshape = view && view->kind == ir::ViewKind::reshape;
      const bool operand =
          part == Part::fetch ? op.kind == OpKind::constant : op.kind == OpKind::input || reshape;
      if (op.kind == OpKind::host && !call) {
        call = &op;
      } else if (!operand) {
        return false;
      }
    }
    if (!call) return false;
    const std::vector<ir::Output>& outputs = k.body.outputs;
    if (part == Part::post) return outputs.empty();
    if (outputs.size() != call->results) return false;
    for (uint32_t r = 0; r < call->results; ++r) {
      if (outputs[r].value != call->result_at(r)) return false;
    }
    return true;
  }

  void buffer() {
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].segment != Segment::mailbox) continue;
      if (mailbox_ != kNone || p_.exchanges.empty() ||
          p_.buffers[b].bytes != mailbox_slot_offset(p_.exchanges.size()) ||
          p_.buffers[b].type.dtype != DType::i32) {
        out_.add("{} cannot be the mailbox of {} exchanges", buffer_name(p_, b),
                 p_.exchanges.size());
      }
      mailbox_ = b;
    }
    if (mailbox_ == kNone && !p_.exchanges.empty()) {
      out_.add("there is no mailbox for {} exchanges", p_.exchanges.size());
    }
    for (uint32_t e = 0; e < p_.exchanges.size(); ++e) {
      const ir::HostWay way = p_.exchanges[e].way;
      if (way != ir::HostWay::handshake && way != ir::HostWay::node) {
        out_.add("{} is called by a {}, which is none of a graph's ways", name(e),
                 ir::name_of(way));
      }
    }
  }

  void view(uint32_t index) {
    const View& v = p_.views[index];
    if (v.buffer != mailbox_) return;
    if (v.type != kMailboxPart || v.offset % kMailboxPartBytes != 0 || v.value != kNone) {
      out_.add("view {} shows no part of the mailbox", index);
    }
  }

  void body(uint32_t index) {
    const Body& b = p_.bodies[index];
    for (uint32_t n = 0; n < b.nodes.size(); ++n) {
      const Node& node = b.nodes[n];
      if (node.kernel == kNoKernel || !p_.kernels[node.kernel].exchanges) continue;
      const Kernel& k = p_.kernels[node.kernel];
      const std::string who = node_name(p_, b, n);
      const int64_t slot = p_.views[node.args[node.args.size() - 2]].offset;
      const int64_t header = p_.views[node.args.back()].offset;
      if (slot == 0 || header != 0) {
        out_.add("{} takes parts of the mailbox at {} and {}, which are no slot and header", who,
                 slot, header);
        continue;
      }
      const auto e = mailbox_exchange_at(slot);
      fits(k, e, who);
      const Part part = *part_of(k);
      nodes_[e].push_back({index, n, part});
      if (b.stream) out_.add("{} calls a host function, but body {} is no graph", who, index);
      if (part == Part::host && in_conditional_body(b)) {
        out_.add("{} is a host node in the body of a conditional node", who);
      }
    }
  }

  /// Whether the kernel is for the function and the tensors of the exchange.
  void fits(const Kernel& k, uint32_t e, const std::string& who) {
    const Exchange& x = p_.exchanges[e];
    if ((k.args.back().role == Role::in) != x.pure) {
      out_.add("{} takes the header as {}, but {} is {}pure", who, name_of(k.args.back().role),
               name(e), x.pure ? "" : "not ");
    }
    for (const ir::Op& op : k.body.ops()) {
      if (op.kind != OpKind::host) continue;
      const auto& attr = std::get<ir::HostAttr>(op.attrs);
      if (k.body.strings[attr.function] != x.function || attr.pure != x.pure ||
          operand_types(k.body, op) != x.arguments || result_types(k.body, op) != x.results) {
        out_.add("{} does not call what {} says", who, name(e));
      }
    }
  }

  bool in_conditional_body(const Body& b) const {
    for (uint32_t r = b.region; r != kNone; r = p_.regions[r].region) {
      if (p_.regions[r].kind == Region::Kind::node) return true;
    }
    return false;
  }

  /// One kernel, or one of each of the three parts, in their order: in one body, or in some that
  /// one script launches one after the other, where a body was cut in between.
  void complete(uint32_t e) {
    const std::vector<Call>& is = nodes_[e];
    const bool node = p_.exchanges[e].way == ir::HostWay::node;
    bool good = is.size() == (node ? 3 : 1);
    for (size_t i = 0; good && i < is.size(); ++i) {
      const Body &first = p_.bodies[is[0].body], &b = p_.bodies[is[i].body];
      good = b.region == first.region && b.branch == first.branch &&
             (i == 0 || is[i].body >= is[i - 1].body) &&
             is[i].part == static_cast<Part>(node ? i + 1 : 0);
    }
    if (!good) {
      out_.add("{} is called by {} nodes, which are not {}", name(e), is.size(),
               node ? "a post, a host node and a fetch in turn" : "one exchange");
    }
  }

  std::string name(uint32_t e) const {
    return fmt::format("exchange {} ({})", e, p_.exchanges[e].function);
  }

  struct Call {
    uint32_t body, node;
    Part part;
  };

  const Program& p_;
  Findings& out_;
  uint32_t mailbox_;                      // the buffer
  std::vector<std::vector<Call>> nodes_;  // by exchange
};

}  // namespace

void check_exchanges(const Program& p, Findings& out) { Exchanges(p, out).run(); }

}  // namespace braid::checking
