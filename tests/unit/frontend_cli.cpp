// The tool as a process: exit codes, what goes to stdout and to stderr, and the files it leaves.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli_bench.hpp"
#include "frontend/npy.hpp"

using namespace braid;
using namespace braid::testing;
using Json = nlohmann::ordered_json;

TEST_CASE("fine is 0, and the result alone goes to stdout") {
  const Bench b;
  Bench::Result r = b.braid("check m.toml");
  expect(r, 0);
  const std::regex summary("m\\.toml: ok, \\d+ ops, 1 inputs, 1 params, 2 outputs\n");
  CHECK(std::regex_match(r.out, summary));
  CHECK(r.err.empty());
  r = b.braid("--version");
  expect(r, 0);
  CHECK(std::regex_match(r.out, std::regex("braid \\d+\\.\\d+\\.\\d+\n")));
  r = b.braid("--help");
  expect(r, 0);
  CHECK(has(r.out, "Exit codes: 0 fine"));
  for (const char* c :
       {"check", "compile", "inspect", "diff", "opt", "run", "bench", "env", "explain"}) {
    CHECK(has(r.out, c));
    const Bench::Result help = b.braid(std::string(c) + " --help");
    expect(help, 0);
    CHECK(help.err.empty());
  }
  expect(b.braid("env"), 0);
}

TEST_CASE("a wrong model or wrong data is 1") {
  const Bench b;
  write_text(b.at("bad.toml"), text_of(b.at("m.toml")) + "z = \"nowhere\"\n");
  const Bench::Result r = b.braid("check bad.toml");
  expect(r, 1, "bad.toml:17:");
  CHECK(has(r.err, "error[E0204]"));
  CHECK(has(r.err, "z = \"nowhere\""));  // the line itself
  expect(b.braid("check missing.toml"), 1, "cannot read 'missing.toml': No such file");
  fs::create_directory(b.at("folder.toml"));
  expect(b.braid("check folder.toml"), 1, "cannot read 'folder.toml': Is a directory");
  write_text(b.at("bad.bir"), "bir 1\nnonsense");
  expect(b.braid("check bad.bir"), 1, "bad.bir:2:1: error[");
  write_text(b.at("bad.braid"), "BRAIDPRGnonsense");
  expect(b.braid("inspect bad.braid"), 1, "bad.braid is not a usable .braid file");
  expect(b.braid("run m.toml --device sim --dim B=0x10"), 2, "--dim takes NAME=NUMBER");
  expect(b.braid("inspect m.toml --dim Q=3"), 2, "no dim 'Q'");
  expect(b.braid("inspect m.toml --dim B=65"), 1, "64");
}

TEST_CASE("explain and help") {
  const Bench b;
  Bench::Result r = b.braid("explain E0301");
  expect(r, 0);
  CHECK(has(r.out, "E0301: shapes or dtypes do not fit the op\n"));
  CHECK(has(r.out, "Wrong:\n    "));
  CHECK(has(r.out, "Right:\n    "));
  CHECK(b.braid("explain e0301").out == r.out);
  expect(b.braid("explain E0310"), 2, "there is no code 'E0310'; did you mean 'E0");
  expect(b.braid("explain nonsense"), 2, "'braid explain' lists them");
  r = b.braid("explain");
  expect(r, 0);
  CHECK(has(r.out, "E0840  a `.braid` file that is damaged"));

  CHECK(b.braid("help").out == b.braid("--help").out);
  CHECK(b.braid("help run").out == b.braid("run --help").out);
  expect(b.braid("help rnu"), 2, "unknown command 'rnu'; did you mean 'run'?");
}

TEST_CASE("twenty errors are shown, the others counted") {
  const Bench b;
  std::string text = text_of(b.at("m.toml"));
  for (int i = 0; i < 200; ++i) text += fmt::format("out{} = \"nowhere{}\"\n", i, i);
  write_text(b.at("many.toml"), text);
  const auto count = [](const std::string& t, std::string_view part) {
    size_t n = 0;
    for (size_t at = t.find(part); at != std::string::npos; at = t.find(part, at + 1)) ++n;
    return n;
  };
  Bench::Result r = b.braid("check many.toml");
  expect(r, 1, "error: 200 errors (20 shown), 0 warnings\n");
  CHECK(count(r.err, "error[E0204]") == 20);
  CHECK(has(r.err, "nowhere19"));
  CHECK(!has(r.err, "nowhere20"));
  CHECK(count(b.braid("check many.toml --max-errors=3").err, "error[E0204]") == 3);
  r = b.braid("--max-errors 0 check many.toml");
  CHECK(count(r.err, "error[E0204]") == 200);
  CHECK(has(r.err, "error: 200 errors, 0 warnings\n"));
  r = b.braid("check many.toml --diagnostics=json --max-errors 7");
  CHECK(count(r.err, "\"severity\":\"error\"") == 7);
  CHECK(has(r.err, "200 errors, 7 shown"));
  expect(b.braid("check many.toml --max-errors=-1"), 2, "max-errors");
}

