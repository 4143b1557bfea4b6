// The command line: one struct of arguments and one function per command. main.cpp alone knows
// CLI11. Commands write their result to stdout and everything else to stderr.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "frontend/weights.hpp"
#include "ir/graph.hpp"
#include "ir/program.hpp"

namespace braid::cli {

/// Documented in README: what a script may rely on.
enum ExitCode : int {
  kOk = 0,
  kModel = 1,     // the model or its data is wrong; diagnostics were printed
  kUsage = 2,     // the command line is wrong
  kNoDevice = 3,  // no usable driver, device or NVRTC
  kCuda = 4,      // a driver or NVRTC call failed
  kMismatch = 5,  // run --expect, diff, or bench whose ways to launch disagree
  kInterrupted = 130,
  kInternal = 70,
};

/// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ctrl-C while kernels were compiled: exit code 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted; nothing was written") {}
};

/// While it lives, Ctrl-C is remembered instead of ending the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool seen_signal();

 private:
  struct sigaction before_;
};

struct GlobalArgs {
  std::string color = "auto";
  bool json_diagnostics = false;
  bool quiet = false;
  size_t max_errors = kMaxErrorsShown;  // 0 = all
};

/// Where a plan comes from and what shapes it.
struct PlanArgs {
  std::string file;
  std::string target;               // empty: the model's [compile], else the default
  int streams = 0;                  // 0: likewise
  std::vector<std::string> dims;    // "B=16"
  std::vector<std::string> dtypes;  // "T=bf16"
  std::string weights;              // empty: the model's [weights], if any
  std::string math;                 // empty: likewise
  std::string dots;                 // empty: likewise
  std::optional<bool> fuse, chain, group, reuse, reduce, split, pdl, simplify,
      single_graph;                    // nothing: likewise
  std::string on_break, memory_limit;  // empty: likewise
  std::string branches, loops, host;   // empty: likewise
  std::optional<int64_t> unroll, unroll_limit;
  bool force_lanes = false;
  bool verify = false;
  std::string dump_dir;
};

struct CompileArgs {
  PlanArgs plan;
  std::string output;
};
struct InspectArgs {
  PlanArgs plan;
  std::string format = "text";
  std::string show;  // sections of the report; empty: the usual ones
  std::optional<bool> fold;
  bool source = false;
  bool compare = false;
};
struct OptArgs {
  PlanArgs plan;
  std::string until;        // last pass to run
  std::string print_after;  // a pass, or "all"
  bool list = false, time = false;
};
struct RunArgs {
  PlanArgs plan;
  std::string device = "auto";
  std::vector<std::string> inputs, params, outputs, expects;  // NAME=@FILE.npy
  std::vector<std::string> scalars;                           // NAME=NUMBER
  double rtol = 1e-4, atol = 1e-6;
  double cosine = 0;  // 0: compare elements
  uint64_t seed = 1;
  int64_t steps = 1;
  bool stream = false;
  std::string messages = "show";
};
struct BenchArgs {
  PlanArgs plan;
  std::string device = "0";
  std::vector<std::string> inputs, outputs;  // NAME=@FILE.npy, the i-th of a name for set i
  std::vector<std::string> scalars;          // NAME=NUMBER
  int64_t fresh = 0;                         // sets of inputs; 0: only what stays bound is measured
  uint64_t seed = 1;
  double seconds = 1.0;
  bool json = false, dry = false, kernels = false;
  std::string messages = "count";
};

struct ExplainArgs {
  std::string what;  // a code, or something in the plan of the model; empty: list the codes
  PlanArgs plan;     // file empty: `what` is a code
};
struct DiffArgs {
  PlanArgs plan;  // of both; its file is the first
  std::string other;
  std::string format = "text";
};

int check_command(const PlanArgs& a, const GlobalArgs& g);
int compile_command(const CompileArgs& a, const GlobalArgs& g);
int inspect_command(const InspectArgs& a, const GlobalArgs& g);
int opt_command(const OptArgs& a, const GlobalArgs& g);
int run_command(const RunArgs& a, const GlobalArgs& g);
int bench_command(const BenchArgs& a, const GlobalArgs& g);
int env_command(const GlobalArgs& g);
int explain_command(const ExplainArgs& a, const GlobalArgs& g);
int diff_command(const DiffArgs& a, const GlobalArgs& g);

struct Settings {
  Options options;
  std::string origins;              // "math=tf32 (BRAID_MATH), ..": what is no default
  bool target_from_caller = false;  // by a flag or variable, so that a device does not change it
};
/// The strongest of the file, BRAID_* variables and flags. Throws UsageError.
Settings settings_of(const PlanArgs& a, const TomlCompile& file = {});

