// Plans whose graphs call host functions, with one thing made wrong: the checker must say what.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "ir/mailbox.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "passes/pipeline.hpp"

using namespace braid;

namespace {

std::string complaints(const Program& p) {
  std::string text;
  for (const std::string& s : check(p)) text += s + "\n";
  return text;
}

/// All edges are full, so that mutants need not mend their kinds.
Program plan(const std::string& lines, Options o = {}) {
  o.pdl = false;
  return run_passes(ir::parse("bir 2\ngraph \"g\" {\n" + lines + "}\n", "g.bir"), o).program;
}

/// Two calls by handshake, the first pure, and one by a host node.
Program three_calls() {
  Program p = plan(R"(
    %0: f32[4] = input "x"
    %1: f32[4] = exp %0
    %2: f32[4] = host %1 "pure" {function="p", pure=true, way=handshake}
    %3: f32[4], %4: i32[3] = host %2, %1 "act" {function="a", way=handshake}
    %5: f32[4] = tanh %3
    %6: f32[4] = host %5 "by_node" {function="n", way=node}
    %7: f32[4] = tanh %6
    output "y" %7
    output "z" %4
  )");
  REQUIRE(complaints(p) == "");
  return p;
}

/// A call in a side of an IF, one before it and one behind it.
Program around_if() {
  Program p = plan(R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: f32[4] = host %1 "first" {function="first", way=handshake}
    %3: f32[4] = branch %0, %1 "pick" {lowering=node} {
      body "else" {
        %0: f32[4] = input "x"
        %1: f32[4] = host %0 "no" {function="no", way=handshake}
        output "y" %1
      }
      body "then" {
        %0: f32[4] = input "x"
        %1: f32[4] = exp %0
        output "y" %1
      }
    }
    %4: f32[4] = host %1 "last" {function="last", way=handshake}
    %5: f32[4] = add %2, %3
    %6: f32[4] = add %4, %5
    output "y" %6
  )");
  REQUIRE(complaints(p) == "");
  return p;
}

/// The kernels of a family.
Kernel& the(Program& p, std::string_view family) {
  const auto it = std::find_if(p.kernels.begin(), p.kernels.end(),
                               [&](const Kernel& k) { return k.family == family; });
  REQUIRE(it != p.kernels.end());
  return *it;
}
Node& node_of(Program& p, std::string_view family, size_t which = 0) {
  for (Body& b : p.bodies) {
    for (Node& n : b.nodes) {
      if (n.kernel == kNoKernel || p.kernels[n.kernel].family != family) continue;
      if (which-- == 0) return n;
    }
  }
  FAIL("no such node");
  return p.bodies[0].nodes[0];
}
Buffer& mailbox(Program& p) {
  return *std::find_if(p.buffers.begin(), p.buffers.end(),
                       [](const Buffer& b) { return b.segment == Segment::mailbox; });
}
/// The view of a slot, or of the header as number -1.
uint32_t part(const Program& p, int64_t exchange) {
  const int64_t at = exchange < 0 ? 0 : mailbox_slot_offset(static_cast<size_t>(exchange));
  for (uint32_t v = 0; v < p.views.size(); ++v) {
    if (p.buffers[p.views[v].buffer].segment == Segment::mailbox && p.views[v].offset == at) {
      return v;
    }
  }
  FAIL("no such part");
  return 0;
}

struct Mutant {
  std::string name;
  std::function<void(Program&)> change;
  std::string complaint;
};

void refuses(const std::function<Program()>& make, const std::vector<Mutant>& mutants) {
  for (const Mutant& m : mutants) {
    CAPTURE(m.name);
    Program p = make();
    m.change(p);
    const std::string found = complaints(p);
    CAPTURE(found);
    CHECK(found.find(m.complaint) != std::string::npos);
  }
}

ir::Op& call_in(Kernel& k) {
  return *std::find_if(k.body.ops().begin(), k.body.ops().end(),
                       [](const ir::Op& op) { return op.kind == ir::OpKind::host; });
}

}  // namespace