TEST_CASE("wrong usage is 2, with what was meant") {
  const Bench b;
  expect(b.braid("inspct m.toml"), 2, "unknown command 'inspct'; did you mean 'inspect'?");
  expect(b.braid("run m.toml --stpes 3"), 2, "unknown option '--stpes'; did you mean '--steps'?");
  expect(b.braid("run m.toml --stpes=3"), 2, "did you mean '--steps'?");
  expect(b.braid("--colour=always run m.toml"), 2, "did you mean '--color'?");
  expect(b.braid("--color always rnu m.toml"), 2, "unknown command 'rnu'; did you mean 'run'?");
  expect(b.braid(""), 2, "braid --help");
  expect(b.braid("run"), 2, "model is required");
  expect(b.braid("run m.toml n.toml"), 2, "n.toml");
  expect(b.braid("run m.txt"), 2, "a model is a .toml, .bir or .braid file");
  expect(b.braid("run m.toml --streams 0"), 2, "--streams");
  expect(b.braid("run m.toml --steps 0"), 2, "--steps");
  expect(b.braid("run m.toml --steps x"), 2, "--steps");
  expect(b.braid("run m.toml --seed -1"), 2);
  expect(b.braid("inspect m.toml --format=xml"), 2, "--format");
  expect(b.braid("inspect m.toml --target sm_91"), 2, "--target takes sm_80, ");
  expect(b.braid("compile m.toml"), 2, "--output");
  expect(b.braid("opt m.toml --until fues"), 2, "did you mean 'fuse'?");
  expect(b.braid("opt"), 2, "which model");
  expect(b.braid("run m.toml --device sim --input q=@x.npy"), 2, "no input 'q'");
  expect(b.braid("run m.toml --device sim --input xx=@x.npy"), 2, "did you mean 'x'?");
  expect(b.braid("run m.toml --device sim --output z=@x.npy"), 2, "no output 'z'");
  expect(b.braid("run m.toml --device sim --param v=@x.npy"), 2, "no param 'v'");
  expect(b.braid("run m.toml --device sim --input x=x.npy"), 2, "--input takes NAME=@FILE.npy");
  expect(b.braid("run m.toml --device sim --output h=@-"), 2,
         "--output h=@-: a tensor is a .npy file of its own");
  CHECK(!fs::exists(b.at("-")));
  expect(b.braid("run m.toml --device nonsense"), 2,
         "--device: give auto, sim or a device number, not 'nonsense'");
  expect(b.braid("run m.toml --device=-1"), 2, "give auto, sim or a device number, not '-1'");
  expect(b.braid("check m.toml --dump-dir d"), 2,
         "'check' has no option --dump-dir, but these have: compile inspect diff opt run bench "
         "explain");
  CHECK(!has(b.braid("check --help").out, "--verify"));
  expect(b.braid("bench m.toml --device sim"), 2, "--device");
}

TEST_CASE("global options take their values in both forms, before and after the command") {
  const Bench b;
  expect(b.braid("--color always check m.toml"), 0);
  expect(b.braid("--color=never -q check m.toml"), 0);
  expect(b.braid("check m.toml --diagnostics json"), 0);
  expect(b.braid("--diagnostics json check m.toml"), 0);
  expect(b.braid("check -- m.toml"), 0);
}

TEST_CASE("without a GPU --device 0 is 3, and auto simulates and says so") {
  const Bench b;
  if (gpu_is_there(b)) return;
  expect(b.braid("run m.toml --device 0"), 3, "error: ");
  expect(b.braid("bench m.toml"), 3, "error: ");
  const Bench::Result r = b.braid("run m.toml");
  expect(r, 0, "simulating: ");
  CHECK(b.braid("run m.toml -q").err.empty());
  CHECK(b.braid("run m.toml -q").out == r.out);
  CHECK(b.braid("run m.toml --device sim").err.empty());
  CHECK(b.braid("run m.toml --device sim").out == r.out);
}

