// The tool on machines that lack a driver or NVRTC, or have something else under their names.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "temp_folder.hpp"

namespace fs = std::filesystem;

namespace {

struct Result {
  int code = -1;
  std::string out, err;
};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Runs the tool on the perceptron of the examples.
Result run_tool(const braid::testing::TempFolder& folder, const std::string& variables,
                const std::string& words) {
  const std::string command =
      fmt::format("cd '{0}' && env BRAID_CACHE= NO_COLOR=1 {1} '{2}' {3} > out 2> err < /dev/null",
                  folder.path, variables, BRAID_TOOL, words);
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), text_of(folder.path + "/out"), text_of(folder.path + "/err")};
}

const std::string kModel = "'" BRAID_SOURCE_DIR "/examples/mlp.toml'";

}  // namespace

TEST_CASE("a libcuda that is none: --device 0 is 3 and says what to do, auto simulates") {
  const braid::testing::TempFolder folder;
  std::ofstream(folder.path + "/libcuda.so.1") << "no library";
  const std::string variables = "LD_LIBRARY_PATH='" + folder.path + "'";
  const Result gpu = run_tool(folder, variables, "run --device 0 " + kModel);
  CHECK(gpu.code == 3);
  CHECK(gpu.out.empty());
  CHECK(has(gpu.err, "libcuda.so.1 not found"));
  CHECK(has(gpu.err, "--device=sim"));
  const Result simulated = run_tool(folder, variables, "run " + kModel);
  CHECK(simulated.code == 0);
  CHECK(has(simulated.err, "simulating"));
  CHECK(has(run_tool(folder, variables, "env").out, "none"));
}

TEST_CASE("the toolkit's stub under libcuda's name is told from a driver") {
  const char* home = std::getenv("CUDA_HOME");
  const fs::path stub = fs::path(home ? home : "/usr/local/cuda") / "lib64/stubs/libcuda.so";
  if (!fs::exists(stub)) {
    MESSAGE("skipped: there is no ", stub.string());
    return;
  }
  const braid::testing::TempFolder folder;
  fs::create_symlink(stub, folder.path + "/libcuda.so.1");
  const Result r =
      run_tool(folder, "LD_LIBRARY_PATH='" + folder.path + "'", "run --device 0 " + kModel);
  CHECK(r.code == 3);
  CHECK(has(r.err, "stub"));
}

TEST_CASE("an NVRTC that is none is 3, says why, and leaves no file") {
  const braid::testing::TempFolder folder;
  std::ofstream(folder.path + "/libnvrtc.so.13") << "no library";
  for (const auto& [file, why] :
       {std::pair<std::string, std::string>{folder.path + "/libnvrtc.so.13",
                                            "libnvrtc.so.13: file too short"},
        {"libc.so.6", "libc.so.6: not an NVRTC library"},
        {folder.path, "annot read file data"}}) {
    const Result r =
        run_tool(folder, "BRAID_NVRTC='" + file + "'", "compile " + kModel + " -o m.braid");
    CAPTURE(r.err);
    CHECK(r.code == 3);
    CHECK(r.out.empty());
    CHECK(has(r.err, "NVRTC 12.8 or newer was not found"));
    CHECK(has(r.err, why));
    CHECK(!fs::exists(folder.path + "/m.braid"));
  }
}
