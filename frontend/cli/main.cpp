#include <fcntl.h>
#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <sstream>

#include "frontend/cli/cli.hpp"

namespace braid::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  braid run examples/mlp.toml                      random inputs; simulates without a GPU
  braid run m.toml --input x=@x.npy --expect y=@y.npy
  braid inspect m.toml                             graphs, breaks, streams, memory
  braid explain block3/mlp/w1 m.toml               why it is where it is
  braid inspect m.toml --format=dot | dot -Tsvg > m.svg
  braid compile m.toml -o m.braid && braid bench m.braid

Exit codes: 0 fine, 1 the model or its data is wrong, 2 wrong usage, 3 no usable driver, device or
NVRTC, 4 a CUDA or NVRTC call failed, 5 --expect did not match, diff found a difference or ways that
bench launches by disagree, 70 internal error, 130 interrupted while kernels were compiled.)";

/// The model, and what it leaves open.
void add_model(CLI::App& c, PlanArgs& a, bool file_needed = true) {
  CLI::Option* file = c.add_option("model", a.file, "a .toml, .bir or .braid file, or - for stdin");
  if (file_needed) file->required();
  c.add_option("--dim", a.dims,
               "value of a symbolic dim: --dim B=16 (repeatable; run takes others from --input)")
      ->type_name("NAME=N")
      ->take_all()
      ->allow_extra_args(false);
  c.add_option("--dtype", a.dtypes, "value of a name in [dtypes]: --dtype T=bf16 (repeatable)")
      ->type_name("NAME=DTYPE")
      ->take_all()
      ->allow_extra_args(false);
}

void add_switch(CLI::App& c, const std::string& name, std::optional<bool>& to, const char* what) {
  c.add_flag_function(
      fmt::format("--{0},!--no-{0}", name), [&to](std::int64_t n) { to = n > 0; }, what);
}

void add_plan(CLI::App& c, PlanArgs& a, bool file_needed = true) {
  add_model(c, a, file_needed);
  c.add_option("--target", a.target, "what to compile for: sm_90 (default), sm_80, ...");
  c.add_option("--streams", a.streams, "at most this many kernels side by side (default 8)")
      ->check(CLI::Range(1, kMaxStreams));
  c.add_option("--dots", a.dots, "who computes matmuls: auto (default), braid or cublaslt")
      ->check(CLI::IsMember({"auto", "braid", "cublaslt"}));
  c.add_option("--math", a.math, "how f32 matmuls compute: strict (default) or tf32")
      ->check(CLI::IsMember({"strict", "tf32"}));
  add_switch(c, "simplify", a.simplify, "rewrite the graph, or keep it as written");
  add_switch(c, "fuse", a.fuse, "several ops in one kernel, or one kernel per op");
  add_switch(c, "chain", a.chain,
             "products and reductions one after the other in one kernel, and concats in what "
             "they are read by, or one in each");
  add_switch(c, "group", a.group,
             "like kernels that are ready together in one launch, or each alone");
  c.add_flag("--force-lanes", a.force_lanes,
             "use the streams even where one chain is predicted to be faster, to measure");
  add_switch(c, "reuse", a.reuse, "temporaries share memory, or each has its own");
  add_switch(c, "reduce", a.reduce, "drop edges that others imply, or keep them");
  add_switch(c, "split", a.split, "long reductions by many blocks in two steps, or by one each");
  add_switch(c, "pdl", a.pdl,
             "kernels of one wave start before those that they wait for end, or after");
  c.add_option("--memory-limit", a.memory_limit,
               "the most bytes of temporaries, at the price of streams: 1000000, 64MiB")
      ->type_name("BYTES");
  c.add_option("--branches", a.branches,
               "how branches are carried out that ask for nothing themselves: auto (default, by "
               "price), select, predicate, node or host")
      ->check(CLI::IsMember({"auto", "select", "predicate", "node", "host"}));
  c.add_option("--loops", a.loops, "likewise loops: auto (default), unroll, node or host")
      ->check(CLI::IsMember({"auto", "unroll", "node", "host"}));
  c.add_option("--host", a.host,
               "how host functions are called that ask for nothing themselves: auto (default, by "
               "price), handshake, break or node")
      ->check(CLI::IsMember({"auto", "handshake", "break", "node"}));
  c.add_option("--unroll", a.unroll,
               "copies of the body in one iteration of a WHILE node (default: by price)")
      ->check(CLI::Range(1, kMaxUnroll));
  c.add_option("--unroll-limit", a.unroll_limit,
               "kernels that a loop may become when it is unrolled by price (default 4096)")
      ->check(CLI::Range(int64_t{0}, kMaxUnrolledKernels));
  c.add_option("--on-break", a.on_break,
               "what to do where an op stands outside graphs: allow (default), warn or error")
      ->check(CLI::IsMember({"allow", "warn", "error"}));
  add_switch(c, "require-single-graph", a.single_graph,
             "fail, and say which ops are in the way, unless one graph holds everything");
  c.add_flag("--verify", a.verify, "check every pass and the finished plan");
  c.add_option("--dump-dir", a.dump_dir, "write every stage into this folder");
}