TEST_CASE("NVRTC that cannot be loaded is 3") {
  const Bench b;
  const Bench::Result r = b.braid("compile m.toml -o m.braid", "BRAID_NVRTC=/nowhere/libnvrtc.so");
  expect(r, 3, "NVRTC 12.8 or newer was not found");
  CHECK(!fs::exists(b.at("m.braid")));
  const Bench::Result cpp = b.braid("inspect m.toml --format=cpp", "BRAID_NVRTC=/nowhere/lib.so");
  expect(cpp, 3, "NVRTC 12.8 or newer was not found");
  CHECK(cpp.out.empty());
}

TEST_CASE("the dumps have the same bytes on every run") {
  const Bench b;
  for (const char* format : {"text", "json", "program", "dot", "html"}) {
    const std::string words = fmt::format("inspect m.toml --format={}", format);
    const Bench::Result r = b.braid(words);
    expect(r, 0);
    CHECK(r.out.size() > 200);
    CHECK(r.err.empty());
    CHECK(b.braid(words).out == r.out);
  }
  CHECK(Json::parse(b.braid("inspect m.toml --format=json").out)["schema"] == "braid.report/1");
  CHECK(Json::parse(b.braid("inspect m.toml --format=program").out)["schema"] == "braid.program/1");
  CHECK(has(b.braid("inspect m.toml --source").out, "__global__"));
  CHECK(has(b.braid("inspect m.toml --source --format=program").out, "__global__"));
  CHECK(!has(b.braid("inspect m.toml").out, "__global__"));
  CHECK(b.braid("opt m.toml").out == b.braid("opt m.toml").out);
}

TEST_CASE("standard input is a model, TOML or .bir") {
  const Bench b;
  const Bench::Result toml = b.braid("inspect - < m.toml");
  expect(toml, 0);
  const auto without_places = [](const std::string& s) {
    return std::regex_replace(s, std::regex("(<stdin>|m\\.toml)[:0-9]* *"), "");
  };
  CHECK(without_places(toml.out) == without_places(b.braid("inspect m.toml").out));
  expect(b.braid("opt m.toml --until simplify > m.bir"), 0);
  expect(b.braid("check - < m.bir"), 0);
  expect(b.braid("inspect m.bir"), 0);
  expect(b.braid("check -"), 1, "<stdin>");
}

TEST_CASE("compile never takes a model's name for its output") {
  const Bench b;
  const std::string model = text_of(b.at("m.toml"));
  expect(b.braid("compile m.toml -o m.toml"), 2, "that is a model's name");
  expect(b.braid("compile m.toml -o other.bir"), 2, "that is a model's name");
  expect(b.braid("compile m.toml -o a.txt"), 2,
         "-o a.txt: the name of a compiled model ends in .braid");
  expect(b.braid("compile m.toml -o -"), 2, "ends in .braid");
  CHECK(text_of(b.at("m.toml")) == model);
  CHECK(b.files() == std::set<std::string>{"m.toml"});
}

TEST_CASE("a compiled file shows and computes what its model does") {
  const Bench b;
  if (!nvrtc_is_there(b)) return;
  Bench::Result r = b.braid("compile m.toml -o m.braid");
  expect(r, 0, "wrote m.braid");
  CHECK(r.out.empty());
  const std::string file = text_of(b.at("m.braid"));
  for (const char* format : {"text", "json", "program", "dot", "html", "text --show=all"}) {
    CHECK(b.braid(fmt::format("inspect m.braid --format={}", format)).out ==
          b.braid(fmt::format("inspect m.toml --format={}", format)).out);
  }
  r = b.braid("inspect m.braid --format=cpp", "BRAID_NVRTC=/nowhere/libnvrtc.so");
  expect(r, 0);
  CHECK(has(r.out, "CALL(cuGraphAddNode(&n0, g0, "));
  CHECK(r.out == b.braid("inspect m.toml --format=cpp").out);
  r = b.braid("run m.braid --device sim --seed 3");
  CHECK(has(r.err, " random values: --weights FILE gives them others"));
  expect(r, 0);
  CHECK(r.out == b.braid("run m.toml --device sim --seed 3").out);
  CHECK(r.out != b.braid("run m.toml --device sim --seed 4").out);
  expect(b.braid("check m.braid"), 0);
  expect(b.braid("compile m.toml -o m.braid"), 0);  // from the cache now: the same bytes
  CHECK(text_of(b.at("m.braid")) == file);
  CHECK(b.files() == std::set<std::string>{"m.toml", "m.braid"});
  expect(b.braid("compile m.braid -o n.braid"), 2, "compiled already");
  expect(b.braid("run - --device sim < m.braid"), 2, "cannot come from standard input");
  expect(b.braid("run m.braid --device sim --no-fuse"), 2, "compiled already");
  expect(b.braid("opt m.braid"), 2, "compiled already");
  write_text(b.at("cut.braid"), file.substr(0, file.size() / 2));
  expect(b.braid("run cut.braid --device sim"), 1, "cut short");
}

