#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontend/cli/bench_kernels.hpp"
#include "frontend/cli/cli.hpp"
#include "frontend/npy.hpp"
#include "runtime/measure.hpp"

namespace braid::cli {
namespace {

using runtime::Feed;
using runtime::Timing;
using Json = nlohmann::ordered_json;

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

/// The i-th file of each name is of the i-th set of inputs.
std::vector<std::vector<NamedFile>> in_sets(const std::vector<NamedFile>& files) {
  std::vector<std::vector<NamedFile>> sets;
  std::map<std::string, size_t> seen;
  for (const NamedFile& f : files) {
    const size_t at = seen[f.name]++;
    if (at == sets.size()) sets.emplace_back();
    sets[at].push_back(f);
  }
  return sets;
}

using Sets = std::vector<std::map<std::string, HostTensor>>;

/// The inputs of `count` sets, one at least: what has no file is random.
Sets input_sets(const Program& p, const std::vector<NamedFile>& files, size_t count,
                uint64_t seed) {
  std::vector<std::vector<NamedFile>> given = in_sets(files);
  given.resize(std::max(count, size_t{1}));
  Sets sets;
  for (size_t i = 0; i < given.size(); ++i) sets.push_back(make_inputs(p, given[i], seed + i));
  return sets;
}

bool same_bits(const std::map<std::string, HostTensor>& a,
               const std::map<std::string, HostTensor>& b) {
  return std::all_of(a.begin(), a.end(),
                     [&](const auto& x) { return x.second.bytes == b.at(x.first).bytes; });
}

/// Times of one way to launch; without them on the simulator.
struct Row {
  std::string name;
  std::optional<Timing> timing;
  std::string left_out;  // why it was not measured
};

class Measurement {
 public:
  Measurement(Executable& executable, Store store, const Sets& sets, const BenchArgs& a)
      : executable_(executable),
        state_(executable.program(), std::move(store)),
        inputs_(executable, sets),
        seconds_(a.seconds),
        dry_(a.dry) {}

  /// The outputs of every set of inputs, from the same state.
  Sets outputs(Feed feed, LaunchMode mode) {
    Sets all;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      state_.restore();
      all.push_back(inputs_.run(i, feed, mode));
    }
    state_.restore();
    return all;
  }

  Row time(const std::string& name, LaunchMode mode, Feed feed = Feed::same) {
    Row row{name, {}, {}};
    if (dry_) return row;
    inputs_.run(0, Feed::copy);  // now the first inputs are in the executable's own memory
    state_.restore();
    row.timing = runtime::measure(executable_, mode, seconds_,
                                  feed == Feed::same ? nullptr : &inputs_, feed);
    state_.restore();
    return row;
  }

  std::vector<runtime::KernelTime> kernels() {
    inputs_.run(0, Feed::copy);
    state_.restore();
    std::vector<runtime::KernelTime> times = runtime::time_kernels(executable_, seconds_);
    state_.restore();
    return times;
  }

 private:
  Executable& executable_;
  KeepState state_;
  runtime::InputSets inputs_;
  double seconds_;
  bool dry_;
};

/// Do all ways to launch give the same outputs?
struct Agreement {
  Sets outputs;         // of the first way
  std::string differs;  // the first that gives others; empty if none does

  void add(std::string_view way, const Sets& got) {
    for (size_t i = 0; i < got.size(); ++i) {
      if (same_bits(outputs[i], got[i]) || !differs.empty()) continue;
      differs = fmt::format("with set {} of inputs, '{}' gives other outputs than 'bind'", i, way);
    }
  }
};

/// A conditional node is no kernel: those of its bodies are.
size_t kernels_of(const Program& p) {
  size_t kernels = 0;
  for (const Body& b : p.bodies) {
    kernels += static_cast<size_t>(std::count_if(
        b.nodes.begin(), b.nodes.end(), [](const Node& n) { return n.kernel != kNoKernel; }));
  }
  return kernels;
}

Json json_of(const std::optional<Timing>& t) {
  if (!t) return nullptr;
  return {{"step_us", t->step_us}, {"latency_us", t->latency_us}, {"launch_us", t->launch_us}};
}

Json json_of(const Program& p, const Device& device, const std::vector<Row>& rows, size_t sets) {
  Json j{{"schema", "braid.bench/1"},
         {"name", p.name},
         {"device", device.name()},
         {"kernels", kernels_of(p)}};
  for (const Row& row : rows) {
    const bool fresh = row.name == "bind" || row.name == "copy";
    if (fresh) j["fresh"]["sets"] = sets;
    (fresh ? j["fresh"] : j)[row.name] = json_of(row.timing);
    if (!row.left_out.empty()) j[row.name + "_left_out"] = row.left_out;
  }
  return j;
}

std::string text_of(const Program& p, const Device& device, const std::vector<Row>& rows) {
  std::string out =
      fmt::format("{} on {}: {} kernels, medians in us\n", p.name, device.name(), kernels_of(p));
  out += fmt::format("{:<8} {:>10} {:>14} {:>12}\n", "", "step", "launch+sync", "CPU launch");
  for (const Row& row : rows) {
    if (!row.left_out.empty()) {
      out += fmt::format("{:<8} left out: {}\n", row.name, row.left_out);
    } else if (!row.timing) {
      out += fmt::format("{:<8} {:>10} {:>14} {:>12}\n", row.name, "-", "-", "-");
    } else {
      out += fmt::format("{:<8} {:>10.2f} {:>14.2f} {:>12.2f}\n", row.name, row.timing->step_us,
                         row.timing->latency_us, row.timing->launch_us);
    }
  }
  return out;
}

Device open_device(const BenchArgs& a) {
  if (a.dry) return Device::open("sim");
  try {
    return Device::open(a.device);
  } catch (const NoDevice& e) {
    // Without the driver's advice to simulate: there is nothing to measure then.
    throw NoDevice(fmt::format("bench needs a GPU: {}", e.reason()));
  }
}

}  // namespace