TEST_CASE("check: kernels that call host functions are what they say") {
  refuses(
      three_calls,
      {
          {"a slot that is only read",
           [](Program& p) {
             Kernel& k = the(p, "exchange");
             k.args[k.args.size() - 2].role = Role::in;
           },
           "no slot and header"},
          {"a header that is only written",
           [](Program& p) { the(p, "exchange").args.back().role = Role::out; },
           "no slot and header"},
          {"a header of another type",
           [](Program& p) { the(p, "post").args.back().type.dtype = DType::f32; },
           "but the kernel takes f32[16]"},
          {"it says that it calls none", [](Program& p) { the(p, "exchange").exchanges = false; },
           "has 4 arguments, but its body needs 2"},
          {"a row kernel says that it calls", [](Program& p) { the(p, "row").exchanges = true; },
           "arguments, but its body needs"},
          {"a host node is generated",
           [](Program& p) { the(p, "host_node").code = Code::generated; }, "is of the family"},
          {"a kernel is a host node", [](Program& p) { the(p, "fetch").code = Code::host; },
           "is of the family"},
          {"it waits by itself", [](Program& p) { the(p, "exchange").waits = true; }, "waits"},
          {"a guard",
           [](Program& p) {
             Kernel& k = the(p, "exchange");
             k.guard = 1;
           },
           "arguments, but its body needs"},
          {"a host node with a body",
           [](Program& p) {
             ir::Graph& body = the(p, "host_node").body;
             body.add({ir::OpKind::constant,
                       ir::ConstAttr{body.add_literal(
                           {TensorType{DType::f32, {}}, true, std::vector<std::byte>(4)})},
                       {},
                       TensorType{DType::f32, {}}});
           },
           "is not that of host_node"},
          {"a result that stays inside",
           [](Program& p) {
             Kernel& k = p.kernels[node_of(p, "exchange", 1).kernel];
             k.body.outputs.pop_back();
             k.args.erase(k.args.end() - 3);
             Node& n = node_of(p, "exchange", 1);
             for (auto* list : {&n.args, &n.values, &n.values_before}) list->erase(list->end() - 3);
           },
           "is not that of exchange"},
      });
}

TEST_CASE("check: an exchange has its slot, its function and its kernels for itself") {
  refuses(three_calls,
          {
              {"two calls with one slot",
               [](Program& p) {
                 Node& n = node_of(p, "exchange", 1);
                 n.args[n.args.size() - 2] = part(p, 0);
               },
               "does not call what exchange 0"},
              {"the header as a slot",
               [](Program& p) {
                 Node& n = node_of(p, "exchange", 1);
                 n.args[n.args.size() - 2] = part(p, -1);
               },
               "are no slot and header"},
              {"a slot as the header",
               [](Program& p) { node_of(p, "exchange", 1).args.back() = part(p, 2); },
               "are no slot and header"},
              {"another function", [](Program& p) { p.exchanges[0].function = "q"; },
               "does not call what exchange 0 (q) says"},
              {"other arguments", [](Program& p) { p.exchanges[1].arguments.pop_back(); },
               "does not call what exchange 1"},
              {"other results", [](Program& p) { p.exchanges[2].results[0].dtype = DType::i32; },
               "does not call what exchange 2"},
              {"pure and not", [](Program& p) { p.exchanges[1].pure = true; },
               "takes the header as inout, but exchange 1 (a) is pure"},
              {"a break in a graph", [](Program& p) { p.exchanges[0].way = ir::HostWay::script; },
               "none of a graph's ways"},
              {"a node where there is one kernel",
               [](Program& p) { p.exchanges[0].way = ir::HostWay::node; }, "which are not a post"},
              {"a handshake by three kernels",
               [](Program& p) { p.exchanges[2].way = ir::HostWay::handshake; },
               "which are not one exchange"},
              {"an exchange that nobody makes",
               [](Program& p) {
                 p.exchanges.push_back(p.exchanges[0]);
                 Buffer& b = mailbox(p);
                 b.bytes += kMailboxPartBytes;
                 b.type.shape = Shape{Dim(b.bytes / 4)};
               },
               "is called by 0 nodes"},
              {"another call of a call_in",
               [](Program& p) {
                 Kernel& k = the(p, "exchange");
                 std::get<ir::HostAttr>(call_in(k).attrs).function = k.body.strings.intern("other");
               },
               "does not call what exchange 0"},
          });
}

TEST_CASE("check: the mailbox is one buffer of slots, which hold no values") {
  refuses(three_calls,
          {
              {"too small",
               [](Program& p) {
                 Buffer& b = mailbox(p);
                 b.bytes += 256;
                 b.type.shape = Shape{Dim(b.bytes / 4)};
               },
               "cannot be the mailbox"},
              {"no mailbox", [](Program& p) { mailbox(p).segment = Segment::output; },
               "takes the mailbox there"},
              {"two", [](Program& p) { p.buffers.push_back(mailbox(p)); }, "cannot be the mailbox"},
              {"a value", [](Program& p) { p.views[part(p, 0)].value = 1000; },
               "shows no part of the mailbox"},
              {"between two slots", [](Program& p) { p.views[part(p, 0)].offset += 32; },
               "shows no part of the mailbox"},
              {"a kernel that has no business with it",
               [](Program& p) {
                 Buffer& b = mailbox(p);
                 const auto at = static_cast<uint32_t>(&b - p.buffers.data());
                 Node& n = node_of(p, "row");
                 p.views.push_back({at, 0, p.views[n.args[0]].type, {1}, UINT32_MAX});
                 n.args[0] = static_cast<uint32_t>(p.views.size() - 1);
               },
               "takes memory there"},
              {"exchanges without a mailbox",
               [](Program& p) {
                 p = plan("%0: f32[4] = input \"x\"\n%1: f32[4] = exp %0\noutput \"y\" %1\n");
                 p.exchanges.emplace_back();
               },
               "no mailbox for 1 exchanges"},
          });
}