TEST_CASE("outputs go to files, and --expect compares with them") {
  const Bench b;
  const std::string run = "run m.toml --device sim ";
  expect(b.braid(run + "--output y=@y.npy --output h=@h.npy"), 0);
  Bench::Result r = b.braid(run + "--expect y=@y.npy --expect h=@h.npy");
  expect(r, 0);
  CHECK(has(r.out, "as expected"));
  HostTensor y = read_npy(b.at("y.npy"));
  CHECK(y.type == TensorType{DType::f32, {4, 5}});
  for (int row = 0; row < 4; ++row) {  // it is a softmax
    double sum = 0;
    for (int i = 0; i < 5; ++i) sum += y.at(row * 5 + i);
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-6));
  }
  y.set(7, y.at(7) + 0.01);
  write_npy(b.at("y.npy"), y);
  r = b.braid(run + "--expect y=@y.npy");
  expect(r, 5);
  CHECK(has(r.out, "MISMATCH"));
  CHECK(has(r.out, "1 of 20 elements differ; the worst is element 7"));
  expect(b.braid(run + "--expect y=@y.npy --atol 0.02"), 0);
  expect(b.braid(run + "--seed 2 --expect h=@h.npy"), 5);
  expect(b.braid(run + "--stream --no-fuse --expect h=@h.npy"), 0);
  expect(b.braid(run + "--steps 3 --expect h=@h.npy"), 0);
  CHECK(b.files() == std::set<std::string>{"m.toml", "y.npy", "h.npy"});
}

TEST_CASE("inputs and params come from files that fit") {
  const Bench b;
  const std::string run = "run m.toml --device sim ";
  const HostTensor x = random_tensor({DType::f32, {4, 8}}, 31, "x");
  const HostTensor w = random_tensor({DType::f64, {8, 5}}, 32, "w");  // converted
  HostTensor h(TensorType{DType::f32, {4, 5}});
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) {
      double sum = 0;
      for (int k = 0; k < 8; ++k) sum += x.at(i * 8 + k) * w.at(k * 5 + j);
      h.set(i * 5 + j, sum);
    }
  }
  write_npy(b.at("x.npy"), x);
  write_npy(b.at("w.npy"), w);
  write_npy(b.at("h.npy"), h);
  expect(b.braid(run + "--input x=@x.npy --param w=@w.npy --expect h=@h.npy"), 0);
  expect(b.braid(run + "--param w=@w.npy --expect h=@h.npy"), 5);
  expect(b.braid(run + "--input x=@x.npy --expect h=@h.npy"), 5);
  expect(b.braid(run + "--input x=@h.npy"), 1,
         "error[E0802]: 'x' is f32[4,8], but h.npy holds f32[4,5]");
  expect(b.braid(run + "--dim B=3 --input x=@x.npy"), 1, "--dim B=3, but x.npy for 'x' has 4");
  expect(b.braid(run + "--param w=@x.npy"), 1, "'w' is f32[8,5]");
  expect(b.braid(run + "--expect h=@x.npy"), 1, "'h' is f32[4,5]");
  write_npy(b.at("i.npy"), random_tensor({DType::i32, {4, 8}}, 1, "i"));
  expect(b.braid(run + "--input x=@i.npy"), 1, "convert the file");
  expect(b.braid(run + "--input x=@missing.npy"), 1, "missing.npy");
  HostTensor large(TensorType{DType::f64, {4, 8}});
  for (int i = 0; i < 32; ++i) large.set(i, i == 17 ? 1e300 : 0.5);
  write_npy(b.at("large.npy"), large);
  expect(b.braid(run + "--input x=@large.npy"), 1,
         "large.npy for 'x': element 17 is 1e+300, which f32 cannot hold");
  expect(b.braid(run + "--input x=@x.npy --input x=@x.npy"), 2, "--input 'x' is given twice");
  expect(b.braid(run + "--expect h=@h.npy --rtol=-1"), 2, "rtol");
  expect(b.braid(run + "--input x=@m.toml"), 1, "m.toml");
}