void add_weights(CLI::App& c, PlanArgs& a) {
  c.add_option("--weights", a.weights,
               "a .safetensors file or a folder of .npy (default: the model's [weights])")
      ->type_name("PATH");
}

void add_messages(CLI::App& c, std::string& to) {
  c.add_option(
       "--messages", to,
       fmt::format("prints, items and checks of the model: show, count or off (default {})", to))
      ->check(CLI::IsMember({"show", "count", "off"}));
}

/// For CLI11, which takes -1 for an unsigned number: empty if the text is one, else what is wrong.
std::string not_a_number(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::string() : fmt::format("'{}' is not a number, 0 or above", text);
}

CLI::Option* add_named(CLI::App& c, const char* flag, std::vector<std::string>& to,
                       const char* what) {
  return c.add_option(flag, to, what)
      ->type_name("NAME=@FILE.npy")
      ->take_all()
      ->allow_extra_args(false);
}

void add_set(CLI::App& c, std::vector<std::string>& to, const char* what) {
  c.add_option("--set", to, what)->type_name("NAME=NUMBER")->take_all()->allow_extra_args(false);
}

std::string with_hint(const std::string& what, const std::string& word,
                      const std::vector<std::string>& known) {
  const std::string hint = suggest(word, known);
  return fmt::format("unknown {} '{}'{}{}", what, word, hint.empty() ? "" : "; ", hint);
}

const CLI::Option* find_flag(const std::vector<const CLI::App*>& apps, const std::string& flag,
                             std::vector<std::string>& known) {
  const CLI::Option* found = nullptr;
  for (const CLI::App* app : apps) {
    for (const CLI::Option* o : app->get_options(nullptr)) {
      for (const std::string& name : o->get_lnames()) {
        known.push_back("--" + name);
        if (known.back() == flag) found = o;
      }
    }
  }
  return found;
}

/// Throws UsageError if other commands have this flag.
void refuse_flag_of_others(const CLI::App& root, const CLI::App& command, const std::string& flag) {
  std::string others;
  for (const CLI::App* c : root.get_subcommands(nullptr)) {
    std::vector<std::string> ignored;
    if (find_flag({c}, flag, ignored)) others += " " + c->get_name();
  }
  if (others.empty()) return;
  throw UsageError(fmt::format("'{}' has no option {}, but these have: {}", command.get_name(),
                               flag, others.substr(1)));
}

