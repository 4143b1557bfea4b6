// A graph whose loops and branches send messages, and whether a device tells the host what the
// interpreter says.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "runtime/executable.hpp"

namespace braid {

struct MessageLowering {
  const char *loop, *branch;
};
inline constexpr MessageLowering kMessageLowerings[] = {
    {"auto", "auto"},   {"unroll", "select"}, {"unroll", "predicate"}, {"unroll", "node"},
    {"node", "select"}, {"node", "node"},     {"host", "host"},        {"node", "predicate"},
    {"host", "node"},   {"host", "predicate"}};

/// Up to 9 times x = x / 2 + b, as long as its sum stays above a bound. Prints the sum in every
/// iteration, x itself in every other one, and an inner loop's counter; checks that x is positive;
/// the last sum is an item.
inline std::string message_model(std::string_view loop, std::string_view branch) {
  return fmt::format(R"(bir 2
graph "g" {{
  %0: f32[40] = input "x"
  %1: f32[40] = input "b"
  %2: f32[] = input "bound"
  %3: state i32[16] = param "ring" {{sort=ring}}
  %4: state i32[16] = send %3, %0 "at first" {{message=print, text="x0"}}
  %5: f32[40], %6: state i32[16] = loop %0, %1, %2, %4 "halve" {{carried=1, limit=9, lowering={0}}} {{
    body "next" {{
      %0: i32[] = input "i"
      %1: f32[40] = input "x"
      %2: f32[40] = input "b"
      %3: f32[] = input "bound"
      %4: state i32[16] = param "ring" {{sort=ring}}
      %5: f32[] = constant 0.5
      %6: f32[40] = broadcast %5 {{axes=[]}}
      %7: f32[40] = mul %1, %6
      %8: f32[40] = add %7, %2
      %9: f32[] = reduce_add %8 {{axes=[0]}}
      %10: state i32[16] = send %4, %9, %0 "sum" {{message=print, text="sum", id=1}}
      %11: f32[40] = sub %8, %8
      %12: b1[40] = lt %8, %11
      %13: i32[40] = cast %12
      %14: i32[] = reduce_add %13 {{axes=[0]}}
      %15: state i32[16] = send %10, %14, %0 "positive" {{message=check, text="positive", id=2}}
      %16: i32[] = constant 2
      %17: i32[] = mod %0, %16
      %18: b1[] = cast %17
      %19: state i32[16] = branch %18, %8, %0, %15 "odd" {{lowering={1}}} {{
        body "else" {{
          %0: f32[40] = input "x"
          %1: i32[] = input "i"
          %2: state i32[16] = param "ring" {{sort=ring}}
        }}
        body "then" {{
          %0: f32[40] = input "x"
          %1: i32[] = input "i"
          %2: state i32[16] = param "ring" {{sort=ring}}
          %3: state i32[16] = send %2, %0, %1 "x" {{message=print, text="x", id=3}}
        }}
      }}
      %20: state i32[16] = loop %0, %19 "inner" {{carried=0, limit=3, lowering={0}}} {{
        body "again" {{
          %0: i32[] = input "k"
          %1: i32[] = input "i"
          %2: state i32[16] = param "ring" {{sort=ring}}
          %3: i32[] = mul %0, %1
          %4: state i32[16] = send %2, %3, %1, %0 "k" {{message=print, text="k", id=4}}
        }}
      }}
      output "x" %8
    }}
    condition "more" {{
      %0: i32[] = input "i"
      %1: f32[40] = input "x"
      %2: f32[40] = input "b"
      %3: f32[] = input "bound"
      %4: state i32[16] = param "ring" {{sort=ring}}
      %5: f32[] = reduce_add %1 {{axes=[0]}}
      %6: b1[] = gt %5, %3
      output "more" %6
    }}
  }}
  %7: f32[] = reduce_add %5 {{axes=[0]}}
  %8: state i32[16] = send %6, %7 "last" {{message=item, text="last", id=5}}
  output "x" %5
}}
)",
                     loop, branch);
}

/// Launches the model's Program and compares its result and every message. Empty if all is right.
inline std::string wrong_messages(const ir::Graph& graph, Program program, const Device& device) {
  std::vector<Message> got;
  MessageOptions messages;
  messages.on_message = [&](const Message& m) { got.push_back(m); };
  Executable e(std::move(program), Store(device), {}, messages);
  for (uint64_t launch = 0; launch < 6; ++launch) {
    const bool fails = launch == 5;
    ir::TensorMap wide, params;
    ir::Observed seen;
    for (const std::string name : {"x", "b", "bound"}) {
      const TensorType type{DType::f32, name == "bound" ? Shape{} : Shape::of({{40}})};
      HostTensor t = random_tensor(type, launch + 1, name);
      // The sum falls from about 200 to about 80.
      for (int64_t i = 0; i < t.numel(); ++i) {
        t.set(i, name == "bound" ? 60 + 15 * static_cast<double>(launch)
                                 : std::abs(t.at(i)) + (name == "x" ? 4 : 0.2));
      }
      if (fails && name == "x") t.set(7, -9);
      wide[name] = widen(t);
      e.write(name, t);
    }
    const ir::TensorMap want = ir::interpret(graph, wide, params, ir::Rounding::wide, {}, &seen);
    got.clear();
    Ticket ticket = e.launch();
    std::string code;
    try {
      ticket.wait();
    } catch (const Error& error) {
      code = error.diagnostics()[0].code;
    }
    const std::string at = fmt::format("launch {}", launch);
    if (code != (fails ? "E0860" : "")) return fmt::format("{}: error '{}'", at, code);
    if (relative_error(e.read("x"), want.at("x")) > 1e-5) return at + ": x is wrong";
    if (got.size() != seen.messages.size() || got.size() < 6) {
      return fmt::format("{}: {} messages, not {}", at, got.size(), seen.messages.size());
    }
    for (size_t m = 0; m < got.size(); ++m) {
      const Message& g = got[m];
      const ir::Message& w = seen.messages[m];
      const double allowed = is_float(g.value.type.dtype) ? 1e-5 : 0;
      if (g.kind != w.kind || g.text != w.text || g.iterations != w.iterations ||
          g.launch != launch || g.dropped_before != 0 ||
          relative_error(g.value, w.value) > allowed) {
        return fmt::format("{}: message {} is {}", at, m, to_string(g));
      }
    }
    if (relative_error(ticket.item("last"), seen.messages.back().value) > 1e-5) {
      return at + ": the item is wrong";
    }
  }
  const uint64_t dropped = e.dropped_messages();
  return dropped == 0 ? "" : fmt::format("{} messages were dropped", dropped);
}

}  // namespace braid