TEST_CASE("what cannot be written is 1, and nothing temporary is left") {
  const Bench b;
  const std::string run = "run m.toml --device sim ";
  fs::create_directories(b.at("folder/full"));
  expect(b.braid(run + "--output y=@folder"), 1, "folder");
  expect(b.braid(run + "--output y=@nowhere/y.npy"), 1, "nowhere/y.npy");
  write_text(b.at("file"), "x");
  expect(b.braid("inspect m.toml --dump-dir file"), 1, "dump folder: file");
  expect(b.braid("inspect m.toml --dump-dir file/below"), 1, "dump folder: file/below");
  std::set<std::string> left{"m.toml", "folder", "file"};
  CHECK(b.files() == left);
  if (nvrtc_is_there(b)) {
    expect(b.braid("compile m.toml -o folder"), 1, "cannot write folder: Is a directory");
    expect(b.braid("compile m.toml -o nowhere/m.braid"), 1, "No such file or directory");
    CHECK(b.files() == left);
    expect(b.braid("compile m.toml -o whole.braid"), 0);
    CHECK(fs::is_regular_file(b.at("whole.braid")));
    left.insert("whole.braid");
    // A pipe stays one.
    REQUIRE(std::system(fmt::format("mkfifo '{}'", b.at("pipe")).c_str()) == 0);
    expect(b.braid("compile m.toml -o pipe & cat pipe > copy; wait $!"), 0);
    CHECK(fs::is_fifo(b.at("pipe")));
    CHECK(text_of(b.at("copy")) == text_of(b.at("whole.braid")));
    left.insert({"pipe", "copy"});
  }
  if (::geteuid() != 0) {  // root may write anywhere
    fs::permissions(b.at("folder"), fs::perms::owner_read | fs::perms::owner_exec);
    expect(b.braid(run + "--output y=@folder/y.npy"), 1, "Permission denied");
    fs::permissions(b.at("folder"), fs::perms::owner_all);
  }
  CHECK(b.files() == left);
  CHECK(fs::is_empty(b.at("folder/full")));
}

TEST_CASE("standard output that is closed or full is an error, never somebody else's file") {
  const Bench b;
  for (const char* words : {"check m.toml >&-", "inspect m.toml >&-", "run m.toml --device sim >&-",
                            "opt --list-passes >&-", "--help >&-", "env >&-"}) {
    INFO(words);
    expect(b.braid(words), 1, "cannot write to standard output");
  }
  expect(b.braid("inspect m.toml > /dev/full"), 1, "cannot write to standard output");
  expect(b.braid("run m.toml --device sim --output y=@y.npy >&-"), 1);
  CHECK(read_npy(b.at("y.npy")).numel() == 20);
}

TEST_CASE("standard error that is closed or full changes no exit code") {
  const Bench b;
  for (const char* to : {"2>&-", "2>/dev/full"}) {
    CHECK(b.braid(std::string("check missing.toml ") + to).code == 1);
    CHECK(b.braid(std::string("rnu ") + to).code == 2);
    CHECK(b.braid(std::string("compile m.toml -o x.braid ") + to, "BRAID_NVRTC=/nowhere").code ==
          3);
    const Bench::Result r = b.braid(std::string("run m.toml --device auto ") + to);
    CHECK(r.code == 0);
    CHECK(has(r.out, "y f32[4,5]"));
    CHECK(b.braid(std::string("opt m.toml --time-passes ") + to).code == 0);
  }
  CHECK(b.braid("check m.toml <&- >&- 2>&-").code == 1);
  CHECK(b.braid("check - <&-").code == 1);
}

TEST_CASE("opt lists its passes, stops where told and prints after each") {
  const Bench b;
  const Bench::Result list = b.braid("opt --list-passes");
  expect(list, 0);
  std::vector<std::string> passes;
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);) {
    passes.push_back(line.substr(0, line.find(' ')));
    CHECK(line.size() > 12);  // with a purpose
  }
  REQUIRE(passes.size() >= 5);
  CHECK(std::find(passes.begin(), passes.end(), "simplify") != passes.end());
  for (const std::string& pass : passes) {
    INFO(pass);
    const Bench::Result r = b.braid("opt m.toml --until " + pass);
    expect(r, 0);
    CHECK(!r.out.empty());
    CHECK(!has(r.out, "; after"));
  }
  const Bench::Result all = b.braid("opt m.toml --print-after all --until fuse --time-passes");
  expect(all, 0, " ms\n");
  size_t at = 0;
  for (const std::string& pass : passes) {
    const size_t next = all.out.find("; after " + pass + "\n", at);
    REQUIRE(next != std::string::npos);
    at = next;
    if (pass == "fuse") break;
  }
  CHECK(all.out.find("; after ", at + 1) == std::string::npos);
}