/// CLI11 reports a mistyped flag as a stray positional; this says what was meant.
void refuse_unknown_words(const CLI::App& root, int argc, char** argv) {
  std::vector<const CLI::App*> apps{&root};
  std::vector<std::string> commands;
  for (const CLI::App* c : root.get_subcommands(nullptr)) commands.push_back(c->get_name());
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--") return;
    if (arg.size() > 2 && arg.rfind("--", 0) == 0) {
      const size_t eq = arg.find('=');
      std::vector<std::string> known;
      const CLI::Option* flag = find_flag(apps, arg.substr(0, eq), known);
      if (!flag && apps.size() > 1) refuse_flag_of_others(root, *apps[1], arg.substr(0, eq));
      if (!flag) throw UsageError(with_hint("option", arg.substr(0, eq), known));
      if (eq == std::string::npos && flag->get_items_expected_min() > 0) ++i;  // its value
    } else if (apps.size() == 1 && !arg.empty() && arg[0] != '-') {
      const auto it = std::find(commands.begin(), commands.end(), arg);
      if (it == commands.end()) throw UsageError(with_hint("command", arg, commands));
      apps.push_back(root.get_subcommands(nullptr)[static_cast<size_t>(it - commands.begin())]);
    }
  }
}

struct Arguments {
  GlobalArgs global;
  PlanArgs check;
  CompileArgs compile;
  InspectArgs inspect;
  OptArgs opt;
  RunArgs run;
  BenchArgs bench;
  ExplainArgs explain;
  DiffArgs diff;
  std::string help;  // the command to help with
};

int help(const std::string& name);

