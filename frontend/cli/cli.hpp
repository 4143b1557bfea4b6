// The command line: one struct of arguments and one function per command. main.cpp alone knows
// CLI11. Commands write their result to stdout and everything else to stderr.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/compile.hpp"
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
  kMismatch = 5,  // run --expect
  kInternal = 70,
};

/// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct GlobalArgs {
  std::string color = "auto";
  bool json_diagnostics = false;
  bool quiet = false;
};

/// Where a plan comes from and what shapes it.
struct PlanArgs {
  std::string file;
  std::string target;               // empty: the model's [compile], else the default
  int streams = 0;                  // 0: likewise
  std::vector<std::string> dims;    // "B=16"
  std::vector<std::string> dtypes;  // "T=bf16"
  std::string weights;              // empty: the model's [weights], if any
  bool no_fuse = false, no_reuse = false, no_reduce = false, no_simplify = false;
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
  bool source = false;
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
  double rtol = 1e-4, atol = 1e-6;
  double cosine = 0;  // 0: compare elements
  uint64_t seed = 1;
  int64_t steps = 1;
  bool stream = false;
};
struct BenchArgs {
  PlanArgs plan;
  std::string device = "0";
  uint64_t seed = 1;
  double seconds = 1.0;
  bool json = false;
};

int check_command(const PlanArgs& a, const GlobalArgs& g);
int compile_command(const CompileArgs& a, const GlobalArgs& g);
int inspect_command(const InspectArgs& a, const GlobalArgs& g);
int opt_command(const OptArgs& a, const GlobalArgs& g);
int run_command(const RunArgs& a, const GlobalArgs& g);
int bench_command(const BenchArgs& a, const GlobalArgs& g);
int env_command(const GlobalArgs& g);

struct Model {
  ir::Graph graph;
  std::optional<WeightsFrom> weights;  // by --weights, else by the file
};
/// A model of any kind as a graph: .toml, .bir, or standard input ("-": .bir if it starts with
/// "bir", else TOML). Applies the file's own [compile] settings to `options` where no flag did.
Model load_graph(const PlanArgs& a, Options& options);
/// Options from the flags alone.
Options options_of(const PlanArgs& a);
bool is_program_file(const std::string& file);
struct Plan {
  Program program;
  std::optional<WeightsFrom> weights;
};
/// A .braid file, checked; or a model compiled for `target` (empty: as flags and file say).
Plan load_program(const PlanArgs& a, const GlobalArgs& g, std::string_view target = {});
/// NVRTC with the disk cache and progress on a terminal. Says on stderr what was compiled.
void compile_kernels(Program& p, const GlobalArgs& g);

/// "x=@x.npy" -> {"x", "x.npy"}. Throws UsageError, naming the flag, for another form.
struct NamedFile {
  std::string name, file;
};
std::vector<NamedFile> named_files(const std::vector<std::string>& args, std::string_view flag);
/// Throws UsageError with a suggestion unless every name is among `known`.
void require_names(const std::vector<NamedFile>& files, const std::vector<std::string>& known,
                   std::string_view flag, std::string_view what);
/// A tensor from a .npy, converted to `type`'s dtype if the file's is of the same kind (f4 to
/// bf16); another shape is an Error.
HostTensor load_tensor(const std::string& file, const TensorType& type, std::string_view name);
/// The tensors of a program's inputs: from files where given, else random by seed and name.
std::map<std::string, HostTensor> make_inputs(const Program& p, const std::vector<NamedFile>& files,
                                              uint64_t seed);

void print_out(std::string_view text);  // to stdout; throws Error if it cannot be written
void say(std::string_view text);        // to stderr; that it is closed or full is no failure
void note(const GlobalArgs& g, std::string_view line);  // by say(), unless quiet
bool stderr_colour(const GlobalArgs& g);

}  // namespace braid::cli