TEST_CASE("--dump-dir writes every stage, the plan and the kernels") {
  const Bench b;
  expect(b.braid("inspect m.toml --dump-dir dump/here"), 0);
  std::set<std::string> names;
  for (const auto& e : fs::directory_iterator(b.at("dump/here"))) {
    names.insert(e.path().filename().string());
  }
  for (const char* name :
       {"00-input.bir", "program.txt", "program.json", "program.dot", "kernels"}) {
    CHECK_MESSAGE(names.contains(name), name);
  }
  std::istringstream lines(b.braid("opt --list-passes").out);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string stage = fmt::format("{:02}-{}.", ++count, line.substr(0, line.find(' ')));
    CHECK_MESSAGE((names.contains(stage + "bir") || names.contains(stage + "txt")), stage);
  }
  CHECK(has(b.braid("inspect m.toml --show=all").out, text_of(b.at("dump/here/program.txt"))));
  CHECK(text_of(b.at("dump/here/program.json")) == b.braid("inspect m.toml --format=program").out);
  CHECK(text_of(b.at("dump/here/program.dot")) == b.braid("inspect m.toml --format=dot").out);
  CHECK(has(text_of(b.at("dump/here/kernels/module0.cu")), "__global__"));
  expect(b.braid("check dump/here/00-input.bir"), 0);
}

TEST_CASE("diagnostics as JSON: one object a line, whatever went wrong") {
  const Bench b;
  std::string bad = text_of(b.at("m.toml"));
  bad.replace(bad.find("\"h\"]"), 4, "\"hh\"]");
  write_text(b.at("bad.toml"), bad + "z = \"nowhere\"\n");
  const auto objects = [](const std::string& text) {
    std::vector<Json> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      REQUIRE(Json::accept(line));
      all.push_back(Json::parse(line));
    }
    return all;
  };
  Bench::Result r = b.braid("check bad.toml --diagnostics=json");
  expect(r, 1);
  std::vector<Json> all = objects(r.err);
  REQUIRE(all.size() == 2);
  CHECK(all[0]["file"] == "bad.toml");
  CHECK(all[0]["line"] == 12);
  CHECK(all[0]["col"].get<int>() > 1);
  CHECK(all[0]["end_line"] == 12);
  CHECK(all[0]["end_col"] > all[0]["col"]);
  CHECK(all[0]["severity"] == "error");
  CHECK(all[0]["code"] == "E0204");
  CHECK(all[1]["line"] == 17);
  for (const auto& [words, code] : std::vector<std::pair<std::string, int>>{
           {"check missing.toml", 1}, {"rnu", 2}, {"run m.toml --stpes", 2}, {"run", 2}}) {
    r = b.braid("--diagnostics=json " + words);
    expect(r, code);
    all = objects(r.err);
    REQUIRE(all.size() == 1);
    CHECK(all[0]["severity"] == "error");
    CHECK(!all[0]["message"].get<std::string>().empty());
  }
  r = b.braid("--diagnostics=json compile m.toml -o m.braid", "BRAID_NVRTC=/nowhere");
  expect(r, 3);
  REQUIRE(objects(r.err).size() == 1);
  if (!gpu_is_there(b)) {
    r = b.braid("run m.toml --diagnostics=json");
    expect(r, 0);
    all = objects(r.err);
    REQUIRE(all.size() == 1);
    CHECK(all[0]["severity"] == "note");
  }
}

TEST_CASE("colour on stderr by request only") {
  const Bench b;
  const std::string escape = "\x1b[";
  CHECK(has(b.braid("check missing.toml --color=always").err, escape));
  CHECK(has(b.braid("--color=always rnu").err, escape));
  CHECK(!has(b.braid("check missing.toml").err, escape));
  CHECK(!has(b.braid("--color=never check missing.toml").err, escape));
  CHECK(!has(b.braid("--color=always inspect m.toml").out, escape));
}

TEST_CASE("a model whose file name is not UTF-8 can be shown") {
  const Bench b;
  fs::copy_file(b.at("m.toml"), b.at("caf\xe9.toml"));
  const Bench::Result r = b.braid("inspect --format=json 'caf\xe9.toml'");
  expect(r, 0);
  CHECK(Json::accept(r.out));
}