void add_commands(CLI::App& app, Arguments& a, std::function<int()>& chosen) {
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kExamples);
  app.set_version_flag("--version", "braid " BRAID_VERSION);
  app.add_option("--color", a.global.color, "colour on stderr: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option_function<std::string>(
         "--diagnostics", [&](const std::string& s) { a.global.json_diagnostics = s == "json"; },
         "text or json (one object a line)")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_option("--max-errors", a.global.max_errors,
                 "show at most this many errors and count the rest (default 20; 0: all)")
      ->type_name("N")
      ->check(not_a_number);
  app.add_flag("-q,--quiet", a.global.quiet, "no notes on stderr");

  const auto command = [&](const char* name, const char* what, auto run) {
    CLI::App* c = app.add_subcommand(name, what);
    c->callback([&chosen, run] { chosen = run; });
    return c;
  };

  CLI::App* c = command("check", "parse, expand, infer shapes, compare the weights; no kernels",
                        [&a] { return check_command(a.check, a.global); });
  add_model(*c, a.check);
  add_weights(*c, a.check);

  c = command("compile", "everything up to cubins, into one .braid file",
              [&a] { return compile_command(a.compile, a.global); });
  add_plan(*c, a.compile.plan);
  c->add_option("-o,--output", a.compile.output, "the .braid file to write")->required();

  c = command("inspect", "report on the plan: graphs, breaks, streams, memory; or all of it",
              [&a] { return inspect_command(a.inspect, a.global); });
  add_plan(*c, a.inspect.plan);
  c->add_option("--show", a.inspect.show,
                "sections: partitions, breaks, streams, memory (these four by default), edges, "
                "kernels; all: also every node, argument and buffer")
      ->type_name("LIST");
  c->add_option("--format", a.inspect.format,
                "text, json (the report), program (the whole plan as JSON), dot, html, or cpp (a "
                "program of its own: the plan's CUDA calls, with its cubins)")
      ->check(CLI::IsMember({"text", "json", "program", "dot", "html", "cpp"}));
  add_switch(*c, "fold", a.inspect.fold,
             "draw the copies of a repeated block once (default: above 300 nodes)");
  c->add_flag("--source", a.inspect.source, "with the kernels' CUDA text (text and program)");
  c->add_flag(
      "--compare", a.inspect.compare,
      "with the graphs that vLLM's and Inductor's ways to cut would make (a model's report)");

  c = command("diff", "how two plans differ: graphs, kernels, streams, edges, memory, times",
              [&a] { return diff_command(a.diff, a.global); });
  add_plan(*c, a.diff.plan);
  c->add_option("other", a.diff.other, "the plan to compare with")->required();
  c->add_option("--format", a.diff.format, "text or json")->check(CLI::IsMember({"text", "json"}));

  c = command("opt", "run the passes and print what they made",
              [&a] { return opt_command(a.opt, a.global); });
  add_plan(*c, a.opt.plan, false);
  c->add_option("--until", a.opt.until, "stop after this pass");
  c->add_option("--print-after", a.opt.print_after, "print after this pass too, or after all");
  c->add_flag("--list-passes", a.opt.list, "name and purpose of every pass");
  c->add_flag("--time-passes", a.opt.time, "milliseconds per pass on stderr");

  c = command("run", "run on a GPU or the simulator, compare with expected results",
              [&a] { return run_command(a.run, a.global); });
  add_plan(*c, a.run.plan);
  add_weights(*c, a.run.plan);
  c->add_option("--device", a.run.device, "auto, sim or a device number")
      ->check([](const std::string& s) {
        if (s == "auto" || s == "sim" || not_a_number(s).empty()) return std::string();
        return fmt::format("give auto, sim or a device number, not '{}'", s);
      });
  add_named(*c, "--input", a.run.inputs, "an input (default: random by --seed)");
  add_named(*c, "--param", a.run.params, "a param (default: its init, by --seed)");
  add_named(*c, "--output", a.run.outputs, "write an output");
  add_named(*c, "--expect", a.run.expects, "compare an output; a mismatch is exit code 5");
  add_set(*c, a.run.scalars,
          "value of a runtime scalar: --set pos=3, or --set pos=step: 0 in the first of --steps "
          "launches, 1 in the next (repeatable)");
  c->add_option("--rtol", a.run.rtol, "relative tolerance per element (default 1e-4)")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--atol", a.run.atol, "absolute tolerance per element (default 1e-6)")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--cosine", a.run.cosine,
                "instead of --rtol and --atol: the least cosine between rows (the last axis)")
      ->check(CLI::Range(0.0, 1.0));
  c->add_option("--seed", a.run.seed, "of random inputs and params (default 1)")
      ->check(not_a_number);
  c->add_option("--steps", a.run.steps, "launches; state carries over (default 1)");
  c->add_flag("--stream", a.run.stream, "launch the kernels one by one, without a graph");
  add_messages(*c, a.run.messages);

  c = command("bench", "time the graph against its kernels launched one by one (needs a GPU)",
              [&a] { return bench_command(a.bench, a.global); });
  add_plan(*c, a.bench.plan);
  add_weights(*c, a.bench.plan);
  c->add_option("--device", a.bench.device, "device number (default 0)")->check(not_a_number);
  add_named(*c, "--input", a.bench.inputs,
            "an input (default: random by --seed); given again: of the next set of --fresh");
  add_named(*c, "--output", a.bench.outputs,
            "write an output; given again: what the next set of inputs gives");
  c->add_option(
       "--fresh", a.bench.fresh,
       "also with other inputs at each launch, of N sets that take turns: bound, and copied "
       "on the device")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{64}));
  c->add_flag("--kernels", a.bench.kernels,
              "also each kernel by itself, beside its predicted time");
  c->add_flag("--dry", a.bench.dry,
              "on the simulator, without times: do all ways to launch agree?");
  c->add_option("--seed", a.bench.seed, "of random inputs and params (default 1)")
      ->check(not_a_number);
  add_set(*c, a.bench.scalars, "value of a runtime scalar: --set pos=3 (repeatable)");
  c->add_option("--seconds", a.bench.seconds, "time to spend per measurement (default 1)")
      ->check(CLI::Range(0.01, 600.0));
  c->add_flag("--json", a.bench.json, "one JSON document on stdout");
  add_messages(*c, a.bench.messages);

  command("env", "what was found: driver, devices, NVRTC, cache",
          [&a] { return env_command(a.global); });

  c = command("explain",
              "what a diagnostic code means; or why an op, kernel or tensor is where it is",
              [&a] { return explain_command(a.explain, a.global); });
  c->add_option("what", a.explain.what,
                "a code, as in error[E0301]; or, with a model, a node (n3, g0.n3), a call (c0), or "
                "the name of an op, kernel or buffer; without it all codes are listed");
  add_plan(*c, a.explain.plan, false);

  c = command("help", "help on braid or on a command", [&a] { return help(a.help); });
  c->add_option("command", a.help, "a command");
}

