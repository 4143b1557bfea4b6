#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontend/cli/cli.hpp"
#include "runtime/measure.hpp"

namespace braid::cli {
namespace {

/// Remembers the params that a program writes, to put them back.
class KeepState {
 public:
  KeepState(const Program& p, Store store) : store_(std::move(store)) {
    for (const ParamBinding& b : p.params) {
      if (b.written) saved_.emplace_back(b.name, store_.get(b.name));
    }
  }
  void restore() {
    for (const auto& [name, value] : saved_) store_.set(name, value);
  }

 private:
  Store store_;
  std::vector<std::pair<std::string, HostTensor>> saved_;
};

}  // namespace

int bench_command(const BenchArgs& a, const GlobalArgs& g) {
  const std::vector<NamedNumber> scalars = scalar_values(a.scalars);
  for (const NamedNumber& s : scalars) {
    if (s.step) throw UsageError("bench: --set takes a number; the launches of 'run' have steps");
  }
  std::optional<Device> found;
  try {
    found = Device::open(a.device);
  } catch (const NoDevice& e) {
    // Without the driver's advice to simulate: there is nothing to measure then.
    throw NoDevice(fmt::format("bench needs a GPU: {}", e.reason()));
  }
  const Device& device = *found;
  auto [program, weights, origins] = load_program(a.plan, g, device.target().arch);
  if (weights) check_weights(weight_specs(program), *weights);
  compile_kernels(program, g);
  Store store(device);
  store.declare(program, a.seed);
  if (weights) load_weights(store, program, *weights);
  Messages messages(a.messages, g);
  Executable executable(std::move(program), store, host_functions(), messages.options());
  set_scalars(executable, scalars);
  const Program& p = executable.program();
  for (const auto& [name, value] : make_inputs(p, {}, a.seed)) executable.write(name, value);

  KeepState state(p, store);
  const runtime::Timing graph = runtime::measure(executable, LaunchMode::graph, a.seconds);
  // The kernels of conditional nodes cannot be launched one by one.
  std::optional<runtime::Timing> stream;
  const bool nodes = std::any_of(p.regions.begin(), p.regions.end(),
                                 [](const Region& r) { return r.kind == Region::Kind::node; });
  if (!nodes) stream = runtime::measure(executable, LaunchMode::stream, a.seconds);
  state.restore();
  messages.finish(executable);

  size_t kernels = 0;
  for (const Body& b : p.bodies) kernels += b.nodes.size();
  if (a.json) {
    const auto timing = [](const runtime::Timing& t) {
      return nlohmann::ordered_json{
          {"step_us", t.step_us}, {"latency_us", t.latency_us}, {"launch_us", t.launch_us}};
    };
    nlohmann::ordered_json j{
        {"schema", "braid.bench/1"},
        {"name", p.name},
        {"device", device.name()},
        {"kernels", kernels},
        {"graph", timing(graph)},
        {"messages",
         {{"delivered", messages.delivered()}, {"lost", executable.dropped_messages()}}}};
    if (stream) j["stream"] = timing(*stream);
    print_out(j.dump(2) + "\n");
    return kOk;
  }
  std::string out =
      fmt::format("{} on {}: {} kernels, medians in us\n", p.name, device.name(), kernels);
  out += fmt::format("{:<8} {:>10} {:>14} {:>12}\n", "", "step", "launch+sync", "CPU launch");
  const auto row = [&](std::string_view name, const runtime::Timing& t) {
    out += fmt::format("{:<8} {:>10.2f} {:>14.2f} {:>12.2f}\n", name, t.step_us, t.latency_us,
                       t.launch_us);
  };
  row("graph", graph);
  if (stream) row("stream", *stream);
  print_out(out);
  return kOk;
}

}  // namespace braid::cli