TEST_CASE("check: calls keep their order, and host nodes stay out of conditional bodies") {
  refuses(
      three_calls,
      {
          {"nothing orders two calls",
           [](Program& p) {
             Body& b = p.bodies[0];
             const auto post = static_cast<uint32_t>(&node_of(p, "post") - b.nodes.data());
             std::erase_if(b.edges, [&](const Edge& e) { return e.to == post; });
             b.lanes = 2;
             for (uint32_t n = 0, here = 0; n < b.nodes.size(); ++n) {
               if (n < post) continue;
               b.nodes[n].lane = 1;
               b.nodes[n].position = here++;
             }
           },
           "nothing orders"},
          {"a host node in a stream", [](Program& p) { p.bodies[0].stream = true; }, "is no graph"},
          {"a programmatic edge into a call",
           [](Program& p) {
             for (Edge& e : p.bodies[0].edges) {
               const Node& to = p.bodies[0].nodes[e.to];
               if (p.kernels[to.kernel].exchanges) e.kind = EdgeKind::programmatic;
             }
           },
           "but the kernel does not wait"},
          {"a programmatic edge out of a host node",
           [](Program& p) {
             the(p, "fetch").waits = true;
             for (Edge& e : p.bodies[0].edges) {
               const Node& from = p.bodies[0].nodes[e.from];
               if (p.kernels[from.kernel].code == Code::host) e.kind = EdgeKind::programmatic;
             }
           },
           "of a host node is programmatic"},
      });
  refuses(around_if,
          {
              {"the node does not say that a side calls",
               [](Program& p) {
                 Region& r = p.regions[0];
                 Node& n = *std::find_if(p.bodies[0].nodes.begin(), p.bodies[0].nodes.end(),
                                         [](const Node& x) { return x.kernel == kNoKernel; });
                 for (size_t s = 0; s < r.slots.size(); ++s) {
                   if (r.slots[s].name != "mailbox") continue;
                   r.slots[s].role = n.args[s] == r.args[s] ? Role::in : Role::out;
                 }
               },
               "which region 0 'pick (branch)' does not say"},
              {"nothing orders the call after the node",
               [](Program& p) {
                 Body& b = p.bodies[0];
                 const auto last = static_cast<uint32_t>(
                     std::find_if(b.nodes.begin(), b.nodes.end(),
                                  [](const Node& n) { return n.ops[0] == "last (host)"; }) -
                     b.nodes.begin());
                 std::erase_if(b.edges, [&](const Edge& e) { return e.to == last; });
                 const uint32_t lane = b.lanes++;
                 Node& n = b.nodes[last];
                 for (Node& other : b.nodes) {
                   if (other.lane == n.lane && other.position > n.position) --other.position;
                 }
                 n.lane = lane;
                 n.position = 0;
               },
               "nothing orders"},
          });

  // A host node in the body of the IF in place of the handshake.
  Program p = around_if();
  Program nodes = plan(R"(
    %0: f32[4] = input "x"
    %1: f32[4] = host %0 "no" {function="no", way=node}
    %2: f32[4] = exp %1
    output "y" %2
  )");
  const auto call = std::find_if(p.exchanges.begin(), p.exchanges.end(),
                                 [](const Exchange& e) { return e.function == "no"; });
  call->way = ir::HostWay::node;
  for (Body& b : p.bodies) {
    for (Node& n : b.nodes) {
      if (n.ops[0] != "no (host)") continue;
      n.kernel = static_cast<uint32_t>(p.kernels.size());
      n.args.erase(n.args.begin(), n.args.end() - 2);
      n.values = n.values_before = {UINT32_MAX, UINT32_MAX};
    }
  }
  p.kernels.push_back(the(nodes, "host_node"));
  CHECK(complaints(p).find("is a host node in the body of a conditional node") !=
        std::string::npos);
}