constexpr const char* kWhat = "Braid compiles op graphs into explicit CUDA graphs.";

/// What `braid NAME --help` prints.
int help(const std::string& name) {
  Arguments a;
  std::function<int()> chosen;
  CLI::App app{kWhat, "braid"};
  add_commands(app, a, chosen);
  std::vector<std::string> known;
  for (const CLI::App* c : app.get_subcommands(nullptr)) known.push_back(c->get_name());
  if (!name.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
    throw UsageError(with_hint("command", name, known));
  }
  try {
    app.parse(name + " --help");
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    app.exit(e, out, out);
    print_out(out.str());
  }
  return kOk;
}

void say_error(const GlobalArgs& g, std::string_view text) {
  if (g.json_diagnostics) {
    Diagnostic d;
    d.message = text;
    say(render_json({d}));
  } else if (stderr_colour(g)) {
    say(fmt::format("{}{}\n",
                    fmt::format(fmt::emphasis::bold | fg(fmt::terminal_color::red), "error: "),
                    text));
  } else {
    say(fmt::format("error: {}\n", text));
  }
}

/// What a report of our own mistake needs.
std::string command_text(int argc, char** argv) {
  std::string text = "braid " BRAID_VERSION " for:";
  for (int i = 0; i < argc; ++i) text += fmt::format(" {}", argv[i]);
  return text;
}

/// A flag names what the model lacks: like an unknown name of an input.
bool of_the_command_line(const Error& e) {
  return std::all_of(e.diagnostics().begin(), e.diagnostics().end(), [](const Diagnostic& d) {
    return d.code == "E0601" || d.code == "E0605";  // --dim, --dtype
  });
}

int guarded(int argc, char** argv, const GlobalArgs& g, const std::function<int()>& run) {
  try {
    return run();
  } catch (const UsageError& e) {
    say_error(g, e.what());
    if (!g.json_diagnostics) {
      say("'braid --help' lists the commands, 'braid COMMAND --help' the options\n");
    }
    return kUsage;
  } catch (const Error& e) {
    show(g, e.diagnostics());
    return of_the_command_line(e) ? kUsage : kModel;
  } catch (const Interrupted& e) {
    say_error(g, e.what());
    return kInterrupted;
  } catch (const NoDevice& e) {
    say_error(g, e.what());
    return kNoDevice;
  } catch (const CudaError& e) {
    say_error(g, e.what());
    return kCuda;
  } catch (const std::bad_alloc&) {
    say_error(g, "out of host memory: the model's tensors do not fit");
    return kModel;
  } catch (const std::exception& e) {
    say_error(g, fmt::format("internal error: {}; please report this line together with the model "
                             "file; {}",
                             e.what(), command_text(argc, argv)));
    return kInternal;
  }
}

int main_of(int argc, char** argv) {
  Arguments a;
  std::function<int()> chosen;
  CLI::App app{kWhat, "braid"};
  add_commands(app, a, chosen);
  return guarded(argc, argv, a.global, [&]() -> int {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) {  // --help, --version
        std::ostringstream out;
        app.exit(e, out, out);
        print_out(out.str());
        return kOk;
      }
      refuse_unknown_words(app, argc, argv);
      throw UsageError(e.what());
    }
    return chosen();
  });
}

/// A standard descriptor that the caller closed would be given to the next file opened, which would
/// then be written as if it were standard output. What stands here instead cannot be used.
void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
      ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

}  // namespace
}  // namespace braid::cli

int main(int argc, char** argv) {
  braid::cli::fill_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the limit is an error of the write instead
  return braid::cli::main_of(argc, argv);
}