int bench_command(const BenchArgs& a, const GlobalArgs& g) {
  const std::vector<NamedNumber> scalars = scalar_values(a.scalars);
  for (const NamedNumber& s : scalars) {
    if (s.step) throw UsageError("bench: --set takes a number; the launches of 'run' have steps");
  }
  const std::vector<NamedFile> inputs = named_files(a.inputs, "--input", true);
  const std::vector<NamedFile> outputs = named_files(a.outputs, "--output", true);
  const Device device = open_device(a);
  auto [program, weights, origins] =
      load_program(a.plan, g, a.dry ? std::string() : device.target().arch,
                   inputs.empty() ? inputs : in_sets(inputs).front());
  require_names(inputs, names_of(program.inputs), "--input", "input");
  require_names(outputs, names_of(program.outputs), "--output", "output");
  if (weights) check_weights(weight_specs(program), *weights);
  const size_t given = in_sets(inputs).size(),
               wanted = std::max<size_t>(1, static_cast<size_t>(a.fresh));
  if (given > wanted) {
    throw UsageError(
        fmt::format("--input: {} files of one input, but {} set{} of inputs (--fresh {})", given,
                    wanted, wanted == 1 ? "" : "s", given));
  }
  const Sets sets = input_sets(program, inputs, static_cast<size_t>(a.fresh), a.seed);
  const std::vector<std::vector<NamedFile>> written = in_sets(outputs);
  if (written.size() > sets.size()) {
    throw UsageError(fmt::format("--output: {} files of one output, but {} set{} of inputs",
                                 written.size(), sets.size(), sets.size() == 1 ? "" : "s"));
  }

  if (!a.dry) compile_kernels(program, g);
  Store store(device);
  store.declare(program, a.seed);
  if (weights) load_weights(store, program, *weights);
  Messages messages(a.messages, g);
  Executable executable(std::move(program), store, host_functions(), messages.options());
  set_scalars(executable, scalars);
  const Program& p = executable.program();
  const std::optional<GraphOnly> alone = graph_only(p);

  std::vector<Row> rows;
  std::vector<runtime::KernelTime> kernels;
  Agreement agreement;
  {
    Measurement m(executable, store, sets, a);
    agreement.outputs = m.outputs(Feed::bind, LaunchMode::graph);
    agreement.add("copy", m.outputs(Feed::copy, LaunchMode::graph));
    rows.push_back(m.time("graph", LaunchMode::graph));
    if (a.fresh > 0) {
      rows.push_back(m.time("bind", LaunchMode::graph, Feed::bind));
      rows.push_back(m.time("copy", LaunchMode::graph, Feed::copy));
    }
    // Last: graphs of many small kernels take up to 7 % longer once the driver has launched the
    // kernels one by one (driver 580, H200), and who uses graphs does not.
    if (!alone) agreement.add("stream", m.outputs(Feed::bind, LaunchMode::stream));
    rows.push_back(alone ? Row{"stream", {}, alone->why} : m.time("stream", LaunchMode::stream));
    if (a.kernels) kernels = m.kernels();
    agreement.add("bind, measured", m.outputs(Feed::bind, LaunchMode::graph));
  }
  messages.finish(executable);
  if (a.json) {
    Json j = json_of(p, device, rows, sets.size());
    if (a.kernels) j["each_kernel"] = kernels_json(p, kernels, !a.dry);
    j["differs"] = agreement.differs;
    j["messages"] = {{"delivered", messages.delivered()}, {"lost", executable.dropped_messages()}};
    print_out(j.dump(2) + "\n");
  } else {
    print_out(text_of(p, device, rows));
    if (a.dry && agreement.differs.empty()) print_out("all ways to launch give the same bits\n");
    if (a.kernels) print_out(kernels_text(p, kernels, !a.dry));
  }
  for (size_t i = 0; i < written.size(); ++i) {
    for (const NamedFile& f : written[i]) write_npy(f.file, agreement.outputs[i].at(f.name));
  }
  if (agreement.differs.empty()) return kOk;
  say(fmt::format("error: {}\n", agreement.differs));
  return kMismatch;
}

}  // namespace braid::cli