struct Model {
  ir::Graph graph;
  std::optional<WeightsFrom> weights;  // by --weights, else by the file
  Settings settings;
};
/// A model of any kind as a graph: .toml, .bir, or standard input ("-": .bir if it starts with
/// "bir", else TOML). Shows its warnings.
Model load_graph(const PlanArgs& a, const GlobalArgs& g);
bool is_program_file(const std::string& file);
struct Plan {
  Program program;
  std::optional<WeightsFrom> weights;
  std::string origins;  // as in Settings; empty for a .braid file
};
/// Compiles; warns of breaks where the settings say so.
Plan plan_of(Model model, const GlobalArgs& g);
/// "x=@x.npy" taken apart.
struct NamedFile {
  std::string name, file;
};
/// A .braid file, checked; or a model compiled for `target` (empty: as flags and file say). Dims
/// that no flag gives come from the shapes of `inputs`, and a note says so.
Plan load_program(const PlanArgs& a, const GlobalArgs& g, std::string_view target = {},
                  const std::vector<NamedFile>& inputs = {});
/// Adds to `dims` the symbols that are extents of these files. Returns "dims from inputs: B=3" for
/// those that are no default, or "". Throws Error E0802 where files, or a file and `dims`, differ.
std::string dims_from_inputs(const ir::Graph& graph, const std::vector<NamedFile>& inputs,
                             DimTable::Bindings& dims);
/// NVRTC with the disk cache and progress on a terminal. Says on stderr what was compiled. Throws
/// Interrupted.
void compile_kernels(Program& p, const GlobalArgs& g);

std::vector<std::string> names_of(const std::vector<Binding>& bindings);
/// "x=@x.npy" -> {"x", "x.npy"}. Throws UsageError, naming the flag, for another form, and for a
/// name that is given twice unless it may be `repeated`.
std::vector<NamedFile> named_files(const std::vector<std::string>& args, std::string_view flag,
                                   bool repeated = false);
/// Throws UsageError with a suggestion unless every name is among `known`.
void require_names(const std::vector<NamedFile>& files, const std::vector<std::string>& known,
                   std::string_view flag, std::string_view what);
/// A tensor from a .npy, converted to `type`'s dtype if the file's is of the same kind (f4 to
/// bf16); another shape is an Error.
HostTensor load_tensor(const std::string& file, const TensorType& type, std::string_view name);
/// The tensors of a program's inputs: from files where given, else random by seed and name.
std::map<std::string, HostTensor> make_inputs(const Program& p, const std::vector<NamedFile>& files,
                                              uint64_t seed);

/// What a simulated program takes of the host's memory at least.
struct HostNeeds {
  double bytes = 0;
  std::string text;  // "'m' needs 4 GiB; its largest tensor is .."
};
HostNeeds host_needs(const Program& p);
/// Throws Error E0804 if the host has less memory than that.
void require_host_memory(const HostNeeds& needs);
[[noreturn]] void out_of_memory(const HostNeeds& needs);

/// "pos=3" -> {"pos", 3}; also true, false and anything that strtod takes. "pos=step" is the number
/// of the launch, from 0. Throws UsageError.
struct NamedNumber {
  std::string name;
  ScalarValue value;
  bool step = false;
};
std::vector<NamedNumber> scalar_values(const std::vector<std::string>& args);
/// Sets runtime scalars for launch `step`. Throws UsageError for one that the program lacks.
void set_scalars(Executable& e, const std::vector<NamedNumber>& values, int64_t step = 0);

/// Where the messages of launches go: "show" on stderr, "count", or "off". Lives as long as the
/// executable.
class Messages {
 public:
  Messages(std::string mode, const GlobalArgs& g) : mode_(std::move(mode)), global_(g) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  MessageOptions options();
  uint64_t delivered() const { return delivered_; }
  /// Says on stderr what was counted and lost. Waits for all launches.
  void finish(const Executable& e) const;

 private:
  std::string mode_;
  const GlobalArgs& global_;
  std::atomic<uint64_t> delivered_ = 0;  // in the executable's thread
};

/// What the tool registers for host ops: `identity`, and `print` to stderr.
HostFunctions host_functions();
/// Where ops stand, by what a Program says of it, which lacks the folder and the columns' end.
using Places = std::map<std::string, Place>;
Places places_of(const ir::Graph& graph);
/// One warning for each op outside graphs.
void warn_of_breaks(const Program& p, const Places& places, const GlobalArgs& g);

void print_out(std::string_view text);  // to stdout; throws Error if it cannot be written
void say(std::string_view text);        // to stderr; that it is closed or full is no failure
void note(const GlobalArgs& g, std::string_view line);  // by say(), unless quiet
/// To stderr, as text or JSON.
void show(const GlobalArgs& g, const std::vector<Diagnostic>& diagnostics);
bool stderr_colour(const GlobalArgs& g);

}  // namespace braid::cli
